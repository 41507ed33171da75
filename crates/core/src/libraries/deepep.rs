//! DeepEP: `EP_NIC_NAME`, the NIC whose rate DeepEP assumes for all NICs.
//!
//! By default DeepEP asks ibstat for the rate of `mlx5_0`, which may be a storage NIC or missing
//! (deep_ep/utils/envs.py `get_rdma_gbs`).

use super::{Answer, Library, Query, has_gpu_of, nccl, ours};
use crate::diagnostic::Diagnostic;
use crate::placement::Variable;
use crate::topology::{GpuVendor, NicKind, Topology};

pub const LIBRARY: Library = Library {
    name: "DeepEP",
    word: "deepep",
    by_default: true,
    variables: &[("EP_NIC_NAME", nic_name)],
    caveat,
    uniform: "EP_NIC_NAME",
    ..Library::NONE
};

/// `None` if `mlx5_0` is a rail, or without NVIDIA's GPUs or verbs rails, which DeepEP needs.
fn nic_name(query: &Query) -> Option<Answer> {
    let rails = &query.map.rails;
    let first = rails.first()?;
    if !query.has_gpu_of(GpuVendor::Nvidia)
        || rails.iter().any(|rail| rail.name == "mlx5_0")
        || query.node.nic(first.nic).kind != NicKind::Verbs
    {
        return None;
    }
    let why = "DeepEP asks `mlx5_0` for its rate, which is no NIC of this node that may be chosen";
    Some(Answer::yes(first.name.to_string(), why))
}

/// A warning beside `NCCL_CROSS_NIC=0`: without hybrid mode DeepEP's `ElasticBuffer` needs GPUs
/// that reach every rail (csrc/kernels/backend/nccl.cu; NCCL 2.30: src/gin/gin_host.cc
/// `ncclGetGinType`).
fn caveat(node: &Topology, variables: &[Variable]) -> Option<Diagnostic> {
    ours(variables, nccl::CROSS_NIC).filter(|_| has_gpu_of(node, GpuVendor::Nvidia))?;
    let text = "DeepEP's `ElasticBuffer` then needs its hybrid mode, or `EP_DISABLE_GIN=1`: else it ends in an assertion";
    Some(Diagnostic::new(nccl::CROSS_NIC, text))
}

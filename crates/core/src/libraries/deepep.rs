//! DeepEP: `EP_NIC_NAME`, the NIC whose rate it takes for the rate of all.
//!
//! It asks ibstat for `mlx5_0` unless the variable names another (deep_ep/utils/envs.py `get_rdma_gbs`), which may be a storage
//! NIC or none.
#![forbid(unsafe_code)]

use super::{Answer, Library, Query, has_gpu_of, nccl, ours};
use crate::diagnostic::Diagnostic;
use crate::placement::Variable;
use crate::topology::{GpuVendor, NicKind, Topology};

pub(super) const LIBRARY: Library = Library {
    name: "DeepEP",
    word: "deepep",
    by_default: true,
    variables: &[(NIC_NAME, nic_name)],
    caveat,
    uniform: NIC_NAME,
    ..Library::NONE
};

const NIC_NAME: &str = "EP_NIC_NAME";
const DEFAULT: &str = "mlx5_0";

/// The node's first rail; no answer where the default is right, or where DeepEP cannot run.
fn nic_name(query: &Query) -> Option<Answer> {
    let rails = &query.node.rails;
    let first = rails
        .first()
        .filter(|_| query.has_gpu_of(GpuVendor::Nvidia))?;
    let is_right = rails.iter().any(|rail| rail.name == DEFAULT);
    if is_right || query.topology.nic(first.nic).kind != NicKind::Verbs {
        return None;
    }
    let why = "DeepEP asks `mlx5_0` for its rate, which is no NIC of this node that may be chosen";
    Some(Answer::yes(first.name.to_string(), why))
}

/// Without its hybrid mode DeepEP's `ElasticBuffer` wants GPUs that reach every rail (csrc/kernels/backend/nccl.cu; NCCL 2.30:
/// src/gin/gin_host.cc `ncclGetGinType`).
fn caveat(topology: &Topology, variables: &[Variable]) -> Option<Diagnostic> {
    let text = "DeepEP's `ElasticBuffer` then needs its hybrid mode, or `EP_DISABLE_GIN=1`: else it ends in an assertion";
    ours(variables, nccl::CROSS_NIC)
        .filter(|_| has_gpu_of(topology, GpuVendor::Nvidia))
        .map(|_| Diagnostic::new(nccl::CROSS_NIC, text))
}

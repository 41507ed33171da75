//! MPICH over libfabric, on demand (`env=mpich`): `MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY=1`, by which it takes a NIC nearest to the
//! GPU.
//!
//! Without it MPICH goes by the CPUs of the process.  With it ranks that have the same nearest NICs take these in turn.  It looks
//! at the GPU of the process's CUDA context, or at the first one, so all GPUs that a task sees must have one nearest NIC in
//! common; and it is built for CUDA alone (pmodels/mpich's src/mpid/ch4/netmod/ofi/ofi_nic.c `refine_nic_close_by_gpu`: in
//! 5.1.0a1; 5.0.2 and earlier releases do not read it).
#![forbid(unsafe_code)]

use super::{Answer, Library, Query, libfabric};
use crate::topology::{GpuVendor, NicIndex, NicKind};

pub(super) const LIBRARY: Library = Library {
    name: "MPICH",
    word: "mpich",
    variables: &[(GPU_AFFINITY, gpu_affinity)],
    evidence: &[PREFERRED],
    ..Library::NONE
};

const GPU_AFFINITY: &str = "MPIR_CVAR_CH4_OFI_NIC_GPU_AFFINITY";
/// The number of the NIC that MPICH is to take, whatever is near.
const PREFERRED: &str = "MPIR_CVAR_CH4_OFI_PREF_NIC";

/// The switch; no answer on nodes without a NIC, or without a GPU that CUDA knows.
fn gpu_affinity(query: &Query) -> Option<Answer> {
    let &Query { topology, node, .. } = query;
    let kinds = [NicKind::Slingshot, NicKind::Efa, NicKind::Verbs];
    let kind = kinds.into_iter().find(|kind| query.nics_of(*kind).next().is_some())?;
    query.has_gpu_of(GpuVendor::Nvidia).then_some(())?;
    let rails: Vec<NicIndex> = node.rails.iter().map(|rail| rail.nic).collect();
    let usable = if kind == NicKind::Verbs { &rails } else { &node.left_to_libfabric };
    Some(match libfabric::of_all(query, &libfabric::nearest(topology, usable, kind), LIBRARY.name) {
        Ok(_) => Answer::yes("1", "MPICH 5.1 then takes a NIC nearest to the GPU").unless(&[(
            query.users(PREFERRED).is_some(),
            "the user's `MPIR_CVAR_CH4_OFI_PREF_NIC` chooses the NIC",
        )]),
        Err(no) => no,
    })
}

//! Cray MPICH: `MPICH_OFI_NIC_POLICY=GPU` on Slingshot, the same word in every task: the NIC nearest to the GPU in use.
//!
//! The default, `BLOCK`, goes by rank, which is wrong for most ranks where the NICs hang off the GPUs (HPE's man page
//! intro_mpi; OLCF's guide to Crusher).  `GPU` needs an MPI that handles GPU memory.  MPI_Init looks up the GPU in use
//! (pmodels/mpich issue 7951), and chooses among the devices that libfabric shows, so `GPU` does not go with a task's
//! own device in `FI_CXI_DEVICE_NAME`.  `SHMEM_OFI_NIC_POLICY` has no `GPU`.
#![forbid(unsafe_code)]

use super::libfabric::{self, CXI_DEVICE, NIC_POLICY};
use super::{Answer, Library, Query};
use crate::topology::NicKind;

pub(super) const LIBRARY: Library = Library {
    name: "Cray MPICH",
    word: "cray-mpich",
    by_default: true,
    variables: &[(NIC_POLICY, nic_policy)],
    evidence: &[NIC_MAPPING, NUM_NICS, GPU_SUPPORT],
    uniform: "MPICH_OFI_* SHMEM_OFI_*",
    ..Library::NONE
};

const NIC_MAPPING: &str = "MPICH_OFI_NIC_MAPPING";
const NUM_NICS: &str = "MPICH_OFI_NUM_NICS";
const GPU_SUPPORT: &str = "MPICH_GPU_SUPPORT_ENABLED";

/// The policy; no answer without Slingshot NICs or GPUs.
fn nic_policy(query: &Query) -> Option<Answer> {
    let present = query.evidence.present;
    if query.nics_of(NicKind::Slingshot).next().is_none() || query.topology.gpus.is_empty() {
        return None;
    }
    let is_the_steps = libfabric::is_the_steps(present);
    if let Err(no) = libfabric::of_all(query, &query.prepared.slingshot, LIBRARY.name) {
        return Some(no);
    }
    let is_set = |name: &str| query.users(name).is_some();
    let answer = Answer::yes(
        "GPU",
        "Cray MPICH then takes the NIC nearest to the rank's GPU",
    );
    Some(answer.unless(&[
        (
            query.nics_of(NicKind::Slingshot).filter(|nic| is_the_steps(&nic.name)).count() < 2,
            "the step has one Slingshot NIC at most",
        ),
        (
            is_set(CXI_DEVICE) || query.has_word(libfabric::WORD),
            "`FI_CXI_DEVICE_NAME` chooses the device, and the policy would count devices anew",
        ),
        (
            is_set(NIC_MAPPING) || is_set(NUM_NICS),
            "the user's own `MPICH_OFI_NIC_MAPPING` or `MPICH_OFI_NUM_NICS` belongs to another policy",
        ),
        (
            present.get(GPU_SUPPORT).is_none_or(|value| value != "1"),
            "Cray MPICH finds a rank's GPU only with `MPICH_GPU_SUPPORT_ENABLED=1`, which is not set",
        ),
    ]))
}

//! Cray MPICH on Slingshot: with `MPICH_OFI_NIC_POLICY=GPU` a rank takes the NIC nearest to its
//! GPU.
//!
//! The default, `BLOCK`, assigns NICs by rank, wrong for most ranks if NICs hang off the GPUs
//! (HPE's man page intro_mpi; OLCF's guide to Crusher). `GPU` needs an MPI that handles GPU memory.
//! MPI_Init seeks the current GPU's NIC among libfabric's devices (pmodels/mpich issue 7951), so
//! `GPU` conflicts with the task's `FI_CXI_DEVICE_NAME`. `SHMEM_OFI_NIC_POLICY` has no `GPU`.

use super::libfabric::{self, CXI_DEVICE, NIC_POLICY};
use super::{Answer, Library, Query};
use crate::topology::NicKind;

pub const LIBRARY: Library = Library {
    name: "Cray MPICH",
    word: "cray-mpich",
    by_default: true,
    variables: &[(NIC_POLICY, nic_policy)],
    evidence: &[
        "MPICH_OFI_NIC_MAPPING",
        "MPICH_OFI_NUM_NICS",
        "MPICH_GPU_SUPPORT_ENABLED",
    ],
    uniform: "MPICH_OFI_* SHMEM_OFI_*",
    ..Library::NONE
};

/// `None` without Slingshot NICs or without GPUs.
fn nic_policy(query: &Query) -> Option<Answer> {
    let slingshot = || query.nics_of(NicKind::Slingshot);
    if slingshot().next().is_none() || query.node.gpus.is_empty() {
        return None;
    }
    if let Err(no) = libfabric::of_all(query, &query.prepared.slingshot, LIBRARY.name) {
        return Some(no);
    }
    let is_the_steps = libfabric::is_the_steps(query.evidence.present);
    let is_set = |name: &str| query.users(name).is_some();
    let why = "Cray MPICH then takes the NIC nearest to the rank's GPU";
    Some(Answer::yes("GPU", why).unless(&[
        (
            slingshot().filter(|nic| is_the_steps(&nic.name)).count() < 2,
            "the step has one Slingshot NIC at most",
        ),
        (
            is_set(CXI_DEVICE) || query.has_word(libfabric::WORD),
            "`FI_CXI_DEVICE_NAME` chooses the device, and the policy would count devices anew",
        ),
        (
            is_set("MPICH_OFI_NIC_MAPPING") || is_set("MPICH_OFI_NUM_NICS"),
            "the user's own `MPICH_OFI_NIC_MAPPING` or `MPICH_OFI_NUM_NICS` belongs to another policy",
        ),
        (
            query.value("MPICH_GPU_SUPPORT_ENABLED") != Some("1"),
            "Cray MPICH finds a rank's GPU only with `MPICH_GPU_SUPPORT_ENABLED=1`, which is not set",
        ),
    ]))
}

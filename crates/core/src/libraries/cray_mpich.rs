//! Cray MPICH: `MPICH_OFI_NIC_POLICY=GPU` on Slingshot, the same word in every task: the NIC nearest to the GPU in use.
//!
//! The library asks which GPU that is in MPI_Init, and a program that chooses its GPU later has GPU 0 there
//! (pmodels/mpich issue 7951).  So we set it only where all GPUs that a task sees have one nearest NIC in common.
//!
//! Its default, `BLOCK`, deals NICs out by rank.  That is wrong for most ranks on machines whose NICs hang
//! off the GPUs (HPE's man page intro_mpi; OLCF's guide to Crusher).  `GPU` needs an MPI that handles GPU
//! memory, so we set it only for programs with `MPICH_GPU_SUPPORT_ENABLED=1`: its effect on others is
//! undocumented.  The policy chooses among the devices that libfabric shows.  So it does not go with a task's
//! own device in `FI_CXI_DEVICE_NAME`, nor with the user's `MPICH_OFI_NIC_MAPPING` and `MPICH_OFI_NUM_NICS`,
//! which belong to other policies.  We leave `SHMEM_OFI_NIC_POLICY` alone: it has no `GPU`.
#![forbid(unsafe_code)]

use super::libfabric;
use super::slingshot::{self, CXI_DEVICE};
use super::wanted::Libraries;
use super::{Answer, Asked};
use crate::topology::NicKind;

pub(super) const NIC_MAPPING: &str = "MPICH_OFI_NIC_MAPPING";
pub(super) const NUM_NICS: &str = "MPICH_OFI_NUM_NICS";
pub(super) const GPU_SUPPORT: &str = "MPICH_GPU_SUPPORT_ENABLED";

/// The policy; no answer if the node has no Slingshot NIC or no GPU.
pub(super) fn nic_policy<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let topology = asked.topology;
    let slingshot = topology.nics.iter().filter(|nic| nic.kind == NicKind::Slingshot);
    let is_the_steps = slingshot::is_the_steps(asked.evidence.present);
    let names: Vec<&str> = slingshot.map(|nic| nic.name.as_str()).collect();
    if names.is_empty() || topology.gpus.is_empty() {
        return None;
    }
    let no = |why: &'static str| Some(Answer::no(why));
    if asked.task.gpus.is_empty() {
        return no("a task without GPUs is left to Cray MPICH");
    }
    if libfabric::of_all(&asked.prepared.slingshot, &asked.task.seen).is_none() {
        return no(
            "its GPUs have several nearest NICs, and Cray MPICH may ask before the program chooses one",
        );
    }
    if names.iter().filter(|name| is_the_steps(name)).count() < 2 {
        return no("the step has one Slingshot NIC at most");
    }
    if asked.users(CXI_DEVICE).is_some() || asked.prepared.wanted.libraries.has(Libraries::LIBFABRIC) {
        return no("`FI_CXI_DEVICE_NAME` chooses the device, and the policy would count devices anew");
    }
    if asked.users(NIC_MAPPING).is_some() || asked.users(NUM_NICS).is_some() {
        return no(
            "the user's own `MPICH_OFI_NIC_MAPPING` or `MPICH_OFI_NUM_NICS` belongs to another policy",
        );
    }
    if asked.evidence.present.get(GPU_SUPPORT).is_none_or(|value| value != "1") {
        return no("Cray MPICH finds a rank's GPU only with `MPICH_GPU_SUPPORT_ENABLED=1`, which is not set");
    }
    Some(Answer::yes("GPU", "Cray MPICH then takes the NIC nearest to the rank's GPU"))
}

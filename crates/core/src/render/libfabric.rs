//! libfabric, on demand (`env=default+libfabric`): the task's own device for the cxi and verbs providers.
//!
//! `FI_CXI_DEVICE_NAME` takes exact names, and one wrong name makes it ignore the whole value.  Each device
//! must be one that Slurm set up for the step.  `FI_VERBS_DEVICE_NAME` takes beginnings of names, so `mlx5_1`
//! would admit `mlx5_10`: we do not set a name that begins another one.  (libfabric: man pages fi_cxi(7) and
//! fi_verbs(7); prov/verbs/src/fi_verbs.c.)
//!
//! This suits MPI libraries that open one device per process.  It does not suit NCCL's plug-in over
//! libfabric, which counts the devices of all ranks, nor Cray MPICH's own policy.  So it is off by default.
#![forbid(unsafe_code)]

use super::slingshot::{self, NIC_POLICY};
use super::template::names_of;
use super::wanted::Fabric;
use super::{Answer, Asked};
use crate::topology::{Gpu, NicIndex, NicKind, PathType, PortState, Topology};

pub(super) const VERBS_DEVICE: &str = "FI_VERBS_DEVICE_NAME";

/// The Slingshot NIC of each GPU: the nearest; GPUs take equally near ones in turn.
pub(super) fn nearest_slingshot(topology: &Topology) -> Vec<Option<NicIndex>> {
    let active = |port: PortState| matches!(port, PortState::Active | PortState::Unknown);
    let nics = || {
        let nics = topology.numbered_nics().filter(|(_, nic)| nic.kind == NicKind::Slingshot);
        nics.filter(|(_, nic)| nic.ports.iter().any(|port| active(port.state)))
            .filter_map(|(index, nic)| Some((index, nic.address?)))
    };
    let mut seen: Vec<(Vec<NicIndex>, usize)> = Vec::new();
    let of = |gpu: &Gpu| {
        let reached: Vec<(NicIndex, PathType)> =
            nics().map(|(index, address)| (index, topology.path_type(gpu.address, address))).collect();
        let best = reached.iter().map(|(_, path)| *path).min()?;
        let tied: Vec<NicIndex> =
            reached.iter().filter(|(_, path)| *path == best).map(|(index, _)| *index).collect();
        let turn = match seen.iter_mut().find(|(others, _)| *others == tied) {
            Some((_, turn)) => {
                *turn += 1;
                *turn
            }
            None => {
                seen.push((tied.clone(), 0));
                0
            }
        };
        Some(tied[turn % tied.len()])
    };
    topology.gpus.iter().map(of).collect()
}

/// The Slingshot NICs of the task's GPUs; no answer if the node has none.
pub(super) fn cxi_device<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let nearest = &asked.prepared.slingshot;
    if !asked.topology.nics.iter().any(|nic| nic.kind == NicKind::Slingshot) {
        return None;
    }
    let no = |why: &'static str| Some(Answer::no(why));
    if asked.users(NIC_POLICY).is_some() {
        return no("the user's `MPICH_OFI_NIC_POLICY` chooses the device");
    }
    if asked.prepared.wanted.fabric == Fabric::IsolatedRails {
        return no("the fabric's rails are isolated, so no task may be held to its own");
    }
    let mut names: Vec<&str> = Vec::new();
    for nic in asked.task.gpus.iter().filter_map(|&gpu| *nearest.get(gpu.0)?) {
        let name = asked.topology.nic(nic).name.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return no("the task has no GPU with a Slingshot NIC");
    }
    let is_the_steps = slingshot::is_the_steps(asked.evidence.present);
    if !names.iter().all(|name| is_the_steps(name)) {
        return no("`SLINGSHOT_DEVICES`, the step's devices, does not have the nearest one");
    }
    Some(Answer::yes(names.join(","), "its GPU's NIC, as `env=libfabric` asks"))
}

/// The verbs devices of the task's GPUs; no answer if the node has none.
pub(super) fn verbs_device<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let verbs = || asked.topology.nics.iter().filter(|nic| nic.kind == NicKind::Verbs);
    verbs().next()?;
    let no = |why: &'static str| Some(Answer::no(why));
    if asked.prepared.wanted.fabric == Fabric::IsolatedRails {
        return no("the fabric's rails are isolated, so no task may be held to its own");
    }
    if asked.task.gpus.is_empty() || asked.task.rails.is_empty() {
        return no("the task has no GPU with a NIC");
    }
    let names = names_of(asked.task.rails.iter().map(|(rail, _)| asked.node.rail(*rail).name.as_str()));
    let begins_another = |name: &str| verbs().any(|nic| nic.name != name && nic.name.starts_with(name));
    if names.split(',').any(begins_another) {
        return no("it takes names by their beginning, and this one begins another NIC's too");
    }
    Some(Answer::yes(names, "its GPU's NIC, as `env=libfabric` asks"))
}

//! Which NICs a task may open: asked of `/dev/infiniband/uverbsN` without opening it, as for GPUs.
#![forbid(unsafe_code)]

use super::step::Active;
use crate::placement::NodePlacement;
use crate::sys::{self, Refusal};
use crate::topology::{Nic, NicKind, Topology};
use std::collections::BTreeSet;
use std::fs::File;

/// Where libibverbs looks for the nodes (rdma-core's libibverbs/device.c), below `/dev`.
pub(super) const DIRECTORY: &str = "infiniband";

/// NICs that are closed.
#[derive(Default)]
pub(super) struct Closed {
    /// to every task of the job, with the reason: by position in the topology
    pub(super) to_the_job: Vec<(usize, String)>,
    /// to this task: its device cgroup may differ from those of others
    pub(super) to_this_task: Vec<usize>,
}

/// Is there a place for RDMA devices in this `/dev`?
pub(super) fn has_device_nodes(devices: &File) -> bool {
    !matches!(sys::may_open(devices, DIRECTORY).map_err(|error| sys::refusal(&error)), Err(Refusal::Absent))
}

/// Every verbs device, where that place is missing.
pub(super) fn all_missing(topology: &Topology) -> Vec<(usize, String)> {
    let verbs = topology.nics.iter().enumerate().filter(|(_, nic)| nic.kind == NicKind::Verbs);
    verbs.map(|(index, _)| (index, format!("`/dev/{DIRECTORY}` is missing on this node"))).collect()
}

/// Asks for each rail; for every other NIC too where a rail is closed to the job, since another may take its place.
pub(super) fn closed(active: &Active, topology: &Topology, node: &NodePlacement) -> Closed {
    let mut closed = Closed::default();
    let (Some(devices), true) = (&active.devices, active.uverbs) else { return closed };
    let rails: BTreeSet<usize> = node.rails.iter().map(|rail| rail.nic).collect();
    rails.iter().for_each(|&nic| closed.ask(devices, nic, &topology.nics[nic]));
    if !closed.to_the_job.is_empty() {
        let others = topology.nics.iter().enumerate().filter(|(index, _)| !rails.contains(index));
        others.for_each(|(index, nic)| closed.ask(devices, index, nic));
    }
    closed
}

impl Closed {
    fn ask(&mut self, devices: &File, index: usize, nic: &Nic) {
        let Some(uverbs) = nic.uverbs.as_ref().filter(|_| nic.kind == NicKind::Verbs) else { return };
        let path = format!("{DIRECTORY}/{uverbs}");
        let Err(error) = sys::may_open(devices, &path) else { return };
        match sys::refusal(&error) {
            Refusal::User => {
                self.to_the_job.push((index, format!("the job's user may not open `/dev/{path}`")));
            }
            Refusal::Absent => self.to_the_job.push((index, format!("there is no `/dev/{path}`"))),
            Refusal::Cgroup => self.to_this_task.push(index),
            Refusal::Other => {}
        }
    }
}

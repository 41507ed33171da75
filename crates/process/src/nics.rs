//! Which NICs a process may open: asked of `/dev/infiniband/uverbsN` without opening it, as for GPUs.
#![forbid(unsafe_code)]

use crate::gpus;
use nic_placement_core::discover::Root;
use nic_placement_core::discover::root;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{Nic, NicIndex, NicKind, Topology};
use nic_placement_sys::{self as sys, Refusal};
use std::fs::File;
use std::path::Path;

/// Where libibverbs looks for the nodes (rdma-core's libibverbs/device.c), below `/dev`.
const DIRECTORY: &str = "infiniband";

/// `/dev`, open, and how it stood then.
pub(crate) struct Devices {
    /// `None` where it cannot be looked into
    pub(crate) directory: Option<File>,
    /// has it nodes of RDMA devices?
    has_rdma: bool,
    /// the mount namespace of the process that opened it
    mounts: Option<String>,
    /// what stood at [`TOPS`]
    tops: [Option<(u64, u64)>; TOPS.len()],
}

/// Where a container differs from its node.  A job with mounts of its own (Slurm's job_container/tmpfs: /tmp and /dev/shm) does not.
const TOPS: [&str; 4] = ["/", "/etc", "/dev", "/dev/infiniband"];

/// `mnt:[4026531841]`; `None` where /proc does not tell
fn mounts() -> Option<String> {
    Root::live().follow("proc/self/ns/mnt")
}

impl Devices {
    /// Those of this process.
    pub(crate) fn open() -> Devices {
        let directory = root::directory_descriptor(Path::new("/dev"));
        if let Err(error) = &directory {
            log::warn!("cannot look into `/dev`: {error}; the tasks' GPUs are told by their variables alone");
        }
        let directory = directory.ok();
        let is_there = |directory: &File| sys::may_open(directory, DIRECTORY) != Err(Refusal::Absent);
        let has_rdma = directory.as_ref().is_some_and(is_there);
        Devices { directory, has_rdma, mounts: mounts(), tops: TOPS.map(root::identity) }
    }

    /// This process's own, where it has come into a container since these were opened.
    fn of_the_container(&self) -> Option<Devices> {
        let has_other_mounts = mounts() != self.mounts;
        (has_other_mounts && TOPS.map(root::identity) != self.tops).then(Devices::open)
    }

    /// Is it known that no RDMA device can be opened?
    fn lack_rdma(&self) -> bool {
        self.directory.is_some() && !self.has_rdma
    }
}

/// NICs and why each is not used.
pub(crate) type Unusable = Vec<(NicIndex, String)>;

/// The verbs devices of a node on which none can be opened.
pub(crate) fn missing(devices: &Devices, plan: &Plan) -> Unusable {
    if !devices.lack_rdma() || plan.map.rails.is_empty() {
        return Unusable::new();
    }
    let missing = all_verbs(&plan.node, "on this node");
    if !missing.is_empty() {
        log::warn!("`/dev/{DIRECTORY}` is missing: no RDMA device of this node can be opened");
    }
    // a list of NICs that no task can open would hide the interfaces that work; another machine's NICs are not here
    if plan.node.provenance.is_this_system() { missing } else { Unusable::new() }
}

/// Every verbs device, where that place is missing.
fn all_verbs(topology: &Topology, place: &str) -> Unusable {
    let verbs = topology.numbered_nics().filter(|(_, nic)| nic.kind == NicKind::Verbs);
    verbs.map(|(index, _)| (index, format!("`/dev/{DIRECTORY}` is missing {place}"))).collect()
}

/// NICs that are closed.
#[derive(Default)]
pub(crate) struct Closed {
    /// to every task of the job
    pub(crate) to_the_job: Unusable,
    /// to this task: its device cgroup may differ from those of others
    pub(crate) to_this_task: Vec<NicIndex>,
    /// has this process come into a container since `/dev` was opened?
    pub(crate) is_in_container: bool,
}

/// Asks for each rail; for every other NIC too where a rail is closed to the job, since another may take its place.
///
/// Device cgroups are asked by these devices, which a container may not show.  What it does not show no program in it opens.
pub(crate) fn closed(devices: &Devices, plan: &Plan) -> Closed {
    let container = devices.of_the_container();
    let mut closed = Closed { is_in_container: container.is_some(), ..Closed::default() };
    if container.as_ref().is_some_and(Devices::lack_rdma) && plan.node.provenance.is_this_system() {
        closed.to_the_job = all_verbs(&plan.node, "in the task's container");
        return closed;
    }
    let (Some(directory), true) = (&devices.directory, devices.has_rdma) else { return closed };
    let shown = container.and_then(|container| container.directory);
    let mut rails = Vec::new();
    for rail in &plan.map.rails {
        if !rails.contains(&rail.nic) {
            rails.push(rail.nic);
        }
    }
    rails.iter().for_each(|&nic| closed.ask(directory, shown.as_ref(), nic, plan.node.nic(nic)));
    if !closed.to_the_job.is_empty() {
        let others = plan.node.numbered_nics().filter(|(index, _)| !rails.contains(index));
        others.for_each(|(index, nic)| closed.ask(directory, shown.as_ref(), index, nic));
    }
    if !closed.to_this_task.is_empty() && gpus::is_answer_to_all(directory) {
        closed.to_this_task.clear();
    }
    closed
}

impl Closed {
    fn ask(&mut self, devices: &File, shown: Option<&File>, index: NicIndex, nic: &Nic) {
        let Some(uverbs) = nic.uverbs.as_ref().filter(|_| nic.kind == NicKind::Verbs) else { return };
        let path = [DIRECTORY, "/", uverbs].concat();
        let is_hidden = shown.is_some_and(|shown| sys::may_open(shown, &path) == Err(Refusal::Absent));
        let why = match sys::may_open(devices, &path) {
            _ if is_hidden => format!("there is no `/dev/{path}` in the task's container"),
            Err(Refusal::User) => format!("the job's user may not open `/dev/{path}`"),
            Err(Refusal::Absent) => format!("there is no `/dev/{path}`"),
            Err(Refusal::Cgroup) => return self.to_this_task.push(index),
            Err(Refusal::Other) | Ok(()) => return,
        };
        self.to_the_job.push((index, why));
    }

    /// Names in the log what is closed to the job.
    pub(crate) fn tell(&self, node: &Topology) {
        // which container the user takes is nothing that an admin would mend
        let level = if self.is_in_container { log::Level::Info } else { log::Level::Warn };
        for (nic, why) in &self.to_the_job {
            log::log!(level, "`{}` is not used: {why}", node.nic(*nic).name);
        }
    }
}

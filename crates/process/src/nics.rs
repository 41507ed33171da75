//! Which NICs a process may open: asked of `/dev/infiniband/uverbsN` without opening it, as for GPUs.
#![forbid(unsafe_code)]

use crate::{files, gpus};
use nic_placement_core::discover::Root;
use nic_placement_core::discover::root;
use nic_placement_core::order;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{Nic, NicIndex, NicKind, Topology};
use nic_placement_sys::{self as sys, Refusal};
use std::fs::File;
use std::path::Path;

/// Where libibverbs looks for the nodes (rdma-core's libibverbs/device.c), below `/dev`.
const DIRECTORY: &str = "infiniband";

/// NICs that are closed.
#[derive(Default)]
pub struct Closed {
    /// to every task of the job, with the reason
    pub to_the_job: Vec<(NicIndex, String)>,
    /// to this task: its device cgroup may differ from those of others
    pub to_this_task: Vec<NicIndex>,
    /// does this process see other files than the one that made the plan?
    sees_others: bool,
}

/// `/dev`, open, and what is known of it.
pub struct Devices {
    /// `None` where it cannot be looked into
    pub directory: Option<File>,
    /// does it have nodes of RDMA devices?
    uverbs: bool,
    /// the mount namespace of the process that opened it
    mounts: Option<String>,
    /// what stands at [`TOPS`] there
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
    pub fn open() -> Devices {
        let directory = match root::directory_descriptor(Path::new("/dev")) {
            Ok(directory) => Some(directory),
            Err(error) => {
                log::warn!(
                    "cannot look into `/dev`: {error}; the tasks' GPUs are told by their variables alone"
                );
                None
            }
        };
        let absent = |directory: &File| {
            let answer = sys::may_open(directory, DIRECTORY).map_err(|error| sys::refusal(&error));
            matches!(answer, Err(Refusal::Absent))
        };
        let uverbs = directory.as_ref().is_some_and(|directory| !absent(directory));
        Devices { directory, uverbs, mounts: mounts(), tops: TOPS.map(root::identity) }
    }

    /// This process's own, where it has come into a container since these were opened.
    fn of_the_container(&self) -> Option<Devices> {
        let has_other_mounts = mounts() != self.mounts;
        (has_other_mounts && TOPS.map(root::identity) != self.tops).then(Devices::open)
    }

    /// Is it known that no RDMA device can be opened?
    fn lack_uverbs(&self) -> bool {
        self.directory.is_some() && !self.uverbs
    }
}

/// The plan of a node on which no RDMA device can be opened, if that is so.
pub fn without_missing(plan: Plan, devices: &Devices) -> Plan {
    if !devices.lack_uverbs() || plan.map.rails.is_empty() {
        return plan;
    }
    log::warn!("`/dev/{DIRECTORY}` is missing: no RDMA device of this node can be opened");
    // a list of NICs that no task can open would hide the interfaces that work; another machine's NICs are not here
    if !plan.node.provenance.is_this_system() {
        return plan;
    }
    plan.without(all_missing(&plan.node, "on this node"), &files::read)
}

/// Every verbs device, where that place is missing.
fn all_missing(topology: &Topology, place: &str) -> Vec<(NicIndex, String)> {
    let verbs = topology.numbered_nics().filter(|(_, nic)| nic.kind == NicKind::Verbs);
    verbs.map(|(index, _)| (index, format!("`/dev/{DIRECTORY}` is missing {place}"))).collect()
}

/// The plan without the NICs that no task of the job may open, where there are such; `tells` says it in the log.  Also the
/// plan by a container's own files, since the libraries read those.
pub fn without_closed(plan: &Plan, closed: &Closed, tells: bool) -> Option<Plan> {
    // which container the user takes is nothing that an admin would mend
    let level = if closed.sees_others { log::Level::Info } else { log::Level::Warn };
    for (nic, why) in closed.to_the_job.iter().filter(|_| tells) {
        log::log!(level, "`{}` is not used: {why}", plan.node.nic(*nic).name);
    }
    let differs = closed.sees_others || !closed.to_the_job.is_empty();
    differs.then(|| plan.without(closed.to_the_job.clone(), &files::read))
}

/// Asks for each rail; for every other NIC too where a rail is closed to the job, since another may take its place.
///
/// Device cgroups are asked by these devices, which a container may not show.  What it does not show no program in it opens, and all
/// tasks of a node are in one container.
pub fn closed(devices: &Devices, plan: &Plan) -> Closed {
    let container = devices.of_the_container();
    let mut closed = Closed { sees_others: container.is_some(), ..Closed::default() };
    if container.as_ref().is_some_and(Devices::lack_uverbs) && plan.node.provenance.is_this_system() {
        closed.to_the_job = all_missing(&plan.node, "in the task's container");
        return closed;
    }
    let (Some(directory), true) = (&devices.directory, devices.uverbs) else { return closed };
    let shown = container.and_then(|container| container.directory);
    let rails = order::set(plan.map.rails.iter().map(|rail| rail.nic));
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
        let path = format!("{DIRECTORY}/{uverbs}");
        let answer = |devices: &File| sys::may_open(devices, &path).map_err(|error| sys::refusal(&error));
        if shown.is_some_and(|shown| matches!(answer(shown), Err(Refusal::Absent))) {
            return self
                .to_the_job
                .push((index, format!("there is no `/dev/{path}` in the task's container")));
        }
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

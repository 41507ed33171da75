//! The tasks of the processes that were seen, with their GPUs and verdicts.

use super::look::{Looks, Process};
use super::print::first_of;
use crate::commands::counters::Open;
use crate::commands::request::whole_node;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::gpus;
use nic_placement_core::step::{Access, GpuGrant, Step};
use nic_placement_core::topology::{GpuIndex, PciAddress, Provenance, Topology};
use nic_placement_launch::plugstack;
use nic_placement_traffic::bytes::{self, NicTraffic, Readings, Traffic};
use nic_placement_traffic::report::NodeReport;
use nic_placement_traffic::resources::Held;
use nic_placement_traffic::tasks::Numbers;
use nic_placement_traffic::verify::{Node, SeenTask, TaskVerdict, judge};
use std::collections::{BTreeMap, BTreeSet};

const NAMED: usize = 8;

impl Looks {
    fn notes(&self, counts: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.silent.is_empty() {
            let named: Vec<String> = self.silent.iter().map(ToString::to_string).collect();
            let named = named.join(", ");
            notes.push(format!(
                "left out, since they did not answer: processes {named}"
            ));
        }
        if self.left > 0 {
            notes.push(format!("not looked at: {} other processes", self.left));
        }
        if !self.hidden.is_empty() {
            let users = counted(self.hidden.len(), "other user");
            let too = if counts {
                "; their bytes would be among these"
            } else {
                ""
            };
            notes.push(format!(
                "processes of {users} are only for root to look at{too}"
            ));
        }
        if counts && !self.others.is_empty() {
            let named = first_of(self.others.iter(), NAMED);
            notes.push(format!(
                "others ran on this node too, and their bytes are among these: {named}"
            ));
        }
        notes.extend(self.why.clone().filter(|_| self.unowned.is_none()));
        notes
    }

    /// Devices that a task's processes held; else the reason why that is not known.
    fn held(&self, of: &[&Process]) -> Result<BTreeMap<String, Held>, String> {
        if let (None, Some(why)) = (self.unowned, &self.why) {
            return Err(why.clone());
        }
        let mut all: BTreeMap<String, Held> = BTreeMap::new();
        for (device, held) in of.iter().flat_map(|process| &process.held) {
            all.entry(device.clone()).or_default().add(held);
        }
        Ok(all)
    }
}

/// The verdicts on the tasks that were seen, and the bytes of the readings.
pub(super) fn report(
    open: &Open,
    node: Option<&Topology>,
    looks: &Looks,
    readings: Option<Readings>,
) -> NodeReport {
    let name = open().and_then(|root| root.read("proc/sys/kernel/hostname"));
    let topology = node.cloned();
    let topology = topology.unwrap_or_else(|| Topology::empty("this node", Provenance::ThisSystem));
    let name = name.unwrap_or_else(|| topology.name.clone());
    let admin = plugstack::admin(None, None, |name| std::env::var_os(name))
        .0
        .admin;
    // `check` reports what is wrong with the admin's file
    let plan =
        whole_node(topology.clone(), admin).or_else(|_| whole_node(topology, Default::default()));
    let Ok(plan) = plan else {
        return NodeReport::new(name, Vec::new());
    };
    let of = Node {
        topology: &plan.node,
        map: &plan.map,
    };
    let mut report = NodeReport::new(name, verdicts(of, looks));
    report.not_looked_at = looks.silent.len() + looks.left;
    if node.is_none() {
        report
            .notes
            .push("the node was not read: its NICs do not answer".to_string());
    }
    if let Some(readings) = &readings {
        let (planned, origin) = bytes::plan(of, &report.tasks);
        let mut traffic = Traffic::new(readings, &planned, origin);
        for nic in &mut traffic.nics {
            nic.rate_mbps = rate_mbps(of.topology, nic);
        }
        report.notes.extend(traffic.notes());
        report.traffic = Some(traffic);
    }
    report.notes.extend(looks.notes(readings.is_some()));
    report
}

fn rate_mbps(topology: &Topology, nic: &NicTraffic) -> Option<u64> {
    let (name, port) = nic.name.split_once(':')?;
    let mut ports = topology.nic(topology.nic_index(name)?).ports.iter();
    ports.find(|of| of.number.to_string() == port)?.rate_mbps
}

/// Slurm's numbers and devices tell tasks apart; an unplaced process in no step is a task of its own.
type Key = (
    Numbers,
    Vec<PciAddress>,
    Vec<String>,
    Option<u32>,
    Option<u32>,
);

fn key(pid: u32, process: &Process) -> Key {
    let marked = process
        .marked
        .clone()
        .map(|marked| (marked.gpus, marked.nics));
    let alone = process.numbers.step.is_none() && marked.is_none();
    let (gpus, nics) = marked.unwrap_or_default();
    (
        process.numbers,
        gpus,
        nics,
        process.user,
        alone.then_some(pid),
    )
}

/// The verdicts, in the order of jobs, steps and local ids.
fn verdicts(node: Node<'_>, looks: &Looks) -> Vec<TaskVerdict> {
    let mut tasks: BTreeMap<Key, Vec<(u32, &Process)>> = BTreeMap::new();
    for (pid, process) in &looks.processes {
        let task = tasks.entry(key(*pid, process)).or_default();
        task.push((*pid, process));
    }
    let of = |task| judge(node, &seen(node, looks, task), looks.unowned.unwrap_or(0));
    tasks.into_values().map(of).collect()
}

fn seen(node: Node<'_>, looks: &Looks, task: Vec<(u32, &Process)>) -> SeenTask {
    let (pids, processes): (Vec<u32>, Vec<&Process>) = task.into_iter().unzip();
    let first = processes[0];
    let marked = first.marked.as_ref();
    let mut memory = BTreeMap::new();
    for (numa_node, kib) in processes.iter().flat_map(|process| &process.memory) {
        let sum: &mut u64 = memory.entry(*numa_node).or_default();
        *sum = sum.saturating_add(*kib);
    }
    let changed = processes.iter().flat_map(|process| &process.changed);
    let changed: BTreeSet<&String> = changed.collect();
    let index = |gpu: &PciAddress| node.topology.gpu_index(*gpu);
    let threads = processes.iter().flat_map(|process| &process.threads);
    SeenTask {
        numbers: first.numbers,
        user: first.user,
        gpus: match marked {
            Some(marked) => Ok(marked.gpus.iter().filter_map(index).collect()),
            None => gpus_of(node.topology, &processes),
        },
        planned: marked.map(|marked| marked.nics.clone()),
        bound: marked.and_then(|marked| marked.cpus.clone()),
        held: looks.held(&processes),
        threads: threads.cloned().collect(),
        memory,
        changed: changed.into_iter().cloned().collect(),
        processes: pids,
    }
}

/// The GPUs of a task that was not placed, by its open device files: those that it may open are not seen from outside.
fn gpus_of(topology: &Topology, processes: &[&Process]) -> Result<Vec<GpuIndex>, String> {
    let told = processes[0];
    let is_open = |gpu: GpuIndex| {
        let file = topology.gpu(gpu).device_node();
        let mut files = processes.iter().map(|process| &process.device_files);
        file.is_some_and(|file| files.any(|files| files.contains(&file)))
    };
    let claimed = |step_gpus: Option<&String>, variables, access| {
        let step = Step {
            gpus: step_gpus.cloned(),
            ..Step::default()
        };
        gpus::identify(topology, &step, &GpuGrant { variables, access }).own
    };
    let unknown = || vec![Access::Unknown; topology.gpus.len()];
    let of_step = claimed(told.step_gpus.as_ref(), BTreeMap::new(), unknown());
    let listed = claimed(None, told.variables.clone(), unknown());
    let open: Vec<GpuIndex> = topology.gpu_indices().filter(|gpu| is_open(*gpu)).collect();
    if !open.is_empty() {
        let access = topology.gpu_indices().map(|gpu| match is_open(gpu) {
            true => Access::Allowed,
            false => Access::Denied,
        });
        // without a device cgroup its numbers count all GPUs, and with one those that it may open
        let among = claimed(None, told.variables.clone(), access.collect());
        let is_among = !listed.is_empty() && listed.iter().all(|gpu| open.contains(gpu));
        return Ok(match (is_among, among.is_empty()) {
            (true, _) => listed,
            (false, true) => open,
            (false, false) => among,
        });
    }
    // numbers from 0 may count those of a device cgroup
    let may_be_relative = listed.iter().enumerate().all(|(place, gpu)| gpu.0 == place);
    match (of_step.len(), listed.len()) {
        (0, 0) => Err("it has no GPU that can be seen from outside".to_string()),
        (step, own) if step > 0 && (own == 0 || own == step) => Ok(of_step),
        (_, own) if own > 0 && !may_be_relative => Ok(listed),
        _ => Err("which GPU it has cannot be told from outside: it has none open, and Slurm's numbers count from 0 in each task"
            .to_string()),
    }
}

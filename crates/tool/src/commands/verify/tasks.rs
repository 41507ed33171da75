//! The tasks of the processes that were seen, with their GPUs and verdicts.
#![forbid(unsafe_code)]

use super::super::counters::Open;
use super::super::request::whole_node;
use super::super::watch::Seen;
use super::look::{self, Look, Process, Wanted};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::gpus;
use nic_placement_core::step::{Access, GpuGrant, Step};
use nic_placement_core::topology::{GpuIndex, PciAddress, Topology};
use nic_placement_launch::plugstack;
use nic_placement_traffic::resources::Held;
use nic_placement_traffic::tasks::Numbers;
use nic_placement_traffic::verify::{Node, SeenTask, TaskVerdict, judge};
use std::collections::{BTreeMap, BTreeSet};

/// Processes that are kept of several looks, at most.
const MAX_KEPT: usize = 16 * 1024;

#[derive(Default)]
pub(in crate::commands) struct Looks {
    processes: BTreeMap<u32, Process>,
    /// the most of any look that could tell
    unowned: Option<u32>,
    why: Option<String>,
    silent: BTreeSet<u32>,
    hidden: BTreeSet<u32>,
}

/// The processes of this process's step; outside a step, all.
pub(in crate::commands) fn own(numbers: &Numbers) -> Wanted {
    numbers
        .step
        .map_or(Wanted::All, |step| Wanted::Job(step.job, step.step))
}

impl Looks {
    pub(in crate::commands) fn one(open: &Open, wanted: &Wanted) -> Looks {
        let Look {
            processes,
            unowned,
            silent,
            hidden,
        } = look::look(open, wanted);
        let (unowned, why) =
            unowned.map_or_else(|why| (None, Some(why)), |unowned| (Some(unowned), None));
        Looks {
            processes,
            unowned,
            why,
            silent,
            hidden,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.silent.is_empty() {
            let named: Vec<String> = self.silent.iter().map(ToString::to_string).collect();
            notes.push(format!(
                "left out, since they did not answer: processes {}",
                named.join(", ")
            ));
        }
        if !self.hidden.is_empty() {
            let users = counted(self.hidden.len(), "other user");
            notes.push(format!("processes of {users} are only for root to look at"));
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

impl Seen for Looks {
    /// What was held at any time counts, and of the rest what was seen last.
    fn add(&mut self, later: Looks) {
        for (pid, mut process) in later.processes {
            if let Some(known) = self.processes.remove(&pid) {
                for (device, held) in known.held {
                    process.held.entry(device).or_default().most(&held);
                }
                process.device_files.extend(known.device_files);
            }
            if self.processes.len() < MAX_KEPT {
                self.processes.insert(pid, process);
            }
        }
        self.unowned = self.unowned.max(later.unowned);
        self.why = later.why.or(self.why.take());
        self.silent.extend(later.silent);
        self.hidden.extend(later.hidden);
    }
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
    let told = &process.told;
    let marked = told.marked.clone().map(|marked| (marked.gpus, marked.nics));
    let alone = told.numbers.step.is_none() && marked.is_none();
    let (gpus, nics) = marked.unwrap_or_default();
    (told.numbers, gpus, nics, process.user, alone.then_some(pid))
}

/// The verdicts, in the order of jobs, steps and local ids.
pub(in crate::commands) fn verdicts(node: Topology, looks: &Looks) -> Vec<TaskVerdict> {
    let admin = plugstack::admin(None, None, |name| std::env::var_os(name))
        .0
        .admin;
    // what is wrong with the admin's file `check` tells: the node's own plan is left
    let plan = whole_node(node.clone(), admin).or_else(|_| whole_node(node, Default::default()));
    let Ok(plan) = plan else { return Vec::new() };
    let node = Node {
        topology: &plan.node,
        map: &plan.map,
    };
    let mut tasks: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    for (pid, process) in &looks.processes {
        tasks.entry(key(*pid, process)).or_default().push(*pid);
    }
    let of = |pids: Vec<u32>| judge(node, &seen(node, looks, pids), looks.unowned.unwrap_or(0));
    tasks.into_values().map(of).collect()
}

fn seen(node: Node<'_>, looks: &Looks, pids: Vec<u32>) -> SeenTask {
    let processes: Vec<&Process> = pids
        .iter()
        .filter_map(|pid| looks.processes.get(pid))
        .collect();
    let first = processes[0];
    let marked = first.told.marked.as_ref();
    let mut memory = BTreeMap::new();
    for (numa_node, kib) in processes.iter().flat_map(|process| &process.memory) {
        let sum: &mut u64 = memory.entry(*numa_node).or_default();
        *sum = sum.saturating_add(*kib);
    }
    let changed: BTreeSet<&String> = processes
        .iter()
        .flat_map(|process| &process.told.changed)
        .collect();
    SeenTask {
        numbers: first.told.numbers,
        user: first.user,
        gpus: match marked {
            Some(marked) => Ok(marked
                .gpus
                .iter()
                .filter_map(|gpu| node.topology.gpu_index(*gpu))
                .collect()),
            None => gpus_of(node.topology, &processes),
        },
        planned: marked.map(|marked| marked.nics.clone()),
        bound: marked.and_then(|marked| marked.cpus.clone()),
        held: looks.held(&processes),
        threads: processes
            .iter()
            .flat_map(|process| process.threads.clone())
            .collect(),
        memory,
        changed: changed.into_iter().cloned().collect(),
        processes: pids,
    }
}

/// The GPUs of a task that was not placed, by its open device files: those that it may open cannot be seen from
/// outside.
fn gpus_of(topology: &Topology, processes: &[&Process]) -> Result<Vec<GpuIndex>, String> {
    let told = &processes[0].told;
    let is_open = |gpu: GpuIndex| {
        let file = topology.gpu(gpu).device_node();
        file.is_some_and(|file| {
            processes
                .iter()
                .any(|process| process.device_files.contains(&file))
        })
    };
    let claimed = |step_gpus: Option<&String>, variables, access| {
        let step = Step {
            gpus: step_gpus.cloned(),
            ..Step::default()
        };
        gpus::identify(topology, &step, &GpuGrant { variables, access }).gpus
    };
    let unknown = || vec![Access::Unknown; topology.gpus.len()];
    let of_step = claimed(told.step_gpus.as_ref(), BTreeMap::new(), unknown());
    let listed = claimed(None, told.variables.clone(), unknown());
    let open: Vec<GpuIndex> = topology.gpu_indices().filter(|gpu| is_open(*gpu)).collect();
    if !open.is_empty() {
        let access = topology.gpu_indices();
        let access = access.map(|gpu| {
            if is_open(gpu) {
                Access::Allowed
            } else {
                Access::Denied
            }
        });
        // without a device cgroup its numbers count all GPUs, and with one those that it may open
        let among = claimed(None, told.variables.clone(), access.collect());
        let is_among = !listed.is_empty() && listed.iter().all(|gpu| open.contains(gpu));
        return Ok(if is_among {
            listed
        } else if among.is_empty() {
            open
        } else {
            among
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

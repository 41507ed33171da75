//! What all tasks of a step on this node see alike: how many they are, their masks, their parts, and where Slurm's rule
//! tells it the NUMA nodes of everybody's GPUs.
//!
//! Each task decides alone, and nobody may wait for anybody.  So what a task takes must follow from these facts, from which
//! every other task computes the same.
#![forbid(unsafe_code)]

use super::{gpuless, identity};
use crate::step::{GpuGrant, Step, Task};
use crate::topology::{CpuSet, NodeSet, Topology};

/// The tasks of a step on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crew {
    /// `[task]`: as Slurm bound it; the step's CPUs where it bound nobody
    pub(super) masks: Vec<CpuSet>,
    /// `[task]`: the CPUs that it asked for (`-c`), else its share of the step's; never more than Slurm's mask has
    pub(super) parts: Vec<usize>,
    /// `[task]`: the NUMA nodes of its GPUs; `None` where no rule tells those of all
    pub(super) homes: Option<Vec<NodeSet>>,
    /// CPUs of the step on this node
    pub(super) cpus: CpuSet,
}

impl Crew {
    /// The crew of which `task` is one.
    pub(super) fn new(topology: &Topology, step: &Step, task: &Task) -> Crew {
        let tasks = step.tasks_here();
        // Slurm's rule for lists that are shorter than the tasks are many (src/plugins/task/affinity/affinity.c,
        // `get_cpuset`): it starts again at the first
        let mask = |id: usize| match task.masks.as_slice() {
            [] => task.cpus.clone(),
            masks => masks[id % masks.len()].clone(),
        };
        let masks: Vec<CpuSet> = (0..tasks).map(mask).collect();
        let cpus = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
        let asked = step.cpus_per_task.map_or(cpus.len() / tasks, |asked| asked as usize).max(1);
        let parts = masks.iter().map(|mask| asked.min(mask.len())).collect();
        let homes = deal(topology, step, task).or_else(|| gpuless::deal(topology, step, task));
        Crew { masks, parts, homes, cpus }
    }

    /// Tasks.
    pub(super) fn len(&self) -> usize {
        self.masks.len()
    }

    /// Has each task CPUs that no other one has?
    pub(super) fn is_private(&self) -> bool {
        let sum: usize = self.masks.iter().map(CpuSet::len).sum();
        sum == self.cpus.len() && self.masks.iter().all(|mask| !mask.is_empty())
    }
}

/// How Slurm says that it dealt the GPUs (`SLURMD_TRES_BIND`): since 23.02 it writes `gres/gpu:` before the rule.
fn rule(bind: &str) -> Option<(bool, &str)> {
    bind.strip_prefix("gres/gpu:")
        .map(|rule| (true, rule))
        .or_else(|| Some((false, bind.strip_prefix("gpu:")?)))
}

/// Has each task GPUs that no other one has (`--gpus-per-task`)?
pub(super) fn has_own_gpus(task: &Task) -> bool {
    task.gpu_bind.as_deref().and_then(rule).is_some_and(|(_, rule)| rule.starts_with("per_task:"))
}

/// The NUMA nodes of each task's GPUs, where Slurm's rule tells those of all.
///
/// `per_task:N` of 22.05 gives task 0 the first N of the step's GPUs, task 1 the next N (src/common/gres.c); later releases
/// look at the tasks' masks first.  `map_gpu:` (later `map:`) names each task's GPU by its local id, and starts again at the
/// first where the list is short; its numbers are the node's where the job has all of the node's GPUs, and only then is it
/// clear what they count.
pub(super) fn deal(topology: &Topology, step: &Step, task: &Task) -> Option<Vec<NodeSet>> {
    let (later, rule) = rule(task.gpu_bind.as_deref()?)?;
    let list: Vec<&str> = step.gpus.as_deref()?.split(',').collect();
    let tasks = step.tasks_here();
    let nodes_of = |gpus: &[&str]| {
        let step = Step { gpus: Some(gpus.join(",")), ..Step::default() };
        let found = identity::identify(topology, &step, &GpuGrant::default()).gpus;
        let nodes = found.iter().map(|&gpu| topology.numa_node_of(topology.gpu(gpu).address));
        let nodes = nodes.collect::<Option<NodeSet>>()?;
        (found.len() == gpus.len() && !nodes.is_empty()).then_some(nodes)
    };
    if let Some(each) = rule.strip_prefix("per_task:") {
        let each: usize = each.parse().ok()?;
        if later || each == 0 || list.len() < tasks.checked_mul(each)? {
            return None;
        }
        return list.chunks_exact(each).take(tasks).map(nodes_of).collect();
    }
    let map = rule.strip_prefix("map_gpu:").or_else(|| rule.strip_prefix("map:"))?;
    let counts_from_0 = list.iter().enumerate().all(|(place, number)| number.parse() == Ok(place));
    let map: Vec<&str> = map.split(',').collect();
    if !counts_from_0 || !map.iter().all(|gpu| list.contains(gpu)) {
        return None;
    }
    (0..tasks).map(|id| nodes_of(&[map[id % map.len()]])).collect()
}

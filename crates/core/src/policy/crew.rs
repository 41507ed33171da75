//! The facts that all tasks of a step on this node share: their number, masks and parts, and, if Slurm's rule
//! tells them, the NUMA nodes of all tasks' GPUs.
//!
//! Each task decides alone, and none waits for another.  So what a task takes must follow from these facts,
//! from which every other task computes the same.
#![forbid(unsafe_code)]

use super::{gpuless, identity};
use crate::step::{GpuGrant, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, Topology};
use std::collections::BTreeMap;

/// The tasks of a step on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crew<'t> {
    /// the tasks on this node
    tasks: usize,
    /// Slurm's masks: one where all tasks have the same, which is the step's CPUs if Slurm bound no task
    masks: &'t [CpuSet],
    /// `[task]`: the CPUs that it asked for (`-c`), else its share of the step's; never more than Slurm's mask has
    pub(super) parts: Vec<usize>,
    /// `[task]`: the NUMA nodes of its GPUs; `None` if no rule tells all tasks' nodes
    pub(super) homes: Option<Vec<NodeSet>>,
    /// CPUs of the step on this node
    pub(super) cpus: CpuSet,
}

impl<'t> Crew<'t> {
    /// The crew of `task`.
    pub(super) fn new(topology: &Topology, step: &Step, task: &'t Task) -> Crew<'t> {
        let tasks = step.tasks_here();
        let masks = match task.masks.as_slice() {
            [] => std::slice::from_ref(&task.cpus),
            masks => &masks[..masks.len().min(tasks)],
        };
        let is_one = masks.iter().all(|mask| *mask == masks[0]);
        let masks = if is_one { &masks[..1] } else { masks };
        let cpus = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
        let asked = step.cpus_per_task.map_or(cpus.len() / tasks, |asked| asked as usize).max(1);
        let sizes: Vec<usize> = masks.iter().map(CpuSet::len).collect();
        let parts = (0..tasks).map(|id| asked.min(sizes[id % sizes.len()])).collect();
        let homes = deal(topology, step, task).or_else(|| gpuless::deal(topology, step, task));
        Crew { tasks, masks, parts, homes, cpus }
    }

    /// The number of tasks.
    pub(super) fn len(&self) -> usize {
        self.tasks
    }

    /// Slurm's mask of a task.  With fewer masks than tasks Slurm starts again at the first (src/plugins/task/affinity/
    /// affinity.c, `get_cpuset`).
    pub(super) fn mask(&self, id: usize) -> &'t CpuSet {
        &self.masks[id % self.masks.len()]
    }

    /// Slurm's masks of all tasks.
    pub(super) fn all_masks(&self) -> impl Iterator<Item = &'t CpuSet> {
        (0..self.tasks).map(|id| self.mask(id))
    }

    /// Do all tasks have the same mask?
    pub(super) fn shares_one_mask(&self) -> bool {
        self.masks.len() == 1
    }

    /// Does each task have CPUs that no other task has?
    pub(super) fn is_private(&self) -> bool {
        if self.masks.len() < self.tasks {
            return false;
        }
        let sum: usize = self.masks.iter().map(CpuSet::len).sum();
        sum == self.cpus.len() && self.masks.iter().all(|mask| !mask.is_empty())
    }
}

/// Slurm's rule for dealing the GPUs (`SLURMD_TRES_BIND`); since 23.02 `gres/gpu:` stands before it.
fn rule(bind: &str) -> Option<(bool, &str)> {
    bind.strip_prefix("gres/gpu:")
        .map(|rule| (true, rule))
        .or_else(|| Some((false, bind.strip_prefix("gpu:")?)))
}

/// Does each task have GPUs that no other task has (`--gpus-per-task`)?
pub(super) fn has_own_gpus(task: &Task) -> bool {
    task.promised.is_some()
        || task.gpu_bind.as_deref().and_then(rule).is_some_and(|(_, rule)| rule.starts_with("per_task:"))
}

/// The NUMA nodes of each task's GPUs, if the user's promise or Slurm's rule tells all of them.
///
/// `per_task:N` of 22.05 gives task 0 the first N of the step's GPUs, task 1 the next N (src/common/gres.c);
/// later releases look at the tasks' masks first.  `map_gpu:` (later `map:`) lists GPUs by the tasks' local
/// ids, and starts again at the first if the list is too short.  Its numbers are the node's if the job has
/// all of the node's GPUs; otherwise it is unclear what they count.
pub(super) fn deal(topology: &Topology, step: &Step, task: &Task) -> Option<Vec<NodeSet>> {
    if let Some(gpus) = &task.promised {
        let node = |gpu: &GpuIndex| topology.numa_node_of(topology.gpu(*gpu).address);
        return gpus.iter().map(|gpu| Some([node(gpu)?].into_iter().collect())).collect();
    }
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
    // many tasks share few GPUs
    let mut known: BTreeMap<&str, Option<NodeSet>> = BTreeMap::new();
    let of_task = |id: usize| {
        let gpu = map[id % map.len()];
        known.entry(gpu).or_insert_with(|| nodes_of(&[gpu])).clone()
    };
    (0..tasks).map(of_task).collect()
}

//! `bind=core`: whole cores for each task of a step, disjoint although each task decides alone.
//!
//! A task knows its own GPUs but not the others', and no task waits for another.  So the cores a task may
//! take follow from facts that all tasks of the step on the node share: the topology, slurmd's masks, and
//! Slurm's rule for GPUs.  Only the choice among its own parts of the nodes may depend on a task's own GPUs.  No two tasks
//! share a part, whatever their GPUs are.
#![forbid(unsafe_code)]

use super::near::{LeastShares, even_part, near_mask, near_masks};
use super::tasks::{StepTasks, memory_bound};
use crate::step::{Step, Task};
use crate::topology::{CpuSet, NodeSet, Topology};
use std::borrow::Borrow;

/// The CPUs of `task` that no other task of the step gets, near `near` if it has a part there and every task keeps its
/// share; and how they were found.  The error is the same for every task of the step.
pub(super) fn own_cores(
    topology: &Topology,
    step: &Step,
    task: &Task,
    near: &NodeSet,
) -> Result<(CpuSet, &'static str), &'static str> {
    if step.uncounted {
        return Err(UNCOUNTED);
    }
    let step_cores = StepCores::new(topology, step, task);
    if step_cores.cores.is_empty() {
        return Err("the node's cores are not known");
    }
    let id = task.local_id as usize;
    if id >= step_cores.tasks.len() {
        return Err("Slurm counts fewer tasks here than there are");
    }
    if step_cores.masks_are_private() {
        return Ok(step_cores.by_masks(near, id));
    }
    if memory_bound(step).is_some() {
        return Err(MEMORY);
    }
    step_cores.divided(near, id)
}

/// The number of cores that a task on `cpus` can use alone: its own, else an even share; `None` if the number of tasks
/// is unknown.
pub(crate) fn threads(
    topology: &Topology,
    step: &Step,
    task: &Task,
    cpus: &CpuSet,
) -> Option<usize> {
    let mut cores = topology.cores();
    if cores.is_empty() {
        cores = task
            .step_cpus
            .iter()
            .map(|cpu| [cpu].into_iter().collect())
            .collect();
    }
    let count = |cpus: &CpuSet| cores.iter().filter(|core| core.intersects(cpus)).count();
    let bound_by_user =
        step.cpu_bind.as_deref().is_some_and(|how| how != "none") && task.masks.is_empty();
    let is_private = || !step.uncounted && StepCores::new(topology, step, task).masks_are_private();
    let own = match bound_by_user || is_private() {
        true => count(&task.cpus),
        false if step.uncounted => return None,
        false => count(&task.step_cpus) / step.tasks_here(),
    };
    Some(own.min(count(cpus)).max(1))
}

/// The cores of the step on this node, which all of its tasks see alike.
struct StepCores<'a> {
    tasks: StepTasks<'a>,
    /// the step's threads of each core that it has
    cores: Vec<CpuSet>,
}

impl<'a> StepCores<'a> {
    fn new(topology: &'a Topology, step: &'a Step, task: &'a Task) -> StepCores<'a> {
        let tasks = StepTasks::new(topology, step, task);
        let cores = topology
            .cores()
            .into_iter()
            .map(|core| core.intersection(&tasks.cpus));
        let cores = cores.filter(|core| !core.is_empty()).collect();
        StepCores { tasks, cores }
    }

    /// True if each task has cores of which no other task has a thread.
    fn masks_are_private(&self) -> bool {
        let masks = self.tasks.all_masks();
        let has_one = |mask: &&CpuSet| self.cores.iter().any(|core| core.intersects(mask));
        self.are_ones(&masks) && masks.iter().all(has_one)
    }

    /// True if no core is in two of these masks.
    fn are_ones<M: Borrow<CpuSet>>(&self, masks: &[M]) -> bool {
        let is_ones = |core: &CpuSet| {
            masks
                .iter()
                .filter(|mask| core.intersects((*mask).borrow()))
                .count()
                <= 1
        };
        self.cores.iter().all(is_ones)
    }

    fn cores_of(&self, node: u32) -> Vec<CpuSet> {
        let cpus = self.tasks.topology.numa_node(node).map(|node| &node.cpus);
        self.cores
            .iter()
            .filter(|core| cpus.is_some_and(|cpus| core.intersects(cpus)))
            .cloned()
            .collect()
    }

    /// The mask of a task that has cores of its own; if its GPUs are known, a nearer mask that it gets in exchange.
    fn by_masks(&self, near: &NodeSet, id: usize) -> (CpuSet, &'static str) {
        let tasks = &self.tasks;
        let own = tasks.mask(id);
        if !tasks.gpu_nodes.is_empty() && !tasks.have_too_many_masks() {
            let masks = near_masks(tasks);
            if *masks[id] != *own && self.are_ones(&masks) {
                return (
                    masks[id].clone().into_owned(),
                    "cores of its own, for which tasks change places",
                );
            }
        }
        let narrowed = near_mask(tasks, id, near, |_| tasks.len());
        let cpus = if narrowed.is_subset(own) {
            narrowed
        } else {
            own.clone()
        };
        (cpus, "the cores that Slurm gave to it alone")
    }

    /// Divides the cores of each NUMA node evenly among the tasks whose GPUs are there.  If the tasks' GPUs are
    /// unknown, all tasks divide each node, and the task keeps its parts near `near`.
    fn divided(&self, near: &NodeSet, id: usize) -> Result<(CpuSet, &'static str), &'static str> {
        let (topology, tasks) = (self.tasks.topology, &self.tasks);
        let numbers = topology.numa_nodes.iter().map(|node| node.os_index);
        let nodes: NodeSet = numbers
            .filter(|&node| !self.cores_of(node).is_empty())
            .collect();
        // the nodes of its GPUs that the step reaches, else those on which Slurm put it
        let reached = |near: &NodeSet, id: usize| {
            let reached = near.intersection(&nodes);
            if reached.is_empty() {
                topology.nodes_of(tasks.mask(id)).intersection(&nodes)
            } else {
                reached
            }
        };
        let mut nodes_of_task = Vec::with_capacity(tasks.len());
        for (id, gpu_nodes) in tasks.gpu_nodes.iter().enumerate() {
            let gpu_nodes = gpu_nodes
                .as_ref()
                .ok_or("which GPU each task has is not certain")?;
            nodes_of_task.push(reached(gpu_nodes, id));
        }
        let is_known = !nodes_of_task.is_empty();
        let own = reached(near, id);
        let shares = LeastShares::new(tasks);
        let mut parts = vec![CpuSet::new(); tasks.len()];
        for node in nodes.iter() {
            let sharers: Vec<usize> = (0..tasks.len())
                .filter(|&id| !is_known || nodes_of_task[id].contains(node))
                .collect();
            let cores = self.cores_of(node);
            if cores.len() < sharers.len() {
                return Err(FEW);
            }
            let here: Vec<CpuSet> = (0..sharers.len())
                .map(|part| even_part(&cores, part, sharers.len()))
                .collect();
            // a task with unknown GPUs may take its part of any node alone, so each must be enough
            if !is_known && !shares.are_kept(&here) {
                return Err(LESS);
            }
            if is_known || own.contains(node) {
                sharers
                    .into_iter()
                    .zip(&here)
                    .for_each(|(id, part)| parts[id].add(part));
            }
        }
        if is_known && !shares.are_kept(&parts) {
            return Err(LESS);
        }
        let is_farther = |(id, gpu_nodes): (usize, &Option<NodeSet>)| {
            let away = |cpus: &CpuSet| gpu_nodes.as_ref().map(|nodes| tasks.distance(cpus, nodes));
            away(&parts[id]) > away(tasks.mask(id))
        };
        if tasks.gpu_nodes.iter().enumerate().any(is_farther) {
            return Err(FARTHER);
        }
        let how = match is_known {
            true => "cores of its own, divided among the tasks that belong there",
            false => {
                "cores of its own, one seat for each task of the step, since the tasks' GPUs are unknown"
            }
        };
        Ok((parts.swap_remove(id), how))
    }
}

const FEW: &str = "the step has fewer cores than tasks on a NUMA node, which `-c` may change";

const LESS: &str = "cores of its own would be less than a task's share of the step's CPUs";

const FARTHER: &str =
    "cores of its own would be farther from a task's GPUs than the CPUs that Slurm gave it";

const MEMORY: &str = "the tasks' memory is bound by `--mem-bind`, and tasks stay by it";

/// The reason where it is unknown how many processes share the CPUs.
pub(crate) const UNCOUNTED: &str =
    "nobody says how many processes share these CPUs, which `--local-size` would";

#[cfg(test)]
mod tests;

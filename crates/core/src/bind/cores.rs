//! `bind=core`: disjoint whole cores for each task of a step, without communication between tasks.
//!
//! Every task of a step computes the cores from the same facts: the topology, slurmd's masks and
//! Slurm's rule for GPUs. GPUs that are known only to their task select among cores that no other
//! task takes.

use super::near::{LeastShares, even_parts, near_mask, near_masks};
use super::tasks::{StepTasks, memory_bound, union};
use crate::step::{Step, Task};
use crate::topology::{CpuSet, NodeSet, Topology};

/// The task's private CPUs, preferably on `near`, and a text on their origin. If one task would
/// lose a part of its share of the step's CPUs, all tasks get the same error.
pub(super) fn own_cores(
    node: &Topology,
    step: &Step,
    task: &Task,
    near: &NodeSet,
) -> Result<(CpuSet, &'static str), &'static str> {
    if step.uncounted {
        return Err(UNCOUNTED);
    }
    let step_cores = StepCores::new(node, step, task);
    let id = task.local_id as usize;
    if step_cores.cores.is_empty() {
        Err("the node's cores are not known")
    } else if id >= step_cores.tasks.len() {
        Err("Slurm counts fewer tasks here than there are")
    } else if step_cores.masks_are_private() {
        Ok(step_cores.by_masks(near, id))
    } else if memory_bound(step).is_some() {
        Err("the tasks' memory is bound by `--mem-bind`, and tasks stay by it")
    } else {
        step_cores.divided(near, id)
    }
}

/// `OMP_NUM_THREADS`, at least 1: the number of cores in `cpus`. The limit is the task's cores if
/// its mask is private or the user's, else an even share of the step's cores (`None` if the number
/// of tasks is unknown).
pub(crate) fn threads(node: &Topology, step: &Step, task: &Task, cpus: &CpuSet) -> Option<usize> {
    let mut cores = node.cores();
    if cores.is_empty() {
        let each = task.step_cpus.iter();
        cores = each.map(|cpu| [cpu].into_iter().collect()).collect();
    }
    let count = |cpus: &CpuSet| cores.iter().filter(|core| core.intersects(cpus)).count();
    let bound_by_user =
        step.cpu_bind.as_deref().is_some_and(|how| how != "none") && task.masks.is_empty();
    let is_private = || !step.uncounted && StepCores::new(node, step, task).masks_are_private();
    let own = match bound_by_user || is_private() {
        true => count(&task.cpus),
        false if step.uncounted => return None,
        false => count(&task.step_cpus) / step.tasks_here(),
    };
    Some(own.min(count(cpus)).max(1))
}

struct StepCores<'a> {
    tasks: StepTasks<'a>,
    /// `[core]`: its hardware threads in the step
    cores: Vec<CpuSet>,
}

impl<'a> StepCores<'a> {
    fn new(node: &'a Topology, step: &'a Step, task: &'a Task) -> Self {
        let tasks = StepTasks::new(node, step, task);
        let mut cores = node.cores();
        for core in &mut cores {
            *core = core.intersection(&tasks.cpus);
        }
        cores.retain(|core| !core.is_empty());
        Self { tasks, cores }
    }

    /// True if each task's mask has a core, and no two masks share a core.
    fn masks_are_private(&self) -> bool {
        let masks = self.tasks.all_masks();
        let has_one = |mask: &CpuSet| self.cores.iter().any(|core| core.intersects(mask));
        self.are_ones(&masks) && masks.iter().all(has_one)
    }

    /// True if no two masks share a core.
    fn are_ones(&self, masks: &[CpuSet]) -> bool {
        self.cores.iter().all(|core| {
            let masks = masks.iter().filter(|mask| core.intersects(mask));
            masks.count() <= 1
        })
    }

    fn cores_of(&self, numa: u32) -> Vec<CpuSet> {
        let cpus = self.tasks.node.cpus_of(&[numa].into_iter().collect());
        let mut cores = self.cores.clone();
        cores.retain(|core| core.intersects(&cpus));
        cores
    }

    /// The CPUs of task `id` if Slurm's masks are private: its mask of [`near_masks`] if these are
    /// private too, else Slurm's mask, narrowed to `near` if possible.
    fn by_masks(&self, near: &NodeSet, id: usize) -> (CpuSet, &'static str) {
        let tasks = &self.tasks;
        let own = tasks.mask(id);
        if !tasks.gpu_nodes.is_empty() && !tasks.have_too_many_masks() {
            let mut masks = near_masks(tasks);
            if masks[id] != *own && self.are_ones(&masks) {
                let mask = masks.swap_remove(id);
                return (mask, "cores of its own, for which tasks change places");
            }
        }
        let mut cpus = near_mask(tasks, id, near, |_| tasks.len());
        if !cpus.is_subset(own) {
            cpus = own.clone();
        }
        (cpus, "the cores that Slurm gave to it alone")
    }

    /// The cores of task `id`. Each NUMA node is divided evenly among the tasks with GPUs there. If
    /// GPUs are unknown, all tasks divide it, and a task keeps only its parts nearest to `near`.
    fn divided(&self, near: &NodeSet, id: usize) -> Result<(CpuSet, &'static str), &'static str> {
        let (node, tasks) = (self.tasks.node, &self.tasks);
        let nodes = node.nodes_of(&union(&self.cores));
        // the step's NUMA nodes in `near`; if there are none, those of the task's mask
        let reached = |near: &NodeSet, id: usize| {
            let reached = near.intersection(&nodes);
            match reached.is_empty() {
                true => node.nodes_of(tasks.mask(id)).intersection(&nodes),
                false => reached,
            }
        };
        let nodes_of_task = tasks.gpu_nodes.iter().enumerate();
        let nodes_of_task = nodes_of_task
            .map(|(id, gpu_nodes)| Some(reached(gpu_nodes.as_ref()?, id)))
            .collect::<Option<Vec<NodeSet>>>()
            .ok_or("which GPU each task has is not certain")?;
        let is_known = !nodes_of_task.is_empty();
        // only a task's nearest parts count: far ones would raise the mean distance
        let away = |numa| tasks.distance(&node.cpus_of(&[numa].into_iter().collect()), near);
        let own = reached(near, id);
        let nearest = own.iter().map(away).min();
        let shares = LeastShares::new(tasks);
        let mut parts = vec![CpuSet::new(); tasks.len()];
        for numa in nodes.iter() {
            let mut sharers: Vec<usize> = (0..tasks.len()).collect();
            sharers.retain(|&id| !is_known || nodes_of_task[id].contains(numa));
            let cores = self.cores_of(numa);
            if cores.len() < sharers.len() {
                return Err(FEW);
            }
            let here = even_parts(&cores, sharers.len());
            // if GPUs are unknown, a task may keep only one part, so each part must be a whole
            // share
            if !is_known && !shares.are_kept(&here) {
                return Err(LESS);
            }
            if is_known || own.contains(numa) && Some(away(numa)) == nearest {
                for (id, part) in sharers.into_iter().zip(&here) {
                    parts[id].add(part);
                }
            }
        }
        if is_known && !shares.are_kept(&parts) {
            return Err(LESS);
        }
        let is_farther = |(id, gpu_nodes): (usize, &NodeSet)| {
            let away = |cpus: &CpuSet| tasks.distance(cpus, gpu_nodes);
            away(&parts[id]) > away(tasks.mask(id))
        };
        if tasks.with_known_gpus().any(is_farther) {
            return Err(
                "cores of its own would be farther from a task's GPUs than the CPUs that Slurm gave it",
            );
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

pub(crate) const UNCOUNTED: &str =
    "nobody says how many processes share these CPUs, which `--local-size` would";

#[cfg(test)]
mod tests;

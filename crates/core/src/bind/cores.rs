//! `bind=core`: whole cores for each task of a step, disjoint although each task decides alone.
//!
//! A task knows its own GPUs but not the others', and no task waits for another.  So the cores a task may
//! take follow from facts that all tasks of the step on the node share: the topology, slurmd's masks, and
//! Slurm's rule for GPUs.  Only the choice among its own seats may depend on a task's own GPUs.  No two tasks
//! share a seat, whatever their GPUs are.
#![forbid(unsafe_code)]

use super::crew::{Crew, memory_bound};
use super::settle::{Due, part, settle, settle_alone};
use crate::step::{Step, Task};
use crate::topology::{CpuSet, NodeSet, Topology};

/// One task's share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// these CPUs, which no other task of the step gets, and how we found them
    Own(CpuSet, &'static str),
    /// no task gets cores of its own, and why: every task of the step finds the same
    Undivided(&'static str),
}

/// The cores of `task`, near `near` if it has a seat there and every task of the step keeps its share.
pub fn share(topology: &Topology, step: &Step, task: &Task, near: &NodeSet) -> Share {
    if step.uncounted {
        return Share::Undivided(UNCOUNTED);
    }
    let table = Table::new(topology, step, task);
    if table.cores.is_empty() {
        return Share::Undivided("the node's cores are not known");
    }
    let id = task.local_id as usize;
    if id >= table.crew.len() {
        return Share::Undivided("Slurm counts fewer tasks here than there are");
    }
    if table.masks_are_private() {
        return table.own(near, id);
    }
    if memory_bound(step).is_some() {
        return Share::Undivided(MEMORY);
    }
    match table.crew.homes.is_empty() {
        true => table.seats_for_all(near, id),
        false => table.seats_as_dealt(id),
    }
}

/// The number of cores that a task on `cpus` can use alone: its own ones, else an even share; `None` if it is not known how
/// many tasks share them.
pub fn threads(topology: &Topology, step: &Step, task: &Task, cpus: &CpuSet) -> Option<usize> {
    let mut cores = topology.cores();
    if cores.is_empty() {
        cores = task.step_cpus.iter().map(|cpu| [cpu].into_iter().collect()).collect();
    }
    let of = |cpus: &CpuSet| cores.iter().filter(|core| core.intersects(cpus)).count();
    let bound_by_user = step.cpu_bind.as_deref().is_some_and(|how| how != "none");
    let own = match () {
        () if !step.uncounted && Table::new(topology, step, task).masks_are_private() => of(&task.cpus),
        () if bound_by_user && task.masks.is_empty() => of(&task.cpus),
        () if step.uncounted => return None,
        () => of(&task.step_cpus) / step.tasks_here(),
    };
    Some(own.min(of(cpus)).max(1))
}

/// What all tasks of the step on this node see alike.
struct Table<'a> {
    topology: &'a Topology,
    crew: Crew<'a>,
    /// the step's part of each core of which it has one
    cores: Vec<CpuSet>,
}

impl<'a> Table<'a> {
    fn new(topology: &'a Topology, step: &'a Step, task: &'a Task) -> Table<'a> {
        let crew = Crew::new(topology, step, task);
        let cores = topology.cores().into_iter().map(|core| core.intersection(&crew.cpus));
        let cores = cores.filter(|core| !core.is_empty()).collect();
        Table { topology, crew, cores }
    }

    /// Does each task have cores of which no other task has a thread?
    fn masks_are_private(&self) -> bool {
        let masks = self.crew.all_masks();
        let is_ones = |core: &CpuSet| masks.iter().filter(|mask| mask.intersects(core)).count() <= 1;
        let has_one = |mask: &&CpuSet| self.cores.iter().any(|core| core.intersects(mask));
        self.cores.iter().all(is_ones) && masks.iter().all(has_one)
    }

    /// The step's cores on a NUMA node.
    fn cores_of(&self, node: u32) -> Vec<CpuSet> {
        let cpus = self.topology.numa_node(node).map(|node| &node.cpus);
        self.cores.iter().filter(|core| cpus.is_some_and(|cpus| core.intersects(cpus))).cloned().collect()
    }

    /// NUMA nodes on which the step has cores.
    fn nodes(&self) -> NodeSet {
        let nodes = self.topology.numa_nodes.iter().map(|node| node.os_index);
        nodes.filter(|&node| !self.cores_of(node).is_empty()).collect()
    }

    /// The nodes of `near` that the step reaches, else the nodes on which Slurm put the task.
    fn home(&self, near: &NodeSet, id: usize) -> NodeSet {
        let nodes = self.nodes();
        let home = near.intersection(&nodes);
        if home.is_empty() { self.topology.nodes_of(self.crew.mask(id)).intersection(&nodes) } else { home }
    }

    /// Where Slurm gave each task cores of its own: these, or with known GPUs nearer ones of a task that changes places with it.
    fn own(&self, near: &NodeSet, id: usize) -> Share {
        let crew = &self.crew;
        let settled = match crew.homes.is_empty() || crew.has_too_many_masks() {
            true => Vec::new(),
            false => settle(self.topology, crew),
        };
        let is_ones = |core: &CpuSet| settled.iter().filter(|mask| core.intersects(mask)).count() <= 1;
        let is_private = self.cores.iter().all(is_ones);
        if let Some(seat) = settled.get(id).filter(|seat| is_private && seat.as_ref() != crew.mask(id)) {
            return Share::Own(seat.clone().into_owned(), "cores of its own, for which tasks change places");
        }
        let alone = settle_alone(self.topology, crew, id, near, |_| crew.len());
        let own = if alone.is_subset(crew.mask(id)) { alone } else { crew.mask(id).clone() };
        Share::Own(own, "the cores that Slurm gave to it alone")
    }

    /// With known GPUs: divides a node's cores among the tasks whose GPUs are there.
    fn seats_as_dealt(&self, id: usize) -> Share {
        let crew = &self.crew;
        let Some(deal) = crew.homes.iter().cloned().collect::<Option<Vec<NodeSet>>>() else {
            return Share::Undivided("which GPU each task has is not certain");
        };
        let homes: Vec<NodeSet> = (0..crew.len()).map(|id| self.home(&deal[id], id)).collect();
        let mut seats = vec![CpuSet::new(); crew.len()];
        for node in self.nodes().iter() {
            let holders: Vec<usize> = (0..crew.len()).filter(|&id| homes[id].contains(node)).collect();
            let cores = self.cores_of(node);
            if cores.len() < holders.len() {
                return Share::Undivided(FEW);
            }
            for (seat, &holder) in holders.iter().enumerate() {
                seats[holder] = seats[holder].union(&part(&cores, seat, holders.len()));
            }
        }
        match Due::new(self.topology, crew).is_kept(&seats.iter().collect::<Vec<_>>()) {
            true => Share::Own(
                seats.swap_remove(id),
                "cores of its own, divided among the tasks that belong there",
            ),
            false => Share::Undivided(LESS),
        }
    }

    /// With unknown GPUs: every task has a seat on every node, and takes those near its GPUs.
    fn seats_for_all(&self, near: &NodeSet, id: usize) -> Share {
        let (tasks, due) = (self.crew.len(), Due::new(self.topology, &self.crew));
        for node in self.nodes().iter() {
            let cores = self.cores_of(node);
            if cores.len() < tasks {
                return Share::Undivided(FEW);
            }
            // whichever seat a task takes, it must be enough
            let seats: Vec<CpuSet> = (0..tasks).map(|id| part(&cores, id, tasks)).collect();
            if !due.is_kept(&seats.iter().collect::<Vec<_>>()) {
                return Share::Undivided(LESS);
            }
        }
        let mut mine = CpuSet::new();
        for node in self.home(near, id).iter() {
            mine = mine.union(&part(&self.cores_of(node), id, tasks));
        }
        Share::Own(
            mine,
            "cores of its own, one seat for each task of the step, since the tasks' GPUs are unknown",
        )
    }
}

const FEW: &str = "the step has fewer cores than tasks on a NUMA node, which `-c` may change";

const LESS: &str = "cores of its own would be less than a task's share of the step's CPUs";

const MEMORY: &str = "the tasks' memory is bound by `--mem-bind`, and tasks stay by it";

/// Nothing can be divided among so many.
pub const UNCOUNTED: &str = "nobody says how many processes share these CPUs, which `--local-size` would";

#[cfg(test)]
mod tests;

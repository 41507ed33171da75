//! The facts that all tasks of a step on this node share: their number, masks and parts, and, if Slurm's rule
//! tells them, the NUMA nodes of all tasks' GPUs.
//!
//! Each task decides alone, and none waits for another.  So what a task takes must follow from these facts,
//! from which every other task computes the same.
#![forbid(unsafe_code)]

use super::{gpuless, identity};
use crate::step::rule::{self, Rule};
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
    /// `[task]`: the CPUs that it asked for (`-c`), with all threads of their cores where Slurm gave it those; else its share
    /// of the step's; never more than Slurm's mask has
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
        let homes = deal(topology, step, task).or_else(|| gpuless::deal(topology, step, task));
        let mut crew = Crew { tasks, masks, parts: Vec::new(), homes, cpus };
        let asked = crew.part_asked(step, !task.masks.is_empty());
        crew.parts = (0..tasks).map(|id| asked.min(crew.mask(id).len())).collect();
        crew
    }

    /// The CPUs of a task by what it asked for, whatever its mask.
    fn part_asked(&self, step: &Step, by_slurmd: bool) -> usize {
        let Some(asked) = step.cpus_per_task.map(|asked| asked as usize) else {
            return (self.cpus.len() / self.tasks).max(1);
        };
        // only masks of slurmd's are of the step's cores: the affinity of a task that nobody bound can be the whole node
        let counted = step.counted.filter(|_| by_slurmd);
        let Some((counted, cores)) = counted.map(|counted| (counted, counted.cores.max(1) as usize)) else {
            return asked.max(1);
        };
        let threads = if self.cpus.len() % cores == 0 { (self.cpus.len() / cores).max(1) } else { 1 };
        let asked = if counted.cpus == counted.cores { asked.saturating_mul(threads) } else { asked }.max(1);
        // `--ntasks-per-core=1`, CR_ONE_TASK_PER_CORE: the rest of its last core is nobody else's
        if self.is_private() { asked.div_ceil(threads).saturating_mul(threads) } else { asked }
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

/// Does each task have GPUs that no other task has (`--gpus-per-task`)?
pub(super) fn has_own_gpus(task: &Task) -> bool {
    let rule = task.gpu_bind.as_deref().and_then(rule::of_gpus);
    task.promised.is_some() || rule.is_some_and(|rule| rule.text.starts_with("per_task:"))
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
    let Rule { text: rule, is_later, .. } = rule::of_gpus(task.gpu_bind.as_deref()?)?;
    let list: Vec<&str> = step.gpus.as_deref()?.split(',').collect();
    let tasks = step.tasks_here();
    let nodes_of = |gpus: &[&str]| {
        let step = Step { gpus: Some(gpus.join(",")), ..Step::default() };
        let found = identity::identify(topology, &step, &GpuGrant::default()).gpus;
        let nodes = found.iter().map(|&gpu| topology.numa_node_of(topology.gpu(gpu).address));
        let nodes = nodes.collect::<Option<NodeSet>>()?;
        (found.len() == gpus.len()).then_some(nodes)
    };
    if let Some(each) = rule.strip_prefix("per_task:") {
        let each: usize = each.parse().ok()?;
        if is_later || each == 0 || list.len() < tasks.checked_mul(each)? {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Gpu, GpuVendor, NumaNode, PciFunction, PciParent, Provenance};

    /// Two NUMA nodes of four CPUs; GPUs 0 and 1 on the first, 2 and 3 on the second.
    fn machine() -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for node in 0..2u32 {
            let cpus = (4 * node..4 * node + 4).collect();
            topology.numa_nodes.push(NumaNode { os_index: node, cpus, distances: Vec::new(), package: None });
            for minor in [2 * node, 2 * node + 1] {
                let address = format!("{:02x}:00.0", minor + 1).parse().unwrap();
                let parent = PciParent::Host("pci0000:00".parse().unwrap());
                topology
                    .pci
                    .insert(PciFunction { numa_node: Some(node), ..PciFunction::new(address, parent) });
                topology.gpus.push(Gpu { minor: Some(minor), ..Gpu::new(address, GpuVendor::Nvidia) });
            }
        }
        topology
    }

    /// The NUMA nodes that a rule gives to so many tasks of a step with these GPUs, such as `0 0 1 1`.
    fn dealt(tasks: u32, gpus: &str, rule: &str) -> Option<String> {
        let step = Step { tasks, gpus: Some(gpus.to_string()), ..Step::default() };
        let task = Task { gpu_bind: Some(rule.to_string()), ..Task::default() };
        let nodes = deal(&machine(), &step, &task)?;
        Some(nodes.iter().map(NodeSet::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn slurm_22_05_deals_gpus_in_order() {
        assert_eq!(dealt(4, "0,1,2,3", "gpu:per_task:1").as_deref(), Some("0 0 1 1"));
        assert_eq!(dealt(2, "0,1,2,3", "gpu:per_task:2").as_deref(), Some("0 1"));
        assert_eq!(dealt(1, "1,2", "gpu:per_task:2").as_deref(), Some("0-1"));
        assert_eq!(dealt(2, "0,1,2,3", "gpu:per_task:1").as_deref(), Some("0 0"), "the others stay idle");
    }

    #[test]
    fn a_map_deals_gpus_by_local_id_and_starts_again() {
        for rule in [
            "gpu:map_gpu:3,0",
            "gres/gpu:map:3,0",
            "gres/gpu:verbose,map:3,0",
            "gres/tmp:per_task:10+gres/gpu:map:3,0",
            "gres/gpu:map:3,0+gres/nic:closest",
        ] {
            assert_eq!(dealt(3, "0,1,2,3", rule).as_deref(), Some("1 0 1"), "{rule}");
        }
    }

    #[test]
    fn a_rule_that_does_not_tell_every_tasks_gpus_deals_none() {
        let untold = [
            (4, "0,1,2,3", "gres/gpu:per_task:1", "later releases look at the masks first"),
            (5, "0,1,2,3", "gpu:per_task:1", "fewer GPUs than it says"),
            (2, "0,1,2,3", "gpu:per_task:0", "none for each"),
            (2, "0,1,2,3", "gpu:per_task:18446744073709551615", "more than can be counted"),
            (2, "0,9", "gpu:per_task:1", "a GPU that this node lacks"),
            (1, "0,9", "gpu:per_task:2", "one of its GPUs, and not where the other is"),
            (2, "2,3", "gpu:map_gpu:2,3", "numbers of the node or of the job's part of it"),
            (2, "0,1,2,3", "gpu:map_gpu:0,7", "a GPU that the step lacks"),
            (2, "0,1,2,3", "gpu:closest", "no rule at all"),
            (2, "0,1,2,3", "per_task:1", "not about GPUs"),
            (2, "0,1,2,3", "nic:per_task:1", "about NICs"),
        ];
        for (tasks, gpus, rule, why) in untold {
            assert_eq!(dealt(tasks, gpus, rule), None, "{why}");
        }
    }

    #[test]
    fn a_task_has_gpus_of_its_own_by_the_users_promise_or_by_per_task() {
        let own = |promised: Option<Vec<GpuIndex>>, rule: &str| {
            has_own_gpus(&Task { promised, gpu_bind: Some(rule.to_string()), ..Task::default() })
        };
        assert!(own(None, "gpu:per_task:1") && own(None, "gres/gpu:per_task:2"));
        assert!(own(None, "gres/tmp:per_task:10+gres/gpu:per_task:1"), "as srun writes `--tres-per-task`");
        assert!(!own(None, "gres/nic:per_task:1+gres/gpu:closest") && !own(None, "gres/nic:per_task:1"));
        assert!(own(Some(vec![GpuIndex(0)]), "gpu:closest"));
        assert!(!own(None, "gpu:map_gpu:0,0") && !own(None, "gpu:closest") && !own(None, ""));
    }

    /// Are the masks of so many tasks private, and the parts of the tasks.
    fn crew(tasks: u32, cpus_per_task: Option<u32>, masks: &[&str]) -> (bool, Vec<usize>) {
        let masks = masks.iter().map(|mask| CpuSet::from_list(mask).unwrap()).collect();
        let task = Task { masks, ..Task::default() };
        let crew = Crew::new(&machine(), &Step { tasks, cpus_per_task, ..Step::default() }, &task);
        (crew.is_private(), crew.parts)
    }

    #[test]
    fn masks_are_private_where_each_task_has_one_with_cpus_that_no_other_has() {
        assert_eq!(crew(2, None, &["0-1", "4-5"]), (true, vec![2, 2]));
        assert_eq!(crew(1, None, &["0-1"]), (true, vec![2]));
        assert_eq!(crew(2, None, &["0-1", "1-2"]), (false, vec![1, 1]), "they share a CPU");
        assert_eq!(crew(2, None, &["0-3", "0-3"]), (false, vec![2, 2]), "they share all");
        assert_eq!(crew(3, None, &["0-1", "4-5"]), (false, vec![1; 3]), "Slurm starts again at the first");
        assert_eq!(crew(2, None, &["0-1", ""]), (false, vec![1, 0]), "who has none shares in vain");
        assert_eq!(crew(2, Some(3), &["0-1", "4-7"]), (true, vec![2, 3]), "never more than the mask has");
    }
}

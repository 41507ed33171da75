//! Facts that all tasks of a step on this node share: their number, masks and `-c`, and their GPUs'
//! NUMA nodes if Slurm's rule gives them.
//!
//! Each task decides alone, without waiting. All tasks compute from the same facts, so their
//! decisions agree.

use super::gpuless;
use crate::gpus;
use crate::step::rule::{self, Rule};
use crate::step::{Access, Counted, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, NumaNode, Topology};
use std::borrow::Borrow;

/// The most tasks with different masks that we move; more tasks keep Slurm's masks. A node has
/// fewer tasks with private GPUs.
const MOST_DIFFERENT_MASKS: usize = 64;

pub(super) struct StepTasks<'t> {
    pub node: &'t Topology,
    step: &'t Step,
    /// Slurm's masks: one if all are equal, the step's CPUs if Slurm bound no task
    masks: &'t [CpuSet],
    /// hardware threads that each task asked for (`-c`)
    pub asked: Option<usize>,
    /// `[task]`: its GPUs' NUMA nodes, `None` if unknown; empty if all are unknown
    pub gpu_nodes: Vec<Option<NodeSet>>,
    pub cpus: CpuSet,
    threads_per_core: Option<usize>,
}

pub(super) fn union<M: Borrow<CpuSet>>(masks: impl IntoIterator<Item = M>) -> CpuSet {
    let mut all = CpuSet::new();
    masks.into_iter().for_each(|mask| all.add(mask.borrow()));
    all
}

impl<'t> StepTasks<'t> {
    pub fn new(node: &'t Topology, step: &'t Step, task: &'t Task) -> Self {
        let count = step.tasks_here();
        let masks = match task.masks.as_slice() {
            [] => std::slice::from_ref(&task.cpus),
            masks => &masks[..masks.len().min(count)],
        };
        let is_one = masks.iter().all(|mask| *mask == masks[0]);
        let masks = if is_one { &masks[..1] } else { masks };
        let cpus = union(masks);
        let gpu_nodes = nodes_by_rule(node, step, task).or_else(|| {
            let parts = gpuless::node_parts(node, step, task)?;
            Some(parts.into_iter().map(Some).collect())
        });
        Self {
            node,
            step,
            masks,
            asked: asked(step, task, &cpus),
            gpu_nodes: gpu_nodes
                .filter(|nodes| nodes.len() == count)
                .unwrap_or_default(),
            cpus,
            threads_per_core: task.threads_per_core.filter(|threads| *threads > 0),
        }
    }

    pub fn len(&self) -> usize {
        self.step.tasks_here()
    }

    /// Slurm's mask of a task; with fewer masks than tasks Slurm starts again at the first
    /// (src/plugins/task/affinity/affinity.c, `get_cpuset`).
    pub fn mask(&self, id: usize) -> &CpuSet {
        &self.masks[id % self.masks.len()]
    }

    pub fn all_masks(&self) -> Vec<CpuSet> {
        (0..self.len()).map(|id| self.mask(id).clone()).collect()
    }

    pub fn with_known_gpus(&self) -> impl Iterator<Item = (usize, &NodeSet)> {
        let tasks = self.gpu_nodes.iter().enumerate();
        tasks.filter_map(|(id, nodes)| Some((id, nodes.as_ref()?)))
    }

    /// True if too many tasks have different masks: a user can forge the list of masks, and each
    /// moving task reads all of it.
    pub fn have_too_many_masks(&self) -> bool {
        self.len() > MOST_DIFFERENT_MASKS && !self.share_one_mask()
    }

    pub fn share_one_mask(&self) -> bool {
        self.masks.len() == 1
    }

    /// True if masks may split cores that were not read, and the step may lack threads of some
    /// cores. A task alone on a core would then exchange masks with a task that shares one.
    pub fn may_differ_in_cores(&self) -> bool {
        let Some(threads) = self.threads_per_core else {
            return false;
        };
        let have_all = |counted: Counted| self.cpus.len() == counted.cores as usize * threads;
        self.node.pus.is_empty()
            && !self.share_one_mask()
            && self.masks.iter().any(|mask| mask.len() % threads != 0)
            && !self.step.counted.is_some_and(have_all)
    }

    /// True if each task has CPUs, none of them another's.
    pub fn are_private(&self) -> bool {
        let sum: usize = self.masks.iter().map(CpuSet::len).sum();
        self.masks.len() == self.len()
            && sum == self.cpus.len()
            && !self.masks.iter().any(CpuSet::is_empty)
    }

    /// True if the memory binding lets a task with this mask run on these CPUs.
    ///
    /// Under `--mem-bind` the CPUs must be on the mask's NUMA nodes, since other tasks' memory
    /// nodes are unknown: even `local` can mean one of a mask's two (Slurm's
    /// src/plugins/task/affinity/numa.c, `get_memset`).
    pub fn may_run(&self, mask: &CpuSet, cpus: &CpuSet) -> bool {
        memory_bound(self.step).is_none() || self.node.nodes_of(mask) == self.node.nodes_of(cpus)
    }

    /// The CPUs' mean distance from the nearest of some NUMA nodes, in hundredths (ACPI SLIT: 10 is
    /// local). Unknown distances count 20, the kernel's default (include/linux/topology.h,
    /// `REMOTE_DISTANCE`).
    pub fn distance(&self, cpus: &CpuSet, near: &NodeSet) -> u64 {
        let weighted = |numa: &NumaNode| {
            let own = numa.os_index;
            let between = |to: u32| {
                let unknown = if own == to { 10 } else { 20 };
                self.node.distance(to, own).unwrap_or(unknown)
            };
            let count = numa.cpus.intersection(cpus).len() as u64;
            count * u64::from(near.iter().map(between).min().unwrap_or(0))
        };
        let sum: u64 = self.node.numa_nodes.iter().map(weighted).sum();
        100 * sum / cpus.len().max(1) as u64
    }
}

/// The user's `--mem-bind`, unless it is `none`.
pub(super) fn memory_bound(step: &Step) -> Option<&str> {
    step.mem_bind.as_deref().filter(|how| !how.contains("none"))
}

/// Hardware threads that each task asked for.
///
/// Slurm's `-c` counts cores if the node's `CPUs=` does, under `--ntasks-per-core=1`, and under
/// 22.05's `--hint=compute_bound`; a task then has all threads of each core. We assume cores unless
/// Slurm's count of the step's cores proves threads, since too large a share does less harm than
/// too small a one.
fn asked(step: &Step, task: &Task, cpus: &CpuSet) -> Option<usize> {
    let asked = step.cpus_per_task?.max(1) as usize;
    let Some(counted) = step.counted else {
        return Some(asked);
    };
    let cores = counted.cores.max(1) as usize;
    let threads = match task.masks.is_empty() {
        true => task.threads_per_core.unwrap_or(1),
        // slurmd's masks cover the step's cores, with one thread of each if a hint says so
        false if cpus.len() % cores == 0 => (cpus.len() / cores).max(1),
        false => 1,
    };
    let are_threads = asked.saturating_mul(step.tasks_here()).div_ceil(threads) == cores;
    Some(match are_threads && counted.cpus != counted.cores {
        true => asked,
        false => asked.saturating_mul(threads),
    })
}

/// True if no two tasks share a GPU (`--gpus-per-task`).
pub(super) fn have_own_gpus(task: &Task) -> bool {
    let rule = task.gpu_bind.as_deref().and_then(rule::of_gpus);
    task.gpus_by_local_id().is_some() || rule.is_some_and(|rule| rule.text.starts_with("per_task:"))
}

/// `[task]`: its GPUs' NUMA nodes, by `gpu=local-id` or Slurm's rule.
///
/// `per_task:N` before 23.11 gives each task the next N of the step's GPUs (gres.c,
/// `_get_usable_gres`); later releases choose by the tasks' masks. `map_gpu:` (later `map:`) lists
/// one GPU number for each local task, and repeats if too short. The numbers are the node's if the
/// job has all GPUs of the node, else ambiguous.
fn nodes_by_rule(node: &Topology, step: &Step, task: &Task) -> Option<Vec<Option<NodeSet>>> {
    if let Some(gpus) = task.gpus_by_local_id() {
        let nodes = gpus.iter().map(|&gpu| nodes_of(node, &[gpu]));
        return Some(nodes.collect());
    }
    let Rule { text, is_later, .. } = rule::of_gpus(task.gpu_bind.as_deref()?)?;
    let list: Vec<&str> = gpus::entries(step.gpus.as_deref()?).collect();
    let tasks = step.tasks_here();
    // `[task]`: its first GPU's position in the list, and its number of GPUs
    let places: Vec<(usize, usize)> = if let Some(each) = text.strip_prefix("per_task:") {
        let each: usize = each.parse().ok()?;
        if is_later || each == 0 || list.len() < tasks.checked_mul(each)? {
            return None;
        }
        (0..tasks).map(|id| (id * each, each)).collect()
    } else {
        let map = text.strip_prefix("map_gpu:");
        let map = map.or_else(|| text.strip_prefix("map:"))?.split(',');
        let map = map.map(|gpu| list.iter().position(|number| *number == gpu));
        let map: Vec<usize> = map.collect::<Option<_>>()?;
        if (0usize..)
            .zip(&list)
            .any(|(place, number)| number.parse() != Ok(place))
        {
            return None;
        }
        (0..tasks).map(|id| (map[id % map.len()], 1)).collect()
    };
    let &(own, each) = places.get(task.local_id as usize)?;
    let orders = gpu_orders(node, step, task, &list, &list[own..own + each])?;
    // if the orders give different NUMA nodes, the GPUs are unknown, and the task keeps Slurm's
    // mask
    let nodes = |(from, each): (usize, usize)| {
        let mut nodes = orders
            .iter()
            .map(|gpus| nodes_of(node, &gpus[from..from + each]));
        let first = nodes.next()??;
        nodes
            .all(|other| other.as_ref() == Some(&first))
            .then_some(first)
    };
    let all: Vec<Option<NodeSet>> = places.into_iter().map(nodes).collect();
    all.iter().any(Option::is_some).then_some(all)
}

/// The GPUs of `SLURM_STEP_GPUS`, in each order that the list may have.
///
/// If tasks may open all GPUs, the order is the runtime's, as in this task's variables. Under a
/// device cgroup the order is that of gres.conf, which is not read: by device files or, with
/// AutoDetect=nvml, by PCI addresses.
fn gpu_orders(
    node: &Topology,
    step: &Step,
    task: &Task,
    list: &[&str],
    own: &[&str],
) -> Option<Vec<Vec<GpuIndex>>> {
    let mut grant = task.gpus.clone();
    let lists = grant.variables.iter_mut();
    let lists: Vec<&mut String> = lists
        .filter(|(name, _)| gpus::is_slurms(name))
        .map(|(_, list)| list)
        .collect();
    if task.gpus.access.contains(&Access::Denied) || lists.is_empty() {
        return Some(gpus::step_orders(node, step)?.into());
    }
    if lists.iter().any(|list| **list != own.join(",")) {
        return None;
    }
    for value in lists {
        *value = list.join(",");
    }
    let gpus = gpus::identify(node, &Step::default(), &grant).own;
    (gpus.len() == list.len()).then(|| vec![gpus])
}

/// `None` if the kernel names no NUMA node for one of the GPUs.
pub(crate) fn nodes_of(node: &Topology, gpus: &[GpuIndex]) -> Option<NodeSet> {
    let nodes = gpus
        .iter()
        .map(|&gpu| node.numa_node_of(node.gpu(gpu).address));
    nodes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::TaskGpus;
    use crate::topology::{Gpu, GpuVendor, PciFunction, PciParent, Provenance};

    /// Two NUMA nodes of four CPUs; GPUs 0 and 1 on the first, 2 and 3 on the second.
    fn machine() -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for node in 0..2u32 {
            let cpus = (4 * node..4 * node + 4).collect();
            topology.numa_nodes.push(NumaNode {
                os_index: node,
                cpus,
                distances: Vec::new(),
                package: None,
            });
            for minor in [2 * node, 2 * node + 1] {
                let address = format!("{:02x}:00.0", minor + 1).parse().unwrap();
                let parent = PciParent::Host("pci0000:00".parse().unwrap());
                topology.pci.insert(PciFunction {
                    numa_node: Some(node),
                    ..PciFunction::new(address, parent)
                });
                topology.gpus.push(Gpu {
                    minor: Some(minor),
                    ..Gpu::new(address, GpuVendor::Nvidia)
                });
            }
        }
        topology
    }

    /// The NUMA nodes that a rule gives to so many tasks of a step with these GPUs, such as `0 0 1 1`.
    fn dealt(tasks: u32, gpus: &str, rule: &str) -> Option<String> {
        let step = Step {
            tasks,
            gpus: Some(gpus.to_string()),
            ..Step::default()
        };
        let task = Task {
            gpu_bind: Some(rule.to_string()),
            ..Task::default()
        };
        let nodes = nodes_by_rule(&machine(), &step, &task)?;
        let shown =
            |nodes: &Option<NodeSet>| nodes.as_ref().map_or("?".to_string(), NodeSet::to_string);
        Some(nodes.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn slurm_22_05_deals_gpus_in_order() {
        assert_eq!(
            dealt(4, "0,1,2,3", "gpu:per_task:1").as_deref(),
            Some("0 0 1 1")
        );
        assert_eq!(
            dealt(2, "0,1,2,3", "gpu:per_task:2").as_deref(),
            Some("0 1")
        );
        assert_eq!(dealt(1, "1,2", "gpu:per_task:2").as_deref(), Some("0-1"));
        assert_eq!(
            dealt(2, "0,1,2,3", "gpu:per_task:1").as_deref(),
            Some("0 0"),
            "the others stay idle"
        );
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
            assert_eq!(
                dealt(3, "0,1,2,3", rule).as_deref(),
                Some("1 0 1"),
                "{rule}"
            );
        }
    }

    #[test]
    fn a_rule_that_does_not_tell_every_tasks_gpus_deals_none() {
        let untold = [
            (
                4,
                "0,1,2,3",
                "gres/gpu:per_task:1",
                "later releases look at the masks first",
            ),
            (5, "0,1,2,3", "gpu:per_task:1", "fewer GPUs than it says"),
            (2, "0,1,2,3", "gpu:per_task:0", "none for each"),
            (
                2,
                "0,1,2,3",
                "gpu:per_task:18446744073709551615",
                "more than can be counted",
            ),
            (2, "0,9", "gpu:per_task:1", "a GPU that this node lacks"),
            (
                1,
                "0,9",
                "gpu:per_task:2",
                "one of its GPUs, and not where the other is",
            ),
            (
                2,
                "2,3",
                "gpu:map_gpu:2,3",
                "numbers of the node or of the job's part of it",
            ),
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
            let known = TaskGpus {
                by_local_id: promised,
                ..TaskGpus::default()
            };
            have_own_gpus(&Task {
                known: Some(known),
                gpu_bind: Some(rule.to_string()),
                ..Task::default()
            })
        };
        assert!(own(None, "gpu:per_task:1") && own(None, "gres/gpu:per_task:2"));
        assert!(
            own(None, "gres/tmp:per_task:10+gres/gpu:per_task:1"),
            "as srun writes `--tres-per-task`"
        );
        assert!(
            !own(None, "gres/nic:per_task:1+gres/gpu:closest") && !own(None, "gres/nic:per_task:1")
        );
        assert!(own(Some(vec![GpuIndex(0)]), "gpu:closest"));
        assert!(!own(None, "gpu:map_gpu:0,0") && !own(None, "gpu:closest") && !own(None, ""));
    }

    /// Are the masks of so many tasks private?
    fn is_private(tasks: u32, masks: &[&str]) -> bool {
        let masks = masks
            .iter()
            .map(|mask| CpuSet::from_list(mask).unwrap())
            .collect();
        let task = Task {
            masks,
            ..Task::default()
        };
        StepTasks::new(
            &machine(),
            &Step {
                tasks,
                ..Step::default()
            },
            &task,
        )
        .are_private()
    }

    #[test]
    fn masks_are_private_where_each_task_has_one_with_cpus_that_no_other_has() {
        assert!(is_private(2, &["0-1", "4-5"]) && is_private(1, &["0-1"]));
        assert!(!is_private(2, &["0-1", "1-2"]), "they share a CPU");
        assert!(!is_private(2, &["0-3", "0-3"]), "they share all");
        assert!(
            !is_private(3, &["0-1", "4-5"]),
            "Slurm starts again at the first"
        );
        assert!(!is_private(2, &["0-1", ""]), "one has none");
    }

    #[test]
    fn what_a_task_asked_for_is_cores_unless_slurms_count_proves_threads() {
        let asked = |cpus_per_task, counted: Option<(u32, u32)>, cpus: &str| {
            let counted = counted.map(|(cpus, cores)| Counted { cpus, cores });
            let step = Step {
                tasks: 2,
                cpus_per_task,
                counted,
                ..Step::default()
            };
            let cpus = CpuSet::from_list(cpus).unwrap();
            super::asked(
                &step,
                &Task {
                    masks: vec![cpus.clone()],
                    ..Task::default()
                },
                &cpus,
            )
        };
        assert_eq!(asked(None, None, "0-7"), None);
        assert_eq!(
            asked(Some(2), None, "0-7"),
            Some(2),
            "no count: a launcher's"
        );
        assert_eq!(
            asked(Some(2), Some((4, 2)), "0-3"),
            Some(2),
            "two cores of two threads for four CPUs"
        );
        assert_eq!(
            asked(Some(2), Some((8, 4)), "0-7"),
            Some(4),
            "22.05's --hint=compute_bound"
        );
        assert_eq!(
            asked(Some(2), Some((4, 4)), "0-7"),
            Some(4),
            "`CPUs=` its cores"
        );
        assert_eq!(
            asked(Some(1), Some((16, 8)), "0-15"),
            Some(2),
            "--exclusive: no proof"
        );
        assert_eq!(
            asked(Some(2), Some((4, 4)), "0-3"),
            Some(2),
            "cores of one thread"
        );
    }

    #[test]
    fn numbers_of_gpus_are_the_runtimes_where_all_may_be_opened_and_certain_by_both_orders_elsewhere()
     {
        // gres.conf has them by the device files, or by the PCI addresses: the first and the last are exchanged
        let mut topology = machine();
        for (gpu, minor) in [3, 1, 2, 0].into_iter().enumerate() {
            topology.gpus[gpu].minor = Some(minor);
        }
        let nodes = |variable: Option<&str>, denied: bool| {
            let step = Step {
                tasks: 4,
                gpus: Some("0,1,2,3".to_string()),
                ..Step::default()
            };
            let mut task = Task {
                gpu_bind: Some("gpu:per_task:1".to_string()),
                local_id: 1,
                ..Task::default()
            };
            task.gpus.access = (0..4)
                .map(|gpu| {
                    if denied && gpu != 1 {
                        Access::Denied
                    } else {
                        Access::Allowed
                    }
                })
                .collect();
            task.gpus
                .variables
                .extend(variable.map(|list| ("CUDA_VISIBLE_DEVICES", list.to_string())));
            let nodes = nodes_by_rule(&topology, &step, &task)?;
            let shown =
                |nodes: Option<NodeSet>| nodes.map_or("?".to_string(), |nodes| nodes.to_string());
            Some(nodes.into_iter().map(shown).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            nodes(Some("1"), false).as_deref(),
            Some("0 0 1 1"),
            "CUDA counts in PCI order"
        );
        assert_eq!(nodes(Some("0"), true).as_deref(), Some("? 0 1 ?"));
        assert_eq!(nodes(Some("7"), false), None, "another list than Slurm's");
    }
}

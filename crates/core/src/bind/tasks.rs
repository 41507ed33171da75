//! Facts that are equal in all tasks of a step on this node: the tasks' number, masks and `-c`, and
//! their GPUs' NUMA nodes if Slurm's rule or `gpu=local-id` gives them.
//!
//! Each task computes all tasks' CPUs from these facts, so the results agree.

use super::gpuless;
use crate::gpus;
use crate::step::rule::{self, Rule};
use crate::step::{Access, Counted, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, NumaNode, Topology};
use std::borrow::Borrow;

/// A step with more tasks here keeps Slurm's masks if they differ. Steps with private GPUs have
/// fewer tasks.
const MOST_DIFFERENT_MASKS: usize = 64;

pub(super) struct StepTasks<'t> {
    pub node: &'t Topology,
    step: &'t Step,
    /// Slurm's masks, or only one if all are equal; this task's CPUs if Slurm bound no task
    masks: &'t [CpuSet],
    pub asked: Option<usize>,
    /// `[task]`: its GPUs' NUMA nodes or its [`gpuless::node_parts`]; `None` if unknown. Empty if
    /// no task's are known
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

    /// True for more than [`MOST_DIFFERENT_MASKS`] tasks with different masks: a user can forge
    /// masks, and each moving task reads all.
    pub fn have_too_many_masks(&self) -> bool {
        self.len() > MOST_DIFFERENT_MASKS && !self.share_one_mask()
    }

    pub fn share_one_mask(&self) -> bool {
        self.masks.len() == 1
    }

    /// True if tasks with equal shares of CPUs may have unequal shares of cores: the cores were not
    /// read, a mask does not fill whole cores, and the step may lack some threads of its cores.
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

    /// True if each task has CPUs, and no CPU is in two masks.
    pub fn are_private(&self) -> bool {
        let sum: usize = self.masks.iter().map(CpuSet::len).sum();
        self.masks.len() == self.len()
            && sum == self.cpus.len()
            && !self.masks.iter().any(CpuSet::is_empty)
    }

    /// True if the memory binding lets a task with this `mask` run on `cpus`.
    ///
    /// Under `--mem-bind` both sets must have the same NUMA nodes, since other tasks' memory nodes
    /// are unknown: even `local` can mean one of a mask's two nodes
    /// (src/plugins/task/affinity/numa.c, `get_memset`).
    pub fn may_run(&self, mask: &CpuSet, cpus: &CpuSet) -> bool {
        memory_bound(self.step).is_none() || self.node.nodes_of(mask) == self.node.nodes_of(cpus)
    }

    /// The mean distance of `cpus` from the nearest node of `near` by ACPI SLIT (10: local), times
    /// 100. An unknown distance between two nodes is 20, the kernel's default
    /// (include/linux/topology.h, `REMOTE_DISTANCE`).
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

pub(super) fn memory_bound(step: &Step) -> Option<&str> {
    step.mem_bind.as_deref().filter(|how| !how.contains("none"))
}

/// Hardware threads that each task asked for; `None` without `-c`.
///
/// Slurm's `-c` counts cores, not threads, if slurm.conf's `CPUs=` does, under
/// `--ntasks-per-core=1`, and under 22.05's `--hint=compute_bound`; a task then has all threads of
/// each core. Without Slurm's count of the step's cores we assume threads. With a count we assume
/// cores unless it proves threads, since too large a share harms less than too small a one.
fn asked(step: &Step, task: &Task, cpus: &CpuSet) -> Option<usize> {
    let asked = step.cpus_per_task?.max(1) as usize;
    let Some(counted) = step.counted else {
        return Some(asked);
    };
    let cores = counted.cores.max(1) as usize;
    let threads = match task.masks.is_empty() {
        true => task.threads_per_core.unwrap_or(1),
        // the masks have all threads of the step's cores, or one of each core if a hint says so
        false if cpus.len() % cores == 0 => (cpus.len() / cores).max(1),
        false => 1,
    };
    let are_threads = asked.saturating_mul(step.tasks_here()).div_ceil(threads) == cores;
    Some(match are_threads && counted.cpus != counted.cores {
        true => asked,
        false => asked.saturating_mul(threads),
    })
}

/// True if no two tasks share a GPU (`--gpus-per-task`, `gpu=local-id`).
pub(super) fn have_own_gpus(task: &Task) -> bool {
    let rule = task.gpu_bind.as_deref().and_then(rule::of_gpus);
    task.gpus_by_local_id().is_some() || rule.is_some_and(|rule| rule.text.starts_with("per_task:"))
}

/// `[task]`: its GPUs' NUMA nodes, by `gpu=local-id` or Slurm's rule.
///
/// `per_task:N` before 23.11 gives each task the next N of the step's GPUs (gres.c,
/// `_get_usable_gres`); later releases choose by the tasks' masks. `map_gpu:` (later `map:`) lists
/// one GPU number for each local task, and repeats if too short. A map's numbers count the node's
/// GPUs or the job's (srun(1)), so the result is `None` unless the step's GPUs are `0,1,…`.
fn nodes_by_rule(node: &Topology, step: &Step, task: &Task) -> Option<Vec<Option<NodeSet>>> {
    if let Some(gpus) = task.gpus_by_local_id() {
        let nodes = gpus.iter().map(|&gpu| nodes_of(node, &[gpu]));
        return Some(nodes.collect());
    }
    let Rule { text, is_later, .. } = rule::of_gpus(task.gpu_bind.as_deref()?)?;
    let list: Vec<&str> = gpus::entries(step.gpus.as_deref()?).collect();
    let tasks = step.tasks_here();
    // `[task]`: the position of its first GPU in `list`, and its number of GPUs
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
    // `None` if the orders give different NUMA nodes: the task then keeps Slurm's mask
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

/// The GPUs of `list` (`SLURM_STEP_GPUS`), in each order that it may have. `own`: this task's part
/// of `list`.
///
/// If the task may open all GPUs, the order is the GPU runtime's; `None` if the task's variables
/// differ from `own`. With a denied GPU or without variables the order is that of gres.conf, which
/// is not read: by device files or, with AutoDetect=nvml, by PCI addresses.
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
    use crate::bind::tests::{self, set};
    use crate::step::TaskGpus;

    /// Two NUMA nodes of four CPUs; GPUs 0 and 1 on the first, 2 and 3 on the second.
    fn machine() -> Topology {
        tests::machine([2, 1, 4, 1], false, &tests::dealt(4, 2))
    }

    fn step(tasks: u32, gpus: &str) -> Step {
        with! { Step { tasks, gpus: Some(gpus.to_string()) } }
    }

    fn under(rule: &str) -> Task {
        with! { Task { gpu_bind: Some(rule.to_string()) } }
    }

    /// The NUMA nodes that the rule gives to each task, such as `0 0 1 1`.
    fn nodes(topology: &Topology, step: &Step, task: &Task) -> Option<String> {
        let nodes = nodes_by_rule(topology, step, task)?;
        let shown =
            |nodes: &Option<NodeSet>| nodes.as_ref().map_or("?".to_string(), NodeSet::to_string);
        Some(nodes.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_rule_deals_gpus_where_it_tells_every_tasks_and_none_elsewhere() {
        let all = "0,1,2,3";
        for (tasks, gpus, rule, expected) in rows! {
            // Slurm 22.05 deals them in order, and the others stay idle
            4, all, "gpu:per_task:1", Some("0 0 1 1"); 2, all, "gpu:per_task:2", Some("0 1");
            1, "1,2", "gpu:per_task:2", Some("0-1"); 2, all, "gpu:per_task:1", Some("0 0");
            // a map deals them by local id, and starts again
            3, all, "gpu:map_gpu:3,0", Some("1 0 1"); 3, all, "gres/gpu:map:3,0", Some("1 0 1");
            3, all, "gres/gpu:verbose,map:3,0", Some("1 0 1");
            3, all, "gres/tmp:per_task:10+gres/gpu:map:3,0", Some("1 0 1");
            3, all, "gres/gpu:map:3,0+gres/nic:closest", Some("1 0 1");
            // later releases look at the masks first
            4, all, "gres/gpu:per_task:1", None;
            // fewer GPUs than it says, none for each, more than can be counted
            5, all, "gpu:per_task:1", None; 2, all, "gpu:per_task:0", None;
            2, all, "gpu:per_task:18446744073709551615", None;
            // a GPU that this node lacks, of one task or beside one that it has
            2, "0,9", "gpu:per_task:1", None; 1, "0,9", "gpu:per_task:2", None;
            // numbers of the node or of the job's part of it; a GPU that the step lacks
            2, "2,3", "gpu:map_gpu:2,3", None; 2, all, "gpu:map_gpu:0,7", None;
            // no rule, or not about GPUs
            2, all, "gpu:closest", None; 2, all, "per_task:1", None; 2, all, "nic:per_task:1", None;
        } {
            let found = nodes(&machine(), &step(tasks, gpus), &under(rule));
            let got = found.as_deref();
            assert_eq!(got, expected, "{tasks} tasks, {rule} of {gpus}");
        }
    }

    #[test]
    fn a_task_has_gpus_of_its_own_by_the_users_promise_or_by_per_task() {
        for (promised, rule, expected) in rows! {
            false, "gpu:per_task:1", true; false, "gres/gpu:per_task:2", true;
            // as srun writes `--tres-per-task`
            false, "gres/tmp:per_task:10+gres/gpu:per_task:1", true;
            false, "gres/nic:per_task:1+gres/gpu:closest", false;
            false, "gres/nic:per_task:1", false; true, "gpu:closest", true;
            false, "gpu:map_gpu:0,0", false; false, "gpu:closest", false; false, "", false;
        } {
            let known = with! { TaskGpus { by_local_id: promised.then(|| vec![GpuIndex(0)]) } };
            let task = with! { Task { known: Some(known) } ..under(rule) };
            assert_eq!(have_own_gpus(&task), expected, "{promised} {rule}");
        }
    }

    #[test]
    fn masks_are_private_where_each_task_has_one_with_cpus_that_no_other_has() {
        for (tasks, masks, expected) in rows! {
            2, &["0-1", "4-5"][..], true; 1, &["0-1"], true; 2, &["0-1", "1-2"], false;
            2, &["0-3", "0-3"], false;
            // Slurm starts again at the first
            3, &["0-1", "4-5"], false; 2, &["0-1", ""], false;
        } {
            let task = with! { Task { masks: masks.iter().map(|mask| set(mask)).collect() } };
            let (topology, step) = (machine(), step(tasks, ""));
            let found = StepTasks::new(&topology, &step, &task).are_private();
            assert_eq!(found, expected, "{tasks} {masks:?}");
        }
    }

    #[test]
    fn masks_may_split_cores_that_were_not_read_unless_slurm_counts_all_threads_of_the_cores() {
        let counted = |cores| Some(Counted { cpus: 2, cores });
        for (read, masks, threads, counted, expected) in rows! {
            false, &["0", "4"][..], Some(2), None, true;
            false, &["0", "4"], Some(2), counted(2), true;
            false, &["0", "4"], Some(2), counted(1), false;
            false, &["0-1", "4-5"], Some(2), None, false; false, &["0"], Some(2), None, false;
            false, &["0", "4"], None, None, false; true, &["0", "4"], Some(2), None, false;
        } {
            let mut topology = machine();
            topology.pus.retain(|_| read);
            let step = with! { Step { counted } ..step(2, "") };
            let task = with! { Task {
                masks: masks.iter().map(|mask| set(mask)).collect(), threads_per_core: threads
            } };
            let found = StepTasks::new(&topology, &step, &task).may_differ_in_cores();
            assert_eq!(found, expected, "{read} {masks:?} {threads:?} {counted:?}");
        }
    }

    #[test]
    fn what_a_task_asked_for_is_cores_unless_slurms_count_proves_threads() {
        for (cpus_per_task, counted, cpus, expected) in [
            (None, None, "0-7", None),
            // no count: a launcher's
            (Some(2), None, "0-7", Some(2)),
            // two cores of two threads for four CPUs
            (Some(2), Some((4, 2)), "0-3", Some(2)),
            // 22.05's --hint=compute_bound
            (Some(2), Some((8, 4)), "0-7", Some(4)),
            // `CPUs=` its cores
            (Some(2), Some((4, 4)), "0-7", Some(4)),
            // --exclusive: no proof
            (Some(1), Some((16, 8)), "0-15", Some(2)),
            // cores of one thread
            (Some(2), Some((4, 4)), "0-3", Some(2)),
        ] {
            let step = with! { Step {
                tasks: 2, cpus_per_task,
                counted: counted.map(|(cpus, cores)| Counted { cpus, cores })
            } };
            let task = with! { Task { masks: vec![set(cpus)] } };
            let found = asked(&step, &task, &set(cpus));
            assert_eq!(found, expected, "{cpus_per_task:?} {counted:?} {cpus}");
        }
    }

    #[test]
    fn numbers_of_gpus_are_the_runtimes_where_all_may_be_opened_and_certain_by_both_orders_elsewhere()
     {
        // gres.conf has them by the device files, or by the PCI addresses: the first and the last
        // are exchanged
        let mut topology = machine();
        for (gpu, minor) in [3, 1, 2, 0].into_iter().enumerate() {
            topology.gpus[gpu].minor = Some(minor);
        }
        for (list, denied, expected) in [
            // CUDA counts in PCI order
            ("1", false, Some("0 0 1 1")),
            ("0", true, Some("? 0 1 ?")),
            // another list than Slurm's
            ("7", false, None),
        ] {
            let mut task = with! { Task { local_id: 1 } ..under("gpu:per_task:1") };
            let access = |gpu| match denied && gpu != 1 {
                true => Access::Denied,
                false => Access::Allowed,
            };
            task.gpus.access = (0..4).map(access).collect();
            task.gpus.variables = [("CUDA_VISIBLE_DEVICES", list.to_string())].into();
            let found = nodes(&topology, &step(4, "0,1,2,3"), &task);
            assert_eq!(found.as_deref(), expected, "{list} {denied}");
        }
    }
}

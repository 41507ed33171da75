//! Unbound tasks without GPUs: each gets a part of the step's NUMA nodes and the NICs there.
//!
//! This suits MPI with a process per NUMA node or core; a host's only task keeps all NUMA nodes.

use crate::step::{Step, Task};
use crate::topology::{GpuVendor, NodeSet, Topology};

/// The task's part of the step's NUMA nodes if the user `asked` for one; the error says why it gets
/// none.
pub(super) fn nodes(
    node: &Topology,
    step: &Step,
    task: &Task,
    asked: bool,
) -> Result<NodeSet, String> {
    // a task has GPUs if its variables list any, even unidentified ones such as MIG devices
    let is_listed = |vendor: &GpuVendor| {
        let list = task.gpus.variables.get(vendor.list_variable());
        list.is_some_and(|list| names_gpus(list))
    };
    let why = if !asked || GpuVendor::ALL.iter().any(is_listed) {
        ""
    } else if task.cpus != task.step_cpus {
        ", and Slurm gave each task its own CPUs"
    } else if step.uncounted {
        ", and nobody says how many processes share its CPUs"
    } else {
        let mut parts = node_parts(node, step, task).into_iter().flatten();
        if let Some(nodes) = parts.nth(task.local_id as usize) {
            return Ok(nodes);
        }
        ""
    };
    Err(format!("no GPU to be near to{why}"))
}

/// `[task]`: its NUMA nodes, the same list in every task. `None` if the step has GPUs, different
/// masks, one task or one NUMA node here, or if the number of tasks is unknown.
pub(super) fn node_parts(node: &Topology, step: &Step, task: &Task) -> Option<Vec<NodeSet>> {
    let is_shared = task.masks.iter().all(|mask| *mask == task.step_cpus);
    let reached = node.nodes_of(&task.step_cpus);
    let (count, tasks) = (reached.len(), step.tasks_here());
    if step.gpus.as_deref().is_some_and(names_gpus)
        || !is_shared
        || step.uncounted
        || tasks < 2
        || count < 2
    {
        return None;
    }
    let part = |id: usize| {
        let from = id * count / tasks;
        let to = ((id + 1) * count / tasks).max(from + 1);
        reached.iter().skip(from).take(to - from).collect()
    };
    Some((0..tasks).map(part).collect())
}

fn names_gpus(list: &str) -> bool {
    !["", "-1", "NoDevFiles"].contains(&list.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::tests::{machine, set};
    use crate::step::GpuGrant;

    fn task(local_id: u32, cpus: &str) -> Task {
        with! { Task { local_id, cpus: set(cpus), step_cpus: set(cpus) } }
    }

    /// The nodes of each of `tasks` tasks that share `cpus`, of four NUMA nodes of two CPUs.
    fn dealt(tasks: u32, cpus: &str, masks: &[&str], asked: bool) -> Vec<String> {
        let topology = machine([4, 1, 2, 1], false, &[]);
        let step = with! { Step { tasks } };
        let one = |local_id| {
            let masks = masks.iter().map(|mask| set(mask)).collect();
            let task = with! { Task { masks } ..task(local_id, cpus) };
            nodes(&topology, &step, &task, asked).map_or(String::new(), |nodes| nodes.to_string())
        };
        (0..tasks).map(one).collect()
    }

    #[test]
    fn tasks_are_dealt_to_numa_nodes_in_order_and_no_node_stays_idle() {
        let cases: [(_, _, &[&str], _, &[&str]); 9] = rows! {
            8, "0-7", &[], true, &["0", "0", "1", "1", "2", "2", "3", "3"];
            4, "0-7", &["0-7"], true, &["0", "1", "2", "3"];
            2, "0-7", &["0-7", "0-7"], true, &["0-1", "2-3"];
            3, "0-7", &[], true, &["0", "1", "2-3"];
            // of the nodes that the step reaches
            2, "2-5", &[], true, &["1", "2"];
            // a task that is alone, or bound, or did not ask keeps its CPUs
            1, "0-7", &[], true, &[""]; 2, "0-1", &[], true, &["", ""];
            2, "0-7", &["0-3", "4-7"], true, &["", ""]; 2, "0-7", &[], false, &["", ""];
        };
        for (tasks, cpus, masks, asked, expected) in cases {
            let found = dealt(tasks, cpus, masks, asked);
            assert_eq!(found, expected, "{tasks} {cpus} {masks:?} {asked}");
        }
    }

    #[test]
    fn processes_that_nobody_counts_get_no_part_of_the_nodes() {
        let topology = machine([4, 1, 1, 1], false, &[]);
        for local_id in 0..8 {
            let step = with! { Step { tasks: local_id + 1, uncounted: true } };
            let task = task(local_id, "0-3");
            let why = nodes(&topology, &step, &task, true).unwrap_err();
            assert!(why.contains("nobody says how many"), "{why}");
            assert_eq!(node_parts(&topology, &step, &task), None);
        }
    }

    #[test]
    fn a_task_whose_gpu_could_not_be_told_keeps_its_cpus() {
        let topology = machine([2, 1, 1, 1], false, &[]);
        for (list, step_gpus, is_dealt) in rows! {
            "", "", true; "NoDevFiles", "", true; "MIG-0b0b0b0b", "", false; "", "0", false;
        } {
            let variables = [(GpuVendor::Nvidia.list_variable(), list.to_string())].into();
            let gpus = with! { GpuGrant { variables } };
            let task = with! { Task { gpus } ..task(0, "0-1") };
            let step = with! { Step { tasks: 2, gpus: Some(step_gpus.to_string()) } };
            let found = nodes(&topology, &step, &task, true);
            assert_eq!(found.is_ok(), is_dealt, "{list} {step_gpus}");
        }
    }
}

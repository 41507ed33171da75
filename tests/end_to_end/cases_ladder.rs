//! Near is a ladder: on a DGX A100 the GPUs are on every other of eight NUMA nodes, and Slurm deals by sockets.

use crate::harness::{Bed, Case, cases};
use crate::report::Task;
use std::collections::BTreeSet;

pub const CASES: &[Case] = cases![every_task_is_on_its_gpus_socket];

/// GPUs in PCI order: two on NUMA node 3, two on 1, two on 7, two on 5.
const NODE_OF_GPU: [usize; 8] = [3, 3, 1, 1, 7, 7, 5, 5];

fn cpus_of_node(node: usize) -> BTreeSet<usize> {
    (node * 16..node * 16 + 16)
        .flat_map(|core| [core, core + 128])
        .collect()
}

fn cpus_of_socket(gpu: usize) -> BTreeSet<usize> {
    let first = NODE_OF_GPU[gpu] / 4 * 4;
    (first..first + 4).flat_map(cpus_of_node).collect()
}

fn on_another_socket(tasks: &[Task]) -> Vec<usize> {
    let far = |task: &&Task| task.cpus().is_disjoint(&cpus_of_socket(task.gpus()[0]));
    tasks
        .iter()
        .filter(far)
        .map(|task| task.gpus()[0])
        .collect()
}

fn every_task_is_on_its_gpus_socket(bed: &Bed) {
    // before 23.11 Slurm dealt tasks and GPUs in different orders; a map that does so is taken by all releases
    for (options, gpus) in [
        ("-c2", "--gpus-per-task=1"),
        ("-c16", "--gpus-per-task=1"),
        (
            "-c2",
            "--gres=gpu:8 --gpu-bind=map_gpu:0,1,2,3,4,5,6,7 -m block:cyclic",
        ),
    ] {
        let command = format!("srun -w n0 -n8 --exclusive {options} {gpus} @ $report");
        let (without, placed) = bed.without_and_with("--nic-placement", 8, &command);
        let (before, after) = (on_another_socket(&without), on_another_socket(&placed));
        println!("    {options} {gpus}: on another socket {before:?} without, {after:?} with");
        assert_eq!(after, [0; 0], "with {options} {gpus}: {placed:?}");
        // by the map half of them are, on every release
        assert!(
            gpus.contains("per-task") || before.len() == 4,
            "{without:?}"
        );
        for (bare, task) in without.iter().zip(&placed) {
            assert!(
                task.cpus().len() >= bare.cpus().len(),
                "poorer: {task:?} had {bare:?}"
            );
        }
    }
}

//! Hints and thread counts say how many threads of a core to use: they neither choose CPUs nor switch binding off.

use crate::harness::{Bed, Case, cases};
use crate::machines::{cpus_near, ucx_of};
use crate::report::Task;
use std::collections::BTreeSet;

pub const CASES: &[Case] = cases![
    hints_and_thread_counts_leave_the_binding_on,
    one_thread_of_a_core_stays_one_after_a_move,
    a_way_of_binding_that_was_named_stands_beside_a_hint,
    on_a_busy_node_every_task_keeps_its_cpus,
    moved_tasks_do_not_share_with_those_that_stay,
];

/// Puts tasks on the wrong socket on every release: GPUs in order, tasks dealt over the sockets in turn.
const ACROSS: &str = "--gres=gpu:8 --gpu-bind=map_gpu:0,1,2,3,4,5,6,7 -m block:cyclic";

fn far(tasks: &[Task]) -> usize {
    tasks
        .iter()
        .filter(|task| task.cpus().is_disjoint(&cpus_near(task.gpus()[0])))
        .count()
}

fn hints_and_thread_counts_leave_the_binding_on(bed: &Bed) {
    println!("    srun -n8 ...                      far without  far with");
    for hint in [
        "--hint=nomultithread",
        "--hint=compute_bound",
        "--hint=memory_bound",
        "--hint=multithread",
        "--ntasks-per-core=1",
        "--threads-per-core=1",
        "-B 2:56:1",
        "-B 2",
        "--cpu-bind=verbose",
        "--export=ALL,SLURM_HINT=nomultithread",
    ] {
        let command = format!("srun -w n0 -n8 -c2 --exclusive {ACROSS} {hint} @ $report");
        let (without, placed) = bed.without_and_with("--nic-placement", 8, &command);
        println!("    {hint:<36}  {:>8}  {:>8}", far(&without), far(&placed));
        assert_eq!(
            (far(&without) > 0, far(&placed)),
            (true, 0),
            "with {hint}: {placed:?}"
        );
        for (bare, task) in without.iter().zip(&placed) {
            assert!(
                task.cpus().len() >= bare.cpus().len(),
                "with {hint}, of {task:?}"
            );
            assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "with {hint}");
        }
    }
}

fn one_thread_of_a_core_stays_one_after_a_move(bed: &Bed) {
    let command = format!("srun -w n0 -n8 --exclusive -c2 {ACROSS} --hint=nomultithread @ $report");
    let (without, placed) = bed.without_and_with("--nic-placement", 8, &command);
    assert!(far(&without) > 0, "Slurm deals them to both sockets");
    assert_eq!(far(&placed), 0);
    for task in &placed {
        // CPU n and n + 112 are threads of one core
        let cores: BTreeSet<usize> = task.cpus().iter().map(|cpu| cpu % 112).collect();
        assert_eq!(
            cores.len(),
            task.cpus().len(),
            "two threads of a core: {task:?}"
        );
    }
}

fn a_way_of_binding_that_was_named_stands_beside_a_hint(bed: &Bed) {
    for options in [
        "--cpu-bind=threads --threads-per-core=1",
        "--cpu-bind=cores --ntasks-per-core=1",
        "--threads-per-core=1 --cpu-bind=v,threads",
    ] {
        let command = format!(
            "srun -w n0 -n8 --exclusive {ACROSS} {options} @ $report SLURM_NIC_PLACEMENT_CPU_BIND"
        );
        let (without, placed) = bed.without_and_with("--nic-placement", 8, &command);
        for (bare, task) in without.iter().zip(&placed) {
            assert_eq!(task.cpus(), bare.cpus(), "with {options}, of {task:?}");
        }
    }
}

fn on_a_busy_node_every_task_keeps_its_cpus(bed: &Bed) {
    // another job holds 55 of socket 0's 56 cores
    let busy = |flag: &str| {
        let step = format!("srun -w n0 -n8 -c4 --gpus-per-task=1 {flag} $report");
        let hold = "srun -J hold -w n0 -n1 -c110 -m block:block sleep 90 & \
                    until squeue -h -n hold -t R | grep -q hold; do sleep 0.1; done";
        format!("sh -c '{hold}; {step}; scancel --name=hold; wait'")
    };
    let without = bed.tasks(8, &busy(""));
    let placed = bed.tasks(8, &busy("--nic-placement"));
    let numa = bed.tasks(8, &busy("--nic-placement=bind=numa"));
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(bare.cpus().len(), 4, "Slurm gives each its own");
        assert!(task.cpus().len() >= 4, "{task:?} had {bare:?}");
    }
    let crowded = numa.iter().filter(|task| task.cpus().len() < 4).count();
    // later releases keep a job's cores on the sockets of its GPUs, or make the job wait
    assert!(
        crowded > 0 || bed.site.release >= (23, 2),
        "the node is busy: who asks for the NUMA node gets what is left: {numa:?}"
    );
}

fn moved_tasks_do_not_share_with_those_that_stay(bed: &Bed) {
    let command = format!("srun -w n0 -n8 --exclusive -c4 {ACROSS} @ $report");
    let (without, placed) = bed.without_and_with("--nic-placement", 8, &command);
    assert_eq!((far(&without), far(&placed)), (4, 0));
    for (place, task) in placed.iter().enumerate() {
        assert_eq!(task.cpus().len(), 4, "{task:?}");
        let others = placed.iter().skip(place + 1);
        others.for_each(|other| {
            assert!(
                task.cpus().is_disjoint(&other.cpus()),
                "{task:?} and {other:?}"
            )
        });
    }
}

//! CPUs and memory: what is moved, and what is left alone.

use crate::harness::{Bed, Case, cases};
use crate::machines::{cpus_near, cpus_of_node, numa_node_of, ucx_of};
use crate::report::Task;
use std::collections::BTreeSet;

pub const CASES: &[Case] = cases![
    tasks_on_the_wrong_socket_are_moved_to_their_gpus,
    tasks_move_only_to_cpus_that_their_step_owns,
    tasks_that_are_near_their_gpu_stay_where_they_are,
    a_mask_that_is_partly_near_is_narrowed,
    what_sbatch_was_asked_for_is_no_part_of_a_step_that_srun_sizes_anew,
    a_task_whose_gpus_span_sockets_keeps_its_cpus,
    an_explicit_cpu_bind_survives,
    a_bind_of_the_users_holds_where_slurm_shall_not_bind,
    an_explicit_mem_bind_survives,
    bind_none_sets_variables_and_moves_nothing,
];

/// Deals the GPUs in order, and the tasks over the sockets in turn: half of the tasks are on the wrong socket.
const ACROSS: &str = "--gres=gpu:8 --gpu-bind=map_gpu:0,1,2,3,4,5,6,7";

/// The number of one-GPU tasks that run on no CPU near their GPU.
fn far(tasks: &[Task]) -> usize {
    tasks
        .iter()
        .filter(|task| task.cpus().is_disjoint(&cpus_near(task.gpus()[0])))
        .count()
}

fn assert_memory_is_near(task: &Task) {
    let node = numa_node_of(task.gpus()[0]);
    let near = [
        format!("preferred:{node}"),
        format!("preferred-many:{node}"),
    ];
    assert!(
        near.iter().any(|policy| policy == task.mem()),
        "the memory policy of {task:?}"
    );
}

fn tasks_on_the_wrong_socket_are_moved_to_their_gpus(bed: &Bed) {
    // before 23.11 Slurm dealt tasks and GPUs in different orders; all releases accept a map that does the same
    let dealt = if bed.site.release < (23, 11) { 4 } else { 0 };
    for (gpus, wrong) in [("--gpus-per-task=1", dealt), (ACROSS, 4)] {
        let command = format!("srun -w n0 -n8 {gpus} @ $report");
        let (without, placed) = bed.without_and_with("--nic-placement", 8, &command);
        assert_eq!(far(&without), wrong, "as Slurm deals them, with {gpus}");
        assert!(without.iter().all(|task| task.mem() == "default"));
        assert_eq!(far(&placed), 0);
        for task in &placed {
            assert!(
                task.cpus().is_subset(&cpus_near(task.gpus()[0])),
                "of {task:?}"
            );
            assert_memory_is_near(task);
        }
    }
}

fn tasks_move_only_to_cpus_that_their_step_owns(bed: &Bed) {
    let command = "srun -w n0 -n8 -c4 --gpus-per-task=1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 8, command);
    let all = |tasks: &[Task]| {
        tasks
            .iter()
            .flat_map(Task::cpus)
            .collect::<BTreeSet<usize>>()
    };
    assert!(
        all(&placed).is_subset(&all(&without)),
        "CPUs beyond those of the step"
    );
    assert_eq!(far(&placed), 0);
}

fn tasks_that_are_near_their_gpu_stay_where_they_are(bed: &Bed) {
    let command = "srun -w n0 -n8 -c28 -m block:block --gpus-per-task=1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_eq!(
        far(&without),
        0,
        "`-m block:block` deals both in the same order"
    );
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(task.cpus(), bare.cpus(), "of {task:?}");
        assert_memory_is_near(task);
    }
}

fn a_mask_that_is_partly_near_is_narrowed(bed: &Bed) {
    let command = "srun -w n0 -n1 -c224 --gpus-per-task=1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement=bind=numa", 1, command);
    assert_eq!(without[0].cpus().len(), 224);
    assert_eq!(placed[0].cpus(), cpus_of_node(0));
    let kept = bed.tasks(1, &command.replace('@', "--nic-placement"));
    assert_eq!(kept[0].cpus().len(), 224, "it asked for all of them");
}

fn what_sbatch_was_asked_for_is_no_part_of_a_step_that_srun_sizes_anew(bed: &Bed) {
    // from 22.05 to 23.02 srun does not read SLURM_CPUS_PER_TASK, and leaves salloc's standing
    let command = "salloc --quiet -w n0 -n8 -c28 --gres=gpu:8 srun -n1 --gres=gpu:4 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 1, command);
    let part = if bed.site.release < (23, 11) { 224 } else { 28 };
    assert!(
        without[0].cpus().len() >= part && placed[0].cpus().len() >= part,
        "{without:?} {placed:?}"
    );
    let command = "salloc --quiet -w n0 -n112 -c1 --gres=gpu:8 srun -n1 --gres=gpu:1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 1, command);
    assert_eq!(
        placed[0].cpus().len(),
        without[0].cpus().len(),
        "{without:?} {placed:?}"
    );
}

fn a_task_whose_gpus_span_sockets_keeps_its_cpus(bed: &Bed) {
    let command = "srun -w n0 -n2 -c8 --gres=gpu:8 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 2, command);
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(task.cpus(), bare.cpus(), "of {task:?}");
    }
}

fn an_explicit_cpu_bind_survives(bed: &Bed) {
    // GPU 1 is near the first socket; each of these options leaves its task on the second
    for bind in [
        "map_cpu:0,56,112,168,1,57,113,169",
        "cores",
        "threads",
        "none",
    ] {
        let command = format!("srun -w n0 -n8 --gpus-per-task=1 --cpu-bind={bind} @ $report");
        let (without, placed) = bed.without_and_with("--nic-placement", 8, &command);
        for (bare, task) in without.iter().zip(&placed) {
            assert_eq!(
                task.cpus(),
                bare.cpus(),
                "with --cpu-bind={bind}, of {task:?}"
            );
            assert_eq!(
                task.ucx(),
                [ucx_of(task.gpus()[0])],
                "the NIC is set all the same"
            );
        }
    }
}

fn a_bind_of_the_users_holds_where_slurm_shall_not_bind(bed: &Bed) {
    // engines switch Slurm's binding off for all their tasks
    for none in [
        "SLURM_CPU_BIND=none srun -w n0 -n8",
        "srun -w n0 -n8 --cpu-bind=none",
    ] {
        let command = format!("{none} --gpus-per-task=1 @ $report");
        for word in ["--nic-placement", "--nic-placement=bind=numa"] {
            let (without, placed) = bed.without_and_with(word, 8, &command);
            for (bare, task) in without.iter().zip(&placed) {
                match word {
                    "--nic-placement" => assert_eq!(task.cpus(), bare.cpus(), "{none}: {task:?}"),
                    _ => {
                        let near: BTreeSet<usize> = bare
                            .cpus()
                            .intersection(&cpus_near(task.gpus()[0]))
                            .copied()
                            .collect();
                        assert!(near.len() < bare.cpus().len(), "unbound: {bare:?}");
                        assert_eq!(task.cpus(), near, "{none}: {task:?}");
                    }
                }
            }
        }
    }
    // a map is a choice
    let map = "map_cpu:0,56,112,168,1,57,113,169";
    let command = format!("srun -w n0 -n8 --gpus-per-task=1 --cpu-bind={map} @ $report");
    let (without, placed) = bed.without_and_with("--nic-placement=bind=numa", 8, &command);
    assert!(
        without
            .iter()
            .zip(&placed)
            .all(|(bare, task)| task.cpus() == bare.cpus()),
        "{placed:?}"
    );
}

fn an_explicit_mem_bind_survives(bed: &Bed) {
    for bind in ["map_mem:1,0", "local", "none"] {
        let command = format!("srun -w n0 -n2 --gpus-per-task=1 --mem-bind={bind} @ $report");
        let (without, placed) = bed.without_and_with("--nic-placement", 2, &command);
        for (bare, task) in without.iter().zip(&placed) {
            assert_eq!(
                task.mem(),
                bare.mem(),
                "with --mem-bind={bind}, of {task:?}"
            );
            assert_eq!(
                task.ucx(),
                [ucx_of(task.gpus()[0])],
                "the NIC is set all the same"
            );
        }
    }
}

fn bind_none_sets_variables_and_moves_nothing(bed: &Bed) {
    let command = "srun -w n0 -n8 --gpus-per-task=1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement=bind=none", 8, command);
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(
            (task.cpus(), task.mem()),
            (bare.cpus(), bare.mem()),
            "of {task:?}"
        );
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])]);
    }
}

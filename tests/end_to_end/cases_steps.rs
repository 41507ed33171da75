//! Kinds of steps: with several components, of an interactive shell, and with each way to bind CPUs.

use crate::harness::{Bed, Case, cases};
use crate::machines::{cpus_near, nccl_list, ucx_of};
use crate::report::Task;

pub const CASES: &[Case] = cases![
    each_component_of_a_heterogeneous_step_is_placed,
    an_interactive_step_is_left_alone,
    no_explicit_cpu_binding_is_touched,
    words_that_bind_nothing_leave_the_task_to_be_moved,
    an_option_without_a_word_is_the_same_however_it_is_spelled,
];

fn assert_placed(tasks: &[Task]) {
    for task in tasks {
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "of {task:?}");
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "of {task:?}"
        );
    }
}

fn each_component_of_a_heterogeneous_step_is_placed(bed: &Bed) {
    let component = "-n2 --gpus-per-task=1 @ $report";
    let command = format!("srun -w n0 {component} : -w n1 {component}");
    let (_, placed) = bed.without_and_with("--nic-placement", 4, &command);
    assert_placed(&placed);
    let nodes: Vec<&str> = placed.iter().map(Task::node).collect();
    assert_eq!(nodes, ["n0", "n0", "n1", "n1"]);
}

fn an_interactive_step_is_left_alone(bed: &Bed) {
    let command = "salloc --quiet -w n0 -n1 --gres=gpu:1 @ bash -c '
        srun --interactive --overlap -n1 $report
        srun -n1 --gres=gpu:1 $report | sed s/rank=0/rank=1/'";
    let tasks = bed.tasks(2, &command.replace('@', "--nic-placement"));
    assert!(
        tasks[0].is_untouched() && tasks[0].mem() == "default",
        "the interactive step: {:?}",
        tasks[0]
    );
    assert_placed(&tasks[1..]);
}

/// Two tasks on a whole node, one on each socket; each task's GPUs are on the other socket.
const CROSSED: &str = "srun -w n0 -n2 -c112 -m block:block --gres=gpu:8 --gpu-bind=map_gpu:4,0";

fn no_explicit_cpu_binding_is_touched(bed: &Bed) {
    let binds = [
        "--cpu-bind=none",
        "--cpu-bind=cores",
        "--cpu-bind=sockets",
        "--cpu-bind=threads",
        "--cpu-bind=ldoms",
        "--cpu-bind=map_cpu:0,56",
        "--cpu-bind=mask_cpu:0x1,0x100000000000000",
        "--cpu-bind=map_ldom:0,1",
        "--cpu-bind=mask_ldom:0x1,0x2",
        "--cpu-bind=rank_ldom",
        "--cpu-bind=verbose,cores",
    ];
    for bind in binds {
        let (without, placed) =
            bed.without_and_with("--nic-placement", 2, &format!("{CROSSED} {bind} @ $report"));
        for (bare, task) in without.iter().zip(&placed) {
            assert_eq!(task.cpus(), bare.cpus(), "with {bind}, of {task:?}");
        }
        assert_placed(&placed);
    }
    let (without, placed) = bed.without_and_with(
        "--nic-placement",
        2,
        &format!("SLURM_CPU_BIND=cores {CROSSED} @ $report"),
    );
    assert!(
        without
            .iter()
            .zip(&placed)
            .all(|(bare, task)| task.cpus() == bare.cpus()),
        "by the environment"
    );
}

fn words_that_bind_nothing_leave_the_task_to_be_moved(bed: &Bed) {
    for bind in [
        "",
        "--cpu-bind=quiet",
        "--cpu-bind=verbose",
        "--mem-bind=none",
    ] {
        let (without, placed) =
            bed.without_and_with("--nic-placement", 2, &format!("{CROSSED} {bind} @ $report"));
        for (bare, task) in without.iter().zip(&placed) {
            let near = cpus_near(task.gpus()[0]);
            assert!(
                bare.cpus().is_disjoint(&near),
                "with `{bind}`, as Slurm deals it: {bare:?}"
            );
            assert!(task.cpus().is_subset(&near), "with `{bind}`, of {task:?}");
        }
    }
}

fn an_option_without_a_word_is_the_same_however_it_is_spelled(bed: &Bed) {
    let command = "srun -w n0 -n2 --gpus-per-task=1 @ $report";
    assert_placed(&bed.tasks(2, &command.replace('@', "--nic-placement")));
    assert_placed(&bed.tasks(2, &command.replace('@', "--nic-placement=")));
    // as sbatch and salloc hand it to the sruns of their jobs
    for value in ["", "(null)", "closest"] {
        let variable =
            format!("SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement='{value}'");
        assert_placed(&bed.tasks(2, &format!("{variable} {}", command.replace('@', ""))));
    }
}

//! `gpu=local-id`: all tasks of a step see the same GPUs, and each uses the one of its local id.

use crate::harness::{Bed, Case, cases, while_another_job_has_gpus};
use crate::machines::{cpus_near, nccl_list, ucx_of, ucx_of_all};
use crate::report::{Task, numbers};

pub const CASES: &[Case] = cases![
    tasks_that_see_all_gpus_are_placed_by_their_local_ids,
    a_job_with_some_of_the_gpus_counts_its_own,
    a_promise_that_slurm_contradicts_is_told_and_fails_only_who_is_strict,
    an_admin_may_promise_it_by_default_and_a_user_take_it_back,
];

pub const CASES_WITH_CGROUPS: &[Case] = cases![
    with_constrained_devices_tasks_that_see_all_gpus_of_the_job_are_placed_by_their_local_ids
];

const WORD: &str = "--nic-placement=gpu=local-id";

/// Each task, by its local id, has the NIC of its GPU, at least as many CPUs as before, and all of them near that GPU.
fn assert_placed(without: &[Task], placed: &[Task], gpu: impl Fn(usize) -> usize) {
    for (local_id, (before, task)) in without.iter().zip(placed).enumerate() {
        assert_eq!(task.ucx(), [ucx_of(gpu(local_id))], "of {task:?}");
        assert!(
            task.cpus().is_subset(&cpus_near(gpu(local_id))),
            "CPUs of {task:?}"
        );
        assert!(
            task.cpus().len() >= before.cpus().len().min(112),
            "poorer: {task:?} had {before:?}"
        );
        assert_eq!(task.gpus(), before.gpus(), "what it sees is as it was");
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "one list for all"
        );
    }
}

fn far(tasks: &[Task]) -> usize {
    (0..tasks.len())
        .filter(|&local_id| !tasks[local_id].cpus().is_subset(&cpus_near(local_id)))
        .count()
}

fn tasks_that_see_all_gpus_are_placed_by_their_local_ids(bed: &Bed) {
    for options in [
        "--gres=gpu:8 -c4",
        "--gres=gpu:8 -c14",
        "--gpus-per-node=8 -c4",
        "--gres=gpu:8 -c4 --gpu-bind=none",
        "--gres=gpu:8 -c4 --hint=nomultithread",
    ] {
        let command = format!("srun -w n0 -n8 --exclusive {options} @ $report");
        let (without, placed) = bed.without_and_with(WORD, 8, &command);
        let all = bed.tasks(8, &command.replace('@', "--nic-placement"));
        assert!(
            all.iter()
                .all(|task| task.ucx() == ucx_of_all(0..8) || task.ucx().is_empty()),
            "{all:?}"
        );
        println!(
            "    {options}: {} of 8 tasks far from their GPU without, {} with",
            far(&without),
            far(&placed)
        );
        assert_placed(&without, &placed, |local_id| local_id);
    }
    let command = "srun -w n0 -n4 --exclusive -m block:block --gres=gpu:8 -c4 @ $report";
    let (without, placed) = bed.without_and_with(WORD, 4, command);
    assert_placed(&without, &placed, |local_id| local_id);
}

fn a_job_with_some_of_the_gpus_counts_its_own(bed: &Bed) {
    let step = format!("srun -w n0 -n2 --gres=gpu:2 -c4 {WORD} $report");
    let run = bed.run(&while_another_job_has_gpus(3, &step));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_each_has_its_own_of_the_jobs(&run.tasks);
}

/// Slurm chose two GPUs beside those of the other job.
fn assert_each_has_its_own_of_the_jobs(tasks: &[Task]) {
    assert_eq!(tasks.len(), 2);
    for (local_id, task) in tasks.iter().enumerate() {
        let of_the_step = numbers(task.env("SLURM_STEP_GPUS").expect("the step's GPUs"));
        let gpu = *of_the_step.iter().nth(local_id).expect("two GPUs");
        assert!(gpu > 2, "the other job's: {task:?}");
        assert_eq!(task.ucx(), [ucx_of(gpu)], "of {task:?}");
    }
}

fn a_promise_that_slurm_contradicts_is_told_and_fails_only_who_is_strict(bed: &Bed) {
    let step = "srun -w n0 -n2 --gpus-per-task=2 @ $report";
    let kept = bed.run(&step.replace('@', &format!("{WORD},verbose")));
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    assert!(
        kept.stderr
            .contains("`gpu=local-id` does not hold: Slurm deals the GPUs"),
        "{}",
        kept.stderr
    );
    for task in &kept.tasks {
        assert_eq!(
            task.ucx(),
            ucx_of_all(task.gpus()),
            "as without the word: {task:?}"
        );
    }
    let strict = bed.run(&step.replace('@', &format!("{WORD},strict")));
    assert_ne!(strict.code, 0);
    // a task that sees one GPU needs no promise
    let one = "srun -w n0 -n4 --gpus-per-task=1 --nic-placement=gpu=local-id,strict $report";
    for task in bed.tasks(4, one) {
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "of {task:?}");
    }
}

fn an_admin_may_promise_it_by_default_and_a_user_take_it_back(bed: &Bed) {
    bed.plugin("default=closest,gpu=local-id");
    let step = "srun -w n0 -n8 --exclusive --gres=gpu:8 -c4 @ $report";
    for (local_id, task) in bed.tasks(8, &step.replace('@', "")).iter().enumerate() {
        assert_eq!(task.ucx(), [ucx_of(local_id)], "of {task:?}");
    }
    for task in bed.tasks(8, &step.replace('@', "--nic-placement=gpu=visible")) {
        assert_ne!(task.ucx().len(), 1, "of {task:?}");
    }
}

fn with_constrained_devices_tasks_that_see_all_gpus_of_the_job_are_placed_by_their_local_ids(
    bed: &Bed,
) {
    let step = format!("srun -w n0 -n2 --gres=gpu:2 -c4 {WORD} $report");
    let run = bed.run(&while_another_job_has_gpus(3, &step));
    assert_eq!(run.code, 0, "{}", run.stderr);
    // the cgroup hides the others, so a task counts from 0
    assert!(
        run.tasks
            .iter()
            .all(|task| task.env("CUDA_VISIBLE_DEVICES") == Some("0,1")),
        "{:?}",
        run.tasks
    );
    assert_each_has_its_own_of_the_jobs(&run.tasks);
}

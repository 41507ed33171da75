//! Which GPUs a task has: Slurm's ways to share, bind, multiply and withhold them, each with and without device cgroups.

use crate::cases_machine::assert_nics_are_those_of_the_open_gpus;
use crate::harness::{Bed, Case, cases, while_another_job_has_gpus};
use crate::machines::{ucx_of, ucx_of_all};
use crate::report::Task;
use std::collections::BTreeSet;

pub const CASES: &[Case] = cases![
    gpu_bind_closest_gives_the_nics_of_the_gpus_near_the_tasks_cpus,
    gpu_bind_mask_gpu_gives_the_nics_of_each_tasks_mask,
    gpu_bind_single_with_two_tasks_for_a_gpu_gives_both_its_nic,
    more_tasks_than_gpus_share_the_nics_of_their_gpus,
    two_tasks_for_each_gpu_have_one_nic_together,
    tasks_with_shards_of_one_gpu_have_its_nic,
    two_jobs_with_shards_of_one_gpu_have_the_same_nic,
    gpus_by_number_of_the_user_count_where_slurm_gives_none,
];

pub const CASES_WITH_CGROUPS: &[Case] = cases![
    with_constrained_devices_gpu_bind_single_and_map_gpu_are_told_by_the_device_nodes,
    with_constrained_devices_gpu_bind_closest_is_told_by_the_device_nodes,
    with_constrained_devices_gpu_bind_none_gives_what_the_step_may_open,
    with_constrained_devices_two_tasks_for_each_gpu_have_one_nic_together,
    with_constrained_devices_a_shard_is_told_by_the_device_node,
    with_constrained_devices_a_task_without_gpus_is_left_to_ucx,
];

fn assert_nics_are_those_of_the_listed_gpus(tasks: &[Task]) {
    for task in tasks {
        assert!(!task.gpus().is_empty(), "Slurm lists no GPU for {task:?}");
        assert_eq!(task.ucx(), ucx_of_all(task.gpus()), "of {task:?}");
    }
}

/// How many different NICs the tasks have.
fn nics(tasks: &[Task]) -> usize {
    tasks
        .iter()
        .flat_map(Task::ucx)
        .collect::<BTreeSet<_>>()
        .len()
}

fn gpu_bind_closest_gives_the_nics_of_the_gpus_near_the_tasks_cpus(bed: &Bed) {
    let command = "srun -w n0 -n8 -c28 --gres=gpu:8 --gpu-bind=closest @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_nics_are_those_of_the_listed_gpus(&placed);
    for task in &placed {
        assert_eq!(task.ucx().len(), 4, "one socket's GPUs: {task:?}");
    }
    assert_eq!(nics(&placed), 8);
}

fn gpu_bind_mask_gpu_gives_the_nics_of_each_tasks_mask(bed: &Bed) {
    let command = "srun -w n0 -n3 --gres=gpu:8 --gpu-bind=mask_gpu:0x81,0x06,0x10 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 3, command);
    let expected = [ucx_of_all([0, 7]), ucx_of_all([1, 2]), ucx_of_all([4])];
    for (task, expected) in placed.iter().zip(expected) {
        assert_eq!(task.ucx(), expected, "of {task:?}");
    }
}

fn gpu_bind_single_with_two_tasks_for_a_gpu_gives_both_its_nic(bed: &Bed) {
    let command = "srun -w n0 -n8 --gres=gpu:4 --gpu-bind=single:2 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_nics_are_those_of_the_listed_gpus(&placed);
    assert!(placed.iter().all(|task| task.ucx().len() == 1));
}

fn more_tasks_than_gpus_share_the_nics_of_their_gpus(bed: &Bed) {
    let command = "srun -w n0 -n6 --gres=gpu:2 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 6, command);
    assert_nics_are_those_of_the_listed_gpus(&placed);
    assert_eq!(nics(&placed), 2);
    let command = "srun -w n0 -n6 --gres=gpu:2 --gpu-bind=map_gpu:0,1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 6, command);
    for (number, task) in placed.iter().enumerate() {
        assert_eq!(
            task.ucx(),
            [ucx_of(number % 2)],
            "the map starts again: {task:?}"
        );
    }
}

fn two_tasks_for_each_gpu_have_one_nic_together(bed: &Bed) {
    let command = "srun -w n0 --gpus=4 --ntasks-per-gpu=2 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_nics_are_those_of_the_listed_gpus(&placed);
    assert!(placed.iter().all(|task| task.ucx().len() == 1));
    for nic in placed.iter().flat_map(Task::ucx) {
        let users = placed.iter().filter(|task| task.ucx() == [nic]).count();
        assert_eq!(users % 2, 0, "{users} tasks have `{nic}`");
    }
}

fn tasks_with_shards_of_one_gpu_have_its_nic(bed: &Bed) {
    let command = "srun -w n0 -n4 --gres=shard:4 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 4, command);
    assert_nics_are_those_of_the_listed_gpus(&placed);
    assert_eq!(nics(&placed), 1, "four shards are one GPU");
}

fn two_jobs_with_shards_of_one_gpu_have_the_same_nic(bed: &Bed) {
    let command = "
        rm -f release1
        srun -w n0 -n1 --gres=shard:2 @ bash -c \"$report; until [ -e release1 ]; do sleep 0.05; done\" > first &
        until [ \"$(grep -c rank= first)\" = 1 ]; do sleep 0.05; done
        srun -w n0 -n1 --gres=shard:2 @ $report; code=$?
        touch release1; wait %2; sed s/rank=/rank=1/ first; (exit $code)";
    // only one GPU is left for both
    let (_, placed) = bed.without_and_with(
        "--nic-placement",
        2,
        &while_another_job_has_gpus(7, command),
    );
    assert_nics_are_those_of_the_listed_gpus(&placed);
    assert_eq!(
        nics(&placed),
        1,
        "both have shards of the last GPU: {placed:?}"
    );
}

fn gpus_by_number_of_the_user_count_where_slurm_gives_none(bed: &Bed) {
    // if Slurm gives GPUs, it replaces what the user set; if it gives none, it removes that
    let command = "CUDA_VISIBLE_DEVICES=7 srun -w n0 -n1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 1, command);
    assert_eq!(
        placed[0].env("CUDA_VISIBLE_DEVICES"),
        without[0].env("CUDA_VISIBLE_DEVICES")
    );
    let expected = match placed[0].env("CUDA_VISIBLE_DEVICES") {
        Some("7") => vec![ucx_of(7)],
        _ => Vec::new(),
    };
    assert_eq!(placed[0].ucx(), expected, "of {placed:?}");
    let command = "CUDA_VISIBLE_DEVICES=7 srun -w n0 -n2 --gpus-per-task=1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 2, command);
    assert_eq!(
        placed[0].ucx(),
        [ucx_of(0)],
        "Slurm's list, which replaced the user's"
    );
}

fn with_constrained_devices_gpu_bind_single_and_map_gpu_are_told_by_the_device_nodes(bed: &Bed) {
    for bind in ["single:1", "map_gpu:7,6,5,4,3,2,1,0"] {
        let command = format!("srun -w n0 -n8 --gres=gpu:8 --gpu-bind={bind} @ $report");
        let (_, placed) = bed.without_and_with("--nic-placement", 8, &command);
        assert_nics_are_those_of_the_open_gpus(bed, &placed, 1);
    }
}

fn with_constrained_devices_gpu_bind_closest_is_told_by_the_device_nodes(bed: &Bed) {
    let command = "srun -w n0 -n8 -c28 --gres=gpu:8 --gpu-bind=closest @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_nics_are_those_of_the_open_gpus(bed, &placed, 4);
    assert_eq!(nics(&placed), 8);
}

fn with_constrained_devices_gpu_bind_none_gives_what_the_step_may_open(bed: &Bed) {
    let command = "srun -w n0 -n2 --gres=gpu:3 --gpu-bind=none @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 2, command);
    assert_nics_are_those_of_the_open_gpus(bed, &placed, 3);
}

fn with_constrained_devices_two_tasks_for_each_gpu_have_one_nic_together(bed: &Bed) {
    let command = "srun -w n0 --gpus=4 --ntasks-per-gpu=2 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_nics_are_those_of_the_open_gpus(bed, &placed, 1);
}

fn with_constrained_devices_a_shard_is_told_by_the_device_node(bed: &Bed) {
    let command = "srun -w n0 -n2 --gres=shard:2 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 2, command);
    assert_nics_are_those_of_the_open_gpus(bed, &placed, 1);
    assert_eq!(nics(&placed), 1);
}

fn with_constrained_devices_a_task_without_gpus_is_left_to_ucx(bed: &Bed) {
    let (_, placed) = bed.without_and_with("--nic-placement", 2, "srun -w n0 -n2 @ $report");
    for task in placed {
        assert!(task.open().is_empty(), "Slurm withholds all GPUs: {task:?}");
        assert_eq!(task.env("UCX_NET_DEVICES"), None, "of {task:?}");
    }
}

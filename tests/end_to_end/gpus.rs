//! Which NICs a task gets, for every way to ask Slurm for GPUs: its ways to share, bind, multiply and withhold them, each
//! with and without device cgroups; and `gpu=local-id`, by which each task uses one of those that all see.

use super::suite::*;

pub const ROWS: &[Case] = rows! {
    tasks_that_see_all_gpus_get_the_nics_of_all_in_order: 4 "-n4 --gres=gpu:8" => own, nics(8);
    tasks_with_two_gpus_each_get_two_nics_each: 4 "-n4 --gpus-per-task=2" => own, nics(2);
    tasks_counted_by_gpus_get_one_nic_each: 8 "--gpus=8 --ntasks-per-gpu=1" => own, nics(1);
    gpu_bind_single_pairs_by_the_gpu_that_slurm_gave: 8 "-n8 --gres=gpu:8 --gpu-bind=single:1" => own, nics(1);
    gpu_bind_map_gpu_pairs_by_the_gpu_that_slurm_gave: 8 "-n8 --gres=gpu:8 --gpu-bind=map_gpu:7,6,5,4,3,2,1,0"
        => own, dealt(&[&[7], &[6], &[5], &[4], &[3], &[2], &[1], &[0]]);
    gpu_bind_none_gives_the_nics_of_the_whole_step: 4 "-n4 --gres=gpu:4 --gpu-bind=none"
        => dealt(&[&[0, 1, 2, 3]]), as_listed;
    two_jobs_that_share_a_node_get_different_nics: 8 "
        rm -f release
        srun -w n0 -n4 --gpus-per-task=1 @ bash -c \"$report; until [ -e release ]; do sleep 0.05; done\" > first &
        until [ \"$(grep -c rank= first)\" = 4 ]; do sleep 0.05; done
        srun -w n0 -n4 --gpus-per-task=1 @ $report; code=$?
        touch release; wait; sed s/rank=/rank=1/ first; exit $code"
        => own, different(8);
    two_steps_of_one_job_get_different_nics: 8 r#"salloc --quiet -w n0 -n8 --gres=gpu:8 bash -c '
        rm -f release
        srun --exact -n4 --gpus-per-task=1 @ bash -c "$report; until [ -e release ]; do sleep 0.05; done" > first &
        until [ "$(grep -c rank= first)" = 4 ]; do sleep 0.05; done
        srun --exact -n4 --gpus-per-task=1 @ $report; code=$?
        touch release; wait; sed s/rank=/rank=1/ first; exit $code'"#
        => own, different(8);
    a_multi_prog_step_places_each_program: 4 r#"
        printf '0 %s\n1-3 /usr/bin/env %s\n' "$report" "$report" > programs
        srun -w n0 -n4 --gpus-per-task=1 @ --multi-prog programs"#
        => own;
    a_user_who_is_not_root_gets_the_same: 2
        "setpriv --reuid=65534 --regid=65534 --clear-groups srun -w n0 -n2 --gpus-per-task=1 @ $report"
        => own, dealt(&[&[0], &[1]]);
    gpu_bind_closest_gives_the_nics_of_the_gpus_near_the_tasks_cpus: 8 "-n8 -c28 --gres=gpu:8 --gpu-bind=closest"
        => own, nics(4), different(8);
    gpu_bind_mask_gpu_gives_the_nics_of_each_tasks_mask: 3 "-n3 --gres=gpu:8 --gpu-bind=mask_gpu:0x81,0x06,0x10"
        => dealt(&[&[0, 7], &[1, 2], &[4]]);
    gpu_bind_single_with_two_tasks_for_a_gpu_gives_both_its_nic: 8 "-n8 --gres=gpu:4 --gpu-bind=single:2"
        => own, nics(1);
    more_tasks_than_gpus_share_the_nics_of_their_gpus: 6 "-n6 --gres=gpu:2" => own, different(2);
    a_map_that_is_shorter_than_the_tasks_starts_again: 6 "-n6 --gres=gpu:2 --gpu-bind=map_gpu:0,1"
        => dealt(&[&[0], &[1]]);
    two_tasks_for_each_gpu_have_one_nic_together: 8 "--gpus=4 --ntasks-per-gpu=2" => own, nics(1), in_pairs;
    tasks_with_shards_of_one_gpu_have_its_nic: 4 "-n4 --gres=shard:4" => own, different(1);
};

pub const CASES: &[Case] = cases![
    each_task_with_one_gpu_gets_the_nic_of_its_gpus_switch_on_both_nodes,
    a_node_whose_gpus_are_partly_taken_pairs_the_rest_as_before,
    a_step_without_gpus_is_left_to_ucx,
    two_jobs_with_shards_of_one_gpu_have_the_same_nic,
    gpus_by_number_of_the_user_count_where_slurm_gives_none,
    tasks_that_see_all_gpus_are_placed_by_their_local_ids,
    a_job_with_some_of_the_gpus_counts_its_own: |bed| drop(beside_another_job(bed)),
    a_promise_that_slurm_contradicts_is_told_and_fails_only_who_is_strict,
    an_admin_may_promise_it_by_default_and_a_user_take_it_back,
];

pub const ROWS_WITH_CGROUPS: &[Case] = rows! {
    with_constrained_devices_each_task_gets_the_nic_of_the_gpu_it_may_open: 8 "-n8 --gpus-per-task=1"
        => open(1), is(|task| task.gpus() == [0]), different(8);
    with_constrained_devices_two_gpus_per_task_are_told_apart: 4 "-n4 --gpus-per-task=2" => open(2);
    with_constrained_devices_gpu_bind_single_is_told_by_the_device_nodes: 8 "-n8 --gres=gpu:8 --gpu-bind=single:1"
        => open(1);
    with_constrained_devices_gpu_bind_map_gpu_is_told_by_the_device_nodes: 8
        "-n8 --gres=gpu:8 --gpu-bind=map_gpu:7,6,5,4,3,2,1,0" => open(1);
    with_constrained_devices_gpu_bind_closest_is_told_by_the_device_nodes: 8 "-n8 -c28 --gres=gpu:8 --gpu-bind=closest"
        => open(4), different(8);
    with_constrained_devices_gpu_bind_none_gives_what_the_step_may_open: 2 "-n2 --gres=gpu:3 --gpu-bind=none" => open(3);
    with_constrained_devices_two_tasks_for_each_gpu_have_one_nic_together: 8 "--gpus=4 --ntasks-per-gpu=2" => open(1);
    with_constrained_devices_a_shard_is_told_by_the_device_node: 2 "-n2 --gres=shard:2" => open(1), different(1);
    with_constrained_devices_a_task_without_gpus_is_left_to_ucx: 2 "-n2" => is(|task| task.open().is_empty()), unset;
};

pub const WITH_CGROUPS: &[Case] = cases![
    with_constrained_devices_a_second_job_gets_the_nics_of_its_own_gpus,
    with_constrained_devices_tasks_that_see_all_gpus_of_the_job_are_placed_by_their_local_ids,
];

/// The vendor's variable is as without: Slurm 22.05 removes it by `--gpu-bind=none`, and the step's list remains.
fn as_listed(pair: &Pair) {
    pair.each(|bare, task| task.gpus() == bare.gpus());
}

fn in_pairs(pair: &Pair) {
    let nics: Vec<&str> = pair.tasks().iter().flat_map(Task::ucx).collect();
    let count = |nic: &str| nics.iter().filter(|other| **other == nic).count();
    all(pair.tasks(), |task| count(task.ucx()[0]) % 2 == 0);
}

fn each_task_with_one_gpu_gets_the_nic_of_its_gpus_switch_on_both_nodes(bed: &Bed) {
    let command = "srun -w n0,n1 --ntasks-per-node=8 --gpus-per-task=1 @ $report";
    let (_, placed) = bed.both("", 16, command);
    assert_own(&placed);
    for node in ["n0", "n1"] {
        let mut tasks: Vec<&Task> = placed.iter().filter(|task| task.node() == node).collect();
        // from 23.11 on Slurm deals the GPUs in the order of the tasks' sockets
        tasks.sort_by_key(|task| task.gpus());
        let nics: Vec<&str> = tasks.into_iter().flat_map(Task::ucx).collect();
        assert_eq!(nics, ucx_of_all(0..8), "{node}");
    }
    let list = nccl_list();
    let is_other = |nic: &str| list.contains(&format!("{nic}:"));
    assert!(!OTHER_NICS.into_iter().any(is_other), "{list}");
}

fn a_node_whose_gpus_are_partly_taken_pairs_the_rest_as_before(bed: &Bed) {
    let (_, placed) = bed.both("", 2, &while_another_job_has_gpus(3, TWO));
    assert_own(&placed);
    all(&placed, |task| task.gpu() >= 3);
}

fn a_step_without_gpus_is_left_to_ucx(bed: &Bed) {
    for node in ["n0", NO_GPUS] {
        let (bare, placed) = bed.both("", 2, &format!("srun -w {node} -n2 @ $report"));
        all(&placed, |task| task.env("UCX_NET_DEVICES").is_none());
        each(&bare, &placed, |bare, task| {
            task.binding() == bare.binding()
        });
    }
}

fn two_jobs_with_shards_of_one_gpu_have_the_same_nic(bed: &Bed) {
    let command = "
        rm -f release1
        srun -w n0 -n1 --gres=shard:2 @ bash -c \"$report; until [ -e release1 ]; do sleep 0.05; done\" > first &
        until [ \"$(grep -c rank= first)\" = 1 ]; do sleep 0.05; done
        srun -w n0 -n1 --gres=shard:2 @ $report; code=$?
        touch release1; wait %2; sed s/rank=/rank=1/ first; (exit $code)";
    // only one GPU is left for both
    let (_, placed) = bed.both("", 2, &while_another_job_has_gpus(7, command));
    assert_own(&placed);
    assert_eq!(nics_of(&placed).len(), 1, "{placed:?}");
}

fn gpus_by_number_of_the_user_count_where_slurm_gives_none(bed: &Bed) {
    // if Slurm gives GPUs, it replaces what the user set; if it gives none, it removes that
    let (bare, placed) = bed.both("", 1, "CUDA_VISIBLE_DEVICES=7 srun -w n0 -n1 @ $report");
    each(&bare, &placed, |bare, task| task.gpus() == bare.gpus());
    all(&placed, |task| task.ucx() == ucx_of_all(task.gpus()));
    let (_, placed) = bed.both("", 2, &format!("CUDA_VISIBLE_DEVICES=7 {TWO}"));
    assert_eq!(placed[0].ucx(), [ucx_of(0)]);
}

fn with_constrained_devices_a_second_job_gets_the_nics_of_its_own_gpus(bed: &Bed) {
    let command = while_another_job_has_gpus(3, &srun("-n4 --gpus-per-task=1"));
    assert_open(bed, &bed.both("", 4, &command).1, 1);
}

// ---- gpu=local-id ----

const PROMISE: &str = "gpu=local-id";

fn tasks_that_see_all_gpus_are_placed_by_their_local_ids(bed: &Bed) {
    for (tasks, options) in [
        (8, "-n8 --gres=gpu:8 -c4"),
        (8, "-n8 --gres=gpu:8 -c14"),
        (8, "-n8 --gpus-per-node=8 -c4"),
        (8, "-n8 --gres=gpu:8 -c4 --gpu-bind=none"),
        (8, "-n8 --gres=gpu:8 -c4 --hint=nomultithread"),
        (4, "-n4 -m block:block --gres=gpu:8 -c4"),
    ] {
        let command = srun(&format!("--exclusive {options}"));
        let (bare, placed) = bed.both(PROMISE, tasks, &command);
        each(&bare, &placed, |bare, task| {
            let near = cpus_near(task.local());
            task.ucx() == [ucx_of(task.local())]
                && task.cpus().is_subset(&near)
                && task.cpus().len() >= bare.cpus().len().min(112)
                && task.gpus() == bare.gpus()
                && task.is_listed()
        });
        let is_so = |task: &Task| task.ucx() == ucx_of_all(0..8) || task.ucx().is_empty();
        all(&bed.with("", tasks, &command), is_so);
        let is_far = |task: &&Task| !task.cpus().is_subset(&cpus_near(task.local()));
        let [before, after] = [&bare, &placed].map(|tasks| tasks.iter().filter(is_far).count());
        println!("    {options}: far {before} without, {after} with");
    }
}

/// Slurm chose two GPUs beside those of the other job.
fn beside_another_job(bed: &Bed) -> Vec<Task> {
    let step = srun("-n2 --gres=gpu:2 -c4");
    let tasks = bed.with(PROMISE, 2, &while_another_job_has_gpus(3, &step));
    all(&tasks, |task| {
        let of_the_step = numbers(task.env("SLURM_STEP_GPUS").unwrap_or_default());
        let gpu = *of_the_step.iter().nth(task.local()).expect("two GPUs");
        gpu > 2 && task.ucx() == [ucx_of(gpu)]
    });
    tasks
}

fn with_constrained_devices_tasks_that_see_all_gpus_of_the_job_are_placed_by_their_local_ids(
    bed: &Bed,
) {
    // the cgroup hides the others, so a task counts from 0
    all(&beside_another_job(bed), |task| task.gpus() == [0, 1]);
}

fn a_promise_that_slurm_contradicts_is_told_and_fails_only_who_is_strict(bed: &Bed) {
    let step = srun("-n2 --gpus-per-task=2");
    let kept = bed.ask("gpu=local-id,verbose", &step).ended(0, 2);
    let is_so = kept.stderr.contains("does not hold: Slurm deals");
    assert!(is_so, "{}", kept.stderr);
    all(&kept.tasks, Task::is_own);
    bed.ask("gpu=local-id,strict", &step).failed();
    // a task that sees one GPU needs no promise
    let one = bed.with("gpu=local-id,strict", 4, &srun("-n4 --gpus-per-task=1"));
    all(&one, Task::is_own);
}

fn an_admin_may_promise_it_by_default_and_a_user_take_it_back(bed: &Bed) {
    bed.plugin("default=closest,gpu=local-id");
    let step = srun("-n8 --exclusive --gres=gpu:8 -c4");
    let is_so = |task: &Task| task.ucx() == [ucx_of(task.local())];
    all(&bed.bare(8, &step), is_so);
    let is_so = |task: &Task| task.ucx().len() != 1;
    all(&bed.with("gpu=visible", 8, &step), is_so);
}

//! Which NICs a task gets, for every way to ask Slurm for GPUs.

use crate::harness::{Bed, Case, cases, while_another_job_has_gpus};
use crate::machines::{NO_GPUS, OTHER_NICS, nccl_list, ucx_of, ucx_of_all};
use crate::report::Task;
use std::collections::BTreeSet;

pub const CASES: &[Case] = cases![
    each_task_with_one_gpu_gets_the_nic_of_its_gpus_switch_on_both_nodes,
    tasks_that_see_all_gpus_get_the_nics_of_all_in_order,
    tasks_with_two_gpus_each_get_two_nics_each,
    tasks_counted_by_gpus_get_one_nic_each,
    gpu_bind_single_pairs_by_the_gpu_that_slurm_gave,
    gpu_bind_map_gpu_pairs_by_the_gpu_that_slurm_gave,
    gpu_bind_none_gives_the_nics_of_the_whole_step,
    two_jobs_that_share_a_node_get_different_nics,
    two_steps_of_one_job_get_different_nics,
    a_node_whose_gpus_are_partly_taken_pairs_the_rest_as_before,
    a_multi_prog_step_places_each_program,
    a_user_who_is_not_root_gets_the_same,
    a_step_without_gpus_is_left_to_ucx,
];

/// Each task's `UCX_NET_DEVICES` names the NICs of exactly the GPUs that its vendor variable lists.
fn assert_each_has_its_gpus_nics(tasks: &[Task]) {
    for task in tasks {
        assert_eq!(task.ucx(), ucx_of_all(task.gpus()), "of {task:?}");
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "of {task:?}"
        );
        assert!(task.env("NIC_PLACEMENT").is_some(), "no marker in {task:?}");
    }
}

fn each_task_with_one_gpu_gets_the_nic_of_its_gpus_switch_on_both_nodes(bed: &Bed) {
    let command = "srun -w n0,n1 --ntasks-per-node=8 --gpus-per-task=1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 16, command);
    assert_each_has_its_gpus_nics(&placed);
    for node in ["n0", "n1"] {
        let mut tasks: Vec<&Task> = placed.iter().filter(|task| task.node() == node).collect();
        // from 23.11 on Slurm deals the GPUs in the order of the tasks' sockets
        tasks.sort_by_key(|task| task.gpus());
        let nics: Vec<&str> = tasks.into_iter().flat_map(Task::ucx).collect();
        assert_eq!(nics, ucx_of_all(0..8), "the NICs of the tasks on {node}");
    }
    let nccl: BTreeSet<_> = placed.iter().map(|task| task.env("NCCL_IB_HCA")).collect();
    assert_eq!(nccl.len(), 1, "NCCL needs one list for all tasks: {nccl:?}");
    let list = nccl.first().unwrap().unwrap();
    for other in OTHER_NICS {
        assert!(
            !list.contains(&format!("{other}:")),
            "`{other}` is no NIC for GPU traffic: {list}"
        );
    }
}

fn tasks_that_see_all_gpus_get_the_nics_of_all_in_order(bed: &Bed) {
    let (_, placed) = bed.without_and_with(
        "--nic-placement",
        4,
        "srun -w n0 -n4 --gres=gpu:8 @ $report",
    );
    assert_each_has_its_gpus_nics(&placed);
    for task in &placed {
        assert_eq!(task.ucx(), ucx_of_all(0..8));
    }
}

fn tasks_with_two_gpus_each_get_two_nics_each(bed: &Bed) {
    let (_, placed) = bed.without_and_with(
        "--nic-placement",
        4,
        "srun -w n0 -n4 --gpus-per-task=2 @ $report",
    );
    assert_each_has_its_gpus_nics(&placed);
    for task in &placed {
        assert_eq!(task.ucx().len(), 2, "of {task:?}");
    }
}

fn tasks_counted_by_gpus_get_one_nic_each(bed: &Bed) {
    let command = "srun -w n0 --gpus=8 --ntasks-per-gpu=1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_each_has_its_gpus_nics(&placed);
    assert!(placed.iter().all(|task| task.ucx().len() == 1));
}

fn gpu_bind_single_pairs_by_the_gpu_that_slurm_gave(bed: &Bed) {
    let command = "srun -w n0 -n8 --gres=gpu:8 --gpu-bind=single:1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_each_has_its_gpus_nics(&placed);
    assert!(placed.iter().all(|task| task.ucx().len() == 1));
}

fn gpu_bind_map_gpu_pairs_by_the_gpu_that_slurm_gave(bed: &Bed) {
    let command = "srun -w n0 -n8 --gres=gpu:8 --gpu-bind=map_gpu:7,6,5,4,3,2,1,0 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_each_has_its_gpus_nics(&placed);
    let nics: Vec<&str> = placed.iter().flat_map(Task::ucx).collect();
    assert_eq!(nics, ucx_of_all((0..8).rev()));
}

fn gpu_bind_none_gives_the_nics_of_the_whole_step(bed: &Bed) {
    let command = "srun -w n0 -n4 --gres=gpu:4 --gpu-bind=none @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 4, command);
    for (bare, task) in without.iter().zip(&placed) {
        // Slurm 22.05 removes the vendor variable here; only the step's list remains
        assert_eq!(
            task.env("CUDA_VISIBLE_DEVICES"),
            bare.env("CUDA_VISIBLE_DEVICES")
        );
        assert_eq!(task.ucx(), ucx_of_all(0..4));
    }
}

fn two_jobs_that_share_a_node_get_different_nics(bed: &Bed) {
    let command = "
        rm -f release
        srun -w n0 -n4 --gpus-per-task=1 @ bash -c \"$report; until [ -e release ]; do sleep 0.05; done\" > first &
        until [ \"$(grep -c rank= first)\" = 4 ]; do sleep 0.05; done
        srun -w n0 -n4 --gpus-per-task=1 @ $report; code=$?
        touch release; wait; sed s/rank=/rank=1/ first; exit $code";
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_each_has_its_gpus_nics(&placed);
    let nics: BTreeSet<&str> = placed.iter().flat_map(Task::ucx).collect();
    assert_eq!(nics.len(), 8, "eight tasks of two jobs have {nics:?}");
}

fn two_steps_of_one_job_get_different_nics(bed: &Bed) {
    let command = r#"salloc --quiet -w n0 -n8 --gres=gpu:8 bash -c '
        rm -f release
        srun --exact -n4 --gpus-per-task=1 @ bash -c "$report; until [ -e release ]; do sleep 0.05; done" > first &
        until [ "$(grep -c rank= first)" = 4 ]; do sleep 0.05; done
        srun --exact -n4 --gpus-per-task=1 @ $report; code=$?
        touch release; wait; sed s/rank=/rank=1/ first; exit $code'"#;
    let (_, placed) = bed.without_and_with("--nic-placement", 8, command);
    assert_each_has_its_gpus_nics(&placed);
    let nics: BTreeSet<&str> = placed.iter().flat_map(Task::ucx).collect();
    assert_eq!(nics.len(), 8, "eight tasks of two steps have {nics:?}");
}

fn a_node_whose_gpus_are_partly_taken_pairs_the_rest_as_before(bed: &Bed) {
    let command = while_another_job_has_gpus(3, "srun -w n0 -n2 --gpus-per-task=1 @ $report");
    let (_, placed) = bed.without_and_with("--nic-placement", 2, &command);
    assert_each_has_its_gpus_nics(&placed);
    assert!(
        placed.iter().all(|task| task.gpus()[0] >= 3),
        "the first three GPUs are taken: {placed:?}"
    );
}

fn a_multi_prog_step_places_each_program(bed: &Bed) {
    let command = r#"
        printf '0 %s\n1-3 /usr/bin/env %s\n' "$report" "$report" > programs
        srun -w n0 -n4 --gpus-per-task=1 @ --multi-prog programs"#;
    let (_, placed) = bed.without_and_with("--nic-placement", 4, command);
    assert_each_has_its_gpus_nics(&placed);
}

fn a_user_who_is_not_root_gets_the_same(bed: &Bed) {
    let command = "setpriv --reuid=65534 --regid=65534 --clear-groups srun -w n0 -n2 --gpus-per-task=1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 2, command);
    assert_each_has_its_gpus_nics(&placed);
    assert_eq!(placed[1].ucx(), [ucx_of(1)]);
}

fn a_step_without_gpus_is_left_to_ucx(bed: &Bed) {
    for node in ["n0", NO_GPUS] {
        let command = format!("srun -w {node} -n2 @ $report");
        let (without, placed) = bed.without_and_with("--nic-placement", 2, &command);
        for (bare, task) in without.iter().zip(&placed) {
            assert_eq!(task.env("UCX_NET_DEVICES"), None, "of {task:?}");
            assert_eq!((task.cpus(), task.mem()), (bare.cpus(), bare.mem()));
        }
    }
}

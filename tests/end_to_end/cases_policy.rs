//! Which NICs serve which GPU, by the user's words, on real steps.

use crate::cases_option::printed;
use crate::harness::{Bed, Case, cases};
use crate::machines::{LINK_DOWN, nccl_list, ucx_of, ucx_of_all};

pub const CASES: &[Case] = cases![
    two_nics_for_each_gpu_are_two_in_ucxs_list,
    with_a_broken_rail_the_other_gpus_keep_theirs_and_the_node_beside_it_is_as_ever,
    a_broken_rail_fails_its_own_task_alone_where_the_user_is_strict,
    the_admins_rails_are_dealt_in_their_order,
    spread_gives_a_job_that_is_alone_the_idle_nics_and_one_that_is_not_its_own,
    restricted_fails_a_task_whose_nic_is_on_the_other_socket_though_near_ones_exist,
    a_far_nic_of_the_users_own_stays_and_no_strict_word_judges_a_nic_beside_it,
    a_task_on_one_numa_node_passes_single_numa_node_and_one_on_two_fails,
];

fn two_nics_for_each_gpu_are_two_in_ucxs_list(bed: &Bed) {
    let command = "srun -w n0 -n4 --gpus-per-task=1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement=nics-per-task=2", 4, command);
    for task in &placed {
        assert_eq!(task.ucx().len(), 2, "of {task:?}");
        assert_eq!(
            task.ucx()[0],
            ucx_of(task.gpus()[0]),
            "the nearest comes first"
        );
        assert_eq!(task.env("NCCL_IB_HCA"), Some(nccl_list().as_str()));
    }
}

/// One step on all eight GPUs of two nodes: a complete one, and one that has lost the NIC of its GPU 2.
fn with_a_broken_rail_the_other_gpus_keep_theirs_and_the_node_beside_it_is_as_ever(bed: &Bed) {
    for policy in ["closest", "rail"] {
        let command = format!(
            "srun -w n0,{LINK_DOWN} -N2 -n16 --gpus-per-task=1 --nic-placement={policy} $report"
        );
        let tasks = bed.tasks(16, &command);
        for task in &tasks {
            let gpu = task.gpus()[0];
            let broken = task.node() == LINK_DOWN && gpu == 2;
            assert_eq!(
                task.ucx() == [ucx_of(gpu)],
                !broken,
                "with `{policy}`, of {task:?}"
            );
            let whole = task.node() == "n0";
            assert_eq!(
                task.env("NCCL_IB_HCA") == Some(nccl_list().as_str()),
                whole,
                "of {task:?}"
            );
        }
        let lists: Vec<_> = tasks
            .iter()
            .filter(|task| task.node() == LINK_DOWN)
            .map(|task| task.env("NCCL_IB_HCA"))
            .collect();
        assert!(
            lists.iter().all(|list| *list == lists[0]) && !lists[0].unwrap().contains("mlx5_4"),
            "{lists:?}"
        );
    }
}

fn a_broken_rail_fails_its_own_task_alone_where_the_user_is_strict(bed: &Bed) {
    let command = format!("srun -w {LINK_DOWN} -n8 --gpus-per-task=1 @ $report");
    assert_eq!(
        bed.tasks(8, &command.replace('@', "--nic-placement=rail"))
            .len(),
        8
    );
    let strict = bed.run(&command.replace('@', "--kill-on-bad-exit=0 --nic-placement=rail,strict"));
    assert_ne!(strict.code, 0);
    assert_eq!(strict.tasks.len(), 7, "the seven whose rails work run");
    assert!(strict.tasks.iter().all(|task| task.gpus() != [2]));
    let said = printed(&strict.stderr);
    assert!(
        said.iter()
            .any(|line| line.contains("rail 2 (mlx5_4:1) is broken")),
        "{said:?}"
    );
}

fn the_admins_rails_are_dealt_in_their_order(bed: &Bed) {
    bed.plugin("rails=mlx5_11,mlx5_10,mlx5_9,mlx5_6,mlx5_5,mlx5_4,mlx5_3,mlx5_0");
    for task in bed.tasks(
        8,
        "srun -w n0 -n8 --gpus-per-task=1 --nic-placement=rail $report",
    ) {
        assert_eq!(task.ucx(), [ucx_of(7 - task.gpus()[0])], "of {task:?}");
    }
}

fn spread_gives_a_job_that_is_alone_the_idle_nics_and_one_that_is_not_its_own(bed: &Bed) {
    let step = "-w n0 -n2 --gres=gpu:2 --gpu-bind=map_gpu:0,1 --nic-placement=spread $report";
    let alone = bed.tasks(2, &format!("srun --exclusive {step}"));
    let nics: usize = alone.iter().map(|task| task.ucx().len()).sum();
    assert_eq!(nics, 8, "each NIC of the node to one of them: {alone:?}");
    let shared = bed.tasks(2, &format!("srun -c1 {step}"));
    for task in &shared {
        assert_eq!(
            task.ucx(),
            ucx_of_all(task.gpus().iter().copied()),
            "of {task:?}"
        );
    }
}

fn restricted_fails_a_task_whose_nic_is_on_the_other_socket_though_near_ones_exist(bed: &Bed) {
    // the rails are crossed, so GPU 0 must use a NIC of the other socket
    bed.plugin("rails=mlx5_6,mlx5_9,mlx5_10,mlx5_11,mlx5_0,mlx5_3,mlx5_4,mlx5_5");
    let command = "srun -w n0 -n1 --gpus-per-task=1 @ $report";
    assert_eq!(
        bed.tasks(1, &command.replace('@', "--nic-placement=rail,strict"))[0].ucx(),
        [ucx_of(4)]
    );
    let restricted = bed.run(&command.replace('@', "--nic-placement=rail,restricted"));
    assert_ne!(restricted.code, 0);
    let said = printed(&restricted.stderr);
    assert!(
        said.iter()
            .any(|line| line.contains("mlx5_6:1 is not on NUMA node 0 of its GPU")),
        "{said:?}"
    );
}

fn a_far_nic_of_the_users_own_stays_and_no_strict_word_judges_a_nic_beside_it(bed: &Bed) {
    let step = "env UCX_NET_DEVICES=mlx5_6:1 srun -w n0 -n1 --gpus-per-task=1 @ $report";
    assert_eq!(
        bed.tasks(1, &step.replace('@', ""))[0].ucx(),
        ["mlx5_6:1"],
        "without placement"
    );
    for word in ["strict", "restricted", "single-numa-node"] {
        let tasks = bed.tasks(1, &step.replace('@', &format!("--nic-placement={word}")));
        assert_eq!(tasks[0].ucx(), ["mlx5_6:1"], "{word}");
    }
}

fn a_task_on_one_numa_node_passes_single_numa_node_and_one_on_two_fails(bed: &Bed) {
    let one = "srun -w n0 -n1 -c4 --gres=gpu:2 --nic-placement=single-numa-node $report";
    assert_eq!(bed.tasks(1, one)[0].gpus(), [0, 1]);
    let two = bed.run("srun -w n0 -n1 -c4 --gres=gpu:8 --nic-placement=single-numa-node $report");
    assert_ne!(two.code, 0);
    let said = printed(&two.stderr);
    assert!(
        said.iter()
            .any(|line| line.contains("its GPUs are on NUMA nodes 0-1")),
        "{said:?}"
    );
}

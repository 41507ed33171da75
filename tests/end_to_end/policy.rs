//! Policies: the NICs of each GPU, by the user's words, on real steps.

use super::suite::*;

pub const CASES: &[Case] = cases![
    with_a_broken_rail_the_other_gpus_keep_theirs_and_the_node_beside_it_is_as_ever,
    a_broken_rail_fails_its_own_task_alone_where_the_user_is_strict,
    spread_gives_a_job_that_is_alone_the_idle_nics_and_one_that_is_not_its_own,
    restricted_fails_a_task_whose_nic_is_on_the_other_socket_though_near_ones_exist,
    a_far_nic_of_the_users_own_stays_and_no_strict_word_judges_a_nic_beside_it,
    a_task_on_one_numa_node_passes_single_numa_node_and_one_on_two_fails,
];

/// One step on all eight GPUs of two nodes: a complete one, and one that has lost the NIC of its GPU 2.
fn with_a_broken_rail_the_other_gpus_keep_theirs_and_the_node_beside_it_is_as_ever(bed: &Bed) {
    let command = format!("srun -w n0,{LINK_DOWN} -N2 -n16 --gpus-per-task=1 @ $report");
    for words in ["", "closest", "rail"] {
        let (_, placed) = bed.both(words, 16, &command);
        all(&placed, |task| {
            let is_whole = task.node() == "n0";
            let list = match is_whole {
                true => nccl_list(),
                false => nccl_list().replace("mlx5_4:1,", ""),
            };
            let is_broken = !is_whole && task.gpu() == 2;
            task.is_own() != is_broken
                && (words == "rail" || task.ucx().len() == 1)
                && task.env("NCCL_IB_HCA") == Some(&*list)
        });
    }
    let found = bed.logged(LINK_DOWN, "`mlx5_4` is not used: its port is down");
    assert_ne!(found, 0);
    assert_eq!(bed.logged("n0", "`mlx5_4` is not used"), 0);
}

fn a_broken_rail_fails_its_own_task_alone_where_the_user_is_strict(bed: &Bed) {
    let command = EIGHT.replace("n0", LINK_DOWN);
    bed.with("rail", 8, &command);
    let text = command.replace('@', "--kill-on-bad-exit=0 @");
    let strict = bed.ask("rail,strict", &text);
    let strict = strict.failed().says(1, "rail 2 (mlx5_4:1) is broken");
    // the seven that have a rail run
    assert_eq!(strict.tasks.len(), 7);
    all(&strict.tasks, |task| task.gpus() != [2]);
}

fn spread_gives_a_job_that_is_alone_the_idle_nics_and_one_that_is_not_its_own(bed: &Bed) {
    let step = |how: &str| srun(&format!("{how} -n2 --gres=gpu:2 --gpu-bind=map_gpu:0,1"));
    let alone = bed.with("spread", 2, &step("--exclusive"));
    let nics: usize = alone.iter().map(|task| task.ucx().len()).sum();
    assert_eq!(nics, 8, "{alone:?}");
    all(&bed.with("spread", 2, &step("-c1")), Task::is_own);
}

fn restricted_fails_a_task_whose_nic_is_on_the_other_socket_though_near_ones_exist(bed: &Bed) {
    // the rails are crossed, so GPU 0 must use a NIC of the other socket
    bed.plugin("rails=mlx5_6,mlx5_9,mlx5_10,mlx5_11,mlx5_0,mlx5_3,mlx5_4,mlx5_5");
    let command = srun("-n1 --gpus-per-task=1");
    assert_eq!(bed.with("rail,strict", 1, &command)[0].ucx(), [ucx_of(4)]);
    let restricted = bed.ask("rail,restricted", &command).failed();
    restricted.says(1, "mlx5_6:1 is not on NUMA node 0 of its GPU");
}

fn a_far_nic_of_the_users_own_stays_and_no_strict_word_judges_a_nic_beside_it(bed: &Bed) {
    let step = format!(
        "env UCX_NET_DEVICES=mlx5_6:1 {}",
        srun("-n1 --gpus-per-task=1")
    );
    all(&bed.bare(1, &step), |task| task.ucx() == ["mlx5_6:1"]);
    for word in ["strict", "restricted", "single-numa-node"] {
        all(&bed.with(word, 1, &step), |task| task.ucx() == ["mlx5_6:1"]);
    }
}

fn a_task_on_one_numa_node_passes_single_numa_node_and_one_on_two_fails(bed: &Bed) {
    let step = |gpus: &str| srun(&format!("-n1 -c4 --gres=gpu:{gpus}"));
    let found = bed.with("single-numa-node", 1, &step("2"))[0].gpus();
    assert_eq!(found, [0, 1]);
    let two = bed.ask("single-numa-node", &step("8")).failed();
    two.says(1, "GPUs are on NUMA nodes 0-1");
}

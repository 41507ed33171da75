//! A NIC that is hidden, or whose link goes down: the job still runs.

use super::cases_ucx::{are, assert_shared, none};
use super::nodes::*;

// only steps with --gres=nic:1 may open mlx5_4; mlx5_1 is beside GPU 0
pub const COMMANDS: &str = "\
hidden /guest/plugstack.sh && UCX_MAX_RNDV_RAILS=4 \
    srun -N2 -n2 --gpus-per-task=1 --nic-placement=numa,verbose /guest/pair.sh; code=$?; \
    /guest/plugstack.sh exclude=mlx5_4; exit $code
hidden.static UCX_NET_DEVICES=mlx5_4:1 timeout 60 srun -K -N2 -n2 --gpus-per-task=1 /guest/pair.sh
down.before srun -N2 -n2 /guest/nic-placement refresh && ip link set rail1 down && sleep 1; \
    srun -N2 -n2 --gpus-per-task=1 --nic-placement=verbose /guest/pair.sh; code=$?; \
    sh /guest/rails.sh up rail1; srun -N2 -n2 rm /run/nic-placement/node.cache; exit $code
down.placed WAIT_FOR=/tmp/down srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh > \
    placed & step=$!; \
    until grep -q node=n0 placed; do sleep 0.2; done; ip link set rail1 down; touch /tmp/down; \
    wait $step; code=$?; sh /guest/rails.sh up rail1; cat placed; exit $code
down.static ip link set rail1 down; UCX_NET_DEVICES=mlx5_1:1 timeout 60 srun -K -N2 -n2 \
    --gpus-per-task=1 \
    /guest/pair.sh; code=$?; sh /guest/rails.sh up rail1; exit $code
";

pub const CASES: &[Case] = cases![
    a_nic_that_is_hidden_is_not_named_and_the_job_sends_by_others,
    a_nic_whose_link_went_down_after_the_refresh_is_not_named_and_the_job_sends_by_another,
    a_job_whose_nic_goes_down_between_placement_and_start_runs_over_tcp,
    a_list_of_one_nic_that_nobody_looks_after_ends_the_job_where_it_is_hidden_or_down,
];

fn a_nic_that_is_hidden_is_not_named_and_the_job_sends_by_others(nodes: &Nodes) {
    // where it may be opened, it is named and carries a third: `storage.in` of cases_ucx.rs
    let tasks = nodes.tasks("hidden", 2);
    assert!(!tasks[0].said("ucx").contains("mlx5_4"), "{tasks:?}");
    assert_shared(nodes, "hidden", &["mlx5_0", "mlx5_1"]);
}

fn a_nic_whose_link_went_down_after_the_refresh_is_not_named_and_the_job_sends_by_another(
    nodes: &Nodes,
) {
    let (tasks, sent) = (nodes.tasks("down.before", 2), nodes.sent("down.before"));
    // the other node's link is up
    for (task, (node, nic)) in tasks.iter().zip([("n0", "mlx5_0"), ("n1", "mlx5_1")]) {
        assert!(task.lists(&format!("{nic}:1,")), "{task:?}");
        assert!(are(sent.by(node, nic), task.sent()), "{:?}", sent.0);
    }
}

fn a_job_whose_nic_goes_down_between_placement_and_start_runs_over_tcp(nodes: &Nodes) {
    let (tasks, sent) = (nodes.tasks("down.placed", 2), nodes.sent("down.placed"));
    assert!(tasks[0].lists("mlx5_1:1,"), "{tasks:?}");
    for node in NODES {
        // of the interfaces in the list UCX takes those that it likes: which ones is not ours to say
        let is_sent = sent.sum(|on, _| on == node) > tasks[0].sent();
        assert!(is_sent && none(sent.by(node, "mlx5_1")), "{:?}", sent.0);
    }
}

fn a_list_of_one_nic_that_nobody_looks_after_ends_the_job_where_it_is_hidden_or_down(
    nodes: &Nodes,
) {
    for name in ["hidden.static", "down.static"] {
        assert!(!nodes.succeeded(name), "{name}: {}", nodes.said(name));
    }
}

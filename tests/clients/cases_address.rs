//! Programs whose sides meet by IP address: they need an interface in UCX's list, and their data still goes by RDMA.

use super::cases_ucx::{WORDS, are, assert_shared};
use super::nodes::*;

// put.slow: RDMA as slow as 2.5 Gb/s beside TCP of 1 Gb/s
pub const COMMANDS: &str = "\
meet.bare srun -K -N2 -n2 --gpus-per-task=1 /guest/meet.sh 192.168.7.1
meet.alone UCX_NET_DEVICES=mlx5_1:1 srun -K -N2 -n2 --gpus-per-task=1 /guest/meet.sh 192.168.7.1
meet srun -K -N2 -n2 --gpus-per-task=1 --nic-placement /guest/meet.sh 192.168.7.1
meet.other-rail srun -K -N2 -n2 --gpus-per-task=1 --nic-placement /guest/meet.sh 10.1.0.1
meet.from-outside CONNECTS_BARE=1 srun -K -N2 -n2 --gpus-per-task=1 --nic-placement \
    /guest/meet.sh 10.1.0.1
meet.by-rdma CONNECTS_BARE=1 srun -K -N2 -n2 --gpus-per-task=1 \
    --nic-placement=no-env=UCX_SOCKADDR_TLS_PRIORITY \
    /guest/meet.sh 10.1.0.1
put.slow /guest/quick.sh 0 && \
    UCX_RNDV_SCHEME=put_zcopy srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh; \
    code=$?; \
    /guest/quick.sh 1; exit $code
put UCX_RNDV_SCHEME=put_zcopy srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh
";

pub const CASES: &[Case] = cases![
    who_meets_by_address_can_with_our_list_and_sends_by_its_gpus_nic:
        |nodes| assert_met(nodes, "meet", "mlx5_1"),
    who_meets_by_address_cannot_with_a_nic_alone: |nodes| assert_unreachable(nodes, "meet.alone"),
    who_meets_by_address_without_a_list_sends_by_the_first_nic:
        |nodes| assert_met(nodes, "meet.bare", "mlx5_0"),
    an_address_of_another_nic_will_do_with_our_list:
        |nodes| assert_met(nodes, "meet.other-rail", "mlx5_1"),
    who_comes_from_outside_by_the_address_of_another_nic_is_let_in:
        |nodes| assert_let_in(nodes, "meet.from-outside"),
    who_comes_from_outside_is_turned_away_where_that_nic_makes_the_connection,
    no_message_goes_by_tcp_though_the_interfaces_are_listed_while_rdma_is_much_faster,
    a_quarter_may_go_by_tcp_where_rdma_is_slow_and_the_user_asks_for_writes,
];

/// meet.sh's message
const MESSAGE: u64 = 1 << 20;

/// Did the two meet?
#[track_caller]
fn assert_let_in(nodes: &Nodes, name: &str) {
    let tasks = nodes.tasks(name, 2);
    let said = [0, 1].map(|side| tasks[side].said("said"));
    assert_eq!(said, ["listens,arrived,", "sent,"], "{name}: {tasks:?}");
}

/// And did the message leave n1 by this NIC alone?
#[track_caller]
pub fn assert_met(nodes: &Nodes, name: &str, nic: &str) {
    assert_let_in(nodes, name);
    let sent = nodes.sent(name).0;
    for ((node, other), bytes) in &sent {
        let is_so = match (node.as_str(), other == nic) {
            ("n1", true) => are(*bytes, MESSAGE),
            // and the acknowledgements of so many packets
            _ => *bytes < WORDS,
        };
        assert!(is_so, "{name}: {node}: {other}: {sent:?}");
    }
}

#[track_caller]
pub fn assert_unreachable(nodes: &Nodes, name: &str) {
    assert_fails(nodes, name, "said=message:_Destination_is_unreachable");
    let sent = nodes.sent(name);
    let is_so = NODES.iter().all(|node| sent.by(node, "mlx5_1") < WORDS);
    assert!(is_so, "{:?}", sent.0);
}

/// Did the command fail with these words?
#[track_caller]
pub fn assert_fails(nodes: &Nodes, name: &str, words: &str) {
    let said = nodes.said(name);
    let is_so = !nodes.succeeded(name) && said.contains(words);
    assert!(is_so, "{name}: {said}");
}

/// Why the plugin says by what connections are made.
fn who_comes_from_outside_is_turned_away_where_that_nic_makes_the_connection(nodes: &Nodes) {
    let why = "a_device_mlx5_0:1_which_was_not_present_during_UCP_initialization";
    assert_fails(nodes, "meet.by-rdma", why);
}

fn no_message_goes_by_tcp_though_the_interfaces_are_listed_while_rdma_is_much_faster(
    nodes: &Nodes,
) {
    let tasks = nodes.tasks("put", 2);
    assert!(tasks[0].lists("mlx5_1:1,eth0,lo,rail0"), "{tasks:?}");
    assert_shared(nodes, "put", &["mlx5_1"]);
}

/// UCX adds a lane whose speed is at least a quarter of the first one's (`UCX_MULTI_LANE_MAX_RATIO`), and can write by TCP but
/// not read.  Of the interfaces it then takes the storage NIC's, as it does without a list.  Once in some ninety runs it made
/// no such lane, and all bytes went by the NIC, so the quarter is what may go by TCP and not what must.
fn a_quarter_may_go_by_tcp_where_rdma_is_slow_and_the_user_asks_for_writes(nodes: &Nodes) {
    let message = nodes.tasks("put.slow", 2)[0].sent();
    let sent = nodes.sent("put.slow");
    for node in NODES {
        let rdma = sent.by(node, "mlx5_1");
        let elsewhere = sent.sum(|on, _| on == node) - rdma;
        let is_shared = are(rdma, message * 3 / 4) && elsewhere > message / 5;
        let is_alone = are(rdma, message) && elsewhere < WORDS;
        assert!(is_shared || is_alone, "{message}: {:?}", sent.0);
    }
}

//! UCX's own test program between tasks: by which NICs their bytes leave.

use crate::nodes::{NODES, Nodes, Sent, Task};
use crate::{Case, Command, cases};
use std::collections::BTreeSet;

pub const COMMANDS: &[Command] = &[
    (
        "own.bare",
        "srun -N2 -n8 --ntasks-per-node=4 --gpus-per-task=1 /guest/pair.sh parts",
    ),
    (
        "own",
        "srun -N2 -n8 --ntasks-per-node=4 --gpus-per-task=1 --nic-placement /guest/pair.sh parts",
    ),
    // on the other socket than its GPU
    (
        "far.bare",
        "srun -N2 -n2 -c8 --gpus-per-task=1 --cpu-bind=mask_cpu:0xf0 /guest/pair.sh",
    ),
    (
        "far",
        "srun -N2 -n2 -c8 --gpus-per-task=1 --cpu-bind=mask_cpu:0xf0 --nic-placement /guest/pair.sh",
    ),
    ("near.bare", "srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh"),
    (
        "jobs.bare",
        "srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh 131072 & \
         srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh; code=$?; wait $! && exit $code",
    ),
    (
        "jobs",
        "srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh 131072 & \
         srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh; code=$?; wait $! && exit $code",
    ),
    (
        "several",
        "srun -N2 -n2 --gpus-per-task=1 --nic-placement=numa /guest/pair.sh",
    ),
    // more NICs for a message than UCX takes by itself
    (
        "storage.out",
        "UCX_MAX_RNDV_RAILS=4 srun -N2 -n2 --gpus-per-task=1 --nic-placement=numa /guest/pair.sh",
    ),
    // the plugin may name it, and Slurm lets the step open it
    (
        "storage.in",
        "/guest/plugstack.sh && UCX_MAX_RNDV_RAILS=4 \
         srun -N2 -n2 --gpus-per-task=1 --gres=nic:1 --nic-placement=numa /guest/pair.sh; code=$?; \
         /guest/plugstack.sh exclude=mlx5_4; exit $code",
    ),
];

pub const CASES: &[Case] = cases![
    each_of_eight_tasks_sends_by_the_nic_beside_its_gpu,
    without_the_plugin_tasks_share_the_nics_of_the_socket_on_which_they_happen_to_run,
    a_task_away_from_its_gpu_sends_by_its_gpus_nic_and_without_the_plugin_by_those_of_the_other_socket,
    ucx_alone_shares_a_large_message_between_two_nics_of_its_socket,
    two_jobs_on_the_same_nodes_send_by_a_nic_each,
    several_nics_of_a_gpu_carry_a_message_together,
    no_byte_leaves_by_a_nic_that_is_left_out,
];

/// Are these the bytes of messages of so many bytes?
///
/// Headers of RoCE are 2 % with packets of 4096 bytes, and connecting costs some hundred bytes.  A hurried receiver lets
/// packets be sent again: that was 11 % once on a busy machine.
pub fn are(bytes: u64, messages: u64) -> bool {
    (messages..messages + messages / 5 + 8192).contains(&bytes)
}

/// Is this what is left where no message goes: ARP, and what connections need?
pub fn none(bytes: u64) -> bool {
    bytes < 16 * 1024
}

/// What left a NIC of a node.
pub fn by(sent: &Sent, node: &str, nic: &str) -> u64 {
    sent[&(node.to_string(), nic.to_string())]
}

/// Did each of these NICs of both nodes carry its part of so many bytes, and the other RDMA NICs nothing?
pub fn assert_shared(nodes: &Nodes, name: &str, messages: u64, nics: &[&str]) {
    let sent = nodes.sent(name);
    for ((node, nic), bytes) in sent.iter().filter(|((_, nic), _)| nic != "eth0") {
        let fits = match nics.contains(&nic.as_str()) {
            true => are(*bytes, messages / nics.len() as u64),
            false => none(*bytes),
        };
        assert!(fits, "{name}: {node}: {nic}: {sent:?}");
    }
    assert_no_messages_on_tcp(name, &sent);
}

/// Did `eth0` carry no message?  By TCP go srun's own words, and what a program's two sides tell each other before they send.
fn assert_no_messages_on_tcp(name: &str, sent: &Sent) {
    for node in NODES {
        assert!(by(sent, node, "eth0") < 64 * 1024, "{name}: {sent:?}");
    }
}

/// The bytes that should leave each RDMA NIC if each task's leave by the NIC beside its GPU.
fn planned(nodes: &Nodes, tasks: &[Task]) -> Sent {
    let mut planned = Sent::new();
    for task in tasks {
        let nic = nodes.beside(task.gpu()).to_string();
        *planned
            .entry((task.word("node").to_string(), nic))
            .or_default() += task.sent();
    }
    planned
}

/// Do the bytes of every RDMA NIC fit the plan?
fn fits(sent: &Sent, planned: &Sent) -> bool {
    let rdma = sent.iter().filter(|((_, nic), _)| nic.starts_with("mlx5_"));
    rdma.into_iter().all(|(nic, bytes)| match planned.get(nic) {
        Some(messages) => are(*bytes, *messages),
        None => none(*bytes),
    })
}

fn each_of_eight_tasks_sends_by_the_nic_beside_its_gpu(nodes: &Nodes) {
    let tasks = nodes.tasks("own", 8);
    let (sent, planned) = (nodes.sent("own"), planned(nodes, &tasks));
    assert_eq!(planned.len(), 8, "each another NIC: {planned:?}");
    assert!(fits(&sent, &planned), "{sent:?}, planned {planned:?}");
    assert_no_messages_on_tcp("own", &sent);
}

fn without_the_plugin_tasks_share_the_nics_of_the_socket_on_which_they_happen_to_run(
    nodes: &Nodes,
) {
    let tasks = nodes.tasks("own.bare", 8);
    let (sent, planned) = (nodes.sent("own.bare"), planned(nodes, &tasks));
    assert!(!fits(&sent, &planned), "{sent:?}, planned {planned:?}");
    let total: u64 = sent
        .iter()
        .filter(|((_, nic), _)| nic != "eth0")
        .map(|(_, bytes)| *bytes)
        .sum();
    assert!(
        are(total, tasks.iter().map(Task::sent).sum()),
        "nothing is lost: {sent:?}"
    );
    for node in NODES {
        for (one, other) in [("mlx5_0", "mlx5_1"), ("mlx5_2", "mlx5_3")] {
            let (one, other) = (by(&sent, node, one), by(&sent, node, other));
            assert!(one.abs_diff(other) < one / 5, "{one} and {other}: {sent:?}");
        }
    }
}

/// The NIC beside the GPU that both tasks of a step have, and the bytes of each.
pub fn one_gpu<'a>(nodes: &'a Nodes, name: &str) -> (&'a str, u64) {
    let tasks = nodes.tasks(name, 2);
    assert_eq!(
        (tasks[0].gpu(), tasks[0].sent()),
        (tasks[1].gpu(), tasks[1].sent()),
        "{tasks:?}"
    );
    (nodes.beside(tasks[0].gpu()), tasks[0].sent())
}

fn a_task_away_from_its_gpu_sends_by_its_gpus_nic_and_without_the_plugin_by_those_of_the_other_socket(
    nodes: &Nodes,
) {
    let (own, bytes) = one_gpu(nodes, "far");
    assert!(
        ["mlx5_0", "mlx5_1"].contains(&own),
        "the task is bound to the other socket: {own}"
    );
    assert_shared(nodes, "far", bytes, &[own]);
    assert_shared(
        nodes,
        "far.bare",
        one_gpu(nodes, "far.bare").1,
        &["mlx5_2", "mlx5_3"],
    );
}

fn ucx_alone_shares_a_large_message_between_two_nics_of_its_socket(nodes: &Nodes) {
    assert_shared(
        nodes,
        "near.bare",
        one_gpu(nodes, "near.bare").1,
        &["mlx5_0", "mlx5_1"],
    );
}

fn two_jobs_on_the_same_nodes_send_by_a_nic_each(nodes: &Nodes) {
    let tasks = nodes.tasks("jobs", 4);
    let (sent, planned) = (nodes.sent("jobs"), planned(nodes, &tasks));
    assert_eq!(planned.len(), 4, "two NICs of each node: {planned:?}");
    assert!(fits(&sent, &planned), "{sent:?}, planned {planned:?}");
    // without the plugin both share the NICs of their socket
    let planned = self::planned(nodes, &nodes.tasks("jobs.bare", 4));
    let sent = nodes.sent("jobs.bare");
    assert!(!fits(&sent, &planned), "{sent:?}, planned {planned:?}");
}

fn several_nics_of_a_gpu_carry_a_message_together(nodes: &Nodes) {
    let (_, bytes) = one_gpu(nodes, "several");
    let listed = nodes.tasks("several", 2)[0].word("ucx").to_string();
    let rdma: BTreeSet<&str> = listed
        .split(',')
        .filter(|entry| entry.contains(':'))
        .collect();
    assert_eq!(rdma, BTreeSet::from(["mlx5_0:1", "mlx5_1:1"]), "{listed}");
    assert_shared(nodes, "several", bytes, &["mlx5_0", "mlx5_1"]);
}

fn no_byte_leaves_by_a_nic_that_is_left_out(nodes: &Nodes) {
    assert_shared(
        nodes,
        "storage.in",
        one_gpu(nodes, "storage.in").1,
        &["mlx5_0", "mlx5_1", "mlx5_4"],
    );
    assert_shared(
        nodes,
        "storage.out",
        one_gpu(nodes, "storage.out").1,
        &["mlx5_0", "mlx5_1"],
    );
    let sent = nodes.sent("storage.out");
    assert!(
        NODES.iter().all(|node| by(&sent, node, "mlx5_4") < 1024),
        "nor by TCP: {sent:?}"
    );
}

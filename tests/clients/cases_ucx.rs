//! UCX's own test program between tasks: by which NICs their bytes leave.

use super::nodes::*;
use std::collections::{BTreeMap, BTreeSet};

// far.bare: on the other socket than its GPU
// storage.out: more NICs for a message than UCX takes by itself
// storage.in: the plugin may name it, and Slurm lets the step open it
pub const COMMANDS: &str = "\
own.bare srun -N2 -n8 --ntasks-per-node=4 --gpus-per-task=1 /guest/pair.sh parts
own srun -N2 -n8 --ntasks-per-node=4 --gpus-per-task=1 --nic-placement /guest/pair.sh parts
far.bare srun -N2 -n2 -c8 --gpus-per-task=1 --cpu-bind=mask_cpu:0xf0 /guest/pair.sh
far srun -N2 -n2 -c8 --gpus-per-task=1 --cpu-bind=mask_cpu:0xf0 --nic-placement /guest/pair.sh
near.bare srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh
jobs.bare srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh 131072 & \
    srun -N2 -n2 --gpus-per-task=1 /guest/pair.sh; code=$?; wait $! && exit $code
jobs srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh 131072 & \
    srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh; code=$?; wait $! && exit $code
several srun -N2 -n2 --gpus-per-task=1 --nic-placement=numa /guest/pair.sh
storage.out UCX_MAX_RNDV_RAILS=4 srun -N2 -n2 --gpus-per-task=1 --nic-placement=numa /guest/pair.sh
storage.in /guest/plugstack.sh && UCX_MAX_RNDV_RAILS=4 \
    srun -N2 -n2 --gpus-per-task=1 --gres=nic:1 --nic-placement=numa /guest/pair.sh; code=$?; \
    /guest/plugstack.sh exclude=mlx5_4; exit $code
";

pub const CASES: &[Case] = cases![
    each_of_eight_tasks_sends_by_the_nic_beside_its_gpu,
    without_the_plugin_tasks_share_the_nics_of_the_socket_on_which_they_happen_to_run,
    a_task_away_from_its_gpu_sends_by_its_gpus_nic_and_without_the_plugin_by_those_of_the_other_socket,
    ucx_alone_shares_a_large_message_between_two_nics_of_its_socket:
        |nodes| assert_shared(nodes, "near.bare", &["mlx5_0", "mlx5_1"]),
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

/// Is this the rest where no message goes: ARP, and what connections need?
pub fn none(bytes: u64) -> bool {
    bytes < 16 * 1024
}

/// By TCP go srun's own words, and what a program's two sides tell each other before they send.
pub const WORDS: u64 = 64 * 1024;

/// Did each of these NICs of both nodes carry its part of the bytes of each of two tasks, and the others nothing?
#[track_caller]
pub fn assert_shared(nodes: &Nodes, name: &str, nics: &[&str]) {
    let (messages, sent) = (nodes.tasks(name, 2)[0].sent(), nodes.sent(name));
    for ((node, nic), bytes) in &sent.0 {
        let fits = match nic.as_str() {
            "eth0" => *bytes < WORDS,
            nic if nics.contains(&nic) => are(*bytes, messages / nics.len() as u64),
            _ => none(*bytes),
        };
        assert!(fits, "{name}: {node}: {nic}: {:?}", sent.0);
    }
}

/// The bytes that should leave each RDMA NIC if each task's leave by the NIC beside its GPU.
fn planned(nodes: &Nodes, tasks: &[Task]) -> BTreeMap<(String, String), u64> {
    let mut planned = BTreeMap::new();
    for task in tasks {
        let nic = nodes.beside(task.gpu()).to_string();
        *planned.entry((task.node().to_string(), nic)).or_default() += task.sent();
    }
    planned
}

/// Do the bytes of every RDMA NIC fit the plan, which has so many NICs?
#[track_caller]
fn assert_fits(nodes: &Nodes, name: &str, tasks: usize, is_planned: bool) -> Sent {
    let found = nodes.tasks(name, tasks);
    let (planned, sent) = (planned(nodes, &found), nodes.sent(name));
    let mut rdma = sent
        .0
        .iter()
        .filter(|((_, nic), _)| nic.starts_with("mlx5_"));
    let fits = rdma.all(|(nic, bytes)| match planned.get(nic) {
        Some(messages) => are(*bytes, *messages),
        None => none(*bytes),
    });
    let is_so = fits == is_planned && (!is_planned || planned.len() == tasks);
    assert!(
        is_so,
        "{name}: {:?}, planned {planned:?} of {found:?}",
        sent.0
    );
    sent
}

fn each_of_eight_tasks_sends_by_the_nic_beside_its_gpu(nodes: &Nodes) {
    let sent = assert_fits(nodes, "own", 8, true);
    let is_so = NODES.iter().all(|node| sent.by(node, "eth0") < WORDS);
    assert!(is_so, "{:?}", sent.0);
}

fn without_the_plugin_tasks_share_the_nics_of_the_socket_on_which_they_happen_to_run(
    nodes: &Nodes,
) {
    let sent = assert_fits(nodes, "own.bare", 8, false);
    // nothing is lost
    let total = sent.sum(|_, nic| nic != "eth0");
    let messages = nodes.tasks("own.bare", 8).iter().map(Task::sent).sum();
    assert!(are(total, messages), "{:?}", sent.0);
    for node in NODES {
        // UCX halves a message over two NICs, and one of them may send parts again
        let half = |pair: [&str; 2]| pair.map(|nic| sent.by(node, nic)).into_iter().min();
        let halves = [["mlx5_0", "mlx5_1"], ["mlx5_2", "mlx5_3"]].map(half);
        let is_so = halves.into_iter().flatten().sum::<u64>() >= messages / 4;
        assert!(is_so, "{node}: {:?}", sent.0);
    }
}

/// The NIC beside the GPU that both tasks of a step have.
pub fn nic_of_both<'a>(nodes: &'a Nodes, name: &str) -> &'a str {
    let tasks = nodes.tasks(name, 2);
    let of = |task: &Task| (task.gpu(), task.sent());
    assert_eq!(of(&tasks[0]), of(&tasks[1]), "{tasks:?}");
    nodes.beside(tasks[0].gpu())
}

fn a_task_away_from_its_gpu_sends_by_its_gpus_nic_and_without_the_plugin_by_those_of_the_other_socket(
    nodes: &Nodes,
) {
    let own = nic_of_both(nodes, "far");
    // the task is bound to the other socket
    assert!(["mlx5_0", "mlx5_1"].contains(&own), "{own}");
    assert_shared(nodes, "far", &[own]);
    assert_shared(nodes, "far.bare", &["mlx5_2", "mlx5_3"]);
}

fn two_jobs_on_the_same_nodes_send_by_a_nic_each(nodes: &Nodes) {
    assert_fits(nodes, "jobs", 4, true);
    // without the plugin both share the NICs of their socket
    assert_fits(nodes, "jobs.bare", 4, false);
}

fn several_nics_of_a_gpu_carry_a_message_together(nodes: &Nodes) {
    let tasks = nodes.tasks("several", 2);
    let listed: BTreeSet<&str> = tasks[0].said("ucx").split(',').collect();
    let rdma = listed.into_iter().filter(|entry| entry.contains(':'));
    let found = rdma.collect::<Vec<_>>();
    assert_eq!(found, ["mlx5_0:1", "mlx5_1:1"], "{tasks:?}");
    assert_shared(nodes, "several", &["mlx5_0", "mlx5_1"]);
}

fn no_byte_leaves_by_a_nic_that_is_left_out(nodes: &Nodes) {
    assert_shared(nodes, "storage.in", &["mlx5_0", "mlx5_1", "mlx5_4"]);
    assert_shared(nodes, "storage.out", &["mlx5_0", "mlx5_1"]);
    // nor by TCP
    let sent = nodes.sent("storage.out");
    let is_so = NODES.iter().all(|node| sent.by(node, "mlx5_4") < 1024);
    assert!(is_so, "{:?}", sent.0);
}

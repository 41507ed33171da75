//! Other releases of UCX: what holds for Debian 12's must hold for them, and what does not is said here.
//!
//! Each stands in the guests as /other/NAME (others.sh).  `mine` is one that a tester unpacked beside the others, into
//! `ucx/mine/usr` of the cache (releases.sh).

use crate::cases_address::{assert_met, assert_unreachable};
use crate::cases_lost::assert_ended_by_ucx;
use crate::cases_ucx::{assert_shared, one_gpu};
use crate::nodes::Nodes;
use crate::{Case, Command, cases};

/// The commands for each of these releases: a step's name, and its words.
macro_rules! commands {
    ($($name:literal),*) => { &[$(
        at!($name, "far", "", "-n2 -c8 --cpu-bind=mask_cpu:0xf0 --nic-placement", "pair.sh"),
        at!($name, "meet", "", "-n2 --nic-placement", "meet.sh 192.168.7.1"),
        at!($name, "far.bare", "", "-n2 -c8 --cpu-bind=mask_cpu:0xf0", "pair.sh"),
        at!($name, "meet.alone", "UCX_NET_DEVICES=mlx5_1:1", "-n2", "meet.sh 192.168.7.1"),
        at!($name, "lost.several", "TIMES=9999", "-n2 --nic-placement=numa", "pair.sh", "/guest/lost.sh rail1 "),
        across!($name),
    )*] };
}
/// Tasks on different rails, where the admin says nothing of the fabric.
macro_rules! across {
    ($name:literal) => {
        (
            concat!($name, ".across"),
            concat!(
                "[ -d /other/",
                $name,
                " ] || exit 0; FABRIC= /guest/plugstack.sh exclude=mlx5_4; ",
                "ACROSS=1 OTHER_ROOT=/other/",
                $name,
                " srun -K -N2 -n4 --ntasks-per-node=2 --gpus-per-task=1 ",
                "--nic-placement /guest/pair.sh; code=$?; /guest/plugstack.sh exclude=mlx5_4; exit $code"
            ),
        )
    };
}
macro_rules! at {
    ($name:literal, $step:literal, $set:literal, $words:literal, $program:literal $(, $before:literal)?) => {
        (
            concat!($name, ".", $step),
            concat!(
                "[ -d /other/", $name, " ] || exit 0; ", $set, " OTHER_ROOT=/other/", $name, " ", $($before,)?
                "srun -K -N2 --gpus-per-task=1 ", $words, " /guest/", $program
            ),
        )
    };
}

pub const COMMANDS: &[Command] = commands!["trixie", "mine", "sid"];
const NAMES: [&str; 3] = ["trixie", "mine", "sid"];

pub const CASES: &[Case] = cases![
    with_other_releases_who_meets_by_address_can_with_our_list_and_not_with_a_nic_alone,
    with_other_releases_a_task_away_from_its_gpu_sends_by_its_gpus_nic_and_without_the_plugin_by_others,
    with_other_releases_a_second_nic_in_the_list_does_not_save_a_job_that_loses_a_link,
    tasks_on_rails_with_subnets_of_their_own_have_all_good_nics_and_send_by_them,
    a_ucx_that_was_built_without_rdma_sends_by_tcp_with_our_list_and_nothing_with_a_nic_alone,
];

/// Those of the releases that the guests have, with RDMA or without.
fn releases(nodes: &Nodes, rdma: bool) -> Vec<&'static str> {
    let has = |name: &&str| match nodes.other(name) {
        Some(words) => words.ends_with(" rdma") == rdma,
        None => {
            println!("skipped: there is no UCX of `{name}` (tests/clients/releases.sh)");
            false
        }
    };
    NAMES.iter().copied().filter(has).collect()
}

fn with_other_releases_who_meets_by_address_can_with_our_list_and_not_with_a_nic_alone(
    nodes: &Nodes,
) {
    for name in releases(nodes, true) {
        assert_met(nodes, &format!("{name}.meet"), "mlx5_1");
        assert_unreachable(nodes, &format!("{name}.meet.alone"));
    }
}

fn with_other_releases_a_task_away_from_its_gpu_sends_by_its_gpus_nic_and_without_the_plugin_by_others(
    nodes: &Nodes,
) {
    for name in releases(nodes, true) {
        let (placed, bare) = (format!("{name}.far"), format!("{name}.far.bare"));
        let (own, bytes) = one_gpu(nodes, &placed);
        assert_shared(nodes, &placed, bytes, &[own]);
        assert_shared(nodes, &bare, one_gpu(nodes, &bare).1, &["mlx5_2", "mlx5_3"]);
    }
}

fn with_other_releases_a_second_nic_in_the_list_does_not_save_a_job_that_loses_a_link(
    nodes: &Nodes,
) {
    for name in releases(nodes, true) {
        assert_ended_by_ucx(nodes, &format!("{name}.lost.several"));
    }
}

fn tasks_on_rails_with_subnets_of_their_own_have_all_good_nics_and_send_by_them(nodes: &Nodes) {
    for name in releases(nodes, true) {
        let step = format!("{name}.across");
        let tasks = nodes.tasks(&step, 4);
        let all = ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"];
        assert!(
            tasks
                .iter()
                .all(|task| all.iter().all(|nic| task.word("ucx").contains(nic))),
            "{step}: {tasks:?}"
        );
        let messages: u64 = tasks.iter().map(|task| task.sent()).sum();
        let sent = nodes.sent(&step);
        let by_nics: u64 = sent
            .iter()
            .filter(|((_, nic), _)| nic != "eth0")
            .map(|(_, bytes)| bytes)
            .sum();
        assert!(
            nodes.succeeded(&step) && by_nics >= messages,
            "{step}: {sent:?}"
        );
    }
}

fn a_ucx_that_was_built_without_rdma_sends_by_tcp_with_our_list_and_nothing_with_a_nic_alone(
    nodes: &Nodes,
) {
    for name in releases(nodes, false) {
        let step = format!("{name}.far");
        let (tasks, sent) = (nodes.tasks(&step, 2), nodes.sent(&step));
        let all: u64 = sent.values().sum();
        assert!(
            all > tasks.iter().map(|task| task.sent()).sum(),
            "{step}: {sent:?}"
        );
        assert!(!nodes.succeeded(&format!("{name}.meet.alone")));
    }
}

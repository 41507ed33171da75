//! Other releases of UCX: what holds for Debian 12's must hold for them, and what does not is said here.
//!
//! Each stands in the guests as /other/NAME (others.sh).  `mine` is one that
//! somebody unpacked beside the others, into `ucx/mine/usr` of the cache (releases.sh).

use crate::cases_address::{assert_met, assert_unreachable};
use crate::cases_lost::assert_ended_by_ucx;
use crate::cases_ucx::{assert_shared, fits, one_gpu, planned};
use crate::nodes::Nodes;
use crate::{Case, Command, cases};

/// The commands for each of these releases: a step's name, and its words.
macro_rules! commands {
    ($($name:literal),*) => { &[$(
        at!($name, "near.bare", "", "-n2", "pair.sh"),
        at!($name, "own.bare", "", "-n8 --ntasks-per-node=4", "pair.sh parts"),
        at!($name, "own", "", "-n8 --ntasks-per-node=4 --nic-placement", "pair.sh parts"),
        at!($name, "far.bare", "", "-n2 -c8 --cpu-bind=mask_cpu:0xf0", "pair.sh"),
        at!($name, "meet.bare", "", "-n2", "meet.sh 192.168.7.1"),
        at!($name, "meet.alone", "UCX_NET_DEVICES=mlx5_1:1", "-n2", "meet.sh 192.168.7.1"),
        at!($name, "meet", "", "-n2 --nic-placement", "meet.sh 192.168.7.1"),
        (
            concat!($name, ".put.slow"),
            concat!(
                "[ -d /other/", $name, " ] || exit 0; /guest/quick.sh 0 && UCX_RNDV_SCHEME=put_zcopy OTHER_ROOT=/other/", $name,
                " srun -N2 -n2 --gpus-per-task=1 --nic-placement /guest/pair.sh; code=$?; /guest/quick.sh 1; exit $code"
            ),
        ),
        at!(
            $name, "lost.several", "TIMES=9999", "-n2 --nic-placement=numa", "pair.sh", "/guest/lost.sh rail1 "
        ),
    )*] };
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
    with_other_releases_each_of_eight_tasks_sends_by_the_nic_beside_its_gpu,
    with_other_releases_who_meets_by_address_can_with_our_list_and_not_with_a_nic_alone,
    with_other_releases_a_task_away_from_its_gpu_sends_by_the_other_sockets_nics_unless_placed,
    with_other_releases_a_second_nic_in_the_list_does_not_save_a_job_that_loses_a_link,
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

fn with_other_releases_each_of_eight_tasks_sends_by_the_nic_beside_its_gpu(nodes: &Nodes) {
    for name in releases(nodes, true) {
        let (placed, bare) = (format!("{name}.own"), format!("{name}.own.bare"));
        for (step, as_planned) in [(placed, true), (bare, false)] {
            let planned = planned(nodes, &nodes.tasks(&step, 8));
            let sent = nodes.sent(&step);
            assert_eq!(fits(&sent, &planned), as_planned, "{step}: {sent:?}, planned {planned:?}");
        }
    }
}

fn with_other_releases_who_meets_by_address_can_with_our_list_and_not_with_a_nic_alone(nodes: &Nodes) {
    for name in releases(nodes, true) {
        assert_met(nodes, &format!("{name}.meet"), "mlx5_1");
        assert_unreachable(nodes, &format!("{name}.meet.alone"));
    }
}

fn with_other_releases_a_task_away_from_its_gpu_sends_by_the_other_sockets_nics_unless_placed(nodes: &Nodes) {
    for name in releases(nodes, true) {
        let step = format!("{name}.far.bare");
        assert_shared(nodes, &step, one_gpu(nodes, &step).1, &["mlx5_2", "mlx5_3"]);
    }
}

fn with_other_releases_a_second_nic_in_the_list_does_not_save_a_job_that_loses_a_link(nodes: &Nodes) {
    for name in releases(nodes, true) {
        assert_ended_by_ucx(nodes, &format!("{name}.lost.several"));
    }
}

fn a_ucx_that_was_built_without_rdma_sends_by_tcp_with_our_list_and_nothing_with_a_nic_alone(nodes: &Nodes) {
    for name in releases(nodes, false) {
        let step = format!("{name}.own");
        let (tasks, sent) = (nodes.tasks(&step, 8), nodes.sent(&step));
        let all: u64 = sent.values().sum();
        assert!(all > tasks.iter().map(|task| task.sent()).sum(), "{step}: {sent:?}");
        assert!(!nodes.succeeded(&format!("{name}.meet.alone")));
    }
}

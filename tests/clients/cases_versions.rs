//! Other releases of UCX: what holds for Debian 12's must hold for them, and what does not is said here.
//!
//! Each stands in the guests as /other/NAME (others.sh).  `mine` is one that a tester unpacked beside the others, into
//! `ucx/mine/usr` of the cache (releases.sh).

use super::cases_address::{assert_met, assert_unreachable};
use super::cases_lost::assert_ended_by_ucx;
use super::cases_ucx::{assert_shared, nic_of_both};
use super::nodes::*;

// across: tasks on different rails, where the admin says nothing of the fabric
pub const COMMANDS: &str = "\
RELEASE.far OTHER srun -K -N2 --gpus-per-task=1 -n2 -c8 --cpu-bind=mask_cpu:0xf0 --nic-placement \
    /guest/pair.sh
RELEASE.meet OTHER srun -K -N2 --gpus-per-task=1 -n2 --nic-placement /guest/meet.sh 192.168.7.1
RELEASE.far.bare OTHER srun -K -N2 --gpus-per-task=1 -n2 -c8 --cpu-bind=mask_cpu:0xf0 /guest/pair.sh
RELEASE.meet.alone UCX_NET_DEVICES=mlx5_1:1 OTHER srun -K -N2 --gpus-per-task=1 -n2 \
    /guest/meet.sh 192.168.7.1
RELEASE.lost.several TIMES=9999 OTHER /guest/lost.sh rail1 srun -K -N2 --gpus-per-task=1 -n2 \
    --nic-placement=numa /guest/pair.sh
RELEASE.across FABRIC= /guest/plugstack.sh exclude=mlx5_4; ACROSS=1 OTHER srun -K -N2 -n4 \
    --ntasks-per-node=2 --gpus-per-task=1 --nic-placement /guest/pair.sh; code=$?; \
    /guest/plugstack.sh exclude=mlx5_4; exit $code
";
const NAMES: [&str; 3] = ["trixie", "mine", "sid"];

/// Lines that name a release are run for each that the guests have.
pub fn each(commands: &str) -> String {
    if !commands.starts_with("RELEASE") {
        return commands.to_string();
    }
    let of = |name: &str| {
        let here = format!("[ -d /other/{name} ] || exit 0; ");
        let guarded = |line: &str| line.replacen(' ', &format!(" {here}"), 1) + "\n";
        let lines: String = commands.lines().map(guarded).collect();
        let other = format!("OTHER_ROOT=/other/{name}");
        lines
            .replace("RELEASE", name)
            .replace("OTHER ", &format!("{other} "))
    };
    NAMES.map(of).concat()
}

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
            println!("skipped: no UCX of `{name}` (tests/clients/releases.sh)");
            false
        }
    };
    NAMES.into_iter().filter(has).collect()
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
        let placed = format!("{name}.far");
        assert_shared(nodes, &placed, &[nic_of_both(nodes, &placed)]);
        assert_shared(nodes, &format!("{placed}.bare"), &["mlx5_2", "mlx5_3"]);
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
        let (tasks, sent) = (nodes.tasks(&step, 4), nodes.sent(&step));
        let rails = ["mlx5_0:1", "mlx5_1:1", "mlx5_2:1", "mlx5_3:1"];
        let is_so = |task: &Task| rails.iter().all(|nic| task.said("ucx").contains(nic));
        all(&tasks, is_so);
        let by_nics = sent.sum(|_, nic| nic != "eth0");
        let is_so = by_nics >= tasks.iter().map(Task::sent).sum();
        assert!(is_so, "{step}: {:?}", sent.0);
    }
}

fn a_ucx_that_was_built_without_rdma_sends_by_tcp_with_our_list_and_nothing_with_a_nic_alone(
    nodes: &Nodes,
) {
    for name in releases(nodes, false) {
        let step = format!("{name}.far");
        let (tasks, sent) = (nodes.tasks(&step, 2), nodes.sent(&step));
        let all = sent.sum(|_, _| true);
        let is_so = all > tasks.iter().map(Task::sent).sum();
        assert!(is_so, "{step}: {:?}", sent.0);
        assert!(!nodes.succeeded(&format!("{name}.meet.alone")));
    }
}

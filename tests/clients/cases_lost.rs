//! A NIC whose link is lost while a job's bytes flow: the job ends as it does without the plugin.

use super::cases_address::assert_fails;
use super::nodes::*;

pub const COMMANDS: &str = "\
lost.bare TIMES=9999 /guest/lost.sh rail1 srun -K -N2 -n2 --gpus-per-task=1 /guest/pair.sh
lost TIMES=9999 /guest/lost.sh rail1 srun -K -N2 -n2 --gpus-per-task=1 --nic-placement \
    /guest/pair.sh
lost.several TIMES=9999 /guest/lost.sh rail1 srun -K -N2 -n2 --gpus-per-task=1 \
    --nic-placement=numa /guest/pair.sh
lost.handled.bare TIMES=9999 HANDLES=1 OTHER_ROOT=/ /guest/lost.sh rail1 srun -K -N2 -n2 \
    --gpus-per-task=1 /guest/pair.sh
lost.handled TIMES=9999 HANDLES=1 OTHER_ROOT=/ /guest/lost.sh rail1 srun -K -N2 -n2 \
    --gpus-per-task=1 --nic-placement \
    /guest/pair.sh
";

pub const CASES: &[Case] = cases![
    a_job_whose_nic_loses_its_link_ends_as_it_does_without_the_plugin,
    a_second_nic_in_the_list_does_not_save_the_job,
    a_program_that_wants_to_be_told_of_failures_is_told_as_it_is_without_the_plugin,
];

/// Did UCX's word, and nothing of ours, end the step, while bytes flowed?  1.13 and 1.18 abort the program, 1.22 tells it.
/// What srun itself returns says which of the two tasks was ended last, and by whom: that is not the same each time.
#[track_caller]
pub fn assert_ended_by_ucx(nodes: &Nodes, name: &str) {
    assert_fails(nodes, name, "the link is down");
    let said = nodes.said(name);
    // timeout's own status
    assert!(!said.contains("ended with 124"), "{name} hangs: {said}");
    // what is told first differs from run to run
    let words = ["completion with error", "Endpoint timeout"];
    let is_so = words.iter().any(|word| said.contains(word));
    assert!(is_so, "{name}: {said}");
    assert!(!said.contains("nic-placement:"), "{name}: {said}");
}

fn a_job_whose_nic_loses_its_link_ends_as_it_does_without_the_plugin(nodes: &Nodes) {
    for name in ["lost.bare", "lost"] {
        assert_ended_by_ucx(nodes, name);
        assert_fails(nodes, name, "Aborted");
    }
}

fn a_second_nic_in_the_list_does_not_save_the_job(nodes: &Nodes) {
    assert_fails(nodes, "lost.several", "ucx=mlx5_1:1,mlx5_0:1,");
    assert_ended_by_ucx(nodes, "lost.several");
}

fn a_program_that_wants_to_be_told_of_failures_is_told_as_it_is_without_the_plugin(nodes: &Nodes) {
    for name in ["lost.handled.bare", "lost.handled"] {
        for words in ["the link is down", "message: "] {
            assert_fails(nodes, name, words);
        }
        let is_so = !nodes.said(name).contains("Aborted");
        assert!(is_so, "{}", nodes.said(name));
    }
}

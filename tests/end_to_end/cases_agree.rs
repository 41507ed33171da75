//! Nodes that do not fit together are named before a job runs, by Slurm's own PMI.

use crate::harness::{Bed, Case, cases};
use crate::machines::{LINK_DOWN, NO_GPUS, NO_RDMA};
use crate::report::Task;

pub const CASES: &[Case] = cases![
    nodes_that_are_alike_agree_and_say_the_word_that_is_in_each_tasks_marker,
    a_node_that_lost_a_nic_is_named_with_what_to_write_and_the_step_ends_with_4,
    a_node_whose_rails_are_in_another_order_gets_a_line_for_the_admin,
    tasks_that_cannot_talk_to_each_other_say_which_word_srun_needs,
    a_node_that_says_nothing_ends_the_others_after_the_time_that_was_given,
];

/// A step of the tool with a task for each of these nodes.
fn agree(bed: &Bed, nodes: &str, more: &str) -> String {
    let tool = bed.site.plugin.with_file_name("nic-placement");
    format!(
        "srun --mpi=pmi2 -w {nodes} --ntasks-per-node=1 {} agree {more}",
        tool.display()
    )
}

/// The word of the node in a task's marker.
fn word(task: &Task) -> &str {
    let marker = task.env("NIC_PLACEMENT").expect("a placed task has it");
    marker
        .split(' ')
        .find_map(|word| word.strip_prefix("node="))
        .expect("the node's word")
}

fn nodes_that_are_alike_agree_and_say_the_word_that_is_in_each_tasks_marker(bed: &Bed) {
    let tasks = bed.tasks(
        4,
        "srun -w n0,n1 -N2 --ntasks-per-node=2 --gpus-per-task=1 --nic-placement $report",
    );
    let of_n0 = word(&tasks[0]);
    assert!(tasks.iter().all(|task| word(task) == of_n0), "{tasks:#?}");
    let ran = bed.run(&agree(bed, "n0,n1", ""));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.stdout);
    assert!(
        ran.stdout.starts_with(&format!(
            "2 nodes agree: {of_n0}, 8 nvidia, rails mlx5_0:1 "
        )),
        "{}",
        ran.stdout
    );
    // another task of a node says the same as the first
    let two_each = agree(bed, "n0,n1", "").replace("--ntasks-per-node=1", "--ntasks-per-node=2");
    assert_eq!(bed.run(&two_each).stdout, ran.stdout);
    let lost = bed.tasks(
        1,
        &format!("srun -w {LINK_DOWN} -n1 --gpus-per-task=1 --nic-placement $report"),
    );
    assert_ne!(word(&lost[0]), of_n0);
}

fn a_node_that_lost_a_nic_is_named_with_what_to_write_and_the_step_ends_with_4(bed: &Bed) {
    let command = agree(bed, "n[0-4]", "");
    let ran = bed.run(&command);
    assert_eq!(ran.code, 4);
    let block = |node: &str| {
        let lines = ran.stdout.lines().skip_while(|line| *line != node).skip(1);
        lines
            .take_while(|line| !line.is_empty())
            .collect::<Vec<_>>()
    };
    assert!(
        ran.stdout.starts_with("2 of 5 nodes agree: "),
        "{}",
        ran.stdout
    );
    let lost = block(LINK_DOWN);
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert!(
        lost[0].starts_with("    mlx5_4:1 is left out: its port is down"),
        "{lost:?}"
    );
    assert_eq!(lost[1], "    do   for this job: --exclude=n2");
    assert!(
        block(NO_RDMA).contains(&"    it has 0 rails, theirs are 8"),
        "{}",
        ran.stdout
    );
    assert!(
        block(NO_GPUS).contains(&"    GPUs: none, theirs 8 nvidia"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr
            .contains("agree: 3 of 5 nodes do not fit the others"),
        "{}",
        ran.stderr
    );
    // a job script goes no further, and what it was told to write helps
    let script = bed.run(&format!(
        "salloc -N5 bash -c '{command} || exit; echo goes on'"
    ));
    assert!(!script.stdout.contains("goes on"));
    let without = agree(bed, "n[0-4]", "").replace("-w n[0-4]", "-N2 --exclude=n[2-4]");
    assert_eq!(bed.run(&without).code, 0);
}

fn a_node_whose_rails_are_in_another_order_gets_a_line_for_the_admin(bed: &Bed) {
    let reversed = "mlx5_11,mlx5_10,mlx5_9,mlx5_6,mlx5_5,mlx5_4,mlx5_3,mlx5_0";
    let file = bed.file("agree.conf", &format!("NodeName=n1 rails={reversed}\n"));
    bed.plugin(&format!("conf={}", file.display()));
    let ran = bed.run(&agree(bed, "n0,n1", ""));
    assert_eq!(ran.code, 4);
    assert!(
        ran.stdout.contains("its rails are in another order: "),
        "{}",
        ran.stdout
    );
    let line = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("    do   in /etc/nic-placement.conf: "));
    let line = line.expect("what to write");
    bed.file("agree.conf", &format!("{line}\n"));
    assert_eq!(bed.run(&agree(bed, "n0,n1", "")).code, 0, "{line}");
}

fn tasks_that_cannot_talk_to_each_other_say_which_word_srun_needs(bed: &Bed) {
    let ran = bed.run(&agree(bed, "n0,n1", "").replace("--mpi=pmi2", "--mpi=none"));
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.contains("write `srun --mpi=pmi2`"),
        "{}",
        ran.stderr
    );
}

fn a_node_that_says_nothing_ends_the_others_after_the_time_that_was_given(bed: &Bed) {
    let tool = bed.site.plugin.with_file_name("nic-placement");
    // not with --kill-on-bad-exit, by which srun may drop what the first task said last
    let silent = format!(
        "srun --mpi=pmi2 -w n0,n1 --ntasks-per-node=1 bash -c \
         'test $SLURM_PROCID = 1 && exec sleep 5; exec {} agree --within 1'",
        tool.display()
    );
    let ran = bed.run(&silent);
    assert!(
        ran.stderr.contains("a node has said nothing"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.code == 1 && ran.took.as_secs() < 20,
        "{} after {:?}",
        ran.code,
        ran.took
    );
}

//! Runs beside a plugin that gives all tasks of a node one environment, as pyxis does.

use crate::harness::{Bed, Case, cases};
use crate::machines::ucx_of;
use crate::plugins::pyxis;
use crate::report::Task;
use std::collections::BTreeSet;
use std::fs;

pub const CASES: &[Case] = cases![
    behind_pyxis_each_task_keeps_its_own_nic_and_before_it_all_have_the_first_tasks,
    pyxis_behind_us_is_named_in_the_log_and_in_the_verbose_report,
    pyxis_before_us_is_not_talked_about,
];

const COMMAND: &str = "srun -w n0 -n4 --gpus-per-task=1 @ $report";
/// Two names for our file: one sorts after `pyxis.conf`, one before.
const BEHIND: &str = "90-nic-placement.conf";
const BEFORE: &str = "nic-placement.conf";

/// plugstack.conf includes a folder with one file of pyxis and one of ours.  The name that plugstack.conf.example advises
/// sorts after a numbered file too.
fn included(bed: &Bed, ours: &str) {
    let folder = bed.site.dir.join("plugstack.conf.d");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("plugstack.conf.d");
    let theirs = if ours == BEHIND {
        "50-pyxis.conf"
    } else {
        "pyxis.conf"
    };
    for (name, line) in [
        (theirs, pyxis(bed.site)),
        (ours, bed.site.plugstack_line("")),
    ] {
        fs::write(folder.join(name), line + "\n").expect("a file of plugstack.conf.d");
    }
    bed.plugstack(&format!("include {}/*", folder.display()));
}

fn behind_pyxis_each_task_keeps_its_own_nic_and_before_it_all_have_the_first_tasks(bed: &Bed) {
    for (ours, nics) in [(BEHIND, 4), (BEFORE, 1)] {
        included(bed, ours);
        let (_, placed) = bed.without_and_with("--nic-placement", 4, COMMAND);
        let different: BTreeSet<&str> = placed.iter().flat_map(Task::ucx).collect();
        assert_eq!(different.len(), nics, "with `{ours}`: {different:?}");
        if ours == BEHIND {
            assert!(
                placed
                    .iter()
                    .all(|task| task.ucx() == [ucx_of(task.gpus()[0])])
            );
        }
    }
}

fn pyxis_behind_us_is_named_in_the_log_and_in_the_verbose_report(bed: &Bed) {
    included(bed, BEFORE);
    let told = |text: &str| {
        text.lines()
            .filter(|line| line.contains("`spank_pyxis.so` stands after"))
            .count()
    };
    let ran = bed.run(&COMMAND.replace('@', "--nic-placement"));
    assert_eq!(
        (ran.code, told(&ran.stderr)),
        (0, 0),
        "a user who did not ask is not told"
    );
    assert_eq!(told(&bed.log("n0")), 1, "lines in slurmd's log");
    let ran = bed.run(&COMMAND.replace('@', "--nic-placement=verbose"));
    assert_eq!(
        (ran.code, told(&ran.stderr)),
        (0, 1),
        "lines on the terminal"
    );
    assert!(bed.log("n0").contains(BEHIND), "the way out is named");
}

fn pyxis_before_us_is_not_talked_about(bed: &Bed) {
    included(bed, BEHIND);
    let ran = bed.run(&COMMAND.replace('@', "--nic-placement=verbose"));
    assert_eq!((ran.code, ran.tasks.len()), (0, 4));
    assert!(!format!("{}{}", ran.stderr, bed.log("n0")).contains("stands after"));
}

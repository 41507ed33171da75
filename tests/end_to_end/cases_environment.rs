//! Variables and their owners: the user's survive, ours do not outlive their step, and batch scripts get none.

use crate::harness::{Bed, Case, cases};
use crate::machines::{nccl_list, ucx_of, ucx_of_all};
use crate::report::Task;
use std::collections::BTreeSet;
use std::path::Path;

pub const CASES: &[Case] = cases![
    the_users_own_variables_survive,
    a_batch_job_hands_the_option_to_its_sruns_and_is_left_alone_itself,
    an_sbatch_line_in_the_script_is_enough,
    an_srun_in_a_batch_job_may_say_something_else,
    salloc_hands_the_option_to_its_sruns,
    an_environment_that_is_not_exported_changes_nothing,
    a_nested_srun_replaces_what_the_outer_one_set,
    a_nested_srun_without_the_flag_loses_what_the_outer_one_set,
    a_nested_srun_keeps_what_the_user_changed_in_between,
    a_job_that_a_placed_step_submits_does_not_inherit_its_nics,
    a_shell_that_a_placed_step_allocates_does_not_inherit_its_nics,
    a_users_own_nic_placement_stays,
    what_a_task_gains_is_the_difference_that_the_documents_show,
];

fn the_users_own_variables_survive(bed: &Bed) {
    let command = "UCX_NET_DEVICES=mine:1 srun -w n0 -n2 --gpus-per-task=1 @ $report";
    for task in bed.tasks(2, &command.replace('@', "--nic-placement")) {
        assert_eq!(task.env("UCX_NET_DEVICES"), Some("mine:1"));
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "the other variable is not the user's"
        );
    }
    let command = "NCCL_IB_HCA=mine srun -w n0 -n2 --gpus-per-task=1 @ $report";
    for task in bed.tasks(2, &command.replace('@', "--nic-placement")) {
        assert_eq!(task.env("NCCL_IB_HCA"), Some("mine"));
        assert_eq!(
            task.ucx(),
            [ucx_of(task.gpus()[0])],
            "the other variable is not the user's"
        );
    }
}

fn a_batch_job_hands_the_option_to_its_sruns_and_is_left_alone_itself(bed: &Bed) {
    let script = "env -u SLURM_PROCID $report | sed s/rank=-/rank=99/\nsrun $report\n";
    let without = bed.tasks(3, &bed.batch("", script));
    assert!(without.iter().all(Task::is_untouched));
    let with = bed.tasks(3, &bed.batch("--nic-placement", script));
    for task in &with[..2] {
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "in the step");
        assert_eq!(
            task.env("NCCL_IB_HCA"),
            Some(nccl_list().as_str()),
            "in the step"
        );
    }
    let script = &with[2];
    assert!(
        script.is_untouched() && script.mem() == "default",
        "in the batch script: {script:?}"
    );
    assert_eq!(script.cpus(), without[2].cpus(), "of the batch script");
}

fn an_sbatch_line_in_the_script_is_enough(bed: &Bed) {
    for (line, placed) in [
        ("#SBATCH --nic-placement", true),
        ("#SBATCH --nic-placement=off", false),
    ] {
        let tasks = bed.tasks(2, &bed.batch("", &format!("{line}\nsrun $report\n")));
        for task in &tasks {
            let expected = if placed {
                vec![ucx_of(task.gpus()[0])]
            } else {
                vec![]
            };
            assert_eq!(task.ucx(), expected, "with `{line}`");
        }
    }
}

fn an_srun_in_a_batch_job_may_say_something_else(bed: &Bed) {
    let script = "srun --nic-placement=off $report\n";
    let off = bed.tasks(2, &bed.batch("--nic-placement", script));
    assert!(off.iter().all(Task::is_untouched));
    let script = "srun --nic-placement=closest $report\n";
    let on = bed.tasks(2, &bed.batch("--nic-placement=off", script));
    assert!(on.iter().all(|task| task.ucx() == [ucx_of(task.gpus()[0])]));
}

fn salloc_hands_the_option_to_its_sruns(bed: &Bed) {
    let command = "salloc --quiet -w n0 -n2 --gpus-per-task=1 @ srun $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 2, command);
    assert!(
        placed
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])])
    );
}

fn an_environment_that_is_not_exported_changes_nothing(bed: &Bed) {
    let command = "srun --export=NONE -w n0 -n2 --gpus-per-task=1 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement", 2, command);
    assert!(
        placed
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])]),
        "of srun"
    );
    // the script has no variable `$report`, so its value is written into the script
    let script = format!("srun {}\n", bed.run("echo $report").stdout.trim());
    let tasks = bed.tasks(2, &bed.batch("--export=NONE --nic-placement", &script));
    assert!(
        tasks
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])]),
        "of the srun in a batch job"
    );
}

/// An outer srun with all GPUs and one task, which runs `inner`.
fn nested(outer: &str, inner: &str) -> String {
    // the outer step holds the job's resources; with --overlap the inner step may use them
    format!("srun -w n0 -n1 -c8 --gres=gpu:8 {outer} bash -c '{inner}'")
}

const INNER: &str = "srun --overlap -n1 -c8 --gres=gpu:1 --cpu-bind=none";

fn a_nested_srun_replaces_what_the_outer_one_set(bed: &Bed) {
    let inner = format!("$report; {INNER} --nic-placement $report | sed s/rank=0/rank=1/");
    let tasks = bed.tasks(2, &nested("--nic-placement", &inner));
    assert_eq!(tasks[0].ucx(), ucx_of_all(0..8), "in the outer step");
    assert_eq!(tasks[1].ucx(), [ucx_of(0)], "in the inner step");
    assert_eq!(
        tasks[1].env("NCCL_IB_HCA"),
        Some(nccl_list().as_str()),
        "in the inner step"
    );
}

fn a_nested_srun_without_the_flag_loses_what_the_outer_one_set(bed: &Bed) {
    let inner = format!(
        "$report; {INNER} --nic-placement=off $report | sed s/rank=0/rank=1/; unset SLURM_NIC_PLACEMENT; unset ${{!SLURM_SPANK_*}} ${{!_SLURM_SPANK_*}}; {INNER} $report | sed s/rank=0/rank=2/"
    );
    let tasks = bed.tasks(3, &nested("--nic-placement", &inner));
    assert_eq!(tasks[0].ucx(), ucx_of_all(0..8), "in the outer step");
    assert!(tasks[1].is_untouched(), "with `off`: {:?}", tasks[1]);
    assert!(tasks[2].is_untouched(), "without the flag: {:?}", tasks[2]);
}

fn a_nested_srun_keeps_what_the_user_changed_in_between(bed: &Bed) {
    let inner = format!("export UCX_NET_DEVICES=mine:1; {INNER} --nic-placement $report");
    let tasks = bed.tasks(1, &nested("--nic-placement", &inner));
    assert_eq!(tasks[0].env("UCX_NET_DEVICES"), Some("mine:1"));
}

/// In a placed step on n0: `prepare`, then `submit`, by which a program on n1 reports.
fn from_a_placed_step(bed: &Bed, prepare: &str, submit: &str) -> Task {
    bed.file(
        "job",
        "#!/bin/bash\nenv -u SLURM_PROCID $report | sed s/rank=-/rank=99/\n",
    );
    // the file outlives the plugin's absence
    let restored = "cp etc/plugstack.conf kept; trap 'cp kept etc/plugstack.conf' EXIT";
    let outer =
        format!("srun -w n0 -n1 -c8 --gres=gpu:8 --nic-placement bash -c '{prepare}; {submit}'");
    bed.tasks(1, &format!("chmod +x job; {restored}; {outer}"))
        .remove(0)
}

/// Waits for its end without `--wait`, which looks every two seconds only.
const SUBMIT: &str = "job=$(sbatch --parsable -w n1 -n1 --gres=gpu:1 --output=job.out job) || exit; \
    while [ \"$(squeue -h -j $job)\" ]; do sleep 0.1; done; cat job.out";
const ALLOCATE: &str = "SHELL=$PWD/job salloc --quiet -w n1 -n1 --gres=gpu:1";

fn assert_nothing_is_inherited(bed: &Bed, submit: &str) {
    let leaked = from_a_placed_step(bed, ": > etc/plugstack.conf", submit);
    assert_eq!(
        leaked.ucx(),
        ucx_of_all(0..8),
        "without the plugin on n1: what Slurm hands on"
    );
    let job = from_a_placed_step(bed, ":", submit);
    assert_eq!(job.node(), "n1");
    assert!(job.is_untouched(), "{job:?}");
    let own = from_a_placed_step(bed, "export UCX_NET_DEVICES=mine:1", submit);
    assert_eq!(own.env("UCX_NET_DEVICES"), Some("mine:1"), "the user's own");
    assert_eq!(
        (own.env("NCCL_IB_HCA"), own.env("NIC_PLACEMENT")),
        (None, None),
        "{own:?}"
    );
    let kept = from_a_placed_step(bed, "export SLURM_NIC_PLACEMENT=dry-run", submit);
    assert_eq!(kept.ucx(), ucx_of_all(0..8), "a dry run changes nothing");
}

fn a_job_that_a_placed_step_submits_does_not_inherit_its_nics(bed: &Bed) {
    assert_nothing_is_inherited(bed, SUBMIT);
}

fn a_shell_that_a_placed_step_allocates_does_not_inherit_its_nics(bed: &Bed) {
    assert_nothing_is_inherited(bed, ALLOCATE);
}

fn a_users_own_nic_placement_stays(bed: &Bed) {
    let command = "NIC_PLACEMENT=mine srun -w n0 -n2 --gpus-per-task=1 @ $report";
    let ran = bed.run(&command.replace('@', "--nic-placement=verbose"));
    assert_eq!((ran.code, ran.tasks.len()), (0, 2));
    for task in &ran.tasks {
        assert_eq!(task.env("NIC_PLACEMENT"), Some("mine"));
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "the others are set");
    }
    assert_eq!(
        ran.stderr.matches("nothing is published").count(),
        2,
        "once for each task"
    );
    for task in bed.tasks(2, &command.replace('@', "--nic-placement=off")) {
        assert_eq!(task.env("NIC_PLACEMENT"), Some("mine"), "nor is it removed");
    }
}

/// The whole environment of task 1, and what it is bound to.
fn all_of_task_1(bed: &Bed, options: &str) -> BTreeSet<String> {
    let step = format!("srun -w n0 -n8 -c4 --gpus-per-task=1 {options}");
    let task = &bed.tasks(8, &format!("{step} $report"))[1];
    let ran = bed.run(&format!(
        "{step} bash -c 'if [ $SLURM_PROCID = 1 ]; then env; fi'"
    ));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // another machine's interfaces have other names
    let interfaces = format!(",{}", task.interfaces().join(","));
    let lines = ran.stdout.lines().map(|line| match interfaces.len() {
        1 => line.to_string(),
        _ => line.replace(&interfaces, ",eth0"),
    });
    lines
        .chain([
            format!("CPUs: {}", task.cpu_list()),
            format!("memory: {}", task.mem()),
        ])
        .collect()
}

fn what_a_task_gains_is_the_difference_that_the_documents_show(bed: &Bed) {
    let without = [all_of_task_1(bed, ""), all_of_task_1(bed, "")];
    let with = all_of_task_1(bed, "--nic-placement");
    let name = |line: &&String| {
        line.split(['=', ':'])
            .next()
            .unwrap_or_default()
            .to_string()
    };
    let varies: BTreeSet<String> = without[0]
        .symmetric_difference(&without[1])
        .map(|line| name(&line))
        .collect();
    let differs = |from: &BTreeSet<String>, to: &BTreeSet<String>, sign: &str| -> String {
        let lines = from
            .difference(to)
            .filter(|line| !varies.contains(&name(line)) && !name(line).ends_with("_TIME"));
        lines.map(|line| format!("{sign}{line}\n")).collect()
    };
    let found = differs(&without[0], &with, "-") + &differs(&with, &without[0], "+");
    let ours = [
        "CPUs",
        "memory",
        "NCCL_IB_HCA",
        "NIC_PLACEMENT",
        "NVSHMEM_HCA_LIST",
        "UCX_NET_DEVICES",
        "UCX_SOCKADDR_TLS_PRIORITY",
    ];
    for line in found.lines() {
        assert!(
            ours.contains(&&*name(&&line[1..].to_string())),
            "{line}: not of the plugin's list\n{found}"
        );
    }
    // the documents show that of this machine's Slurm; another release deals CPUs otherwise
    if bed.site.root != Path::new("/") {
        return;
    }
    let shown = bed.site.repository.join("tests/slurm/difference.diff");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&shown, &found).expect("the difference");
    }
    assert_eq!(
        std::fs::read_to_string(&shown).expect("the difference"),
        found,
        "`BLESS=1` records it"
    );
}

//! A job must not fail, hang or slow down because of the plugin.

use crate::harness::{Bed, Case, cases, skip};
use crate::machines::ucx_of;
use crate::report::Task;
use std::path::Path;
use std::time::Duration;

pub const CASES: &[Case] = cases![
    a_missing_topology_file_is_named_in_the_log_and_the_job_runs,
    a_broken_topology_file_is_named_with_the_place_and_the_job_runs,
    a_bad_plugstack_argument_is_named_in_the_log_and_the_job_runs,
    a_panic_in_init_harms_no_job,
    a_panic_in_the_option_harms_no_job,
    a_panic_in_init_post_opt_harms_no_job,
    a_panic_in_task_init_harms_no_job,
    a_plugin_that_is_gone_harms_no_job,
    nobody_forges_a_line_of_slurmds_log,
    a_typo_that_only_the_node_sees_harms_neither_job_nor_node,
    the_exit_code_of_the_program_is_kept,
    no_process_is_started_for_a_job_beyond_those_of_slurm,
    slurmd_says_once_as_it_starts_that_no_node_file_is_there,
];

pub const CASES_WITH_A_PROLOG_PLUGIN: &[Case] =
    cases![the_log_would_show_such_a_process_if_there_were_one];

/// With these plugstack arguments the job runs without placement, and one log line of ours has all of `words`.
fn assert_it_runs_and_logs(bed: &Bed, arguments: &str, words: &[&str]) {
    let command = "srun -w n0 -n2 --gpus-per-task=1 --nic-placement $report";
    assert!(
        bed.tasks(2, command)
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])]),
        "without the fault"
    );
    bed.plugin(arguments);
    let tasks = bed.tasks(2, command);
    assert!(
        tasks.iter().all(Task::is_untouched),
        "nothing may be set: {tasks:?}"
    );
    let log = bed.log("n0");
    let ours: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("nic-placement: "))
        .collect();
    let found = ours
        .iter()
        .any(|line| words.iter().all(|word| line.contains(word)));
    assert!(found, "no line with all of {words:?} among {ours:#?}");
}

fn a_missing_topology_file_is_named_in_the_log_and_the_job_runs(bed: &Bed) {
    assert_it_runs_and_logs(bed, "topology=/nowhere/dgx.json", &["/nowhere/dgx.json"]);
}

fn a_broken_topology_file_is_named_with_the_place_and_the_job_runs(bed: &Bed) {
    let whole = bed.site.topology_file();
    let broken = [
        (whole[..whole.len() / 2].to_string(), ["line ", "column "]),
        (
            whole.replace("\"os_index\": 1", "\"os_index\": \"one\""),
            ["line 8 ", "expected"],
        ),
        (
            whole.replace("\"version\": 1", "\"version\": 77"),
            ["`version`", "77"],
        ),
        ("# a shopping list".to_string(), ["line 1 ", "expected"]),
    ];
    for (text, words) in broken {
        let file = bed.file("broken.json", &text).display().to_string();
        bed.plugin("");
        assert_it_runs_and_logs(
            bed,
            &format!("topology={file}"),
            &[&file, words[0], words[1]],
        );
    }
}

fn a_bad_plugstack_argument_is_named_in_the_log_and_the_job_runs(bed: &Bed) {
    let command = "srun -w n0 -n2 --gpus-per-task=1 $report";
    bed.plugin("topologie=/etc/dgx.json");
    let ran = bed.run(command);
    assert_eq!((ran.code, ran.tasks.len()), (0, 2));
    let said = format!("{}{}", ran.stderr, bed.log("n0"));
    assert!(
        said.contains("topologie=/etc/dgx.json"),
        "the argument is named"
    );
}

/// After a panic in `hook`, the job neither fails nor hangs, and the node is as it was.
fn assert_a_panic_is_harmless(bed: &Bed, hook: &str) {
    let plugin = bed.site.panicking_plugin();
    let command = "srun -w n0 -n2 --gpus-per-task=1 @ $report";
    let placed = |tasks: &[Task]| {
        tasks
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])])
    };

    bed.plugstack(&format!("optional {}", plugin.display()));
    assert!(
        placed(&bed.tasks(2, &command.replace('@', "--nic-placement"))),
        "this build places, until it is to panic"
    );

    bed.plugstack(&format!("optional {} panic={hook}", plugin.display()));
    // a panic in srun's init leaves the option unregistered
    let asked = if hook == "init" {
        ""
    } else {
        "--nic-placement"
    };
    let ran = bed.run(&format!(
        "SLURM_NIC_PLACEMENT=closest RUST_BACKTRACE=1 {}",
        command.replace('@', asked)
    ));
    assert_eq!((ran.code, ran.tasks.len()), (0, 2), "of a step");
    assert!(ran.took < Duration::from_secs(20), "it took {:?}", ran.took);
    assert!(
        !ran.stderr.contains("stack backtrace"),
        "a backtrace on the user's terminal"
    );
    let panic = format!("asked to panic in `{hook}`");
    assert!(bed.log("n0").contains(&panic), "there was no panic");
    if hook.contains("_init") || hook.contains("init_") {
        assert!(!placed(&ran.tasks), "the panic came too late to matter");
    }
    bed.tasks(2, &command.replace('@', ""));
    bed.tasks(2, &bed.batch("", "srun $report"));
    assert_the_node_becomes_idle(bed);
}

pub fn assert_the_node_becomes_idle(bed: &Bed) {
    let idle = "for i in {1..50}; do [ \"$(sinfo -h -n n0 -o %T)\" = idle ] && exit; sleep 0.1; done; sinfo; exit 1";
    assert_eq!(bed.run(idle).code, 0, "the node does not become idle again");
}

fn a_panic_in_init_harms_no_job(bed: &Bed) {
    assert_a_panic_is_harmless(bed, "init");
}

fn a_panic_in_the_option_harms_no_job(bed: &Bed) {
    assert_a_panic_is_harmless(bed, "option");
}

fn a_panic_in_init_post_opt_harms_no_job(bed: &Bed) {
    assert_a_panic_is_harmless(bed, "init_post_opt");
}

fn a_panic_in_task_init_harms_no_job(bed: &Bed) {
    assert_a_panic_is_harmless(bed, "task_init");
}

fn a_plugin_that_is_gone_harms_no_job(bed: &Bed) {
    bed.plugstack("optional /nowhere/libnic_placement.so");
    let tasks = bed.tasks(2, "srun -w n0 -n2 --gpus-per-task=1 $report");
    assert!(tasks.iter().all(Task::is_untouched));
}

/// Ends a line and begins another in bash's `$'…'`.
const FORGED: &str = "\\n[2026-01-01T00:00:00.000] error: FORGED\\e[31m";

fn nobody_forges_a_line_of_slurmds_log(bed: &Bed) {
    let srun = "srun -w n0 -n2 --gpus-per-task=1";
    let places = [
        format!("SLURM_CPU_BIND_TYPE=$'none{FORGED}' {srun} --nic-placement=verbose $report"),
        format!("SLURM_MEM_BIND_TYPE=$'local{FORGED}' {srun} --nic-placement=verbose $report"),
        format!("SLURM_NIC_PLACEMENT=$'closest{FORGED}' {srun} $report"),
        // a value that the node alone sees
        format!("_SLURM_SPANK_OPTION_nic_placement_nic_placement=$'typo{FORGED}' {srun} $report"),
        format!(
            "UCX_NET_DEVICES=$'mine{FORGED}' NCCL_IB_HCA=$'x{FORGED}' {srun} --nic-placement=verbose $report"
        ),
        format!(
            "NIC_PLACEMENT=$'v1{FORGED}' HOME=$'/x{FORGED}' {srun} --nic-placement=verbose $report"
        ),
    ];
    for command in places {
        let ran = bed.run(&command);
        assert_eq!((ran.code, ran.tasks.len()), (0, 2), "of `{command}`");
        let said = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("[2026") || line.contains('\u{1b}'));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [""; 0],
            "on the terminal, of `{command}`"
        );
    }
    let log = bed.log("n0");
    let forged = log
        .lines()
        .filter(|line| line.starts_with("[2026-01-01T00:00:00.000] error: FORGED"));
    assert_eq!(
        forged.count(),
        0,
        "lines of the log that a user wrote: {log}"
    );
    assert!(!log.contains('\u{1b}'), "an escape sequence in the log");
    assert!(
        log.contains("\\n[2026-01-01T00:00:00.000] error: FORGED"),
        "what was tried is there, in one line"
    );
}

fn a_typo_that_only_the_node_sees_harms_neither_job_nor_node(bed: &Bed) {
    let command = "_SLURM_SPANK_OPTION_nic_placement_nic_placement=typo srun -w n0 -n2 --gpus-per-task=1 $report";
    // where the plugin is `required`, since 25.05, an answer that is not 0 drains the node
    for arguments in ["", "default=closest"] {
        bed.plugstack(
            &bed.site
                .plugstack_line(arguments)
                .replace("optional", "required"),
        );
        let placed = bed
            .tasks(2, command)
            .iter()
            .all(|task| task.ucx() == [ucx_of(task.gpus()[0])]);
        assert_eq!(placed, !arguments.is_empty(), "as without the option");
    }
    let log = bed.log("n0");
    assert!(log.contains("unknown word `typo`"), "the node's log tells");
    assert!(
        !log.contains("failed to process option"),
        "Slurm was told of a failure"
    );
    assert_the_node_becomes_idle(bed);
}

fn the_exit_code_of_the_program_is_kept(bed: &Bed) {
    for flag in ["", "--nic-placement"] {
        let command = format!("srun -w n0 -n2 --gpus-per-task=1 {flag} bash -c 'exit 7'");
        assert_eq!(bed.run(&command).code, 7, "of `{command}`");
    }
}

fn helper_processes(bed: &Bed) -> usize {
    bed.log("n0").matches("spank prolog").count()
}

fn no_process_is_started_for_a_job_beyond_those_of_slurm(bed: &Bed) {
    bed.tasks(1, "srun -w n0 -n1 $report");
    bed.tasks(1, "srun -w n0 -n1 --nic-placement $report");
    assert_eq!(helper_processes(bed), 0);
}

fn the_log_would_show_such_a_process_if_there_were_one(bed: &Bed) {
    bed.plugstack("");
    bed.tasks(1, "srun -w n0 -n1 $report");
    assert_eq!(helper_processes(bed), 1);
}

fn slurmd_says_once_as_it_starts_that_no_node_file_is_there(bed: &Bed) {
    if Path::new("/run/nic-placement/node.cache").exists() {
        skip("this machine has a node file, which its played nodes see too");
    }
    let told = || {
        bed.log("n0")
            .matches("nic-placement: no node file `/run/nic-placement/node.cache` yet")
            .count()
    };
    bed.plugstack("");
    bed.restart("n0");
    assert_eq!(told(), 0, "without the plugin");
    bed.plugin("");
    bed.restart("n0");
    bed.tasks(
        1,
        "srun -w n0 -n1 --gpus-per-task=1 --nic-placement $report",
    );
    assert_eq!(told(), 1, "{}", bed.log("n0"));
}

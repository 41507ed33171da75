//! Variables and their owners: the user's survive, ours do not outlive their step, and batch scripts get none.

use super::suite::*;

pub const ROWS: &[Case] = rows! {
    salloc_hands_the_option_to_its_sruns: 2 "salloc --quiet -w n0 -n2 --gpus-per-task=1 @ srun $report" => own;
    an_environment_that_is_not_exported_changes_nothing: 2 "--export=NONE -n2 --gpus-per-task=1" => own;
};

pub const CASES: &[Case] = cases![
    the_users_own_variables_survive,
    a_batch_job_hands_the_option_to_its_sruns_and_is_left_alone_itself,
    an_sbatch_line_in_the_script_is_enough,
    an_srun_in_a_batch_job_may_say_something_else,
    an_environment_that_sbatch_does_not_export_changes_nothing,
    a_nested_srun_replaces_what_the_outer_one_set,
    a_nested_srun_without_the_flag_loses_what_the_outer_one_set,
    a_nested_srun_keeps_what_the_user_changed_in_between,
    a_job_that_a_placed_step_submits_does_not_inherit_its_nics:
        |bed| assert_nothing_is_inherited(bed, SUBMIT),
    a_shell_that_a_placed_step_allocates_does_not_inherit_its_nics:
        |bed| assert_nothing_is_inherited(bed, ALLOCATE),
    a_users_own_nic_placement_stays,
    what_a_task_gains_is_the_difference_that_the_documents_show,
];

fn the_users_own_variables_survive(bed: &Bed) {
    let tasks = bed.with("", 2, &format!("UCX_NET_DEVICES=mine:1 {TWO}"));
    let is_so = |task: &Task| task.env("UCX_NET_DEVICES") == Some("mine:1") && task.is_listed();
    all(&tasks, is_so);
    let tasks = bed.with("", 2, &format!("NCCL_IB_HCA=mine {TWO}"));
    let is_so = |task: &Task| task.env("NCCL_IB_HCA") == Some("mine") && task.is_own();
    all(&tasks, is_so);
}

fn a_batch_job_hands_the_option_to_its_sruns_and_is_left_alone_itself(bed: &Bed) {
    let script = "env -u SLURM_PROCID $report | sed s/rank=-/rank=99/\nsrun $report\n";
    let (bare, with) = bed.both("", 3, &bed.batch("@", script));
    assert_own(&with[..2]);
    all(&with[2..], Task::is_as_slurm_has_it);
    assert_eq!(with[2].cpus(), bare[2].cpus());
}

fn an_sbatch_line_in_the_script_is_enough(bed: &Bed) {
    for (word, is_placed) in [("", true), ("=off", false)] {
        let script = format!("#SBATCH --nic-placement{word}\nsrun $report\n");
        let tasks = bed.tasks(2, &bed.batch("", &script));
        all(&tasks, |task| {
            if is_placed {
                task.is_own()
            } else {
                task.is_untouched()
            }
        });
    }
}

fn an_srun_in_a_batch_job_may_say_something_else(bed: &Bed) {
    let job = |of_job, of_step| {
        let script = format!("srun --nic-placement={of_step} $report\n");
        bed.with(of_job, 2, &bed.batch("@", &script))
    };
    all(&job("", "off"), Task::is_untouched);
    all(&job("off", "closest"), Task::is_own);
}

fn an_environment_that_sbatch_does_not_export_changes_nothing(bed: &Bed) {
    // the script has no variable `$report`, so its value is written into the script
    let script = format!("srun {}\n", bed.run("echo $report").stdout.trim());
    let job = bed.batch("--export=NONE @", &script);
    all(&bed.with("", 2, &job), Task::is_own);
}

fn a_nested_srun_replaces_what_the_outer_one_set(bed: &Bed) {
    let inner = format!("$report; {INNER} --nic-placement $report | sed s/rank=0/rank=1/");
    let tasks = bed.with("", 2, &nested(&inner));
    assert_eq!(tasks[0].ucx(), ucx_of_all(0..8));
    let is_so = tasks[1].ucx() == [ucx_of(0)] && tasks[1].is_listed();
    assert!(is_so, "{tasks:?}");
}

fn a_nested_srun_without_the_flag_loses_what_the_outer_one_set(bed: &Bed) {
    let inner = format!(
        "$report; {INNER} --nic-placement=off $report | sed s/rank=0/rank=1/; \
         unset SLURM_NIC_PLACEMENT; unset ${{!SLURM_SPANK_*}} ${{!_SLURM_SPANK_*}}; \
         {INNER} $report | sed s/rank=0/rank=2/"
    );
    let tasks = bed.with("", 3, &nested(&inner));
    assert_eq!(tasks[0].ucx(), ucx_of_all(0..8));
    all(&tasks[1..], Task::is_untouched);
}

fn a_nested_srun_keeps_what_the_user_changed_in_between(bed: &Bed) {
    let inner = format!("export UCX_NET_DEVICES=mine:1; {INNER} --nic-placement $report");
    let tasks = bed.with("", 1, &nested(&inner));
    assert_eq!(tasks[0].env("UCX_NET_DEVICES"), Some("mine:1"));
}

/// In a placed step on n0: `prepare`, then `submit`, by which a program on n1 reports.
fn from_a_placed_step(bed: &Bed, prepare: &str, submit: &str) -> Task {
    let job = "env -u SLURM_PROCID $report | sed s/rank=-/rank=99/";
    bed.file("job", &format!("#!/bin/bash\n{job}\n"));
    // the file outlives the plugin's absence
    let restored = "cp etc/plugstack.conf kept; trap 'cp kept etc/plugstack.conf' EXIT";
    let outer = nested(&format!("{prepare}; {submit}"));
    bed.with("", 1, &format!("chmod +x job; {restored}; {outer}"))
        .remove(0)
}

/// Waits for its end without `--wait`, which looks every two seconds only.
const SUBMIT: &str = "job=$(sbatch --parsable -w n1 -n1 --gres=gpu:1 --output=job.out job) || exit; \
    while [ \"$(squeue -h -j $job)\" ]; do sleep 0.1; done; cat job.out";
const ALLOCATE: &str = "SHELL=$PWD/job salloc --quiet -w n1 -n1 --gres=gpu:1";

fn assert_nothing_is_inherited(bed: &Bed, submit: &str) {
    // without the plugin on n1: all that Slurm hands on
    let leaked = from_a_placed_step(bed, ": > etc/plugstack.conf", submit);
    assert_eq!(leaked.ucx(), ucx_of_all(0..8));
    let job = from_a_placed_step(bed, ":", submit);
    assert!(job.node() == "n1" && job.is_untouched(), "{job:?}");
    let own = from_a_placed_step(bed, "export UCX_NET_DEVICES=mine:1", submit);
    assert_eq!(own.env("UCX_NET_DEVICES"), Some("mine:1"));
    assert!(own.lacks(&["NCCL_IB_HCA", "NIC_PLACEMENT"]), "{own:?}");
    let kept = from_a_placed_step(bed, "export SLURM_NIC_PLACEMENT=dry-run", submit);
    assert_eq!(kept.ucx(), ucx_of_all(0..8));
}

fn a_users_own_nic_placement_stays(bed: &Bed) {
    let command = format!("NIC_PLACEMENT=mine {TWO}");
    let is_mine = |task: &Task| task.env("NIC_PLACEMENT") == Some("mine");
    let ran = bed.ask("verbose", &command).ended(0, 2);
    let ran = ran.says(2, "nothing is published");
    all(&ran.tasks, |task| is_mine(task) && task.is_own());
    all(&bed.with("off", 2, &command), is_mine);
}

/// The whole environment of task 1, and its binding.
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
    let binding = [
        format!("CPUs: {}", task.word("cpus")),
        format!("memory: {}", task.mem()),
    ];
    lines.chain(binding).collect()
}

fn what_a_task_gains_is_the_difference_that_the_documents_show(bed: &Bed) {
    let without = [all_of_task_1(bed, ""), all_of_task_1(bed, "")];
    let with = all_of_task_1(bed, "--nic-placement");
    let name = |line: &str| line.split(['=', ':']).next().map(str::to_string);
    let name = |line: &str| name(line).unwrap_or_default();
    let varying = without[0].symmetric_difference(&without[1]);
    let varies: BTreeSet<String> = varying.map(|line| name(line)).collect();
    let differs = |from: &BTreeSet<String>, to: &BTreeSet<String>, sign: &str| -> String {
        let is_steady = |name: String| !varies.contains(&name) && !name.ends_with("_TIME");
        let lines = from.difference(to).filter(|line| is_steady(name(line)));
        lines.map(|line| format!("{sign}{line}\n")).collect()
    };
    let found = differs(&without[0], &with, "-") + &differs(&with, &without[0], "+");
    let ours = "CPUs memory NCCL_IB_HCA NIC_PLACEMENT NVSHMEM_HCA_LIST UCX_NET_DEVICES \
                UCX_SOCKADDR_TLS_PRIORITY";
    for line in found.lines() {
        let is_so = ours.split(' ').any(|own| own == name(&line[1..]));
        assert!(is_so, "{line}\n{found}");
    }
    // the documents show that of this machine's Slurm; another release deals CPUs otherwise
    if bed.site.root != Path::new("/") {
        return;
    }
    let shown = bed.site.repository.join("tests/slurm/difference.diff");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&shown, &found).expect("the difference");
    }
    let shown = fs::read_to_string(&shown).expect("the difference");
    assert_eq!(shown, found, "`BLESS=1` records it");
}

//! The plugin as Slurm sees it: loaded by a fake Slurm in C, called hook by hook, judged by what it did.

#[path = "host/again.rs"]
mod again;
#[path = "host/binding.rs"]
mod binding;
#[path = "host/conf.rs"]
mod conf;
#[path = "host/deaf.rs"]
mod deaf;
#[path = "host/files.rs"]
mod files;
#[path = "host/harness.rs"]
mod harness;
#[path = "host/hostile.rs"]
mod hostile;
#[path = "host/inherited.rs"]
mod inherited;
#[path = "host/instructions.rs"]
mod instructions;
#[path = "host/map_file.rs"]
mod map_file;
#[path = "host/missing.rs"]
mod missing;
#[path = "host/node.rs"]
mod node;
#[path = "host/node_file.rs"]
mod node_file;
#[path = "host/programs.rs"]
mod programs;
#[path = "host/rollout.rs"]
mod rollout;
#[path = "host/room.rs"]
mod room;
#[path = "host/tasks.rs"]
mod tasks;
#[path = "host/users.rs"]
mod users;
#[path = "host/valgrind.rs"]
mod valgrind;

use harness::played::LogLine;
use harness::{Played, Step, dgx_h100, private_folder, recorded};
use std::fs;

/// The words that the option takes, each of which a message about a bad one must name.
const WORDS: &str =
    "closest numa all off observe help verbose dry-run strict bind= mem= omp= env= no-env=";
/// The arguments that a plugstack.conf line takes.
const ARGUMENTS: &str = "default= rollout= disable conf= topology= sysfs= machine= exclude= include= fabric= set= trust-topology";
/// The variables that a task gets on a DGX H100.
const VARIABLES: [&str; 4] = [
    "UCX_NET_DEVICES",
    "NCCL_IB_HCA",
    "NVSHMEM_HCA_LIST",
    "NIC_PLACEMENT",
];

/// A step on a DGX H100, with these words of `spank_host`'s.
fn dgx(words: &str) -> Step {
    Step::on_dgx_h100().with(words)
}

/// Such a step where the admin's default is to place.
fn on(words: &str) -> Step {
    dgx("--arg default=closest").with(words)
}

/// A process of that context, played.
fn of(context: &str, words: &str) -> Played {
    Step::in_context(context).with(words).play()
}

// ---- loading ----

#[test]
fn every_release_of_slurm_is_told_that_the_plugin_was_built_for_it_and_one_that_is_not_known_nothing()
 {
    // from 22.05 to 26.11
    let known =
        "38 160500 39 170200 40 170b00 41 180500 42 180b00 43 190500 44 190b00 45 1a0500 46 1a0b00";
    let unknown = "0 000000 36 000000 37 000000 47 000000 65535 000000";
    let all: Vec<_> = known.split(' ').chain(unknown.split(' ')).collect();
    for pair in all.chunks(2) {
        let played = of("remote", &format!("--api-version {}", pair[0]));
        let version = format!("plugin_version 0x{}", pair[1]);
        let found = played.events("load");
        assert_eq!(found, ["plugin_name nic_placement", &version]);
    }
}

// ---- the option ----

#[test]
fn srun_sbatch_and_slurmstepd_get_one_option_with_an_optional_argument_and_slurmd_nothing() {
    for context in ["local", "allocator", "remote"] {
        let played = of(context, "");
        let is = |event: &&str| event.starts_with("register ");
        let registered: Vec<_> = played.events("init").into_iter().filter(is).collect();
        let begin = "register nic-placement has_arg 2 arginfo [";
        let is_so = registered.len() == 1 && registered[0].starts_with(begin);
        assert!(is_so, "{played}");
        assert_eq!(played.returned("init"), Some(0), "{played}");
    }
    let played = of("slurmd", "--arg default=closest --arg no-such-argument");
    assert_eq!(played.events("init"), ["returned 0"], "{played}");
    assert_eq!(played.log(), [], "{played}");
}

#[test]
fn a_typo_ends_srun_and_sbatch_with_one_line_that_names_the_word_and_where_all_are_listed() {
    for context in ["local", "allocator"] {
        for (typed, told) in [
            ("closet", ["closet", "--nic-placement=help", ""]),
            ("closest,verbos", ["verbos", "--nic-placement=help", ""]),
            ("bind=gpu", ["gpu", "none", "numa"]),
        ] {
            let played = of(context, &format!("--option {typed}"));
            played.one_error(&told);
            let when: Vec<_> = played.log().into_iter().map(|line| line.when).collect();
            assert_eq!(when, ["option"], "{played}");
            let ended = (played.status, played.returned("option"));
            assert_eq!(ended, (Some(255), Some(-1)), "{played}");
        }
    }
}

#[test]
fn the_same_typo_on_a_node_is_logged_and_what_stands_without_the_option_stands() {
    // by srun's own option, and by the environment that sbatch left
    let left = "--env _SLURM_SPANK_OPTION_nic_placement_nic_placement=closet";
    for words in ["--option closet", left] {
        let played = on(words).eight();
        let of_option = played.log();
        let of_option = of_option.into_iter().filter(|line| line.when == "option");
        assert_eq!(of_option.count(), 1, "{played}");
        assert_eq!(played.returned("option"), Some(0), "{played}");
        played.near().says(&["`closet`"]);
    }
}

#[test]
fn every_known_word_is_taken_without_a_line_in_srun() {
    let taken = "closest;numa;all;off;verbose;dry-run;strict;bind=none;bind=numa;bind=core;mem=strict;omp=on;\
                 closest,verbose,dry-run;numa,strict,bind=none";
    for text in taken.split(';') {
        let played = of("local", &format!("--option {text}"));
        assert_eq!(played.returned("option"), Some(0), "{played}");
        played.quiet();
        // srun shows info lines to every user
        assert_eq!(played.told("info"), [""; 0], "{played}");
    }
}

#[test]
fn the_three_spellings_of_no_argument_and_an_option_that_comes_twice_mean_the_same() {
    let bare = dgx("--option-bare").eight();
    bare.near();
    let twice = dgx("--option closest --option closest");
    let spelled = ["", "(null)"].map(|text| Step::on_dgx_h100().option(text));
    for step in spelled.into_iter().chain([twice]) {
        let played = step.eight();
        for task in 0..8 {
            assert_eq!(played.whole_env(task), bare.whole_env(task), "{played}");
        }
    }
    for text in ["", "(null)"] {
        let played = Step::in_context("local").option(text).play();
        assert_eq!(played.returned("option"), Some(0), "`{text}`");
    }
}

#[test]
fn help_is_printed_by_srun_which_then_ends_and_on_a_node_ends_nothing() {
    let played = of("local", "--option help");
    assert_eq!(played.status, Some(0), "{played}");
    for word in WORDS.split(' ').chain(ARGUMENTS.split(' ')) {
        assert!(played.text.contains(word), "no `{word}`\n{played}");
    }
    assert_eq!(played.log(), [], "{played}");
    // the user asked for the help and not for the job
    assert_eq!(played.events("init_post_opt"), [""; 0], "{played}");
    let help = nic_placement_core::config::options::help();
    assert_eq!(help.lines().find(|line| line.chars().count() > 80), None);
    on("--option help").eight().ok();
}

#[test]
fn words_without_the_equals_sign_are_told_to_be_the_program() {
    let hint = "did you mean `--nic-placement=rail,strict`?";
    for (words, is_told) in [
        ("--nic-placement rail,strict --option-bare", true),
        ("--nic-placement ./train --option-bare", false),
        // `srun ./wrapper --nic-placement rail`
        ("--nic-placement rail", false),
        ("--nic-placement rail --option numa", false),
    ] {
        let played = of("local", words);
        assert_eq!(played.text.contains(hint), is_told, "{played}");
        assert_eq!(played.text.contains("did you mean"), is_told, "{played}");
    }
}

#[test]
fn help_that_cannot_be_printed_ends_srun_all_the_same_and_not_well() {
    for (option, status) in [("help", 1), ("closest", 0)] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = Step::in_context("local")
            .option(option)
            .command(harness::host().unwrap());
        let ended = command.stdout(full.unwrap()).status().unwrap();
        assert_eq!(ended.code(), Some(status), "`{option}`");
    }
}

// it hands no plugin's option to the job, and what ended it would end the edit
#[test]
fn scrontab_is_refused_every_word_and_told_where_it_belongs() {
    let called = |name| Step::in_context("allocator").called(name);
    for name in ["scrontab", "/usr/bin/scrontab"] {
        for words in ["closest", "help", "off", "closet"] {
            let played = called(name).option(words).play();
            let ended = (played.status, played.returned("option"));
            assert_eq!(ended, (Some(255), Some(-1)), "{played}");
            played.one_error(&["srun", "SLURM_NIC_PLACEMENT"]);
            assert_eq!(played.log().len(), 1, "{played}");
            assert!(!played.text.contains("dry-run"), "the help\n{played}");
        }
        called(name).play().ok();
    }
    called("sbatch").option("closest").play().ok();
}

#[test]
fn a_typo_in_the_users_variable_is_told_by_srun_and_the_job_runs() {
    let typo = "--env SLURM_NIC_PLACEMENT=closet";
    for context in ["local", "allocator"] {
        let played = of(context, typo);
        played.ok().one_error(&["SLURM_NIC_PLACEMENT", "`closet`"]);
        assert_eq!(played.log().len(), 1, "{played}");
    }
    on(typo).eight().near();
}

// ---- the admin's default, the user's variable, the option ----

#[test]
fn the_option_beats_the_users_variable_and_that_the_administrators_default() {
    let all = [("closest", true), ("off", false)];
    for (option, by_option) in all {
        let step = dgx(&format!("--arg default={option}"));
        step.eight().is_placed(by_option);
        for (variable, by_variable) in all {
            let other = format!("--arg default={option} --env SLURM_NIC_PLACEMENT={variable}");
            dgx(&other).eight().is_placed(by_variable);
            let words = format!(
                "--env SLURM_NIC_PLACEMENT={variable} --option {variable} --option {option}"
            );
            dgx(&words).eight().is_placed(by_option);
        }
    }
}

#[test]
fn a_step_that_did_not_ask_is_left_alone_and_sees_not_a_line() {
    let played = dgx("").eight();
    played.untouched().quiet();
    assert_eq!(played.told("info"), [""; 0], "{played}");
    // nor is placement talked about that was not asked for
    on("").eight().near().quiet();
}

#[test]
fn the_daemons_own_environment_is_not_the_users() {
    let step = on("");
    step.daemon_env("SLURM_NIC_PLACEMENT", "off").eight().near();
    let step = dgx("").daemon_env("SLURM_NIC_PLACEMENT", "closest");
    step.eight().untouched();
    // nor are its GPUs the task's
    let played = on("").daemon_env("CUDA_VISIBLE_DEVICES", "5").gpu("1");
    played.gets(0, "UCX_NET_DEVICES=mlx5_3:1");
}

//! The plugin as Slurm sees it: loaded by a fake Slurm in C, called hook by hook, judged by what it did.

#[path = "host/harness.rs"]
mod harness;
#[path = "host/node.rs"]
mod node;

use harness::played::LogLine;
use harness::{Played, Step, dgx_h100, private_folder, recorded};
use std::fs;

/// The words that the option takes, each of which a message about a bad one must name.
const WORDS: [&str; 14] = [
    "closest", "numa", "all", "off", "observe", "help", "verbose", "dry-run", "strict", "bind=",
    "mem=", "omp=", "env=", "no-env=",
];
/// The arguments that a plugstack.conf line takes.
const ARGUMENTS: [&str; 12] = [
    "default=",
    "rollout=",
    "disable",
    "conf=",
    "topology=",
    "sysfs=",
    "machine=",
    "exclude=",
    "include=",
    "fabric=",
    "set=",
    "trust-topology",
];
/// What a task gets on a DGX H100.
const VARIABLES: [&str; 4] = [
    "UCX_NET_DEVICES",
    "NCCL_IB_HCA",
    "NVSHMEM_HCA_LIST",
    "NIC_PLACEMENT",
];

/// Plays a step, or leaves the test where there is no C compiler.
macro_rules! play {
    ($step:expr) => {
        match $step.play() {
            Some(played) => played,
            None => return,
        }
    };
}

// below the macro, which is known only from there on
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

fn texts(lines: &[LogLine], level: &str) -> Vec<String> {
    lines
        .iter()
        .filter(|line| line.level == level)
        .map(|line| line.text.clone())
        .collect()
}

fn default_on() -> Step {
    Step::on_dgx_h100().arg("default=closest")
}

// ---- loading ----

#[test]
fn every_release_of_slurm_is_told_that_the_plugin_was_built_for_it() {
    let releases = [
        (38, "0x160500"), // 22.05
        (39, "0x170200"),
        (40, "0x170b00"),
        (41, "0x180500"),
        (42, "0x180b00"),
        (43, "0x190500"),
        (44, "0x190b00"),
        (45, "0x1a0500"),
        (46, "0x1a0b00"), // 26.11
    ];
    for (api, version) in releases {
        let played = play!(Step::in_context("remote").word("--api-version", api.to_string()));
        assert_eq!(
            played.events("load")[1],
            format!("plugin_version {version}"),
            "API {api}\n{played}"
        );
    }
}

#[test]
fn a_slurm_that_is_not_known_is_told_nothing_and_so_refuses_the_plugin() {
    for api in ["0", "36", "37", "47", "65535"] {
        let played = play!(Step::in_context("remote").word("--api-version", api));
        assert_eq!(
            played.events("load")[1],
            "plugin_version 0x000000",
            "API {api}\n{played}"
        );
    }
}

#[test]
fn the_plugin_says_its_name() {
    let played = play!(Step::in_context("remote"));
    assert_eq!(
        played.events("load")[0],
        "plugin_name nic_placement",
        "{played}"
    );
}

// ---- the option ----

#[test]
fn srun_sbatch_and_slurmstepd_get_one_option_with_an_optional_argument() {
    for context in ["local", "allocator", "remote"] {
        let played = play!(Step::in_context(context));
        let events = played.events("init");
        let registered: Vec<_> = events
            .iter()
            .filter(|event| event.starts_with("register "))
            .collect();
        assert_eq!(registered.len(), 1, "{context}\n{played}");
        assert!(
            registered[0].starts_with("register nic-placement has_arg 2 arginfo ["),
            "{context}\n{played}"
        );
        assert_eq!(played.returned("init"), Some(0), "{context}\n{played}");
    }
}

#[test]
fn slurmd_gets_nothing_at_all() {
    let played = play!(
        Step::in_context("slurmd")
            .arg("default=closest")
            .arg("no-such-argument")
    );
    assert_eq!(played.events("init"), ["returned 0"], "{played}");
    assert_eq!(played.log(), [], "{played}");
}

#[test]
fn a_typo_ends_srun_and_sbatch_with_one_line_that_names_the_word_and_where_all_are_listed() {
    for context in ["local", "allocator"] {
        for (typed, bad) in [
            ("closet", "closet"),
            ("closest,verbos", "verbos"),
            ("bind=gpu", "gpu"),
        ] {
            let played = play!(Step::in_context(context).option(typed));
            let log = played.log();
            assert_eq!(log.len(), 1, "nothing else is logged\n{played}");
            assert_eq!(
                (log[0].when.as_str(), log[0].level.as_str()),
                ("option", "error"),
                "{played}"
            );
            assert!(log[0].text.contains(bad), "{played}");
            assert!(!log[0].text.contains('\n'), "{played}");
            let told: &[&str] = if bad == "gpu" {
                &["none", "numa", "core"]
            } else {
                &["--nic-placement=help"]
            };
            for word in told {
                assert!(
                    log[0].text.contains(word),
                    "`{word}` is not named\n{played}"
                );
            }
            assert_eq!(played.returned("option"), Some(-1), "{played}");
            assert_eq!(played.status, Some(255), "{played}");
        }
    }
}

#[test]
fn the_same_typo_on_a_node_is_logged_and_the_job_runs() {
    let played = play!(default_on().option("closet").task_per_gpu());
    let errors: Vec<_> = played
        .log()
        .into_iter()
        .filter(|line| line.when == "option")
        .collect();
    assert_eq!(errors.len(), 1, "{played}");
    assert!(errors[0].text.contains("closet"), "{played}");
    // what stands without the option still stands
    played.assert_nearest_nics();
}

#[test]
fn every_known_word_is_taken_without_a_line_in_srun() {
    let taken = "closest numa all off verbose dry-run strict bind=none bind=numa bind=core mem=strict omp=on closest,verbose,dry-run \
                 numa,strict,bind=none";
    for text in taken.split_whitespace() {
        let played = play!(Step::in_context("local").option(text));
        assert_eq!(played.returned("option"), Some(0), "`{text}`\n{played}");
        assert_eq!(played.shown_to_the_user(), [], "`{text}`\n{played}");
        assert_eq!(
            texts(&played.log(), "info"),
            [""; 0],
            "srun shows info lines to everybody: `{text}`\n{played}"
        );
    }
}

#[test]
fn the_three_spellings_of_no_argument_mean_the_same_and_switch_placement_on() {
    let bare = play!(Step::on_dgx_h100().bare_option().task_per_gpu());
    bare.assert_nearest_nics();
    for spelled in ["", "(null)"] {
        let played = play!(Step::on_dgx_h100().option(spelled).task_per_gpu());
        played.assert_nothing_failed();
        for task in 0..8 {
            assert_eq!(
                played.whole_env(task),
                bare.whole_env(task),
                "`{spelled}`, task {task}"
            );
        }
        assert_eq!(
            play!(Step::in_context("local").option(spelled)).returned("option"),
            Some(0),
            "`{spelled}`"
        );
    }
}

#[test]
fn the_last_of_several_options_counts() {
    let played = play!(
        Step::on_dgx_h100()
            .option("off")
            .option("closest")
            .task_per_gpu()
    );
    played.assert_nearest_nics();
    play!(
        Step::on_dgx_h100()
            .option("closest")
            .option("off")
            .task_per_gpu()
    )
    .assert_untouched();
}

#[test]
fn an_option_that_is_delivered_twice_is_as_one() {
    let once = play!(Step::on_dgx_h100().option("closest,verbose").task_per_gpu());
    let twice = play!(
        Step::on_dgx_h100()
            .option("closest,verbose")
            .option("closest,verbose")
            .task_per_gpu()
    );
    for task in 0..8 {
        assert_eq!(twice.whole_env(task), once.whole_env(task), "task {task}");
    }
}

#[test]
fn help_is_printed_by_srun_which_then_ends() {
    let played = play!(Step::in_context("local").option("help"));
    assert_eq!(played.status, Some(0), "{played}");
    for word in WORDS.iter().chain(&ARGUMENTS) {
        assert!(
            played.to_string().contains(word),
            "`{word}` is not named\n{played}"
        );
    }
    assert_eq!(played.log(), [], "help is no message\n{played}");
    assert_eq!(
        played.events("init_post_opt"),
        [""; 0],
        "the user asked for the help and not for the job\n{played}"
    );
}

#[test]
fn help_keeps_to_the_width_of_a_terminal() {
    let help = nic_placement_core::config::options::help();
    let wide = |line: &&str| line.chars().count() > 80;
    assert_eq!(help.lines().find(wide), None);
}

#[test]
fn words_without_the_equals_sign_are_told_to_be_the_program() {
    let srun = |word: &str| Step::in_context("local").word("--nic-placement", word);
    let played = play!(srun("rail,strict").bare_option());
    let hint = "`rail,strict` is the program: did you mean `--nic-placement=rail,strict`?";
    assert!(played.to_string().contains(hint), "{played}");
    for quiet in [
        srun("./train").bare_option(),
        // `srun ./wrapper --nic-placement rail`
        srun("rail"),
        srun("rail").option("numa"),
    ] {
        let played = play!(quiet);
        assert!(!played.to_string().contains("did you mean"), "{played}");
    }
}

#[test]
fn help_that_cannot_be_printed_ends_srun_all_the_same_and_not_well() {
    let Some(host) = harness::host() else { return };
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it")
    };
    for (option, status) in [("help", Some(1)), ("closest", Some(0))] {
        let mut command = Step::in_context("local").option(option).command(host);
        assert_eq!(
            command.stdout(full()).status().expect("it starts").code(),
            status,
            "`{option}`"
        );
    }
}

#[test]
fn help_on_a_node_ends_nothing() {
    play!(default_on().option("help").task_per_gpu()).assert_nothing_failed();
}

// it hands no plugin's option to the job, and what ended it would end the edit
#[test]
fn scrontab_is_refused_every_word_and_told_where_it_belongs() {
    for name in ["scrontab", "/usr/bin/scrontab"] {
        for words in ["closest", "help", "off", "closet"] {
            let played = play!(Step::in_context("allocator").called(name).option(words));
            assert_eq!(
                (played.status, played.returned("option")),
                (Some(255), Some(-1)),
                "{words}\n{played}"
            );
            let errors = texts(&played.log(), "error");
            assert_eq!(
                (errors.len(), played.log().len()),
                (1, 1),
                "{words}\n{played}"
            );
            assert!(
                errors[0].contains("srun") && errors[0].contains("SLURM_NIC_PLACEMENT"),
                "{played}"
            );
            assert!(
                !played.to_string().contains("dry-run"),
                "the help is printed\n{played}"
            );
        }
        play!(Step::in_context("allocator").called(name)).assert_nothing_failed();
    }
    play!(
        Step::in_context("allocator")
            .called("sbatch")
            .option("closest")
    )
    .assert_nothing_failed();
}

#[test]
fn a_typo_in_the_users_variable_is_told_by_srun_and_the_job_runs() {
    for context in ["local", "allocator"] {
        let played = play!(Step::in_context(context).env("SLURM_NIC_PLACEMENT=closet"));
        played.assert_nothing_failed();
        let errors = texts(&played.log(), "error");
        assert_eq!((errors.len(), played.log().len()), (1, 1), "{played}");
        assert!(
            errors[0].contains("SLURM_NIC_PLACEMENT") && errors[0].contains("`closet`"),
            "{played}"
        );
    }
    let played = play!(
        Step::on_dgx_h100()
            .env("SLURM_NIC_PLACEMENT=closet")
            .arg("default=closest")
            .task_per_gpu()
    );
    played.assert_nearest_nics();
}

// ---- the admin's default, the user's variable, the option ----

#[test]
fn a_step_that_did_not_ask_is_left_alone() {
    play!(Step::on_dgx_h100().task_per_gpu()).assert_untouched();
    play!(Step::on_dgx_h100().arg("default=off").task_per_gpu()).assert_untouched();
}

#[test]
fn a_step_that_did_not_ask_sees_not_a_line() {
    let played = play!(Step::on_dgx_h100().task_per_gpu());
    assert_eq!(played.shown_to_the_user(), [], "{played}");
    assert_eq!(texts(&played.log(), "info"), [""; 0], "{played}");
}

#[test]
fn the_administrators_default_places_a_step_that_did_not_ask() {
    let played = play!(default_on().task_per_gpu());
    played.assert_nearest_nics();
    assert_eq!(
        played.shown_to_the_user(),
        [],
        "placement that nobody asked for is not talked about\n{played}"
    );
}

#[test]
fn the_users_variable_beats_the_administrators_default() {
    let on = Step::on_dgx_h100()
        .arg("default=off")
        .env("SLURM_NIC_PLACEMENT=closest")
        .task_per_gpu();
    play!(on).assert_nearest_nics();
    play!(default_on().env("SLURM_NIC_PLACEMENT=off").task_per_gpu()).assert_untouched();
}

#[test]
fn the_option_beats_the_users_variable() {
    let off = default_on()
        .env("SLURM_NIC_PLACEMENT=closest")
        .option("off")
        .task_per_gpu();
    play!(off).assert_untouched();
    let on = Step::on_dgx_h100()
        .env("SLURM_NIC_PLACEMENT=off")
        .option("closest")
        .task_per_gpu();
    play!(on).assert_nearest_nics();
}

#[test]
fn the_daemons_own_environment_is_not_the_users() {
    let played = play!(
        default_on()
            .daemon_env("SLURM_NIC_PLACEMENT", "off")
            .task_per_gpu()
    );
    played.assert_nearest_nics();
    let played = play!(
        Step::on_dgx_h100()
            .daemon_env("SLURM_NIC_PLACEMENT", "closest")
            .task_per_gpu()
    );
    played.assert_untouched();
    // nor are its GPUs the task's
    let played = play!(
        default_on()
            .daemon_env("CUDA_VISIBLE_DEVICES", "5")
            .task("CUDA_VISIBLE_DEVICES=1")
    );
    assert_eq!(
        played.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_3:1"),
        "{played}"
    );
}

#[test]
fn an_unknown_plugstack_argument_is_one_error_line_and_places_nobody() {
    let played = play!(
        Step::on_dgx_h100()
            .arg("defualt=rail")
            .arg("default=closest")
            .task_per_gpu()
    );
    let errors = texts(&played.log(), "error");
    assert_eq!(errors.len(), 1, "{played}");
    assert!(errors[0].contains("defualt=rail"), "{played}");
    let told = "did you mean `default`? `srun --nic-placement=help` lists all";
    assert!(errors[0].contains(told), "{played}");
    played.assert_untouched();
}

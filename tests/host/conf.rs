//! The admin's configuration file and switch: which steps are placed and told, and which files cannot be used.

use super::files::{is_root, pipe, said};
use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// A place for an admin's files, with this file in it, on the node `gpu7`.
pub(super) fn site(name: &str, conf: impl AsRef<[u8]>) -> PathBuf {
    let tree = private_folder(name);
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::create_dir_all(tree.join("proc/sys/kernel")).unwrap();
    fs::write(tree.join("proc/sys/kernel/hostname"), "gpu7.cluster\n").unwrap();
    fs::write(file(&tree), conf).unwrap();
    fs::set_permissions(file(&tree), fs::Permissions::from_mode(0o644)).unwrap();
    tree
}

fn file(tree: &Path) -> PathBuf {
    tree.join("etc/nic-placement.conf")
}

fn switch(tree: &Path) -> PathBuf {
    tree.join("etc/nic-placement.disabled")
}

pub(super) fn step(tree: &Path) -> Step {
    Step::on_dgx_h100()
        .site(tree)
        .env("SLURM_STEP_GPUS=0,1,2,3,4,5,6,7")
}

/// What srun or a task shows, without its beginning.
pub(super) fn shown(played: &Played) -> Vec<String> {
    played
        .shown_to_the_user()
        .into_iter()
        .map(|line| line.text.replace("nic-placement: ", ""))
        .collect()
}

pub(super) fn errors(played: &Played) -> Vec<String> {
    texts(&played.log(), "error")
}

// ---- the layers ----

#[test]
fn the_file_switches_placement_on_and_beats_plugstack_conf() {
    let tree = site("conf-on", "# all of it\ndefault=closest\n");
    play!(step(&tree).task_per_gpu()).assert_nearest_nics();
    play!(step(&tree).arg("default=off").task_per_gpu()).assert_nearest_nics();
    play!(step(&tree).option("off").task_per_gpu()).assert_untouched();
    play!(step(&tree).env("SLURM_NIC_PLACEMENT=off").task_per_gpu()).assert_untouched();
}

#[test]
fn lines_for_this_node_and_for_the_jobs_partition_are_nearer() {
    let tree = site(
        "conf-layers",
        "default=off\nNodeName=gpu[1-9] default=closest\nPartitionName=debug default=off\n\
         NodeName=gpu8,login1 default=off\n",
    );
    play!(step(&tree).task_per_gpu()).assert_nearest_nics();
    play!(step(&tree).env("SLURM_JOB_PARTITION=train").task_per_gpu()).assert_nearest_nics();
    play!(step(&tree).env("SLURM_JOB_PARTITION=debug").task_per_gpu()).assert_untouched();
    // what a batch script's node was called says nothing of this one
    play!(step(&tree).env("SLURMD_NODENAME=gpu8").task_per_gpu()).assert_nearest_nics();
}

#[test]
fn a_partition_that_a_user_names_makes_root_open_nothing() {
    let nowhere = "/nowhere/topology.json";
    let tree = site(
        "conf-partition",
        format!("default=closest\nPartitionName=p topology={nowhere} set=A_FILE=/etc/passwd\n"),
    );
    play!(step(&tree).env("SLURM_JOB_PARTITION=q").task_per_gpu()).assert_nearest_nics();
    let played = play!(step(&tree).env("SLURM_JOB_PARTITION=p").task_per_gpu());
    played.assert_untouched();
    assert_eq!(errors(&played).len(), 1, "{played}");
    assert!(
        errors(&played)[0].contains("not for a partition"),
        "{played}"
    );
    assert!(
        !played.to_string().contains(nowhere) || errors(&played)[0].contains(nowhere),
        "{played}"
    );
}

#[test]
fn the_file_is_opened_once_for_a_step_and_in_no_task() {
    let tree = site("conf-once", "NodeName=gpu[1-9] default=closest\n");
    let opened = |played: &Played| {
        played
            .to_string()
            .matches("opened /etc/nic-placement.conf")
            .count()
    };
    for (option, context) in [
        (None, "remote"),
        (Some("off"), "remote"),
        (Some("closest"), "local"),
    ] {
        let step = Step::in_context(context)
            .sysfs(dgx_h100())
            .site(&tree)
            .word("--tell-files", "1");
        let step = option
            .into_iter()
            .fold(step, |step, word| step.option(word))
            .task_per_gpu();
        let played = play!(step);
        assert_eq!(opened(&played), 1, "{option:?} in {context}\n{played}");
    }
    let played = play!(
        Step::in_context("local")
            .site(&tree)
            .word("--tell-files", "1")
    );
    assert_eq!(opened(&played), 0, "srun's user asks for nothing\n{played}");
}

// ---- files that are not gone by ----

/// With this file no step is placed, asked or not.  slurmd's log says why in one error line of the step; a user that
/// asked is told in one line by task 0.
macro_rules! refused {
    ($tree:expr, $words:expr) => {
        let (tree, words): (&Path, &[&str]) = (&$tree, &$words);
        for asked in [false, true] {
            let step = step(tree).arg("default=closest").task_per_gpu();
            let played = play!(if asked {
                step.option("closest,strict")
            } else {
                step
            });
            played.assert_untouched();
            let told = errors(&played);
            assert_eq!(told.len(), 1, "{words:?}\n{played}");
            assert!(
                words.iter().all(|word| told[0].contains(word)),
                "{words:?}\n{played}"
            );
            assert!(
                told[0].contains("no step is placed until that is put right"),
                "{played}"
            );
            let of_tasks = played.log().into_iter().filter(|line| line.level == "log");
            let of_tasks: Vec<LogLine> = of_tasks.collect();
            assert_eq!(of_tasks.len(), usize::from(asked), "{played}");
            assert!(
                of_tasks.iter().all(|line| line.when == "task 0"),
                "{played}"
            );
            assert!(
                of_tasks
                    .iter()
                    .all(|line| line.text.contains("runs without placement")),
                "{played}"
            );
        }
    };
}

#[test]
fn a_file_that_is_none_or_has_no_text_places_nobody_and_holds_nobody_up() {
    let tree = site("conf-no-file", "");
    fs::remove_file(file(&tree)).unwrap();
    play!(step(&tree).arg("default=closest").task_per_gpu()).assert_nearest_nics();
    pipe(&file(&tree));
    refused!(
        tree,
        ["/etc/nic-placement.conf` is a named pipe: expected a regular file"]
    );
    fs::remove_file(file(&tree)).unwrap();
    fs::create_dir(file(&tree)).unwrap();
    refused!(tree, ["is a directory: expected a regular file"]);
    refused!(
        site("conf-long", "# a remark\n".repeat(1_000_000)),
        ["is longer than 65536 bytes"]
    );
    refused!(
        site("conf-nul", b"default=closest\n\0\n"),
        ["is no text: line 2"]
    );
    refused!(
        site("conf-binary", [0xff, 0xfe, 0x00, 0x41]),
        ["is no text: line 1"]
    );
    refused!(
        site("conf-many", "set=A=1 ".repeat(4000)),
        ["more than 2048 arguments"]
    );
}

#[test]
fn a_file_of_somebody_else_places_nobody() {
    if !is_root() {
        return;
    }
    let tree = site("conf-owners", "default=closest\n");
    for bad in [0o664, 0o646, 0o666] {
        fs::set_permissions(file(&tree), fs::Permissions::from_mode(bad)).unwrap();
        refused!(tree, ["can be written by others than root: chmod go-w"]);
    }
    fs::set_permissions(file(&tree), fs::Permissions::from_mode(0o644)).unwrap();
    chown(file(&tree), Some(65534), None).unwrap();
    refused!(tree, ["belongs to user 65534, not to root: chown root"]);
    // a link to a user's file is that user's word
    let users = tree.join("users.conf");
    fs::rename(file(&tree), &users).unwrap();
    symlink(&users, file(&tree)).unwrap();
    refused!(tree, ["belongs to user 65534, not to root: chown root"]);
    chown(&users, Some(0), None).unwrap();
    play!(step(&tree).task_per_gpu()).assert_nearest_nics();
}

#[test]
fn a_file_that_conf_promises_and_is_not_there_places_nobody() {
    let tree = site("conf-promised", "");
    let elsewhere = tree.join("elsewhere.conf");
    let named = || {
        step(&tree)
            .arg(&format!("conf={}", elsewhere.display()))
            .arg("default=closest")
    };
    let played = play!(named().task_per_gpu());
    played.assert_untouched();
    assert!(
        errors(&played)[0].contains("elsewhere.conf`: No such file"),
        "{played}"
    );
    fs::write(&elsewhere, "exclude=mlx5_0\n").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o644)).unwrap();
    let played = play!(named().task("CUDA_VISIBLE_DEVICES=0"));
    played.assert_nothing_failed();
    assert_ne!(
        played.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_0:1"),
        "{played}"
    );
    fs::write(tree.join("elsewhere.disabled"), "").unwrap();
    play!(named().task_per_gpu()).assert_untouched();
}

// ---- the switch ----

#[test]
fn the_switch_beats_every_user_and_tells_who_asked_in_one_line() {
    let there = site("conf-switch", "default=closest\n");
    fs::write(switch(&there), "").unwrap();
    let word = site("conf-word", "default=closest\nNodeName=gpu7 disable\n");
    let dangling = site("conf-dangling", "default=closest\n");
    symlink("/nowhere", switch(&dangling)).unwrap();
    for tree in [there, word, dangling] {
        let silent = play!(step(&tree).task_per_gpu());
        silent.assert_untouched();
        assert_eq!(
            (shown(&silent).len(), texts(&silent.log(), "info").len()),
            (0, 0),
            "{silent}"
        );
        for asks in ["closest", "closest,strict,verbose", "dry-run"] {
            let played = play!(step(&tree).option(asks).task_per_gpu());
            played.assert_untouched();
            let told = shown(&played);
            assert_eq!(told.len(), 1, "{asks}\n{played}");
            assert!(
                told[0].starts_with("this step runs without placement: disabled by `"),
                "{played}"
            );
        }
        let by_variable = play!(
            step(&tree)
                .env("SLURM_NIC_PLACEMENT=closest")
                .task_per_gpu()
        );
        assert_eq!(shown(&by_variable).len(), 1, "{by_variable}");
        for says_no in ["off", "observe"] {
            assert_eq!(
                shown(&play!(step(&tree).option(says_no).task_per_gpu())),
                [""; 0]
            );
        }
    }
    let by_plugstack = play!(
        Step::on_dgx_h100()
            .arg("disable")
            .option("closest")
            .task_per_gpu()
    );
    by_plugstack.assert_untouched();
    assert!(
        shown(&by_plugstack)[0].contains("`disable` in plugstack.conf"),
        "{by_plugstack}"
    );
}

#[test]
fn what_is_not_understood_places_nobody_and_one_error_line_names_it() {
    let of = |text: &str| site("conf-odd", format!("default=closest\n{text}"));
    refused!(
        of("exclud=mlx5_0\n"),
        [
            "/etc/nic-placement.conf:2: exclud=mlx5_0`",
            "did you mean `exclude`?"
        ]
    );
    refused!(
        of("Disable\n"),
        ["conf:2: Disable`: unknown argument, did you mean `disable`?"]
    );
    refused!(
        of("NodeName=gpu[ default=all\n"),
        ["/etc/nic-placement.conf:2`", "no `]`"]
    );
    refused!(
        of("NodeName=ALL disable\n"),
        ["conf:2`: `NodeName=ALL` is no node's name"]
    );
    refused!(
        of("NodeName=gpu7 default = off\r\n"),
        ["conf:2: default`: expected `default=WORDS`", "names 2 more"]
    );
    let flood = "exclud=a NodeName=\nNodeName=\n".repeat(1000);
    refused!(
        of(&flood),
        ["conf:2`", "`nic-placement check` names 1999 more"]
    );
    for other in [
        "NodeName=gpu8 exclud=mlx5_0\n",
        "PartitionName=q exclud=mlx5_0\n",
    ] {
        let played = play!(step(&of(other)).task_per_gpu());
        played.assert_nearest_nics();
        assert_eq!(errors(&played), [""; 0], "{played}");
    }
    for argument in [
        "DISABLED",
        "deafult=closest",
        "rollout=10",
        "cache=",
        "set=LD_PRELOAD=/x",
    ] {
        let played = play!(step(&of("")).arg(argument).task_per_gpu());
        played.assert_untouched();
        let told = errors(&played);
        assert!(
            told.len() == 1 && told[0].contains(&format!("`plugstack.conf: {argument}`")),
            "{played}"
        );
    }
    let of_partition = of("PartitionName=p disable\n");
    play!(
        step(&of_partition)
            .env("SLURM_JOB_PARTITION=p")
            .task_per_gpu()
    )
    .assert_untouched();
    play!(step(&of_partition).task_per_gpu()).assert_nearest_nics();
}

#[test]
fn a_byte_order_mark_hides_no_switch() {
    for word in ["disable", "default=off"] {
        let tree = site("conf-mark", format!("\u{feff}{word}\r\n"));
        let played = play!(step(&tree).arg("default=closest").task_per_gpu());
        played.assert_untouched();
        assert_eq!(errors(&played), [""; 0], "{played}");
    }
}

#[test]
fn srun_tells_it_and_then_no_node_repeats_it() {
    let tree = site("conf-srun", "disable\n");
    let srun = |step: Step| step.site(&tree);
    let played = play!(srun(Step::in_context("local").option("closest")));
    assert_eq!(
        shown(&played),
        ["this step runs without placement: disabled by `disable` in `/etc/nic-placement.conf`"]
    );
    assert_eq!(
        (played.status, played.returned("option")),
        (Some(0), Some(0)),
        "the job runs\n{played}"
    );
    assert_eq!(
        played.left("SLURM_NIC_PLACEMENT_TOLD"),
        Some("1"),
        "{played}"
    );
    let on_node = step(&tree)
        .option("closest")
        .env("SLURM_NIC_PLACEMENT_TOLD=1")
        .task_per_gpu();
    let played = play!(on_node);
    assert_eq!(shown(&played), [""; 0], "{played}");
    assert_eq!(
        played.env(0, "SLURM_NIC_PLACEMENT_TOLD"),
        None,
        "no word to programs\n{played}"
    );
    for silent in ["off", "observe"] {
        assert_eq!(
            shown(&play!(srun(Step::in_context("local").option(silent)))),
            [""; 0]
        );
    }
    // an outer srun's word is none of this one's
    let inner = Step::in_context("local")
        .env("SLURM_NIC_PLACEMENT_TOLD=1")
        .option("closest");
    let played = play!(inner);
    assert_eq!(played.left("SLURM_NIC_PLACEMENT_TOLD"), None, "{played}");
}

#[test]
fn what_is_wrong_with_the_file_is_no_matter_of_sruns_user() {
    let tree = site("conf-srun-mistakes", "defualt=closest\nNodeName=[\n");
    for step in [
        Step::in_context("local").option("closest"),
        Step::in_context("local"),
    ] {
        assert_eq!(shown(&play!(step.site(&tree))), [""; 0]);
    }
    fs::write(file(&tree), b"\0").unwrap();
    assert_eq!(
        shown(&play!(
            Step::in_context("local").option("closest").site(&tree)
        )),
        [""; 0]
    );
}

#[test]
fn a_step_inside_a_placed_one_loses_its_values_also_where_all_is_off() {
    let placed = play!(default_on().task("CUDA_VISIBLE_DEVICES=0"));
    let tree = site("conf-nested", "disable\n");
    let inner = placed
        .whole_env(0)
        .iter()
        .fold(step(&tree), |step, variable| step.env(variable));
    let played = play!(inner.task("CUDA_VISIBLE_DEVICES=3"));
    played.assert_nothing_failed();
    for variable in VARIABLES {
        assert!(
            placed.env(0, variable).is_some() && played.env(0, variable).is_none(),
            "{variable}\n{played}"
        );
    }
}

#[test]
fn a_variable_is_switched_off_for_all_and_back_on_by_who_wants_it() {
    let tree = site(
        "conf-variables",
        "default=closest,no-env=NCCL_*+NVSHMEM_HCA_LIST\n",
    );
    let one = |words: Option<&str>| {
        let step = step(&tree).task("CUDA_VISIBLE_DEVICES=0");
        words
            .into_iter()
            .fold(step, |step, words| step.option(words))
    };
    let set = |played: &Played| VARIABLES.map(|name| played.env(0, name).is_some());
    for (words, expected) in [
        (None, [true, false, false, true]),
        (Some("no-env=none"), [true, true, true, true]),
        (
            Some("no-env=none+UCX_NET_DEVICES"),
            [false, true, true, true],
        ),
        (
            Some("no-env=none,env=NCCL_IB_HCA"),
            [false, true, false, true],
        ),
    ] {
        let played = play!(one(words));
        played.assert_nothing_failed();
        assert_eq!(set(&played), expected, "{words:?}\n{played}");
    }
    let marker = play!(one(Some("no-env=NIC_PLACEMENT")));
    assert!(
        said(
            &marker,
            &["`no-env=NIC_PLACEMENT`: by this one nested steps know"]
        ),
        "{marker}"
    );
}

//! The admin's configuration file and switch: which steps are placed and told, and which files cannot be used.

use super::files::{is_root, mode, pipe};
use super::*;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

/// A place for an admin's files, with this file in it, on the node `gpu7`.
pub(super) fn site(name: &str, conf: impl AsRef<[u8]>) -> PathBuf {
    let tree = private_folder(name);
    fs::create_dir_all(tree.join("etc")).unwrap();
    fs::create_dir_all(tree.join("proc/sys/kernel")).unwrap();
    fs::write(tree.join("proc/sys/kernel/hostname"), "gpu7.cluster\n").unwrap();
    fs::write(file(&tree), conf).unwrap();
    mode(&file(&tree), 0o644);
    tree
}

fn file(tree: &Path) -> PathBuf {
    tree.join("etc/nic-placement.conf")
}

pub(super) fn at(tree: &Path, words: &str) -> Step {
    let step = dgx("--env SLURM_STEP_GPUS=0,1,2,3,4,5,6,7");
    step.site(tree).with(words)
}

/// What srun or a task shows, without its beginning.
pub(super) fn shown(played: &Played) -> Vec<String> {
    let lines = played.shown_to_the_user().into_iter();
    lines
        .map(|line| line.text.replace("nic-placement: ", ""))
        .collect()
}

// ---- the layers: core's tests hold their order ----

#[test]
fn the_file_switches_placement_on_by_node_and_partition_and_beats_plugstack_conf() {
    let tree = site("conf-on", "# all of it\ndefault=closest\n");
    let layers = "default=off\nNodeName=gpu[1-9] default=closest\nPartitionName=debug default=off\n\
                  NodeName=gpu8,login1 default=off\n";
    let layers = site("conf-layers", layers);
    for (tree, words, is) in [
        (&tree, "", true),
        (&tree, "--arg default=off", true),
        (&tree, "--option off", false),
        (&tree, "--env SLURM_NIC_PLACEMENT=off", false),
        (&layers, "", true),
        (&layers, "--env SLURM_JOB_PARTITION=train", true),
        (&layers, "--env SLURM_JOB_PARTITION=debug", false),
        // a batch script's node was called so, which says nothing of this one
        (&layers, "--env SLURMD_NODENAME=gpu8", true),
    ] {
        at(tree, words).eight().is_placed(is);
    }
}

#[test]
fn a_partition_that_a_user_names_makes_root_open_nothing() {
    let nowhere = "/nowhere/topology.json";
    let line = format!("PartitionName=p topology={nowhere} set=A_FILE=/etc/passwd");
    let tree = site("conf-partition", format!("default=closest\n{line}\n"));
    at(&tree, "--env SLURM_JOB_PARTITION=q").eight().near();
    let played = at(&tree, "--env SLURM_JOB_PARTITION=p").eight();
    played.untouched().one_error(&["not for a partition"]);
    let named = played.text.matches(nowhere).count();
    let expected = played.told("error")[0].matches(nowhere).count();
    assert_eq!(named, expected, "{played}");
}

#[test]
fn the_file_is_opened_once_for_a_step_and_in_no_task() {
    let tree = site("conf-once", "NodeName=gpu[1-9] default=closest\n");
    let opened = |context: &str, words: &str| {
        let step = Step::in_context(context).site(&tree).with("--tell-files 1");
        let played = step.sysfs(dgx_h100()).with(words).play();
        played
            .text
            .matches("opened /etc/nic-placement.conf")
            .count()
    };
    assert_eq!(opened("remote", "--each 8"), 1);
    assert_eq!(opened("remote", "--option off --each 8"), 1);
    assert_eq!(opened("local", "--option closest"), 1);
    // srun's user asks for nothing
    assert_eq!(opened("local", ""), 0);
}

// ---- files that are not gone by ----

/// With this file no step is placed, asked or not.  slurmd's log says why in one error line of the step; a user that
/// asked is told in one line by task 0.
#[track_caller]
fn refused(tree: &Path, words: &[&str]) {
    for asked in ["", "--option closest,strict"] {
        let played = at(tree, "--arg default=closest").with(asked).eight();
        let why = [words, &["no step is placed until"]].concat();
        played.untouched().one_error(&why);
        let of_tasks = played.log().into_iter().filter(|line| line.level == "log");
        let of_tasks: Vec<LogLine> = of_tasks.collect();
        assert_eq!(of_tasks.len(), usize::from(!asked.is_empty()), "{played}");
        for line in of_tasks {
            let is_so = line.when == "task 0" && line.has(&["runs without placement"]);
            assert!(is_so, "{played}");
        }
    }
}

#[test]
fn a_file_that_is_none_or_has_no_text_places_nobody_and_holds_nobody_up() {
    let tree = site("conf-no-file", "");
    fs::remove_file(file(&tree)).unwrap();
    at(&tree, "--arg default=closest").eight().near();
    pipe(&file(&tree));
    refused(&tree, &["/etc/nic-placement.conf` is a named pipe"]);
    fs::remove_file(file(&tree)).unwrap();
    fs::create_dir(file(&tree)).unwrap();
    refused(&tree, &["is a directory: expected"]);
    let long = "# a remark\n".repeat(1_000_000);
    let many = "set=A=1 ".repeat(4000);
    for (name, text, why) in [
        ("conf-long", long.as_bytes(), "is longer than 65536 bytes"),
        ("conf-nul", b"default=closest\n\0\n", "is no text: line 2"),
        ("conf-binary", b"\xff\xfe\0A", "is no text: line 1"),
        ("conf-many", many.as_bytes(), "more than 2048 arguments"),
    ] {
        refused(&site(name, text), &[why]);
    }
}

#[test]
fn a_file_of_somebody_else_places_nobody() {
    if !is_root() {
        return;
    }
    let tree = site("conf-owners", "default=closest\n");
    for bad in [0o664, 0o646, 0o666] {
        mode(&file(&tree), bad);
        refused(&tree, &["others than root: chmod go-w"]);
    }
    mode(&file(&tree), 0o644);
    let of_user = ["belongs to user 65534", "chown root"];
    chown(file(&tree), Some(65534), None).unwrap();
    refused(&tree, &of_user);
    // a link to a user's file is that user's word
    let users = tree.join("users.conf");
    fs::rename(file(&tree), &users).unwrap();
    symlink(&users, file(&tree)).unwrap();
    refused(&tree, &of_user);
    chown(&users, Some(0), None).unwrap();
    at(&tree, "").eight().near();
}

#[test]
fn a_file_that_conf_promises_and_is_not_there_places_nobody() {
    let tree = site("conf-promised", "");
    let elsewhere = tree.join("elsewhere.conf");
    let named = format!("--arg default=closest --arg conf={}", elsewhere.display());
    let played = at(&tree, &named).eight();
    played.untouched();
    played.says_at("error", &["elsewhere.conf`: No such file"]);
    fs::write(&elsewhere, "exclude=mlx5_0\n").unwrap();
    mode(&elsewhere, 0o644);
    let played = at(&tree, &named).gpu("0");
    let nics = played.ok().env(0, "UCX_NET_DEVICES");
    assert!(nics.is_some_and(|nics| nics != "mlx5_0:1"), "{played}");
    fs::write(tree.join("elsewhere.disabled"), "").unwrap();
    at(&tree, &named).eight().untouched();
}

// ---- the switch ----

#[test]
fn the_switch_beats_every_user_and_tells_who_asked_in_one_line() {
    let there = site("conf-switch", "default=closest\n");
    fs::write(there.join("etc/nic-placement.disabled"), "").unwrap();
    let word = site("conf-word", "default=closest\nNodeName=gpu7 disable\n");
    let dangling = site("conf-dangling", "default=closest\n");
    symlink("/nowhere", dangling.join("etc/nic-placement.disabled")).unwrap();
    for tree in [there, word, dangling] {
        for (words, is_told) in [
            ("", false),
            ("--option off", false),
            ("--option observe", false),
            ("--option closest", true),
            ("--option closest,strict,verbose", true),
            ("--option dry-run", true),
            ("--env SLURM_NIC_PLACEMENT=closest", true),
        ] {
            let played = at(&tree, words).eight();
            assert_eq!(played.untouched().told("info"), [""; 0], "{played}");
            let lines = played.shown_to_the_user();
            let is = |line: &LogLine| line.has(&["without placement: disabled by `"]);
            let found = (lines.len(), lines.iter().all(is));
            assert_eq!(found, (usize::from(is_told), true), "{played}");
        }
    }
    let by_plugstack = dgx("--arg disable --option closest").eight();
    by_plugstack.untouched();
    by_plugstack.shows(&["`disable` in plugstack.conf"]);
}

#[test]
fn what_is_not_understood_places_nobody_and_one_error_line_names_it() {
    let of = |text: &str| site("conf-odd", format!("default=closest\n{text}"));
    let flood = "exclud=a NodeName=\nNodeName=\n".repeat(1000);
    let cases = "exclud=mlx5_0|/etc/nic-placement.conf:2: exclud=mlx5_0`|`exclude`?
        Disable|conf:2: Disable`|did you mean `disable`?
        NodeName=gpu[ default=all|/etc/nic-placement.conf:2`|no `]`
        NodeName=ALL disable|conf:2`|`NodeName=ALL` is no node's name
        NodeName=gpu7 default = off\r|conf:2: default`: expected `default=WORDS`|names 2 more";
    for case in cases.lines() {
        let (text, told) = case.split_once('|').expect("cells");
        let told: Vec<_> = told.split('|').collect();
        refused(&of(&format!("{}\n", text.trim_start())), &told);
    }
    refused(&of(&flood), &["conf:2`", "names 1999 more"]);
    for other in "NodeName=gpu8 exclud=mlx5_0\n|PartitionName=q exclud=mlx5_0\n".split('|') {
        let played = at(&of(other), "").eight();
        assert_eq!(played.near().told("error"), [""; 0], "{played}");
    }
    for argument in "DISABLED deafult=closest rollout=10 cache= set=LD_PRELOAD=/x".split(' ') {
        let named = format!("`plugstack.conf: {argument}`");
        let step = at(&of(""), &format!("--arg {argument}"));
        step.eight().untouched().one_error(&[&named]);
    }
    let played = on("--arg defualt=rail").eight();
    played.untouched().one_error(&[
        "defualt=rail",
        "did you mean `default`?",
        "--nic-placement=help`",
    ]);
    let of_partition = of("PartitionName=p disable\n");
    let step = at(&of_partition, "--env SLURM_JOB_PARTITION=p");
    step.eight().untouched();
    at(&of_partition, "").eight().near();
    // nor does a byte order mark hide a switch
    for word in ["disable", "default=off"] {
        let tree = site("conf-mark", format!("\u{feff}{word}\r\n"));
        let played = at(&tree, "--arg default=closest").eight();
        assert_eq!(played.untouched().told("error"), [""; 0], "{played}");
    }
}

const TOLD: &str = "SLURM_NIC_PLACEMENT_TOLD";

#[test]
fn srun_tells_it_and_then_no_node_repeats_it() {
    let tree = site("conf-srun", "disable\n");
    let srun = |words: &str| Step::in_context("local").with(words);
    let played = srun("--option closest").site(&tree).play();
    let told = "without placement: disabled by `disable` in `/etc/nic-placement.conf`";
    played.shows(&[told]);
    assert_eq!(shown(&played).len(), 1, "{played}");
    let ended = (played.status, played.returned("option"), played.left(TOLD));
    assert_eq!(ended, (Some(0), Some(0), Some("1")), "{played}");
    let on_node = at(&tree, "--option closest --env SLURM_NIC_PLACEMENT_TOLD=1").eight();
    on_node.quiet().lacks(0, &[TOLD]);
    for silent in ["off", "observe"] {
        let step = srun(&format!("--option {silent}"));
        step.site(&tree).play().quiet();
    }
    // an outer srun's word is none of this one's
    let played = srun("--env SLURM_NIC_PLACEMENT_TOLD=1 --option closest").play();
    assert_eq!(played.left(TOLD), None, "{played}");
    // nor is a mistake in the file a matter of srun's user
    for text in ["defualt=closest\nNodeName=[\n", "\0"] {
        let tree = site("conf-srun-mistakes", text);
        for words in ["--option closest", ""] {
            srun(words).site(&tree).play().quiet();
        }
    }
}

#[test]
fn a_step_inside_a_placed_one_loses_its_values_also_where_all_is_off() {
    let placed = on("").gpu("0");
    let has = |name: &str| placed.env(0, name).is_some();
    assert!(VARIABLES.into_iter().all(has), "{placed}");
    let tree = site("conf-nested", "disable\n");
    let step = tasks::nested_in(&placed, 0, at(&tree, ""));
    step.gpu("3").ok().lacks(0, &VARIABLES);
}

#[test]
fn a_variable_is_switched_off_for_all_and_back_on_by_who_wants_it() {
    let conf = "default=closest,no-env=NCCL_*+NVSHMEM_HCA_LIST\n";
    let tree = site("conf-variables", conf);
    let no = |names: &str| format!("--option no-env={names}");
    for (words, expected) in [
        ("", [true, false, false, true]),
        (&no("none"), [true, true, true, true]),
        (&no("none+UCX_NET_DEVICES"), [false, true, true, true]),
        (&no("none,env=NCCL_IB_HCA"), [false, true, false, true]),
    ] {
        let played = at(&tree, words).gpu("0");
        let set = VARIABLES.map(|name| played.ok().env(0, name).is_some());
        assert_eq!(set, expected, "{played}");
    }
    let marker = at(&tree, "--option no-env=NIC_PLACEMENT").gpu("0");
    marker.says(&["`no-env=NIC_PLACEMENT`: by this one"]);
}

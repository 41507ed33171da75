//! The admin's configuration file and switch: which steps are placed, observed and told, and which files are not gone by.

use super::files::{is_root, pipe, said};
use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

/// A place for an admin's files, with this file in it, on the node `gpu7`.
fn site(name: &str, conf: impl AsRef<[u8]>) -> PathBuf {
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

fn step(tree: &Path) -> Step {
    Step::on_dgx_h100().site(tree).env("SLURM_STEP_GPUS=0,1,2,3,4,5,6,7")
}

/// What srun or a task shows, without its beginning.
fn shown(played: &Played) -> Vec<String> {
    played.shown_to_the_user().into_iter().map(|line| line.text.replace("nic-placement: ", "")).collect()
}

fn errors(played: &Played) -> Vec<String> {
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
    let played = play!(step(&tree).env("SLURM_JOB_PARTITION=p").task_per_gpu());
    played.assert_nearest_nics();
    assert_eq!(errors(&played).len(), 2, "{played}");
    assert!(errors(&played).iter().all(|line| line.contains("not for a partition")), "{played}");
    assert_eq!(played.env(0, "A_FILE"), None, "{played}");
}

#[test]
fn a_mistake_is_named_with_its_line_once_and_the_rest_holds() {
    let tree = site("conf-mistakes", "default=closest\nexclud=mlx5_0\nNodeName=gpu[ default=all\n");
    let played = play!(step(&tree).task_per_gpu());
    played.assert_nearest_nics();
    let told = errors(&played);
    assert_eq!(told.len(), 2, "{played}");
    assert!(told[0].contains("/etc/nic-placement.conf:3`") && told[0].contains("no `]`"), "{played}");
    assert!(told[1].contains("/etc/nic-placement.conf:2: exclud=mlx5_0`"), "{played}");
    assert!(told[1].contains("did you mean `exclude`?"), "{played}");
    assert_eq!(shown(&played).len(), 2, "the admin's mistakes are no lines of the tasks\n{played}");
}

#[test]
fn a_file_of_mistakes_does_not_fill_the_log_with_each_step() {
    let tree =
        site("conf-flood", format!("default=closest\n{}", "exclud=a NodeName=\nNodeName=\n".repeat(1000)));
    let played = play!(step(&tree).task_per_gpu());
    played.assert_nearest_nics();
    let told = errors(&played);
    assert_eq!(told.len(), 9, "{played}");
    assert!(told[8].contains("and 1992 more of the admin's mistakes"), "{played}");
}

#[test]
fn the_file_is_opened_once_for_a_step_and_in_no_task() {
    let tree = site("conf-once", "NodeName=gpu[1-9] default=closest\n");
    let opened = |played: &Played| played.to_string().matches("opened /etc/nic-placement.conf").count();
    for (option, context) in [(None, "remote"), (Some("off"), "remote"), (Some("closest"), "local")] {
        let step = Step::in_context(context).sysfs(dgx_h100()).site(&tree).word("--tell-files", "1");
        let step = option.into_iter().fold(step, |step, word| step.option(word)).task_per_gpu();
        let played = play!(step);
        assert_eq!(opened(&played), 1, "{option:?} in {context}\n{played}");
    }
    let played = play!(Step::in_context("local").site(&tree).word("--tell-files", "1"));
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
            let played = play!(if asked { step.option("closest,strict") } else { step });
            played.assert_untouched();
            let told = errors(&played);
            assert_eq!(told.len(), 1, "{words:?}\n{played}");
            assert!(words.iter().all(|word| told[0].contains(word)), "{words:?}\n{played}");
            assert!(told[0].contains("no step is placed until that is put right"), "{played}");
            let of_tasks = played.log().into_iter().filter(|line| line.level == "log");
            let of_tasks: Vec<LogLine> = of_tasks.collect();
            assert_eq!(of_tasks.len(), usize::from(asked), "{played}");
            assert!(of_tasks.iter().all(|line| line.when == "task 0"), "{played}");
            assert!(of_tasks.iter().all(|line| line.text.contains("runs without placement")), "{played}");
        }
    };
}

#[test]
fn a_file_that_is_none_or_has_no_text_places_nobody_and_holds_nobody_up() {
    let tree = site("conf-no-file", "");
    fs::remove_file(file(&tree)).unwrap();
    play!(step(&tree).arg("default=closest").task_per_gpu()).assert_nearest_nics();
    pipe(&file(&tree));
    refused!(tree, ["/etc/nic-placement.conf` is a named pipe: expected a regular file"]);
    fs::remove_file(file(&tree)).unwrap();
    fs::create_dir(file(&tree)).unwrap();
    refused!(tree, ["is a directory: expected a regular file"]);
    refused!(site("conf-long", "# a remark\n".repeat(1_000_000)), ["is longer than 65536 bytes"]);
    refused!(site("conf-nul", b"default=closest\n\0\n"), ["is no text: line 2"]);
    refused!(site("conf-binary", [0xff, 0xfe, 0x00, 0x41]), ["is no text: line 1"]);
    refused!(site("conf-many", "set=A=1 ".repeat(4000)), ["more than 2048 arguments"]);
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
    let named = || step(&tree).arg(&format!("conf={}", elsewhere.display())).arg("default=closest");
    let played = play!(named().task_per_gpu());
    played.assert_untouched();
    assert!(errors(&played)[0].contains("elsewhere.conf`: No such file"), "{played}");
    fs::write(&elsewhere, "exclude=mlx5_0\n").unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o644)).unwrap();
    let played = play!(named().task("CUDA_VISIBLE_DEVICES=0"));
    played.assert_nothing_failed();
    assert_ne!(played.env(0, "UCX_NET_DEVICES").as_deref(), Some("mlx5_0:1"), "{played}");
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
        assert_eq!((shown(&silent).len(), texts(&silent.log(), "info").len()), (0, 0), "{silent}");
        for asks in ["closest", "closest,strict,verbose", "dry-run"] {
            let played = play!(step(&tree).option(asks).task_per_gpu());
            played.assert_untouched();
            let told = shown(&played);
            assert_eq!(told.len(), 1, "{asks}\n{played}");
            assert!(told[0].starts_with("this step runs without placement: disabled by `"), "{played}");
        }
        let by_variable = play!(step(&tree).env("SLURM_NIC_PLACEMENT=closest").task_per_gpu());
        assert_eq!(shown(&by_variable).len(), 1, "{by_variable}");
        for says_no in ["off", "observe"] {
            assert_eq!(shown(&play!(step(&tree).option(says_no).task_per_gpu())), [""; 0]);
        }
    }
    let by_plugstack = play!(Step::on_dgx_h100().arg("disable").option("closest").task_per_gpu());
    by_plugstack.assert_untouched();
    assert!(shown(&by_plugstack)[0].contains("`disable` in plugstack.conf"), "{by_plugstack}");
}

#[test]
fn a_switch_that_is_not_written_as_it_should_be_is_off_and_the_log_says_how() {
    for (asked_too, text, told) in [
        (true, "Disable\n", "conf:2: Disable`: is read as off: write `disable`"),
        (true, "NodeName=ALL disable\n", "conf:2`: `NodeName=ALL` is no node's name"),
        (true, "NodeName=gpu[ enabled = no\n", "for all nodes it is read as off: write `disable`"),
        (false, "NodeName=gpu7 default = off\r\n", "is read as off: write `default=off`"),
        (false, "PartitionName=p disable\n", "conf:2: disable`: is read as off: write `default=off`"),
    ] {
        let tree = site("conf-odd-switch", format!("default=closest\n{text}"));
        let step = || step(&tree).env("SLURM_JOB_PARTITION=p").task_per_gpu();
        let played = play!(step());
        played.assert_untouched();
        assert!(errors(&played)[0].contains(told), "{text}\n{played}");
        let asked = play!(step().option("closest"));
        match asked_too {
            true => asked.assert_untouched(),
            false => asked.assert_nearest_nics(),
        }
    }
    let by_plugstack =
        play!(step(&site("conf-odd-argument", "default=closest\n")).arg("DISABLED").task_per_gpu());
    by_plugstack.assert_untouched();
    assert!(
        errors(&by_plugstack)[0].contains("`plugstack.conf: DISABLED`: is read as off"),
        "{by_plugstack}"
    );
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
    assert_eq!((played.status, played.returned("option")), (Some(0), Some(0)), "the job runs\n{played}");
    assert_eq!(played.left("SLURM_NIC_PLACEMENT_TOLD"), Some("1"), "{played}");
    let on_node = step(&tree).option("closest").env("SLURM_NIC_PLACEMENT_TOLD=1").task_per_gpu();
    let played = play!(on_node);
    assert_eq!(shown(&played), [""; 0], "{played}");
    assert_eq!(played.env(0, "SLURM_NIC_PLACEMENT_TOLD"), None, "no word to programs\n{played}");
    for silent in ["off", "observe"] {
        assert_eq!(shown(&play!(srun(Step::in_context("local").option(silent)))), [""; 0]);
    }
    // an outer srun's word is none of this one's
    let inner = Step::in_context("local").env("SLURM_NIC_PLACEMENT_TOLD=1").option("closest");
    let played = play!(inner);
    assert_eq!(played.left("SLURM_NIC_PLACEMENT_TOLD"), None, "{played}");
}

#[test]
fn what_is_wrong_with_the_file_is_no_matter_of_sruns_user() {
    let tree = site("conf-srun-mistakes", "defualt=closest\nNodeName=[\n");
    for step in [Step::in_context("local").option("closest"), Step::in_context("local")] {
        assert_eq!(shown(&play!(step.site(&tree))), [""; 0]);
    }
    fs::write(file(&tree), b"\0").unwrap();
    assert_eq!(shown(&play!(Step::in_context("local").option("closest").site(&tree))), [""; 0]);
}

#[test]
fn a_step_inside_a_placed_one_loses_its_values_also_where_all_is_off() {
    let placed = play!(default_on().task("CUDA_VISIBLE_DEVICES=0"));
    let tree = site("conf-nested", "disable\n");
    let inner = placed.whole_env(0).iter().fold(step(&tree), |step, variable| step.env(variable));
    let played = play!(inner.task("CUDA_VISIBLE_DEVICES=3"));
    played.assert_nothing_failed();
    for variable in VARIABLES {
        assert!(
            placed.env(0, variable).is_some() && played.env(0, variable).is_none(),
            "{variable}\n{played}"
        );
    }
}

// ---- observe and rollout ----

/// The lines of slurmd's log about a step that is observed.
fn observed(played: &Played) -> Vec<String> {
    texts(&played.log(), "info").into_iter().filter(|line| line.contains("observe: step ")).collect()
}

#[test]
fn an_observed_step_is_one_line_of_the_log_and_nothing_else() {
    let tree = site("conf-observe", "default=observe,rail,strict,verbose\n");
    let played = play!(step(&tree).word("--job-id", "77").word("--step-id", "3").task_per_gpu());
    played.assert_untouched();
    assert_eq!(shown(&played), [""; 0], "{played}");
    let lines = texts(&played.log(), "info");
    assert_eq!((lines.len(), observed(&played).len()), (1, 1), "{played}");
    for words in
        ["step 77.3: 8 tasks: gpu 0 mlx5_0:1 PIX, gpu 1 mlx5_3:1 PIX", "policy `rail`", "left out: mlx5_1 "]
    {
        assert!(lines[0].contains(words), "no `{words}`\n{played}");
    }
    play!(step(&tree).option("closest").task_per_gpu()).assert_nearest_nics();
    let asked = play!(step(&tree).option("observe").task_per_gpu());
    assert_eq!(observed(&asked).len(), 1, "{asked}");
}

#[test]
fn a_step_that_cannot_be_placed_does_not_fail_where_it_is_observed() {
    let nowhere = private_folder("observed").join("not-there");
    let tree = site("conf-observe-nothing", "default=observe,strict\n");
    let step = Step::in_context("remote").site(&tree).arg(&format!("topology={}", nowhere.display()));
    let played = play!(step.task_per_gpu());
    played.assert_untouched();
    assert!(observed(&played)[0].contains("nothing would be set: cannot read"), "{played}");
    assert_eq!(errors(&played), [""; 0], "{played}");
}

#[test]
fn a_share_of_the_jobs_is_placed_the_same_on_all_nodes_and_in_all_steps() {
    let tree = site("conf-rollout", "default=closest rollout=50%\nPartitionName=seen rollout=50%,observe\n");
    // the share by the documented formula
    let is_in = |job: u64| (job * 2_654_435_761 % (1 << 32)) * 100 / (1 << 32) < 50;
    for job in 1..=8u64 {
        for (number, node) in [("0", "0"), ("5", "1")] {
            let of_job = |step: Step| {
                step.word("--job-id", job.to_string()).word("--step-id", number).word("--node-id", node)
            };
            let played = play!(of_job(step(&tree)).task_per_gpu());
            match is_in(job) {
                true => played.assert_nearest_nics(),
                false => played.assert_untouched(),
            }
            let seen = play!(of_job(step(&tree)).env("SLURM_JOB_PARTITION=seen").task_per_gpu());
            assert_eq!(observed(&seen).len(), usize::from(!is_in(job)), "job {job}\n{seen}");
        }
        play!(step(&tree).word("--job-id", job.to_string()).option("closest").task_per_gpu())
            .assert_nearest_nics();
    }
    assert!((1..=8).any(is_in) && !(1..=8).all(is_in));
}

#[test]
fn binding_and_the_variables_of_a_node_and_of_a_task_are_rolled_out_apart() {
    let held = |rollout: &str| {
        let tree = site("conf-parts", format!("default=closest,bind=numa rollout={rollout}\n"));
        let of_gpu_0 = step(&tree).arg("trust-topology").word("--played-cpus", "0-223");
        of_gpu_0.task("CUDA_VISIBLE_DEVICES=0")
    };
    let has = |played: &Played| {
        played.assert_nothing_failed();
        let set = |name: &str| played.env(0, name).is_some();
        let is_bound = played.cpus(0).as_deref() == Some("0-55,112-167");
        assert_eq!(is_bound, played.memory(0).as_deref() == Some("preferred-many nodes 0x1"), "{played}");
        assert_eq!(set("NCCL_IB_HCA"), set("NVSHMEM_HCA_LIST"), "{played}");
        [is_bound, set("NCCL_IB_HCA"), set("UCX_NET_DEVICES")]
    };
    for (rollout, expected) in [
        ("bind:0%,node-env:100%,task-env:0%", [false, true, false]),
        ("node-env:100%,task-env:100%", [false, true, true]),
        ("bind:100%", [true, false, false]),
        ("task-env:100%,observe", [false, false, true]),
        ("bind:100%,node-env:100%,task-env:100%", [true; 3]),
        ("node-env:0%", [false; 3]),
    ] {
        let played = play!(held(rollout));
        assert_eq!(has(&played), expected, "{rollout}\n{played}");
        assert_eq!(has(&play!(held(rollout).option(""))), [true; 3], "who asks has all: {rollout}");
    }
    let words = play!(held("node-env:100%").option("bind=none"));
    assert_eq!(has(&words), [false, true, true], "by the user's word\n{words}");
    for (rollout, parts) in [
        ("node-env:100%,observe", "mlx5_8; bind: NUMA nodes 0-1; task-env: UCX_NET_DEVICES"),
        (
            "0%,observe",
            "; bind: NUMA nodes 0-1; node-env: NCCL_IB_HCA NVSHMEM_HCA_LIST; task-env: UCX_NET_DEVICES",
        ),
    ] {
        let played = play!(held(rollout));
        let lines = observed(&played);
        assert!(lines.len() == 1 && lines[0].ends_with(parts), "{played}");
    }
    for all in ["node-env:100%,task-env:5%", "100%,observe"] {
        assert_eq!(observed(&play!(held(all))), [""; 0], "{all}");
    }
}

#[test]
fn the_components_of_a_job_are_in_a_share_together() {
    let tree = site("conf-het", "default=closest rollout=50%\n");
    // job 2 is in the first half, 3 is not: both are of job 2
    for job in ["2", "3"] {
        let step = step(&tree).word("--job-id", job).env("SLURM_HET_SIZE=2").env("SLURM_JOB_ID=2");
        play!(step.task_per_gpu()).assert_nearest_nics();
    }
    play!(step(&tree).word("--job-id", "3").env("SLURM_JOB_ID=2").task_per_gpu()).assert_untouched();
}

// ---- single variables ----

#[test]
fn a_variable_is_switched_off_for_all_and_back_on_by_who_wants_it() {
    let tree = site("conf-variables", "default=closest,no-env=NCCL_*+NVSHMEM_HCA_LIST\n");
    let one = |words: Option<&str>| {
        let step = step(&tree).task("CUDA_VISIBLE_DEVICES=0");
        words.into_iter().fold(step, |step, words| step.option(words))
    };
    let set = |played: &Played| VARIABLES.map(|name| played.env(0, name).is_some());
    for (words, expected) in [
        (None, [true, false, false, true]),
        (Some("no-env=none"), [true, true, true, true]),
        (Some("no-env=none+UCX_NET_DEVICES"), [false, true, true, true]),
        (Some("no-env=none,env=NCCL_IB_HCA"), [false, true, false, true]),
    ] {
        let played = play!(one(words));
        played.assert_nothing_failed();
        assert_eq!(set(&played), expected, "{words:?}\n{played}");
    }
    let marker = play!(one(Some("no-env=NIC_PLACEMENT")));
    assert!(said(&marker, &["`no-env=NIC_PLACEMENT`: by this one nested steps know"]), "{marker}");
}

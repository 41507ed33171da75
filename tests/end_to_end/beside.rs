//! Beside what others do with a task: a plugin that gives all tasks of a node one environment, as pyxis does; jobs with a /tmp,
//! a mount namespace and a device cgroup of their own, in which the SPANK hooks of user and tasks run (`contain_spank`, from
//! 24.05 on); bundles of the Open Container Initiative (`srun --container`), and a plugin of the kind `runtime/`.

use super::suite::*;
use crate::slurm::plugins::pyxis;
use std::os::unix::fs::symlink;
use std::time::Duration;

pub const CASES: &[Case] = cases![
    behind_pyxis_each_task_keeps_its_own_nic_and_before_it_all_have_the_first_tasks,
    pyxis_behind_us_is_named_in_the_log_and_in_the_verbose_report,
    pyxis_before_us_is_not_talked_about,
];

pub const CONTAINED: &[Case] = cases![
    a_job_in_a_mount_namespace_of_its_own_is_placed_by_the_gpus_that_it_may_open,
    the_step_that_keeps_the_jobs_namespace_is_left_alone,
];

pub const OF_CONTAINERS: &[Case] = cases![
    tasks_in_a_bundle_have_the_variables_of_their_gpus,
    a_runtime_plugin_gets_what_was_set_and_what_it_changes_afterwards_counts,
];

// ---- pyxis ----

const FOUR: &str = "srun -w n0 -n4 --gpus-per-task=1 @ $report";
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
    let own = bed.site.plugstack_line("");
    for (name, line) in [(theirs, pyxis(bed.site)), (ours, own)] {
        fs::write(folder.join(name), line + "\n").expect("a file of plugstack.conf.d");
    }
    bed.plugstack(&format!("include {}/*", folder.display()));
}

fn behind_pyxis_each_task_keeps_its_own_nic_and_before_it_all_have_the_first_tasks(bed: &Bed) {
    for (ours, nics) in [(BEHIND, 4), (BEFORE, 1)] {
        included(bed, ours);
        let (_, placed) = bed.both("", 4, FOUR);
        assert_eq!(nics_of(&placed).len(), nics, "{ours}: {placed:?}");
        all(&placed, |task| ours == BEFORE || task.is_own());
    }
}

fn pyxis_behind_us_is_named_in_the_log_and_in_the_verbose_report(bed: &Bed) {
    included(bed, BEFORE);
    let told = "`spank_pyxis.so` stands after";
    bed.ask("", FOUR).ended(0, 4).says(0, told);
    assert_eq!(bed.logged("n0", told), 1);
    bed.ask("verbose", FOUR).ended(0, 4).says(1, told);
    // the way out
    assert_ne!(bed.logged("n0", BEHIND), 0);
}

fn pyxis_before_us_is_not_talked_about(bed: &Bed) {
    included(bed, BEHIND);
    bed.ask("verbose", FOUR).ended(0, 4).says(0, "stands after");
    assert_eq!(bed.logged("n0", "stands after"), 0);
}

// ---- jobs with a namespace of their own ----

/// Starts `steps` in one job with four tasks and all GPUs.  Returns the steps' tasks, and what the steps printed.
///
/// Now and then Slurm cannot make a job's namespace while it takes down the previous job's, with or without a plugin.  The
/// job is then tried again.
fn in_a_job(bed: &Bed, tasks: usize, steps: &str) -> Ran {
    let failures = || bed.logged("n0", "_create_ns: ");
    let idle =
        "for i in {1..50}; do [ \"$(sinfo -h -n n0 -o %T)\" = idle ] && break; sleep 0.1; done";
    for _ in 0..8 {
        let before = failures();
        let salloc = "salloc --quiet -w n0 -n4 --gres=gpu:8 bash -c";
        let ran = bed.run(&format!("{idle}; {salloc} '{steps}'"));
        if failures() == before {
            return ran.ended(0, tasks);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    skip("Slurm made no namespace (`_create_ns`)")
}

fn a_job_in_a_mount_namespace_of_its_own_is_placed_by_the_gpus_that_it_may_open(bed: &Bed) {
    let step = "srun -n4 --gpus-per-task=1 @ bash -c \"touch /tmp/of-the-job; ls /tmp; $report\"";
    let bare = step.replace('@', "");
    let asked = asked("", step);
    let ran = in_a_job(bed, 8, &format!("{bare} | sed s/rank=/rank=1/; {asked}"));
    let (placed, bare) = ran.tasks.split_at(4);
    all(bare, Task::is_untouched);
    assert_open(bed, placed, 1);
    let mut files = ran.stdout.lines().filter(|line| !line.starts_with("rank="));
    assert!(files.all(|file| file == "of-the-job"), "{}", ran.stdout);
}

fn the_step_that_keeps_the_jobs_namespace_is_left_alone(bed: &Bed) {
    bed.plugin("default=closest");
    let ran = in_a_job(bed, 2, "srun -n2 --gpus-per-task=1 $report");
    assert_open(bed, &ran.tasks, 1);
    assert_ne!(bed.logged("n0", ".extern] "), 0);
    let ours = bed.ours("n0");
    let of = |step| ours.iter().filter(|line| line.contains(step)).count();
    assert!(of(".0] ") > 0 && of(".extern] ") == 0, "{ours:#?}");
}

// ---- containers that Slurm starts by itself ----

/// A bundle whose root is made of this node's own folders; Slurm fills in the program and its environment.
fn bundle(bed: &Bed) -> String {
    let dir = bed.dir.join("bundle");
    let root = dir.join("rootfs");
    for folder in ["usr", "proc", "dev"] {
        fs::create_dir_all(root.join(folder)).expect("a folder of the bundle");
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{link}"), root.join(link)).expect("a link of the bundle");
    }
    let cluster = bed.dir.to_str().expect("text");
    let bind = |place: &str| serde_json::json!({"destination": place, "type": "none", "source": place, "options": ["rbind"]});
    let proc = serde_json::json!({"destination": "/proc", "type": "proc", "source": "proc"});
    let config = serde_json::json!({
        "ociVersion": "1.0.0",
        "root": {"path": "rootfs", "readonly": false},
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["true"], "env": [], "cwd": "/"},
        "mounts": [proc, bind("/usr"), bind("/dev"), bind(cluster)],
        "linux": {"namespaces": [{"type": "mount"}]},
    });
    fs::write(dir.join("config.json"), config.to_string()).expect("the bundle's config.json");
    dir.display().to_string()
}

fn tasks_in_a_bundle_have_the_variables_of_their_gpus(bed: &Bed) {
    let is_there = |folder| bed.site.root.join(folder).join("runc").exists();
    if !is_there("usr/bin") && !is_there("usr/sbin") {
        skip("no `runc`: `tests/slurm/install.sh` installs it");
    }
    // Slurm 22.05 starts one task of a step and node in a bundle
    let step = srun(&format!("-n1 -c4 --gres=gpu:1 --container={}", bundle(bed)));
    let (_, placed) = bed.both("", 1, &while_another_job_has_gpus(3, &step));
    if bed.site.release < (23, 2) {
        // it writes the bundle's environment before it starts the task, which has not even its rank
        let is_so = |task: &Task| task.is_untouched() && task.gpus().is_empty();
        all(&placed, is_so);
        skip("22.05 gives a bundle no environment");
    }
    // none of the other job's
    let free = ucx_of_all(3..8);
    all(&placed, |task| {
        task.ucx().len() == 1 && free.iter().any(|nic| *nic == task.ucx()[0]) && task.is_listed()
    });
}

/// Slurm calls it after our last hook (26.11: src/slurmd/slurmstepd/task.c, `exec_task`).
fn a_runtime_plugin_gets_what_was_set_and_what_it_changes_afterwards_counts(bed: &Bed) {
    let played = bed.site.root.join("usr/lib/slurm/runtime_played.so");
    if !played.exists() {
        skip("no runtime plugin (`tests/slurm/from-source.sh`, 26.11)");
    }
    for (way, nics, keeps_cpus) in [
        ("wrapped", 1, true),
        ("cleared", 0, true),
        ("elsewhere", 1, false),
    ] {
        // a task without an environment has no rank to be told by
        let rank = if nics == 0 {
            "| sed s/rank=-/rank=0/"
        } else {
            ""
        };
        let step =
            format!("srun --runtime=played -w n0 -n1 -c4 --gpus-per-task=1 @ $report {rank}");
        let step = format!("env NICP_RUNTIME={way} {step}");
        let (bare, placed) = bed.both("bind=core", 1, &step);
        let keeps = |task: &Task| task.cpus().len() < 224;
        each(&bare, &placed, |bare, task| {
            task.ucx().len() == nics && [keeps(bare), keeps(task)] == [keeps_cpus; 2]
        });
    }
}

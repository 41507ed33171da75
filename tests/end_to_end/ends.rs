//! Ends that come from outside: a step's daemon that is killed, memory that runs out, a library and a node file that are replaced.

use super::faults::*;
use super::suite::*;
use nic_placement_core::topology::Provenance;
use nic_placement_formats::node_file;
use nic_placement_node::cache::{self, NodeFile};

pub const CASES: &[Case] = cases![
    a_step_daemon_that_is_killed_in_a_hook_or_later_ends_as_without_the_plugin,
    a_library_that_is_replaced_by_rename_harms_no_launch,
    a_node_file_that_is_broken_replaced_or_of_another_time_harms_no_job,
];

pub const WITH_LITTLE_MEMORY: &[Case] = cases![
    a_program_that_takes_too_much_memory_ends_as_without_the_plugin,
    a_hook_that_takes_the_jobs_memory_ends_its_task_and_nothing_else,
];

// ---- SIGKILL ----

/// Starts a step that waits; kills the process that serves it as soon as `ready` holds; cancels the job, and prints srun's
/// status.  srun waits for minutes for a daemon that was killed, with the plugin or without.
fn killed(ready: &str) -> String {
    format!(
        "rm -f begun daemon; srun -w n0 -n1 --gres=gpu:1 @ bash -c 'echo $$ > begun; exec sleep 50' & srun=$!
         until {ready}; do sleep 0.05; done
         kill -9 $(cat daemon); if [ -e begun ]; then kill -9 $(cat begun); fi
         scancel $(squeue -h -o %A); wait $srun; echo ended with $?
         for i in {{1..300}}; do [ -z \"$(squeue -h)\" ] && exit; sleep 0.1; done; exit 92"
    )
}

fn a_step_daemon_that_is_killed_in_a_hook_or_later_ends_as_without_the_plugin(bed: &Bed) {
    let folder = bed.machine("n0").join("../..");
    let script = format!("#!/bin/sh\necho $PPID > {}/daemon\n", folder.display());
    let note = bed.file("note", &script);
    bed.run(&format!("chmod +x {note}")).ended(0, 0);
    let noted = between(bed.site, &format!("init_post_opt=run:{note}"));
    let sleeping = format!("{noted} init_post_opt=sleep:1500");
    let in_ours = bed.site.failing("sleep=init_post_opt");
    let ours = bed.site.plugstack_line("");
    // the hook that sleeps is another plugin's where ours is not
    for (when, without, ours, ready) in [
        ("a running step", &noted, &ours, "[ -s begun ]"),
        ("a step in a hook", &sleeping, &in_ours, "[ -s daemon ]"),
    ] {
        let bare = without_plugin(bed, without, &killed(ready)).ended(0, 0);
        let ran = with_plugin(bed, &format!("{noted}\n@"), ours, &killed(ready));
        assert_same(when, &bare, &ran);
        // before its tasks are there srun tells the KILL of their daemon or the TERM of scancel, whichever it hears of first:
        // without the plugin the KILL in 1 of 16 runs on 26.05; on 22.05 in 1 of 120 with it, on a busy machine
        let [before, after] = [bare, ran].map(|ran| match when {
            "a step in a hook" => ran.stdout.replace("with 143", "with 137"),
            _ => ran.stdout,
        });
        assert_eq!(after, before, "{when}");
        assert_the_node_becomes_idle(bed);
        bed.plugin("");
        all(&bed.with("", 2, TWO), Task::is_own);
    }
}

// ---- the library ----

fn a_library_that_is_replaced_by_rename_harms_no_launch(bed: &Bed) {
    let [file, next] = ["plugin.so", "next.so"].map(|name| bed.dir.join(name));
    let install = || {
        fs::copy(&bed.site.plugin, &next).expect("a copy");
        fs::rename(&next, &file).expect("its place");
    };
    install();
    let ours = format!("optional {}", file.display());
    // two launches at a time, and the library is another file at each
    let command = "for i in 1 2 3 4 5; do
        srun -w n0 -n1 --gpus-per-task=1 @ $report & srun -w n1 -n1 --gpus-per-task=1 @ $report | sed s/rank=0/rank=$i/ & wait; done";
    let bare = without_plugin(bed, "", command);
    let ran = beside(install, || with_plugin(bed, "@", &ours, command));
    assert_same("a replaced library", &bare, &ran);
    all(&ran.tasks, Task::is_own);
}

// ---- the node file ----

/// A node file of n0, as `nic-placement refresh` writes it there.
fn refreshed(bed: &Bed) -> PathBuf {
    let file = bed.machine("n0").join("node.json");
    let mut refresh = Command::new("nsenter");
    refresh.args(["--target", &bed.slurmd("n0"), "--mount", "--", &bed.tool()]);
    let ran = refresh
        .args(["refresh", "--output"])
        .arg(&file)
        .output()
        .expect("`nsenter`");
    let is_so = ran.status.success();
    assert!(is_so, "{}", String::from_utf8_lossy(&ran.stderr));
    file
}

fn write(file: &Path, text: &[u8]) {
    let next = file.with_extension("next");
    let written = fs::write(&next, text).and_then(|()| fs::rename(&next, file));
    written.expect("a node file");
}

fn a_node_file_that_is_broken_replaced_or_of_another_time_harms_no_job(bed: &Bed) {
    if bed.site.root != Path::new("/") {
        skip("our tool runs in no other root");
    }
    let file = refreshed(bed);
    let good = fs::read(&file).expect("it was written");
    let arguments = format!("node-file={}", file.display());
    let (ran, lines) = under(bed, "a good node file", "@", &arguments);
    all(&ran.tasks, Task::is_own);
    let is_so = !lines.iter().any(|line| line.contains("node file"));
    assert!(is_so, "{lines:#?}");

    let node = cache::from_bytes(&good, Provenance::ThisSystem).expect("a node file");
    let changed = |change: &dyn Fn(&mut NodeFile)| {
        let mut node = node.clone();
        change(&mut node);
        node_file::to_bytes(&node)
    };
    let other_boot =
        changed(&|node| node.stamp.boot_id = "00000000-0000-4000-8000-000000000000".into());
    let later = changed(&|node| node.stamp.boottime = 4_000_000_000);
    let devices = changed(&|node| {
        let entries = node.registered.values_mut();
        entries.for_each(|entries| *entries = entries.replace("mlx5_3", "mlx5_33"));
    });
    for (fault, text, why) in [
        ("truncated", &good[..good.len() / 2], "it is damaged"),
        ("empty", &b""[..], "it is no node file"),
        (
            "of another boot",
            &other_boot,
            "before this system was started",
        ),
        ("after the clock", &later, "s from now"),
        ("of other devices", &devices, "mlx5_3"),
    ] {
        write(&file, text);
        let (ran, lines) = under(bed, fault, "@", &arguments);
        all(&ran.tasks, Task::is_own);
        assert_one_line(&lines, &[why, "the node is read instead"]);
    }

    let before = loud(bed).len();
    let replace = || {
        write(&file, &good);
        write(&file, &good[..good.len() / 3]);
    };
    beside(replace, || {
        for _ in 0..6 {
            bed.plugin(&arguments);
            all(&bed.ask("", STEP).ended(3, 2).tasks, Task::is_own);
        }
    });
    let told = loud(bed).len() - before;
    assert!(told <= 12, "{told} lines of six steps");
    fs::remove_file(&file).expect("it is there");
}

// ---- memory ----

/// A step of one task with 40 MB.
const SMALL: &str = "srun -w n0 -n1 --mem=40 --gpus-per-task=1 @";

/// With constrained devices each task counts its one GPU from 0.
fn has_a_nic(ran: &Ran) -> bool {
    ran.tasks.len() == 1 && ran.tasks[0].ucx().len() == 1
}

fn a_program_that_takes_too_much_memory_ends_as_without_the_plugin(bed: &Bed) {
    let ours = bed.site.plugstack_line("");
    let both = |fault: &str, program: &str| {
        let command = format!("{SMALL} bash -c '{program}'");
        let bare = without_plugin(bed, "", &command);
        let ran = with_plugin(bed, "@", &ours, &command);
        assert_same(fault, &bare, &ran);
        (bare, ran)
    };
    let (_, ran) = both("a program that fits", "$report; exit 3");
    assert!(ran.code == 3 && has_a_nic(&ran), "{:?}", ran.tasks);
    let (bare, _) = both("too much", "printf -v much %200000000s; echo ${#much}");
    // the kernel was to end it
    assert!(bare.code != 0 && bare.stdout.is_empty(), "{}", bare.stdout);
    assert_the_node_becomes_idle(bed);
}

fn a_hook_that_takes_the_jobs_memory_ends_its_task_and_nothing_else(bed: &Bed) {
    let step = format!("{SMALL} $report");
    // the step's process makes its plan before Slurm counts its memory as the job's
    for (hook, survives) in [("init_post_opt", true), ("task_init", false)] {
        let hungry = bed.site.failing(&format!("hunger={hook}"));
        let ran = with_plugin(bed, "@", &hungry, &step);
        println!("    memory in {hook}: {}, {:?}", ran.code, ran.took);
        let said = format!("`hunger` in `{hook}`");
        assert!(loud(bed).iter().any(|line| line.contains(&said)));
        let found = (ran.code == 0, has_a_nic(&ran));
        assert_eq!(found, (survives, survives), "{}", ran.stderr);
        assert_the_node_becomes_idle(bed);
        bed.plugin("");
        assert!(has_a_nic(&bed.ask("", &step)));
    }
}

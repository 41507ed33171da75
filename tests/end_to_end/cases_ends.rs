//! Ends that come from outside: a step's daemon that is killed, memory that runs out, a library and a node file that are replaced.

use crate::cases_failure::assert_the_node_becomes_idle;
use crate::faults::{STEP, assert_one_line, assert_same, loud, under, with_plugin, without_plugin};
use crate::harness::{Bed, Case, Ran, cases};
use crate::machines::ucx_of;
use crate::plugins::between;
use crate::report::Task;
use nic_placement_core::topology::Provenance;
use nic_placement_formats::node_file;
use nic_placement_node::cache::{self, NodeFile};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub const CASES: &[Case] = cases![
    a_step_daemon_that_is_killed_in_a_hook_or_later_ends_as_without_the_plugin,
    a_library_that_is_replaced_by_rename_harms_no_launch,
    a_node_file_that_is_broken_replaced_or_of_another_time_harms_no_job,
];

pub const CASES_WITH_LITTLE_MEMORY: &[Case] = cases![
    a_program_that_takes_too_much_memory_ends_as_without_the_plugin,
    a_hook_that_takes_the_jobs_memory_ends_its_task_and_nothing_else,
];

fn is_placed(tasks: &[Task]) -> bool {
    tasks
        .iter()
        .all(|task| task.ucx() == [ucx_of(task.gpus()[0])])
}

// ---- SIGKILL ----

/// Starts a step that waits; kills the process that serves it as soon as `ready` holds; cancels the job, and prints what
/// srun ended with.  srun waits for minutes for a daemon that was killed, with the plugin or without.
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
    let library = bed.site.panicking_plugin();
    let folder = bed.machine("n0").join("../..");
    let note = bed.file(
        "note",
        &format!("#!/bin/sh\necho $PPID > {}/daemon\n", folder.display()),
    );
    assert_eq!(bed.run(&format!("chmod +x {}", note.display())).code, 0);
    let noted = between(bed.site, &format!("init_post_opt=run:{}", note.display()));
    let sleeping = format!("{noted} init_post_opt=sleep:1500");
    let in_ours = format!("optional {} sleep=init_post_opt", library.display());
    let ours = bed.site.plugstack_line("");
    // the hook that sleeps is another plugin's where ours is not
    for (when, without, ours, ready) in [
        ("a running step", &noted, &ours, "[ -s begun ]"),
        ("a step in a hook", &sleeping, &in_ours, "[ -s daemon ]"),
    ] {
        let bare = without_plugin(bed, without, &killed(ready));
        let ran = with_plugin(bed, &format!("{noted}\n@"), ours, &killed(ready));
        assert_same(when, &bare, &ran);
        assert_eq!(bare.code, 0, "{when}: {}", bare.stderr);
        // before its tasks are there srun tells the KILL of their daemon or the TERM of scancel, whichever it hears of first:
        // without the plugin the KILL in 1 of 16 runs on 26.05; on 22.05 in 1 of 120 with it, on a busy machine
        let by_signal = |ran: &Ran| match when {
            "a step in a hook" => ran.stdout.replace("with 143", "with 137"),
            _ => ran.stdout.clone(),
        };
        assert_eq!(
            by_signal(&ran),
            by_signal(&bare),
            "{when}: what srun ends with"
        );
        assert_the_node_becomes_idle(bed);
        bed.plugin("");
        let next = bed.tasks(
            2,
            "srun -w n0 -n2 --gpus-per-task=1 --nic-placement $report",
        );
        assert!(is_placed(&next), "{when}: the next step");
    }
}

// ---- the library ----

fn a_library_that_is_replaced_by_rename_harms_no_launch(bed: &Bed) {
    let (file, next) = (bed.file("plugin.so", ""), bed.file("next.so", ""));
    let install = || {
        fs::copy(&bed.site.plugin, &next).expect("a copy");
        fs::rename(&next, &file).expect("it takes the place of the other");
    };
    install();
    let ours = format!("optional {}", file.display());
    // two launches at a time, and the library is another file at each
    let command = "for i in 1 2 3 4 5; do
        srun -w n0 -n1 --gpus-per-task=1 @ $report & srun -w n1 -n1 --gpus-per-task=1 @ $report | sed s/rank=0/rank=$i/ & wait; done";
    let bare = without_plugin(bed, "", command);
    let ended = AtomicBool::new(false);
    let ran = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                install();
            }
        });
        let ran = with_plugin(bed, "@", &ours, command);
        ended.store(true, Ordering::Relaxed);
        ran
    });
    assert_same("a library that is replaced all the time", &bare, &ran);
    assert!(is_placed(&ran.tasks), "{:?}", ran.tasks);
}

// ---- the node file ----

/// A node file of n0, as `nic-placement refresh` writes it there.
fn node_file(bed: &Bed) -> PathBuf {
    let file = bed.machine("n0").join("node.json");
    let tool = bed.site.plugin.with_file_name("nic-placement");
    let refreshed = Command::new("nsenter")
        .args(["--target", &bed.slurmd("n0"), "--mount", "--"])
        .arg(tool)
        .args(["refresh", "--output"])
        .arg(&file)
        .output()
        .expect("`nsenter`");
    assert!(
        refreshed.status.success(),
        "{}",
        String::from_utf8_lossy(&refreshed.stderr)
    );
    file
}

fn write(file: &Path, text: &[u8]) {
    let next = file.with_extension("next");
    fs::write(&next, text)
        .and_then(|()| fs::rename(&next, file))
        .expect("a node file");
}

fn a_node_file_that_is_broken_replaced_or_of_another_time_harms_no_job(bed: &Bed) {
    if bed.site.root != Path::new("/") {
        crate::harness::skip(
            "the tool of this machine does not run in another distribution's root",
        );
    }
    let file = node_file(bed);
    let good = fs::read(&file).expect("it was written");
    let arguments = format!("node-file={}", file.display());
    let (ran, lines) = under(bed, "a good node file", "@", &arguments);
    assert!(
        is_placed(&ran.tasks) && !lines.iter().any(|line| line.contains("node file")),
        "{lines:#?}"
    );

    let node = cache::from_bytes(&good, Provenance::ThisSystem).expect("a node file");
    let changed = |change: &dyn Fn(&mut NodeFile)| {
        let mut node = node.clone();
        change(&mut node);
        node_file::to_bytes(&node)
    };
    let other_boot =
        changed(&|node| node.stamp.boot_id = "00000000-0000-4000-8000-000000000000".to_string());
    let later = changed(&|node| node.stamp.boottime = 4_000_000_000);
    let devices = changed(&|node| {
        node.registered
            .values_mut()
            .for_each(|entries| *entries = entries.replace("mlx5_3", "mlx5_33"));
    });
    for (fault, text, why) in [
        (
            "a truncated node file",
            &good[..good.len() / 2],
            "it is damaged",
        ),
        ("an empty node file", &b""[..], "it is no node file"),
        (
            "a node file of another boot",
            &other_boot,
            "before this system was started",
        ),
        ("a clock that was set back", &later, "s from now"),
        ("a node file of other devices", &devices, "mlx5_3"),
    ] {
        write(&file, text);
        let (ran, lines) = under(bed, fault, "@", &arguments);
        assert!(is_placed(&ran.tasks), "{fault}: the node is read instead");
        assert_one_line(fault, &lines, &[why, "the node is read instead"]);
    }

    let ended = AtomicBool::new(false);
    let before = loud(bed).len();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                write(&file, &good);
                write(&file, &good[..good.len() / 3]);
            }
        });
        for _ in 0..6 {
            bed.plugin(&arguments);
            let ran = bed.run(&STEP.replace('@', "--nic-placement"));
            assert_eq!((ran.code, ran.tasks.len()), (3, 2), "{}", ran.stderr);
            assert!(is_placed(&ran.tasks), "{:?}", ran.tasks);
        }
        ended.store(true, Ordering::Relaxed);
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
    ran.tasks.len() == 1 && ran.tasks.iter().all(|task| task.ucx().len() == 1)
}

fn a_program_that_takes_too_much_memory_ends_as_without_the_plugin(bed: &Bed) {
    let ours = bed.site.plugstack_line("");
    let both = |command: &str| {
        (
            without_plugin(bed, "", command),
            with_plugin(bed, "@", &ours, command),
        )
    };
    let (bare, ran) = both(&format!("{SMALL} bash -c '$report; exit 3'"));
    assert_same("a program that fits", &bare, &ran);
    assert!(ran.code == 3 && has_a_nic(&ran), "{:?}", ran.tasks);
    let (bare, ran) = both(&format!(
        "{SMALL} bash -c 'printf -v much %200000000s; echo ${{#much}}'"
    ));
    assert_same("a program that takes too much", &bare, &ran);
    assert!(
        bare.code != 0 && bare.stdout.is_empty(),
        "the kernel was to end it: {}",
        bare.stdout
    );
    assert_the_node_becomes_idle(bed);
}

fn a_hook_that_takes_the_jobs_memory_ends_its_task_and_nothing_else(bed: &Bed) {
    let library = bed.site.panicking_plugin();
    let step = format!("{SMALL} $report");
    // the step's process makes its plan before Slurm counts its memory as the job's
    for (hook, survives) in [("init_post_opt", true), ("task_init", false)] {
        let ran = with_plugin(
            bed,
            "@",
            &format!("optional {} hunger={hook}", library.display()),
            &step,
        );
        println!(
            "    memory in {hook}: exit code {}, {:.2} s",
            ran.code,
            ran.took.as_secs_f64()
        );
        assert!(
            loud(bed)
                .iter()
                .any(|line| line.contains(&format!("`hunger` in `{hook}`")))
        );
        assert_eq!(
            (ran.code == 0, has_a_nic(&ran)),
            (survives, survives),
            "{hook}: {}",
            ran.stderr
        );
        assert_the_node_becomes_idle(bed);
        bed.plugin("");
        assert!(
            has_a_nic(&bed.run(&step.replace('@', "--nic-placement"))),
            "the next step"
        );
    }
}

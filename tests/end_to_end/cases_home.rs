//! Homes on file systems that answer late or never, and environments that leave execve(2) no room: the step runs as without us.

use crate::cases_failure::assert_the_node_becomes_idle;
use crate::faults::assert_same;
use crate::harness::{Bed, Case, cases, skip};
use crate::machines::{nccl_list, ucx_of};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub const CASES: &[Case] = cases![
    a_home_on_fuse_that_never_answers_holds_up_no_step_that_asked_for_nothing,
    a_home_of_another_machine_that_never_answers_costs_a_second_and_leaves_no_process,
    a_home_that_is_mounted_when_a_task_looks_for_it_first_costs_no_placement,
    a_step_that_execve_only_just_takes_is_taken_with_the_plugin,
];

/// A file system of tests/slurm/deaf.c as n0 sees it, gone when this is dropped.
struct Deaf {
    daemon: Child,
    place: PathBuf,
    log: PathBuf,
}

impl Deaf {
    fn mounted(bed: &Bed, kind: &str, words: &[&str]) -> Deaf {
        let (program, place) = (
            bed.site.dir.join("deaf"),
            bed.file("deaf-is-here", "").with_file_name("deaf-place"),
        );
        let source = bed.site.repository.join("tests/slurm/deaf.c");
        let compiled = Command::new("cc")
            .arg("-o")
            .arg(&program)
            .arg(source)
            .status();
        assert!(
            compiled.is_ok_and(|status| status.success()),
            "`cc` of deaf.c"
        );
        fs::create_dir_all(&place).expect("the cluster's folder is ours");
        let log = bed.file("deaf-log", "");
        let mut daemon = Command::new(program);
        daemon
            .env("IN", bed.slurmd("n0"))
            .arg(kind)
            .args([&place, &log])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut daemon = daemon.spawn().expect("it was compiled");
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().expect("a pipe"))
            .read_line(&mut line)
            .expect("a pipe");
        let deaf = Deaf { daemon, place, log };
        if line != "mounted\n" {
            skip(format!("no `{kind}` can be mounted here"));
        }
        deaf
    }

    fn asked(&self) -> usize {
        fs::read_to_string(&self.log)
            .expect("its log")
            .lines()
            .count()
    }

    /// A step of two tasks with its home there, which ends with 3; a shell that runs a command reads nothing at home.
    fn step(&self, flag: &str) -> String {
        let home = self.place.join("alice");
        format!(
            "HOME={} srun -w n0 -n2 --gpus-per-task=1 {flag} bash -c '$report; exit 3'",
            home.display()
        )
    }

    /// Processes on this machine that have their home there.
    fn left(&self) -> Vec<String> {
        let home = format!("HOME={}/alice", self.place.display());
        let has = |process: &fs::DirEntry| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == home.as_bytes())
        };
        let all = fs::read_dir("/proc").expect("/proc").flatten().filter(has);
        all.map(|process| fs::read_to_string(process.path().join("stat")).unwrap_or_default())
            .collect()
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        drop(self.daemon.stdin.take());
        let _ = self.daemon.wait();
    }
}

/// Steps without the plugin, and with it where the user asked for nothing and where they want to read what is done.  Returns
/// what the last one said.
fn as_without(bed: &Bed, deaf: &Deaf, fault: &str, seconds: f64) -> String {
    bed.plugstack("");
    let bare = bed.run(&deaf.step(""));
    assert_eq!(
        (bare.code, bare.tasks.len(), deaf.asked()),
        (3, 2, 0),
        "{fault}, without the plugin: {}",
        bare.stderr
    );
    bed.plugin("default=closest");
    let mut said = String::new();
    for flag in ["", "--nic-placement=closest,verbose"] {
        let ran = bed.run(&deaf.step(flag));
        assert_same(fault, &bare, &ran);
        let more = ran.took.as_secs_f64() - bare.took.as_secs_f64();
        assert!(more < seconds, "{fault}: {more} s more");
        for task in &ran.tasks {
            assert_eq!(
                (task.env("NCCL_IB_HCA"), task.env("UCX_NET_DEVICES")),
                (None, None),
                "{task:?}"
            );
        }
        assert_the_node_becomes_idle(bed);
        assert_eq!(deaf.left(), [""; 0], "{fault}");
        said = ran.stderr;
    }
    said
}

fn a_home_on_fuse_that_never_answers_holds_up_no_step_that_asked_for_nothing(bed: &Bed) {
    let deaf = Deaf::mounted(bed, "fuse", &[]);
    let said = as_without(bed, &deaf, "a daemon of FUSE that sleeps", 5.0);
    assert!(
        said.contains("may set it: it is on a FUSE file system"),
        "{said}"
    );
    assert_eq!(deaf.asked(), 0, "nobody waits for what nobody asked");
}

fn a_home_of_another_machine_that_never_answers_costs_a_second_and_leaves_no_process(bed: &Bed) {
    let deaf = Deaf::mounted(bed, "autofs", &[]);
    let said = as_without(bed, &deaf, "a home that is never mounted", 8.0);
    assert!(
        said.contains("may set it: its file system did not answer within a second"),
        "{said}"
    );
    assert_ne!(deaf.asked(), 0);
}

fn a_home_that_is_mounted_when_a_task_looks_for_it_first_costs_no_placement(bed: &Bed) {
    for (text, list) in [("", Some(nccl_list())), ("NCCL_IB_HCA=mlx5_0", None)] {
        let deaf = Deaf::mounted(bed, "autofs", &["100", text]);
        bed.plugin("default=closest");
        let ran = bed.run(&deaf.step(""));
        assert_eq!((ran.code, ran.tasks.len()), (3, 2), "{}", ran.stderr);
        for task in &ran.tasks {
            assert_eq!(task.ucx(), [ucx_of(task.local())], "{text}: {task:?}");
            assert_eq!(task.env("NCCL_IB_HCA"), list.as_deref(), "{text}: {task:?}");
        }
        assert_ne!(deaf.asked(), 0);
    }
}

fn a_step_that_execve_only_just_takes_is_taken_with_the_plugin(bed: &Bed) {
    // with so small a stack the kernel takes 128 KiB of arguments and variables (fs/exec.c, `bprm_stack_limits`)
    let step = |bytes: usize, flag: &str| {
        format!(
            "ulimit -Ss 512; export PAD=$(head -c {bytes} /dev/zero | tr '\\0' x)
             srun -w n0 -n1 --gpus-per-task=1 {flag} /bin/true"
        )
    };
    bed.plugstack("");
    let (mut good, mut bad) = (60_000, 131_000);
    while bad - good > 100 {
        let bytes = (good + bad) / 2;
        match bed.run(&step(bytes, "")).code {
            0 => good = bytes,
            _ => bad = bytes,
        }
    }
    // numbers of jobs and processes may get a digit more
    let near = good - 100;
    assert_eq!(
        bed.run(&step(near, "")).code,
        0,
        "without the plugin, {near} bytes"
    );
    bed.plugin("default=closest");
    let ran = bed.run(&step(near, "--nic-placement=closest,verbose"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no variable is set: no room for it"),
        "{}",
        ran.stderr
    );
    let with_room = bed.run(&step(20_000, "--nic-placement=closest,verbose"));
    assert!(
        with_room.code == 0 && !with_room.stderr.contains("no room"),
        "{}",
        with_room.stderr
    );
}

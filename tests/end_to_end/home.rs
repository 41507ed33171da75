//! Homes on file systems that answer late or never, and environments that leave execve(2) no room: the step runs as without us.

use super::faults::{STEP, assert_same, assert_the_node_becomes_idle};
use super::suite::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

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
        let program = bed.site.dir.join("deaf");
        let source = bed.site.repository.join("tests/slurm/deaf.c");
        let compiled = Command::new("cc")
            .arg("-o")
            .args([&program, &source])
            .status();
        let is_so = compiled.is_ok_and(|status| status.success());
        assert!(is_so, "`cc` of deaf.c");
        let [place, log] = ["deaf-place", "deaf-log"].map(|name| bed.dir.join(name));
        fs::create_dir_all(&place)
            .and_then(|()| fs::write(&log, ""))
            .expect("our folder");
        let mut daemon = Command::new(program);
        daemon
            .env("IN", bed.slurmd("n0"))
            .arg(kind)
            .args([&place, &log])
            .args(words);
        daemon.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut daemon = daemon.spawn().expect("it was compiled");
        let mut line = String::new();
        let said = daemon.stdout.take().expect("a pipe");
        BufReader::new(said).read_line(&mut line).expect("a line");
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

    fn home(&self) -> String {
        format!("HOME={}", self.place.join("alice").display())
    }

    /// A step of two tasks with its home there, which ends with 3; a shell that runs a command reads nothing at home.
    fn step(&self, flag: &str) -> String {
        format!("{} {}", self.home(), STEP.replace('@', flag))
    }

    /// Processes on this machine that have their home there.
    fn left(&self) -> Vec<String> {
        let home = self.home();
        let has = |process: &fs::DirEntry| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == home.as_bytes())
        };
        let all = fs::read_dir("/proc").expect("/proc").flatten().filter(has);
        let stat = |process: fs::DirEntry| fs::read_to_string(process.path().join("stat"));
        all.map(|process| stat(process).unwrap_or_default())
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
    let bare = bed.run(&deaf.step("")).ended(3, 2);
    assert_eq!(deaf.asked(), 0, "{fault}");
    bed.plugin("default=closest");
    let mut said = String::new();
    for flag in ["", "--nic-placement=closest,verbose"] {
        let ran = bed.run(&deaf.step(flag));
        assert_same(fault, &bare, &ran);
        let more = ran.took.as_secs_f64() - bare.took.as_secs_f64();
        assert!(more < seconds, "{fault}: {more} s more");
        let is_so = |task: &Task| task.lacks(&["NCCL_IB_HCA", "UCX_NET_DEVICES"]);
        all(&ran.tasks, is_so);
        assert_the_node_becomes_idle(bed);
        assert_eq!(deaf.left(), [""; 0], "{fault}");
        said = ran.stderr;
    }
    said
}

fn a_home_on_fuse_that_never_answers_holds_up_no_step_that_asked_for_nothing(bed: &Bed) {
    let deaf = Deaf::mounted(bed, "fuse", &[]);
    let said = as_without(bed, &deaf, "FUSE that sleeps", 5.0);
    assert!(said.contains("it is on a FUSE file system"), "{said}");
    assert_eq!(deaf.asked(), 0);
}

fn a_home_of_another_machine_that_never_answers_costs_a_second_and_leaves_no_process(bed: &Bed) {
    let deaf = Deaf::mounted(bed, "autofs", &[]);
    let said = as_without(bed, &deaf, "a home that never comes", 8.0);
    assert!(said.contains("did not answer within a second"), "{said}");
    assert_ne!(deaf.asked(), 0);
}

fn a_home_that_is_mounted_when_a_task_looks_for_it_first_costs_no_placement(bed: &Bed) {
    for (text, is_set) in [("", true), ("NCCL_IB_HCA=mlx5_0", false)] {
        let deaf = Deaf::mounted(bed, "autofs", &["100", text]);
        bed.plugin("default=closest");
        all(&bed.run(&deaf.step("")).ended(3, 2).tasks, |task| {
            let is_unset = task.lacks(&["NCCL_IB_HCA"]);
            task.ucx() == [ucx_of(task.local())]
                && (task.is_listed(), is_unset) == (is_set, !is_set)
        });
        assert_ne!(deaf.asked(), 0);
    }
}

fn a_step_that_execve_only_just_takes_is_taken_with_the_plugin(bed: &Bed) {
    // with so small a stack the kernel takes 128 KiB of arguments and variables (fs/exec.c, `bprm_stack_limits`)
    let step = |bytes: usize, flag: &str| {
        let pad = format!("export PAD=$(head -c {bytes} /dev/zero | tr '\\0' x)");
        let srun = format!("srun -w n0 -n1 --gpus-per-task=1 {flag} /bin/true");
        bed.run(&format!("ulimit -Ss 512; {pad}; {srun}"))
    };
    bed.plugstack("");
    let (mut good, mut bad) = (60_000, 131_000);
    while bad - good > 100 {
        let bytes = (good + bad) / 2;
        match step(bytes, "").code {
            0 => good = bytes,
            _ => bad = bytes,
        }
    }
    // numbers of jobs and processes may get a digit more
    let near = good - 100;
    step(near, "").ended(0, 0);
    bed.plugin("default=closest");
    let verbose = "--nic-placement=closest,verbose";
    let ran = step(near, verbose).ended(0, 0);
    let is_so = ran.stderr.contains("no variable is set: no room");
    assert!(is_so, "{}", ran.stderr);
    step(20_000, verbose).ended(0, 0).says(0, "no room");
}

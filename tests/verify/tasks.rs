//! `verify` on a played `/proc`: threads, memory and variables.  What processes hold of NICs the kernel alone tells:
//! tests/clients/cases_verify.rs.

use super::{Answer, MARK, OWN, Tree, report};
use nic_placement_traffic::report::NodeReport;
use nic_placement_traffic::verify::{TaskVerdict, Verdict};
use std::fs;
use std::os::unix::fs::symlink;

impl Tree {
    pub(super) fn thread(&self, pid: u32, thread: u32, name: &str, state: &str, cpus: &str) {
        let status =
            format!("Name:\t{name}\nState:\t{state}\nPPid:\t1\nCpus_allowed_list:\t{cpus}\n");
        self.file(&format!("proc/{pid}/task/{thread}/status"), &status);
        if pid == thread {
            self.file(&format!("proc/{pid}/status"), &status);
        }
    }

    /// A task of step 17.0 with one thread.
    fn task(&self, pid: u32, local: u32, environment: &[&str]) {
        let local = format!("SLURM_LOCALID={local}");
        let numbers = ["SLURM_JOB_ID=17", "SLURM_STEP_ID=0", &local];
        self.process(pid, &[&numbers[..], environment].concat());
        self.thread(pid, pid, "train", "R (running)", "0-3");
    }

    fn verdicts(&self, words: &str) -> Vec<TaskVerdict> {
        let answer = self.verify(&format!("--json {words}"));
        // of another node nothing of NICs is known
        let report = NodeReport::read(answer.ends(2).out.as_bytes());
        report.unwrap().tasks
    }
}

#[test]
fn threads_memory_and_variables_are_compared_with_what_the_marker_says() {
    let tree = Tree::new("verify");
    let mark = MARK.replace(" set:", " cpus=0-3 set:") + " set:NCCL_IB_HCA==mlx5_0:1";
    let lists = ["UCX_NET_DEVICES=mlx5_1:1", "NCCL_IB_HCA==mlx5_0:1"];
    tree.task(100, 0, &[&mark, lists[0], lists[1]]);
    tree.thread(100, 101, "NCCL Progress 0", "S (sleeping)", "1");
    tree.thread(100, 103, "omp", "R (running)", "3-4");
    tree.thread(100, 102, "gone", "Z (zombie)", "7");
    let maps = "5500 default heap anon=100 N0=75 N1=25 kernelpagesize_kB=4\n\
         7f00 default file=/lib/libc.so.6 mapped=900 N1=900 kernelpagesize_kB=4\n\
         7f01 bind:0 anon=1 N0=1 kernelpagesize_kB=2048\n7f02 default anon=x N9=99999999999999999999\n";
    tree.file("proc/100/numa_maps", maps);
    let [task] = &tree.verdicts("--job 17")[..] else {
        panic!()
    };
    let label = task.numbers.label();
    let found = (label.as_deref(), task.is_placed);
    assert_eq!(found, (Some("17.0 task 0"), true));
    assert_eq!((task.cpus.threads, &task.cpus.left_for), (3, &None));
    // of 75 * 4 + 2048 and 100 KiB
    assert_eq!(task.near_memory, Some(95), "{task:?}");
    assert_eq!(task.changed, ["UCX_NET_DEVICES".to_string()].into());
    assert_eq!(task.verdict, Verdict::Unknown);
    tree.thread(100, 100, "train", "R (running)", "0-7");
    // its first thread has more CPUs than it was given
    let left = tree.verify("--job 17.0");
    left.ends(1)
        .says(&["note: 17.0 task 0: bound to CPUs 0-3, but its first thread may run on 0-7"]);
    for other in ["--job 18", "--job 17.1"] {
        assert!(tree.verdicts(other).is_empty(), "{other}");
    }
}

#[test]
fn a_reason_of_many_tasks_is_said_once() {
    let tree = Tree::new("verify-once");
    let none = tree.verify("--job 17");
    let is_so = none.ends(2).out.starts_with("no task that this user");
    assert!(is_so, "{none}");
    for local in 0..8 {
        tree.task(100 + local, local, &[MARK, "UCX_NET_DEVICES=mlx5_1:1"]);
    }
    let answer = tree.verify("--job 17");
    answer.says(&["note: 17.0 task 0, 17.0 task 1, 17.0 task 2 and 5 more: had another value"]);
    let found = answer.out.matches("had another value").count();
    assert_eq!(found, 1, "{answer}");
}

#[test]
fn what_a_user_wrote_breaks_no_line_and_does_not_reach_the_terminal() {
    let tree = Tree::new("verify-hostile");
    let mark = "NIC_PLACEMENT=v1 policy=\x1b[2J gpus=x nics=\x1b[31m cpus=9999999999- set:A\x1bB=1 set:LD_X=1";
    tree.task(100, 0, &[]);
    let numbers = ["SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_LOCALID=0\n"];
    let others = [mark, "SLURM_STEP_GPUS=\x1b[1m"];
    tree.process(100, &[&numbers[..], &others].concat());
    tree.thread(100, 101, "\x1b]0;title\x07", "S (sleeping)", "999999999999");
    tree.thread(100, 102, "\x1b[31mroot: all well", "S (sleeping)", "4");
    tree.file("proc/100/numa_maps", "x N0=1 anon=1 file=/a\\012N1=7");
    symlink("/dev/\x1b", tree.at("proc/100/fd")).unwrap();
    for words in ["", "--json", "--pid 100"] {
        let said = tree.verify(words).both();
        assert!(!said.contains(['\x1b', '\x07']), "{said:?}");
    }
}

#[test]
fn an_unplaced_task_s_gpu_is_the_one_that_it_has_open_or_that_of_a_step_with_one() {
    let tree = Tree::new("verify-gpus");
    let information = "proc/driver/nvidia/gpus/0000:23:00.0/information";
    let gpus = |environment: &str, open: &str| {
        let environment: Vec<&str> = environment.split(';').collect();
        tree.task(100, 0, &environment);
        let fd = tree.at("proc/100/fd/3");
        let _ = fs::remove_file(&fd);
        if !open.is_empty() {
            fs::create_dir_all(tree.at("proc/100/fd")).unwrap();
            tree.file(information, "Device Minor: \t 7\n");
            symlink(open, &fd).unwrap();
        }
        let [task] = &tree.verdicts("--pid 100")[..] else {
            panic!()
        };
        task.gpus.clone()
    };
    let own = gpus(MARK, "");
    let all = format!("CUDA_VISIBLE_DEVICES={}", own[0]);
    for (environment, open, expected) in [
        // 0 may count those of a device cgroup
        ("CUDA_VISIBLE_DEVICES=0", "", &[][..]),
        ("CUDA_VISIBLE_DEVICES=0;SLURM_STEP_GPUS=3", "", &[3]),
        ("CUDA_VISIBLE_DEVICES=0;SLURM_STEP_GPUS=0,1,2,3", "", &[]),
        ("CUDA_VISIBLE_DEVICES=2;SLURM_STEP_GPUS=0,1,2,3", "", &[]),
        // of those that it may open, and of all
        ("CUDA_VISIBLE_DEVICES=0", "/dev/nvidia7", &own),
        (&all, "/dev/nvidia7", &own),
        // no GPU of this node's is open
        (&all, "/dev/nvidia8", &[]),
        ("A=b", "", &[]),
    ] {
        assert_eq!(gpus(environment, open), expected, "{environment} {open}");
    }
}

#[test]
fn a_node_on_the_command_line_is_not_the_one_that_the_admin_describes() {
    let tree = Tree::new("verify-admin");
    let conf = tree.file("slurm/slurm.conf", "");
    let line = "optional nic_placement.so machine=dgx-h100 exclude=mlx5_0\n";
    tree.file("slurm/plugstack.conf", line);
    tree.task(100, 0, &[MARK]);
    let mut command = tree.command("--json");
    let answer = Answer::of(command.env("SLURM_CONF", conf));
    let report = NodeReport::read(answer.out.as_bytes()).unwrap();
    let gpus: Vec<_> = report.tasks.iter().map(|task| task.gpus.len()).collect();
    assert_eq!(gpus, [1], "{answer}");
}

#[test]
fn a_process_and_what_it_started_are_looked_at() {
    let tree = Tree::new("verify-below");
    for (pid, parent) in [(100, 1), (101, 100), (102, 101), (200, 1)] {
        tree.process(pid, &["A=b"]);
        tree.thread(pid, pid, "x", "R (running)", "0");
        let status = format!("Name:\tx\nState:\tR\nPPid:\t{parent}\nCpus_allowed_list:\t0\n");
        tree.file(&format!("proc/{pid}/status"), status);
    }
    let tasks = tree.verdicts("--pid 100");
    let processes: Vec<u32> = tasks.iter().map(|task| task.processes[0]).collect();
    assert_eq!(processes, [100, 101, 102]);
    // none of them is a task
    assert!(tree.verdicts("").is_empty());
    tree.task(300, 0, &[]);
    tree.verify(&format!("--textfile {}", tree.at("tasks.prom")));
    let text = tree.read("tasks.prom");
    let line = "\nnic_placement_tasks{jobid=\"17\",verdict=\"unknown\"} 1\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn beside_a_program_each_task_of_its_step_is_judged_and_a_merge_counts_them() {
    let tree = Tree::new("verify-beside");
    tree.task(100, 0, &[MARK]);
    let other = ["SLURM_JOB_ID=17", "SLURM_STEP_ID=1", "SLURM_LOCALID=0"];
    tree.process(101, &other);
    tree.thread(101, 101, "other", "R (running)", "0");
    let answer = tree.measure(&OWN, "true");
    // another step's is not among them
    let tasks = report(&answer).tasks;
    let facts = tasks.iter().map(|task| (&task.processes[..], task.verdict));
    let facts: Vec<_> = facts.collect();
    assert_eq!(facts, [(&[100][..], Verdict::Unknown)]);
    let reports = tree.file("reports", answer.err);
    let merged: Answer = tree.verify(&format!("--merge {reports}"));
    assert!(merged.out.contains("tasks: 1 cannot tell\n"), "{merged}");
}

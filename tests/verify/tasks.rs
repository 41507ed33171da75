//! `verify` on a played `/proc`: threads, memory and variables.  What processes hold of NICs the kernel alone tells:
//! tests/clients/cases_verify.rs.

use super::{MARK, Tree};
use nic_placement_traffic::report::NodeReport;
use nic_placement_traffic::verify::{TaskVerdict, Verdict};
use std::os::unix::fs::symlink;
use std::process::Output;

impl Tree {
    pub(super) fn thread(&self, pid: u32, thread: u32, name: &str, state: &str, cpus: &str) {
        let status =
            format!("Name:\t{name}\nState:\t{state}\nPPid:\t1\nCpus_allowed_list:\t{cpus}\n");
        self.write(&format!("proc/{pid}/task/{thread}/status"), &status);
        if pid == thread {
            self.write(&format!("proc/{pid}/status"), &status);
        }
    }

    /// A task of step 17.0 with one thread.
    fn task(&self, pid: u32, local: &str, environment: &[&str], cpus: &str) {
        let numbers = ["SLURM_JOB_ID=17", "SLURM_STEP_ID=0", local];
        self.process(pid, &[&numbers[..], environment].concat());
        self.thread(pid, pid, "train", "R (running)", cpus);
    }

    fn verify(&self, arguments: &[&str]) -> Output {
        self.tool("verify", arguments).output().unwrap()
    }

    fn verdicts(&self, arguments: &[&str]) -> Vec<TaskVerdict> {
        let output = self.verify(&[&["--json"], arguments].concat());
        assert_eq!(
            output.status.code(),
            Some(2),
            "of another node nothing of NICs is known: {output:?}"
        );
        NodeReport::read(&output.stdout).unwrap().tasks
    }
}

#[test]
fn threads_memory_and_variables_are_compared_with_what_the_marker_says() {
    let tree = Tree::new("verify");
    let mark = MARK.replace(" set:", " cpus=0-3 set:") + " set:NCCL_IB_HCA==mlx5_0:1";
    tree.task(
        100,
        "SLURM_LOCALID=0",
        &[&mark, "UCX_NET_DEVICES=mlx5_1:1", "NCCL_IB_HCA==mlx5_0:1"],
        "0-3",
    );
    tree.thread(100, 101, "NCCL Progress 0", "S (sleeping)", "1");
    tree.thread(100, 102, "gone", "Z (zombie)", "7");
    tree.write(
        "proc/100/numa_maps",
        "5500 default heap anon=100 N0=75 N1=25 kernelpagesize_kB=4\n\
         7f00 default file=/lib/libc.so.6 mapped=900 N1=900 kernelpagesize_kB=4\n\
         7f01 bind:0 anon=1 N0=1 kernelpagesize_kB=2048\n7f02 default anon=x N9=99999999999999999999\n",
    );
    let [task] = &tree.verdicts(&["--job", "17"])[..] else {
        panic!()
    };
    assert_eq!(
        (task.job, task.step, task.local_id, task.is_placed),
        (Some(17), Some(0), Some(0), true)
    );
    assert_eq!(
        (task.cpus.threads, task.cpus.as_set, task.cpus.first_left),
        (2, 1, false),
        "{task:?}"
    );
    assert_eq!(task.cpus.others[0].made_by.as_deref(), Some("NCCL"));
    assert_eq!(task.memory.kib, [(0, 75 * 4 + 2048), (1, 100)].into());
    assert_eq!(task.memory.near_share(), Some(95), "{task:?}");
    assert_eq!(task.changed, ["UCX_NET_DEVICES"]);
    assert_eq!(task.verdict, Verdict::Unknown);
    tree.thread(100, 100, "train", "R (running)", "0-7");
    let output = tree.verify(&["--job", "17.0", "--brief"]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "its first thread has more CPUs than it was given"
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("job 17: 1 task: 1 cannot tell (17.0 task 0: no NIC, not on its CPUs)"),
        "{said}"
    );
    assert!(
        tree.verdicts(&["--job", "18"]).is_empty() && tree.verdicts(&["--job", "17.1"]).is_empty()
    );
}

#[test]
fn brief_says_why_it_cannot_tell_and_a_reason_of_many_tasks_is_said_once() {
    let tree = Tree::new("verify-once");
    let none = tree.verify(&["--job", "17", "--brief"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(none.stdout.starts_with(b"no task that this user may see\n"));
    for pid in 100..108 {
        let id = format!("SLURM_LOCALID={}", pid - 100);
        tree.task(pid, &id, &[MARK, "UCX_NET_DEVICES=mlx5_1:1"], "0-3");
    }
    let output = tree.verify(&["--job", "17"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    let said = words.join(" ");
    let once = "note: 17.0 task 0, 17.0 task 1, 17.0 task 2 and 5 more: had another value than it was given";
    assert!(said.contains(once), "{said}");
    assert_eq!(said.matches("had another value").count(), 1, "{said}");
}

#[test]
fn what_a_user_wrote_breaks_no_line_and_does_not_reach_the_terminal() {
    let tree = Tree::new("verify-hostile");
    let mark = "NIC_PLACEMENT=v1 policy=\x1b[2J gpus=x nics=\x1b[31m cpus=9999999999- set:A\x1bB=1 set:LD_X=1";
    tree.task(
        100,
        "SLURM_LOCALID=0\n",
        &[mark, "SLURM_STEP_GPUS=\x1b[1m"],
        "0-3",
    );
    tree.thread(100, 101, "\x1b]0;title\x07", "S (sleeping)", "999999999999");
    tree.thread(100, 102, "\x1b[31mroot: all well", "S (sleeping)", "4");
    tree.write("proc/100/numa_maps", "x N0=1 anon=1 file=/a\\012N1=7");
    symlink("/dev/\x1b", tree.0.join("proc/100/fd")).unwrap();
    for arguments in [&[][..], &["--brief"], &["--json"], &["--pid", "100"]] {
        let output = tree.verify(arguments);
        let said = [output.stdout, output.stderr].concat();
        assert!(
            !said.contains(&0x1b) && !said.contains(&7),
            "{}",
            String::from_utf8_lossy(&said)
        );
    }
}

#[test]
fn an_unplaced_task_s_gpu_is_the_one_that_it_has_open_or_that_of_a_step_with_one() {
    let tree = Tree::new("verify-gpus");
    let gpus = |environment: &[&str], open: Option<&str>| {
        tree.task(100, "SLURM_LOCALID=0", environment, "0-3");
        let fd = tree.0.join("proc/100/fd/3");
        let _ = std::fs::remove_file(&fd);
        if let Some(open) = open {
            std::fs::create_dir_all(fd.parent().unwrap()).unwrap();
            symlink(open, &fd).unwrap();
        }
        let [task] = &tree.verdicts(&["--pid", "100"])[..] else {
            panic!()
        };
        task.gpus.clone()
    };
    assert_eq!(
        gpus(&["CUDA_VISIBLE_DEVICES=0"], None),
        [0; 0],
        "0 may count those of a device cgroup"
    );
    assert_eq!(
        gpus(&["CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=3"], None),
        [3]
    );
    assert_eq!(
        gpus(&["CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=0,1,2,3"], None),
        [0; 0]
    );
    assert_eq!(
        gpus(&["CUDA_VISIBLE_DEVICES=2", "SLURM_STEP_GPUS=0,1,2,3"], None),
        [2]
    );
    let gpu = gpus(&[MARK], None);
    let all = format!("CUDA_VISIBLE_DEVICES={}", gpu[0]);
    tree.write(
        "proc/driver/nvidia/gpus/0000:23:00.0/information",
        "Device Minor: \t 7\n",
    );
    assert_eq!(
        gpus(&["CUDA_VISIBLE_DEVICES=0"], Some("/dev/nvidia7")),
        gpu,
        "of those that it may open"
    );
    assert_eq!(gpus(&[&all], Some("/dev/nvidia7")), gpu, "of all");
    assert_eq!(
        gpus(&[&all], Some("/dev/nvidia8")),
        [0; 0],
        "no GPU of this node's is open"
    );
    assert_eq!(gpus(&[], None), [0; 0]);
}

#[test]
fn a_process_and_what_it_started_are_looked_at() {
    let tree = Tree::new("verify-below");
    for (pid, parent) in [(100, 1), (101, 100), (102, 101), (200, 1)] {
        tree.process(pid, &["A=b"]);
        tree.thread(pid, pid, "x", "R (running)", "0");
        let status = format!("Name:\tx\nState:\tR\nPPid:\t{parent}\nCpus_allowed_list:\t0\n");
        tree.write(&format!("proc/{pid}/status"), status);
    }
    let processes: Vec<u32> = tree
        .verdicts(&["--pid", "100"])
        .iter()
        .map(|task| task.processes[0])
        .collect();
    assert_eq!(processes, [100, 101, 102]);
    assert!(tree.verdicts(&[]).is_empty(), "none of them is a task");
    let file = tree.0.join("tasks.prom");
    tree.task(300, "SLURM_LOCALID=0", &[], "0");
    tree.verify(&["--brief", "--textfile", file.to_str().unwrap()]);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(
        text.contains("\nnic_placement_tasks{jobid=\"17\",verdict=\"unknown\"} 1\n"),
        "{text}"
    );
}

#[test]
fn beside_a_program_each_task_of_its_step_is_judged_and_a_merge_counts_them() {
    let tree = Tree::new("verify-beside");
    tree.task(100, "SLURM_LOCALID=0", &[MARK], "0-3");
    tree.process(
        101,
        &["SLURM_JOB_ID=17", "SLURM_STEP_ID=1", "SLURM_LOCALID=0"],
    );
    tree.thread(101, 101, "other", "R (running)", "0");
    let own = [
        ("SLURM_JOB_ID", "17"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_LOCALID", "0"),
    ];
    let output = tree.measure(&own, "true");
    let tasks = super::report(&output).tasks;
    assert_eq!(
        tasks.len(),
        1,
        "another step's is not among them: {tasks:?}"
    );
    assert_eq!(
        (tasks[0].processes.as_slice(), tasks[0].verdict),
        (&[100][..], Verdict::Unknown)
    );
    tree.write("reports", output.stderr);
    let file = tree.0.join("reports");
    let merged = tree
        .tool("verify", &["--merge", file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&merged.stdout).into_owned();
    assert!(
        said.contains("tasks: 1 cannot tell\n"),
        "{said}{}",
        String::from_utf8_lossy(&merged.stderr)
    );
}

//! In a placed step, and with what the admin says: the same as in the plugin.

use crate::harness;
use crate::played::{ALL, NEAR, Node, Task, all, nics, node};
use nic_placement_core::topology::{PortState, Provenance};
use nic_placement_formats::node_file;
use nic_placement_node::cache::{self, NodeFile};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// `exec` for a whole task that sees all GPUs, and below it for each of eight workers.
#[track_caller]
fn nested(node: &Node, between: &str, words: &str) -> Vec<Task> {
    let workers = node.launched(8, "", words);
    let line = format!("nic-placement exec -- sh -c '{between} {workers}'");
    node.reports(&[], &line)
}

#[test]
fn in_a_placed_step_each_process_takes_its_own_of_what_the_task_has() {
    let Some(node) = node() else { return };
    let whole = node.one("", "");
    assert_eq!((whole.ucx().len(), whole.mem()), (8, "preferred-many:0-1"));
    let tasks = nested(node, "", "");
    // the step's preference becomes a part of itself
    let mems = (0..8).map(|n| format!("preferred-many:{}", n / 4));
    assert!(tasks.iter().map(Task::mem).eq(mems), "{tasks:?}");
    let task = &tasks[5];
    let is_so = task.ucx() == ["mlx5_9:1"] && task.word("cpus") == NEAR[1];
    assert!(is_so, "{task:?}");
    assert_eq!(task.word("NCCL_IB_HCA"), whole.word("NCCL_IB_HCA"));
    let marker = task.word("NIC_PLACEMENT");
    assert!(marker.contains("set:UCX_NET_DEVICES=mlx5_9:1"), "{task:?}");
}

#[test]
fn what_the_user_changed_in_a_placed_step_is_the_user_s() {
    let Some(node) = node() else { return };
    let tasks = nested(node, "export UCX_NET_DEVICES=mlx5_0:1;", "");
    assert_eq!(nics(&tasks), ["mlx5_0:1"; 8]);
}

#[test]
fn off_in_a_placed_step_leaves_what_the_step_set() {
    let Some(node) = node() else { return };
    all(&nested(node, "", "off"), |task| task.ucx().len() == 8);
}

#[test]
fn where_plugstack_conf_is_not_in_sight_the_steps_lists_tell_which_nics_it_uses() {
    let Some(node) = node() else { return };
    let with_list = |list: &str| {
        let marker = format!("'v1 policy=closest gpus= nics= set:NCCL_IB_HCA={list}'");
        let variables = format!("NIC_PLACEMENT={marker} NCCL_IB_HCA={list}");
        let number = "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2";
        node.one(&format!("{variables} {number}"), "--plugstack /none")
    };
    let list = "=mlx5_0:1,mlx5_4:1";
    let task = with_list(list);
    assert_eq!(task.word("NCCL_IB_HCA"), list);
    let is_so = task.ucx() == ["mlx5_0:1"] || task.ucx() == ["mlx5_4:1"];
    assert!(is_so, "{task:?}");
    // as from another node
    let task = with_list("=mlx5_0:1,mlx5_44:1");
    assert_eq!(task.ucx(), ["mlx5_3:1"]);
    assert_eq!(task.word("NCCL_IB_HCA").matches("mlx5_").count(), 8);
}

/// A file with the plugin's line.
fn plugstack(name: &str, arguments: &str) -> String {
    let file = harness::private_folder(name).join("plugstack.conf");
    let line = format!("optional /opt/libnic_placement.so {arguments}\n");
    fs::write(&file, line).unwrap();
    file.to_str().unwrap().to_string()
}

/// The first of eight workers.
const FIRST: &str = "LOCAL_RANK=0 LOCAL_WORLD_SIZE=8";

#[test]
fn the_admins_arguments_hold() {
    let Some(node) = node() else { return };
    let worker = |variables: &str, arguments: &str| {
        let file = plugstack("exec-admin", arguments);
        let words = format!("--plugstack {file}");
        node.one(&format!("{FIRST} {variables}"), &words)
    };
    let task = worker("", "exclude=mlx5_0 set=NVSHMEM_HCA_LIST={rails}");
    let excludes = task.ucx() != ["mlx5_0:1"] && !task.word("NCCL_IB_HCA").contains("mlx5_0:");
    let is_so = excludes && task.word("NVSHMEM_HCA_LIST").starts_with("mlx5_3:1,");
    assert!(is_so, "{task:?}");
    for (variables, arguments, count) in [
        ("", "default=nics-per-task=2", 2),
        // there is no job
        ("", "default=all rollout=0%", 8),
        ("SLURM_JOB_ID=7", "default=all rollout=100%", 8),
        // as for an srun of this job that asks
        ("SLURM_JOB_ID=7", "default=all rollout=0%", 1),
    ] {
        let found = worker(variables, arguments).ucx().len();
        assert_eq!(found, count, "{arguments}");
    }
}

#[test]
fn the_node_comes_from_the_node_file_where_that_is_as_the_node_is() {
    let Some(node) = node() else { return };
    let file = harness::private_folder("exec-node-file").join("node.cache");
    let plugstack = plugstack("exec-file", &format!("node-file={}", file.display()));
    let report = node.report();
    let exec = format!("nic-placement exec --plugstack {plugstack} -- {report}");
    let worker = format!("{FIRST} REPORTED_RANK=0 {exec}");
    let refresh = format!("nic-placement refresh -o {}", file.display());
    // runs the worker after the file was changed
    let nic_by = |change: fn(&mut NodeFile)| {
        let [written, changed] = ["written", "changed"].map(|name| file.with_extension(name));
        let _ = [&written, &changed].map(fs::remove_file);
        let (tell, told) = (written.display(), changed.display());
        let wait = format!("touch {tell} && while [ ! -e {told} ]; do sleep 0.02; done");
        let tasks = std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_there = (0..3000).any(|_| {
                    sleep(Duration::from_millis(20));
                    written.exists()
                });
                assert!(is_there, "no refresh in a minute");
                let bytes = fs::read(&file).unwrap();
                let mut node = cache::from_bytes(&bytes, Provenance::ThisSystem).unwrap();
                change(&mut node);
                fs::write(&file, node_file::to_bytes(&node)).unwrap();
                fs::write(&changed, "").unwrap();
            });
            node.reports(&[], &format!("{refresh} && {wait} && {worker}"))
        });
        nics(&tasks).remove(0)
    };
    assert_eq!(nic_by(|_| {}), "mlx5_0:1");
    // nothing but the file says that this link is down
    let spoilt = nic_by(|node| {
        let mut nics = node.topology.nics.iter_mut();
        let nic = nics.find(|nic| nic.name == "mlx5_0").unwrap();
        nic.ports[0].state = PortState::Down;
    });
    assert_ne!(spoilt, "mlx5_0:1");
    // a file that is not believed costs nothing
    let of_another_time = nic_by(|node| {
        let nics = node.topology.nics.iter_mut();
        nics.for_each(|nic| nic.ports[0].state = PortState::Down);
        node.stamp.boottime = 1;
    });
    assert_eq!(of_another_time, "mlx5_0:1");
}

const SLURM: &str = "SLURM_LOCALID=5 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=8 SLURM_PROCID=5";

#[test]
fn a_slurm_task_without_a_launcher_is_known_by_slurms_own_number() {
    let Some(node) = node() else { return };
    for (bound, cpus) in [
        ("", NEAR[1]),
        // slurmd lists what it bound: a mask of its own stays
        ("TYPE=mask_cpu: LIST=0x1,0x2", ALL),
        // it lists none for a NUMA domain
        ("TYPE=map_ldom: LIST=0,0,0,0,1,1,1,1", ALL),
    ] {
        let bound = bound.replace("TYPE=", "SLURM_CPU_BIND_TYPE=");
        let bound = bound.replace("LIST=", "SLURM_CPU_BIND_LIST=");
        let task = node.one(&format!("{SLURM} {bound}"), "");
        let is_so = task.ucx() == ["mlx5_9:1"] && task.word("cpus") == cpus;
        assert!(is_so, "{bound}: {task:?}");
    }
}

/// A shell between, or the user, repeats Slurm's number in a launcher's words.
#[test]
fn what_slurm_bound_stays_where_a_shell_or_the_user_repeats_its_number() {
    let Some(node) = node() else { return };
    let cpus = |bound: &str, repeated: &str, words: &str| {
        let exec = format!("nic-placement exec {words} -- {}", node.report());
        let shell = format!("sh -c 'export X=0 {repeated}; {exec}; exit $?'");
        let line = format!("export {SLURM} REPORTED_RANK=5 {bound}; {shell}");
        node.reports(&[], &line)[0].word("cpus").to_string()
    };
    let bound = "SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x1,0x2";
    for (repeated, words) in [
        ("LOCAL_RANK=5 LOCAL_WORLD_SIZE=8", ""),
        ("", "--local-rank 5"),
        ("LOCAL_RANK=5", "--local-rank 5 --local-size 8"),
    ] {
        let found = [cpus(bound, repeated, words), cpus("", repeated, words)];
        assert_eq!(found, [ALL, NEAR[1]], "{repeated} {words}");
    }
    // another number or count: Slurm's masks are not of these processes
    for repeated in "LOCAL_RANK=6 LOCAL_WORLD_SIZE=8|LOCAL_RANK=5 LOCAL_WORLD_SIZE=16".split('|') {
        let [with, without] = [bound, ""].map(|bound| cpus(bound, repeated, "bind=numa"));
        assert_eq!(with, without, "{repeated}");
    }
}

#[test]
fn where_the_admin_has_switched_all_off_the_program_runs_without_and_its_user_is_told() {
    let Some(_) = harness::host() else { return };
    let file = plugstack("exec-off", "disable default=closest");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    command.args(["exec", "--plugstack", &file, "strict"]);
    command.args(["--machine", "dgx-h100", "--"]);
    command.args(["sh", "-c", "echo nics ${UCX_NET_DEVICES-none}"]);
    let ran = command.env_remove("UCX_NET_DEVICES").output();
    let ran = ran.expect("it starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    let found = (ran.status.code(), &*ran.stdout);
    assert_eq!(found, (Some(0), &b"nics none\n"[..]), "{said}");
    let is_told = said.contains("runs without placement: disabled by `disable`");
    assert!(said.lines().count() == 1 && is_told, "{said}");
}

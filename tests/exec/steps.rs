//! In a placed step, and with what the admin says: the same as in the plugin.

use crate::harness;
use crate::played::{Node, Report, node};
use nic_placement_core::topology::{PortState, Provenance};
use nic_placement_formats::node_file;
use nic_placement_node::cache::{self, NodeFile};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// `exec` for a whole task that sees all GPUs, and below it for each of eight workers.
fn nested(node: &Node, between: &str, words: &str) -> String {
    format!(
        "nic-placement exec -- sh -c '{between} for n in $(seq 0 7); do (export LOCAL_RANK=$n LOCAL_WORLD_SIZE=8 REPORTED_RANK=$n; \
         exec nic-placement exec {words} -- {report}) || exit; done'",
        report = node.report()
    )
}

fn of<'r>(reports: &'r [Report], name: &str) -> Vec<&'r str> {
    reports.iter().map(|report| report.of(name)).collect()
}

fn ports(reports: &[Report]) -> Vec<&str> {
    reports.iter().map(Report::ports).collect()
}

#[test]
fn in_a_placed_step_each_process_takes_its_own_of_what_the_task_has() {
    let Some(node) = node() else { return };
    let whole = format!("REPORTED_RANK=0 nic-placement exec -- {}", node.report());
    let whole = node.reports(&[], &whole);
    assert_eq!(whole[0].ports().matches("mlx5_").count(), 8);
    assert_eq!(whole[0].of("mem"), "preferred-many:0-1");
    let reports = node.reports(&[], &nested(node, "", ""));
    let mems: Vec<String> = (0..8)
        .map(|n| format!("preferred-many:{}", n / 4))
        .collect();
    assert_eq!(
        of(&reports, "mem"),
        mems,
        "the step's preference becomes a part of itself"
    );
    assert_eq!(reports[5].ports(), "mlx5_9:1");
    assert_eq!(reports[5].of("cpus"), "56-111,168-223");
    assert_eq!(reports[5].of("NCCL_IB_HCA"), whole[0].of("NCCL_IB_HCA"));
    assert!(
        reports[5]
            .of("NIC_PLACEMENT")
            .contains("set:UCX_NET_DEVICES=mlx5_9:1")
    );
}

#[test]
fn what_the_user_changed_in_a_placed_step_is_the_user_s() {
    let Some(node) = node() else { return };
    let reports = node.reports(&[], &nested(node, "export UCX_NET_DEVICES=mlx5_0:1;", ""));
    assert_eq!(ports(&reports), ["mlx5_0:1"; 8]);
}

#[test]
fn off_in_a_placed_step_leaves_what_the_step_set() {
    let Some(node) = node() else { return };
    let reports = node.reports(&[], &nested(node, "", "off"));
    assert_eq!(ports(&reports)[3].matches("mlx5_").count(), 8);
}

#[test]
fn where_plugstack_conf_is_not_in_sight_the_steps_lists_tell_which_nics_it_uses() {
    let Some(node) = node() else { return };
    let list = "=mlx5_0:1,mlx5_4:1";
    let marker = format!("v1 policy=closest gpus= nics= set:NCCL_IB_HCA={list}");
    let line = format!(
        "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 REPORTED_RANK=1 nic-placement exec --plugstack /none -- {}",
        node.report()
    );
    let reports = node.reports(&[("NIC_PLACEMENT", &marker), ("NCCL_IB_HCA", list)], &line);
    assert_eq!(of(&reports, "NCCL_IB_HCA"), [list]);
    let nic = reports[0].ports();
    assert!(["mlx5_0:1", "mlx5_4:1"].contains(&nic), "{nic}");
    // as from another node
    let list = "=mlx5_0:1,mlx5_44:1";
    let marker = format!("v1 policy=closest gpus= nics= set:NCCL_IB_HCA={list}");
    let reports = node.reports(&[("NIC_PLACEMENT", &marker), ("NCCL_IB_HCA", list)], &line);
    assert_eq!(ports(&reports), ["mlx5_3:1"]);
    assert_eq!(reports[0].of("NCCL_IB_HCA").matches("mlx5_").count(), 8);
}

/// A file with the plugin's line.
fn plugstack(name: &str, arguments: &str) -> String {
    let file = harness::private_folder(name).join("plugstack.conf");
    std::fs::write(
        &file,
        format!("optional /opt/libnic_placement.so {arguments}\n"),
    )
    .unwrap();
    file.to_str().unwrap().to_string()
}

#[test]
fn the_admins_arguments_hold() {
    let Some(node) = node() else { return };
    let worker = |arguments: &str| {
        let file = plugstack("exec-admin", arguments);
        let line = format!(
            "LOCAL_RANK=0 LOCAL_WORLD_SIZE=8 REPORTED_RANK=0 nic-placement exec --plugstack {file} -- {}",
            node.report()
        );
        node.reports(&[], &line)
    };
    let reports = worker("exclude=mlx5_0 set=NVSHMEM_HCA_LIST={rails}");
    assert_ne!(ports(&reports), ["mlx5_0:1"]);
    assert!(
        !reports[0].of("NCCL_IB_HCA").contains("mlx5_0:"),
        "{}",
        reports[0].of("NCCL_IB_HCA")
    );
    assert!(reports[0].of("NVSHMEM_HCA_LIST").starts_with("mlx5_3:1,"));
    let reports = worker("default=nics-per-task=2");
    assert_eq!(ports(&reports)[0].matches("mlx5_").count(), 2);
    let count = |reports: Vec<Report>| ports(&reports)[0].matches("mlx5_").count();
    assert_eq!(
        count(worker("default=all rollout=0%")),
        8,
        "there is no job"
    );
    let in_a_job = |arguments: &str| {
        let file = plugstack("exec-rollout", arguments);
        let line = format!(
            "REPORTED_RANK=0 nic-placement exec --plugstack {file} -- {}",
            node.report()
        );
        node.reports(
            &[
                ("SLURM_JOB_ID", "7"),
                ("LOCAL_RANK", "0"),
                ("LOCAL_WORLD_SIZE", "8"),
            ],
            &line,
        )
    };
    assert_eq!(count(in_a_job("default=all rollout=100%")), 8);
    assert_eq!(
        count(in_a_job("default=all rollout=0%")),
        1,
        "as for an srun of this job that asks"
    );
}

#[test]
fn the_node_comes_from_the_node_file_where_that_is_as_the_node_is() {
    let Some(node) = node() else { return };
    let file = harness::private_folder("exec-node-file").join("node.cache");
    let plugstack = plugstack("exec-file", &format!("node-file={}", file.display()));
    let worker = format!(
        "LOCAL_RANK=0 LOCAL_WORLD_SIZE=8 REPORTED_RANK=0 nic-placement exec --plugstack {plugstack} -- {}",
        node.report()
    );
    let refresh = format!("nic-placement refresh -o {}", file.display());
    // runs the worker after the file was changed
    let with_a_file_of = |change: fn(&mut NodeFile)| {
        let [written, changed] = ["written", "changed"].map(|name| file.with_extension(name));
        let _ = [&written, &changed].map(fs::remove_file);
        let wait = format!(
            "touch {} && while [ ! -e {} ]; do sleep 0.02; done",
            written.display(),
            changed.display()
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let is_there = (0..3000).any(|_| {
                    sleep(Duration::from_millis(20));
                    written.exists()
                });
                assert!(is_there, "no refresh in a minute");
                let mut node =
                    cache::from_bytes(&fs::read(&file).unwrap(), Provenance::ThisSystem).unwrap();
                change(&mut node);
                fs::write(&file, node_file::to_bytes(&node)).unwrap();
                fs::write(&changed, "").unwrap();
            });
            node.reports(&[], &format!("{refresh} && {wait} && {worker}"))
        })
    };
    // nothing but the file says that this link is down
    let spoil: fn(&mut NodeFile) = |node| {
        let nic = node
            .topology
            .nics
            .iter_mut()
            .find(|nic| nic.name == "mlx5_0")
            .unwrap();
        nic.ports[0].state = PortState::Down;
    };
    let reports = node.reports(&[], &format!("{refresh} && {worker}"));
    assert_eq!(ports(&reports), ["mlx5_0:1"]);
    let reports = with_a_file_of(spoil);
    assert_ne!(ports(&reports), ["mlx5_0:1"], "the file counts");
    let reports = with_a_file_of(|node| {
        node.topology
            .nics
            .iter_mut()
            .for_each(|nic| nic.ports[0].state = PortState::Down);
        node.stamp.boottime = 1;
    });
    assert_eq!(
        ports(&reports),
        ["mlx5_0:1"],
        "a file that is not believed costs nothing"
    );
}

#[test]
fn a_slurm_task_without_a_launcher_is_known_by_slurms_own_number() {
    let Some(node) = node() else { return };
    let slurm = "SLURM_LOCALID=5 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=8 SLURM_PROCID=5";
    let worker = |more: &str| {
        let line = format!(
            "{slurm} {more} REPORTED_RANK=5 nic-placement exec -- {}",
            node.report()
        );
        node.reports(&[], &line)
    };
    let reports = worker("");
    assert_eq!(
        (reports[0].ports(), reports[0].of("cpus")),
        ("mlx5_9:1", "56-111,168-223")
    );
    // slurmd lists what it bound: a mask of its own stays
    let reports = worker("SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x1,0x2");
    assert_eq!(reports[0].of("cpus"), "0-223");
    // it lists none for a NUMA domain
    let reports = worker("SLURM_CPU_BIND_TYPE=map_ldom: SLURM_CPU_BIND_LIST=0,0,0,0,1,1,1,1");
    assert_eq!(reports[0].of("cpus"), "0-223");
}

/// A shell between, or the user, repeats Slurm's number in a launcher's words.
#[test]
fn what_slurm_bound_stays_where_a_shell_or_the_user_repeats_its_number() {
    let Some(node) = node() else { return };
    let slurm = "export SLURM_LOCALID=5 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=8 SLURM_PROCID=5 REPORTED_RANK=5";
    let cpus = |bound: &str, repeated: &str, words: &str| {
        let line = format!(
            "{slurm} {bound}; sh -c 'export X=0 {repeated}; nic-placement exec {words} -- {}; exit $?'",
            node.report()
        );
        node.reports(&[], &line)[0].of("cpus").to_string()
    };
    let bound = "SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x1,0x2";
    let near = "56-111,168-223";
    for (repeated, words) in [
        ("LOCAL_RANK=5 LOCAL_WORLD_SIZE=8", ""),
        ("", "--local-rank 5"),
        ("LOCAL_RANK=5", "--local-rank 5 --local-size 8"),
    ] {
        assert_eq!(cpus(bound, repeated, words), "0-223", "{repeated} {words}");
        assert_eq!(
            cpus("", repeated, words),
            near,
            "nobody bound it: {repeated} {words}"
        );
    }
    // another number or count: Slurm's masks are not of these processes
    for repeated in [
        "LOCAL_RANK=6 LOCAL_WORLD_SIZE=8",
        "LOCAL_RANK=5 LOCAL_WORLD_SIZE=16",
    ] {
        assert_eq!(
            cpus(bound, repeated, "bind=numa"),
            cpus("", repeated, "bind=numa"),
            "{repeated}"
        );
    }
}

#[test]
fn where_the_admin_has_switched_all_off_the_program_runs_without_and_its_user_is_told() {
    let Some(_) = harness::host() else { return };
    let file = plugstack("exec-off", "disable default=closest");
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args([
            "exec",
            "--plugstack",
            &file,
            "--machine",
            "dgx-h100",
            "strict",
            "--",
            "sh",
            "-c",
        ])
        .arg("echo nics ${UCX_NET_DEVICES-none}")
        .env_remove("UCX_NET_DEVICES")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(
        (ran.status.code(), ran.stdout.as_slice()),
        (Some(0), b"nics none\n".as_slice()),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("runs without placement: disabled by `disable` in plugstack.conf"),
        "{said}"
    );
}

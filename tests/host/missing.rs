//! What happens when files, devices or placements are missing, or make no sense: the job runs, unless its user was strict.

use super::*;

/// A step whose only description of the node is this argument.
fn described(argument: &str) -> Step {
    Step::in_context("remote")
        .arg("default=closest")
        .arg(argument)
}

const LISTS: [&str; 2] = ["UCX_NET_DEVICES", "NCCL_IB_HCA"];

#[test]
fn a_machine_description_that_is_not_there_or_broken_costs_nobody_the_job() {
    let folder = private_folder("nowhere");
    let (nowhere, broken) = (folder.join("not-there"), folder.join("topology.json"));
    fs::write(&broken, "{\n  \"version\": 1,\n  \"gpus\": [}\n").unwrap();
    let is_broken = format!("topology={}", broken.display());
    for (argument, told) in [
        (format!("sysfs={}", nowhere.display()), ["not-there", ""]),
        (format!("topology={}", nowhere.display()), ["not-there", ""]),
        ("machine=dgx-h1000".to_string(), ["dgx-h1000", ""]),
        (is_broken, ["topology.json", "line 3"]),
    ] {
        let played = described(&argument).eight();
        played.ok().says(&told);
        (0..8).for_each(|task| _ = played.lacks(task, &LISTS));
    }
}

#[test]
fn root_reads_no_other_programs_description_and_names_the_command_that_converts_it() {
    let folder = private_folder("foreign");
    let recorded = "tests/machines/dgx-h100-nic-down/node.machine";
    let snapshot = fs::read(harness::manifest_path(recorded)).unwrap();
    let mut tar = vec![0; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    let hwloc = "<?xml version=\"1.0\"?>\n<topology version=\"2.0\"></topology>";
    for (name, content) in [
        ("hwloc.xml", hwloc.as_bytes()),
        ("nccl.xml", b"<system version=\"1\"></system>"),
        ("matrix.txt", b"\tGPU0\tNIC0\nGPU0\tX\tPIX\nNIC0\tPIX\tX\n"),
        ("node.machine", &snapshot),
        ("node.tar", &tar),
    ] as [(&str, &[u8]); 5]
    {
        let file = folder.join(name);
        fs::write(&file, content).unwrap();
        let played = described(&format!("topology={}", file.display())).eight();
        played.ok();
        played.says(&[&format!("nic-placement import {}", file.display())]);
        (0..8).for_each(|task| _ = played.lacks(task, &LISTS));
    }
}

#[test]
fn a_node_without_gpus_and_nics_is_left_alone() {
    let empty = private_folder("empty-node");
    fs::create_dir_all(empty.join("proc")).unwrap();
    for folder in ["class/infiniband", "bus/pci/devices", "devices/system/node"] {
        fs::create_dir_all(empty.join("sys").join(folder)).unwrap();
    }
    let played = described("cache=0").sysfs(&empty).task("").task("").play();
    played.ok().lacks(0, &LISTS).lacks(1, &LISTS).quiet();
}

#[test]
fn a_model_names_no_nic_that_this_machine_lacks() {
    let played = described("machine=dgx-h100").eight();
    for task in 0..8 {
        let devices = played.ok().env(task, "UCX_NET_DEVICES").unwrap_or_default();
        // what has no port is an IP interface
        for (name, _) in devices.split(',').filter_map(|each| each.split_once(':')) {
            let live = std::path::Path::new("/sys/class/infiniband").join(name);
            assert!(live.exists(), "task {task}: `{name}`\n{played}");
        }
    }
}

#[test]
fn a_user_who_asked_for_strict_is_not_run_without_placement() {
    let nowhere = private_folder("strict").join("not-there");
    let step = |option: &str| {
        Step::in_context("remote")
            .sysfs(&nowhere)
            .option(option)
            .gpu("0")
    };
    step("closest").ok();
    let strict = step("closest,strict");
    strict.fails(0, &[]);
    let of_task = |line: &LogLine| line.when == "task 0";
    assert!(strict.shown_to_the_user().iter().any(of_task), "{strict}");
    dgx("--option closest,strict").eight().near();
}

#[test]
fn nonsense_in_the_visible_devices_costs_nobody_the_job() {
    let nonsense = "99 -1 NoDevFiles 0,,1 GPU- MIG-0 0,0 18446744073709551616";
    let step = on("--task CUDA_VISIBLE_DEVICES=");
    let step = nonsense
        .split(' ')
        .fold(step, |step, list| step.with(&format!("--gpu {list}")));
    step.play().ok();
}

// ---- NICs that place themselves ----

#[test]
fn strict_fails_no_task_on_a_node_whose_nics_place_themselves() {
    for (machine, list, policy) in [
        ("frontier", "ROCR_VISIBLE_DEVICES", Some("GPU")),
        ("aws-p5", "CUDA_VISIBLE_DEVICES", None),
    ] {
        let step = described("cache=0");
        let step = step.sysfs(&harness::unpacked(machine)).option("strict");
        let step = step.env("MPICH_GPU_SUPPORT_ENABLED=1");
        let played = step.task(&format!("{list}=0")).play();
        played.ok().lacks(0, &LISTS);
        let others = ["NVSHMEM_HCA_LIST", "FI_EFA_IFACE", "FI_CXI_DEVICE_NAME"];
        played.lacks(0, &others);
        let found = played.env(0, "MPICH_OFI_NIC_POLICY");
        assert_eq!(found.as_deref(), policy, "{played}");
    }
}

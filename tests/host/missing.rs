//! What happens when files, devices or placements are missing, or make no sense: the job runs, unless its user was strict.

use super::*;

#[test]
fn a_machine_description_that_is_not_there_costs_nobody_the_job() {
    let nowhere = private_folder("nowhere").join("not-there");
    let missing = |word: &str| format!("{word}={}", nowhere.display());
    for arg in [
        missing("sysfs"),
        missing("topology"),
        "machine=dgx-h1000".to_string(),
    ] {
        let played = play!(
            Step::in_context("remote")
                .arg("default=closest")
                .arg(&arg)
                .task_per_gpu()
        );
        played.assert_nothing_failed();
        assert!(
            !played.log().is_empty(),
            "`{arg}`: somebody should be told\n{played}"
        );
        for task in 0..8 {
            assert_eq!(
                played.env(task, "UCX_NET_DEVICES"),
                None,
                "`{arg}`, task {task}\n{played}"
            );
        }
    }
}

#[test]
fn a_broken_topology_file_is_named_with_its_place_and_the_job_runs() {
    let file = private_folder("broken").join("topology.json");
    fs::write(&file, "{\n  \"version\": 1,\n  \"gpus\": [}\n").unwrap();
    let arg = format!("topology={}", file.display());
    let played = play!(
        Step::in_context("remote")
            .arg("default=closest")
            .arg(&arg)
            .task_per_gpu()
    );
    played.assert_nothing_failed();
    let named = played
        .log()
        .into_iter()
        .any(|l| l.text.contains("topology.json") && l.text.contains("line 3"));
    assert!(named, "{played}");
}

#[test]
fn root_reads_no_other_programs_description_and_names_the_command_that_converts_it() {
    let folder = private_folder("foreign");
    let snapshot = fs::read(harness::manifest_path(
        "tests/machines/dgx-h100-nic-down/node.machine",
    ))
    .unwrap();
    let mut tar = vec![0; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    let described: [(&str, &[u8]); 5] = [
        (
            "hwloc.xml",
            b"<?xml version=\"1.0\"?>\n<topology version=\"2.0\"></topology>",
        ),
        ("nccl.xml", b"<system version=\"1\"></system>"),
        ("matrix.txt", b"\tGPU0\tNIC0\nGPU0\tX\tPIX\nNIC0\tPIX\tX\n"),
        ("node.machine", &snapshot),
        ("node.tar", &tar),
    ];
    for (name, content) in described {
        let file = folder.join(name);
        fs::write(&file, content).unwrap();
        let arg = format!("topology={}", file.display());
        let played = play!(
            Step::in_context("remote")
                .arg("default=closest")
                .arg(&arg)
                .task_per_gpu()
        );
        played.assert_nothing_failed();
        let hint = format!("nic-placement import {}", file.display());
        assert!(
            played
                .log()
                .into_iter()
                .any(|line| line.text.contains(&hint)),
            "{name}: {played}"
        );
        for task in 0..8 {
            assert_eq!(
                played.env(task, "UCX_NET_DEVICES"),
                None,
                "{name}, task {task}: {played}"
            );
        }
    }
}

#[test]
fn a_node_without_gpus_and_nics_is_left_alone() {
    let empty = private_folder("empty-node");
    for folder in [
        "sys/class/infiniband",
        "sys/bus/pci/devices",
        "sys/devices/system/node",
        "proc",
    ] {
        fs::create_dir_all(empty.join(folder)).unwrap();
    }
    let played = play!(
        Step::in_context("remote")
            .arg("default=closest")
            .sysfs(&empty)
            .task("")
            .task("")
    );
    played.assert_nothing_failed();
    for task in 0..2 {
        assert_eq!(played.env(task, "UCX_NET_DEVICES"), None, "{played}");
        assert_eq!(played.env(task, "NCCL_IB_HCA"), None, "{played}");
    }
    assert_eq!(played.shown_to_the_user(), [], "{played}");
}

#[test]
fn a_model_names_no_nic_that_this_machine_lacks() {
    let played = play!(
        Step::in_context("remote")
            .arg("default=closest")
            .arg("machine=dgx-h100")
            .task_per_gpu()
    );
    played.assert_nothing_failed();
    for task in 0..8 {
        if let Some(devices) = played.env(task, "UCX_NET_DEVICES") {
            // what has no port is an IP interface
            for (name, _) in devices
                .split(',')
                .filter_map(|device| device.split_once(':'))
            {
                let live = std::path::Path::new("/sys/class/infiniband").join(name);
                assert!(
                    live.exists(),
                    "task {task}: `{name}` does not exist here\n{played}"
                );
            }
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
            .task("CUDA_VISIBLE_DEVICES=0")
    };
    play!(step("closest")).assert_nothing_failed();
    let played = play!(step("closest,strict"));
    assert_eq!(
        played.returned("init_post_opt"),
        Some(0),
        "a required plugin's failure would drain the node\n{played}"
    );
    assert_ne!(played.exit(0), Some(0), "{played}");
    let of_task: Vec<_> = played
        .shown_to_the_user()
        .into_iter()
        .filter(|line| line.when == "task 0")
        .collect();
    assert!(!of_task.is_empty(), "the user must see why\n{played}");
}

#[test]
fn a_user_who_asked_for_strict_and_got_placement_runs() {
    play!(Step::on_dgx_h100().option("closest,strict").task_per_gpu()).assert_nearest_nics();
}

#[test]
fn nonsense_in_the_visible_devices_costs_nobody_the_job() {
    let nonsense = [
        "",
        "99",
        "-1",
        "NoDevFiles",
        "0,,1",
        "GPU-",
        "MIG-0",
        "0,0",
        "18446744073709551616",
    ];
    let step = nonsense.iter().fold(default_on(), |step, word| {
        step.task(&format!("CUDA_VISIBLE_DEVICES={word}"))
    });
    play!(step).assert_nothing_failed();
}

#[test]
fn a_very_long_environment_costs_nobody_the_job() {
    let long = "1,".repeat(10_000);
    let step = default_on()
        .env(&format!("SLURM_STEP_GPUS={long}"))
        .env(&format!("SLURM_CPU_BIND_LIST={long}"));
    let step = step
        .env(&format!("NIC_PLACEMENT={long}"))
        .task(&format!("CUDA_VISIBLE_DEVICES={long}"));
    play!(step).assert_nothing_failed();
}

// ---- NICs that place themselves ----

#[test]
fn strict_fails_no_task_on_a_node_whose_nics_place_themselves() {
    for (machine, list) in [
        ("frontier", "ROCR_VISIBLE_DEVICES"),
        ("aws-p5", "CUDA_VISIBLE_DEVICES"),
    ] {
        let tree = harness::unpacked(machine);
        let step = Step::in_context("remote")
            .sysfs(&tree)
            .arg("default=closest")
            .option("strict");
        let played = play!(
            step.env("MPICH_GPU_SUPPORT_ENABLED=1")
                .task(&format!("{list}=0"))
        );
        played.assert_nothing_failed();
        let policy = (machine == "frontier").then(|| "GPU".to_string());
        assert_eq!(played.env(0, "MPICH_OFI_NIC_POLICY"), policy, "{played}");
        for variable in [
            "UCX_NET_DEVICES",
            "NCCL_IB_HCA",
            "NVSHMEM_HCA_LIST",
            "FI_EFA_IFACE",
            "FI_CXI_DEVICE_NAME",
        ] {
            assert_eq!(
                played.env(0, variable),
                None,
                "{machine}: {variable}\n{played}"
            );
        }
    }
}

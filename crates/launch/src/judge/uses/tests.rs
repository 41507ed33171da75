//! What a user's own list comes to on machines of the table of known models.

use super::{Use, others, tell};
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::libraries::{Evidence, FileText, Present};
use nic_placement_core::placement::Excluded;
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::policy;
use nic_placement_core::step::{Step, Task};
use nic_placement_core::topology::{CpuSet, LinkLayer, Nic, NicKind, Port, PortState};
use nic_placement_node::platform;

/// What comes of these variables for a task with these GPUs of a DGX H100, and what a strict word says.
fn told(gpus: &str, words: &str, values: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    with(gpus, words, "", values, |task, uses| {
        (said(uses), task.placement.notes.shortfalls.clone())
    })
}

fn said(uses: &[Use]) -> Vec<String> {
    uses.iter()
        .map(|of| format!("{}: {of}", of.reader))
        .collect()
}

fn with<T>(
    gpus: &str,
    words: &str,
    argument: &str,
    values: &[(&str, &str)],
    ask: impl Fn(&TaskPlan, &[Use]) -> T,
) -> T {
    let words = Words::parse(words).unwrap();
    let mut wish = Wish::new(Admin::default(), None, Some(&words));
    if !argument.is_empty() {
        wish.admin.add(argument).unwrap();
    }
    let topology = platform::model("dgx-h100").unwrap();
    let plan = Plan::new(topology, wish, Step::default(), &|_| None);
    let present: Present = values
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let mut task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", gpus.to_string());
    let mut task = plan.task(
        &task,
        Evidence {
            present: &present,
            read: &|_| None,
        },
    );
    let uses = tell(&plan, &mut task, &present);
    ask(&task, &uses)
}

#[test]
fn without_a_list_of_somebody_elses_there_is_nothing_to_judge() {
    assert_eq!(told("0", "single-numa-node", &[]), (vec![], vec![]));
    assert_eq!(
        told("0", "single-numa-node", &[("UCX_NET_DEVICES", "all")]),
        (vec![], vec![])
    );
    assert_eq!(
        told("0", "closest", &[("UCX_NET_DEVICES", "")]).0,
        Vec::<String>::new()
    );
}

#[test]
fn a_far_nic_of_the_users_own_is_told_and_no_strict_word_judges_a_nic_beside_it() {
    let values = [("UCX_NET_DEVICES", "mlx5_6:1")];
    for word in ["closest", "strict", "restricted", "single-numa-node"] {
        let (uses, shortfalls) = told("0", word, &values);
        assert_eq!(uses, ["UCX: mlx5_6:1 SYS 45 % of mlx5_0:1"]);
        assert_eq!(shortfalls, [""; 0], "{word}");
    }
}

#[test]
fn the_plans_own_nic_in_the_users_list_is_as_good_as_ours() {
    let (uses, shortfalls) = told("1", "single-numa-node", &[("UCX_NET_DEVICES", "mlx5_3:1")]);
    assert_eq!(uses, ["UCX: mlx5_3:1 PIX"]);
    assert_eq!(shortfalls, Vec::<String>::new());
}

#[test]
fn nccl_takes_the_best_nics_that_its_list_leaves() {
    let uses = |list: &str| told("0", "closest", &[("NCCL_IB_HCA", list)]).0;
    assert_eq!(
        uses("mlx5"),
        ["NCCL: mlx5_0:1 PIX"],
        "the near one of them all"
    );
    assert_eq!(
        uses("^=mlx5_0"),
        ["NCCL: mlx5_3:1 NODE 90 %, mlx5_4:1 NODE 90 %, mlx5_5:1 NODE 90 % of mlx5_0:1"]
    );
    assert_eq!(uses("=mlx5_11"), ["NCCL: mlx5_11:1 SYS 45 % of mlx5_0:1"]);
    assert_eq!(uses("mlx4"), ["NCCL: no NIC of this node that works"]);
}

#[test]
fn of_equally_good_nics_the_plans_is_named_and_the_others_only_where_all_are_used() {
    let uses = |name: &str, list: &str| {
        with_files_on("oci-bm-gpu-h100-8", "nics-per-task=1", &[], &[(name, list)]).0
    };
    assert_eq!(
        uses("NCCL_IB_HCA", "mlx5"),
        ["NCCL: mlx5_0:1 PXB"],
        "of its two nearest"
    );
    assert_eq!(uses("NCCL_IB_HCA", "=mlx5_1"), ["NCCL: mlx5_1:1 PXB"]);
    // libfabric opens them all
    let all = uses("FI_VERBS_DEVICE_NAME", "mlx5_1");
    assert!(
        all[0].starts_with("libfabric: mlx5_1:1 PXB, ") && all[0].contains("mlx5_10:1 "),
        "{all:?}"
    );
    assert!(uses("FI_VERBS_DEVICE_NAME", "mlx5_0")[0].starts_with("libfabric: mlx5_0:1 PXB"));
}

#[test]
fn a_reason_for_one_port_is_none_for_another_of_the_same_nic() {
    let topology = platform::model("dgx-h100").unwrap();
    let mut node = policy::map(&topology, &Default::default());
    let mut port = node.rails.remove(0);
    let why = || "said".to_string();
    node.excluded = vec![
        Excluded {
            name: "other".parse().unwrap(),
            port: None,
            why: "of another".to_string(),
        },
        Excluded {
            name: port.name.clone(),
            port: Some(2),
            why: why(),
        },
    ];
    assert_eq!(super::left_out(&node, &port), None, "the second port");
    port.port = 2;
    assert_eq!(super::left_out(&node, &port), Some(why()));
    node.excluded[1].port = None;
    port.port = 1;
    assert_eq!(super::left_out(&node, &port), Some(why()), "all ports");
    assert_eq!(
        super::left_out(&node, &node.rails[0]),
        None,
        "the map has it"
    );
}

#[test]
fn the_plans_own_nic_is_judged_only_without_a_list_of_others() {
    // the NICs beside GPU 0 may not be used, so the plan's is on the other NUMA node
    let lacks = |values: &[(&str, &str)]| {
        let far = "exclude=mlx5_0,mlx5_3,mlx5_4,mlx5_5";
        with("0", "single-numa-node", far, values, |task, _| {
            task.placement.notes.shortfalls.clone()
        })
    };
    let of_plan = ["mlx5_6:1 is not on NUMA node 0 of its GPU"];
    assert_eq!(lacks(&[]), of_plan);
    assert_eq!(
        lacks(&[("UCX_NET_DEVICES", "")]),
        of_plan,
        "an empty list is none"
    );
    assert_eq!(lacks(&[("NCCL_NET_GDR_LEVEL", "LOC")]), of_plan, "no list");
    for name in nic_placement_core::libraries::LISTS {
        assert_eq!(lacks(&[(name, "mlx5_9:1")]), [""; 0], "{name}");
    }
}

#[test]
fn a_nic_that_the_plan_leaves_out_is_told_with_the_plans_reason() {
    let (uses, _) = told("0", "closest", &[("UCX_NET_DEVICES", "mlx5_1:1")]);
    assert!(
        uses[0].starts_with("UCX: mlx5_1:1 ") && uses[0].contains("(left out here: "),
        "{uses:?}"
    );
}

#[test]
fn several_gpus_are_served_by_what_is_near_to_one_of_them() {
    let (uses, shortfalls) = told(
        "0,1",
        "restricted",
        &[("UCX_NET_DEVICES", "mlx5_0:1,mlx5_3:1")],
    );
    assert_eq!(uses, ["UCX: mlx5_0:1 PIX, mlx5_3:1 PIX"]);
    assert_eq!(shortfalls, Vec::<String>::new());
}

#[test]
fn ucx_takes_the_nearest_of_a_list_of_all_compute_nics() {
    // so users keep storage out
    let all = "mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1,eth0";
    for word in ["restricted", "single-numa-node"] {
        let told = told("0", word, &[("UCX_NET_DEVICES", all)]);
        assert_eq!(told, (vec!["UCX: mlx5_0:1 PIX".to_string()], vec![]));
    }
}

#[test]
fn a_list_without_any_nic_that_works_is_told() {
    for (name, list) in [
        ("UCX_NET_DEVICES", "mlx5_99:1"),
        ("NCCL_IB_HCA", "mlx4"),
        ("UCX_NET_DEVICES", "eth0,lo"),
    ] {
        let (uses, shortfalls) = told("0", "single-numa-node", &[(name, list)]);
        assert!(
            uses[0].ends_with("no NIC of this node that works"),
            "{uses:?}"
        );
        assert_eq!(shortfalls, [""; 0]);
    }
}

#[test]
fn the_admins_own_list_is_told_too() {
    let (uses, shortfalls) = with(
        "0",
        "restricted",
        "set=UCX_NET_DEVICES=mlx5_11:1",
        &[],
        |task, uses| {
            (
                uses.iter().map(ToString::to_string).collect::<Vec<_>>(),
                task.placement.notes.shortfalls.clone(),
            )
        },
    );
    assert_eq!(uses, ["mlx5_11:1 SYS 45 % of mlx5_0:1"]);
    assert_eq!(shortfalls, [""; 0]);
}

#[test]
fn a_list_in_a_configuration_file_is_told_as_what_the_library_will_use() {
    let words = Words::parse("restricted").unwrap();
    let wish = Wish::new(Admin::default(), None, Some(&words));
    let site = |path: &str| {
        let text = match path {
            "/etc/nccl.conf" => "NCCL_IB_HCA==mlx5_0,mlx5_1",
            "/home/u/ucx.conf" => "UCX_NET_DEVICES=mlx5_11:1",
            // UCX's list is made only where the interfaces are known
            "/proc/net/route" => "Iface\tDestination\tGateway\tFlags\n",
            _ => return None,
        };
        Some(FileText {
            text: text.to_string(),
            ..FileText::default()
        })
    };
    let plan = Plan::new(
        platform::model("dgx-h100").unwrap(),
        wish,
        Step::default(),
        &site,
    );
    let present: Present = [("HOME".to_string(), "/home/u".to_string())].into();
    let mut task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", "0".to_string());
    let mut task = plan.task(
        &task,
        Evidence {
            present: &present,
            read: &site,
        },
    );
    let uses = said(&tell(&plan, &mut task, &present));
    assert!(uses.contains(&"NCCL: mlx5_0:1 PIX".to_string()), "{uses:?}");
    assert!(
        uses.contains(&"UCX: mlx5_11:1 SYS 45 % of mlx5_0:1".to_string()),
        "{uses:?}"
    );
    assert_eq!(task.placement.notes.shortfalls, [""; 0]);
    let said = task.lines("n", "").join("\n");
    assert!(
        said.contains("NCCL_IB_HCA not set: `/etc/nccl.conf` sets it: mlx5_0:1 PIX"),
        "{said}"
    );
}

/// What comes of the files of a node and its user for a task with GPU 0 of a DGX H100, with one IP interface: which library
/// uses which NICs, and what a strict word says.
fn with_files(
    words: &str,
    files: &'static [(&'static str, &'static str)],
    values: &[(&str, &str)],
) -> (Vec<String>, Vec<String>) {
    with_files_on("dgx-h100", words, files, values)
}

fn with_files_on(
    machine: &str,
    words: &str,
    files: &'static [(&'static str, &'static str)],
    values: &[(&str, &str)],
) -> (Vec<String>, Vec<String>) {
    let words = Words::parse(words).unwrap();
    let wish = Wish::new(Admin::default(), None, Some(&words));
    let routes = [(
        "/proc/net/route",
        "Iface\tDestination\tGateway\tFlags\neth0 0 0100A8C0 0003 0 0 0 0\n",
    )];
    let read = |path: &str| {
        let (_, text) = files
            .iter()
            .chain(&routes)
            .find(|(name, _)| *name == path)?;
        Some(FileText {
            text: text.to_string(),
            ..FileText::default()
        })
    };
    let plan = Plan::new(
        platform::model(machine).unwrap(),
        wish,
        Step::default(),
        &read,
    );
    let present: Present = values
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    let mut task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", "0".to_string());
    let mut task = plan.task(
        &task,
        Evidence {
            present: &present,
            read: &read,
        },
    );
    (
        said(&tell(&plan, &mut task, &present)),
        task.placement.notes.shortfalls.clone(),
    )
}

#[test]
fn of_several_files_the_one_is_judged_that_the_library_prefers() {
    const NEAR: &str = "UCX_NET_DEVICES=mlx5_0:1";
    const FAR: &str = "UCX_NET_DEVICES=mlx5_11:1";
    let cases: [(&str, &'static [(&'static str, &'static str)]); 4] = [
        (
            "UCX",
            &[("/etc/ucx/ucx.conf", FAR), ("/home/u/ucx.conf", NEAR)],
        ),
        ("UCX", &[("/home/u/ucx.conf", FAR), ("ucx.conf", NEAR)]),
        (
            "NCCL",
            &[
                ("/etc/nccl.conf", "NCCL_IB_HCA==mlx5_11"),
                ("/home/u/.nccl.conf", "NCCL_IB_HCA==mlx5_0"),
            ],
        ),
        (
            "NVSHMEM",
            &[
                ("/etc/nvshmem.conf", "NVSHMEM_HCA_LIST=mlx5_11:1"),
                ("/home/u/.nvshmem.conf", "NVSHMEM_HCA_LIST=mlx5_0:1"),
            ],
        ),
    ];
    for (library, files) in cases {
        let told = with_files("restricted", files, &[("HOME", "/home/u")]);
        assert_eq!(
            told,
            (vec![format!("{library}: mlx5_0:1 PIX")], vec![]),
            "{files:?}"
        );
    }
}

#[test]
fn nvshmem_prefers_its_file_to_the_users_variable() {
    let files = &[("/home/u/.nvshmem.conf", "NVSHMEM_HCA_LIST=mlx5_0:1")];
    let values = [("HOME", "/home/u"), ("NVSHMEM_HCA_LIST", "mlx5_11:1")];
    let told = with_files("restricted", files, &values);
    assert_eq!(told, (vec!["NVSHMEM: mlx5_0:1 PIX".to_string()], vec![]));
}

#[test]
fn nccl_knows_no_comment_behind_a_value() {
    // the second entry is a name that no NIC has
    let (uses, _) = with_files(
        "closest",
        &[("/etc/nccl.conf", "NCCL_IB_HCA==mlx5_11,mlx5_0 # near")],
        &[],
    );
    assert_eq!(uses, ["NCCL: mlx5_11:1 SYS 45 % of mlx5_0:1"]);
}

#[test]
fn of_several_lines_in_ucxs_file_the_last_one_counts() {
    let (uses, _) = with_files(
        "closest",
        &[(
            "/etc/ucx/ucx.conf",
            "UCX_NET_DEVICES=mlx5_11:1\nUCX_NET_DEVICES=mlx5_0:1\n",
        )],
        &[],
    );
    assert_eq!(uses, ["UCX: mlx5_0:1 PIX"]);
}

#[test]
fn a_file_is_judged_where_we_would_set_no_list_if_somebody_asks() {
    // every NIC of this machine may be used
    let of = |words: &str, files| {
        with_files_on(
            "azure-nd96isr-h100-v5",
            words,
            files,
            &[("HOME", "/home/u")],
        )
    };
    for (library, file) in [
        ("NCCL", &[("/etc/nccl.conf", "NCCL_IB_HCA==mlx5_7")]),
        ("NCCL", &[("/home/u/.nccl.conf", "NCCL_IB_HCA==mlx5_7")]),
        (
            "NVSHMEM",
            &[("/etc/nvshmem.conf", "NVSHMEM_HCA_LIST=mlx5_7:1")],
        ),
    ] {
        let far = format!("{library}: mlx5_7:1 SYS 45 % of mlx5_0:1");
        let (uses, shortfalls) = of("restricted", file);
        assert_eq!(uses, std::slice::from_ref(&far));
        assert_eq!(shortfalls, [""; 0]);
        assert_eq!(of("verbose", file).0, [far]);
        assert_eq!(of("closest", file).0, [""; 0], "nobody asks");
    }
}

#[test]
fn a_nested_step_goes_by_the_file_once_the_outer_steps_list_is_gone() {
    let (uses, _) = with_files(
        "restricted",
        &[("/etc/nccl.conf", "NCCL_IB_HCA==mlx5_11")],
        &[
            (
                "NIC_PLACEMENT",
                "v1 policy=closest gpus= nics= set:NCCL_IB_HCA==mlx5_0:1",
            ),
            ("NCCL_IB_HCA", "=mlx5_0:1"),
        ],
    );
    assert_eq!(uses, ["NCCL: mlx5_11:1 SYS 45 % of mlx5_0:1"]);
}

#[test]
fn the_line_names_what_will_be_used_beside_what_was_planned() {
    let line = |list: &str| {
        with(
            "0",
            "closest",
            "",
            &[("UCX_NET_DEVICES", list)],
            |task, uses| task.lines("node1", &others(uses)).join("\n"),
        )
    };
    let far = line("mlx5_6:1");
    assert!(
        far.contains("nic mlx5_0:1 PIX, but UCX: mlx5_6:1 SYS 45 % of mlx5_0:1"),
        "{far}"
    );
    assert!(
        far.contains("UCX_NET_DEVICES: the user's own value stays: mlx5_6:1 SYS 45 % of mlx5_0:1"),
        "{far}"
    );
    assert!(!line("mlx5_0:1").contains("but UCX"));
}

/// What comes of a user's list for UCX for a task with GPU 0 of a DGX H100 that has so many software devices too, each as
/// fast as a NIC.
fn beside_software_devices(count: usize, list: &str) -> Vec<String> {
    let mut topology = platform::model("dgx-h100").unwrap();
    topology.nics.extend((0..count).map(|number| Nic {
        ports: vec![Port::new(
            1,
            PortState::Active,
            LinkLayer::Ethernet,
            Some(400_000),
        )],
        ..Nic::new(format!("rxe{number}").parse().unwrap(), NicKind::Verbs)
    }));
    topology.sort();
    let plan = Plan::new(topology, Wish::default(), Step::default(), &|_| None);
    let present: Present = [("UCX_NET_DEVICES".to_string(), list.to_string())].into();
    let mut task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", "0".to_string());
    let mut task = plan.task(
        &task,
        Evidence {
            present: &present,
            read: &|_| None,
        },
    );
    said(&tell(&plan, &mut task, &present))
}

#[test]
fn a_software_device_counts_as_far_as_the_other_end_of_the_node() {
    let uses = beside_software_devices(1, "rxe0:1");
    assert!(
        uses[0].starts_with("UCX: rxe0:1 SYS 45 % (left out here: no PCI function of it is known"),
        "{uses:?}"
    );
}

#[test]
fn a_list_that_leaves_more_ports_than_a_map_can_hold_is_judged_too() {
    let uses = beside_software_devices(100, "^mlx5_0:1");
    assert!(uses[0].starts_with("UCX: mlx5_3:1 NODE 90 %"), "{uses:?}");
}

//! UCX's own rule: NICs, IP interfaces, transports, and the devices of GPUs that send by themselves.

use super::*;
use crate::placement::{GpuPlacement, RailUse};

#[test]
fn a_task_without_gpus_is_left_to_ucx() {
    assert_eq!(
        Situation::new(PortState::Active).changes(&task(&[], &[0, 1])),
        [NCCL, NVSHMEM]
    );
}

#[test]
fn a_task_with_several_gpus_may_use_all_their_nics() {
    let changes = Situation::new(PortState::Active).changes(&task(&[2, 0], &[2, 0]));
    assert_eq!(
        changes,
        ["UCX_NET_DEVICES=mlx5_2:1,mlx5_0:1", NCCL, NVSHMEM]
    );
}

/// A node with two IP interfaces.
const ROUTES: Files = &[
    (
        "/proc/net/route",
        "Iface\tDestination\tGateway\tFlags\nib0 0 0 0001 0 0 0 0\neth0 0 0100A8C0 0003 0 0 0 0\n",
    ),
    ("/sys/class/net/lo/operstate", "unknown\n"),
];

fn ucx_beside_interfaces(variables: &[(&str, &str)]) -> Option<String> {
    let situation = Situation {
        files: ROUTES,
        ..Situation::new(PortState::Active)
    }
    .with(variables);
    situation.value(&task(&[1], &[1]), "UCX_NET_DEVICES")
}

#[test]
fn the_ip_interfaces_stay_ucxs_so_that_connections_by_address_work() {
    assert_eq!(
        ucx_beside_interfaces(&[]).as_deref(),
        Some("mlx5_1:1,eth0,ib0,lo")
    );
    for (transports, expected) in [
        ("all", Some("mlx5_1:1,eth0,ib0,lo")),
        ("rc,tcp,cuda", Some("mlx5_1:1,eth0,ib0,lo")),
        ("^cuda", Some("mlx5_1:1,eth0,ib0,lo")),
        // UCX does not use the interfaces
        ("rc,cuda", Some("mlx5_1:1")),
        ("^tcp", Some("mlx5_1:1")),
        // UCX does not use the NICs
        ("^ib", None),
        ("tcp,cuda", None),
        ("sm,self", None),
    ] {
        let value = ucx_beside_interfaces(&[("UCX_TLS", transports)]);
        assert_eq!(value.as_deref(), expected, "`{transports}`");
    }
}

#[test]
fn an_interface_that_is_called_as_a_nic_stays_and_the_report_says_what_its_name_also_means() {
    let mut situation = Situation {
        files: ROUTES,
        ..Situation::new(PortState::Active)
    };
    let why = |situation: &Situation| situation.why(&task(&[1], &[1]), "UCX_NET_DEVICES");
    let plain = why(&situation);
    assert!(
        plain.ends_with("the IP interfaces, which a list would hide"),
        "{plain}"
    );
    // rdma-core's names by place: an InfiniBand NIC is called as its interface
    situation.topology.nics[0].name = "ib0".parse().unwrap();
    situation.node.rails[0].name = "ib0".parse().unwrap();
    assert_eq!(
        situation
            .value(&task(&[1], &[1]), "UCX_NET_DEVICES")
            .as_deref(),
        Some("mlx5_1:1,eth0,ib0,lo")
    );
    assert_eq!(
        why(&situation),
        format!("{plain}; from UCX 1.21 on ib0 also means the NIC of that name")
    );
    let own = situation.why(&task(&[0], &[0]), "UCX_NET_DEVICES");
    assert_eq!(own, plain, "it is in the list itself");
}

#[test]
fn no_interface_is_hidden_because_its_name_is_not_known() {
    let line = |count: usize| format!("eth{count} 0 0 0001 0 0 0 0\n");
    let value = |table: &str, transports: &str| {
        let files: Files = Box::leak(Box::new([("/proc/net/route", &*table.to_string().leak())]));
        let situation = Situation {
            files,
            ..Situation::new(PortState::Active)
        };
        situation
            .with(&[("UCX_TLS", transports)])
            .value(&task(&[1], &[1]), "UCX_NET_DEVICES")
    };
    let table = |count: usize| format!("Iface\n{}", (0..count).map(line).collect::<String>());
    assert_eq!(value(&table(1), "").as_deref(), Some("mlx5_1:1,eth0"));
    assert_eq!(value(&format!("{}…", table(1)), ""), None, "a cut table");
    assert_eq!(
        value(&table(63), "").map(|list| list.split(',').count()),
        Some(64)
    );
    assert_eq!(value(&table(64), ""), None, "UCX reads 64 items");
    let files: Files = Box::leak(Box::new([("/proc/net/route", &*table(64).leak())]));
    let why = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .why(&task(&[1], &[1]), "UCX_NET_DEVICES");
    assert_eq!(
        why,
        "the node has more IP interfaces than UCX reads in a list, which would hide the rest"
    );
    assert_eq!(
        value("…", "rc").as_deref(),
        Some("mlx5_1:1"),
        "it uses none"
    );
}

#[test]
fn no_list_is_longer_than_ucx_reads_with_or_without_interfaces() {
    let mut situation = Situation::new(PortState::Active);
    let port = situation.node.rails[0].clone();
    situation.node.rails = (1..=65)
        .map(|number| Rail {
            port: number,
            ..port.clone()
        })
        .collect();
    let rails: Vec<usize> = (0..65).collect();
    let situation = situation.with(&[("UCX_TLS", "rc,cuda")]);
    let list = situation.value(&task(&[1], &rails[..64]), "UCX_NET_DEVICES");
    assert_eq!(list.map(|list| list.split(',').count()), Some(64));
    assert_eq!(
        situation.value(&task(&[1], &rails), "UCX_NET_DEVICES"),
        None
    );
    let why = situation.why(&task(&[1], &rails), "UCX_NET_DEVICES");
    assert_eq!(why, "the task has more devices than UCX reads in a list");
}

#[test]
fn gpus_that_send_by_themselves_have_devices_of_their_own() {
    let mut situation = Situation::new(PortState::Active);
    let chosen = |rail: usize| GpuPlacement {
        choices: vec![RailUse {
            rail: RailIndex(rail),
            path: PathType::Pix,
            share_mbps: None,
            users: 1,
        }],
        numa_node: None,
        reason: String::new(),
        shortfall: None,
    };
    situation.node.gpus = [0, 1, 2, 2].map(chosen).to_vec();
    for place in 0..3 {
        let (gpu, nic) = (
            situation.topology.gpus[place].address,
            situation.topology.nics[place].address,
        );
        situation
            .topology
            .stated_paths
            .insert((gpu, nic.unwrap()), PathType::Pix);
    }
    let both = task(&[2, 0], &[2, 0]);
    assert_eq!(
        situation.value(&both, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_2:1,mlx5_0:1")
    );
    let devices = Some("mlx5_2:1,mlx5_0:1,cuda0-mlx5_2:1,cuda1-mlx5_0:1");
    let asked = situation.clone().with(&[("UCX_TLS", "rc,rc_gda,cuda")]);
    assert_eq!(
        asked.value(&both, "UCX_NET_DEVICES").as_deref(),
        devices,
        "CUDA's numbers are the task's own"
    );
    // a program may name the transport itself after its start, as NIXL-EP does
    let driver = |files: Files, tls: Option<&str>| {
        let mut node = Situation {
            files,
            ..situation.clone()
        };
        node.present
            .extend(tls.map(|value| ("UCX_TLS".to_string(), value.to_string())));
        node.value(&both, "UCX_NET_DEVICES")
    };
    let quiet = |files: Files, tls: Option<&str>| {
        let mut node = Situation {
            files,
            ..situation.clone()
        };
        node.present
            .extend(tls.map(|value| ("UCX_TLS".to_string(), value.to_string())));
        node.value(&both, "UCX_WARN_INVALID_CONFIG")
    };
    let parameters = "EnableMSI: 1\nRegistryDwords: \"PeerMappingOverride=1;\"\n";
    let prepared: Files = Box::leak(Box::new([("/proc/driver/nvidia/params", parameters)]));
    let others: Files = &[("/proc/driver/nvidia/params", "RegistryDwords: \"\"\n")];
    for (tls, is_left_in) in [
        (None, true),
        (Some("^cuda_ipc"), true),
        (Some("ib,cuda"), true),
        (Some("rc,cuda"), false),
    ] {
        let list = driver(prepared, tls).unwrap();
        assert_eq!(list.contains("cuda"), is_left_in, "UCX_TLS={tls:?}: {list}");
        let quiet = quiet(prepared, tls);
        assert_eq!(
            quiet.is_some(),
            is_left_in && tls != Some("ib,cuda"),
            "a list of the user's is checked"
        );
        assert_eq!(
            driver(others, tls).as_deref(),
            Some("mlx5_2:1,mlx5_0:1"),
            "the driver rules it out"
        );
    }
    let mut asked = asked.libraries(&["ucx-gda"]);
    asked.present.clear();
    assert_eq!(asked.value(&both, "UCX_NET_DEVICES").as_deref(), devices);
    asked.node.rails[2].port = 2;
    let first = Some("mlx5_2:2,mlx5_0:1,cuda1-mlx5_0:1");
    assert_eq!(
        asked.value(&both, "UCX_NET_DEVICES").as_deref(),
        first,
        "there is none of another port"
    );
    asked.node.rails[2].port = 1;
    let second = (
        asked.topology.gpus[2].address,
        asked.topology.nics[1].address.unwrap(),
    );
    asked.topology.stated_paths.insert(second, PathType::Pxb);
    let pairs = Some("mlx5_2:1,mlx5_0:1,cuda0-mlx5_2:1,cuda0-mlx5_1:1,cuda1-mlx5_0:1");
    assert_eq!(
        asked.value(&both, "UCX_NET_DEVICES").as_deref(),
        pairs,
        "UCX may pair the GPU with either"
    );
    asked
        .topology
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.vendor = GpuVendor::Amd);
    assert_eq!(
        asked.value(&both, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_2:1,mlx5_0:1")
    );
}

#[test]
fn the_users_own_files_of_ucx_are_asked_wherever_ucx_reads_them() {
    let sets = "[section]\n UCX_NET_DEVICES = mlx5_0:1\n";
    for (file, text, is_set) in [
        ("/home/me/ucx.conf", sets, false),
        ("/my/ucx/ucx.conf", sets, false),
        ("ucx.conf", sets, false),
        ("ucx.conf", "\u{feff}UCX_NET_DEVICES: mlx5_0:1", false),
        ("ucx.conf", "…", false),
        (
            "ucx.conf",
            "#UCX_NET_DEVICES=x\n;UCX_NET_DEVICES=x\nUCX_TLS=tcp ; UCX_NET_DEVICES=x\n",
            true,
        ),
        ("/home/me/.ucx.conf", sets, true),
    ] {
        let files: Files = Box::leak(Box::new([(file, text)]));
        let situation = Situation {
            files,
            ..Situation::new(PortState::Active)
        }
        .with(&[("HOME", "/home/me"), ("UCX_CONFIG_DIR", "/my/ucx")]);
        let value = situation.value(&task(&[1], &[1]), "UCX_NET_DEVICES");
        assert_eq!(value.is_some(), is_set, "`{file}`: {text}");
        if text == sets && !is_set {
            let why = situation.why(&task(&[1], &[1]), "UCX_NET_DEVICES");
            assert_eq!(why, format!("`{file}` sets it"));
        }
    }
}

#[test]
fn where_rails_are_isolated_no_task_is_held_to_one() {
    for storage in [PortState::Active, PortState::Down] {
        let mut situation = Situation::new(storage);
        situation.wish.admin.fabric = Fabric::IsolatedRails;
        for gpu in 0..3 {
            let value = situation.value(&task(&[gpu], &[gpu]), "UCX_NET_DEVICES");
            let all = (storage == PortState::Active).then_some("mlx5_0:1,mlx5_1:1,mlx5_2:1");
            assert_eq!(value.as_deref(), all, "GPU {gpu}, storage {storage}");
        }
    }
    let mut situation = Situation::new(PortState::Down);
    situation.wish.admin.fabric = Fabric::IsolatedRails;
    assert_eq!(
        situation.value(&task(&[1], &[1]), "UCX_NET_DEVICES"),
        None,
        "nothing would be left out"
    );
}

/// UCX's list for GPU 1 of a node where GPU k has these rails, which are on these networks, and its reason.
fn ucx_on_networks(
    layer: LinkLayer,
    networks: [&[&str]; 3],
    of_gpus: &[&[usize]],
    fabric: Fabric,
    variables: &[(&str, &str)],
) -> (Option<String>, String) {
    let mut situation = Situation::new(PortState::Active).with(variables);
    situation.wish.admin.fabric = fabric;
    for (nic, networks) in situation.topology.nics.iter_mut().zip(networks) {
        let port = &mut nic.ports[0];
        port.link_layer = layer;
        match layer {
            LinkLayer::InfiniBand => {
                port.subnet = networks.first().map(|text| text.parse().unwrap())
            }
            _ => port.networks = networks.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }
    let own = |rail: &usize| RailUse {
        rail: RailIndex(*rail),
        path: PathType::Pix,
        share_mbps: None,
        users: 1,
    };
    let chosen = |rails: &&[usize]| GpuPlacement {
        choices: rails.iter().map(own).collect(),
        numa_node: None,
        reason: String::new(),
        shortfall: None,
    };
    situation.node.gpus = of_gpus.iter().map(chosen).collect();
    let task = task(&[1], of_gpus[1]);
    (
        situation.value(&task, "UCX_NET_DEVICES"),
        situation.why(&task, "UCX_NET_DEVICES"),
    )
}

#[test]
fn a_task_is_held_to_its_nic_only_where_ucx_connects_nics_of_different_rails() {
    use LinkLayer::{Ethernet, InfiniBand};
    let (own, all) = (Some("mlx5_1:1"), Some("mlx5_0:1,mlx5_1:1,mlx5_2:1"));
    let each: [&[&str]; 3] = [&["10.0.0.0/24"], &["10.0.1.0/24"], &["10.0.2.0/24"]];
    let wide: [&[&str]; 3] = [
        &["10.0.0.0/16", "10.0.0.0/24"],
        &["10.0.0.0/16", "10.0.1.0/24"],
        &["10.0.0.0/16", "10.0.2.0/24"],
    ];
    let one: [&[&str]; 3] = [&["10.0.0.0/16"]; 3];
    let prefixes: [&[&str]; 3] = [&["fe80:0:0:0"], &["fe80:0:0:1"], &["fe80:0:0:2"]];
    let everywhere = ("UCX_IB_ROCE_REACHABILITY_MODE", "all");
    let one_each: &[&[usize]] = &[&[0], &[1], &[2]];
    for (layer, networks, fabric, variables, expected) in [
        (Ethernet, one, Fabric::Unsaid, &[][..], own),
        (Ethernet, [&[], &[], &[]], Fabric::Unsaid, &[], own),
        // no other node reaches an interface that has lost its address
        (
            Ethernet,
            [&["10.0.0.0/16"], &[], &["10.0.0.0/16"]],
            Fabric::Unsaid,
            &[],
            all,
        ),
        (
            InfiniBand,
            [&["fe80:0:0:0"], &[], &["fe80:0:0:0"]],
            Fabric::Unsaid,
            &[],
            own,
        ),
        (Ethernet, each, Fabric::Unsaid, &[], all),
        // UCX takes the closest route, which is the other rail's
        (Ethernet, wide, Fabric::Unsaid, &[], all),
        (Ethernet, each, Fabric::Unsaid, &[everywhere], own),
        (
            Ethernet,
            each,
            Fabric::Unsaid,
            &[("UCX_IB_ROCE_REACHABILITY_MODE", "route")],
            all,
        ),
        (Ethernet, each, Fabric::Routed, &[], own),
        (Ethernet, one, Fabric::IsolatedRails, &[], all),
        (InfiniBand, [&["fe80:0:0:0"]; 3], Fabric::Unsaid, &[], own),
        (InfiniBand, prefixes, Fabric::Unsaid, &[], all),
        (InfiniBand, prefixes, Fabric::Unsaid, &[everywhere], all),
        (InfiniBand, prefixes, Fabric::Routed, &[], own),
    ] {
        let (value, why) = ucx_on_networks(layer, networks, one_each, fabric, variables);
        assert_eq!(
            value.as_deref(),
            expected,
            "{layer}, {networks:?}, {fabric:?}, {variables:?}: {why}"
        );
    }
    let (_, why) = ucx_on_networks(Ethernet, each, one_each, Fabric::Unsaid, &[]);
    assert!(
        why.starts_with("the rails are on different subnets"),
        "{why}"
    );
}

#[test]
fn gpus_with_a_nic_on_each_of_two_planes_reach_each_other() {
    let planes: [&[&str]; 3] = [&["10.0.0.0/16"], &["10.1.0.0/16"], &["10.0.0.0/16"]];
    let value = |of_gpus: &[&[usize]]| {
        ucx_on_networks(LinkLayer::Ethernet, planes, of_gpus, Fabric::Unsaid, &[])
            .0
            .unwrap_or_default()
    };
    assert_eq!(
        value(&[&[0, 1], &[1, 2]]),
        "mlx5_1:1,mlx5_2:1",
        "both are on both"
    );
    assert_eq!(value(&[&[0, 1], &[2]]), "mlx5_2:1", "the first plane");
    assert_eq!(value(&[&[0], &[1]]), "mlx5_0:1,mlx5_1:1,mlx5_2:1");
}

#[test]
fn what_ucxs_own_configuration_sets_is_not_set_over_it() {
    let files: Files = &[("/etc/ucx/ucx.conf", "# site\nUCX_NET_DEVICES=mlx5_0:1\n")];
    let situation = Situation {
        files,
        ..Situation::new(PortState::Active)
    };
    assert_eq!(situation.changes(&task(&[1], &[1])), [NCCL, NVSHMEM]);
    assert_eq!(
        situation.why(&task(&[1], &[1]), "UCX_NET_DEVICES"),
        "`/etc/ucx/ucx.conf` sets it"
    );
}

#[test]
fn the_reason_counts_the_tasks_gpus_and_nics_and_names_what_was_added() {
    let why = |files: Files, gpus: &[usize], rails: &[usize]| {
        let mut situation = Situation {
            files,
            ..Situation::new(PortState::Active)
        };
        situation.topology.provenance = crate::topology::Provenance::ThisSystem;
        situation
            .with(&[])
            .why(&task(gpus, rails), "UCX_NET_DEVICES")
    };
    let rdma_alone: Files = &[("/proc/net/route", "Iface\n")];
    let elsewhere = |transports| {
        let mut planned = Situation {
            files: rdma_alone,
            ..Situation::new(PortState::Active)
        };
        planned.topology.provenance = crate::topology::Provenance::Model("m".to_string());
        planned
            .with(&[("UCX_TLS", transports)])
            .why(&task(&[1], &[1]), "UCX_NET_DEVICES")
    };
    assert_eq!(
        elsewhere("all"),
        "its GPU's NIC; on the node its IP interfaces are added and `UCX_SOCKADDR_TLS_PRIORITY` is set"
    );
    assert_eq!(elsewhere("rc"), "its GPU's NIC", "UCX uses none");
    let many = "the 2 NICs of its GPUs, of which UCX takes the nearest to the GPU in use";
    for (gpus, rails, reason) in [
        (&[1][..], &[1][..], "its GPU's NIC"),
        (&[1, 2], &[1], "the NIC that all its GPUs share"),
        (&[1], &[1, 2], "the 2 NICs of its GPU"),
        (&[1, 2], &[1, 2], many),
    ] {
        assert_eq!(why(rdma_alone, gpus, rails), reason);
        let with_interfaces = format!("{reason}, and the IP interfaces, which a list would hide");
        assert_eq!(why(ROUTES, gpus, rails), with_interfaces);
    }
}

#[test]
fn a_list_is_set_where_it_keeps_the_task_from_a_nic_and_nowhere_else() {
    let mut situation = Situation::new(PortState::Down);
    assert!(
        situation
            .value(&task(&[2, 0], &[2, 0]), "UCX_NET_DEVICES")
            .is_some(),
        "two of three"
    );
    assert_eq!(
        situation.value(&task(&[2, 0], &[2, 1, 0]), "UCX_NET_DEVICES"),
        None,
        "all three"
    );
    situation.node.rails.truncate(1);
    assert_eq!(
        situation
            .value(&task(&[0], &[0]), "UCX_NET_DEVICES")
            .as_deref(),
        Some("mlx5_0:1")
    );
    situation.topology.nics.truncate(1);
    assert_eq!(
        situation.value(&task(&[0], &[0]), "UCX_NET_DEVICES"),
        None,
        "UCX finds no other"
    );
}

#[test]
fn a_gpu_with_more_nics_than_two_gets_as_many_rails_on_request() {
    const RAILS: &str = "UCX_MAX_RNDV_RAILS";
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let with = |each: u8, gpus: &[usize]| {
        let nics_each = crate::placement::NicsEach::Number(each);
        let node = crate::policy::map(
            &topology,
            &crate::wish::Wish {
                nics_per_task: nics_each,
                ..Default::default()
            },
        );
        let choices = gpus
            .iter()
            .flat_map(|&gpu| &node.gpus[gpu].choices)
            .map(|choice| choice.rail.0);
        let task = task(gpus, &choices.collect::<Vec<_>>());
        let (wish, present) = (Wish::default(), Present::new());
        (
            Situation {
                topology: topology.clone(),
                node,
                wish,
                step: Step::default(),
                present,
                files: ROUTES,
            },
            task,
        )
    };
    for (each, gpus, expected) in [
        (1, &[0][..], None),
        (1, &[0, 1, 2, 3], None),
        (2, &[0], None),
        (3, &[0], Some("3")),
        (4, &[0, 7], Some("4")),
        (6, &[0], Some("4")),
    ] {
        let (situation, task) = with(each, gpus);
        assert_eq!(situation.value(&task, RAILS), None, "never by default");
        let asked = situation.libraries(&["ucx-rails"]);
        assert_eq!(
            asked.value(&task, RAILS).as_deref(),
            expected,
            "{each} for each of {gpus:?}"
        );
    }
    let (situation, task) = with(4, &[0]);
    let hint = situation.why(&task, "UCX_NET_DEVICES");
    assert!(hint.contains("by two without `env=ucx-rails`"), "{hint}");
    let asked = situation.libraries(&["ucx-rails"]);
    let set = |situation: &Situation| {
        (
            situation.value(&task, RAILS),
            situation.value(&task, "UCX_MAX_RMA_RAILS"),
        )
    };
    let four = || Some("4".to_string());
    assert_eq!(set(&asked), (four(), four()), "NIXL sends one-sided");
    assert_eq!(
        set(&asked.clone().with(&[("UCX_MAX_RNDV_LANES", "2")])),
        (None, four())
    );
    assert_eq!(
        set(&asked.clone().with(&[("UCX_MAX_RMA_LANES", "2")])),
        (four(), None)
    );
    let files: Files = &[("/etc/ucx/ucx.conf", "UCX_MAX_RNDV_RAILS=2\n")];
    assert_eq!(
        set(&Situation {
            files,
            ..asked.clone()
        }),
        (None, four())
    );
    let files: Files = &[
        (
            "/etc/ucx/ucx.conf",
            "[Vera Rubin]\nCPU model=Vera\nUCX_MAX_RNDV_RAILS=4\nUCX_MAX_RMA_RAILS=4\n",
        ),
        ("/proc/cpuinfo", "vendor_id\t: GenuineIntel\n"),
    ];
    let shipped = Situation { files, ..asked };
    assert_eq!(
        set(&shipped),
        (four(), four()),
        "UCX 1.22 ships that section for other machines"
    );
    let unknown = Situation {
        files: &files[..1],
        ..shipped
    };
    let may = "`/etc/ucx/ucx.conf` may set it, in a section for some machines";
    assert_eq!(unknown.why(&task, RAILS), may);
}

#[test]
fn no_list_stands_beside_a_choice_of_nics_that_the_program_makes() {
    let mut situation = Situation {
        files: ROUTES,
        ..Situation::new(PortState::Active)
    };
    situation.step.words = vec!["sglang", "--disaggregation-ib-device"];
    assert_eq!(situation.value(&task(&[1], &[1]), "UCX_NET_DEVICES"), None);
    let why = situation.why(&task(&[1], &[1]), "UCX_NET_DEVICES");
    assert!(why.contains("SGLang ignores"), "{why}");
    for (pin, sets) in [
        ("auto", false),
        ("mlx5_0,mlx5_1", false),
        ("off", true),
        ("0", true),
        ("", true),
    ] {
        let list = ucx_beside_interfaces(&[("MX_RDMA_NIC_PIN", pin)]);
        assert_eq!(list.is_some(), sets, "`{pin}`");
    }
}

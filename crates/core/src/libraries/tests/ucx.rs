//! UCX's own rule: NICs, IP interfaces, transports, and the devices of GPUs that send by themselves.

use super::*;
use crate::placement::{GpuPlacement, RailUse};

const LIST: &str = "UCX_NET_DEVICES";
const ALL: &str = "mlx5_0:1,mlx5_1:1,mlx5_2:1";
const AROUND: &str = "mlx5_1:1,eth0,ib0,lo";

#[test]
fn a_task_may_use_the_nics_of_all_its_gpus_and_without_gpus_is_left_to_ucx() {
    assert_eq!(here().task(&[], &[0, 1]).changes(), [NCCL, NVSHMEM]);
    assert_eq!(here().gpus(&[2, 0]).value(LIST), "mlx5_2:1,mlx5_0:1");
}

#[test]
fn the_ip_interfaces_stay_ucxs_so_that_connections_by_address_work() {
    for (expected, transports) in [
        (AROUND, "|all|rc,tcp,cuda|^cuda"),
        // UCX does not use the interfaces
        ("mlx5_1:1", "rc,cuda|^tcp"),
        // UCX does not use the NICs
        ("", "^ib|tcp,cuda|sm,self"),
    ] {
        for transports in transports.split('|') {
            let situation = here().routed().env(&[&format!("UCX_TLS={transports}")]);
            assert_eq!(situation.value(LIST), expected, "`{transports}`");
        }
    }
    assert_eq!(here().routed().value(LIST), AROUND);
}

#[test]
fn an_interface_that_is_called_as_a_nic_stays_and_the_report_says_what_its_name_also_means() {
    let mut situation = here().routed();
    let plain = situation.why(LIST);
    assert!(plain.contains("and the IP interfaces"), "{plain}");
    // rdma-core's names by place: an InfiniBand NIC is called as its interface
    situation.topology.nics[0].name = "ib0".parse().unwrap();
    situation.node.rails[0].name = "ib0".parse().unwrap();
    assert_eq!(situation.value(LIST), AROUND);
    let more = situation.why(LIST).split_off(plain.len());
    assert!(more.contains(" on ib0 also means the NIC"), "{more}");
    let own = situation.gpus(&[0]).why(LIST);
    assert_eq!(own, plain, "it is in the list itself");
}

#[test]
fn no_interface_is_hidden_because_its_name_is_not_known() {
    let with = |table: &str, transports: &str| {
        let of = here().file("/proc/net/route", table);
        of.env(&[&format!("UCX_TLS={transports}")])
    };
    let table = |count: usize| {
        let line = |count: usize| format!("eth{count} 0 0 0001 0 0 0 0\n");
        format!("Iface\n{}", (0..count).map(line).collect::<String>())
    };
    assert_eq!(with(&table(1), "").value(LIST), "mlx5_1:1,eth0");
    assert_eq!(with(&format!("{}…", table(1)), "").value(LIST), "");
    assert_eq!(with("…", "rc").value(LIST), "mlx5_1:1", "it uses none");
    let most = with(&table(63), "").value(LIST);
    assert_eq!(most.split(',').count(), 64);
    let over = with(&table(64), "");
    assert_eq!(over.value(LIST), "", "UCX reads 64 items");
    over.says(LIST, "more IP interfaces than UCX");
}

#[test]
fn no_list_is_longer_than_ucx_reads_with_or_without_interfaces() {
    let mut situation = here().env(&["UCX_TLS=rc,cuda"]);
    let ports = (1..=65).map(|port| rail(NicIndex(0), "mlx5_0", port));
    situation.node.rails = ports.collect();
    let rails: Vec<usize> = (0..65).collect();
    let most = situation.clone().task(&[1], &rails[..64]).value(LIST);
    assert_eq!(most.split(',').count(), 64);
    let over = situation.task(&[1], &rails);
    assert_eq!(over.value(LIST), "");
    assert!(over.why(LIST).contains("more devices than UCX"));
}

/// These rails for each of the node's GPUs.
fn chosen(of_gpus: &[&[usize]]) -> Vec<GpuPlacement> {
    let own = |&rail: &usize| RailUse {
        rail: RailIndex(rail),
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
    of_gpus.iter().map(chosen).collect()
}

#[test]
fn gpus_that_send_by_themselves_have_devices_of_their_own() {
    const NICS: &str = "mlx5_2:1,mlx5_0:1";
    // CUDA's numbers are the task's own
    const DEVICES: &str = "mlx5_2:1,mlx5_0:1,cuda0-mlx5_2:1,cuda1-mlx5_0:1";
    let mut both = here().gpus(&[2, 0]);
    both.node.gpus = chosen(&[&[0], &[1], &[2], &[2]]);
    let place = |of: &Situation, gpu: usize, nic: usize| {
        let nic = of.topology.nics[nic].address.unwrap();
        (of.topology.gpus[gpu].address, nic)
    };
    for nth in 0..3 {
        let pair = place(&both, nth, nth);
        both.topology.stated_paths.insert(pair, PathType::Pix);
    }
    assert_eq!(both.value(LIST), NICS);
    let found = both.clone().env(&["UCX_TLS=rc,rc_gda,cuda"]).value(LIST);
    assert_eq!(found, DEVICES);
    // a program may name the transport itself after its start, as NIXL-EP does
    let driver = |words: &str| {
        let text = format!("EnableMSI: 1\nRegistryDwords: \"{words}\"\n");
        both.clone().file("/proc/driver/nvidia/params", &text)
    };
    for (tls, is_left_in, is_quiet) in [
        (&[][..], true, true),
        (&["UCX_TLS=^cuda_ipc"], true, true),
        // a list of the user's is checked
        (&["UCX_TLS=ib,cuda"], true, false),
        (&["UCX_TLS=rc,cuda"], false, false),
    ] {
        let maps_peers = driver("PeerMappingOverride=1;").env(tls);
        let expected = if is_left_in { DEVICES } else { NICS };
        assert_eq!(maps_peers.value(LIST), expected, "{tls:?}");
        let found = maps_peers.sets("UCX_WARN_INVALID_CONFIG");
        assert_eq!(found, is_quiet, "{tls:?}");
        // the driver rules it out
        assert_eq!(driver("").env(tls).value(LIST), NICS);
    }
    let mut asked = both.libraries("ucx-gda");
    assert_eq!(asked.value(LIST), DEVICES);
    asked.node.rails[2].port = 2;
    // no device for a GPU has another port
    assert_eq!(asked.value(LIST), "mlx5_2:2,mlx5_0:1,cuda1-mlx5_0:1");
    asked.node.rails[2].port = 1;
    let second = place(&asked, 2, 1);
    asked.topology.stated_paths.insert(second, PathType::Pxb);
    // UCX may pair the GPU with either
    let pairs = "mlx5_2:1,mlx5_0:1,cuda0-mlx5_2:1,cuda0-mlx5_1:1,cuda1-mlx5_0:1";
    assert_eq!(asked.value(LIST), pairs);
    assert_eq!(asked.amd().value(LIST), NICS);
}

#[test]
fn the_files_of_ucx_are_asked_wherever_ucx_reads_them() {
    let site = "# site\nUCX_NET_DEVICES=mlx5_0:1\n";
    let sets = "[section]\n UCX_NET_DEVICES = mlx5_0:1\n";
    let comments = "#UCX_NET_DEVICES=x\n;UCX_NET_DEVICES=x\nUCX_TLS=tcp ; UCX_NET_DEVICES=x\n";
    for (file, text, is_ours) in [
        ("/etc/ucx/ucx.conf", site, false),
        ("/home/me/ucx.conf", sets, false),
        ("/my/ucx/ucx.conf", sets, false),
        ("ucx.conf", sets, false),
        ("ucx.conf", "\u{feff}UCX_NET_DEVICES: mlx5_0:1", false),
        ("ucx.conf", "…", false),
        ("ucx.conf", comments, true),
        ("/home/me/.ucx.conf", sets, true),
    ] {
        let situation = here().env(&["HOME=/home/me", "UCX_CONFIG_DIR=/my/ucx"]);
        let situation = situation.file(file, text);
        assert_eq!(situation.sets(LIST), is_ours, "`{file}`: {text}");
        let why = situation.why(LIST);
        assert_eq!(why.starts_with(&format!("`{file}` ")), !is_ours, "{why}");
    }
}

#[test]
fn where_rails_are_isolated_no_task_is_held_to_one() {
    for gpu in 0..3 {
        let of = |situation: Situation| situation.fabric(Fabric::IsolatedRails).gpus(&[gpu]);
        assert_eq!(of(here()).value(LIST), ALL, "GPU {gpu}");
        assert_eq!(of(whole()).value(LIST), "", "nothing would be left out");
    }
}

/// GPU 1 of a node where GPU k has these rails, which are on these networks.
fn on_networks(layer: LinkLayer, networks: [&[&str]; 3], of_gpus: &[&[usize]]) -> Situation {
    let mut situation = here().task(&[1], of_gpus[1]);
    for (nic, networks) in networks.into_iter().enumerate() {
        let port = situation.port(nic);
        port.link_layer = layer;
        match layer {
            LinkLayer::InfiniBand => port.subnet = networks.first().map(|it| it.parse().unwrap()),
            _ => port.networks = networks.iter().map(|it| it.parse().unwrap()).collect(),
        }
    }
    situation.node.gpus = chosen(of_gpus);
    situation
}

#[test]
fn a_task_is_held_to_its_nic_only_where_ucx_connects_nics_of_different_rails() {
    use Fabric::{IsolatedRails, Routed, Unsaid};
    use LinkLayer::{Ethernet, InfiniBand};
    let own = "mlx5_1:1";
    let each: [&[&str]; 3] = [&["10.0.0.0/24"], &["10.0.1.0/24"], &["10.0.2.0/24"]];
    // UCX takes the closest route, which is the other rail's
    let wide: [&[&str]; 3] = [
        &["10.0.0.0/16", "10.0.0.0/24"],
        &["10.0.0.0/16", "10.0.1.0/24"],
        &["10.0.0.0/16", "10.0.2.0/24"],
    ];
    let one: [&[&str]; 3] = [&["10.0.0.0/16"]; 3];
    // no other node reaches an interface that has lost its address
    let lost: [&[&str]; 3] = [one[0], &[], one[0]];
    let prefix: [&[&str]; 3] = [&["fe80:0:0:0"]; 3];
    let without: [&[&str]; 3] = [prefix[0], &[], prefix[0]];
    let prefixes: [&[&str]; 3] = [prefix[0], &["fe80:0:0:1"], &["fe80:0:0:2"]];
    for (layer, networks, fabric, mode, expected) in [
        (Ethernet, one, Unsaid, "", own),
        (Ethernet, [&[][..]; 3], Unsaid, "", own),
        (Ethernet, lost, Unsaid, "", ALL),
        (Ethernet, each, Unsaid, "", ALL),
        (Ethernet, wide, Unsaid, "", ALL),
        (Ethernet, each, Unsaid, "all", own),
        (Ethernet, each, Unsaid, "route", ALL),
        (Ethernet, each, Routed, "", own),
        (Ethernet, one, IsolatedRails, "", ALL),
        (InfiniBand, without, Unsaid, "", own),
        (InfiniBand, prefix, Unsaid, "", own),
        (InfiniBand, prefixes, Unsaid, "", ALL),
        (InfiniBand, prefixes, Unsaid, "all", ALL),
        (InfiniBand, prefixes, Routed, "", own),
    ] {
        let mut of = on_networks(layer, networks, &[&[0], &[1], &[2]]).fabric(fabric);
        if !mode.is_empty() {
            of = of.env(&[&format!("UCX_IB_ROCE_REACHABILITY_MODE={mode}")]);
        }
        let case = format!("{layer} {networks:?} {fabric:?} {mode}");
        assert_eq!(of.value(LIST), expected, "{case}: {}", of.why(LIST));
    }
    let apart = on_networks(Ethernet, each, &[&[0], &[1], &[2]]);
    assert!(apart.why(LIST).contains("rails are on different subnets"));
}

#[test]
fn gpus_with_a_nic_on_each_of_two_planes_reach_each_other() {
    let planes: [&[&str]; 3] = [&["10.0.0.0/16"], &["10.1.0.0/16"], &["10.0.0.0/16"]];
    for (of_gpus, expected) in [
        ([&[0, 1][..], &[1, 2]], "mlx5_1:1,mlx5_2:1"),
        // both are on the first plane
        ([&[0, 1], &[2]], "mlx5_2:1"),
        ([&[0], &[1]], ALL),
    ] {
        let situation = on_networks(LinkLayer::Ethernet, planes, &of_gpus);
        assert_eq!(situation.value(LIST), expected, "{of_gpus:?}");
    }
}

#[test]
fn the_reason_counts_the_tasks_gpus_and_nics_and_names_what_was_added() {
    for (gpus, rails, reason) in [
        (&[1][..], &[1][..], "its GPU's NIC"),
        (&[1, 2], &[1], "the NIC that all its GPUs"),
        (&[1], &[1, 2], "the 2 NICs of its GPU"),
        (&[1, 2], &[1, 2], "the 2 NICs of its GPUs"),
    ] {
        let situation = here().task(gpus, rails);
        let alone = situation.why(LIST);
        assert!(alone.starts_with(reason), "{alone}");
        let with_interfaces = situation.routed().why(LIST);
        assert!(with_interfaces.starts_with(&format!("{alone}, and the IP interfaces")));
    }
    // the interfaces of another node are not known here; UCX uses none with `rc`
    for (transports, is_told) in [("UCX_TLS=all", true), ("UCX_TLS=rc", false)] {
        let mut planned = here().env(&[transports]);
        planned.topology.provenance = Provenance::Model("m".to_string());
        let why = planned.why(LIST);
        let both = ["IP interfaces are added", "`UCX_SOCKADDR_TLS_PRIORITY`"];
        assert_eq!(both.map(|part| why.contains(part)), [is_told; 2], "{why}");
        assert!(why.starts_with("its GPU's NIC"), "{why}");
    }
}

#[test]
fn a_list_is_set_where_it_keeps_the_task_from_a_nic_and_nowhere_else() {
    let mut situation = whole();
    assert!(situation.clone().gpus(&[2, 0]).sets(LIST), "two of three");
    let all = situation.clone().task(&[2, 0], &[2, 1, 0]);
    assert!(!all.sets(LIST), "all three");
    situation = situation.gpus(&[0]);
    situation.node.rails.truncate(1);
    assert_eq!(situation.value(LIST), "mlx5_0:1");
    situation.topology.nics.truncate(1);
    assert!(!situation.sets(LIST), "UCX finds no other");
}

#[test]
fn a_gpu_with_more_nics_than_two_gets_as_many_rails_on_request() {
    const RAILS: &str = "UCX_MAX_RNDV_RAILS";
    let with = |each: u8, gpus: &[usize]| {
        let mut situation = model("dgx-h100", &[], 0).routed();
        let mut wish = situation.wish.clone();
        wish.nics_per_task = crate::placement::NicsEach::Number(each);
        let node = policy::map(&situation.topology, &wish);
        let choices = gpus.iter().flat_map(|&gpu| &node.gpus[gpu].choices);
        let rails: Vec<usize> = choices.map(|choice| choice.rail.0).collect();
        situation.node = node;
        situation.task(gpus, &rails)
    };
    for (each, gpus, expected) in [
        (1, &[0][..], ""),
        (1, &[0, 1, 2, 3], ""),
        (2, &[0], ""),
        (3, &[0], "3"),
        (4, &[0, 7], "4"),
        (6, &[0], "4"),
    ] {
        let situation = with(each, gpus);
        assert_eq!(situation.value(RAILS), "", "never by default");
        let asked = situation.libraries("ucx-rails").value(RAILS);
        assert_eq!(asked, expected, "{each} for each of {gpus:?}");
    }
    let by_default = with(4, &[0]);
    assert!(by_default.why(LIST).contains("two without `env=ucx-rails`"));
    let asked = by_default.libraries("ucx-rails");
    let conf = |text: &str| asked.clone().file("/etc/ucx/ucx.conf", text);
    // UCX 1.22 ships a section for other machines
    let shipped = "[Vera Rubin]\nCPU model=Vera\nUCX_MAX_RNDV_RAILS=4\nUCX_MAX_RMA_RAILS=4\n";
    let intel = |of: Situation| of.file("/proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
    for (situation, messages, one_sided) in [
        // NIXL sends one-sided
        (asked.clone(), "4", "4"),
        (asked.clone().env(&["UCX_MAX_RNDV_LANES=2"]), "", "4"),
        (asked.clone().env(&["UCX_MAX_RMA_LANES=2"]), "4", ""),
        (conf("UCX_MAX_RNDV_RAILS=2\n"), "", "4"),
        (intel(conf(shipped)), "4", "4"),
        (conf(shipped), "", ""),
    ] {
        let values = [RAILS, "UCX_MAX_RMA_RAILS"].map(|name| situation.value(name));
        assert_eq!(values, [messages, one_sided], "{:?}", situation.present);
    }
    assert!(conf(shipped).why(RAILS).contains("may set it, in a"));
}

#[test]
fn no_list_stands_beside_a_choice_of_nics_that_the_program_makes() {
    let mut situation = here().routed();
    situation.step.words = vec!["sglang", "--disaggregation-ib-device"];
    assert_eq!(situation.value(LIST), "");
    situation.says(LIST, "SGLang ignores");
    for (pins, is_set) in [("auto|mlx5_0,mlx5_1", false), ("off|0|", true)] {
        for pin in pins.split('|') {
            let pinned = here().routed().env(&[&format!("MX_RDMA_NIC_PIN={pin}")]);
            assert_eq!(pinned.sets(LIST), is_set, "`{pin}`");
        }
    }
}

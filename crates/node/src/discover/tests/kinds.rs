//! Devices and CPUs of which a driver says what others do not.

use super::*;
use std::collections::BTreeSet;

#[test]
fn a_gpu_that_nvidias_driver_was_told_to_leave_out_is_none_and_does_not_count() {
    let machine = synthesise(&h100());
    let place = "proc/driver/nvidia/gpus/0000:1b:00.0/information";
    let Some(Entry::File(text)) = machine.get(place) else {
        panic!("no `{place}`")
    };
    for scope in [Scope::Placement, Scope::Full] {
        let found = |excluded: &str| {
            let mut machine = machine.clone();
            let text = format!("{place}={text}\nGPU Excluded:\t {excluded}");
            add(&mut machine, [text]);
            read(machine, scope).0.gpus
        };
        let (all, others) = (found("No"), found("Yes"));
        assert_eq!((all.len(), others.len()), (8, 7), "{scope:?}");
        assert_eq!(others[0], all[1], "CUDA's device 0 is the next one");
    }
}

#[test]
fn a_function_is_a_gpu_by_its_class_maker_and_driver() {
    for (vendor, class, driver, is_gpu) in rows! {
        "0x10de", "0x030200", None, true; "0x1002", "0x120000", None, true;
        // a Data Center GPU Max
        "0x8086", "0x038000", None, true;
        // an FPGA: Intel's PAC D5005 is 8086:0b2b
        "0x8086", "0x120000", None, false; "0x10de", "0x030200", Some("nouveau"), true;
        // kept for a virtual machine
        "0x10de", "0x030200", Some("vfio-pci"), false;
        "0x10de", "0x030200", Some("nvgrace_gpu_vfio_pci"), false;
        "0x10de", "0x030200", Some("xe-vfio-pci"), false;
        "0x10de", "0x030200", Some("pci-stub"), false;
    } {
        let place = "devices/pci0000:80/0000:80:01.0/0000:81:00.0";
        let mut tree = tree([
            format!("sys/{place}/class={class}"),
            format!("sys/{place}/vendor={vendor}"),
            format!("sys/bus/pci/devices/0000:81:00.0 -> ../../../{place}"),
        ]);
        let link = |driver| format!("sys/{place}/driver -> ../../../../bus/pci/drivers/{driver}");
        add(&mut tree, driver.map(link));
        let gpus = read(tree, Scope::Placement).0.gpus.len();
        assert_eq!(gpus == 1, is_gpu, "{vendor} {class} {driver:?}");
    }
    // an Intel card of a display's class, beside the graphics of a CPU
    let mut tree = Manifest::default();
    for place in [
        "pci0000:00/0000:00:02.0",
        "pci0000:80/0000:80:01.0/0000:84:00.0/0000:85:01.0/0000:86:00.0",
    ] {
        let (_, address) = place.rsplit_once('/').unwrap();
        let (bus, to) = ("sys/bus/pci", format!("../../../devices/{place}"));
        add(
            &mut tree,
            [
                format!("sys/devices/{place}/class=0x030000"),
                format!("{bus}/devices/{address} -> {to}"),
                format!("{bus}/drivers/xe/{address} -> ../{to}"),
            ],
        );
    }
    let (found, said) = read(tree, Scope::Placement);
    let gpus = texts(found.gpus.iter().map(|gpu| gpu.address));
    assert_eq!((gpus, said), (vec!["0000:86:00.0".to_string()], vec![]));
}

#[test]
fn a_port_whose_state_cannot_be_read_is_a_port_that_does_not_work_and_keeps_its_place() {
    // the firmware does not answer: a read is an error
    let port = format!("{MLX5_0}/infiniband/mlx5_0/ports/1");
    let silent = ["state", "rate", "phys_state"].map(|name| format!("{port}/{name}"));
    let (whole, _) = spoiled(&[]);
    let (node, said) = spoiled(&silent);
    assert_eq!(said, [""; 0]);
    assert_eq!(node.nics[0].ports.len(), whole.nics[0].ports.len());
    assert_eq!(node.nics[0].ports[0].state, PortState::Unknown);
    // the other rails keep their numbers
    assert_eq!(texts(map(&node).broken), ["mlx5_0:1"]);
}

/// A device below the function of `mlx5_0` beside it, with a port for each of these folders of GIDs.
fn beside(tree: &mut Manifest, name: &str, ports: &[Option<&str>]) {
    let device = format!("{MLX5_0}/infiniband/{name}");
    let link = format!("sys/class/infiniband/{name} -> ../../../{device}");
    add(tree, [link]);
    for (port, gid) in (1..).zip(ports) {
        let port = format!("{device}/ports/{port}");
        let files = "state=4: ACTIVE|link_layer=Ethernet|rate=400 Gb/sec (4X NDR)";
        add(tree, files.split('|').map(|file| format!("{port}/{file}")));
        match gid {
            Some(gid) => add(tree, [format!("{port}/gids/0={gid}")]),
            None => tree.insert(&format!("{port}/gids"), Entry::Directory),
        }
    }
}

#[test]
fn a_port_over_ethernet_with_a_table_of_no_gids_is_no_port() {
    let mut tree = synthesise(&h100());
    // a representor's has no files, and an empty place in a table is a file of zeros
    let zeros = Some("0000:0000:0000:0000:0000:0000:0000:0000");
    beside(&mut tree, "roceo1", &[None, zeros, None]);
    for scope in [Scope::Placement, Scope::Full] {
        let (found, snapshot) = recorded(&tree, scope);
        let ports = nic(&found, "roceo1").ports.iter();
        let numbers: Vec<u8> = ports.map(|port| port.number).collect();
        assert_eq!(numbers, [2], "{scope:?}");
        assert!(again(&snapshot, scope) == found, "from a snapshot");
    }
}

#[test]
fn two_devices_below_one_function_have_each_its_own_character_device() {
    let mut tree = synthesise(&h100());
    let gid = Some("fe80:0000:0000:0000:0000:0000:0000:0001");
    beside(&mut tree, "manae_0", &[gid]);
    let verbs = format!("{MLX5_0}/infiniband_verbs");
    for (uverbs, device) in [("uverbs0", "mlx5_0"), ("uverbs99", "manae_0")] {
        let target = format!("../../../{verbs}/{uverbs}");
        let link = format!("sys/class/infiniband_verbs/{uverbs} -> {target}");
        let ibdev = format!("{verbs}/{uverbs}/ibdev={device}");
        add(&mut tree, [ibdev, link]);
    }
    for scope in [Scope::Placement, Scope::Full] {
        let (found, _) = read(tree.clone(), scope);
        let both = ["mlx5_0", "manae_0"].map(|name| nic(&found, name).uverbs.as_deref());
        assert_eq!(both, [Some("uverbs0"), Some("uverbs99")], "{scope:?}");
    }
}

#[test]
fn no_step_waits_for_the_lock_of_all_interfaces() {
    let machine = synthesise(&crate::platform::model("frontier").unwrap());
    for scope in SCOPES {
        let (_, snapshot) = recorded(&machine, scope);
        // `carrier` wants it too, since Linux 6.8
        let waits = |path: &str| path.ends_with("/speed") || path.ends_with("/carrier");
        let any_waits = snapshot.iter().any(|(path, _)| waits(path));
        assert_eq!(any_waits, scope == Scope::Full, "{scope:?}");
    }
}

#[test]
fn a_step_counts_virtual_functions_by_their_links_since_their_number_waits_for_the_devices_lock() {
    let number = format!("{MLX5_0}/sriov_numvfs");
    let mut tree = synthesise(&h100());
    add(&mut tree, [format!("{number}=3")]);
    let link = |nth| format!("{MLX5_0}/virtfn{nth} -> ../0000:18:00.{}", nth + 1);
    add(&mut tree, (0..3).map(link));
    for scope in [Scope::Placement, Scope::Full] {
        let (found, snapshot) = recorded(&tree, scope);
        let address = nic(&found, "mlx5_0").address.unwrap();
        assert_eq!(found.pci.get(address).unwrap().vfs, Some(3), "{scope:?}");
        let is_read = snapshot.get(&number).is_some();
        assert_eq!(is_read, scope == Scope::Full, "{scope:?}");
        let is_right = read(snapshot, scope).0 == found;
        assert!(is_right, "from a snapshot, {scope:?}");
    }
}

/// Adds the present and the highest speed of a link of 16 lanes.
fn link(tree: &mut Manifest, folder: &str, present: &str, highest: &str) {
    for (which, speed) in [("current", present), ("max", highest)] {
        let speed = format!("{folder}/{which}_link_speed={speed} GT/s PCIe");
        add(tree, [speed, format!("{folder}/{which}_link_width=16")]);
    }
}

#[test]
fn a_gpu_that_idles_has_the_ways_that_it_has_at_work() {
    let machine = synthesise(&h100());
    let mut idle = machine.clone();
    let bridge = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0";
    link(&mut idle, bridge, "2.5", "32.0");
    link(&mut idle, &format!("{bridge}/0000:1b:00.0"), "2.5", "32.0");
    let [gpu, nic] = ["0000:1b:00.0", "0000:18:00.0"].map(|at| at.parse::<PciAddress>().unwrap());
    for scope in [Scope::Placement, Scope::Full] {
        let slowest = [&machine, &idle].map(|machine| {
            let (found, _) = read(machine.clone(), scope);
            found.way(gpu, nic).links.iter().map(|link| link.mbps).min()
        });
        assert!(slowest[0].is_some());
        assert_eq!(slowest[0], slowest[1], "{scope:?}");
    }
}

#[test]
fn a_card_with_a_switch_of_its_own_slows_the_link_above_that_down() {
    // another maker's switch runs slowly
    for (vendor, expected) in [("0x1002", 252_061), ("0x1000", 32_000)] {
        let place = "pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0";
        let mut tree = tree([
            format!("sys/bus/pci/devices/0000:03:00.0 -> ../../../devices/{place}"),
            format!("sys/bus/pci/drivers/amdgpu/0000:03:00.0 -> ../../../../devices/{place}"),
        ]);
        let mut at = "sys/devices".to_string();
        for (part, speed) in place.split('/').zip(["0.0", "2.5", "2.5", "16.0", "16.0"]) {
            at = format!("{at}/{part}");
            let (vendor, class) = match part {
                "0000:03:00.0" => ("0x1002", "0x038000"),
                _ => (vendor, "0x060400"),
            };
            let vendor = format!("{at}/vendor={vendor}");
            add(&mut tree, [vendor, format!("{at}/class={class}")]);
            link(&mut tree, &at, speed, "16.0");
        }
        for scope in [Scope::Placement, Scope::Full] {
            let (found, said) = read(tree.clone(), scope);
            assert_eq!((found.gpus.len(), said), (1, vec![]));
            let ascent = found.ascent(found.gpus[0].address);
            let slowest = ascent.links().iter().flatten().map(|(_, mbps)| *mbps).min();
            assert_eq!(slowest, Some(expected), "{vendor} {scope:?}");
        }
    }
}

#[test]
fn a_port_whose_interface_a_container_has_is_known_from_one_whose_interface_is_here() {
    let model = crate::platform::model("oci-bm-gpu-h100-8").unwrap();
    for (ndev, net, is_away) in [
        ("net1", &[][..], true),
        // a name that has just changed
        ("net1", &["rdma0"], false),
        // a bond's
        ("bond0", &[], false),
    ] {
        let mut made = model.clone();
        for nic in &mut made.nics {
            nic.netdevs = texts(net);
            let ports = nic.ports.iter_mut();
            ports.for_each(|port| port.netdev = Some(ndev.to_string()));
        }
        let mut tree = synthesise(&made);
        let bond = "sys/class/net/bond0 -> ../../devices/virtual/net/bond0";
        add(&mut tree, ["proc/net/route=Iface", bond]);
        for scope in [Scope::Placement, Scope::Full] {
            let nics = read(tree.clone(), scope).0.nics;
            let ports = nics.iter().flat_map(|nic| &nic.ports);
            let roce = ports.filter(|port| port.link_layer == LinkLayer::Ethernet);
            let away: BTreeSet<bool> = roce.map(|port| port.other_namespace).collect();
            assert_eq!(away, [is_away].into(), "{ndev} {net:?}, {scope:?}");
        }
    }
}

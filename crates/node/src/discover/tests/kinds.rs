//! Devices and CPUs of which a driver says what others do not.

use super::*;
use std::collections::BTreeSet;

#[test]
fn a_gpu_that_nvidias_driver_was_told_to_leave_out_is_none_and_does_not_count() {
    let machine = synthesise(&crate::platform::model("dgx-h100").unwrap());
    let place = "proc/driver/nvidia/gpus/0000:1b:00.0/information";
    let Some(Entry::File(text)) = machine.get(place) else {
        panic!("no `{place}`")
    };
    for scope in [Scope::Placement, Scope::Full] {
        let found = |excluded: &str| {
            let mut machine = machine.clone();
            machine.insert(
                place,
                Entry::File(format!("{text}\nGPU Excluded:\t {excluded}")),
            );
            read(machine, scope).0.gpus
        };
        let (all, others) = (found("No"), found("Yes"));
        assert_eq!((all.len(), others.len()), (8, 7), "{scope:?}");
        assert_eq!(others[0], all[1], "CUDA's device 0 is the next one");
    }
}

#[test]
fn an_intel_card_of_a_displays_class_is_a_gpu_and_the_graphics_of_a_cpu_are_none() {
    let mut tree = Manifest::default();
    for (address, place) in [
        ("0000:00:02.0", "pci0000:00/0000:00:02.0"),
        (
            "0000:86:00.0",
            "pci0000:80/0000:80:01.0/0000:84:00.0/0000:85:01.0/0000:86:00.0",
        ),
    ] {
        tree.insert(
            &format!("sys/devices/{place}/class"),
            Entry::File("0x030000".to_string()),
        );
        for (class, up) in [("devices", "../../.."), ("drivers/xe", "../../../..")] {
            let link = Entry::Link(format!("{up}/devices/{place}"));
            tree.insert(&format!("sys/bus/pci/{class}/{address}"), link);
        }
    }
    let (found, said) = read(tree, Scope::Placement);
    let gpus: Vec<String> = found
        .gpus
        .iter()
        .map(|gpu| gpu.address.to_string())
        .collect();
    assert_eq!((gpus, said), (vec!["0000:86:00.0".to_string()], vec![]));
}

#[test]
fn an_accelerator_on_the_bus_is_a_gpu_only_if_its_maker_has_gpus_of_that_class() {
    let found = |vendor: &str, class: &str| {
        let mut tree = Manifest::default();
        let place = "devices/pci0000:80/0000:80:01.0/0000:81:00.0";
        for (name, text) in [("class", class), ("vendor", vendor)] {
            tree.insert(
                &format!("sys/{place}/{name}"),
                Entry::File(text.to_string()),
            );
        }
        tree.insert(
            "sys/bus/pci/devices/0000:81:00.0",
            Entry::Link(format!("../../../{place}")),
        );
        read(tree, Scope::Placement).0.gpus.len()
    };
    assert_eq!(
        found("0x8086", "0x120000"),
        0,
        "an FPGA: Intel's PAC D5005 is 8086:0b2b"
    );
    assert_eq!(found("0x1002", "0x120000"), 1, "an MI300X");
    assert_eq!(found("0x8086", "0x038000"), 1, "a Data Center GPU Max");
}

#[test]
fn a_gpu_that_is_kept_for_a_virtual_machine_is_none_of_this_system() {
    let found = |driver: Option<&str>| {
        let mut tree = Manifest::default();
        let place = "devices/pci0000:80/0000:80:01.0/0000:81:00.0";
        let mut file = |name: &str, text: &str| {
            tree.insert(
                &format!("sys/{place}/{name}"),
                Entry::File(text.to_string()),
            );
        };
        file("class", "0x030200");
        file("vendor", "0x10de");
        tree.insert(
            "sys/bus/pci/devices/0000:81:00.0",
            Entry::Link(format!("../../../{place}")),
        );
        if let Some(driver) = driver {
            let link = Entry::Link(format!("../../../../bus/pci/drivers/{driver}"));
            tree.insert(&format!("sys/{place}/driver"), link);
        }
        read(tree, Scope::Placement).0.gpus.len()
    };
    for driver in [
        "vfio-pci",
        "nvgrace_gpu_vfio_pci",
        "xe-vfio-pci",
        "pci-stub",
    ] {
        assert_eq!(found(Some(driver)), 0, "{driver}");
    }
    assert_eq!(
        (found(None), found(Some("nouveau"))),
        (1, 1),
        "nobody has given it away"
    );
}

#[test]
fn cores_are_known_where_the_kernel_does_not_know_their_packages() {
    let mut tree = Manifest::default();
    for (cpu, core) in [(0, 0), (1, 0), (2, 8), (3, 8)] {
        let at = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        tree.insert(
            &format!("{at}/physical_package_id"),
            Entry::File("-1".to_string()),
        );
        tree.insert(&format!("{at}/core_id"), Entry::File(core.to_string()));
    }
    for scope in [Scope::Cores, Scope::Full] {
        let cores = read(tree.clone(), scope).0.cores();
        assert_eq!(
            cores.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["0-1", "2-3"],
            "{scope:?}"
        );
    }
}

#[test]
fn a_port_whose_state_cannot_be_read_is_a_port_that_does_not_work_and_keeps_its_place() {
    let port = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/infiniband/mlx5_0/ports/1";
    // the firmware does not answer: what asks it is an error
    let silent = ["state", "rate", "phys_state"].map(|name| (format!("{port}/{name}"), None));
    let silent: Vec<(&str, Option<Entry>)> = silent
        .iter()
        .map(|(path, no)| (path.as_str(), no.clone()))
        .collect();
    let (whole, _) = spoiled(&[]);
    let (node, said) = spoiled(&silent);
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(node.nics[0].ports.len(), whole.nics[0].ports.len());
    assert_eq!(node.nics[0].ports[0].state, PortState::Unknown);
    let request = nic_placement_core::wish::Wish::default();
    let broken: Vec<String> = nic_placement_core::policy::map(&node, &request)
        .broken
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(broken, ["mlx5_0:1"], "the other rails keep their numbers");
}

/// A device below the function of `mlx5_0` beside it, with a port for each of these folders of GIDs.
fn beside(tree: &mut Manifest, name: &str, ports: &[Option<&str>]) {
    let function = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";
    let device = format!("{function}/infiniband/{name}");
    let link = Entry::Link(format!("../../devices/{device}"));
    tree.insert(&format!("sys/class/infiniband/{name}"), link);
    for (port, gid) in (1..).zip(ports) {
        let port = format!("sys/devices/{device}/ports/{port}");
        for (name, text) in [
            ("state", "4: ACTIVE"),
            ("link_layer", "Ethernet"),
            ("rate", "400 Gb/sec (4X NDR)"),
        ] {
            tree.insert(&format!("{port}/{name}"), Entry::File(text.to_string()));
        }
        match gid {
            Some(gid) => tree.insert(&format!("{port}/gids/0"), Entry::File(gid.to_string())),
            None => tree.insert(&format!("{port}/gids"), Entry::Directory),
        }
    }
}

#[test]
fn a_port_over_ethernet_with_a_table_of_no_gids_is_no_port() {
    let mut tree = synthesise(&crate::platform::model("dgx-h100").unwrap());
    // a representor's has no files, and an empty place in a table is a file of zeros
    let zeros = Some("0000:0000:0000:0000:0000:0000:0000:0000");
    beside(&mut tree, "roceo1", &[None, zeros, None]);
    for scope in [Scope::Placement, Scope::Full] {
        let mut root = Root::manifest(tree.clone());
        root.record();
        let (found, _) = discover(&root, scope, Provenance::ThisSystem);
        let nic = found.nics.iter().find(|nic| nic.name == "roceo1").unwrap();
        assert_eq!(
            nic.ports.iter().map(|port| port.number).collect::<Vec<_>>(),
            [2],
            "{scope:?}"
        );
        let recorded = Manifest::parse(&root.recorded().to_string()).unwrap();
        assert!(read(recorded, scope).0 == found, "from a snapshot");
    }
}

#[test]
fn two_devices_below_one_function_have_each_its_own_character_device() {
    let mut tree = synthesise(&crate::platform::model("dgx-h100").unwrap());
    beside(
        &mut tree,
        "manae_0",
        &[Some("fe80:0000:0000:0000:0000:0000:0000:0001")],
    );
    let place =
        "devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0/infiniband_verbs";
    for (uverbs, device) in [("uverbs0", "mlx5_0"), ("uverbs99", "manae_0")] {
        tree.insert(
            &format!("sys/{place}/{uverbs}/ibdev"),
            Entry::File(device.to_string()),
        );
        let link = Entry::Link(format!("../../{place}/{uverbs}"));
        tree.insert(&format!("sys/class/infiniband_verbs/{uverbs}"), link);
    }
    for scope in [Scope::Placement, Scope::Full] {
        let (found, _) = read(tree.clone(), scope);
        let uverbs = |name: &str| {
            found
                .nics
                .iter()
                .find(|nic| nic.name == *name)
                .unwrap()
                .uverbs
                .clone()
        };
        let both = [uverbs("mlx5_0"), uverbs("manae_0")].map(Option::unwrap_or_default);
        assert_eq!(both, ["uverbs0", "uverbs99"], "{scope:?}");
    }
}

#[test]
fn no_step_waits_for_the_lock_of_all_interfaces() {
    let machine = synthesise(&crate::platform::model("frontier").unwrap());
    let asks = |scope: Scope| {
        let mut root = Root::manifest(machine.clone());
        root.record();
        discover(&root, scope, Provenance::ThisSystem);
        let recorded = root.recorded();
        // `carrier` wants it too, since Linux 6.8
        recorded.iter().any(|(path, _)| {
            ["/speed", "/carrier"]
                .iter()
                .any(|file| path.ends_with(file))
        })
    };
    assert!(
        [Scope::Placement, Scope::Selection, Scope::Cores]
            .into_iter()
            .all(|scope| !asks(scope))
    );
    assert!(asks(Scope::Full));
}

#[test]
fn a_step_counts_virtual_functions_by_their_links_since_their_number_waits_for_the_devices_lock() {
    let function = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";
    let mut tree = synthesise(&crate::platform::model("dgx-h100").unwrap());
    tree.insert(
        &format!("{function}/sriov_numvfs"),
        Entry::File("3".to_string()),
    );
    for nth in 0..3 {
        let link = Entry::Link(format!("../0000:18:00.{}", nth + 1));
        tree.insert(&format!("{function}/virtfn{nth}"), link);
    }
    for scope in [Scope::Placement, Scope::Full] {
        let mut root = Root::manifest(tree.clone());
        root.record();
        let (found, _) = discover(&root, scope, Provenance::ThisSystem);
        let nic = found.nics.iter().find(|nic| nic.name == "mlx5_0").unwrap();
        assert_eq!(
            found.pci.get(nic.address.unwrap()).unwrap().vfs,
            Some(3),
            "{scope:?}"
        );
        let recorded = root.recorded();
        let number = format!("{function}/sriov_numvfs");
        assert_eq!(
            recorded.get(&number).is_some(),
            scope == Scope::Full,
            "{scope:?}"
        );
        assert!(
            read(recorded, scope).0 == found,
            "from a snapshot, {scope:?}"
        );
    }
}

#[test]
fn a_gpu_that_idles_has_the_ways_that_it_has_at_work() {
    let model = crate::platform::model("dgx-h100").unwrap();
    let machine = synthesise(&model);
    let mut idle = machine.clone();
    let gpu = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0";
    for end in [gpu.to_string(), format!("{gpu}/0000:1b:00.0")] {
        for (file, text) in [
            ("current_link_speed", "2.5 GT/s PCIe"),
            ("current_link_width", "16"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
        ] {
            idle.insert(&format!("{end}/{file}"), Entry::File(text.to_string()));
        }
    }
    let [gpu, nic] = ["0000:1b:00.0", "0000:18:00.0"].map(|at| at.parse::<PciAddress>().unwrap());
    let slowest = |machine: &Manifest, scope| {
        let (found, _) = read(machine.clone(), scope);
        found.way(gpu, nic).links.iter().map(|link| link.mbps).min()
    };
    for scope in [Scope::Placement, Scope::Full] {
        assert!(slowest(&machine, scope).is_some());
        assert_eq!(slowest(&idle, scope), slowest(&machine, scope), "{scope:?}");
    }
}

#[test]
fn a_card_with_a_switch_of_its_own_slows_the_link_above_that_down() {
    let path = "pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0";
    let found = |vendor: &str, scope| {
        let mut tree = Manifest::default();
        let mut at = "sys/devices".to_string();
        for (part, speed) in path.split('/').zip(["", "2.5", "2.5", "16.0", "16.0"]) {
            at = format!("{at}/{part}");
            let mut file = |name: &str, text: &str| {
                tree.insert(&format!("{at}/{name}"), Entry::File(text.to_string()));
            };
            file(
                "vendor",
                if part == "0000:03:00.0" {
                    "0x1002"
                } else {
                    vendor
                },
            );
            file(
                "class",
                if part == "0000:03:00.0" {
                    "0x038000"
                } else {
                    "0x060400"
                },
            );
            for (which, speed) in [("current", speed), ("max", "16.0")] {
                file(
                    &format!("{which}_link_speed"),
                    &format!("{speed} GT/s PCIe"),
                );
                file(&format!("{which}_link_width"), "16");
            }
        }
        let link = Entry::Link(format!("../../../devices/{path}"));
        tree.insert("sys/bus/pci/devices/0000:03:00.0", link.clone());
        tree.insert(
            "sys/bus/pci/drivers/amdgpu/0000:03:00.0",
            Entry::Link(format!("../../../../devices/{path}")),
        );
        let (found, said) = read(tree, scope);
        assert_eq!((found.gpus.len(), said), (1, vec![]));
        found
            .ascent(found.gpus[0].address)
            .links()
            .iter()
            .flatten()
            .map(|(_, mbps)| *mbps)
            .min()
    };
    for scope in [Scope::Placement, Scope::Full] {
        assert_eq!(found("0x1002", scope), Some(252_061), "{scope:?}");
        assert_eq!(
            found("0x1000", scope),
            Some(32_000),
            "another maker's switch that runs slowly, {scope:?}"
        );
    }
}

#[test]
fn a_port_whose_interface_a_container_has_is_known_from_one_whose_interface_is_here() {
    let model = crate::platform::model("oci-bm-gpu-h100-8").unwrap();
    let away = |scope, ndev: &str, net: bool| {
        let mut made = model.clone();
        for nic in &mut made.nics {
            nic.netdevs = if net {
                vec!["rdma0".to_string()]
            } else {
                Vec::new()
            };
            nic.ports
                .iter_mut()
                .for_each(|port| port.netdev = Some(ndev.to_string()));
        }
        let mut tree = synthesise(&made);
        tree.insert("proc/net/route", Entry::File("Iface".to_string()));
        tree.insert(
            "sys/class/net/bond0",
            Entry::Link("../../devices/virtual/net/bond0".to_string()),
        );
        let nics = read(tree, scope).0.nics;
        let roce = nics
            .iter()
            .flat_map(|nic| &nic.ports)
            .filter(|port| port.link_layer == LinkLayer::Ethernet);
        let away: BTreeSet<bool> = roce.map(|port| port.other_namespace).collect();
        assert_eq!(away.len(), 1, "{away:?}");
        away.first().copied()
    };
    for scope in [Scope::Placement, Scope::Full] {
        assert_eq!(away(scope, "net1", false), Some(true), "{scope:?}");
        assert_eq!(
            away(scope, "net1", true),
            Some(false),
            "a name that has just changed, {scope:?}"
        );
        assert_eq!(
            away(scope, "bond0", false),
            Some(false),
            "a bond's, {scope:?}"
        );
    }
}

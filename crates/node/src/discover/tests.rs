//! Discovery against generated machines and against trees that no machine should show.

mod kinds;
mod machines;
mod planes;
mod sockets;
mod software;

use super::manifest::Entry;
use super::synthesise::synthesise;
use super::*;
use crate::way::Between;
use machines::machines;
use nic_placement_core::wish::Admin;
use nic_placement_topology::file::MAX_NUMA_NODES;
use nic_placement_topology::{
    Arch, CpuVendor, Gpu, GpuVendor, HostBridge, LinkLayer, LinkRate, Nic, NicKind, NumaNode,
    PathType, PciAddress, PciFunction, PciParent, PcieLink, Port, PortState, Processor, Pu, X86,
};
use proptest::prelude::*;

fn read(manifest: Manifest, scope: Scope) -> (Topology, Vec<Diagnostic>) {
    discover(&Root::manifest(manifest), scope, Provenance::ThisSystem)
}

/// A topology as the live bus would give it: the bus does not tell what a NIC is for.
fn as_discovered(mut topology: Topology) -> Topology {
    topology.provenance = Provenance::ThisSystem;
    topology.nics.iter_mut().for_each(|nic| nic.role = None);
    topology.stated_paths.clear();
    topology
}

#[test]
fn a_machines_name_is_one_plain_line_whatever_its_firmware_says() {
    let mut tree = Manifest::default();
    let name = format!("Box\n9000\u{1b}[2J{}", "x".repeat(2 * MAX_TEXT));
    tree.insert("sys/devices/virtual/dmi/id/product_name", Entry::File(name));
    let (node, _) = read(tree.clone(), Scope::Placement);
    assert!(
        node.name.starts_with("Box9000[2Jxxx") && node.name.len() == MAX_TEXT,
        "{}",
        node.name
    );
    tree.insert(
        "sys/devices/virtual/dmi/id/product_name",
        Entry::File("\u{7}".to_string()),
    );
    assert_eq!(read(tree, Scope::Placement).0.name, "this node");
}

#[test]
fn cores_are_read_once_for_all_their_threads_and_no_others_are_made_up() {
    let mut tree = Manifest::default();
    let mut cpu = |id: u32, core: u32, list: Option<&str>| {
        let at = format!("sys/devices/system/cpu/cpu{id}/topology");
        tree.insert(
            &format!("{at}/physical_package_id"),
            Entry::File("0".to_string()),
        );
        tree.insert(&format!("{at}/core_id"), Entry::File(core.to_string()));
        if let Some(list) = list {
            tree.insert(
                &format!("{at}/thread_siblings_list"),
                Entry::File(list.to_string()),
            );
        }
    };
    cpu(0, 0, Some("0,2"));
    // of the second thread nothing is read
    cpu(2, 9, Some("2"));
    // an older kernel, or a captured tree without the lists
    cpu(1, 1, None);
    cpu(3, 1, None);
    // text that is no list
    cpu(4, 2, Some("four"));
    let cores = |scope| {
        let cores = read(tree.clone(), scope).0.cores();
        cores.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(cores(Scope::Cores), ["0,2", "1,3", "4"]);
    assert_eq!(
        cores(Scope::Full),
        ["0", "1,3", "2", "4"],
        "each by its own files"
    );
    assert!(cores(Scope::Selection).is_empty());
}

#[test]
fn every_built_in_machine_is_discovered_as_it_was_described() {
    for model in crate::platform::MODELS {
        let described = model.topology().unwrap();
        let (found, diagnostics) = read(synthesise(&described), Scope::Full);
        assert_eq!(diagnostics, [], "{}", model.name);
        assert_eq!(found, as_discovered(described), "{}", model.name);
    }
}

#[test]
fn what_is_read_is_all_that_is_needed_to_read_it_again() {
    let machine = synthesise(&crate::platform::model("dgx-h100").unwrap());
    for scope in [Scope::Placement, Scope::Full] {
        let mut root = Root::manifest(machine.clone());
        root.record();
        let (first, _) = discover(&root, scope, Provenance::ThisSystem);
        let recorded = Manifest::parse(&root.recorded().to_string()).unwrap();
        assert_eq!(read(recorded, scope).0, first);
    }
}

#[test]
fn the_placement_scope_reads_less_and_decides_the_same() {
    let machine = synthesise(&crate::platform::model("dgx-h100").unwrap());
    let (less, _) = read(machine.clone(), Scope::Placement);
    let (full, _) = read(machine, Scope::Full);
    assert!(less.pus.is_empty() && less.nics.iter().all(|nic| nic.netdevs.is_empty()));
    for gpu in &full.gpus {
        for address in full.nics.iter().filter_map(|nic| nic.address) {
            // a link shows itself at both of its ends, and one is read
            let decisive = |topology: &Topology| {
                let way = topology.way(gpu.address, address);
                (
                    way.kind,
                    way.crossing,
                    way.links.iter().map(|link| link.mbps).min(),
                )
            };
            assert_eq!(decisive(&less), decisive(&full));
        }
        assert_eq!(
            less.numa_node_of(gpu.address),
            full.numa_node_of(gpu.address)
        );
    }
}

#[test]
fn of_numa_nodes_and_distances_no_more_are_kept_than_a_topology_file_can_hold() {
    let mut tree = Manifest::default();
    for node in 0..MAX_NUMA_NODES + 7 {
        let distances = "10 ".repeat(if node == 0 { 30_000 } else { 1 });
        tree.insert(
            &format!("sys/devices/system/node/node{node}/distance"),
            Entry::File(distances),
        );
    }
    let (topology, diagnostics) = read(tree, Scope::Placement);
    assert_eq!(topology.numa_nodes.len(), MAX_NUMA_NODES);
    assert_eq!(
        diagnostics[0].to_string(),
        "`/sys/devices/system/node`: 1031 NUMA nodes: only the first 1024 are used"
    );
    assert_eq!(
        diagnostics[1].to_string(),
        "`/sys/devices/system/node/node0/distance`: 1025 distances for 1024 nodes: not used"
    );
}

#[test]
fn a_machine_without_gpus_nics_or_anything_is_a_fact() {
    let (topology, diagnostics) = read(Manifest::default(), Scope::Full);
    assert_eq!(diagnostics, []);
    assert_eq!(
        topology,
        Topology::empty("this node", Provenance::ThisSystem)
    );
}

/// The DGX H100 with some files changed: `None` takes a file away.
fn spoiled(changes: &[(&str, Option<Entry>)]) -> (Topology, Vec<String>) {
    let machine = synthesise(&crate::platform::model("dgx-h100").unwrap());
    let mut spoiled = Manifest::default();
    for (path, entry) in machine.iter() {
        if !changes
            .iter()
            .any(|(changed, _)| path == *changed || path.starts_with(&format!("{changed}/")))
        {
            spoiled.insert(path, entry.clone());
        }
    }
    for (path, entry) in changes {
        if let Some(entry) = entry {
            spoiled.insert(path, entry.clone());
        }
    }
    let (topology, diagnostics) = read(spoiled, Scope::Placement);
    (
        topology,
        diagnostics.iter().map(ToString::to_string).collect(),
    )
}

fn file(text: &str) -> Option<Entry> {
    Some(Entry::File(text.to_string()))
}

#[test]
fn odd_files_cost_what_they_describe_and_nothing_else() {
    let switch = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0";
    let port = format!("{switch}/0000:18:00.0/infiniband/mlx5_0/ports/1");

    let (topology, diagnostics) = spoiled(&[("sys/devices/system/node/node1/cpulist", file("0-"))]);
    assert_eq!(
        diagnostics,
        [
            "`/sys/devices/system/node/node1/cpulist`: `0-` is not a set: expected a list such as `0-3,8`"
        ]
    );
    assert_eq!(topology.numa_nodes.len(), 2);

    let (topology, diagnostics) =
        spoiled(&[("sys/devices/system/node/node1/distance", file("21"))]);
    assert_eq!(
        diagnostics,
        ["`/sys/devices/system/node/node1/distance`: 1 distances for 2 nodes: not used"]
    );
    assert_eq!(topology.numa_nodes[0].distances, [10, 21]);

    let (topology, diagnostics) = spoiled(&[("sys/bus/pci/devices/0000:1b:00.0", None)]);
    assert_eq!(
        diagnostics,
        ["`/sys/bus/pci/devices/0000:1b:00.0`: no such PCI function: this GPU is left out"]
    );
    assert_eq!(topology.gpus.len(), 7);

    let elsewhere = Some(Entry::Link("../../../nowhere".into()));
    let (topology, diagnostics) = spoiled(&[("sys/class/infiniband/mlx5_0", elsewhere)]);
    assert_eq!(diagnostics, Vec::<String>::new());
    assert!(
        topology
            .nics
            .iter()
            .any(|nic| nic.name == "mlx5_0" && nic.address.is_none() && nic.ports.is_empty())
    );

    for (text, rate) in [
        (file("4x the usual"), None),
        (file("-1 Gb/sec"), None),
        (file("99999999999999999999999 Gb/sec"), None),
        (None, None),
        (file("0 Gb/sec (4X)"), Some(0)),
        (file("2.5 Gb/sec (1X SDR)"), Some(2_500)),
    ] {
        let (topology, _) = spoiled(&[(&format!("{port}/rate"), text)]);
        let nic = topology
            .nics
            .iter()
            .find(|nic| nic.name == "mlx5_0")
            .unwrap();
        assert_eq!(nic.ports[0].rate_mbps, rate);
    }
    for (text, state) in [
        ("", PortState::Unknown),
        ("5: ACTIVE_DEFER", PortState::Unknown),
        ("2: INIT", PortState::Init),
    ] {
        let (topology, _) = spoiled(&[(&format!("{port}/state"), file(text))]);
        assert_eq!(
            topology
                .nics
                .iter()
                .find(|nic| nic.name == "mlx5_0")
                .unwrap()
                .ports[0]
                .state,
            state,
            "`{text}`"
        );
    }
    let (topology, _) = spoiled(&[(&format!("{switch}/0000:18:00.0/numa_node"), file("-1"))]);
    assert_eq!(
        topology.numa_node_of("18:00.0".parse().unwrap()),
        Some(0),
        "the bridge above it knows"
    );
    assert_eq!(
        topology.path_type("1b:00.0".parse().unwrap(), "18:00.0".parse().unwrap()),
        PathType::Pix
    );
}

#[test]
fn a_name_that_would_change_a_librarys_list_is_left_out() {
    for name in ["mlx5_0,mlx5_1", "^mlx5_0", "mlx5:0", &"m".repeat(64)] {
        let device = format!("sys/devices/virtual/infiniband/{name}");
        let mut manifest = Manifest::default();
        manifest.insert(
            &format!("sys/class/infiniband/{name}"),
            Entry::Link(format!("../../../{device}")),
        );
        let (topology, diagnostics) = read(manifest, Scope::Placement);
        assert!(topology.nics.is_empty(), "`{name}`");
        assert_eq!(diagnostics.len(), 1, "`{name}`");
    }
}

#[test]
fn four_thousand_devices_are_cut_and_said() {
    let mut manifest = Manifest::default();
    for index in 0..4000 {
        let device = format!("../../devices/virtual/infiniband/rxe{index}");
        manifest.insert(
            &format!("sys/class/infiniband/rxe{index}"),
            Entry::Link(device),
        );
    }
    let (topology, diagnostics) = read(manifest, Scope::Placement);
    assert_eq!(topology.nics.len(), MAX_DEVICES);
    assert_eq!(
        diagnostics[0].to_string(),
        "`/sys/class/infiniband`: 4000 RDMA devices: only the first 256 are used"
    );
}

/// A node of two GPUs with a NIC each, and `functions` of one ConnectX-7 of this subsystem.
fn with_a_manager(fabric: NicKind, functions: u8, subsystem: Option<(u16, u16)>) -> Topology {
    let mut topology = Topology::empty("hgx", Provenance::ThisSystem);
    let mut insert = |bus: u8, function: u8, class: u32, ids: (u16, u16), subsystem| {
        let address = PciAddress {
            domain: 0,
            bus,
            device: 0,
            function,
        };
        topology.pci.insert(PciFunction {
            class: Some(class),
            vendor: Some(ids.0),
            device: Some(ids.1),
            subsystem,
            numa_node: Some(0),
            ..PciFunction::new(address, PciParent::Host(HostBridge { domain: 0, bus }))
        });
        address
    };
    let (mut gpus, mut nics) = (Vec::new(), Vec::new());
    let port = || Port::new(1, PortState::Active, LinkLayer::InfiniBand, Some(400_000));
    for gpu in 0..2 {
        gpus.push(Gpu::new(
            insert(0x10 + gpu, 0, 0x03_0200, (0x10de, 0x2901), None),
            GpuVendor::Nvidia,
        ));
        let ids = if fabric == NicKind::Efa {
            (0x1d0f, 0xefa3)
        } else {
            (0x15b3, 0x1021)
        };
        let nic = Nic::new(format!("fabric{gpu}").parse().unwrap(), fabric);
        let address = Some(insert(
            0x20 + gpu,
            0,
            0x02_0700,
            ids,
            Some((0x15b3, 0x0041)),
        ));
        nics.push(Nic {
            address,
            ports: vec![port()],
            ..nic
        });
    }
    for function in 0..functions {
        let address = Some(insert(
            0x30,
            function,
            0x02_0700,
            (0x15b3, 0x1021),
            subsystem,
        ));
        let nic = Nic::new(format!("mlx5_{function}").parse().unwrap(), NicKind::Verbs);
        nics.push(Nic {
            address,
            ports: vec![port()],
            ..nic
        });
    }
    (topology.gpus, topology.nics) = (gpus, nics);
    topology.numa_nodes.push(NumaNode {
        os_index: 0,
        cpus: (0..8).collect(),
        distances: vec![10],
        package: None,
    });
    topology.sort();
    topology
}

#[test]
fn the_functions_that_manage_nvswitches_are_known_in_every_scope_and_are_no_nics_of_the_fabric() {
    let manager = Some((0x15b3, 0x0087));
    let request = nic_placement_core::wish::Wish::default();
    for scope in [Scope::Placement, Scope::Full] {
        let found = |made: Topology| {
            let (found, _) = read(synthesise(&made), scope);
            let node = nic_placement_core::policy::map(&found, &request);
            let out = |why: &str| {
                node.excluded
                    .iter()
                    .filter(|out| out.why.contains(why))
                    .count()
            };
            (
                node.rails.len(),
                out("manages the NVSwitches"),
                found.is_left_to_libfabric(),
            )
        };
        // AWS's p6-b200: EFA is the fabric, and two functions of the manager are there
        assert_eq!(
            found(with_a_manager(NicKind::Efa, 2, manager)),
            (0, 2, true),
            "{scope:?}"
        );
        // a bare HGX B200 or B300: four functions, as fast as the fabric
        assert_eq!(
            found(with_a_manager(NicKind::Verbs, 4, manager)),
            (2, 4, false),
            "{scope:?}"
        );
        assert_eq!(
            found(with_a_manager(NicKind::Verbs, 4, Some((0x103c, 1)))),
            (2, 4, false),
            "{scope:?}"
        );
        // a card with two ports is a card
        assert_eq!(
            found(with_a_manager(NicKind::Verbs, 2, Some((0x15b3, 0x0041)))),
            (4, 0, false),
            "{scope:?}"
        );
    }
    let include = vec![nic_placement_core::policy::Pattern::parse("mlx5_0").unwrap()];
    let selection = nic_placement_core::policy::Selection {
        include,
        ..nic_placement_core::policy::Selection::default()
    };
    let wanted = nic_placement_core::wish::Wish {
        admin: Admin {
            selection: selection.clone(),
            ..Admin::default()
        },
        ..request
    };
    let node =
        nic_placement_core::policy::map(&with_a_manager(NicKind::Verbs, 4, manager), &wanted);
    assert_eq!(node.rails.len(), 1, "the admin knows better");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_generated_machine_is_discovered_as_it_was_made(made in machines()) {
        let manifest = synthesise(&made);
        let text = manifest.to_string();
        let (found, diagnostics) = read(Manifest::parse(&text).unwrap(), Scope::Full);
        prop_assert_eq!(diagnostics, vec![]);
        prop_assert_eq!(found, made);
    }

    #[test]
    fn no_text_is_too_odd_to_be_answered(text in "(# nic-placement machine 1\n)?(sys|proc|/|\\.\\.|[a-z=>| -]|\n){0,60}") {
        if let Ok(manifest) = Manifest::parse(&text) {
            let again = Manifest::parse(&manifest.to_string());
            prop_assert!(again.is_ok());
            read(manifest, Scope::Full);
        }
    }
}

#[test]
fn the_kernels_words_for_a_processor_are_read_and_written() {
    let intel = X86 {
        vendor: CpuVendor::Intel,
        family: 6,
        model: 0x8f,
    };
    for (text, expected) in [
        (
            "cpu:type:x86,ven0000fam0006mod008F:feature:",
            Some(Processor {
                arch: Arch::X86,
                x86: Some(intel),
            }),
        ),
        (
            "cpu:type:aarch64:feature:",
            Some(Processor {
                arch: Arch::Arm,
                x86: None,
            }),
        ),
        (
            "cpu:type:ppc64le:feature:",
            Some(Processor {
                arch: Arch::Power,
                x86: None,
            }),
        ),
        ("cpu:type:s390:feature:", None),
        ("x86", None),
    ] {
        let found = Processor::from_modalias(&format!("{text},0000,0001"));
        assert_eq!(found, expected, "{text}");
        if let Some(processor) = found {
            assert_eq!(synthesise::modalias(&processor), text);
        }
    }
    let unknown = Processor::from_modalias("cpu:type:x86,ven00FFfam0006mod008F:feature:").unwrap();
    assert_eq!(
        unknown,
        Processor {
            arch: Arch::X86,
            x86: None
        }
    );
    assert_eq!(CpuVendor::Zhaoxin.to_string(), "  Shanghai  ");
}

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
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::policy::{self, Pattern};
use nic_placement_core::wish::Wish;
use nic_placement_topology::file::MAX_NUMA_NODES;
use nic_placement_topology::{
    Arch, CpuSet, CpuVendor, Gpu, GpuVendor, HostBridge, LinkLayer, Nic, NicKind, NumaNode,
    PathType, PciAddress, PciFunction, PciParent, PcieLink, Port, PortState, Processor, Pu, X86,
};
use proptest::prelude::*;

const SCOPES: [Scope; 4] = {
    use Scope::*;
    [Placement, Selection, Cores, Full]
};

fn h100() -> Topology {
    crate::platform::model("dgx-h100").unwrap()
}

/// The folder of a DGX H100's `mlx5_0`.
pub(super) const MLX5_0: &str =
    "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";

/// Adds a file (`PATH=TEXT`) or a link (`PATH -> TARGET`) for each entry.
pub(super) fn add<T: AsRef<str>>(tree: &mut Manifest, entries: impl IntoIterator<Item = T>) {
    for entry in entries {
        let entry = entry.as_ref();
        match entry.split_once(" -> ") {
            Some((path, target)) => tree.insert(path, Entry::Link(target.to_string())),
            None => {
                let (path, text) = entry.split_once('=').unwrap();
                tree.insert(path, Entry::File(text.to_string()));
            }
        }
    }
}

fn tree<T: AsRef<str>>(entries: impl IntoIterator<Item = T>) -> Manifest {
    let mut tree = Manifest::default();
    add(&mut tree, entries);
    tree
}

/// The node, and all that was read of the tree.
fn recorded(tree: &Manifest, scope: Scope) -> (Topology, Manifest) {
    let mut root = Root::manifest(tree.clone());
    root.record();
    let (found, _) = discover(&root, scope, Provenance::ThisSystem);
    (found, root.recorded())
}

/// The node from a snapshot of that.
fn again(snapshot: &Manifest, scope: Scope) -> Topology {
    read(Manifest::parse(&snapshot.to_string()).unwrap(), scope).0
}

pub(super) fn nic<'t>(topology: &'t Topology, name: &str) -> &'t Nic {
    topology.nics.iter().find(|nic| nic.name == *name).unwrap()
}

pub(super) fn map(topology: &Topology) -> NodePlacement {
    policy::map(topology, &Wish::default())
}

pub(super) fn texts<T: ToString>(found: impl IntoIterator<Item = T>) -> Vec<String> {
    found.into_iter().map(|one| one.to_string()).collect()
}

pub(super) fn read(manifest: Manifest, scope: Scope) -> (Topology, Vec<Diagnostic>) {
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
    let long = format!("Box\n9000\u{1b}[2J{}", "x".repeat(2 * MAX_TEXT));
    let name = |text: &str| {
        let product = format!("sys/devices/virtual/dmi/id/product_name={text}");
        read(tree([product]), Scope::Placement).0.name
    };
    assert!(name(&long).starts_with("Box9000[2Jxxx"));
    assert_eq!(name(&long).len(), MAX_TEXT);
    assert_eq!(name("\u{7}"), "this node");
}

#[test]
fn cores_are_read_once_for_all_their_threads_and_no_others_are_made_up() {
    let mut tree = Manifest::default();
    for (id, package, core, list) in rows! {
        0, 0, 0, Some("0,2");
        // of the second thread nothing is read
        2, 0, 9, Some("2");
        // an older kernel, or a captured tree without the lists
        1, 0, 1, None; 3, 0, 1, None;
        // text that is no list
        4, 0, 2, Some("four");
        // the kernel does not know their package
        5, -1, 8, None; 6, -1, 8, None;
    } {
        let at = format!("sys/devices/system/cpu/cpu{id}/topology");
        let list = list.map(|list| format!("{at}/thread_siblings_list={list}"));
        let [package, core] = [("physical_package_id", package), ("core_id", core)]
            .map(|(name, number)| format!("{at}/{name}={number}"));
        add(&mut tree, [package, core].into_iter().chain(list));
    }
    let cores = |scope| texts(read(tree.clone(), scope).0.cores());
    assert_eq!(cores(Scope::Cores), ["0,2", "1,3", "4", "5-6"]);
    // each by its own files
    assert_eq!(cores(Scope::Full), ["0", "1,3", "2", "4", "5-6"]);
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
fn all_that_is_read_is_enough_to_read_it_again() {
    let machine = synthesise(&h100());
    for scope in [Scope::Placement, Scope::Full] {
        let (first, snapshot) = recorded(&machine, scope);
        assert_eq!(again(&snapshot, scope), first);
    }
}

#[test]
fn the_placement_scope_reads_less_and_decides_the_same() {
    let machine = synthesise(&h100());
    let (less, _) = read(machine.clone(), Scope::Placement);
    let (full, _) = read(machine, Scope::Full);
    assert!(less.pus.is_empty() && less.nics.iter().all(|nic| nic.netdevs.is_empty()));
    for gpu in &full.gpus {
        for address in full.nics.iter().filter_map(|nic| nic.address) {
            // a link shows itself at both of its ends, and one is read
            let decisive = |topology: &Topology| {
                let way = topology.way(gpu.address, address);
                let slowest = way.links.iter().map(|link| link.mbps).min();
                (way.kind, way.crossing, slowest)
            };
            assert_eq!(decisive(&less), decisive(&full));
        }
        let node = |topology: &Topology| topology.numa_node_of(gpu.address);
        assert_eq!(node(&less), node(&full));
    }
}

#[test]
fn of_numa_nodes_distances_and_devices_no_more_are_kept_than_a_topology_file_can_hold() {
    let distances = |node: usize| {
        let text = "10 ".repeat(if node == 0 { 30_000 } else { 1 });
        format!("sys/devices/system/node/node{node}/distance={text}")
    };
    let nodes = tree((0..MAX_NUMA_NODES + 7).map(distances));
    let (topology, diagnostics) = read(nodes, Scope::Placement);
    assert_eq!(topology.numa_nodes.len(), MAX_NUMA_NODES);
    let diagnostics = texts(diagnostics);
    assert!(diagnostics[0].starts_with("`/sys/devices/system/node`: 1031 NUMA nodes"));
    let start = "`/sys/devices/system/node/node0/distance`: 1025 distances";
    assert!(diagnostics[1].starts_with(start));
    let device = |nth| {
        let target = format!("../../devices/virtual/infiniband/rxe{nth}");
        format!("sys/class/infiniband/rxe{nth} -> {target}")
    };
    let (topology, diagnostics) = read(tree((0..4000).map(device)), Scope::Placement);
    assert_eq!(topology.nics.len(), MAX_DEVICES);
    let start = "`/sys/class/infiniband`: 4000 RDMA devices: only";
    assert!(texts(diagnostics)[0].starts_with(start));
}

#[test]
fn a_machine_without_gpus_nics_or_anything_is_a_fact() {
    let (topology, diagnostics) = read(Manifest::default(), Scope::Full);
    assert_eq!(diagnostics, []);
    let found = topology;
    assert_eq!(found, Topology::empty("this node", Provenance::ThisSystem));
}

/// The DGX H100 with some files changed (`PATH=TEXT`, `PATH -> TARGET`) or taken away (`PATH`).
fn spoiled(changes: &[String]) -> (Topology, Vec<String>) {
    let mut spoiled = synthesise(&h100());
    for change in changes {
        let path = change.split(['=', ' ']).next().unwrap();
        let below = format!("{path}/");
        let entries = &mut spoiled.entries;
        entries.retain(|known, _| known != path && !known.starts_with(&below));
        if change != path {
            add(&mut spoiled, [change]);
        }
    }
    let (topology, diagnostics) = read(spoiled, Scope::Placement);
    (topology, texts(diagnostics))
}

#[test]
fn odd_files_cost_what_they_describe_and_nothing_else() {
    let node = "sys/devices/system/node/node1";
    for (change, start) in rows! {
        format!("{node}/cpulist=0-"), "cpulist`: `0-` is not a set";
        format!("{node}/distance=21"), "distance`: 1 distances for";
        "sys/bus/pci/devices/0000:1b:00.0".into(), "00.0`: no such PCI function";
    } {
        let (topology, diagnostics) = spoiled(std::slice::from_ref(&change));
        let [told] = &diagnostics[..] else {
            panic!("{diagnostics:?}")
        };
        assert!(told.starts_with(&format!("`/{}", &change[..20])), "{told}");
        assert!(told.contains(start), "{told}");
        assert_eq!(topology.numa_nodes.len(), 2);
        assert_eq!(topology.numa_nodes[0].distances, [10, 21]);
        let found = topology.gpus.len();
        assert_eq!(found, if change.contains('=') { 8 } else { 7 });
    }
    let elsewhere = "sys/class/infiniband/mlx5_0 -> ../../../nowhere";
    let (topology, diagnostics) = spoiled(&[elsewhere.to_string()]);
    assert_eq!(diagnostics, [""; 0]);
    let lost = nic(&topology, "mlx5_0");
    assert!(lost.address.is_none() && lost.ports.is_empty());

    let port = format!("{MLX5_0}/infiniband/mlx5_0/ports/1");
    for (file, rate) in rows! {
        "rate=4x the usual", None; "rate=-1 Gb/sec", None;
        "rate=99999999999999999999999 Gb/sec", None; "rate", None; "rate=0 Gb/sec (4X)", Some(0);
        "rate=2.5 Gb/sec (1X SDR)", Some(2_500);
    } {
        let (topology, _) = spoiled(&[format!("{port}/{file}")]);
        assert_eq!(nic(&topology, "mlx5_0").ports[0].rate_mbps, rate, "{file}");
    }
    for (text, state) in rows! {
        "", PortState::Unknown; "5: ACTIVE_DEFER", PortState::Unknown; "2: INIT", PortState::Init;
    } {
        let (topology, _) = spoiled(&[format!("{port}/state={text}")]);
        assert_eq!(nic(&topology, "mlx5_0").ports[0].state, state, "`{text}`");
    }
    // the bridge above knows
    let (topology, _) = spoiled(&[format!("{MLX5_0}/numa_node=-1")]);
    let [gpu, nic] = ["1b:00.0", "18:00.0"].map(|at| at.parse().unwrap());
    assert_eq!(topology.numa_node_of(nic), Some(0));
    assert_eq!(topology.path_type(gpu, nic), PathType::Pix);
}

#[test]
fn a_name_that_would_change_a_librarys_list_is_left_out() {
    for name in ["mlx5_0,mlx5_1", "^mlx5_0", "mlx5:0", &"m".repeat(64)] {
        let target = format!("../../../sys/devices/virtual/infiniband/{name}");
        let tree = tree([format!("sys/class/infiniband/{name} -> {target}")]);
        let (topology, diagnostics) = read(tree, Scope::Placement);
        assert!(topology.nics.is_empty(), "`{name}`");
        assert_eq!(diagnostics.len(), 1, "`{name}`");
    }
}

fn numa_node(os_index: u32, cpus: CpuSet, distances: Vec<u32>, package: Option<u32>) -> NumaNode {
    NumaNode {
        os_index,
        cpus,
        distances,
        package,
    }
}

fn pu(os_index: u32, package: u32, core: u32) -> Pu {
    Pu {
        os_index,
        package,
        core,
    }
}

/// A link that is as fast as it can be.
fn pcie_link(rate: &str) -> PcieLink {
    let rate = Some(rate.parse().unwrap());
    PcieLink {
        current: rate,
        max: rate,
    }
}

/// A node of two GPUs with a NIC each, and `functions` of one ConnectX-7 of this subsystem.
fn with_a_manager(fabric: NicKind, functions: u8, subsystem: (u16, u16)) -> Topology {
    let mut topology = Topology::empty("hgx", Provenance::ThisSystem);
    let mut insert = |bus: u8, function: u8, class: u32, ids: (u16, u16), subsystem| {
        let address: PciAddress = format!("{bus:02x}:00.{function}").parse().unwrap();
        topology.pci.insert(with! { PciFunction {
            class: Some(class), vendor: Some(ids.0), device: Some(ids.1), subsystem,
            numa_node: Some(0)
        } ..PciFunction::new(address, PciParent::Host(HostBridge { domain: 0, bus })) });
        address
    };
    let ids = match fabric {
        NicKind::Efa => (0x1d0f, 0xefa3),
        _ => (0x15b3, 0x1021),
    };
    let nic = |address: PciAddress, name: String, kind: NicKind| {
        let port = Port::new(1, PortState::Active, LinkLayer::InfiniBand, Some(400_000));
        with! { Nic {
            address: Some(address), ports: vec![port]
        } ..Nic::new(name.parse().unwrap(), kind) }
    };
    let (mut gpus, mut nics) = (Vec::new(), Vec::new());
    for gpu in 0..2 {
        let address = insert(0x10 + gpu, 0, 0x03_0200, (0x10de, 0x2901), None);
        gpus.push(Gpu::new(address, GpuVendor::Nvidia));
        let address = insert(0x20 + gpu, 0, 0x02_0700, ids, Some((0x15b3, 0x0041)));
        nics.push(nic(address, format!("fabric{gpu}"), fabric));
    }
    for function in 0..functions {
        let address = insert(0x30, function, 0x02_0700, (0x15b3, 0x1021), Some(subsystem));
        nics.push(nic(address, format!("mlx5_{function}"), NicKind::Verbs));
    }
    (topology.gpus, topology.nics) = (gpus, nics);
    let node = numa_node(0, (0..8).collect(), vec![10], None);
    topology.numa_nodes.push(node);
    topology.sort();
    topology
}

#[test]
fn the_functions_that_manage_nvswitches_are_known_in_every_scope_and_are_no_nics_of_the_fabric() {
    const MANAGER: (u16, u16) = (0x15b3, 0x0087);
    for scope in [Scope::Placement, Scope::Full] {
        for (fabric, functions, subsystem, expected) in [
            // AWS's p6-b200: EFA is the fabric, and two functions of the manager are there
            (NicKind::Efa, 2, MANAGER, (0, 2, true)),
            // a bare HGX B200 or B300: four functions, as fast as the fabric
            (NicKind::Verbs, 4, MANAGER, (2, 4, false)),
            (NicKind::Verbs, 4, (0x103c, 1), (2, 4, false)),
            // a card with two ports is a card
            (NicKind::Verbs, 2, (0x15b3, 0x0041), (4, 0, false)),
        ] {
            let made = with_a_manager(fabric, functions, subsystem);
            let (found, _) = read(synthesise(&made), scope);
            let node = map(&found);
            let out = node.excluded.iter();
            let out = out.filter(|out| out.why.contains("manages the NVSwitches"));
            let counts = (node.rails.len(), out.count(), found.is_left_to_libfabric());
            assert_eq!(counts, expected, "{subsystem:?} {scope:?}");
        }
    }
    // the admin knows better
    let mut wish = Wish::default();
    wish.admin.selection.include = vec![Pattern::parse("mlx5_0").unwrap()];
    let node = policy::map(&with_a_manager(NicKind::Verbs, 4, MANAGER), &wish);
    assert_eq!(node.rails.len(), 1);
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
    let known = |arch, x86| Some(Processor { arch, x86 });
    let intel = X86 {
        vendor: CpuVendor::Intel,
        family: 6,
        model: 0x8f,
    };
    for (text, expected) in rows! {
        "cpu:type:x86,ven0000fam0006mod008F:feature:", known(Arch::X86, Some(intel));
        "cpu:type:aarch64:feature:", known(Arch::Arm, None);
        "cpu:type:ppc64le:feature:", known(Arch::Power, None);
        "cpu:type:s390:feature:", None;
        "x86", None;
    } {
        let found = Processor::from_modalias(&format!("{text},0000,0001"));
        assert_eq!(found, expected, "{text}");
        if let Some(processor) = found {
            assert_eq!(synthesise::modalias(&processor), text);
        }
    }
    let unknown = "cpu:type:x86,ven00FFfam0006mod008F:feature:";
    assert_eq!(Processor::from_modalias(unknown), known(Arch::X86, None));
    assert_eq!(CpuVendor::Zhaoxin.to_string(), "  Shanghai  ");
}

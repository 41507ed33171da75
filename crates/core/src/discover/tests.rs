//! Discovery against generated machines and against trees that no machine should show.
#![forbid(unsafe_code)]

use super::manifest::Entry;
use super::synthesise::synthesise;
use super::*;
use crate::topology::{
    CpuSet, Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, NumaNode, PathType, PciAddress, PciFunction,
    PciParent, PcieLink, Port, PortState, Pu, SubnetPrefix,
};
use proptest::prelude::*;

fn read(manifest: Manifest, scope: Scope) -> (Topology, Vec<Diagnostic>) {
    discover(&Root::manifest(manifest), scope, Provenance::ThisSystem)
}

/// A topology as the live bus would give it: nobody tells it what a NIC is for.
fn as_discovered(mut topology: Topology) -> Topology {
    topology.provenance = Provenance::ThisSystem;
    topology.nics.iter_mut().for_each(|nic| nic.role = None);
    topology.stated_paths.clear();
    topology
}

#[test]
fn cores_are_read_once_for_all_their_threads_and_no_others_are_made_up() {
    let mut tree = Manifest::default();
    let mut cpu = |id: u32, core: u32, list: Option<&str>| {
        let at = format!("sys/devices/system/cpu/cpu{id}/topology");
        tree.insert(&format!("{at}/physical_package_id"), Entry::File("0".to_string()));
        tree.insert(&format!("{at}/core_id"), Entry::File(core.to_string()));
        if let Some(list) = list {
            tree.insert(&format!("{at}/thread_siblings_list"), Entry::File(list.to_string()));
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
    assert_eq!(cores(Scope::Full), ["0", "1,3", "2", "4"], "each by its own files");
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
                (way.kind, way.crossing, way.links.iter().map(|link| link.mbps).min())
            };
            assert_eq!(decisive(&less), decisive(&full));
        }
        assert_eq!(less.numa_node_of(gpu.address), full.numa_node_of(gpu.address));
    }
}

#[test]
fn a_machine_without_gpus_nics_or_anything_is_a_fact() {
    let (topology, diagnostics) = read(Manifest::default(), Scope::Full);
    assert_eq!(diagnostics, []);
    assert_eq!(topology, Topology::empty("this node", Provenance::ThisSystem));
}

/// The DGX H100 with some files changed: `None` takes a file away.
fn spoiled(changes: &[(&str, Option<Entry>)]) -> (Topology, Vec<String>) {
    let machine = synthesise(&crate::platform::model("dgx-h100").unwrap());
    let mut spoiled = Manifest::default();
    for (path, entry) in machine.iter() {
        if !changes.iter().any(|(changed, _)| path == *changed || path.starts_with(&format!("{changed}/"))) {
            spoiled.insert(path, entry.clone());
        }
    }
    for (path, entry) in changes {
        if let Some(entry) = entry {
            spoiled.insert(path, entry.clone());
        }
    }
    let (topology, diagnostics) = read(spoiled, Scope::Placement);
    (topology, diagnostics.iter().map(ToString::to_string).collect())
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
        ["`/sys/devices/system/node/node1/cpulist`: `0-` is not a set: expected a list such as `0-3,8`"]
    );
    assert_eq!(topology.numa_nodes.len(), 2);

    let (topology, diagnostics) = spoiled(&[("sys/devices/system/node/node1/distance", file("21"))]);
    assert_eq!(diagnostics, ["`/sys/devices/system/node/node1/distance`: 1 distances for 2 nodes: not used"]);
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
        topology.nics.iter().any(|nic| nic.name == "mlx5_0" && nic.address.is_none() && nic.ports.is_empty())
    );

    for (name, text) in
        [("rate", "4x the usual"), ("rate", "0 Gb/sec"), ("rate", "99999999999999999999999 Gb/sec")]
    {
        let (topology, _) = spoiled(&[(&format!("{port}/{name}"), file(text))]);
        let nic = topology.nics.iter().find(|nic| nic.name == "mlx5_0").unwrap();
        assert_eq!(nic.ports[0].rate_mbps, None, "`{text}`");
    }
    for (text, state) in
        [("", PortState::Unknown), ("5: ACTIVE_DEFER", PortState::Unknown), ("2: INIT", PortState::Init)]
    {
        let (topology, _) = spoiled(&[(&format!("{port}/state"), file(text))]);
        assert_eq!(
            topology.nics.iter().find(|nic| nic.name == "mlx5_0").unwrap().ports[0].state,
            state,
            "`{text}`"
        );
    }
    let (topology, _) = spoiled(&[(&format!("{switch}/0000:18:00.0/numa_node"), file("-1"))]);
    assert_eq!(topology.numa_node_of("18:00.0".parse().unwrap()), Some(0), "the bridge above it knows");
    assert_eq!(topology.path_type("1b:00.0".parse().unwrap(), "18:00.0".parse().unwrap()), PathType::Pix);
}

#[test]
fn a_name_that_would_change_a_librarys_list_is_left_out() {
    for name in ["mlx5_0,mlx5_1", "^mlx5_0", "mlx5:0", &"m".repeat(64)] {
        let device = format!("sys/devices/virtual/infiniband/{name}");
        let mut manifest = Manifest::default();
        manifest.insert(&format!("sys/class/infiniband/{name}"), Entry::Link(format!("../../../{device}")));
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
        manifest.insert(&format!("sys/class/infiniband/rxe{index}"), Entry::Link(device));
    }
    let (topology, diagnostics) = read(manifest, Scope::Placement);
    assert_eq!(topology.nics.len(), MAX_DEVICES);
    assert_eq!(
        diagnostics[0].to_string(),
        "`/sys/class/infiniband`: 4000 RDMA devices: only the first 256 are used"
    );
}

/// A bus: host bridges, each with a switch of a GPU and up to three NICs.
fn machines() -> impl Strategy<Value = Topology> {
    let slot = (
        0usize..4,
        any::<bool>(),
        0u32..3,
        0usize..4,
        prop::option::of(0u32..3),
        prop::sample::select(vec![1u32, 4, 8, 16]),
    );
    (prop::collection::vec(slot, 0..9), any::<bool>()).prop_map(|(slots, backwards)| {
        let mut topology = Topology::empty("generated", Provenance::ThisSystem);
        for os_index in 0..3u32 {
            let cpus: CpuSet = (os_index * 8..os_index * 8 + 8).collect();
            topology.pus.extend(cpus.iter().map(|cpu| Pu {
                os_index: cpu,
                package: os_index,
                core: cpu % 8,
            }));
            let distances = (0..3).map(|other| if other == os_index { 10 } else { 21 }).collect();
            topology.numa_nodes.push(NumaNode { os_index, cpus, distances });
        }
        for (index, (nics, gpu, vendor, state, numa_node, width)) in slots.into_iter().enumerate() {
            let bus = index as u32 * 0x10;
            let link = LinkRate { tenths_gt: 160, width };
            let mut add = |address: String, parent: PciParent, class: u32, vendor: u16| -> PciAddress {
                let address: PciAddress = address.parse().unwrap();
                topology.pci.insert(PciFunction {
                    class: Some(class),
                    vendor: Some(vendor),
                    device: Some(1),
                    numa_node,
                    subsystem: (width > 4).then_some((0x1000, 0xa096)),
                    iommu: (width == 8).then(|| "DMA-FQ".to_string()),
                    local_cpus: numa_node.map(|node| (node * 8..node * 8 + 8).collect()),
                    link: PcieLink { current: Some(link), max: Some(link) },
                    ..PciFunction::new(address, parent)
                });
                address
            };
            let vendor = [GpuVendor::Nvidia, GpuVendor::Amd, GpuVendor::Intel][vendor as usize];
            let host = PciParent::Host(format!("pci0000:{bus:02x}").parse().unwrap());
            let root = add(format!("{bus:02x}:01.0"), host, 0x060400, 0x8086);
            let up = add(format!("{:02x}:00.0", bus + 1), PciParent::Bridge(root), 0x060400, 0x1000);
            if gpu {
                let id = match vendor {
                    GpuVendor::Nvidia => 0x10de,
                    GpuVendor::Amd => 0x1002,
                    GpuVendor::Intel => 0x8086,
                };
                let down = add(format!("{:02x}:00.0", bus + 2), PciParent::Bridge(up), 0x060400, 0x1000);
                let address = add(format!("{:02x}:00.0", bus + 3), PciParent::Bridge(down), 0x038000, id);
                // an AMD GPU may be two partitions of one function
                let partitions = if vendor == GpuVendor::Amd { 1 + nics as u32 % 2 } else { 1 };
                for partition in 0..partitions {
                    let uuid = match vendor {
                        GpuVendor::Amd => Some(format!("GPU-{:016x}", 2 * index as u32 + partition + 1)),
                        GpuVendor::Nvidia => Some(format!("GPU-{index}")),
                        GpuVendor::Intel => None,
                    };
                    let is_nvidia = vendor == GpuVendor::Nvidia;
                    topology.gpus.push(Gpu {
                        partition: (partitions > 1).then_some(partition),
                        minor: Some(128 + 2 * index as u32 + partition),
                        uuid,
                        model: is_nvidia.then(|| "Model".to_string()),
                        mig_instances: (is_nvidia && nics == 3).then_some(2),
                        ..Gpu::new(address, vendor)
                    });
                }
            }
            for nic in 0..nics as u32 {
                let down = add(
                    format!("{:02x}:{:02x}.0", bus + 2, nic + 1),
                    PciParent::Bridge(up),
                    0x060400,
                    0x1000,
                );
                let address =
                    add(format!("{:02x}:00.0", bus + 4 + nic), PciParent::Bridge(down), 0x020700, 0x15b3);
                let kind = [NicKind::Verbs, NicKind::Efa, NicKind::Slingshot, NicKind::Ethernet]
                    [(index + nic as usize) % 4];
                let name = format!("nic{index}{nic}");
                let is_verbs = matches!(kind, NicKind::Verbs | NicKind::Efa);
                let state =
                    match [PortState::Active, PortState::Down, PortState::Init, PortState::Unknown][state] {
                        PortState::Init if !is_verbs => PortState::Down,
                        state => state,
                    };
                let port = |number| Port {
                    phys_state: is_verbs.then(|| "LinkUp".to_string()),
                    netdev: is_verbs.then(|| "eth".to_string()),
                    subnet: is_verbs.then_some(SubnetPrefix(0xfe80_0000_0000_0000)),
                    gid_type: is_verbs.then(|| "RoCE v2".to_string()),
                    default_route: (is_verbs && width == 4 && nic == 0).then(|| "bond0".to_string()),
                    ..Port::new(number, state, LinkLayer::Ethernet, Some(2500))
                };
                let netdev =
                    if kind == NicKind::Ethernet { name.clone() } else { format!("eth{index}{nic}") };
                topology.nics.push(Nic {
                    address: Some(address),
                    ports: (1..=if is_verbs { nic as u8 % 2 + 1 } else { 1 }).map(port).collect(),
                    uverbs: is_verbs.then(|| format!("uverbs{index}{nic}")),
                    guid: is_verbs.then(|| format!("guid{index}{nic}")),
                    card: is_verbs.then(|| format!("card{index}")),
                    netdevs: vec![netdev],
                    ..Nic::new(
                        if kind == NicKind::Slingshot { format!("cxi{index}{nic}") } else { name },
                        kind,
                    )
                });
            }
        }
        // SR-IOV is looked at where it says something: on verbs devices
        for nic in topology.nics.iter().filter(|nic| nic.ports.len() == 2) {
            let function = topology.pci.get(nic.address.unwrap()).unwrap().clone();
            topology.pci.insert(PciFunction { vfs: Some(8), ..function });
        }
        topology.sort();
        // the compute driver may count its GPUs in another order
        let amd = topology.gpus.iter().filter(|gpu| gpu.vendor == GpuVendor::Amd).count() as u32;
        let its = topology.gpus.iter_mut().filter(|gpu| gpu.vendor == GpuVendor::Amd);
        for (gpu, index) in its.zip((0..amd).rev()).filter(|_| backwards && amd > 1) {
            gpu.runtime_index = Some(index);
        }
        // bridges above nothing are not read
        let used: Vec<PciAddress> = topology
            .gpus
            .iter()
            .map(|gpu| gpu.address)
            .chain(topology.nics.iter().filter_map(|nic| nic.address))
            .collect();
        let mut kept = crate::topology::PciTree::default();
        for address in used {
            for address in topology.pci.ancestors(address).0.into_iter().chain([address]) {
                kept.insert(topology.pci.get(address).unwrap().clone());
            }
        }
        topology.pci = kept;
        topology
    })
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

//! The properties of NCCL's XML: paths follow NCCL's rule in every tree, and a machine written is read back the same.

use super::super::*;
use super::{parse, rules};
use crate::way::Between;
use nic_placement_core::topology::{
    Gpu, GpuVendor, LinkLayer, LinkRate, Nic, NicKind, NumaNode, PathType, Port, PortState,
};
use proptest::prelude::*;

/// Everything that must survive, in lines: GPUs and NICs by their functions, NUMA nodes with CPUs, what the processors are,
/// and the kind of every path.  Kinds that NCCL does not tell apart count as one.
pub(super) fn facts(topology: &Topology) -> BTreeSet<String> {
    let mut facts = BTreeSet::from([format!("processor {:?}", topology.processor)]);
    let has_cpus = |node: &&NumaNode| !node.cpus.is_empty();
    for node in topology.numa_nodes.iter().filter(has_cpus) {
        facts.insert(format!("node {} {}", node.os_index, node.cpus));
    }
    for gpu in &topology.gpus {
        let node = topology.numa_node_of(gpu.address);
        facts.insert(format!("gpu {} {:?} {node:?}", gpu.address, gpu.vendor));
    }
    for address in topology.nics.iter().filter_map(|nic| nic.address) {
        let node = topology.numa_node_of(address);
        facts.insert(format!("nic {address} {node:?}"));
        for gpu in &topology.gpus {
            let known = |address| topology.numa_node_of(address).is_some();
            let kind = match topology.path_type(gpu.address, address) {
                PathType::Node => PathType::Phb,
                PathType::Sys if !known(gpu.address) && !known(address) => PathType::Phb,
                kind => kind,
            };
            facts.insert(format!("path {} {address} {kind}", gpu.address));
        }
    }
    facts
}

/// A device, and the switches above it from the CPU down: (cpu, path of switches, is a GPU).
type Device = (usize, Vec<usize>, bool);

fn devices() -> impl Strategy<Value = Vec<Device>> {
    let path = prop::collection::vec(0usize..2, 0..5);
    prop::collection::vec((0usize..3, path, any::<bool>()), 0..12)
}

/// `<pci>` elements below the switches `path`, and their addresses in the order of `devices`.
fn tree(devices: &[(usize, &Device)], depth: usize, switches: &mut usize, text: &mut String) {
    for &(index, (_, path, is_gpu)) in devices {
        if path.len() == depth {
            let (class, inside) = match is_gpu {
                true => ("0x030200", "<gpu/>".to_string()),
                false => ("0x020000", format!("<nic><net name=\"n{index}\"/></nic>")),
            };
            let open = format!("<pci busid=\"0000:{index:02x}:00.0\" class=\"{class}\">");
            text.push_str(&format!("{open}{inside}</pci>\n"));
        }
    }
    for branch in 0..2 {
        let mut below = devices.to_vec();
        below.retain(|(_, (_, path, _))| path.get(depth) == Some(&branch));
        if !below.is_empty() {
            *switches += 1;
            let open = format!("<pci busid=\"0001:{switches:02x}:00.0\" class=\"0x060400\">");
            text.push_str(&open);
            tree(&below, depth + 1, switches, text);
            text.push_str("</pci>\n");
        }
    }
}

/// NCCL's rule (`ncclTopoSetPaths` in its src/graph/paths.cc): a step between two switches makes a path PXB,
/// a step between a CPU and a device below it PHB, a step between CPUs SYS; otherwise a path on PCI is PIX.
fn by_nccls_rule(a: &Device, b: &Device) -> PathType {
    let shared = a.1.iter().zip(&b.1).take_while(|(a, b)| a == b).count();
    match (a.0 == b.0, shared) {
        (false, _) => PathType::Sys,
        (true, 0) => PathType::Phb,
        (true, shared) if a.1.len() == shared && b.1.len() == shared => PathType::Pix,
        (true, _) => PathType::Pxb,
    }
}

/// A machine without devices.
fn empty(nodes: u32) -> Topology {
    let mut topology = Topology::empty("generated", Provenance::ThisSystem);
    topology
        .numa_nodes
        .extend((0..nodes).map(|os_index| NumaNode {
            os_index,
            cpus: (os_index * 20..os_index * 20 + 20).collect(),
            distances: Vec::new(),
            package: None,
        }));
    topology
}

fn at(domain: usize, bus: usize, device: u8) -> PciAddress {
    let text = format!("{domain:04x}:{bus:02x}:{device:02x}.0");
    text.parse().unwrap()
}

fn host(domain: usize) -> PciParent {
    format!("pci{domain:04x}:00").parse().unwrap()
}

/// A link that has this rate and could have no other.
fn link(rate: Option<LinkRate>) -> PcieLink {
    let (current, max) = (rate, rate);
    PcieLink { current, max }
}

fn nic(name: String, address: PciAddress, ports: Vec<Port>) -> Nic {
    Nic {
        address: Some(address),
        ports,
        ..Nic::new(name.parse().unwrap(), NicKind::Verbs)
    }
}

/// Host bridges, each with up to two nested switches, a GPU below the last and NICs below both.
fn machines() -> impl Strategy<Value = Topology> {
    let counts = (0usize..4, prop::option::of(0usize..3), any::<bool>());
    let rates = prop::sample::select(vec![(25u32, 1u32), (160, 4), (320, 16)]);
    let slot = (counts, prop::option::of(0u32..3), rates, 0usize..4);
    prop::collection::vec(slot, 0..9).prop_map(|slots| {
        let mut topology = empty(3);
        for (index, (counts, numa_node, (tenths_gt, width), state)) in slots.into_iter().enumerate()
        {
            let (nics, gpu, is_deep) = counts;
            let rate = Some(LinkRate { tenths_gt, width });
            let mut add = |bus: usize, device: u8, parent: PciParent| {
                let address = at(index, bus, device);
                let link = link(rate);
                topology.pci.insert(PciFunction {
                    numa_node,
                    link,
                    ..PciFunction::new(address, parent)
                });
                PciParent::Bridge(address)
            };
            let root = add(0, 1, host(index));
            let first = add(1, 0, root);
            let mut second = first;
            if is_deep {
                let port = add(2, 31, first);
                second = add(3, 0, port);
            }
            let mut place = |device: u8, switch: PciParent| {
                let port = add(if switch == first { 2 } else { 4 }, device, switch);
                let bus = 0x10 + usize::from(device);
                add(bus, 0, port);
                at(index, bus, 0)
            };
            if let Some(vendor) = gpu {
                let mut gpu = Gpu::new(place(9, second), GpuVendor::ALL[vendor]);
                gpu.minor = Some(index as u32);
                topology.gpus.push(gpu);
            }
            let state = [PortState::Active, PortState::Down][usize::from(state == 3)];
            for number in 0..nics as u8 {
                let address = place(number, [first, second][usize::from(number % 2)]);
                let rate = |port| Some(2500 * u64::from(port));
                let port = |port| Port::new(port, state, LinkLayer::Ethernet, rate(port));
                let ports = (1..=number + 1).map(port).collect();
                topology.nics.push(Nic {
                    card: Some(format!("946d:ae03:00{index:02x}:00a{number}")),
                    ..nic(format!("mlx5_{index}{number}"), address, ports)
                });
            }
        }
        topology.sort();
        topology
    })
}

/// A bus that shows every function alone, and statements of which GPUs and NICs share a switch.
fn virtual_machines() -> impl Strategy<Value = Topology> {
    let node = prop::option::of(0u32..2);
    let device = (any::<bool>(), 0u32..4, node, any::<bool>());
    (prop::collection::vec(device, 0..16), any::<bool>()).prop_map(|(devices, is_nested)| {
        let mut topology = empty(2);
        let mut switches = Vec::new();
        for (index, (is_gpu, switch, numa_node, has_link)) in devices.into_iter().enumerate() {
            let address = at(index + 1, 0, 0);
            let (tenths_gt, width) = (320, 16);
            let rate = has_link.then_some(LinkRate { tenths_gt, width });
            topology.pci.insert(PciFunction {
                numa_node: numa_node.map(|_| switch % 2),
                link: link(rate),
                ..PciFunction::new(address, host(index + 1))
            });
            switches.push((is_gpu, address, switch));
            if is_gpu {
                topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
            } else {
                let port = Port::new(1, PortState::Active, LinkLayer::InfiniBand, Some(400_000));
                let name = format!("mlx5_{index}");
                topology.nics.push(nic(name, address, vec![port]));
            }
        }
        for &(_, gpu, a) in switches.iter().filter(|device| device.0) {
            for &(_, nic, b) in switches.iter().filter(|device| !device.0) {
                let kind = match (a == b, a % 2 == b % 2 && is_nested) {
                    (true, _) => PathType::Pix,
                    (false, true) => PathType::Pxb,
                    (false, false) => continue,
                };
                topology.stated_paths.insert((gpu, nic), kind);
            }
        }
        topology.sort();
        topology
    })
}

/// NCCL completes and joins the file, on the machine and on one that has none of its devices: every GPU and NIC is there
/// once, with all that NCCL asks for, and a path is what it is to us.
fn as_nccl_reads_it(made: &Topology) -> Result<(), TestCaseError> {
    let text = write(made).unwrap();
    if made.gpus.is_empty() {
        return Ok(());
    }
    for bus in [Some(&rules::bus(made)), None] {
        let kinds = rules::kinds(&text, made, bus);
        let kinds = kinds.map_err(|bad| TestCaseError::fail(format!("{bad}\n{text}")))?;
        for ((rank, name), kind) in kinds {
            let nic = made.nics.iter().find(|nic| nic.name == *name).unwrap();
            let expected = made.path_type(made.gpus[rank].address, nic.address.unwrap());
            let near = |kind: PathType| (kind <= PathType::Pxb).then_some(kind);
            prop_assert_eq!(near(kind), near(expected), "{} {}\n{}", rank, name, text);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_text_of_a_value_makes_the_reader_panic(text in "[^<&\"]*") {
        for value in ["mlx5_0", "0x10de", "0000:14:00.0", "16", "0x5a5a"] {
            drop(parse(&super::SAMPLE.replace(value, &text)));
        }
    }

    #[test]
    fn the_kind_of_every_path_in_every_tree_is_nccls(devices in devices()) {
        let numbered: Vec<_> = devices.iter().enumerate().collect();
        let mut text = "<system version=\"1\">\n".to_string();
        let mut switches = 0;
        for cpu in 0..3 {
            let below: Vec<_> = numbered.iter().filter(|(_, device)| device.0 == cpu).copied().collect();
            text.push_str(&format!("<cpu numaid=\"{cpu}\">\n"));
            tree(&below, 0, &mut switches, &mut text);
            text.push_str("</cpu>\n");
        }
        text.push_str("</system>\n");
        let (topology, _) = parse(&text).map_err(|bad| TestCaseError::fail(format!("{bad}\n{text}")))?;
        for (i, a) in &numbered {
            for (k, b) in numbered.iter().filter(|(k, _)| k != i) {
                let kind = topology.path_type(at(0, *i, 0), at(0, *k, 0));
                prop_assert_eq!(kind, by_nccls_rule(a, b), "{} and {} in\n{}", i, k, text);
            }
        }
    }

    #[test]
    fn a_generated_machine_survives_being_written(made in machines()) {
        let text = write(&made).unwrap();
        let (found, _) = parse(&text).map_err(|bad| TestCaseError::fail(format!("{bad}\n{text}")))?;
        prop_assert_eq!(facts(&found), facts(&made), "{}", text);
        for gpu in &found.gpus {
            for address in found.nics.iter().filter_map(|nic| nic.address) {
                let narrowest = |topology: &Topology| topology.way(gpu.address, address).links.iter().map(|link| link.mbps).min();
                prop_assert_eq!(narrowest(&found), narrowest(&made), "{}", text);
            }
        }
        prop_assert_eq!(write(&found).unwrap().replace("name=\"nccl\"", "name=\"generated\""), text);
    }

    #[test]
    fn nccl_reads_a_generated_machine_on_it_and_off_it(made in machines()) {
        as_nccl_reads_it(&made)?;
    }

    #[test]
    fn nccl_reads_a_virtual_machine_whose_pairs_are_stated(made in virtual_machines()) {
        as_nccl_reads_it(&made)?;
    }
}

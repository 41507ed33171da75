//! The properties of NCCL's XML: paths follow NCCL's rule in every tree, a machine written is read back the
//! same, and no text makes the reader panic.

use super::super::*;
use super::{SAMPLE, parse, rules};
use crate::file;
use crate::way::Between;
use nic_placement_core::topology::{
    Gpu, GpuVendor, HostBridge, LinkLayer, LinkRate, Nic, NicKind, NumaNode, PathType, Port,
    PortState,
};
use proptest::prelude::*;

/// Everything that must survive, in lines: GPUs and NICs by their functions, NUMA nodes with CPUs, what the processors are,
/// and the kind of every path.  Kinds that NCCL does not tell apart count as one.
pub(super) fn facts(topology: &Topology) -> BTreeSet<String> {
    let mut facts = BTreeSet::from([format!("processor {:?}", topology.processor)]);
    for node in topology
        .numa_nodes
        .iter()
        .filter(|node| !node.cpus.is_empty())
    {
        facts.insert(format!("node {} {}", node.os_index, node.cpus));
    }
    for gpu in &topology.gpus {
        let node = topology.numa_node_of(gpu.address);
        facts.insert(format!("gpu {} {:?} {node:?}", gpu.address, gpu.vendor));
    }
    for address in topology.nics.iter().filter_map(|nic| nic.address) {
        facts.insert(format!(
            "nic {address} {:?}",
            topology.numa_node_of(address)
        ));
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

/// Every refusal is one short line; every accepted text makes a topology file and survives being written.
fn judge(text: &str) -> Result<bool, TestCaseError> {
    match parse(text) {
        Ok((topology, _)) => {
            let kept = file::from_json(&file::to_json(&topology), topology.provenance.clone());
            prop_assert_eq!(kept.as_ref().map_err(ToString::to_string), Ok(&topology));
            let Ok(text) = write(&topology) else {
                return Ok(true);
            };
            prop_assert!(
                rules::reader::load(&text).is_ok(),
                "{:?} {}",
                rules::reader::load(&text),
                text
            );
            let again = parse(&text)
                .map_err(|bad| TestCaseError::fail(bad.to_string()))?
                .0;
            prop_assert_eq!(facts(&again), facts(&topology));
            Ok(true)
        }
        Err(bad) => {
            let message = bad.to_string();
            prop_assert!(
                !message.chars().any(char::is_control) && message.chars().count() < 400,
                "{message:?}"
            );
            Ok(false)
        }
    }
}

/// A device, and the switches above it from the CPU down: (cpu, path of switches, is a GPU).
type Device = (usize, Vec<usize>, bool);

fn devices() -> impl Strategy<Value = Vec<Device>> {
    prop::collection::vec(
        (
            0usize..3,
            prop::collection::vec(0usize..2, 0..5),
            any::<bool>(),
        ),
        0..12,
    )
}

/// `<pci>` elements below the switches `path`, and their addresses in the order of `devices`.
fn tree(devices: &[(usize, &Device)], depth: usize, switches: &mut usize, text: &mut String) {
    for &(index, (_, path, is_gpu)) in devices {
        if path.len() == depth {
            let class = if *is_gpu { "0x030200" } else { "0x020000" };
            let inside = if *is_gpu {
                "<gpu/>".to_string()
            } else {
                format!("<nic><net name=\"n{index}\"/></nic>")
            };
            text.push_str(&format!(
                "<pci busid=\"0000:{index:02x}:00.0\" class=\"{class}\">{inside}</pci>\n"
            ));
        }
    }
    for branch in 0..2 {
        let below: Vec<_> = devices
            .iter()
            .filter(|(_, (_, path, _))| path.get(depth) == Some(&branch))
            .copied()
            .collect();
        if !below.is_empty() {
            *switches += 1;
            text.push_str(&format!(
                "<pci busid=\"0001:{:02x}:00.0\" class=\"0x060400\">\n",
                *switches
            ));
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

/// Host bridges, each with up to two nested switches, a GPU below the last and NICs below both.
fn machines() -> impl Strategy<Value = Topology> {
    let slot = (
        0usize..4,
        prop::option::of(0usize..3),
        any::<bool>(),
        prop::option::of(0u32..3),
        prop::sample::select(vec![(25u32, 1u32), (160, 4), (320, 16)]),
        0usize..4,
    );
    prop::collection::vec(slot, 0..9).prop_map(|slots| {
        let mut topology = Topology::empty("generated", Provenance::ThisSystem);
        for os_index in 0..3u32 {
            let cpus = (os_index * 20..os_index * 20 + 20).collect();
            topology.numa_nodes.push(NumaNode {
                os_index,
                cpus,
                distances: Vec::new(),
                package: None,
            });
        }
        for (index, (nics, gpu, is_deep, numa_node, (tenths_gt, width), state)) in
            slots.into_iter().enumerate()
        {
            let rate = Some(LinkRate { tenths_gt, width });
            let mut add = |bus: usize, device: u8, parent: PciParent| {
                let address = PciAddress {
                    domain: index as u32,
                    bus: bus as u8,
                    device,
                    function: 0,
                };
                let link = PcieLink {
                    current: rate,
                    max: rate,
                };
                topology.pci.insert(PciFunction {
                    numa_node,
                    link,
                    ..PciFunction::new(address, parent)
                });
                PciParent::Bridge(address)
            };
            let root = add(
                0,
                1,
                PciParent::Host(HostBridge {
                    domain: index as u32,
                    bus: 0,
                }),
            );
            let first = add(1, 0, root);
            let second = if is_deep {
                let port = add(2, 31, first);
                add(3, 0, port)
            } else {
                first
            };
            let mut place = |device: u8, switch: PciParent| {
                let port = add(if switch == first { 2 } else { 4 }, device, switch);
                let PciParent::Bridge(address) = add(0x10 + usize::from(device), 0, port) else {
                    unreachable!()
                };
                address
            };
            if let Some(vendor) = gpu {
                let gpu = Gpu::new(place(9, second), GpuVendor::ALL[vendor]);
                topology.gpus.push(Gpu {
                    minor: Some(index as u32),
                    ..gpu
                });
            }
            for nic in 0..nics as u8 {
                let address = place(nic, if nic % 2 == 0 { first } else { second });
                let state = [
                    PortState::Active,
                    PortState::Active,
                    PortState::Active,
                    PortState::Down,
                ][state];
                let port = |number| {
                    Port::new(
                        number,
                        state,
                        LinkLayer::Ethernet,
                        Some(2500 * u64::from(number)),
                    )
                };
                topology.nics.push(Nic {
                    address: Some(address),
                    ports: (1..=nic + 1).map(port).collect(),
                    card: Some(format!("946d:ae03:00{index:02x}:00a{nic}")),
                    ..Nic::new(
                        format!("mlx5_{index}{nic}").parse().unwrap(),
                        NicKind::Verbs,
                    )
                });
            }
        }
        topology.sort();
        topology
    })
}

/// A bus that shows every function alone, and statements of which GPUs and NICs share a switch.
fn virtual_machines() -> impl Strategy<Value = Topology> {
    let device = (
        any::<bool>(),
        0u32..4,
        prop::option::of(0u32..2),
        any::<bool>(),
    );
    (prop::collection::vec(device, 0..16), any::<bool>()).prop_map(|(devices, is_nested)| {
        let mut topology = Topology::empty("virtual", Provenance::ThisSystem);
        for os_index in 0..2u32 {
            let cpus = (os_index * 20..os_index * 20 + 20).collect();
            topology.numa_nodes.push(NumaNode {
                os_index,
                cpus,
                distances: Vec::new(),
                package: None,
            });
        }
        let mut switches = Vec::new();
        for (index, (is_gpu, switch, numa_node, has_link)) in devices.into_iter().enumerate() {
            let address = PciAddress {
                domain: index as u32 + 1,
                bus: 0,
                device: 0,
                function: 0,
            };
            let host = HostBridge {
                domain: address.domain,
                bus: 0,
            };
            let rate = has_link.then_some(LinkRate {
                tenths_gt: 320,
                width: 16,
            });
            topology.pci.insert(PciFunction {
                numa_node: numa_node.map(|_| switch % 2),
                link: PcieLink {
                    current: rate,
                    max: rate,
                },
                ..PciFunction::new(address, PciParent::Host(host))
            });
            switches.push((is_gpu, address, switch));
            if is_gpu {
                topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
            } else {
                let port = Port::new(1, PortState::Active, LinkLayer::InfiniBand, Some(400_000));
                topology.nics.push(Nic {
                    address: Some(address),
                    ports: vec![port],
                    ..Nic::new(format!("mlx5_{index}").parse().unwrap(), NicKind::Verbs)
                });
            }
        }
        for &(is_gpu, gpu, a) in &switches {
            for &(is_nic, nic, b) in switches.iter().filter(|_| is_gpu) {
                let kind = match (is_nic, a == b, a % 2 == b % 2 && is_nested) {
                    (true, ..) => continue,
                    (false, true, _) => PathType::Pix,
                    (false, false, true) => PathType::Pxb,
                    (false, false, false) => continue,
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
    let bus = Topology {
        stated_paths: Default::default(),
        ..made.clone()
    };
    for bus in [Some(&bus), None] {
        let joined = rules::joined(&text, made, bus).and_then(|all| all.check().map(|()| all));
        let all = joined.map_err(|bad| TestCaseError::fail(format!("{bad}\n{text}")))?;
        let kinds = all
            .kinds(made)
            .map_err(|bad| TestCaseError::fail(format!("{bad}\n{text}")))?;
        for ((rank, name), kind) in kinds {
            let nic = made.nics.iter().find(|nic| nic.name == *name).unwrap();
            let expected = made.path_type(made.gpus[rank].address, nic.address.unwrap());
            let near = |kind: PathType| (kind <= PathType::Pxb).then_some(kind);
            prop_assert_eq!(
                near(kind),
                near(expected),
                "GPU {} and {}\n{}",
                rank,
                name,
                text
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

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
        let address = |index: usize| PciAddress { domain: 0, bus: index as u8, device: 0, function: 0 };
        for (i, a) in &numbered {
            for (k, b) in numbered.iter().filter(|(k, _)| k != i) {
                let kind = topology.path_type(address(*i), address(*k));
                prop_assert_eq!(kind, by_nccls_rule(a, b), "{} and {} in\n{}", i, k, text);
            }
        }
        prop_assert!(judge(&text)?);
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

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        judge(&text)?;
        judge(&SAMPLE.replace("mlx5_0", &text))?;
        judge(&SAMPLE.replace("0x10de", &text))?;
    }

    #[test]
    fn a_file_cut_anywhere_is_refused(length in 0..SAMPLE.len() - 2) {
        prop_assert!(!judge(&SAMPLE[..length])?);
    }

    #[test]
    fn bytes_changed_anywhere_never_make_the_reader_panic(
        changes in prop::collection::vec((0..SAMPLE.len(), 32u8..127), 1..4)
    ) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        judge(&String::from_utf8(bytes).unwrap())?;
    }

    #[test]
    fn a_value_put_in_the_place_of_another_never_makes_the_reader_panic(
        swaps in prop::collection::vec((any::<usize>(), any::<usize>()), 1..6)
    ) {
        let mut pieces: Vec<&str> = SAMPLE.split('"').collect();
        let odd = pieces.len() / 2;
        swaps.into_iter().for_each(|(from, to)| pieces[from % odd * 2 + 1] = pieces[to % odd * 2 + 1]);
        judge(&pieces.join("\""))?;
    }

    #[test]
    fn lines_left_out_or_moved_never_make_the_reader_panic(from: usize, to: usize, keep: bool) {
        let mut lines: Vec<&str> = SAMPLE.lines().collect();
        let from = from % lines.len();
        let line = if keep { lines[from] } else { lines.remove(from) };
        lines.insert(to % lines.len(), line);
        judge(&lines.join("\n"))?;
    }
}

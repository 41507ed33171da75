//! The properties of NCCL's XML: paths follow NCCL's rule in every tree, a machine written is read back the
//! same, and no text makes the reader panic.
#![forbid(unsafe_code)]

use super::tests::{SAMPLE, parse};
use super::*;
use nic_placement_core::topology::{
    Gpu, GpuVendor, HostBridge, LinkLayer, LinkRate, Nic, NicKind, NumaNode, PathType, Port, PortState, file,
};
use proptest::prelude::*;

/// Everything that must survive, in lines: GPUs, NICs and active ports with their rates, NUMA nodes, and the
/// kind of every path.  Kinds that NCCL does not tell apart count as one.
pub(super) fn facts(topology: &Topology) -> Vec<String> {
    let mut facts = Vec::new();
    for node in &topology.numa_nodes {
        facts.push(format!("node {} {}", node.os_index, node.cpus));
    }
    for gpu in &topology.gpus {
        let node = topology.numa_node_of(gpu.address);
        facts.push(format!("gpu {} {:?} {:?} {node:?}", gpu.address, gpu.partition, gpu.vendor));
    }
    for nic in &topology.nics {
        let node = nic.address.map(|address| topology.numa_node_of(address));
        let ports: Vec<_> = nic.ports.iter().filter(|port| port.state == PortState::Active).collect();
        let ports: Vec<_> = ports.iter().map(|port| (port.number, port.rate_mbps)).collect();
        facts.push(format!(
            "nic {} {} {:?} {:?} {node:?} {ports:?}",
            nic.name, nic.kind, nic.address, nic.card
        ));
        for gpu in &topology.gpus {
            let Some(address) = nic.address else { continue };
            let known = |address| topology.numa_node_of(address).is_some();
            let kind = match topology.path_type(gpu.address, address) {
                PathType::Node => PathType::Phb,
                PathType::Sys if !known(gpu.address) && !known(address) => PathType::Phb,
                kind => kind,
            };
            facts.push(format!("path {} {} {kind}", gpu.address, nic.name));
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
            let text = write(&topology);
            prop_assert!(is_fit_for_nccl(&text), "{}", text);
            let again = parse(&text).map_err(|bad| TestCaseError::fail(bad.to_string()))?.0;
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

/// Does NCCL's own XML reader accept this?  It knows neither entities nor tabs, wants a single space before
/// each attribute, and keeps 16 attributes and 254 bytes of each value.
pub(super) fn is_fit_for_nccl(text: &str) -> bool {
    text.lines().all(|line| {
        let tag = line.trim_start_matches(' ').strip_prefix('<').and_then(|line| line.strip_suffix('>'));
        let Some(tag) = tag.map(|tag| tag.strip_suffix('/').unwrap_or(tag)) else { return false };
        let lower =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        let name = tag.split(' ').next().unwrap_or_default();
        // key, value, key, value, and nothing after the last quote
        let pieces: Vec<&str> = tag[name.len()..].split('"').collect();
        let pairs = pieces.chunks_exact(2);
        lower(name.strip_prefix('/').unwrap_or(name))
            && pairs.remainder() == [""]
            && pairs.len() <= 16
            && pairs.clone().all(|pair| {
                let key = pair[0].strip_prefix(' ').and_then(|key| key.strip_suffix('='));
                key.is_some_and(lower) && pair[1].len() < 254 && !pair[1].contains(['&', '<', '>'])
            })
    })
}

/// A device, and the switches above it from the CPU down: (cpu, path of switches, is a GPU).
type Device = (usize, Vec<usize>, bool);

fn devices() -> impl Strategy<Value = Vec<Device>> {
    prop::collection::vec((0usize..3, prop::collection::vec(0usize..2, 0..5), any::<bool>()), 0..12)
}

/// `<pci>` elements below the switches `path`, and their addresses in the order of `devices`.
fn tree(devices: &[(usize, &Device)], depth: usize, switches: &mut usize, text: &mut String) {
    for &(index, (_, path, is_gpu)) in devices {
        if path.len() == depth {
            let class = if *is_gpu { "0x030200" } else { "0x020000" };
            let inside =
                if *is_gpu { "<gpu/>".to_string() } else { format!("<nic><net name=\"n{index}\"/></nic>") };
            text.push_str(&format!(
                "<pci busid=\"0000:{index:02x}:00.0\" class=\"{class}\">{inside}</pci>\n"
            ));
        }
    }
    for branch in 0..2 {
        let below: Vec<_> =
            devices.iter().filter(|(_, (_, path, _))| path.get(depth) == Some(&branch)).copied().collect();
        if !below.is_empty() {
            *switches += 1;
            text.push_str(&format!("<pci busid=\"0001:{:02x}:00.0\" class=\"0x060400\">\n", *switches));
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
            topology.numa_nodes.push(NumaNode { os_index, cpus, distances: Vec::new() });
        }
        for (index, (nics, gpu, is_deep, numa_node, (tenths_gt, width), state)) in
            slots.into_iter().enumerate()
        {
            let rate = Some(LinkRate { tenths_gt, width });
            let mut add = |bus: usize, device: u8, parent: PciParent| {
                let address = PciAddress { domain: index as u32, bus: bus as u8, device, function: 0 };
                let link = PcieLink { current: rate, max: rate };
                topology.pci.insert(PciFunction { numa_node, link, ..PciFunction::new(address, parent) });
                PciParent::Bridge(address)
            };
            let root = add(0, 1, PciParent::Host(HostBridge { domain: index as u32, bus: 0 }));
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
                topology.gpus.push(Gpu { minor: Some(index as u32), ..gpu });
            }
            for nic in 0..nics as u8 {
                let address = place(nic, if nic % 2 == 0 { first } else { second });
                let state = [PortState::Active, PortState::Active, PortState::Active, PortState::Down][state];
                let port =
                    |number| Port::new(number, state, LinkLayer::Ethernet, Some(2500 * u64::from(number)));
                topology.nics.push(Nic {
                    address: Some(address),
                    ports: (1..=nic + 1).map(port).collect(),
                    card: Some(format!("946d:ae03:00{index:02x}:00a{nic}")),
                    ..Nic::new(format!("mlx5_{index}{nic}").parse().unwrap(), NicKind::Verbs)
                });
            }
        }
        topology.sort();
        topology
    })
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
        let text = write(&made);
        prop_assert!(is_fit_for_nccl(&text), "{}", text);
        let (found, _) = parse(&text).map_err(|bad| TestCaseError::fail(format!("{bad}\n{text}")))?;
        let mut expected = made.clone();
        expected.nics.retain(|nic| nic.ports[0].state == PortState::Active);
        prop_assert_eq!(facts(&found), facts(&expected), "{}", text);
        for gpu in &found.gpus {
            for address in found.nics.iter().filter_map(|nic| nic.address) {
                let narrowest = |topology: &Topology| topology.way(gpu.address, address).links.iter().map(|link| link.mbps).min();
                prop_assert_eq!(narrowest(&found), narrowest(&made), "{}", text);
            }
        }
        prop_assert_eq!(write(&found).replace("name=\"nccl\"", "name=\"generated\""), text);
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

//! From the node to the file, one line for each element of its lists.
#![forbid(unsafe_code)]

use super::schema::{self, File};
use super::{FORMAT, VERSION};
use crate::topology::{Bitmap, DeviceName, LinkRate, PciParent, Port, Topology};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::collections::BTreeMap;
use std::io;

/// The word for `value`; `None` for values that are not written.
fn word<T: PartialEq>(words: &[(&str, T)], value: T) -> Option<String> {
    words.iter().find(|(_, meaning)| *meaning == value).map(|(word, _)| word.to_string())
}

pub(super) fn file(topology: &Topology, sources: &[String]) -> File {
    let mut cores: BTreeMap<(u32, u32), Bitmap> = BTreeMap::new();
    for pu in &topology.pus {
        cores.entry((pu.package, pu.core)).or_default().insert(pu.os_index);
    }
    let rate = |rate: Option<LinkRate>| rate.map(|rate| rate.to_string());
    let hex4 = |id: Option<u16>| id.map(|id| format!("0x{id:04x}"));
    let numa_nodes = topology.numa_nodes.iter().map(|node| schema::NumaNode {
        os_index: node.os_index,
        cpus: node.cpus.to_string(),
        distances: node.distances.clone(),
    });
    let pus =
        cores.into_iter().map(|((package, core), pus)| schema::Core { package, core, pus: pus.to_string() });
    let pci = topology.pci.iter().map(|function| schema::PciFunction {
        address: function.address.to_string(),
        parent: match function.parent {
            PciParent::Bridge(bridge) => bridge.to_string(),
            PciParent::Host(host) => host.to_string(),
        },
        class: function.class.map(|class| format!("0x{class:06x}")),
        vendor: hex4(function.vendor),
        device: hex4(function.device),
        subsystem: function.subsystem.map(|(vendor, device)| format!("{vendor:04x}:{device:04x}")),
        numa_node: function.numa_node,
        local_cpus: function.local_cpus.as_ref().map(Bitmap::to_string),
        link: schema::Link { current: rate(function.link.current), max: rate(function.link.max) },
        physfn: function.physfn.map(|address| address.to_string()),
        vfs: function.vfs,
        iommu: function.iommu.clone(),
    });
    let gpus = topology.gpus.iter().map(|gpu| schema::Gpu {
        address: gpu.address.to_string(),
        partition: gpu.partition,
        vendor: word(&schema::VENDORS, gpu.vendor).unwrap_or_default(),
        minor: gpu.minor,
        uuid: gpu.uuid.clone(),
        model: gpu.model.clone(),
        runtime_index: gpu.runtime_index,
        mig_instances: gpu.mig_instances,
    });
    let nics = topology.nics.iter().map(|nic| schema::Nic {
        name: nic.name.to_string(),
        kind: word(&schema::KINDS, nic.kind),
        address: nic.address.map(|address| address.to_string()),
        role: nic.role.and_then(|role| word(&schema::ROLES, role)),
        uverbs: nic.uverbs.clone(),
        netdevs: nic.netdevs.clone(),
        guid: nic.guid.clone(),
        card: nic.card.clone(),
        ports: nic.ports.iter().map(port).collect(),
    });
    let paths = topology.stated_paths.iter().map(|((gpu, nic), path)| schema::StatedPath {
        gpu: gpu.to_string(),
        nic: nic.to_string(),
        path: path.to_string(),
    });
    File {
        format: FORMAT.to_string(),
        version: VERSION,
        name: plain(&topology.name),
        sources: sources.to_vec(),
        numa_nodes: numa_nodes.collect(),
        pus: pus.collect(),
        pci: pci.collect(),
        gpus: gpus.collect(),
        nics: nics.collect(),
        paths: paths.collect(),
    }
}

/// A name that a file can hold: vendors write `PowerEdge XE9680` into their products.
fn plain(name: &str) -> String {
    let plain = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.') => letter,
        _ => '-',
    };
    let plain: String = name.chars().map(plain).collect();
    let plain: String = plain.trim_start_matches(['-', '.']).chars().take(DeviceName::MAX).collect();
    if plain.is_empty() { "node".to_string() } else { plain }
}

fn port(port: &Port) -> schema::Port {
    schema::Port {
        number: port.number,
        state: word(&schema::STATES, port.state),
        rate_mbps: port.rate_mbps,
        link_layer: word(&schema::LINK_LAYERS, port.link_layer),
        phys_state: port.phys_state.clone(),
        netdev: port.netdev.clone(),
        subnet: port.subnet.map(|prefix| prefix.to_string()),
        gid_type: port.gid_type.clone(),
        default_route: port.default_route.clone(),
        networks: port.networks.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn json(file: &File) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Lines::default());
    // this cannot fail: the file has string keys only, and a Vec takes every byte
    file.serialize(&mut serializer).expect("a topology file is always valid JSON");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("serde_json writes UTF-8")
}

/// Breaks lines only between the file's fields and between the elements of its lists: a machine fits a
/// screen, and a diff names the function or the port that changed.
#[derive(Default)]
struct Lines {
    depth: usize,
    has_elements: bool,
}

impl Lines {
    fn separate<W: io::Write + ?Sized>(
        &self,
        out: &mut W,
        first: bool,
        broken_depth: usize,
    ) -> io::Result<()> {
        match (first, self.depth == broken_depth) {
            (true, true) => write!(out, "\n{:1$}", "", 2 * self.depth),
            (false, true) => write!(out, ",\n{:1$}", "", 2 * self.depth),
            (true, false) => Ok(()),
            (false, false) => out.write_all(b", "),
        }
    }
}

impl Formatter for Lines {
    fn begin_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"{")
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, 1)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(if self.depth == 0 { b"\n}" } else { b"}" })
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.has_elements = false;
        out.write_all(b"[")
    }

    fn begin_array_value<W: io::Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, 2)
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_elements = true;
        Ok(())
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(if self.depth == 1 && self.has_elements { b"\n  ]" } else { b"]" })
    }
}

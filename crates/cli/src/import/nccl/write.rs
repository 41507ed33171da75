//! Writes a topology as NCCL would dump it, so that `NCCL_TOPO_FILE` can pass it to NCCL.
//!
//! It climbs bridges as NCCL does, two at a time: a switch's ports become one `<pci>` and root ports none.
//! NCCL fills in the rest from its own machine: `arch` and the attributes after it, `sm`, links of unknown
//! speed.
//!
//! NCCL's reader holds 256 elements (`NCCL_TOPO_XML_MAX_NODES` of its src/graph/topo.h); a node of 8 GPUs and
//! 32 NICs has about 120.
//!
//! The format has no place for these facts, which are lost:
//!
//! * two host bridges of one NUMA node become one `<cpu>`, so NODE becomes PHB; all functions with an unknown
//!   NUMA node become one too, though their paths were SYS;
//! * a GPU and a NIC with only one root port above both are PHB to NCCL, and PIX to us;
//! * distances, cores, stated paths, and a link that runs below what both its ends could do;
//! * of GPUs the minor, UUID and model; of NICs the role, node, interfaces and ports that are not active; of ports the
//!   link layer, and whether one without a state is active.
#![forbid(unsafe_code)]

use super::{BRIDGE, device, values};
use nic_placement_core::topology::{
    DeviceName, Gpu, GpuVendor, LinkRate, Nic, NicKind, PciAddress, PciFunction, Port, PortState, Topology,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The longest value that NCCL's reader holds (`MAX_STR_LEN` of src/graph/xml.h, less the quote and the NUL).
const MAX_VALUE: usize = 253;

/// The topology in NCCL's words.
pub fn write(topology: &Topology) -> String {
    let mut writer = Writer { topology, below: BTreeMap::new(), net: 0, text: String::new() };
    let nics = topology.nics.iter().filter(|nic| is_listed(nic)).filter_map(|nic| nic.address);
    for address in topology.gpus.iter().map(|gpu| gpu.address).chain(nics) {
        writer.hang(address);
    }
    let mut numa_nodes: BTreeSet<Option<u32>> =
        topology.numa_nodes.iter().map(|node| Some(node.os_index)).collect();
    numa_nodes.extend(writer.below.keys().filter_map(|above| match above {
        Above::Cpu(node) => Some(*node),
        Above::Switch(_) => None,
    }));
    // NCCL puts NICs without a PCI function at the first CPU
    let mut loose: Vec<&Nic> =
        topology.nics.iter().filter(|nic| nic.address.is_none() && is_listed(nic)).collect();
    if numa_nodes.is_empty() && !loose.is_empty() {
        numa_nodes.insert(None);
    }
    let name = Some(topology.name.as_str()).filter(|name| DeviceName::is_one(name));
    writer.open(0, "system", &[("version", Some("1".to_string())), ("name", name.map(String::from))], false);
    // known NUMA nodes first
    let (unknown, known): (Vec<_>, Vec<_>) = numa_nodes.into_iter().partition(Option::is_none);
    for numa_node in known.into_iter().chain(unknown) {
        writer.cpu(numa_node, &std::mem::take(&mut loose));
    }
    writer.close(0, "system");
    writer.text
}

/// NCCL lists active ports only; for a NIC with unknown ports, the name is enough for NCCL to find the rest.
fn is_listed(nic: &Nic) -> bool {
    nic.ports.is_empty() || nic.ports.iter().any(is_usable)
}

fn is_usable(port: &Port) -> bool {
    matches!(port.state, PortState::Active | PortState::Unknown)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Above {
    Cpu(Option<u32>),
    Switch(PciAddress),
}

struct Writer<'a> {
    topology: &'a Topology,
    below: BTreeMap<Above, BTreeSet<PciAddress>>,
    net: usize,
    text: String,
}

type Attributes<'a> = [(&'a str, Option<String>)];

impl Writer<'_> {
    /// Puts a device below its switches, and these below their CPU.
    fn hang(&mut self, device: PciAddress) {
        let mut here = device;
        // a way that ends at a host bridge cannot be a circle
        if let (bridges, Some(_)) = self.topology.pci.ancestors(device) {
            for &switch in bridges.iter().skip(1).step_by(2) {
                self.below.entry(Above::Switch(switch)).or_default().insert(here);
                here = switch;
            }
        }
        // a switch has one place: its first device's
        let mut cpus = self.below.iter().filter(|(above, _)| matches!(above, Above::Cpu(_)));
        if !cpus.any(|(_, below)| below.contains(&here)) {
            let numa_node = self.topology.numa_node_of(device);
            self.below.entry(Above::Cpu(numa_node)).or_default().insert(here);
        }
    }

    fn open(&mut self, indent: usize, name: &str, attributes: &Attributes<'_>, is_empty: bool) {
        let _ = write!(self.text, "{:indent$}<{name}", "");
        for (key, value) in attributes {
            if let Some(value) = value {
                let _ = write!(self.text, " {key}=\"{}\"", escaped(value));
            }
        }
        self.text.push_str(if is_empty { "/>\n" } else { ">\n" });
    }

    fn close(&mut self, indent: usize, name: &str) {
        let _ = writeln!(self.text, "{:indent$}</{name}>", "");
    }

    fn cpu(&mut self, numa_node: Option<u32>, loose: &[&Nic]) {
        let node = numa_node.and_then(|node| self.topology.numa_node(node));
        // as wide as the kernel's mask, which has room for every CPU
        let count = self.topology.cpus().iter().last().map_or(0, |last| last + 1);
        let affinity =
            node.map(|node| values::mask(&node.cpus, count)).filter(|mask| mask.len() <= MAX_VALUE);
        let numaid = numa_node.map_or("-1".to_string(), |node| node.to_string());
        let below = self.below.get(&Above::Cpu(numa_node)).cloned().unwrap_or_default();
        let is_empty = below.is_empty() && loose.is_empty();
        self.open(2, "cpu", &[("numaid", Some(numaid)), ("affinity", affinity)], is_empty);
        for address in below {
            self.pci(4, address);
        }
        if !loose.is_empty() {
            self.nic(4, loose);
        }
        if !is_empty {
            self.close(2, "cpu");
        }
    }

    fn pci(&mut self, indent: usize, address: PciAddress) {
        let topology = self.topology;
        let below = self.below.get(&Above::Switch(address)).cloned().unwrap_or_default();
        let gpus: Vec<usize> =
            (0..topology.gpus.len()).filter(|&i| topology.gpus[i].address == address).collect();
        let nics: Vec<&Nic> =
            topology.nics.iter().filter(|nic| nic.address == Some(address) && is_listed(nic)).collect();
        let function = topology.pci.get(address);
        let gpu = gpus.first().map(|&gpu| &topology.gpus[gpu]);
        let class = match function.and_then(|function| function.class) {
            Some(class) => format!("0x{class:06x}"),
            // NCCL's own values if sysfs has none
            None if gpu.is_some() => "0x03".to_string(),
            None if !nics.is_empty() => "0x02".to_string(),
            None => format!("0x{BRIDGE:06x}"),
        };
        let id = |id: Option<u16>| id.map(|id| format!("0x{id:04x}"));
        let rate = self.rate(address);
        let attributes = [
            ("busid", Some(address.to_string())),
            ("class", Some(class)),
            ("vendor", id(function.and_then(|function| function.vendor).or(gpu.map(vendor_id)))),
            ("device", id(function.and_then(|function| function.device))),
            (
                "link_speed",
                rate.map(|LinkRate { tenths_gt: tenths, .. }| {
                    format!("{}.{} GT/s PCIe", tenths / 10, tenths % 10)
                }),
            ),
            ("link_width", rate.map(|rate| rate.width.to_string())),
        ];
        // a NIC from a file with only its address has no name that NCCL would know
        let nics: Vec<&Nic> = nics
            .into_iter()
            .filter(|nic| !nic.ports.is_empty() || *nic.name != *device::nameless(address))
            .collect();
        let is_empty = below.is_empty() && gpus.is_empty() && nics.is_empty();
        self.open(indent, "pci", &attributes, is_empty);
        for address in below {
            self.pci(indent + 2, address);
        }
        for gpu in gpus {
            self.open(indent + 2, "gpu", &[("dev", Some(gpu.to_string()))], true);
        }
        if !nics.is_empty() {
            self.nic(indent + 2, &nics);
        }
        if !is_empty {
            self.close(indent, "pci");
        }
    }

    fn nic(&mut self, indent: usize, nics: &[&Nic]) {
        self.open(indent, "nic", &[], false);
        let mut before = 0;
        for nic in nics {
            let usable: Vec<Option<&Port>> = match nic.ports.is_empty() {
                true => vec![None],
                false => nic.ports.iter().filter(|port| is_usable(port)).map(Some).collect(),
            };
            for port in usable {
                // NCCL's IB transport numbers the ports of a card in sequence, and its sockets have port 0
                let number = port.map(|port| match nic.kind {
                    NicKind::Ethernet => 0,
                    _ => u32::from(port.number) + before,
                });
                let attributes = [
                    ("name", Some(nic.name.to_string())),
                    ("dev", Some(self.net.to_string())),
                    ("speed", port.and_then(|port| port.rate_mbps).map(|mbps| mbps.to_string())),
                    ("port", number.map(|number| number.to_string())),
                    ("guid", nic.card.as_deref().and_then(values::guid)),
                ];
                self.open(indent + 2, "net", &attributes, true);
                self.net += 1;
                before += 1;
            }
        }
        self.close(indent, "nic");
    }

    /// The rate that both ends of the link above a function support.
    fn rate(&self, address: PciAddress) -> Option<LinkRate> {
        let able = |function: &PciFunction| function.link.max.or(function.link.current);
        let own = self.topology.pci.get(address).and_then(able);
        let port = self.topology.pci.ancestors(address).0.first().copied();
        let other = port.and_then(|port| self.topology.pci.get(port)).and_then(able);
        match (own, other) {
            (Some(own), Some(other)) => Some(LinkRate {
                tenths_gt: own.tenths_gt.min(other.tenths_gt),
                width: own.width.min(other.width),
            }),
            (own, other) => own.or(other),
        }
    }
}

fn vendor_id(gpu: &Gpu) -> u16 {
    match gpu.vendor {
        GpuVendor::Nvidia => 0x10de,
        GpuVendor::Amd => 0x1002,
        GpuVendor::Intel => 0x8086,
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML allows these not even as escapes
            c if c.is_control() => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

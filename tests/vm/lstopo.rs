//! A machine as hwloc reads it: NUMA nodes, and PCI functions with what stands above them, out of `lstopo --of xml`.

use nic_placement_core::topology::CpuSet;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};

/// `osdev_type` of hwloc's `HWLOC_OBJ_OSDEV_OPENFABRICS`
const OPENFABRICS: &str = "3";

/// What hwloc found.
pub struct Machine {
    /// each NUMA node's own CPUs
    pub numa_nodes: BTreeMap<u32, CpuSet>,
    /// PCI functions that are no bridges, by address
    pub functions: BTreeMap<String, Function>,
}

/// A PCI function as hwloc sees it.
pub struct Function {
    /// class and vendor, such as `0302 10de`
    pub kind: String,
    /// addresses of the bridges above it, nearest first
    pub bridges: Vec<String>,
    /// domain and bus of the host bridge above those, as sysfs writes it: `pci0000:20`
    pub host: String,
    /// the NUMA node whose CPUs hwloc has put it with
    pub numa_node: Option<u32>,
    /// GB/s of its link
    pub link: f64,
    /// names of its RDMA devices
    pub rdma: BTreeSet<String>,
}

impl Function {
    /// How near two functions are: the number of bridges that they share, or else their NUMA node.  More is nearer.
    pub fn nearness(&self, other: &Function) -> usize {
        let shared = self
            .bridges
            .iter()
            .filter(|bridge| other.bridges.contains(bridge));
        match self.host == other.host {
            true => 2 + shared.count(),
            false => usize::from(self.numa_node.is_some() && self.numa_node == other.numa_node),
        }
    }
}

/// Reads what lstopo wrote.
pub fn read(xml: &str) -> Machine {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(xml, options).unwrap();
    let numa_nodes = numa_nodes(&document);
    let functions = objects(&document, "PCIDev");
    let function = |object| {
        (
            value(object, "pci_busid").to_string(),
            function(object, &numa_nodes),
        )
    };
    Machine {
        functions: functions.map(function).collect(),
        numa_nodes,
    }
}

fn value<'a>(node: Node<'a, 'a>, name: &str) -> &'a str {
    node.attribute(name)
        .unwrap_or_else(|| panic!("no {name}: {node:?}"))
}

fn objects<'a>(document: &'a Document, kind: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| is(*node, kind))
}

fn is(node: Node, kind: &str) -> bool {
    node.attribute("type") == Some(kind) && node.has_tag_name("object")
}

/// hwloc gives a node without CPUs the CPUs of nearby nodes.  A CPU belongs to one node.  In our machines the nodes without
/// CPUs come last, so a CPU that an earlier node has is not theirs.
fn numa_nodes(document: &Document) -> BTreeMap<u32, CpuSet> {
    let number = |node| value(node, "os_index").parse().unwrap();
    let local =
        objects(document, "NUMANode").map(|node| (number(node), cpus(value(node, "cpuset"))));
    let mut nodes: BTreeMap<u32, CpuSet> = local.collect();
    let mut taken = CpuSet::new();
    for cpus in nodes.values_mut() {
        *cpus = cpus.iter().filter(|cpu| !taken.contains(*cpu)).collect();
        taken = taken.union(cpus);
    }
    nodes
}

fn function<'a>(object: Node<'a, 'a>, numa_nodes: &BTreeMap<u32, CpuSet>) -> Function {
    let above = || object.ancestors().filter(|node| is(*node, "Bridge"));
    // `0-1` is a host bridge, `1-1` a bridge between PCI buses
    let mut hosts = above().filter(|bridge| value(*bridge, "bridge_type") == "0-1");
    let host = hosts.next().unwrap();
    let local = cpus(value(host.parent_element().unwrap(), "cpuset"));
    // `0302 [10de:2330] [10de:16c1] 02`
    let kind: Vec<&str> = value(object, "pci_type").split([' ', '[', ':']).collect();
    let bridges = above().filter_map(|bridge| bridge.attribute("pci_busid"));
    let mut nodes = numa_nodes.iter().filter(|(_, cpus)| **cpus == local);
    let is_rdma =
        |child: &Node| is(*child, "OSDev") && child.attribute("osdev_type") == Some(OPENFABRICS);
    let rdma = object.children().filter(is_rdma);
    // `0000:[20-25]`
    let bus = value(host, "bridge_pci").replace('[', "");
    Function {
        kind: format!("{} {}", kind[0], kind[2]),
        bridges: bridges.map(String::from).collect(),
        host: format!("pci{}", bus.split('-').next().unwrap()),
        numa_node: nodes.next().map(|(node, _)| *node),
        link: value(object, "pci_link_speed").parse().unwrap(),
        rdma: rdma.map(|child| value(child, "name").to_string()).collect(),
    }
}

/// `0x0000000f`, above 32 CPUs in words with the highest first: `0x00000001,0x0000000f`
fn cpus(mask: &str) -> CpuSet {
    let words = mask.split(',').rev().enumerate().map(|(word, bits)| {
        let bits = u32::from_str_radix(bits.trim_start_matches("0x"), 16).unwrap_or(0);
        (0..32)
            .filter(move |bit| bits >> bit & 1 == 1)
            .map(move |bit| word as u32 * 32 + bit)
    });
    words.flatten().collect()
}

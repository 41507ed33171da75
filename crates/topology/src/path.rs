//! Paths between PCI functions: their links, and their kinds as in nvidia-smi and NCCL.

use super::text::display_as_serialized;
use super::{GpuVendor, HostBridge, PciAddress, PciFunction, Topology};
use serde::{Deserialize, Serialize};

/// Kind of path (`nvidia-smi topo -m`), nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathType {
    /// at most a single PCIe switch
    Pix,
    /// several PCIe switches, no host bridge
    Pxb,
    /// through one host bridge
    Phb,
    /// between host bridges of one NUMA node
    Node,
    /// between NUMA nodes, or if a NUMA node is unknown
    Sys,
}

impl PathType {
    pub const ALL: [PathType; 5] = [
        PathType::Pix,
        PathType::Pxb,
        PathType::Phb,
        PathType::Node,
        PathType::Sys,
    ];
}

display_as_serialized!(PathType);

/// The bridges and links from a PCI function up to its host bridge.
#[derive(Debug, Clone)]
pub struct Ascent {
    pub address: PciAddress,
    pub numa_node: Option<u32>,
    /// nearest first
    bridges: Vec<PciAddress>,
    host: Option<HostBridge>,
    links: Vec<Option<(PciAddress, u64)>>,
    /// the result of [`parts`]
    parts: Vec<usize>,
}

/// The path between two [`Ascent`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meeting {
    pub kind: PathType,
    /// the NUMA nodes of a [`PathType::Sys`] path, the smaller first; `None` if equal or unknown
    pub crossing: Option<(u32, u32)>,
    links: (usize, usize),
}

impl Ascent {
    /// Links that the function and each bridge above report, nearest first: function 0 of the
    /// function's device, else the bridge, and Mbit/s; `None` if the rate is unknown.
    pub fn links(&self) -> &[Option<(PciAddress, u64)>] {
        &self.links
    }

    /// `None` if bridges are missing, in a circle, or too many.
    pub fn host(&self) -> Option<HostBridge> {
        self.host
    }

    /// Bridges above the function, nearest first, without the two ports inside a large switch that
    /// appears as two switches, one behind the other.
    pub fn bridges(&self) -> impl Iterator<Item = PciAddress> {
        let is_inside = |at: usize| self.parts.iter().any(|&part| part == at || part + 1 == at);
        let bridges = self.bridges.iter().enumerate();
        bridges
            .filter(move |(at, _)| !is_inside(*at))
            .map(|(_, &bridge)| bridge)
    }

    /// True if [`Ascent::bridges`] has at most one of the nearest `count` bridges.
    fn is_one_switch(&self, count: usize) -> bool {
        let parts = self.parts.iter().filter(|&&at| at < count).count();
        count - 2 * parts <= 1
    }
}

impl Meeting {
    /// The number of [`Ascent::links`] from each function up to the lowest common bridge, else to
    /// the host bridge.
    pub fn links(&self) -> (usize, usize) {
        self.links
    }
}

impl Topology {
    /// The kind of path between two PCI functions, by nvidia-smi's legend; a stated path
    /// ([`Topology::stated_paths`]) overrides it.
    ///
    /// In sysfs a switch is an upstream port above downstream ports, so two functions share one
    /// switch if each has at most one bridge below the lowest common bridge. Between host bridges,
    /// an unknown NUMA node means [`PathType::Sys`].
    pub fn path_type(&self, a: PciAddress, b: PciAddress) -> PathType {
        self.meeting(&self.ascent(a), &self.ascent(b)).kind
    }

    pub fn ascent(&self, address: PciAddress) -> Ascent {
        let (functions, host) = self.pci.climb(address);
        let gpu = self.gpus.iter().find(|gpu| gpu.address == address);
        let limits = gpu.map_or_else(Vec::new, |gpu| limits(gpu.vendor, &functions));
        let link = |(at, function): (usize, &&PciFunction)| {
            let mut rate = function.link.current?;
            let limit = limits.get(at / 2).copied().unwrap_or(0);
            rate.tenths_gt = rate.tenths_gt.max(limit);
            // each bridge has a link of its own
            let device = match at {
                0 => function.address.card(),
                _ => function.address,
            };
            Some((device, rate.mbps()))
        };
        let numa_node = functions.iter().find_map(|function| function.numa_node);
        // the parents include a topmost bridge that the tree lacks: two functions can share it
        let bridges = functions
            .iter()
            .filter_map(|function| function.parent.bridge());
        Ascent {
            address,
            numa_node: numa_node.or_else(|| self.numa_node_of(address)),
            bridges: bridges.collect(),
            host,
            links: functions.iter().enumerate().map(link).collect(),
            parts: parts(functions.get(1..).unwrap_or_default()),
        }
    }

    pub fn meeting(&self, a: &Ascent, b: &Ascent) -> Meeting {
        let same_host = a.host.is_some() && a.host == b.host;
        let mut common = None;
        // functions below different host bridges share no bridge
        if same_host || a.host.is_none() || b.host.is_none() {
            let above_b = |bridge| b.bridges.iter().position(|other| other == bridge);
            let mut bridges = a.bridges.iter().enumerate();
            common = bridges.find_map(|(below_a, bridge)| Some((below_a, above_b(bridge)?)));
        }
        let kind = match common {
            Some((below_a, below_b)) if a.is_one_switch(below_a) && b.is_one_switch(below_b) => {
                PathType::Pix
            }
            Some(_) => PathType::Pxb,
            None if same_host => PathType::Phb,
            None if a.numa_node.is_some() && a.numa_node == b.numa_node => PathType::Node,
            None => PathType::Sys,
        };
        let mut pairs = [(a.address, b.address), (b.address, a.address)].into_iter();
        let stated = pairs.find_map(|pair| self.stated_paths.get(&pair));
        let kind = stated.copied().unwrap_or(kind);
        let crossing = match (kind, a.numa_node, b.numa_node) {
            (PathType::Sys, Some(from), Some(to)) if from != to => {
                Some((from.min(to), from.max(to)))
            }
            _ => None,
        };
        let (below_a, below_b) = common.unwrap_or((a.bridges.len(), b.bridges.len()));
        Meeting {
            kind,
            crossing,
            links: (below_a + 1, below_b + 1),
        }
    }

    /// ACPI SLIT distance of two NUMA nodes, 10 = local; `None` if unknown.
    pub fn distance(&self, from: u32, to: u32) -> Option<u32> {
        let mut nodes = self.numa_nodes.iter();
        let column = nodes.position(|node| node.os_index == to)?;
        self.numa_node(from)?.distances.get(column).copied()
    }
}

/// Speed limits of a GPU card's links, nearest first, in tenths of GT/s, 0 if unknown. A link's
/// limit is its slower end's. On a card with a switch, the link above the switch is included.
///
/// The current speed is too low when a step begins: the GPU is idle (nvidia-smi's manual, "PCI":
/// "may be reduced when the GPU is not in use").
fn limits(vendor: GpuVendor, functions: &[&PciFunction]) -> Vec<u32> {
    let is_own = |(at, pair): &(usize, &[&PciFunction])| {
        *at == 0 || pair[0].vendor.and_then(GpuVendor::from_pci) == Some(vendor)
    };
    let limit = |(_, pair): (usize, &[&PciFunction])| {
        let [lower, upper] = [pair[0], pair[1]].map(|end| end.link.max);
        lower
            .zip(upper)
            .map_or(0, |(lower, upper)| lower.tenths_gt.min(upper.tenths_gt))
    };
    let pairs = functions.chunks_exact(2).enumerate();
    pairs.take_while(is_own).map(limit).collect()
}

/// Indices in `bridges` of the upstream ports of switches that belong to the switch above.
///
/// A large Broadcom switch appears as one switch behind another, though all its ports have full
/// bandwidth to each other. NCCL merges the two (src/graph/topo.cc, `ncclTopoFlattenBcmSwitches`);
/// else the wrong NIC looks nearer (NVIDIA/nccl issue 820). `bridges` alternate between downstream
/// and upstream ports.
fn parts(bridges: &[&PciFunction]) -> Vec<usize> {
    let mut parts = Vec::new();
    let mut parent_is_part = false;
    // from the host bridge down: a switch below a part is no part itself
    for switch in (1..bridges.len() / 2).rev() {
        let at = 2 * switch - 1;
        let whole = broadcom_generation(bridges[at + 2], 0);
        let part = broadcom_generation(bridges[at], 1);
        parent_is_part = !parent_is_part && whole.is_some() && whole == part;
        if parent_is_part {
            parts.push(at);
        }
    }
    parts
}

/// The PCIe generation of a Broadcom switch, whole (`level` 0) or a part (`level` 1), by its ids.
fn broadcom_generation(switch: &PciFunction, level: u16) -> Option<u8> {
    let (subsystem_vendor, subsystem) = switch.subsystem?;
    let ids = (switch.vendor?, switch.device?, subsystem_vendor);
    match (ids, subsystem >> 12) {
        ((0x1000, 0xc010, 0x1000), 0xa) => Some(4),
        ((0x1000, 0xc030, 0x1000), part) if part == level => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::way::Between;

    fn function(
        topology: &mut Topology,
        address: &str,
        parent: &str,
        numa_node: Option<u32>,
        width: u32,
    ) {
        let rate = Some(format!("32.0 GT/s x{width}").parse().unwrap());
        let parent = match parent.parse() {
            Ok(host) => PciParent::Host(host),
            Err(_) => PciParent::Bridge(parent.parse().unwrap()),
        };
        let mut function = PciFunction::new(address.parse().unwrap(), parent);
        (function.numa_node, function.link.current, function.link.max) = (numa_node, rate, rate);
        topology.pci.insert(function);
    }

    /// Two root ports on one host bridge, a switch below the first with another switch below that.
    fn machine() -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for (address, parent, node) in rows! {
            "00:01.0", "pci0000:00", Some(0); "01:00.0", "00:01.0", Some(0);
            "02:00.0", "01:00.0", Some(0); "02:01.0", "01:00.0", Some(0);
            "02:02.0", "01:00.0", Some(0); "03:00.0", "02:00.0", None;
            "04:00.0", "02:01.0", Some(0); "05:00.0", "02:02.0", Some(0);
            "06:00.0", "05:00.0", Some(0); "07:00.0", "06:00.0", Some(0);
            "07:00.1", "06:00.0", Some(0); "00:02.0", "pci0000:00", Some(0);
            "08:00.0", "00:02.0", Some(0); "40:01.0", "pci0000:40", Some(0);
            "41:00.0", "40:01.0", Some(0); "80:01.0", "pci0000:80", Some(1);
            "81:00.0", "80:01.0", Some(1); "c0:01.0", "pci0000:c0", None;
            "c1:00.0", "c0:01.0", None;
        } {
            function(&mut topology, address, parent, node, 16);
        }
        topology
    }

    fn way(topology: &Topology, a: &str, b: &str) -> crate::way::Way {
        topology.way(a.parse().unwrap(), b.parse().unwrap())
    }

    #[test]
    fn the_kind_of_a_path_is_that_of_nvidia_smi() {
        let topology = machine();
        for (a, b, kind) in rows! {
            // two ports of one switch, and two functions of one card
            "03:00.0", "04:00.0", PathType::Pix; "07:00.0", "07:00.1", PathType::Pix;
            // a switch behind a switch
            "03:00.0", "07:00.0", PathType::Pxb;
            // two root ports, and two host bridges of one NUMA node
            "03:00.0", "08:00.0", PathType::Phb; "03:00.0", "41:00.0", PathType::Node;
            "03:00.0", "81:00.0", PathType::Sys;
            // the kernel does not name its NUMA node
            "03:00.0", "c1:00.0", PathType::Sys;
        } {
            assert_eq!(way(&topology, a, b).kind, kind, "{a} {b}");
            assert_eq!(way(&topology, b, a).kind, kind, "{b} {a}");
        }
    }

    #[test]
    fn a_broadcom_switch_that_shows_itself_as_two_is_one() {
        // GPU 05 behind a part, NIC 06 behind another part, NIC 07 at the whole
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for (address, parent) in rows! {
            "00:01.0", "pci0000:00"; "01:00.0", "00:01.0"; "02:00.0", "01:00.0";
            "02:01.0", "01:00.0"; "02:02.0", "01:00.0"; "03:00.0", "02:00.0"; "08:00.0", "03:00.0";
            "05:00.0", "08:00.0"; "04:00.0", "02:01.0"; "09:00.0", "04:00.0"; "06:00.0", "09:00.0";
            "07:00.0", "02:02.0";
        } {
            function(&mut topology, address, parent, Some(0), 16);
        }
        use PathType::{Pix, Pxb};
        for (address, device, subsystem, to_part, to_whole) in rows! {
            // the whole alone, one part, both parts
            "01:00.0", 0xc010, 0xa096, Pxb, Pxb; "03:00.0", 0xc010, 0xa096, Pxb, Pix;
            "04:00.0", 0xc010, 0xa096, Pix, Pix;
            // another generation, which numbers its parts; a whole is no part
            "01:00.0", 0xc030, 0x0096, Pxb, Pxb; "03:00.0", 0xc030, 0x1096, Pxb, Pix;
            "04:00.0", 0xc030, 0x1096, Pix, Pix; "04:00.0", 0xc030, 0x0096, Pxb, Pix;
        } {
            let mut switch = topology.pci.get(address.parse().unwrap()).unwrap().clone();
            (switch.vendor, switch.device) = (Some(0x1000), Some(device));
            switch.subsystem = Some((0x1000, subsystem));
            topology.pci.insert(switch);
            let kinds = ["06:00.0", "07:00.0"].map(|nic| way(&topology, "05:00.0", nic).kind);
            let expected = [to_part, to_whole];
            assert_eq!(kinds, expected, "{address} {device:x} {subsystem:x}");
        }
    }

    #[test]
    fn a_way_that_is_only_stated_crosses_between_the_numa_nodes_that_are_known() {
        let mut topology = machine();
        for (a, b, stated, crossing) in [
            ("81:00.0", "03:00.0", None, Some((0, 1))),
            ("81:00.0", "03:00.0", Some(PathType::Sys), Some((0, 1))),
            // as near as a virtual bus may hide
            ("81:00.0", "04:00.0", Some(PathType::Pix), None),
            // both on one NUMA node, and one without a known node
            ("03:00.0", "41:00.0", Some(PathType::Sys), None),
            ("03:00.0", "c1:00.0", Some(PathType::Sys), None),
        ] {
            let pair = (a.parse().unwrap(), b.parse().unwrap());
            let stated_path = stated.map(|kind| (pair, kind));
            topology.stated_paths.extend(stated_path);
            let found = way(&topology, a, b).crossing;
            assert_eq!(found, crossing, "{a} {b} {stated:?}");
        }
    }

    #[test]
    fn functions_of_an_endpoint_have_one_link_and_root_ports_that_are_functions_one_each() {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for (address, parent) in rows! {
            "40:03.1", "pci0000:40"; "41:00.0", "40:03.1"; "41:00.1", "40:03.1";
            "40:03.2", "pci0000:40"; "42:00.0", "40:03.2";
        } {
            function(&mut topology, address, parent, Some(0), 8);
        }
        let shared = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|address| topology.ascent(address.parse().unwrap()).links);
            a.iter().filter(|link| b.contains(link)).count()
        };
        assert_eq!(shared("41:00.0", "41:00.1"), 2);
        assert_eq!(shared("41:00.0", "42:00.0"), 0);
    }

    #[test]
    fn a_bridge_that_the_tree_does_not_hold_is_still_one_that_two_functions_have_in_common() {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        function(&mut topology, "02:00.0", "01:00.0", None, 16);
        function(&mut topology, "02:01.0", "01:00.0", None, 16);
        function(&mut topology, "03:00.0", "0f:00.0", None, 16);
        // the tree does not hold the last one itself
        for (other, kind, links) in rows! {
            "02:01.0", PathType::Pix, 2; "03:00.0", PathType::Sys, 2; "0e:00.0", PathType::Sys, 1;
        } {
            let way = way(&topology, "02:00.0", other);
            assert_eq!((way.kind, way.links.len()), (kind, links), "{other}");
        }
    }

    #[test]
    fn the_narrowest_link_between_two_functions_counts_and_those_above_their_switch_do_not() {
        let mut topology = machine();
        function(&mut topology, "02:01.0", "01:00.0", Some(0), 4);
        function(&mut topology, "00:01.0", "pci0000:00", Some(0), 1);
        // the x4 port, and the x1 root port
        for (other, mbps) in [("04:00.0", 126_030), ("81:00.0", 31_507)] {
            let links = way(&topology, "03:00.0", other).links;
            assert_eq!(links.iter().map(|link| link.mbps).min(), Some(mbps));
        }
    }
}

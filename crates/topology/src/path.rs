//! How two PCI functions reach each other: nvidia-smi's and NCCL's path types, and the narrowest link on the way.
#![forbid(unsafe_code)]

use super::{GpuVendor, HostBridge, PciAddress, PciFunction, Topology};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of path, nearest first, in the words of `nvidia-smi topo -m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathType {
    /// at most a single PCIe switch
    Pix,
    /// several PCIe switches, but no host bridge
    Pxb,
    /// through a host bridge
    Phb,
    /// between host bridges of one NUMA node
    Node,
    /// between NUMA nodes
    Sys,
}

impl PathType {
    /// All kinds, nearest first.
    pub const ALL: [PathType; 5] = [
        PathType::Pix,
        PathType::Pxb,
        PathType::Phb,
        PathType::Node,
        PathType::Sys,
    ];
}

impl fmt::Display for PathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad`, so that tables can give a width
        f.pad(match self {
            PathType::Pix => "PIX",
            PathType::Pxb => "PXB",
            PathType::Phb => "PHB",
            PathType::Node => "NODE",
            PathType::Sys => "SYS",
        })
    }
}

/// The path between two PCI functions, with all that other paths may share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    pub kind: PathType,
    /// PCIe links with a known rate
    pub links: Vec<Link>,
    /// the NUMA nodes at its ends, the smaller first; `None` if they are the same, or one is not known
    pub crossing: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// the device below it, by its function 0: all functions of a device share one link
    pub below: PciAddress,
    /// true if it is on the first function's side
    pub of_a: bool,
    /// rate under load in Mbit/s
    pub mbps: u64,
}

/// The bridges and links above a PCI function, up to its host bridge, for every path that ends there.
#[derive(Debug, Clone)]
pub struct Ascent {
    pub address: PciAddress,
    pub numa_node: Option<u32>,
    /// nearest first
    bridges: Vec<PciAddress>,
    host: Option<HostBridge>,
    /// the link above the function and above each bridge: the device below it, and its rate in Mbit/s
    links: Vec<Option<(PciAddress, u64)>>,
    /// positions among the bridges of switches that are parts of the switch above them
    parts: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meeting {
    pub kind: PathType,
    /// as [`Way::crossing`]
    pub crossing: Option<(u32, u32)>,
    /// number of the first function's links on the path
    links_a: usize,
    /// of the second function
    links_b: usize,
}

impl Ascent {
    /// Links above the function, nearest first: the device below each, and its rate in Mbit/s where that is known.
    pub fn links(&self) -> &[Option<(PciAddress, u64)>] {
        &self.links
    }

    /// `None` if the tree does not reach the top.
    pub fn host(&self) -> Option<HostBridge> {
        self.host
    }

    /// Bridges above the function, nearest first, without those by which a switch shows itself as two.
    pub fn bridges(&self) -> impl Iterator<Item = PciAddress> {
        let is_inside = |at: usize| self.parts.iter().any(|&part| part == at || part + 1 == at);
        let bridges = self.bridges.iter().enumerate();
        bridges
            .filter(move |(at, _)| !is_inside(*at))
            .map(|(_, &bridge)| bridge)
    }

    /// The number of switches that the `below` nearest bridges are.
    fn switches(&self, below: usize) -> usize {
        below - 2 * self.parts.iter().filter(|&&place| place < below).count()
    }
}

impl Meeting {
    /// Numbers of each side's links on the path.
    pub fn links(&self) -> (usize, usize) {
        (self.links_a, self.links_b)
    }
}

impl Topology {
    /// The kind of path between two PCI functions, by nvidia-smi's legend.
    ///
    /// A switch is an upstream port with downstream ports below it in sysfs, so two functions share one switch when at
    /// most one bridge is between each of them and the lowest bridge above both.  If the kernel names no NUMA node for
    /// one of them, the path is [`PathType::Sys`]: nothing shows that it is shorter.  A stated path
    /// ([`Topology::stated_paths`]) has its stated kind.
    pub fn path_type(&self, a: PciAddress, b: PciAddress) -> PathType {
        self.meeting(&self.ascent(a), &self.ascent(b)).kind
    }

    pub fn way(&self, a: PciAddress, b: PciAddress) -> Way {
        let (a, b) = (self.ascent(a), self.ascent(b));
        let Meeting {
            kind,
            crossing,
            links_a,
            links_b,
        } = self.meeting(&a, &b);
        let link = |known: &Option<(PciAddress, u64)>, of_a| {
            known.map(|(below, mbps)| Link { below, of_a, mbps })
        };
        let of_a = a
            .links
            .iter()
            .take(links_a)
            .filter_map(|known| link(known, true));
        let of_b = b
            .links
            .iter()
            .take(links_b)
            .filter_map(|known| link(known, false));
        Way {
            kind,
            links: of_a.chain(of_b).collect(),
            crossing,
        }
    }

    pub fn ascent(&self, address: PciAddress) -> Ascent {
        let (functions, host) = self.pci.climb(address);
        let gpu = self
            .gpus
            .iter()
            .find(|gpu| gpu.address == address)
            .map(|gpu| gpu.vendor);
        let able = able(gpu, &functions);
        let link = |(place, function): (usize, &&PciFunction)| {
            let mut rate = function.link.current?;
            rate.tenths_gt = able
                .get(place / 2)
                .map_or(rate.tenths_gt, |&able| able.max(rate.tenths_gt));
            // functions of one device stand behind one link
            Some((function.address.card(), rate.mbps()))
        };
        let links = functions.iter().enumerate().map(link).collect();
        let above = functions.get(1..).unwrap_or_default();
        let told = functions.iter().find_map(|function| function.numa_node);
        let numa_node = told.or_else(|| self.numa_node_of(address));
        // the last bridge may be missing from the tree, and still be what two functions have in common
        let bridges = functions
            .iter()
            .filter_map(|function| function.parent.bridge())
            .collect();
        Ascent {
            address,
            numa_node,
            bridges,
            host,
            links,
            parts: parts(above),
        }
    }

    pub fn meeting(&self, a: &Ascent, b: &Ascent) -> Meeting {
        let same_host = a.host.is_some() && a.host == b.host;
        let common = match same_host || a.host.is_none() || b.host.is_none() {
            true => a.bridges.iter().enumerate().find_map(|(below_a, bridge)| {
                b.bridges
                    .iter()
                    .position(|other| other == bridge)
                    .map(|below_b| (below_a, below_b))
            }),
            // below two host bridges there is no bridge above both
            false => None,
        };
        let kind = match common {
            Some((below_a, below_b)) if a.switches(below_a) <= 1 && b.switches(below_b) <= 1 => {
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
            links_a: below_a + 1,
            links_b: below_b + 1,
        }
    }

    /// Distance of two NUMA nodes (ACPI SLIT, 10 = local); `None` where the kernel does not tell.
    pub fn distance(&self, from: u32, to: u32) -> Option<u32> {
        let column = self
            .numa_nodes
            .iter()
            .position(|node| node.os_index == to)?;
        self.numa_node(from)?.distances.get(column).copied()
    }
}

/// Limits of a GPU's own links, nearest first, in tenths of GT/s a lane.
///
/// An idle GPU slows its link down (nvidia-smi's manual, "PCI": "may be reduced when the GPU is not in use"), and it is
/// idle when a step begins.  So its lanes count, and the limits of both ends.  On a card with its own switch, the link
/// above the switch counts too.
fn able(gpu: Option<GpuVendor>, functions: &[&PciFunction]) -> Vec<u32> {
    let Some(vendor) = gpu else { return Vec::new() };
    let is_own = |(place, pair): &(usize, &[&PciFunction])| {
        *place == 0 || pair[0].vendor.and_then(GpuVendor::from_pci) == Some(vendor)
    };
    let both =
        |pair: &[&PciFunction]| Some(pair[0].link.max?.tenths_gt.min(pair[1].link.max?.tenths_gt));
    let pairs = functions.chunks_exact(2).enumerate().take_while(is_own);
    pairs.map(|(_, pair)| both(pair).unwrap_or(0)).collect()
}

/// The switches among these bridges that are parts of the switch above them, by their positions.
///
/// Broadcom's large switches show themselves as a switch behind a switch, though every port has full bandwidth to every
/// other; NCCL takes the two for one (src/graph/topo.cc, `ncclTopoFlattenBcmSwitches`), and so do we, or the wrong NIC
/// looks nearer (NVIDIA/nccl issue 820).  Bridges above a function are downstream and upstream ports in turn.
fn parts(above: &[&PciFunction]) -> Vec<usize> {
    let mut parts = Vec::new();
    let mut parent_is_merged = false;
    // from the host bridge down: a switch that took its parts is not itself a part
    let switches = above.len() / 2;
    for place in (0..switches.saturating_sub(1))
        .rev()
        .map(|switch| 2 * switch + 1)
    {
        let (switch, parent) = (above[place], above[place + 2]);
        let is_part = !parent_is_merged
            && matches!((part_of(parent, 0), part_of(switch, 1)), (Some(a), Some(b)) if a == b);
        parent_is_merged = is_part;
        if is_part {
            parts.push(place);
        }
    }
    parts
}

/// The generation of a Broadcom switch that is the whole (level 0) or a part (level 1), by its ids.
fn part_of(switch: &PciFunction, level: u16) -> Option<u8> {
    let (subsystem_vendor, subsystem) = switch.subsystem?;
    match (
        switch.vendor?,
        switch.device?,
        subsystem_vendor,
        subsystem >> 12,
    ) {
        (0x1000, 0xc010, 0x1000, 0xa) => Some(4),
        (0x1000, 0xc030, 0x1000, part) if part == level => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn function(
        topology: &mut Topology,
        address: &str,
        parent: &str,
        numa_node: Option<u32>,
        width: u32,
    ) {
        let rate = LinkRate {
            tenths_gt: 320,
            width,
        };
        let parent = match parent.parse() {
            Ok(host) => PciParent::Host(host),
            Err(_) => PciParent::Bridge(parent.parse().unwrap()),
        };
        topology.pci.insert(PciFunction {
            numa_node,
            link: PcieLink {
                current: Some(rate),
                max: Some(rate),
            },
            ..PciFunction::new(address.parse().unwrap(), parent)
        });
    }

    /// Two root ports on one host bridge, a switch below the first with another switch below that.
    fn machine() -> Topology {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for (address, parent, node) in [
            ("00:01.0", "pci0000:00", Some(0)),
            ("01:00.0", "00:01.0", Some(0)),
            ("02:00.0", "01:00.0", Some(0)),
            ("02:01.0", "01:00.0", Some(0)),
            ("02:02.0", "01:00.0", Some(0)),
            ("03:00.0", "02:00.0", None),
            ("04:00.0", "02:01.0", Some(0)),
            ("05:00.0", "02:02.0", Some(0)),
            ("06:00.0", "05:00.0", Some(0)),
            ("07:00.0", "06:00.0", Some(0)),
            ("07:00.1", "06:00.0", Some(0)),
            ("00:02.0", "pci0000:00", Some(0)),
            ("08:00.0", "00:02.0", Some(0)),
            ("40:01.0", "pci0000:40", Some(0)),
            ("41:00.0", "40:01.0", Some(0)),
            ("80:01.0", "pci0000:80", Some(1)),
            ("81:00.0", "80:01.0", Some(1)),
            ("c0:01.0", "pci0000:c0", None),
            ("c1:00.0", "c0:01.0", None),
        ] {
            function(&mut topology, address, parent, node, 16);
        }
        topology
    }

    #[test]
    fn the_kind_of_a_path_is_what_nvidia_smi_calls_it() {
        let topology = machine();
        let kind = |a: &str, b: &str| topology.path_type(a.parse().unwrap(), b.parse().unwrap());
        assert_eq!(
            kind("03:00.0", "04:00.0"),
            PathType::Pix,
            "two ports of one switch"
        );
        assert_eq!(
            kind("07:00.0", "07:00.1"),
            PathType::Pix,
            "two functions of one card"
        );
        assert_eq!(
            kind("03:00.0", "07:00.0"),
            PathType::Pxb,
            "a switch behind a switch"
        );
        assert_eq!(
            kind("03:00.0", "08:00.0"),
            PathType::Phb,
            "two root ports of one host bridge"
        );
        assert_eq!(
            kind("03:00.0", "41:00.0"),
            PathType::Node,
            "two host bridges of one NUMA node"
        );
        assert_eq!(kind("03:00.0", "81:00.0"), PathType::Sys, "two NUMA nodes");
        assert_eq!(
            kind("03:00.0", "c1:00.0"),
            PathType::Sys,
            "a NUMA node that the kernel does not name"
        );
        assert_eq!(
            kind("81:00.0", "03:00.0"),
            PathType::Sys,
            "either way round"
        );
    }

    #[test]
    fn a_broadcom_switch_that_shows_itself_as_two_is_one() {
        // GPU 05 behind a part, NIC 06 behind another part, NIC 07 at the whole
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        for (address, parent) in [
            ("00:01.0", "pci0000:00"),
            ("01:00.0", "00:01.0"),
            ("02:00.0", "01:00.0"),
            ("02:01.0", "01:00.0"),
            ("02:02.0", "01:00.0"),
            ("03:00.0", "02:00.0"),
            ("08:00.0", "03:00.0"),
            ("05:00.0", "08:00.0"),
            ("04:00.0", "02:01.0"),
            ("09:00.0", "04:00.0"),
            ("06:00.0", "09:00.0"),
            ("07:00.0", "02:02.0"),
        ] {
            function(&mut topology, address, parent, Some(0), 16);
        }
        let mut ids = |address: &str, device: u16, subsystem: u16| {
            let mut switch = topology.pci.get(address.parse().unwrap()).unwrap().clone();
            (switch.vendor, switch.device) = (Some(0x1000), Some(device));
            switch.subsystem = Some((0x1000, subsystem));
            topology.pci.insert(switch);
            let kind =
                |a: &str, b: &str| topology.path_type(a.parse().unwrap(), b.parse().unwrap());
            (kind("05:00.0", "06:00.0"), kind("05:00.0", "07:00.0"))
        };
        assert_eq!(
            ids("01:00.0", 0xc010, 0xa096),
            (PathType::Pxb, PathType::Pxb),
            "the whole alone"
        );
        assert_eq!(
            ids("03:00.0", 0xc010, 0xa096),
            (PathType::Pxb, PathType::Pix),
            "one part"
        );
        assert_eq!(
            ids("04:00.0", 0xc010, 0xa096),
            (PathType::Pix, PathType::Pix),
            "both parts"
        );
        assert_eq!(
            ids("01:00.0", 0xc030, 0x0096),
            (PathType::Pxb, PathType::Pxb),
            "another generation"
        );
        ids("03:00.0", 0xc030, 0x1096);
        assert_eq!(
            ids("04:00.0", 0xc030, 0x1096),
            (PathType::Pix, PathType::Pix),
            "Gen5 numbers its parts"
        );
        assert_eq!(
            ids("04:00.0", 0xc030, 0x0096),
            (PathType::Pxb, PathType::Pix),
            "a whole is no part"
        );
    }

    #[test]
    fn a_way_that_is_only_stated_crosses_between_the_numa_nodes_that_are_known() {
        let mut topology = machine();
        let crossing = |topology: &Topology, a: &str, b: &str| {
            topology
                .way(a.parse().unwrap(), b.parse().unwrap())
                .crossing
        };
        assert_eq!(crossing(&topology, "81:00.0", "03:00.0"), Some((0, 1)));
        let mut state = |a: &str, b: &str, kind| {
            topology
                .stated_paths
                .insert((a.parse().unwrap(), b.parse().unwrap()), kind);
            crossing(&topology, a, b)
        };
        assert_eq!(state("81:00.0", "03:00.0", PathType::Sys), Some((0, 1)));
        assert_eq!(
            state("81:00.0", "04:00.0", PathType::Pix),
            None,
            "as near as a virtual bus hides"
        );
        assert_eq!(
            state("03:00.0", "41:00.0", PathType::Sys),
            None,
            "both on one NUMA node"
        );
        assert_eq!(
            state("03:00.0", "c1:00.0", PathType::Sys),
            None,
            "one of which nothing is known"
        );
    }

    #[test]
    fn a_bridge_that_the_tree_does_not_hold_is_still_one_that_two_functions_have_in_common() {
        let mut topology = Topology::empty("test", Provenance::ThisSystem);
        function(&mut topology, "02:00.0", "01:00.0", None, 16);
        function(&mut topology, "02:01.0", "01:00.0", None, 16);
        function(&mut topology, "03:00.0", "0f:00.0", None, 16);
        let way = |a: &str, b: &str| topology.way(a.parse().unwrap(), b.parse().unwrap());
        assert_eq!(way("02:00.0", "02:01.0").kind, PathType::Pix);
        assert_eq!(
            (
                way("02:00.0", "03:00.0").kind,
                way("02:00.0", "03:00.0").links.len()
            ),
            (PathType::Sys, 2)
        );
        assert_eq!(
            way("02:00.0", "0e:00.0").links.len(),
            1,
            "a function that the tree does not hold"
        );
    }

    #[test]
    fn the_narrowest_link_between_two_functions_counts_and_those_above_their_switch_do_not() {
        let mut topology = machine();
        function(&mut topology, "02:01.0", "01:00.0", Some(0), 4);
        function(&mut topology, "00:01.0", "pci0000:00", Some(0), 1);
        let narrowest = |a: &str, b: &str| {
            topology
                .way(a.parse().unwrap(), b.parse().unwrap())
                .links
                .iter()
                .map(|link| link.mbps)
                .min()
                .unwrap()
        };
        assert_eq!(
            narrowest("03:00.0", "04:00.0"),
            126_030,
            "the x4 port, not the x1 root port"
        );
        assert_eq!(narrowest("03:00.0", "81:00.0"), 31_507, "the x1 root port");
    }
}

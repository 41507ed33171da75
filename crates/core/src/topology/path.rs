//! How two PCI functions reach each other: nvidia-smi's and NCCL's path types, and the narrowest link on the way.
#![forbid(unsafe_code)]

use super::{PciAddress, PciFunction, Topology};
use std::fmt;

/// Kind of path, nearest first, in the words of `nvidia-smi topo -m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub const ALL: [PathType; 5] =
        [PathType::Pix, PathType::Pxb, PathType::Phb, PathType::Node, PathType::Sys];
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

/// The way between two PCI functions, with everything on it that other ways may share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// what it crosses
    pub kind: PathType,
    /// its PCIe links with a known rate
    pub links: Vec<Link>,
    /// the two NUMA nodes whose connection it crosses, the smaller first; `None` where it crosses none, or where the
    /// kind of path is only stated
    pub crossing: Option<(u32, u32)>,
}

/// A PCIe link on a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// the device below it, by its function 0: all functions of a device share one link
    pub below: PciAddress,
    /// is it on the first function's side of the way?
    pub of_a: bool,
    /// its current rate in Mbit/s
    pub mbps: u64,
}

impl Topology {
    /// What the way between two PCI functions crosses.
    ///
    /// The kind follows nvidia-smi's legend.  A switch shows itself in sysfs as an upstream port with
    /// downstream ports below it, so two functions share one switch when at most one bridge stands between
    /// each of them and the lowest bridge above both.  If the kernel names no NUMA node for one of them, the
    /// path is [`PathType::Sys`]: nothing shows that it is shorter.  A stated path
    /// ([`Topology::stated_paths`]) has its stated kind.
    pub fn path_type(&self, a: PciAddress, b: PciAddress) -> PathType {
        self.way(a, b).kind
    }

    /// The way between two PCI functions, with every link on it.
    pub fn way(&self, a: PciAddress, b: PciAddress) -> Way {
        let (above_a, host_a) = self.pci.ancestors(a);
        let (above_b, host_b) = self.pci.ancestors(b);
        let common = above_a.iter().enumerate().find_map(|(below_a, bridge)| {
            above_b.iter().position(|other| other == bridge).map(|below_b| (below_a, below_b))
        });
        let bridges = |above: &[PciAddress], below: usize| below - 2 * self.flattened(above, below);
        let nodes = (self.numa_node_of(a), self.numa_node_of(b));
        let kind = match common {
            Some((below_a, below_b))
                if bridges(&above_a, below_a) <= 1 && bridges(&above_b, below_b) <= 1 =>
            {
                PathType::Pix
            }
            Some(_) => PathType::Pxb,
            None if host_a.is_some() && host_a == host_b => PathType::Phb,
            None => match nodes {
                (Some(node_a), Some(node_b)) if node_a == node_b => PathType::Node,
                _ => PathType::Sys,
            },
        };
        let stated = self.stated_paths.get(&(a, b)).or_else(|| self.stated_paths.get(&(b, a)));
        let crossing = match (kind, nodes) {
            (PathType::Sys, (Some(from), Some(to))) if stated.is_none() => Some((from.min(to), from.max(to))),
            _ => None,
        };
        let (below_a, below_b) = common.unwrap_or((above_a.len(), above_b.len()));
        let link = |(at, of_a): (PciAddress, bool)| {
            let mbps = self.pci.get(at)?.link.current?.mbps();
            // functions of one device stand behind one link
            Some(Link { below: PciAddress { function: 0, ..at }, of_a, mbps })
        };
        let links = [(a, true), (b, false)]
            .into_iter()
            .chain(above_a.into_iter().take(below_a).map(|at| (at, true)))
            .chain(above_b.into_iter().take(below_b).map(|at| (at, false)))
            .filter_map(link)
            .collect();
        Way { kind: stated.copied().unwrap_or(kind), links, crossing }
    }

    /// Distance of two NUMA nodes (ACPI SLIT, 10 = local); `None` where the kernel does not tell.
    pub fn distance(&self, from: u32, to: u32) -> Option<u32> {
        let column = self.numa_nodes.iter().position(|node| node.os_index == to)?;
        self.numa_node(from)?.distances.get(column).copied()
    }

    /// How many switches among the `below` nearest bridges are parts of the switch above them.
    ///
    /// Broadcom's large switches look like a switch behind a switch, though every port has full bandwidth to
    /// every other.  NCCL merges the two (src/graph/topo.cc, `ncclTopoFlattenBcmSwitches`), and so do we;
    /// otherwise the wrong NIC looks nearer (NVIDIA/nccl issue 820).  Bridges above a function alternate
    /// between downstream ports and the upstream ports that stand for a switch.
    fn flattened(&self, above: &[PciAddress], below: usize) -> usize {
        let switches: Vec<(usize, &PciFunction)> = above
            .iter()
            .enumerate()
            .skip(1)
            .step_by(2)
            .filter_map(|(i, &at)| Some((i, self.pci.get(at)?)))
            .collect();
        let mut merged = 0;
        let mut parent_is_merged = false;
        // from the host bridge down: a switch that has absorbed its parts is not itself a part
        for pair in switches.windows(2).rev() {
            let [(place, switch), (_, parent)] = pair else { continue };
            let is_part = !parent_is_merged
                && matches!((part_of(parent, 0), part_of(switch, 1)), (Some(a), Some(b)) if a == b);
            parent_is_merged = is_part;
            merged += usize::from(is_part && *place < below);
        }
        merged
    }
}

/// The generation of a Broadcom switch that is the whole (level 0) or a part (level 1), by its ids.
fn part_of(switch: &PciFunction, level: u16) -> Option<u8> {
    let (subsystem_vendor, subsystem) = switch.subsystem?;
    match (switch.vendor?, switch.device?, subsystem_vendor, subsystem >> 12) {
        (0x1000, 0xc010, 0x1000, 0xa) => Some(4),
        (0x1000, 0xc030, 0x1000, part) if part == level => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn function(topology: &mut Topology, address: &str, parent: &str, numa_node: Option<u32>, width: u32) {
        let rate = LinkRate { tenths_gt: 320, width };
        let parent = match parent.parse() {
            Ok(host) => PciParent::Host(host),
            Err(_) => PciParent::Bridge(parent.parse().unwrap()),
        };
        topology.pci.insert(PciFunction {
            numa_node,
            link: PcieLink { current: Some(rate), max: Some(rate) },
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
        assert_eq!(kind("03:00.0", "04:00.0"), PathType::Pix, "two ports of one switch");
        assert_eq!(kind("07:00.0", "07:00.1"), PathType::Pix, "two functions of one card");
        assert_eq!(kind("03:00.0", "07:00.0"), PathType::Pxb, "a switch behind a switch");
        assert_eq!(kind("03:00.0", "08:00.0"), PathType::Phb, "two root ports of one host bridge");
        assert_eq!(kind("03:00.0", "41:00.0"), PathType::Node, "two host bridges of one NUMA node");
        assert_eq!(kind("03:00.0", "81:00.0"), PathType::Sys, "two NUMA nodes");
        assert_eq!(kind("03:00.0", "c1:00.0"), PathType::Sys, "a NUMA node that the kernel does not name");
        assert_eq!(kind("81:00.0", "03:00.0"), PathType::Sys, "either way round");
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
            let kind = |a: &str, b: &str| topology.path_type(a.parse().unwrap(), b.parse().unwrap());
            (kind("05:00.0", "06:00.0"), kind("05:00.0", "07:00.0"))
        };
        assert_eq!(ids("01:00.0", 0xc010, 0xa096), (PathType::Pxb, PathType::Pxb), "the whole alone");
        assert_eq!(ids("03:00.0", 0xc010, 0xa096), (PathType::Pxb, PathType::Pix), "one part");
        assert_eq!(ids("04:00.0", 0xc010, 0xa096), (PathType::Pix, PathType::Pix), "both parts");
        assert_eq!(ids("01:00.0", 0xc030, 0x0096), (PathType::Pxb, PathType::Pxb), "another generation");
        ids("03:00.0", 0xc030, 0x1096);
        assert_eq!(ids("04:00.0", 0xc030, 0x1096), (PathType::Pix, PathType::Pix), "Gen5 numbers its parts");
        assert_eq!(ids("04:00.0", 0xc030, 0x0096), (PathType::Pxb, PathType::Pix), "a whole is no part");
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
        assert_eq!(narrowest("03:00.0", "04:00.0"), 126_030, "the x4 port, not the x1 root port");
        assert_eq!(narrowest("03:00.0", "81:00.0"), 31_507, "the x1 root port");
    }
}

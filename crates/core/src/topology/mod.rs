//! The node as data: NUMA nodes, CPUs, PCI tree, GPUs and NICs, and the distances between them.
#![forbid(unsafe_code)]

pub mod bitmap;
mod device;
pub mod file;
pub mod index;
mod link;
mod name;
pub(crate) mod network;
pub mod path;
pub mod pci;
mod processor;
mod text;

pub use bitmap::{Bitmap, CpuSet, NodeSet};
pub use device::{Gpu, GpuVendor, LinkLayer, Nic, NicKind, NicRole, Port, PortState};
pub use index::{GpuIndex, NicIndex, PortRef};
pub use link::{LinkRate, MAX_TENTHS_GT, MAX_WIDTH, PcieLink};
pub use name::{BadDeviceName, DeviceName};
pub use network::{Network, SubnetPrefix};
pub use path::{Ascent, Link, Meeting, PathType, Way};
pub use pci::{HostBridge, PciAddress, PciFunction, PciParent, PciTree};
pub use processor::{Arch, CpuVendor, Processor, X86};

use crate::order::Order;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One node of the cluster, as far as placement cares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// a model's name, a file's own, or the host's
    pub name: String,
    pub provenance: Provenance,
    /// unknown where only placement's needs were read
    pub processor: Option<Processor>,
    /// in order of os index
    pub numa_nodes: Vec<NumaNode>,
    /// in order of os index; empty where only placement's needs were read
    pub pus: Vec<Pu>,
    /// GPUs, NICs and the bridges above them
    pub pci: PciTree,
    /// GPUs in PCI order: a GPU's position is its index, as with `CUDA_DEVICE_ORDER=PCI_BUS_ID`
    pub gpus: Vec<Gpu>,
    /// NICs in PCI order, then those without a PCI function by name
    pub nics: Vec<Nic>,
    /// Paths between a GPU and a NIC that take precedence over the PCI tree, which does not show them: on a virtual
    /// machine's bus, or if a matrix is the only source.
    pub stated_paths: BTreeMap<(PciAddress, PciAddress), PathType>,
    /// the model of a live or captured node's stated paths and roles
    pub supplied_by: Option<String>,
}

/// The source of a topology's facts.  Only [`Provenance::ThisSystem`] may move a process (hwloc's `is_thissystem`
/// rule).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provenance {
    /// read from this kernel's `/sys` and `/proc`
    ThisSystem,
    /// read from a captured tree
    Captured(String),
    Model(String),
    File(String),
}

impl Provenance {
    /// True if a process may be bound by these facts.
    pub fn is_this_system(&self) -> bool {
        matches!(self, Provenance::ThisSystem)
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provenance::ThisSystem => write!(f, "this system"),
            Provenance::Captured(from) => write!(f, "captured tree `{from}`"),
            Provenance::Model(name) => write!(f, "built-in model `{name}`"),
            Provenance::File(from) => write!(f, "file `{from}`"),
        }
    }
}

/// A NUMA node (hwloc: `NUMANode`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    pub os_index: u32,
    /// empty for memory-only nodes (GPU memory on Grace, CXL)
    pub cpus: CpuSet,
    /// distances to all nodes in order of os index, 10 = local (ACPI SLIT); empty where unknown
    pub distances: Vec<u32>,
    /// the package of its first CPU; unknown without CPUs, and where the kernel knows no packages
    pub package: Option<u32>,
}

/// A logical CPU (hwloc: `PU`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pu {
    pub os_index: u32,
    /// `physical_package_id`
    pub package: u32,
    /// `core_id`, unique within its package
    pub core: u32,
}

const MELLANOX: u16 = 0x15b3;
/// The device id of a ConnectX-7's physical functions.
pub(crate) const CONNECTX7: u16 = 0x1021;
/// The subsystem of the functions that manage NVSwitches.
const NVSWITCH_MANAGER: (u16, u16) = (MELLANOX, 0x0087);
/// The largest distance (ACPI SLIT) between two NUMA nodes of one package, where no package is known.
const MOST_WITHIN_A_SOCKET: u32 = 15;

/// The package of the first of `cpus`, if `pus` tell it.
pub fn package_of(pus: &[Pu], cpus: &CpuSet) -> Option<u32> {
    let first = cpus.first()?;
    pus.iter()
        .find(|pu| pu.os_index == first)
        .map(|pu| pu.package)
}

impl Topology {
    /// A topology without a device.
    pub fn empty(name: &str, provenance: Provenance) -> Topology {
        Topology {
            name: name.to_string(),
            provenance,
            processor: None,
            numa_nodes: Vec::new(),
            pus: Vec::new(),
            pci: PciTree::default(),
            gpus: Vec::new(),
            nics: Vec::new(),
            stated_paths: BTreeMap::new(),
            supplied_by: None,
        }
    }

    pub fn cpus(&self) -> CpuSet {
        self.numa_nodes
            .iter()
            .fold(CpuSet::new(), |all, node| all.union(&node.cpus))
    }

    /// The threads of each core, cores in order of their first thread; empty where they were not read.
    pub fn cores(&self) -> Vec<CpuSet> {
        let mut cores: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
        for pu in &self.pus {
            cores
                .entry((pu.package, pu.core))
                .or_default()
                .insert(pu.os_index);
        }
        let mut cores: Vec<CpuSet> = cores.into_values().collect();
        cores.order_by_key(CpuSet::first);
        cores
    }

    pub fn numa_node(&self, os_index: u32) -> Option<&NumaNode> {
        self.numa_nodes
            .iter()
            .find(|node| node.os_index == os_index)
    }

    pub fn cpus_of(&self, nodes: &NodeSet) -> CpuSet {
        let chosen = self
            .numa_nodes
            .iter()
            .filter(|node| nodes.contains(node.os_index));
        chosen.fold(CpuSet::new(), |all, node| all.union(&node.cpus))
    }

    pub fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        self.numa_nodes
            .iter()
            .filter(|node| node.cpus.intersects(cpus))
            .map(|node| node.os_index)
            .collect()
    }

    /// The NUMA node of a PCI function: the kernel's for it or a bridge above it, else the one that holds its local
    /// CPUs, else the only one.  A text without addresses names no more nodes than its devices have, so its only one is not
    /// every device's.
    pub fn numa_node_of(&self, address: PciAddress) -> Option<u32> {
        if let Some(node) = self.pci.numa_node(address) {
            return Some(node);
        }
        if let Some(cpus) = self
            .pci
            .get(address)
            .and_then(|function| function.local_cpus.as_ref())
        {
            // a function that is local to every CPU (a virtual machine's) says nothing
            let mut nodes = self
                .numa_nodes
                .iter()
                .filter(|node| node.cpus.intersects(cpus));
            if let (Some(node), None) = (nodes.next(), nodes.next()) {
                return Some(node.os_index);
            }
        }
        match self.numa_nodes.as_slice() {
            [only] if !address.is_invented() => Some(only.os_index),
            _ => None,
        }
    }

    /// The NUMA node that represents this one's socket: the first that shares its package.
    ///
    /// The packages decide, as in the kernel (`slit_cluster_package`, arch/x86/kernel/smpboot.c).  No distance does for
    /// all machines: three clusters of a Granite Rapids are 15 and 17 apart, and packages 16 on some machines of eight.
    /// A node without a package (memory alone) belongs to the nearest.  If no package is known, nodes of one socket are
    /// up to 15 apart; without distances each NUMA node counts as a socket.
    pub fn socket_of(&self, node: u32) -> u32 {
        let Some(this) = self.numa_node(node) else {
            return node;
        };
        let is_known = self.numa_nodes.iter().any(|node| node.package.is_some());
        let package = this.package.or_else(|| self.nearest_package(node));
        let together = |other: &&NumaNode| match package {
            Some(_) => other.package == package,
            None if is_known => other.os_index == node,
            None => self
                .distance(other.os_index, node)
                .is_some_and(|distance| distance <= MOST_WITHIN_A_SOCKET),
        };
        self.numa_nodes
            .iter()
            .find(together)
            .map_or(node, |first| first.os_index)
    }

    /// The package that is nearer to this NUMA node than any other is.
    fn nearest_package(&self, node: u32) -> Option<u32> {
        let known = self.numa_nodes.iter();
        let known =
            known.filter_map(|other| other.package.zip(self.distance(node, other.os_index)));
        let known: Vec<(u32, u32)> = known.collect();
        let &(package, nearest) = known.iter().min_by_key(|(_, distance)| *distance)?;
        // memory that is as near to two packages is of neither
        known
            .iter()
            .all(|&(of, distance)| distance > nearest || of == package)
            .then_some(package)
    }

    /// True if programs use all NICs of the node through libfabric's own providers, which choose NICs themselves.
    pub fn is_left_to_libfabric(&self) -> bool {
        let own = |kind: NicKind| matches!(kind, NicKind::Efa | NicKind::Slingshot);
        let verbs = |nic: &Nic| nic.kind == NicKind::Verbs && !self.manages_nvswitches(nic);
        self.nics.iter().any(|nic| own(nic.kind)) && !self.nics.iter().any(verbs)
    }

    /// True for a function of the ConnectX-7 by which the host manages the NVSwitches of an HGX B200 or B300 board.  It
    /// looks like a port of an InfiniBand fabric and leads to no other node.
    ///
    /// NVIDIA's Fabric Manager tells it by `SMDL=SW_MNG` in its VPD (Fabric Manager User Guide, "Systems Using Fourth
    /// Generation NVSwitches"), a question to the device that no step should ask.  So two other facts show it:
    ///
    /// * its subsystem, `15b3:0087`, as AWS's p6-b200 shows the two functions that it gives to its guests;
    /// * more InfiniBand functions on one ConnectX-7 than it has ports for other nodes, which are one or two: four on a
    ///   bare board (siderolabs/extensions pull request 895, DGX B200; Mellanox/nic-configuration-operator issue 496, HGX
    ///   B300).  Virtual functions have another device id.
    pub fn manages_nvswitches(&self, nic: &Nic) -> bool {
        let Some(address) = nic.address else {
            return false;
        };
        let Some(function) = self.pci.get(address) else {
            return false;
        };
        if function.subsystem == Some(NVSWITCH_MANAGER) {
            return true;
        }
        let is_connectx7 = |address: PciAddress| {
            self.pci.get(address).is_some_and(|function| {
                function.device == Some(CONNECTX7)
                    && matches!(function.vendor, None | Some(MELLANOX))
            })
        };
        let is_of_the_card = |other: &&Nic| {
            let speaks_infiniband = other
                .ports
                .iter()
                .any(|port| port.link_layer == LinkLayer::InfiniBand);
            other.address.is_some_and(|other| {
                other.card() == address.card() && is_connectx7(other) && speaks_infiniband
            })
        };
        is_connectx7(address) && self.nics.iter().filter(is_of_the_card).count() > 2
    }

    pub fn gpu_index(&self, address: PciAddress) -> Option<GpuIndex> {
        self.gpus
            .iter()
            .position(|gpu| gpu.address == address)
            .map(GpuIndex)
    }

    /// Puts GPUs, NICs and NUMA nodes in the order that every index relies on.
    pub fn sort(&mut self) {
        self.numa_nodes.order_by_key(|node| node.os_index);
        self.pus.order_by_key(|pu| pu.os_index);
        self.gpus
            .order_by_key(|gpu| (gpu.address, gpu.partition, gpu.minor));
        self.nics.order_by(|a, b| {
            (a.address.is_none(), a.address, &a.name).cmp(&(
                b.address.is_none(),
                b.address,
                &b.name,
            ))
        });
        for nic in &mut self.nics {
            nic.ports.order_by_key(|port| port.number);
            nic.netdevs.order();
        }
    }
}

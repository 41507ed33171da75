//! A compute node as data: NUMA nodes, CPUs, PCI tree, GPUs, NICs, and their distances.
#![forbid(unsafe_code)]

// unit tests include files of crates/formats, which import from `nic_placement_topology`
#[cfg(test)]
extern crate self as nic_placement_topology;

#[cfg(test)]
#[macro_use]
#[path = "../../../testing/rows.rs"]
mod rows;

mod bitmap;
mod device;
pub mod diagnostic;
pub mod file;
mod index;
mod link;
mod name;
pub mod network;
pub mod order;
mod path;
pub mod pci;
mod processor;
mod source;
mod text;
#[cfg(test)]
#[path = "path/tests/way.rs"]
mod way;

pub use bitmap::{Bitmap, CpuSet, NodeSet};
pub use device::{Gpu, GpuVendor, LinkLayer, Nic, NicKind, NicRole, Port, PortState};
pub use index::{GpuIndex, NicIndex, PortRef};
pub use link::{LinkRate, MAX_TENTHS_GT, MAX_WIDTH, PcieLink};
pub use name::DeviceName;
pub use network::{Network, SubnetPrefix};
pub use path::{Ascent, Meeting, PathType};
pub use pci::{HostBridge, PciAddress, PciFunction, PciParent, PciTree};
pub use processor::{Arch, CpuVendor, Processor, X86};
pub use source::{NodeSource, Scope};

use crate::order::Order;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A node's hardware, as far as placement needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// `name` of a built-in model or topology file, or DMI's `product_name`
    pub name: String,
    pub provenance: Provenance,
    /// discovery reads it only with [`Scope::Full`]
    pub processor: Option<Processor>,
    /// in order of os index
    pub numa_nodes: Vec<NumaNode>,
    /// in order of os index; not discovered below [`Scope::Cores`]
    pub pus: Vec<Pu>,
    pub pci: PciTree,
    /// in PCI order, as with `CUDA_DEVICE_ORDER=PCI_BUS_ID`
    pub gpus: Vec<Gpu>,
    /// in PCI order, then NICs without a PCI function by name
    pub nics: Vec<Nic>,
    /// Path kinds by (GPU, NIC). They override the PCI tree: a virtual machine's lacks switches, an
    /// imported `topo -m` bridges.
    pub stated_paths: BTreeMap<(PciAddress, PciAddress), PathType>,
    /// the built-in model that supplied paths or roles of a live or captured node
    pub supplied_by: Option<String>,
}

/// The source of a topology's facts. Processes are bound only with [`Provenance::ThisSystem`]
/// (hwloc: `is_thissystem`) or the argument `trust-topology`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Provenance {
    /// this kernel's `/sys` and `/proc`
    ThisSystem,
    /// a captured `/sys` and `/proc`
    Captured(String),
    Model(String),
    File(String),
}

impl Provenance {
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    pub os_index: u32,
    /// empty for memory without CPUs (GPU memory on Grace, CXL)
    pub cpus: CpuSet,
    /// ACPI SLIT distances to all nodes in order of os index, 10 = local; empty if unknown
    pub distances: Vec<u32>,
    /// the package of the node's first CPU; `None` without CPUs or without known packages
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
/// PCI device id of a ConnectX-7's physical functions.
pub const CONNECTX7: u16 = 0x1021;
/// PCI subsystem of ConnectX-7 functions that manage NVSwitches.
const NVSWITCH_MANAGER: (u16, u16) = (MELLANOX, 0x0087);
/// Largest ACPI SLIT distance assumed within a socket, if no NUMA node has a package number.
const MOST_WITHIN_A_SOCKET: u32 = 15;

pub fn package_of(pus: &[Pu], cpus: &CpuSet) -> Option<u32> {
    let first = cpus.first()?;
    let pu = pus.iter().find(|pu| pu.os_index == first)?;
    Some(pu.package)
}

/// The threads of each core, by package and core number.
pub fn threads_by_core(pus: &[Pu]) -> BTreeMap<(u32, u32), CpuSet> {
    let mut cores: BTreeMap<_, CpuSet> = BTreeMap::new();
    for pu in pus {
        let core = cores.entry((pu.package, pu.core)).or_default();
        core.insert(pu.os_index);
    }
    cores
}

impl Topology {
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
        self.cpus_where(|_| true)
    }

    pub fn cpus_of(&self, nodes: &NodeSet) -> CpuSet {
        self.cpus_where(|node| nodes.contains(node.os_index))
    }

    fn cpus_where(&self, keep: impl Fn(&NumaNode) -> bool) -> CpuSet {
        let mut cpus = CpuSet::new();
        for node in self.numa_nodes.iter().filter(|node| keep(node)) {
            cpus.add(&node.cpus);
        }
        cpus
    }

    /// The threads of each core, in order of the first thread; empty if discovery read less than
    /// [`Scope::Cores`].
    pub fn cores(&self) -> Vec<CpuSet> {
        let mut cores: Vec<CpuSet> = threads_by_core(&self.pus).into_values().collect();
        cores.order_by_key(CpuSet::first);
        cores
    }

    pub fn numa_node(&self, os_index: u32) -> Option<&NumaNode> {
        let mut nodes = self.numa_nodes.iter();
        nodes.find(|node| node.os_index == os_index)
    }

    pub fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        let nodes = self.numa_nodes.iter();
        let nodes = nodes.filter(|node| node.cpus.intersects(cpus));
        nodes.map(|node| node.os_index).collect()
    }

    /// The NUMA node of a PCI function: `numa_node` of the function or a bridge above, else the
    /// only NUMA node with CPUs of `local_cpus`, else, unless the address is invented, the
    /// machine's only NUMA node: an imported text without addresses may omit NUMA nodes.
    pub fn numa_node_of(&self, address: PciAddress) -> Option<u32> {
        if let Some(node) = self.pci.numa_node(address) {
            return Some(node);
        }
        let function = self.pci.get(address);
        let local = function.and_then(|function| function.local_cpus.as_ref());
        // `local_cpus` of several NUMA nodes do not count: in a virtual machine they are all CPUs
        let nodes = local.map(|cpus| self.nodes_of(cpus));
        match (nodes.filter(|nodes| nodes.len() == 1), &*self.numa_nodes) {
            (Some(node), _) => node.first(),
            (None, [only]) if !address.is_invented() => Some(only.os_index),
            _ => None,
        }
    }

    /// The first NUMA node of the socket of `node`.
    ///
    /// Nodes of one package share a socket, as in the kernel (`slit_cluster_package`,
    /// arch/x86/kernel/smpboot.c). Distances cannot decide: NUMA nodes of one Granite Rapids are 15
    /// and 17 apart, packages of some 8-socket machines 16. A node without CPUs belongs to the
    /// nearest package. If no node has a package number, nodes up to 15 apart share a socket; a
    /// node of unknown distances shares none.
    pub fn socket_of(&self, node: u32) -> u32 {
        let Some(this) = self.numa_node(node) else {
            return node;
        };
        let is_known = self.numa_nodes.iter().any(|node| node.package.is_some());
        let package = this.package.or_else(|| self.nearest_package(node));
        let shares_socket = |other: &&NumaNode| match package {
            Some(_) => other.package == package,
            None if is_known => other.os_index == node,
            None => self
                .distance(other.os_index, node)
                .is_some_and(|distance| distance <= MOST_WITHIN_A_SOCKET),
        };
        let first = self.numa_nodes.iter().find(shares_socket);
        first.map_or(node, |first| first.os_index)
    }

    /// The package nearest to a NUMA node; `None` if two are equally near.
    fn nearest_package(&self, node: u32) -> Option<u32> {
        let nodes = self.numa_nodes.iter();
        let packages: Vec<(u32, u32)> = nodes
            .filter_map(|other| other.package.zip(self.distance(node, other.os_index)))
            .collect();
        let &(package, nearest) = packages.iter().min_by_key(|(_, distance)| *distance)?;
        let is_farther = |&(other, distance): &_| distance > nearest || other == package;
        packages.iter().all(is_farther).then_some(package)
    }

    /// True if the node has EFA or Slingshot NICs and no other fabric NICs: libfabric's efa and cxi
    /// providers choose NICs themselves.
    pub fn is_left_to_libfabric(&self) -> bool {
        let own = |nic: &Nic| matches!(nic.kind, NicKind::Efa | NicKind::Slingshot);
        let verbs = |nic: &Nic| nic.kind == NicKind::Verbs && !self.manages_nvswitches(nic);
        self.nics.iter().any(own) && !self.nics.iter().any(verbs)
    }

    /// True if `nic` lacks `uverbs`, so that libibverbs does not find it (rdma-core,
    /// libibverbs/device.c). False if all NICs lack `uverbs`, which a topology file may omit.
    pub fn lacks_verbs(&self, nic: &Nic) -> bool {
        nic.uverbs.is_none() && self.nics.iter().any(|other| other.uverbs.is_some())
    }

    /// True for a ConnectX-7 function that manages the NVSwitches of an HGX B200 or B300 board. It
    /// looks like an InfiniBand port, but reaches no other node.
    ///
    /// NVIDIA's Fabric Manager finds it by `SMDL=SW_MNG` in its VPD (Fabric Manager User Guide,
    /// "Systems Using Fourth Generation NVSwitches"). A VPD read waits for the device, so either of
    /// two facts suffices here:
    ///
    /// * the subsystem `15b3:0087`, as in guests of AWS's p6-b200;
    /// * more than two InfiniBand functions on one ConnectX-7, which has at most two ports for
    ///   other nodes. Bare metal shows four (siderolabs/extensions pull request 895, DGX B200;
    ///   Mellanox/nic-configuration-operator issue 496, HGX B300). Virtual functions have another
    ///   device id and do not count.
    pub fn manages_nvswitches(&self, nic: &Nic) -> bool {
        let Some(function) = nic.address.and_then(|address| self.pci.get(address)) else {
            return false;
        };
        let is_connectx7 = |function: &PciFunction| {
            function.device == Some(CONNECTX7) && matches!(function.vendor, None | Some(MELLANOX))
        };
        let card = function.address.card();
        let shares_card = |other: &&Nic| {
            // the cheaper comparison first: a step compares each ConnectX-7 with every NIC
            let address = other.address.filter(|address| address.card() == card);
            let function = address.and_then(|address| self.pci.get(address));
            let mut ports = other.ports.iter();
            function.is_some_and(is_connectx7)
                && ports.any(|port| port.link_layer == LinkLayer::InfiniBand)
        };
        function.subsystem == Some(NVSWITCH_MANAGER)
            || is_connectx7(function) && self.nics.iter().filter(shares_card).count() > 2
    }

    pub fn gpu_index(&self, address: PciAddress) -> Option<GpuIndex> {
        let mut gpus = self.gpus.iter();
        gpus.position(|gpu| gpu.address == address).map(GpuIndex)
    }

    /// Sorts every list; [`GpuIndex`] and [`NicIndex`] rely on the order.
    pub fn sort(&mut self) {
        self.numa_nodes.order_by_key(|node| node.os_index);
        self.pus.order_by_key(|pu| pu.os_index);
        self.gpus
            .order_by_key(|gpu| (gpu.address, gpu.partition, gpu.minor));
        fn place(nic: &Nic) -> (bool, Option<PciAddress>, &str) {
            (nic.address.is_none(), nic.address, &nic.name)
        }
        self.nics.order_by(|a, b| place(a).cmp(&place(b)));
        for nic in &mut self.nics {
            nic.ports.order_by_key(|port| port.number);
            nic.netdevs.order();
        }
    }
}

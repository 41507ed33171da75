//! The node as data: NUMA nodes, CPUs, PCI tree, GPUs and NICs, and how far each is from each.
#![forbid(unsafe_code)]

pub mod bitmap;
pub mod file;
pub mod path;
pub mod pci;

pub use bitmap::{Bitmap, CpuSet, NodeSet};
pub use path::{Link, Path, PathType, Way};
pub use pci::{HostBridge, LinkRate, PciAddress, PciFunction, PciParent, PciTree, PcieLink};

use std::collections::BTreeMap;
use std::fmt;

/// One node of the cluster, as far as placement cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// what the machine is called: a model's name, a file's own name, or the host
    pub name: String,
    /// where the facts come from
    pub provenance: Provenance,
    /// NUMA nodes in order of os index
    pub numa_nodes: Vec<NumaNode>,
    /// logical CPUs in order of os index; empty where only placement's needs were read
    pub pus: Vec<Pu>,
    /// GPUs, NICs and the bridges above them
    pub pci: PciTree,
    /// GPUs in PCI order: a GPU's position is its index, as with `CUDA_DEVICE_ORDER=PCI_BUS_ID`
    pub gpus: Vec<Gpu>,
    /// NICs in PCI order, then those without a PCI function by name
    pub nics: Vec<Nic>,
    /// kinds of paths between a GPU and a NIC that somebody states, where the PCI tree does not show them: a virtual
    /// machine's bus, or a matrix that is all there is.  They count before the tree.
    pub stated_paths: BTreeMap<(PciAddress, PciAddress), PathType>,
    /// the model that supplied the stated paths and the roles, where this is a live or captured node
    pub supplied_by: Option<String>,
}

/// Where a topology's facts come from, and so what may be done with it: only [`Provenance::ThisSystem`] may move a
/// process (hwloc's `is_thissystem` rule).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// read from this kernel's `/sys` and `/proc`
    ThisSystem,
    /// read from a captured tree
    Captured(String),
    /// a built-in model
    Model(String),
    /// a topology file
    File(String),
}

impl Provenance {
    /// May a process be bound by these facts?
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    /// the kernel's number
    pub os_index: u32,
    /// its CPUs; empty for memory-only nodes (GPU memory on Grace, CXL)
    pub cpus: CpuSet,
    /// distances to all nodes in order of os index, 10 = local (ACPI SLIT); empty where unknown
    pub distances: Vec<u32>,
}

/// A logical CPU (hwloc: `PU`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pu {
    /// the kernel's CPU number
    pub os_index: u32,
    /// `physical_package_id`
    pub package: u32,
    /// `core_id`, unique within its package
    pub core: u32,
}

/// Who made a GPU, and so which variable lists it and which device node opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuVendor {
    /// PCI vendor 10de
    Nvidia,
    /// PCI vendor 1002
    Amd,
    /// PCI vendor 8086
    Intel,
}

impl GpuVendor {
    /// All of them.
    pub const ALL: [GpuVendor; 3] = [GpuVendor::Nvidia, GpuVendor::Amd, GpuVendor::Intel];

    /// The vendor behind a PCI vendor id.
    pub fn from_pci(vendor: u16) -> Option<GpuVendor> {
        match vendor {
            0x10de => Some(GpuVendor::Nvidia),
            0x1002 => Some(GpuVendor::Amd),
            0x8086 => Some(GpuVendor::Intel),
            _ => None,
        }
    }

    /// The variable in which Slurm, and the vendor's runtime, list a task's GPUs (Slurm's
    /// src/interfaces/gres.c, `gres_common_gpu_set_env`).
    pub fn list_variable(self) -> &'static str {
        match self {
            GpuVendor::Nvidia => "CUDA_VISIBLE_DEVICES",
            GpuVendor::Amd => "ROCR_VISIBLE_DEVICES",
            GpuVendor::Intel => "ZE_AFFINITY_MASK",
        }
    }
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// its PCI function
    pub address: PciAddress,
    /// which part of it this is, where one function is partitioned into several GPUs (MI300X in DPX, QPX or CPX mode)
    pub partition: Option<u32>,
    /// who made it
    pub vendor: GpuVendor,
    /// the number in its device node's name: `Device Minor` for NVIDIA (`/dev/nvidia3`), the render node's for others
    /// (`/dev/dri/renderD131`)
    pub minor: Option<u32>,
    /// `GPU-…`, as `CUDA_VISIBLE_DEVICES` spells it
    pub uuid: Option<String>,
    /// what the driver calls it
    pub model: Option<String>,
    /// the number by which the vendor's runtime counts it before any list, where that is not PCI order: AMD's counts the
    /// nodes of its compute driver (ROCR-Runtime, src/core/runtime/amd_topology.cpp)
    pub runtime_index: Option<u32>,
    /// how many MIG instances it is cut into, where it is (`gi*` below `/proc/driver/nvidia/capabilities/gpuN/mig`)
    pub mig_instances: Option<u32>,
}

impl Gpu {
    /// A GPU of which only this is known.
    pub fn new(address: PciAddress, vendor: GpuVendor) -> Gpu {
        Gpu {
            address,
            partition: None,
            vendor,
            minor: None,
            uuid: None,
            model: None,
            runtime_index: None,
            mig_instances: None,
        }
    }

    /// Is it joined to its CPU by NVLink-C2C, so that the CPU's PCIe host bridges are as near to it as to the CPU?
    /// (NVIDIA Grace Hopper and Grace Blackwell; their GPUs carry the superchip's name.)
    pub fn has_c2c(&self) -> bool {
        let model = self.model.as_deref().unwrap_or_default();
        ["GH200", "GB200", "GB300"].iter().any(|superchip| model.contains(superchip))
    }

    /// The node a process must open to use this GPU, relative to `/dev`.
    pub fn device_node(&self) -> Option<String> {
        let minor = self.minor?;
        Some(match self.vendor {
            GpuVendor::Nvidia => format!("nvidia{minor}"),
            GpuVendor::Amd | GpuVendor::Intel => format!("dri/renderD{minor}"),
        })
    }
}

/// An RDMA device (NCCL: `NIC`; the libraries' device name is [`Nic::name`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    /// its name under `/sys/class/infiniband`, `/sys/class/cxi`, or for plain Ethernet `/sys/class/net`
    pub name: String,
    /// what programs reach it by
    pub kind: NicKind,
    /// its PCI function; `None` for software devices such as rxe and siw
    pub address: Option<PciAddress>,
    /// what a topology file or a model says it is for; the live bus does not say
    pub role: Option<NicRole>,
    /// its ports in order of number
    pub ports: Vec<Port>,
    /// its character device under `/dev/infiniband`, such as `uverbs0`
    pub uverbs: Option<String>,
    /// its network interfaces, sorted
    pub netdevs: Vec<String>,
    /// `node_guid`: its own
    pub guid: Option<String>,
    /// `sys_image_guid`: the same for all devices of one card
    pub card: Option<String>,
}

impl Nic {
    /// A NIC of which only this is known.
    pub fn new(name: impl Into<String>, kind: NicKind) -> Nic {
        Nic {
            name: name.into(),
            kind,
            address: None,
            role: None,
            ports: Vec::new(),
            uverbs: None,
            netdevs: Vec::new(),
            guid: None,
            card: None,
        }
    }
}

/// What programs reach a NIC by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum NicKind {
    /// libibverbs: InfiniBand, RoCE, iWARP
    #[default]
    Verbs,
    /// AWS Elastic Fabric Adapter: a verbs device that only libfabric's efa provider can use
    Efa,
    /// HPE Slingshot (`cxi`)
    Slingshot,
    /// sockets only
    Ethernet,
}

impl fmt::Display for NicKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NicKind::Verbs => "verbs",
            NicKind::Efa => "efa",
            NicKind::Slingshot => "slingshot",
            NicKind::Ethernet => "ethernet",
        })
    }
}

/// What a site uses a NIC for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicRole {
    /// the fabric between GPUs
    Compute,
    /// file systems
    Storage,
    /// logins, provisioning, the scheduler
    Management,
}

impl fmt::Display for NicRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NicRole::Compute => "compute",
            NicRole::Storage => "storage",
            NicRole::Management => "management",
        })
    }
}

/// A port of an RDMA device (NCCL: `NET`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// its number, from 1
    pub number: u8,
    /// `ports/N/state`
    pub state: PortState,
    /// `ports/N/rate` in Mbit/s
    pub rate_mbps: Option<u64>,
    /// `ports/N/link_layer`
    pub link_layer: LinkLayer,
    /// `ports/N/phys_state`, such as `LinkUp`
    pub phys_state: Option<String>,
    /// its network interface
    pub netdev: Option<String>,
    /// the first half of its first GID: the subnet prefix on InfiniBand
    pub subnet: Option<String>,
    /// the newest RoCE type of its GIDs, such as `RoCE v2`
    pub gid_type: Option<String>,
    /// the interface by which the node's default route leaves through this port: its own, or a bond, bridge or VLAN above
    pub default_route: Option<String>,
    /// IPv4 networks that its interface is in, such as `10.1.0.0/16`, by address
    pub networks: Vec<String>,
}

impl Port {
    /// A port of which only this is known.
    pub fn new(number: u8, state: PortState, link_layer: LinkLayer, rate_mbps: Option<u64>) -> Port {
        Port {
            number,
            state,
            rate_mbps,
            link_layer,
            phys_state: None,
            netdev: None,
            subnet: None,
            gid_type: None,
            default_route: None,
            networks: Vec::new(),
        }
    }
}

/// State of a port (`enum ib_port_state`, the kernel's include/rdma/ib_verbs.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// 4: data flows
    Active,
    /// 1: no link
    Down,
    /// 2: link, no subnet manager yet
    Init,
    /// 3: configured, not yet active
    Armed,
    /// 0, 5, or not said
    Unknown,
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortState::Active => "active",
            PortState::Down => "down",
            PortState::Init => "init",
            PortState::Armed => "armed",
            PortState::Unknown => "unknown",
        })
    }
}

/// What a port speaks (`ports/N/link_layer`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkLayer {
    /// InfiniBand
    InfiniBand,
    /// Ethernet: RoCE or iWARP
    Ethernet,
    /// something else, or not said
    Unknown,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::Unknown => "unknown link layer",
        })
    }
}

impl Topology {
    /// A node about which nothing is known.
    pub fn empty(name: &str, provenance: Provenance) -> Topology {
        Topology {
            name: name.to_string(),
            provenance,
            numa_nodes: Vec::new(),
            pus: Vec::new(),
            pci: PciTree::default(),
            gpus: Vec::new(),
            nics: Vec::new(),
            stated_paths: BTreeMap::new(),
            supplied_by: None,
        }
    }

    /// All CPUs of all NUMA nodes.
    pub fn cpus(&self) -> CpuSet {
        self.numa_nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus))
    }

    /// The threads of each core, cores in order of their first thread; empty where they were not read.
    pub fn cores(&self) -> Vec<CpuSet> {
        let mut cores: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
        for pu in &self.pus {
            cores.entry((pu.package, pu.core)).or_default().insert(pu.os_index);
        }
        let mut cores: Vec<CpuSet> = cores.into_values().collect();
        cores.sort_by_key(CpuSet::first);
        cores
    }

    /// The NUMA node with this os index.
    pub fn numa_node(&self, os_index: u32) -> Option<&NumaNode> {
        self.numa_nodes.iter().find(|node| node.os_index == os_index)
    }

    /// CPUs of a set of NUMA nodes.
    pub fn cpus_of(&self, nodes: &NodeSet) -> CpuSet {
        let chosen = self.numa_nodes.iter().filter(|node| nodes.contains(node.os_index));
        chosen.fold(CpuSet::new(), |all, node| all.union(&node.cpus))
    }

    /// NUMA nodes that hold one of `cpus`.
    pub fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        self.numa_nodes.iter().filter(|node| node.cpus.intersects(cpus)).map(|node| node.os_index).collect()
    }

    /// The NUMA node of a PCI function: what the kernel says of it or of a bridge above it, else the node that holds
    /// its local CPUs, else the only node there is.
    pub fn numa_node_of(&self, address: PciAddress) -> Option<u32> {
        if let Some(node) = self.pci.numa_node(address) {
            return Some(node);
        }
        if let Some(cpus) = self.pci.get(address).and_then(|function| function.local_cpus.as_ref()) {
            // a function that is local to every CPU (a virtual machine's) says nothing
            let mut nodes = self.numa_nodes.iter().filter(|node| node.cpus.intersects(cpus));
            if let (Some(node), None) = (nodes.next(), nodes.next()) {
                return Some(node.os_index);
            }
        }
        match self.numa_nodes.as_slice() {
            [only] => Some(only.os_index),
            _ => None,
        }
    }

    /// The position of the GPU at `address`.
    pub fn gpu_index(&self, address: PciAddress) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.address == address)
    }

    /// Puts GPUs, NICs and NUMA nodes in the order that every index relies on.
    pub fn sort(&mut self) {
        self.numa_nodes.sort_by_key(|node| node.os_index);
        self.pus.sort_by_key(|pu| pu.os_index);
        self.gpus.sort_by_key(|gpu| (gpu.address, gpu.partition, gpu.minor));
        self.nics.sort_by(|a, b| {
            (a.address.is_none(), a.address, &a.name).cmp(&(b.address.is_none(), b.address, &b.name))
        });
        for nic in &mut self.nics {
            nic.ports.sort_by_key(|port| port.number);
            nic.netdevs.sort();
        }
    }
}

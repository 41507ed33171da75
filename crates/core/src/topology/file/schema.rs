//! Version 1 of the topology file, field by field; what the strings must hold is checked in `read`.
#![forbid(unsafe_code)]

use crate::topology::{GpuVendor, LinkLayer, NicKind, NicRole, PathType, PortState};
use serde::{Deserialize, Serialize};

/// What every version of the file has.
#[derive(Deserialize)]
pub(super) struct Header {
    pub format: Option<String>,
    pub version: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub format: String,
    pub version: u64,
    pub name: String,
    /// free text: where the facts come from
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    #[serde(default)]
    pub numa_nodes: Vec<NumaNode>,
    #[serde(default)]
    pub pus: Vec<Core>,
    #[serde(default)]
    pub pci: Vec<PciFunction>,
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// kinds of paths that take precedence over the PCI tree
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<StatedPath>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatedPath {
    /// the GPU's address
    pub gpu: String,
    /// the NIC's address
    pub nic: String,
    /// `PIX`, `PXB`, `PHB`, `NODE` or `SYS`
    pub path: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NumaNode {
    pub os_index: u32,
    /// a list such as `0-55,112-167`
    pub cpus: String,
    /// to every node in order of os index, in whatever order the file lists the nodes
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
}

/// The logical CPUs of one core.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Core {
    pub package: u32,
    pub core: u32,
    /// a list such as `0,112`
    pub pus: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PciFunction {
    pub address: String,
    /// a bridge, `0000:17:00.0`, or a host bridge, `pci0000:15`
    pub parent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// vendor and device, as in `1000:a096`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_cpus: Option<String>,
    #[serde(default, skip_serializing_if = "Link::is_unknown")]
    pub link: Link,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physfn: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vfs: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iommu: Option<String>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

impl Link {
    fn is_unknown(&self) -> bool {
        self.current.is_none() && self.max.is_none()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    pub address: String,
    /// its number among the GPUs that share this function
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    pub vendor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// absent where the vendor's runtime counts in PCI order
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_index: Option<u32>,
    /// absent where it is not cut into MIG instances
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_instances: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nic {
    pub name: String,
    /// absent for verbs
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// absent for software devices
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uverbs: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub netdevs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    #[serde(default)]
    pub ports: Vec<Port>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub number: u8,
    /// absent where unknown
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<u64>,
    /// absent where unknown
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_layer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phys_state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_type: Option<String>,
    /// the interface of the node's default route, if that leaves through this port
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_route: Option<String>,
    /// such as `10.1.0.0/16`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
}

pub(super) const VENDORS: [(&str, GpuVendor); 3] =
    [("nvidia", GpuVendor::Nvidia), ("amd", GpuVendor::Amd), ("intel", GpuVendor::Intel)];

pub(super) const ROLES: [(&str, NicRole); 3] =
    [("compute", NicRole::Compute), ("storage", NicRole::Storage), ("management", NicRole::Management)];

/// Without `Unknown`, which is not written.
pub(super) const STATES: [(&str, PortState); 4] = [
    ("active", PortState::Active),
    ("down", PortState::Down),
    ("init", PortState::Init),
    ("armed", PortState::Armed),
];

/// Without `Unknown`, which is not written.
pub(super) const LINK_LAYERS: [(&str, LinkLayer); 2] =
    [("InfiniBand", LinkLayer::InfiniBand), ("Ethernet", LinkLayer::Ethernet)];

/// Without `Verbs`, which is not written.
pub(super) const KINDS: [(&str, NicKind); 3] =
    [("efa", NicKind::Efa), ("slingshot", NicKind::Slingshot), ("ethernet", NicKind::Ethernet)];

pub(super) const PATHS: [(&str, PathType); 5] = [
    ("PIX", PathType::Pix),
    ("PXB", PathType::Pxb),
    ("PHB", PathType::Phb),
    ("NODE", PathType::Node),
    ("SYS", PathType::Sys),
];

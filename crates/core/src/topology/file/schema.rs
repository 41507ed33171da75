//! Version 1 of the topology file, field by field; what the strings must hold is checked in `read`.
#![forbid(unsafe_code)]

use super::function::PciFunction;
use super::text::Text;
use crate::topology::{Arch, GpuVendor, LinkLayer, NicKind, NicRole, PathType, PortState};
use serde::{Deserialize, Serialize};

/// What every version of the file has.
#[derive(Deserialize)]
pub(super) struct Header {
    pub format: Option<String>,
    pub version: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct File<'a> {
    pub format: Text<'a>,
    pub version: u64,
    pub name: Text<'a>,
    /// free text: where the facts come from
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor<'a>>,
    #[serde(default)]
    pub numa_nodes: Vec<NumaNode<'a>>,
    #[serde(default)]
    pub pus: Vec<Core<'a>>,
    #[serde(default)]
    pub pci: Vec<PciFunction<'a>>,
    #[serde(default)]
    pub gpus: Vec<Gpu<'a>>,
    #[serde(default)]
    pub nics: Vec<Nic<'a>>,
    /// kinds of paths that take precedence over the PCI tree
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<StatedPath<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Processor<'a> {
    /// `x86_64`, `arm64` or `ppc64`
    pub arch: Text<'a>,
    /// such as `GenuineIntel`; absent where unknown, as the two numbers are
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Text<'a>>,
    /// `cpu family` of /proc/cpuinfo
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<u32>,
    /// `model` of /proc/cpuinfo
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct StatedPath<'a> {
    /// the GPU's address
    pub gpu: Text<'a>,
    /// the NIC's address
    pub nic: Text<'a>,
    /// `PIX`, `PXB`, `PHB`, `NODE` or `SYS`
    pub path: Text<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct NumaNode<'a> {
    pub os_index: u32,
    /// a list such as `0-55,112-167`
    pub cpus: Text<'a>,
    /// to every node in order of os index, in whatever order the file lists the nodes
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<u32>,
    /// the package of its first CPU; absent where it is the one that `pus` say, or unknown.  -1 for unknown where `pus` say one,
    /// which are all of package 0 on a kernel that knows no packages
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<i64>,
}

/// The logical CPUs of one core, or of several in a row: a processor has a hundred that differ by a number.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Core<'a> {
    pub package: u32,
    /// the first one's number; each other's is one above the one before it
    pub core: u32,
    /// the first one's, a list such as `0,112`
    pub pus: Text<'a>,
    /// how many cores in a row; absent for one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// by how much each one's CPUs are above those of the one before it; absent for one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Gpu<'a> {
    pub address: Text<'a>,
    /// its number among the GPUs that share this function
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
    pub vendor: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Text<'a>>,
    /// absent where the vendor's runtime counts in PCI order
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_index: Option<u32>,
    /// absent where it is not cut into MIG instances
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig_instances: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Nic<'a> {
    pub name: Text<'a>,
    /// absent for verbs
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Text<'a>>,
    /// absent for software devices
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uverbs: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub netdevs: Vec<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guid: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Text<'a>>,
    #[serde(default)]
    pub ports: Vec<Port<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Port<'a> {
    pub number: u8,
    /// absent where unknown
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<u64>,
    /// absent where unknown
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_layer: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phys_state: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_type: Option<Text<'a>>,
    /// the interface of the node's default route, if that leaves through this port
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_route: Option<Text<'a>>,
    /// such as `10.1.0.0/16`
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Text<'a>>,
    /// absent for false
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub routes_elsewhere: bool,
    /// absent for false
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_namespace: bool,
}

pub(super) const ARCHS: [(&str, Arch); 3] =
    [("x86_64", Arch::X86), ("arm64", Arch::Arm), ("ppc64", Arch::Power)];

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

//! GPUs, NICs and their ports, as data.
#![forbid(unsafe_code)]

use super::text::unless_default;
use super::{DeviceName, Network, PciAddress, SubnetPrefix};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A GPU's vendor, which decides the variable that lists it and the device node that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    /// PCI vendor 10de
    Nvidia,
    /// PCI vendor 1002
    Amd,
    /// PCI vendor 8086
    Intel,
}

impl GpuVendor {
    pub const ALL: [GpuVendor; 3] = [GpuVendor::Nvidia, GpuVendor::Amd, GpuVendor::Intel];

    /// By the PCI vendor id.
    pub fn from_pci(vendor: u16) -> Option<GpuVendor> {
        match vendor {
            0x10de => Some(GpuVendor::Nvidia),
            0x1002 => Some(GpuVendor::Amd),
            0x8086 => Some(GpuVendor::Intel),
            _ => None,
        }
    }

    /// The vendor of a function that looks like a GPU: a VGA (class 0300), 3D (0302) or display controller (0380), or an
    /// accelerator (1200) of AMD, as the MI300X is one.  Intel's and others' of that class are FPGAs (include/linux/pci_ids.h).
    pub fn of_function(class: u32, vendor: u16) -> Option<GpuVendor> {
        let vendor = GpuVendor::from_pci(vendor)?;
        let is_one = match class >> 8 {
            0x0300 | 0x0302 | 0x0380 => true,
            0x1200 => vendor == GpuVendor::Amd,
            _ => false,
        };
        is_one.then_some(vendor)
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

impl fmt::Display for GpuVendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GpuVendor::Nvidia => "nvidia",
            GpuVendor::Amd => "amd",
            GpuVendor::Intel => "intel",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub address: PciAddress,
    /// number of the partition, if the function is partitioned into several GPUs (MI300X in DPX, QPX or CPX mode)
    pub partition: Option<u32>,
    pub vendor: GpuVendor,
    /// number in the device node's name: `Device Minor` for NVIDIA (`/dev/nvidia3`), the render node's for others
    /// (`/dev/dri/renderD131`)
    pub minor: Option<u32>,
    /// `GPU-…`, as `CUDA_VISIBLE_DEVICES` spells it
    pub uuid: Option<String>,
    pub model: Option<String>,
    /// number in the vendor's runtime before any list applies, if not in PCI order: AMD's counts its compute driver's
    /// nodes (ROCR-Runtime, src/core/runtime/amd_topology.cpp)
    pub runtime_index: Option<u32>,
    /// MIG instances, if it has any (`gi*` below `/proc/driver/nvidia/capabilities/gpuN/mig`)
    pub mig_instances: Option<u32>,
}

impl Gpu {
    /// A GPU of which no more is known.
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

    /// True if NVLink-C2C connects it to its CPU (NVIDIA Grace Hopper and Grace Blackwell; their GPUs carry the
    /// superchip's name): the CPU's PCIe host bridges are then as near to the GPU as to the CPU.
    pub fn has_c2c(&self) -> bool {
        let model = self.model.as_deref().unwrap_or_default();
        ["GH200", "GB200", "GB300"]
            .iter()
            .any(|superchip| model.contains(superchip))
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// the name under `/sys/class/infiniband`, `/sys/class/cxi`, or for plain Ethernet `/sys/class/net`
    pub name: DeviceName,
    #[serde(default, with = "unless_default")]
    pub kind: NicKind,
    /// `None` for software devices such as rxe and siw
    pub address: Option<PciAddress>,
    /// from a topology file or a model; the live bus does not tell
    pub role: Option<NicRole>,
    /// in order of number
    #[serde(default)]
    pub ports: Vec<Port>,
    /// the character device under `/dev/infiniband`, such as `uverbs0`
    pub uverbs: Option<String>,
    /// sorted
    #[serde(default)]
    pub netdevs: Vec<String>,
    /// `node_guid`
    pub guid: Option<String>,
    /// `sys_image_guid`: the same for all devices of one card
    pub card: Option<String>,
}

impl Nic {
    /// A NIC of which no more is known.
    pub fn new(name: DeviceName, kind: NicKind) -> Nic {
        Nic {
            name,
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

/// The interface through which programs use a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    pub number: u8,
    /// `ports/N/state`
    #[serde(default, with = "unless_default")]
    pub state: PortState,
    /// `ports/N/rate` in Mbit/s
    pub rate_mbps: Option<u64>,
    /// `ports/N/link_layer`
    #[serde(default, with = "unless_default")]
    pub link_layer: LinkLayer,
    /// `ports/N/phys_state`, such as `LinkUp`
    pub phys_state: Option<String>,
    pub netdev: Option<String>,
    /// first half of the first GID: the subnet prefix on InfiniBand
    pub subnet: Option<SubnetPrefix>,
    /// the newest RoCE type of its GIDs, such as `RoCE v2`
    pub gid_type: Option<String>,
    /// the interface of the node's default route, if that leaves through this port: the port's own, or a bond, bridge
    /// or VLAN above
    pub default_route: Option<String>,
    /// IPv4 networks of the interface, such as `10.1.0.0/16`, by address
    #[serde(default)]
    pub networks: Vec<Network>,
    /// true if the interface has addresses though none of these networks is known: IPv6's alone, or routes in a table
    /// of their own
    #[serde(default)]
    pub routes_elsewhere: bool,
    /// true if the interface is in another network namespace, such as a container's
    #[serde(default)]
    pub other_namespace: bool,
}

impl Port {
    /// A port of which no more is known.
    pub fn new(
        number: u8,
        state: PortState,
        link_layer: LinkLayer,
        rate_mbps: Option<u64>,
    ) -> Port {
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
            routes_elsewhere: false,
            other_namespace: false,
        }
    }
}

/// State of a port (`enum ib_port_state`, the kernel's include/rdma/ib_verbs.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    #[default]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum LinkLayer {
    InfiniBand,
    /// Ethernet: RoCE or iWARP
    Ethernet,
    #[default]
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

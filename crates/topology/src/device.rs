//! GPUs, NICs, ports.

use super::text::{display_as_serialized, unless_default};
use super::{DeviceName, Network, PciAddress, SubnetPrefix};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuVendor {
    Nvidia,
    Amd,
    Intel,
}

display_as_serialized!(GpuVendor NicKind NicRole PortState);

impl GpuVendor {
    pub const ALL: [GpuVendor; 3] = [GpuVendor::Nvidia, GpuVendor::Amd, GpuVendor::Intel];

    pub fn from_pci(vendor: u16) -> Option<GpuVendor> {
        match vendor {
            0x10de => Some(GpuVendor::Nvidia),
            0x1002 => Some(GpuVendor::Amd),
            0x8086 => Some(GpuVendor::Intel),
            _ => None,
        }
    }

    /// The vendor, if the PCI class (include/linux/pci_ids.h) is a GPU's: VGA (0300), 3D (0302) or
    /// display controller (0380); also AMD's processing accelerator (1200), such as the MI300X;
    /// Intel's are FPGAs and NPUs.
    pub fn of_function(class: u32, vendor: u16) -> Option<GpuVendor> {
        let vendor = GpuVendor::from_pci(vendor)?;
        let is_gpu = match class >> 8 {
            0x0300 | 0x0302 | 0x0380 => true,
            0x1200 => vendor == GpuVendor::Amd,
            _ => false,
        };
        is_gpu.then_some(vendor)
    }

    /// The variable in which Slurm lists a task's GPUs for the vendor's runtime (Slurm's
    /// src/interfaces/gres.c, `gres_common_gpu_set_env`).
    pub fn list_variable(self) -> &'static str {
        match self {
            GpuVendor::Nvidia => "CUDA_VISIBLE_DEVICES",
            GpuVendor::Amd => "ROCR_VISIBLE_DEVICES",
            GpuVendor::Intel => "ZE_AFFINITY_MASK",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    pub address: PciAddress,
    /// the partition's number on a function with several GPUs (MI300X in DPX, QPX or CPX mode)
    pub partition: Option<u32>,
    pub vendor: GpuVendor,
    /// NVIDIA's `Device Minor` (`/dev/nvidia3`), or the render node's number
    /// (`/dev/dri/renderD131`)
    pub minor: Option<u32>,
    /// `GPU-…`, as in `CUDA_VISIBLE_DEVICES`
    pub uuid: Option<String>,
    pub model: Option<String>,
    /// an AMD GPU's index in ROCm, by the order of the compute driver's nodes (ROCR-Runtime,
    /// src/core/runtime/amd_topology.cpp); `None` if they are in PCI order
    pub runtime_index: Option<u32>,
    /// number of MIG instances (`gi*` in `/proc/driver/nvidia/capabilities/gpuN/mig`); `None` for 0
    pub mig_instances: Option<u32>,
}

impl Gpu {
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

    /// True if `model` names a superchip (Grace Hopper, Grace Blackwell): NVLink-C2C connects GPU
    /// and CPU, so the CPU's host bridges are as near to the GPU as to the CPU.
    pub fn has_c2c(&self) -> bool {
        let model = self.model.as_deref().unwrap_or_default();
        let mut superchips = ["GH200", "GB200", "GB300"].iter();
        superchips.any(|superchip| model.contains(superchip))
    }

    /// The GPU's device file, relative to `/dev`.
    pub fn device_node(&self) -> Option<String> {
        let minor = self.minor?;
        Some(match self.vendor {
            GpuVendor::Nvidia => format!("nvidia{minor}"),
            GpuVendor::Amd | GpuVendor::Intel => format!("dri/renderD{minor}"),
        })
    }
}

/// An RDMA device or a network interface (NCCL: `NIC`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// the name under `/sys/class/infiniband`, `/sys/class/cxi`, or for plain Ethernet
    /// `/sys/class/net`
    pub name: DeviceName,
    #[serde(default, with = "unless_default")]
    pub kind: NicKind,
    /// `None` for software devices such as rxe and siw
    pub address: Option<PciAddress>,
    /// from a topology file or built-in model: `/sys` has no roles
    pub role: Option<NicRole>,
    /// by ascending number
    #[serde(default)]
    pub ports: Vec<Port>,
    /// the character device under `/dev/infiniband`, such as `uverbs0`
    pub uverbs: Option<String>,
    /// interface names, sorted
    #[serde(default)]
    pub netdevs: Vec<String>,
    /// `node_guid`
    pub guid: Option<String>,
    /// `sys_image_guid`, the same for all devices of one card
    pub card: Option<String>,
}

impl Nic {
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

/// The interface by which programs use a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NicKind {
    /// libibverbs: InfiniBand, RoCE, iWARP
    #[default]
    Verbs,
    /// AWS Elastic Fabric Adapter: a verbs device that only libfabric's efa provider uses
    Efa,
    /// HPE Slingshot (`cxi`)
    Slingshot,
    /// sockets only
    Ethernet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NicRole {
    /// the fabric between GPUs
    Compute,
    /// file systems
    Storage,
    /// logins, provisioning, Slurm
    Management,
}

/// A port of a NIC (NCCL: `NET`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// first half of the first GID; it is the subnet prefix on InfiniBand only
    pub subnet: Option<SubnetPrefix>,
    /// newest RoCE type of the GIDs, such as `RoCE v2`
    pub gid_type: Option<String>,
    /// the default route's interface, if it is the port's or a bond, bridge or VLAN above it
    pub default_route: Option<String>,
    /// IPv4 networks of the port's interface and of interfaces above it
    #[serde(default)]
    pub networks: Vec<Network>,
    /// true if a RoCE port's interface has routable addresses, but `networks` is empty: IPv6, or
    /// another routing table
    #[serde(default)]
    pub routes_elsewhere: bool,
    /// true if the interface is in another network namespace, such as a container's
    #[serde(default)]
    pub other_namespace: bool,
}

impl Port {
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
            ..Port::default()
        }
    }
}

/// A port's state (`enum ib_port_state`, the kernel's include/rdma/ib_verbs.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortState {
    /// 4
    Active,
    /// 1: no link
    Down,
    /// 2: link, but no subnet manager yet
    Init,
    /// 3: configured, not yet active
    Armed,
    /// 0, 5, or unreadable
    #[default]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum LinkLayer {
    InfiniBand,
    /// RoCE, iWARP or plain Ethernet
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

//! AMD GPUs as the compute driver counts them: `/sys/class/kfd/kfd/topology/nodes` (the kernel's
//! drivers/gpu/drm/amd/amdkfd/kfd_topology.c), one node for each GPU or partition of one.
#![forbid(unsafe_code)]

use super::{MAX_DEVICES, Root};
use nic_placement_topology::PciAddress;
use nic_placement_topology::order::Order;
use std::str::FromStr;

/// The class directory is a link to the first; captures of the topology alone have the second.
const PLACES: [&str; 3] = [
    "sys/devices/virtual/kfd/kfd/topology/nodes",
    "sys/class/kfd/kfd/topology/nodes",
    "sys/devices/virtual/kfd/kfd/nodes",
];

/// A GPU, or one partition of it.
pub(super) struct KfdNode {
    /// as far as the driver says: older drivers put the partition into the function number
    pub address: PciAddress,
    /// 0 if the driver does not report it
    pub partition: u32,
    pub minor: Option<u32>,
    /// as `ROCR_VISIBLE_DEVICES` spells it, `GPU-` and 16 hexadecimal digits
    pub uuid: Option<String>,
    /// `numa_node` of the CPU that its PCIe link leads to
    pub cpu_node: Option<u32>,
}

pub(super) fn nodes(root: &Root) -> Vec<KfdNode> {
    let is_number = |name: &str| name.parse::<u32>().is_ok();
    let found = PLACES
        .into_iter()
        .map(|place| (place, root.list(place, is_number)));
    let Some((place, mut names)) = found.into_iter().find(|(_, names)| !names.is_empty()) else {
        return Vec::new();
    };
    names.order_by_key(|name| name.parse::<u32>().unwrap_or(0));
    names.truncate(4 * MAX_DEVICES);
    // CPUs come first, one node for each NUMA node
    let mut cpu_nodes: Vec<String> = Vec::new();
    let mut gpus = Vec::new();
    for name in names {
        let text = root
            .read(&format!("{place}/{name}/properties"))
            .unwrap_or_default();
        if value::<u64>(&text, "simd_count").unwrap_or(0) == 0 {
            cpu_nodes.push(name);
            continue;
        }
        let Some(location) = value::<u64>(&text, "location_id") else {
            continue;
        };
        gpus.push(KfdNode {
            address: PciAddress {
                domain: value(&text, "domain").unwrap_or(0),
                bus: (location >> 8) as u8,
                device: (location >> 3 & 0x1f) as u8,
                function: (location & 7) as u8,
            },
            // since Linux 6.5 above the bus
            partition: (location >> 28 & 0xf) as u32,
            minor: value(&text, "drm_render_minor").filter(|&minor| minor > 0),
            uuid: value::<u64>(&text, "unique_id")
                .filter(|&id| id != 0)
                .map(|id| format!("GPU-{id:016x}")),
            cpu_node: cpu_node(root, &format!("{place}/{name}"), &cpu_nodes),
        });
    }
    gpus
}

/// The nearest CPU node at the other end of one of the GPU's links (`io_links/N/properties`: type 2 is PCIe).
fn cpu_node(root: &Root, node: &str, cpu_nodes: &[String]) -> Option<u32> {
    let links = root.list(&format!("{node}/io_links"), |name| {
        name.parse::<u32>().is_ok()
    });
    let links = links.iter().take(MAX_DEVICES).filter_map(|link| {
        let text = root.read(&format!("{node}/io_links/{link}/properties"))?;
        let to = value::<u64>(&text, "node_to")?.to_string();
        let position = cpu_nodes.iter().position(|cpu| *cpu == to)?;
        Some((value::<u64>(&text, "weight").unwrap_or(u64::MAX), position))
    });
    links
        .min()
        .and_then(|(_, position)| u32::try_from(position).ok())
}

/// `key value` in lines
fn value<T: FromStr>(text: &str, key: &str) -> Option<T> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

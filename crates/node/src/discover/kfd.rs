//! AMD GPUs in the order of KFD, AMD's compute driver. `/sys/class/kfd/kfd/topology/nodes` has a
//! directory for each NUMA node, GPU or partition (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).

use super::{MAX_DEVICES, Root, is_number};
use nic_placement_topology::PciAddress;
use nic_placement_topology::order::Order;
use std::str::FromStr;

/// The second path reaches the first over a link; a capture of only KFD's topology has the third.
const PLACES: [&str; 3] = [
    "sys/devices/virtual/kfd/kfd/topology/nodes",
    "sys/class/kfd/kfd/topology/nodes",
    "sys/devices/virtual/kfd/kfd/nodes",
];

/// A GPU, or a partition of one.
pub(super) struct KfdNode {
    /// in older drivers, `function` is the partition's number
    pub address: PciAddress,
    /// 0 if the driver does not report it
    pub partition: u32,
    pub minor: Option<u32>,
    /// as in `ROCR_VISIBLE_DEVICES`: `GPU-` and 16 hexadecimal digits
    pub uuid: Option<String>,
    /// NUMA node of the nearest CPU, by `io_links`
    pub cpu_node: Option<u32>,
}

pub(super) fn nodes(root: &Root) -> Vec<KfdNode> {
    let mut places = PLACES
        .into_iter()
        .map(|place| (place, root.list(place, is_number)));
    let Some((place, mut names)) = places.find(|(_, names)| !names.is_empty()) else {
        return Vec::new();
    };
    names.order_by_key(|name| name.parse::<u32>().unwrap_or(0));
    names.truncate(4 * MAX_DEVICES);
    // KFD's nodes for CPUs come first, one for each NUMA node
    let mut cpu_nodes: Vec<String> = Vec::new();
    let mut gpus = Vec::new();
    for name in names {
        let node = format!("{place}/{name}");
        let text = root.read(&format!("{node}/properties")).unwrap_or_default();
        if value::<u64>(&text, "simd_count").unwrap_or(0) == 0 {
            cpu_nodes.push(name);
            continue;
        }
        let Some(location) = value::<u64>(&text, "location_id") else {
            continue;
        };
        let id = value::<u64>(&text, "unique_id").filter(|&id| id != 0);
        gpus.push(KfdNode {
            address: PciAddress {
                domain: value(&text, "domain").unwrap_or(0),
                bus: (location >> 8) as u8,
                device: (location >> 3 & 0x1f) as u8,
                function: (location & 7) as u8,
            },
            // in bits 28 to 31 from Linux 6.5 on
            partition: (location >> 28 & 0xf) as u32,
            minor: value(&text, "drm_render_minor").filter(|&minor| minor > 0),
            uuid: id.map(|id| format!("GPU-{id:016x}")),
            cpu_node: cpu_node(root, &node, &cpu_nodes),
        });
    }
    gpus
}

/// The NUMA node with the least `weight` in the `io_links/N/properties` of a GPU.
fn cpu_node(root: &Root, node: &str, cpu_nodes: &[String]) -> Option<u32> {
    let links = root.list(&format!("{node}/io_links"), is_number);
    let links = links.iter().take(MAX_DEVICES).filter_map(|link| {
        let text = root.read(&format!("{node}/io_links/{link}/properties"))?;
        let to = value::<u64>(&text, "node_to")?.to_string();
        let position = cpu_nodes.iter().position(|cpu| *cpu == to)?;
        Some((value::<u64>(&text, "weight").unwrap_or(u64::MAX), position))
    });
    u32::try_from(links.min()?.1).ok()
}

fn value<T: FromStr>(text: &str, key: &str) -> Option<T> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.strip_prefix(' ')?;
        value.trim().parse().ok()
    })
}

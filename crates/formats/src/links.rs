//! What connects GPUs with each other, as far as files say it: for people to compare. No decision uses it.
#![forbid(unsafe_code)]

use crate::describe::{FileFormat, contents, format_of, root_of};
use crate::import::{self, GpuLinks};
use nic_placement_core::config::NodeSource;
use nic_placement_core::topology::{Provenance, Topology};
use nic_placement_node::discover::Root;
use std::str::FromStr;

/// The links that a node's source tells; NVIDIA's driver has them in no file.
pub fn between_gpus(node: &Topology) -> GpuLinks {
    let path = match &node.provenance {
        Provenance::ThisSystem => return xgmi(&Root::live(), node),
        Provenance::Model(_) => return GpuLinks::new(),
        Provenance::Captured(path) | Provenance::File(path) => path,
    };
    if let Some(root) = root_of(&NodeSource::Topology(path.clone())) {
        return xgmi(&root, node);
    }
    let bytes = contents(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match format_of(&bytes) {
        Ok(FileFormat::Smi) => import::smi::between_gpus(&text),
        Ok(FileFormat::Nccl) => import::nccl::between_gpus(&text, node),
        _ => GpuLinks::new(),
    }
}

/// By AMD's compute driver (drivers/gpu/drm/amd/amdkfd/kfd_topology.c, `iolink_show`).
fn xgmi(root: &Root, node: &Topology) -> GpuLinks {
    /// `CRAT_IOLINK_TYPE_XGMI` of kfd_crat.h.
    const XGMI: u32 = 11;
    const NODES: [&str; 2] = [
        "sys/devices/virtual/kfd/kfd/topology/nodes",
        "sys/class/kfd/kfd/topology/nodes",
    ];
    let mut links = GpuLinks::new();
    for nodes in NODES {
        let gpu = |number: u32| {
            let text = root.read(&format!("{nodes}/{number}/properties"))?;
            let minor = value(&text, "drm_render_minor")?;
            node.gpus.iter().position(|gpu| gpu.minor == Some(minor))
        };
        for number in root.numbers(nodes) {
            let Some(from) = gpu(number) else { continue };
            let place = format!("{nodes}/{number}/io_links");
            for link in root.numbers(&place) {
                let text = root.read(&format!("{place}/{link}/properties"));
                let text = text.filter(|text| value(text, "type") == Some(XGMI));
                let to = text.and_then(|text| gpu(value(&text, "node_to")?));
                links.extend(to.map(|to| ((from, to), "XGMI".to_string())));
            }
        }
    }
    links
}

/// The value of a line `key value`.
fn value<T: FromStr>(text: &str, key: &str) -> Option<T> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

//! The map from a node's GPUs to its NIC ports, and the choice of the ports.
//!
//! Pure: the same arguments give the same map in every task.

mod all;
mod closest;
pub mod explain;
pub(crate) mod ladder;
mod links;
#[cfg(test)]
#[path = "../../../launch/src/explain.rs"]
#[allow(dead_code, reason = "a table is the tool's")]
mod pairs;
mod parts;
mod paths;
pub(crate) mod ports;
mod rail;
mod solve;
pub mod strictness;

use crate::placement::{GpuPlacement, NodePlacement, Rail, RailUse};
use crate::topology::{GpuIndex, Topology};
pub use crate::wish::{Pattern, Selection, Through, pattern};
use crate::wish::{Policy, Wish};
pub use paths::Paths;
pub use solve::{RailSet, Solved};

/// The map for a job that may share the node with other jobs.
pub fn map(topology: &Topology, wish: &Wish) -> NodePlacement {
    map_of(topology, wish, None, &[])
}

/// The map for a step or a task. `alone`: the GPUs of a job that is alone on the node, for
/// `spread`. `were`: for a task, the rails of its step's map; a rail whose NIC is in
/// [`Selection::unopenable`] counts as broken.
pub fn map_of(
    node: &Topology,
    wish: &Wish,
    alone: Option<&[GpuIndex]>,
    were: &[Rail],
) -> NodePlacement {
    let mut map = NodePlacement {
        policy: wish.policy,
        ..ports::judge(node, &wish.admin.selection, were)
    };
    map.numbered_by_admin = rail::numbered_by_admin(node, &map, wish);
    map.gpus = match wish.policy {
        Policy::Closest | Policy::Spread => closest::map_gpus(node, &map, wish, alone),
        Policy::Rail => rail::map_gpus(node, &mut map, wish),
        Policy::Numa | Policy::All => all::map_gpus(node, &map, wish),
    };
    if wish.wordless {
        map.gpus.iter_mut().for_each(|gpu| gpu.reason.clear());
    }
    map
}

/// Each GPU's placement on its rails in `rails_of`. `reason` gives the reason for these rails; it
/// is unused under [`Wish::wordless`].
fn placements(
    node: &Topology,
    paths: &Paths,
    rails_of: &[RailSet],
    wish: &Wish,
    mut reason: impl FnMut(&mut Solved, GpuIndex, &[RailUse]) -> String,
) -> Vec<GpuPlacement> {
    let mut answer = paths.answer(rails_of.to_vec());
    let choices = paths.choices(&answer);
    let gpus = node.numbered_gpus().zip(choices);
    gpus.map(|((gpu, device), choices)| GpuPlacement {
        reason: match choices.is_empty() {
            _ if wish.wordless => String::new(),
            true => "no NIC of this node may be chosen".to_string(),
            false => reason(&mut answer, gpu, &choices),
        },
        choices,
        numa_node: node.numa_node_of(device.address),
        shortfall: None,
    })
    .collect()
}

pub fn gbps(mbps: u64) -> String {
    match mbps % 1000 / 100 {
        0 => format!("{} Gb/s", mbps / 1000),
        tenth => format!("{}.{tenth} Gb/s", mbps / 1000),
    }
}

#[cfg(test)]
mod tests;

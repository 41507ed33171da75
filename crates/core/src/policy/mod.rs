//! Decides which NICs are candidates, and which GPU uses which NIC.
//!
//! Pure: the same topology and the same evidence give the same answer, on every node and in every task.
#![forbid(unsafe_code)]

mod all;
mod broken;
pub(crate) mod candidates;
mod closest;
mod evidence;
pub(crate) mod explain;
pub(crate) mod ladder;
mod links;
mod numa;
mod parts;
mod rail;
mod solve;
mod spread;
pub mod strictness;
mod ways;

use crate::placement::{GpuPlacement, NodePlacement, Rail, RailUse};
use crate::topology::{Gpu, GpuIndex, Topology};
pub use crate::wish::{Pattern, Selection, Through, pattern};
use crate::wish::{Policy, Wish};
use candidates::Candidates;
use solve::{Answer, RailSet};
pub use ways::Ways;

/// The map of a node for a job that may have company there.
pub fn map(topology: &Topology, wish: &Wish) -> NodePlacement {
    map_of(topology, wish, None, &[])
}

/// The map for a step.  `alone` has the GPUs of a job that is alone on the node, for `spread`; `were` the rails of the step's
/// map, for a task that may not open some of these: they count as broken ones.
pub fn map_of(
    topology: &Topology,
    wish: &Wish,
    alone: Option<&[GpuIndex]>,
    were: &[Rail],
) -> NodePlacement {
    let Candidates {
        rails,
        broken,
        degraded,
        excluded,
        left_to_libfabric,
        diagnostics,
    } = candidates::rails(topology, &wish.admin.selection, were);
    let mut node = NodePlacement {
        policy: wish.policy,
        rails,
        numbered_by_admin: Vec::new(),
        broken,
        degraded,
        excluded,
        left_to_libfabric,
        gpus: Vec::new(),
        diagnostics,
    };
    node.numbered_by_admin = rail::numbered_by_admin(topology, &node, wish);
    node.gpus = match wish.policy {
        Policy::Closest => closest::map_gpus(topology, &node, wish),
        Policy::Rail => rail::map_gpus(topology, &mut node, wish),
        Policy::Spread => spread::map_gpus(topology, &node, wish, alone),
        Policy::Numa => numa::map_gpus(topology, &node, wish),
        Policy::All => all::map_gpus(topology, &node, wish),
    };
    if wish.wordless {
        node.gpus.iter_mut().for_each(|gpu| gpu.reason.clear());
    }
    node
}

/// What each GPU has by an answer; `reason` says in words why it has these rails.
fn placements(
    topology: &Topology,
    ways: &Ways,
    rails_of: &[RailSet],
    wish: &Wish,
    mut reason: impl FnMut(&mut Answer, GpuIndex, &[RailUse]) -> String,
) -> Vec<GpuPlacement> {
    let mut answer = Answer::new(&ways.problem, rails_of.to_vec());
    let choices = ways.choices(&answer);
    let placement = |((gpu, device), choices): ((GpuIndex, &Gpu), Vec<RailUse>)| GpuPlacement {
        reason: match choices.is_empty() {
            _ if wish.wordless => String::new(),
            true => "no NIC of this node may be chosen".to_string(),
            false => reason(&mut answer, gpu, &choices),
        },
        choices,
        numa_node: topology.numa_node_of(device.address),
        shortfall: None,
    };
    topology
        .numbered_gpus()
        .zip(choices)
        .map(placement)
        .collect()
}

/// `400 Gb/s`, `2.5 Gb/s`
pub fn gbps(mbps: u64) -> String {
    match mbps % 1000 / 100 {
        0 => format!("{} Gb/s", mbps / 1000),
        tenth => format!("{}.{tenth} Gb/s", mbps / 1000),
    }
}

#[cfg(test)]
mod tests;

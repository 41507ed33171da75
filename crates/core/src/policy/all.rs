//! `all`: each GPU gets all rails of the node, nearest first.
#![forbid(unsafe_code)]

use super::solve::RailSet;
use super::{Request, Ways};
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::{GpuIndex, Topology};

pub(super) fn map_gpus(topology: &Topology, node: &NodePlacement, request: &Request) -> Vec<GpuPlacement> {
    let rails_of = vec![RailSet::first(node.rails.len()); topology.gpus.len()];
    serve(topology, node, request, &rails_of, |_, rails| format!("all {} good NICs of the node", rails.len()))
}

/// Gives each GPU the rails listed for it, the best first.
pub(super) fn serve(
    topology: &Topology,
    node: &NodePlacement,
    request: &Request,
    rails_of: &[RailSet],
    reason: impl Fn(GpuIndex, RailSet) -> String,
) -> Vec<GpuPlacement> {
    let ways = Ways::for_answer(topology, &node.rails, &request.through, rails_of);
    let choices = ways.choices(&ways.answer(rails_of)).into_iter().zip(rails_of);
    topology
        .numbered_gpus()
        .zip(choices)
        .map(|((gpu, device), (choices, rails))| GpuPlacement {
            choices,
            numa_node: topology.numa_node_of(device.address),
            reason: request.reasons.say(|| match rails.is_empty() {
                true => "no NIC of this node may be chosen".to_string(),
                false => reason(gpu, *rails),
            }),
            shortfall: None,
        })
        .collect()
}

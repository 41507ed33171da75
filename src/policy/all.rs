//! `all`: each GPU all rails of the node, nearest first.
#![forbid(unsafe_code)]

use super::Edges;
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::Topology;

pub(super) fn place(topology: &Topology, node: &NodePlacement, edges: &Edges) -> Vec<GpuPlacement> {
    let rails_of = vec![(0..node.rails.len()).collect::<Vec<usize>>(); topology.gpus.len()];
    serve(topology, node, edges, &rails_of, |_, rails| format!("all {} good NICs of the node", rails.len()))
}

/// Gives each GPU the rails listed for it, nearest first.
pub(super) fn serve(
    topology: &Topology,
    node: &NodePlacement,
    edges: &Edges,
    rails_of: &[Vec<usize>],
    reason: impl Fn(usize, &[usize]) -> String,
) -> Vec<GpuPlacement> {
    let mut users = vec![0usize; node.rails.len()];
    rails_of.iter().flatten().for_each(|&rail| users[rail] += 1);
    (0..topology.gpus.len())
        .map(|gpu| {
            let mut rails = rails_of[gpu].clone();
            rails.sort_by_key(|&rail| (edges.paths[gpu][rail].kind, rail));
            let reason = match rails.is_empty() {
                true => "no NIC of this node may be chosen".to_string(),
                false => reason(gpu, &rails),
            };
            GpuPlacement {
                choices: rails.iter().map(|&rail| edges.choice(gpu, rail, users[rail])).collect(),
                numa_node: topology.numa_node_of(topology.gpus[gpu].address),
                reason,
            }
        })
        .collect()
}

//! `numa`: each GPU all rails of its NUMA node; where that has none, the nearest of the node.
#![forbid(unsafe_code)]

use super::Edges;
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::{PathType, Topology};

pub(super) fn place(topology: &Topology, node: &NodePlacement, edges: &Edges) -> Vec<GpuPlacement> {
    let rails_of: Vec<Vec<usize>> = edges
        .paths
        .iter()
        .map(|paths| {
            let local: Vec<usize> =
                (0..paths.len()).filter(|&rail| paths[rail].kind < PathType::Sys).collect();
            let nearest = paths.iter().map(|path| path.kind).min();
            match local.is_empty() {
                true => (0..paths.len()).filter(|&rail| Some(paths[rail].kind) == nearest).collect(),
                false => local,
            }
        })
        .collect();
    super::all::serve(topology, node, edges, &rails_of, |gpu, rails| {
        match rails.iter().any(|&rail| edges.paths[gpu][rail].kind < PathType::Sys) {
            true => format!("all {} good NICs of its NUMA node", rails.len()),
            false => "its NUMA node has no good NIC: all that are nearest".to_string(),
        }
    })
}

//! `numa`: each GPU gets all rails of its NUMA node; if that has none, the node's nearest.
#![forbid(unsafe_code)]

use super::solve::RailSet;
use super::{Ways, placements};
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::{PathType, Topology};
use crate::wish::Wish;

pub(super) fn map_gpus(
    topology: &Topology,
    node: &NodePlacement,
    wish: &Wish,
) -> Vec<GpuPlacement> {
    let ways = Ways::one_each(topology, &node.rails, &wish.admin.through);
    let near = |kinds: &Vec<PathType>| {
        let local: RailSet = (0..kinds.len())
            .filter(|&rail| kinds[rail] < PathType::Sys)
            .collect();
        // without any, all are as far
        if local.is_empty() {
            RailSet::first(kinds.len())
        } else {
            local
        }
    };
    let rails_of: Vec<RailSet> = ways.kinds.iter().map(near).collect();
    let ways = Ways::for_answer(topology, &node.rails, &wish.admin.through, &rails_of);
    placements(
        topology,
        &ways,
        &rails_of,
        wish,
        |_, _, choices| match choices.iter().any(|choice| choice.path < PathType::Sys) {
            true => format!("all {} good NICs of its NUMA node", choices.len()),
            false => "its NUMA node has no good NIC: all that are nearest".to_string(),
        },
    )
}

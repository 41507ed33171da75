//! `all`: each GPU gets all rails of the node, nearest first.
#![forbid(unsafe_code)]

use super::solve::RailSet;
use super::{Ways, placements};
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::Topology;
use crate::wish::Wish;

pub(super) fn map_gpus(
    topology: &Topology,
    node: &NodePlacement,
    wish: &Wish,
) -> Vec<GpuPlacement> {
    let rails_of = vec![RailSet::first(node.rails.len()); topology.gpus.len()];
    let ways = Ways::for_answer(topology, &node.rails, &wish.admin.through, &rails_of);
    placements(topology, &ways, &rails_of, wish, |_, _, choices| {
        format!("all {} good NICs of the node", choices.len())
    })
}

//! `all`: each GPU gets all rails of the node, nearest first.
#![forbid(unsafe_code)]

use super::solve::RailSet;
use super::{Request, Ways, placements};
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::Topology;

pub(super) fn map_gpus(
    node: &Topology,
    map: &NodePlacement,
    request: &Request,
) -> Vec<GpuPlacement> {
    let rails_of = vec![RailSet::first(map.rails.len()); node.gpus.len()];
    let ways = Ways::for_answer(node, &map.rails, &request.through, &rails_of);
    placements(node, &ways, &rails_of, request, |_, _, choices| {
        format!("all {} good NICs of the node", choices.len())
    })
}

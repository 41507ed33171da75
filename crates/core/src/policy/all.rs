//! Policy `all`: each GPU gets all rails of the node, best first. Policy `numa`: the rails on the
//! GPU's NUMA node; if there are none, all rails.

use super::solve::RailSet;
use super::{Paths, placements};
use crate::placement::{GpuPlacement, NodePlacement, RailUse};
use crate::topology::{PathType, Topology};
use crate::wish::{Policy, Wish};

pub(super) fn map_gpus(node: &Topology, map: &NodePlacement, wish: &Wish) -> Vec<GpuPlacement> {
    let all = RailSet::first(map.rails.len());
    let mut rails_of = vec![all; node.gpus.len()];
    if wish.policy == Policy::Numa {
        let paths = Paths::one_each(node, &map.rails, &wish.admin.through);
        for (rails, kinds) in rails_of.iter_mut().zip(&paths.kinds) {
            let near = all.iter().filter(|&rail| kinds[rail] < PathType::Sys);
            let near: RailSet = near.collect();
            if !near.is_empty() {
                *rails = near;
            }
        }
    }
    let paths = Paths::for_answer(node, &map.rails, &wish.admin.through, &rails_of);
    let is_near = |choice: &RailUse| choice.path < PathType::Sys;
    placements(node, &paths, &rails_of, wish, |_, _, choices| {
        let count = choices.len();
        match wish.policy {
            Policy::Numa if choices.iter().any(is_near) => {
                format!("all {count} good NICs of its NUMA node")
            }
            Policy::Numa => "its NUMA node has no good NIC: all that are nearest".to_string(),
            _ => format!("all {count} good NICs of the node"),
        }
    })
}

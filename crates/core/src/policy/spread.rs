//! `spread`: as `closest`, and a job that has the node to itself also uses the rails that would be idle.
#![forbid(unsafe_code)]

use super::Ways;
use super::closest::{explained, steady};
use super::solve::{Answer, RailSet};
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::{GpuIndex, Topology};
use crate::wish::Wish;

pub(super) fn map_gpus(
    topology: &Topology,
    node: &NodePlacement,
    wish: &Wish,
    alone: Option<&[GpuIndex]>,
) -> Vec<GpuPlacement> {
    let (ways, mut rails_of) = steady(topology, node, wish);
    let Some(alone) = alone.filter(|gpus| !gpus.is_empty() && !node.rails.is_empty()) else {
        let mut gpus = explained(topology, node, &ways, &rails_of, wish);
        for gpu in gpus.iter_mut().filter(|gpu| !gpu.choices.is_empty()) {
            gpu.reason
                .push_str("; no idle NIC is added, since the job may not be alone on the node");
        }
        return gpus;
    };
    let own = rails_of.clone();
    // only the job's GPUs can use rails, so what the others would have is idle
    for (gpu, rails) in rails_of.iter_mut().enumerate() {
        if !alone.contains(&GpuIndex(gpu)) {
            *rails = RailSet::default();
        }
    }
    for rail in RailSet::first(node.rails.len())
        .minus(RailSet::union(&rails_of))
        .iter()
    {
        let best = alone.iter().map(|gpu| gpu.0).min_by_key(|&gpu| {
            let value = ways.problem.alone_mbps(gpu, rail);
            (
                u64::MAX - value,
                ways.problem.kind(gpu, rail),
                rails_of[gpu].len(),
                gpu,
            )
        });
        if let Some(gpu) = best {
            rails_of[gpu] = rails_of[gpu].with(rail);
        }
    }
    let mut gpus = explained(topology, node, &ways, &own, wish);
    let ways = Ways::for_answer(topology, &node.rails, &wish.admin.through, &rails_of);
    for (gpu, choices) in ways
        .choices(&Answer::new(&ways.problem, rails_of))
        .into_iter()
        .enumerate()
    {
        let placement = &mut gpus[gpu];
        match choices.len().saturating_sub(own[gpu].len()) {
            _ if !alone.contains(&GpuIndex(gpu)) => {
                placement.reason = "the job does not have this GPU".to_string();
            }
            0 => {}
            1 => placement
                .reason
                .push_str("; with it a NIC that would be idle"),
            more => placement
                .reason
                .push_str(&format!("; with it {more} NICs that would be idle")),
        }
        placement.choices = choices;
    }
    gpus
}

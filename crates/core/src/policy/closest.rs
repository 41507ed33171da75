//! Policy `closest`: the GPUs get as much bandwidth as possible, the worst-off GPU first; then
//! nearer rails, then more even use of the rails. Policy `spread` also gives idle rails to the GPUs
//! of a job alone on the node.

use super::explain::why_this;
use super::solve::{MOST_RAILS, RailSet, Solved, solve};
use super::{Paths, parts, placements};
use crate::order::Order;
use crate::placement::{GpuPlacement, NodePlacement, Rail};
use crate::topology::{GpuIndex, Topology};
use crate::wish::{NicsEach, Policy, Wish};
use std::cmp::Reverse;

pub(super) fn map_gpus(
    node: &Topology,
    map: &NodePlacement,
    wish: &Wish,
    alone: Option<&[GpuIndex]>,
) -> Vec<GpuPlacement> {
    let (paths, own) = steady(node, map, wish);
    let mut gpus = explained(node, map, &paths, &own, wish);
    if wish.policy == Policy::Closest {
        return gpus;
    }
    let alone = alone.unwrap_or_default();
    if alone.is_empty() || map.rails.is_empty() {
        for gpu in gpus.iter_mut().filter(|gpu| !gpu.choices.is_empty()) {
            gpu.reason
                .push_str("; no idle NIC is added, since the job may not be alone on the node");
        }
        return gpus;
    }
    let is_of_job = |gpu: usize| alone.contains(&GpuIndex(gpu));
    // rails of GPUs outside the job are idle too
    let mut rails_of = own.clone();
    for (gpu, rails) in rails_of.iter_mut().enumerate() {
        if !is_of_job(gpu) {
            *rails = RailSet::default();
        }
    }
    let all = RailSet::first(map.rails.len());
    for rail in all.minus(RailSet::union(&rails_of)).iter() {
        let best = alone.iter().map(|gpu| gpu.0).min_by_key(|&gpu| {
            let mbps = paths.problem.alone_mbps(gpu, rail);
            let path = paths.problem.kind(gpu, rail);
            (Reverse(mbps), path, rails_of[gpu].len(), gpu)
        });
        if let Some(gpu) = best {
            rails_of[gpu] = rails_of[gpu].with(rail);
        }
    }
    let paths = Paths::for_answer(node, &map.rails, &wish.admin.through, &rails_of);
    let choices = paths.choices(&Solved::new(&paths.problem, rails_of));
    for (index, (gpu, choices)) in gpus.iter_mut().zip(choices).enumerate() {
        let added = match choices.len().saturating_sub(own[index].len()) {
            0 => String::new(),
            1 => "; with it a NIC that would be idle".to_string(),
            more => format!("; with it {more} NICs that would be idle"),
        };
        match is_of_job(index) {
            true => gpu.reason.push_str(&added),
            false => gpu.reason = "the job does not have this GPU".to_string(),
        }
        gpu.choices = choices;
    }
    gpus
}

/// The best rails of each GPU. If NICs are broken, a GPU keeps its rails of an intact node as far
/// as they work, since its peers on intact nodes use them. It gets new rails if none work, or fewer
/// than `NicsEach::Number`. All GPUs get new rails only if the worst-off GPU gains.
fn steady(node: &Topology, map: &NodePlacement, wish: &Wish) -> (Paths, Vec<RailSet>) {
    let healthy = in_order(map);
    if map.broken.is_empty() || map.rails.is_empty() || healthy.len() > MOST_RAILS {
        return best(node, &map.rails, wish);
    }
    let usable: Vec<Option<usize>> = healthy
        .iter()
        .map(|rail| Some(map.rail_at(rail.at())?.0))
        .collect();
    let (_, when_healthy) = best(node, &healthy, wish);
    let left: Vec<RailSet> = when_healthy
        .iter()
        .map(|rails| rails.iter().filter_map(|rail| usable[rail]).collect())
        .collect();
    let want = |left: &RailSet| match wish.nics_per_task {
        NicsEach::Auto => left.len().max(1),
        NicsEach::Number(number) => usize::from(number).clamp(1, map.rails.len()),
    };
    let wants: Vec<usize> = left.iter().map(want).collect();
    let mut paths = Paths::new(node, &map.rails, &wish.admin.through, &wants);
    let anew = solve(&paths.problem);
    let (worst, anew) = (anew.worst_mbps(), anew.rails_of);
    let kept: Vec<Option<RailSet>> = left
        .iter()
        .map(|left| (left.len() == want(left)).then_some(*left))
        .collect();
    paths.problem.keep(&kept);
    let steady = solve(&paths.problem);
    let rails_of = match worst > steady.worst_mbps() {
        true => anew,
        false => steady.rails_of,
    };
    (paths, rails_of)
}

fn best(node: &Topology, rails: &[Rail], wish: &Wish) -> (Paths, Vec<RailSet>) {
    let NicsEach::Number(number) = wish.nics_per_task else {
        return parts::solved(node, rails, &wish.admin.through);
    };
    let wants = vec![number.into(); node.gpus.len()];
    let paths = Paths::new(node, rails, &wish.admin.through, &wants);
    let rails_of = solve(&paths.problem).rails_of;
    (paths, rails_of)
}

pub(super) fn in_order(map: &NodePlacement) -> Vec<Rail> {
    let mut rails: Vec<Rail> = map.rails.iter().chain(&map.broken).cloned().collect();
    rails.order_by_key(Rail::at);
    rails
}

pub(super) fn explained(
    node: &Topology,
    map: &NodePlacement,
    paths: &Paths,
    rails_of: &[RailSet],
    wish: &Wish,
) -> Vec<GpuPlacement> {
    let parts = match wish.nics_per_task {
        NicsEach::Auto if !wish.wordless => parts::of_nearest(&paths.problem),
        _ => Vec::new(),
    };
    placements(node, paths, rails_of, wish, |answer, gpu, choices| {
        why_this(map, paths, answer, gpu, choices, parts.get(gpu.0))
    })
}

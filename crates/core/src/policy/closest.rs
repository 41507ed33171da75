//! `closest`: each GPU the rails that give it the most bandwidth, then the nearest, evenly used.
#![forbid(unsafe_code)]

use super::explain::why_this;
use super::solve::{MOST_RAILS, Solution, solve, solve_around};
use super::{Request, Ways};
use crate::diagnostic::Diagnostic;
use crate::placement::{GpuPlacement, NodePlacement, Rail};
use crate::topology::Topology;

pub(super) fn map_gpus(
    topology: &Topology,
    node: &mut NodePlacement,
    ways: &Ways,
    request: &Request,
) -> Vec<GpuPlacement> {
    let solution = steady(topology, node, ways, request);
    if !solution.exact {
        node.diagnostics.push(Diagnostic::new(
            "closest",
            "too many GPUs share too few NICs: good, but not proven the best",
        ));
    }
    placements(topology, node, ways, &solution.rails_of)
}

/// The best answer.  Where NICs of the node are broken, GPUs whose NICs work keep those that they have when all work,
/// unless the worst GPU would get more if they moved: a node that lost a NIC then still pairs like the others.
pub(super) fn steady(topology: &Topology, node: &NodePlacement, ways: &Ways, request: &Request) -> Solution {
    let anew = solve(&ways.problem);
    let healthy = in_order(node);
    if node.broken.is_empty() || node.rails.is_empty() || healthy.len() > MOST_RAILS {
        return anew;
    }
    let whole = Ways::new(topology, &healthy, &request.through, ways.problem.each);
    let kept: Vec<Option<Vec<usize>>> = solve(&whole.problem)
        .rails_of
        .into_iter()
        .map(|rails| rails.into_iter().map(|rail| Some(node.rail_at(healthy[rail].at())?.0)).collect())
        .map(|kept: Option<Vec<usize>>| {
            kept.filter(|rails| rails.len() == ways.problem.each.min(node.rails.len()))
        })
        .collect();
    let stay = solve_around(&ways.problem, &kept);
    let score = |solution: &Solution| ways.problem.score(&solution.rails_of);
    if score(&anew).is_less_bad_than(&score(&stay)) { anew } else { stay }
}

/// Usable and broken rails together, in rail order.
pub(super) fn in_order(node: &NodePlacement) -> Vec<Rail> {
    let mut rails: Vec<Rail> = node.rails.iter().chain(&node.broken).cloned().collect();
    rails.sort_by_key(Rail::at);
    rails
}

/// The answer with its reasons.
pub(super) fn placements(
    topology: &Topology,
    node: &NodePlacement,
    ways: &Ways,
    rails_of: &[Vec<usize>],
) -> Vec<GpuPlacement> {
    let mut choices = ways.choices(rails_of).into_iter();
    topology
        .numbered_gpus()
        .map(|(gpu, device)| {
            let choices = choices.next().unwrap_or_default();
            let reason = match choices.is_empty() {
                true => "no NIC of this node may be chosen".to_string(),
                false => why_this(node, ways, rails_of, gpu, &choices),
            };
            GpuPlacement {
                choices,
                numa_node: topology.numa_node_of(device.address),
                reason,
                shortfall: None,
            }
        })
        .collect()
}

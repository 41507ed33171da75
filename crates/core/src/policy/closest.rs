//! `closest`: each GPU the rails that give it the most bandwidth, then the nearest, evenly used.
#![forbid(unsafe_code)]

use super::explain::why_this;
use super::solve::{MOST_RAILS, Score, Solution, solve, solve_around};
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
/// unless the worst-off GPU would get more if they moved: a node that lost a NIC then still pairs like the others.
pub(super) fn steady(topology: &Topology, node: &NodePlacement, ways: &Ways, request: &Request) -> Solution {
    let mut budget = request.effort.budget();
    let healthy = in_order(node);
    if node.broken.is_empty() || node.rails.is_empty() || healthy.len() > MOST_RAILS {
        return solve(&ways.problem, &mut budget);
    }
    let whole = Ways::new(topology, &healthy, &request.through, request.nics_each.max(1));
    let kept: Vec<Option<Vec<usize>>> = solve(&whole.problem, &mut budget)
        .rails_of
        .into_iter()
        .map(|rails| rails.into_iter().map(|rail| Some(node.rail_at(healthy[rail].at())?.0)).collect())
        .zip(0..)
        .map(|(kept, gpu): (Option<Vec<usize>>, usize)| {
            kept.filter(|rails| rails.len() == ways.problem.wants(gpu))
        })
        .collect();
    let stay = solve_around(&ways.problem, &kept, &mut budget);
    let anew = solve(&ways.problem, &mut budget);
    let worst = |solution: &Solution| Score::of(&ways.problem, &solution.rails_of).worst_mbps();
    if worst(&anew) > worst(&stay) { anew } else { stay }
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
    let mut answer = ways.answer(rails_of);
    let mut choices = ways.choices(&answer).into_iter();
    topology
        .numbered_gpus()
        .map(|(gpu, device)| {
            let choices = choices.next().unwrap_or_default();
            let reason = match choices.is_empty() {
                true => "no NIC of this node may be chosen".to_string(),
                false => why_this(node, ways, &mut answer, gpu, &choices),
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

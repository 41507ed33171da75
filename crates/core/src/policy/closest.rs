//! `closest`: each GPU the rails that give it the most bandwidth, then the nearest, evenly used.
#![forbid(unsafe_code)]

use super::explain::why_this;
use super::solve::{MOST_RAILS, Score, Solution, most_for_the_worst, solve, solve_around};
use super::{Request, Ways};
use crate::diagnostic::Diagnostic;
use crate::placement::{GpuPlacement, NodePlacement, Policy, Rail};
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
    let whole = known(&healthy, request).unwrap_or_else(|| {
        let whole = Ways::new(topology, &healthy, &request.through, request.nics_each.max(1));
        solve(&whole.problem, &mut budget).rails_of
    });
    let usable: Vec<Option<usize>> = healthy.iter().map(|rail| Some(node.rail_at(rail.at())?.0)).collect();
    let kept = |(gpu, rails): (usize, Vec<usize>)| {
        let rails: Option<Vec<usize>> = rails.into_iter().map(|rail| usable[rail]).collect();
        rails.filter(|rails| rails.len() == ways.problem.wants(gpu))
    };
    let kept: Vec<Option<Vec<usize>>> = whole.into_iter().enumerate().map(kept).collect();
    let stay = solve_around(&ways.problem, &kept, &mut budget);
    let worst = |solution: &Solution| Score::of(&ways.problem, &solution.rails_of).worst_mbps();
    if worst(&stay) >= most_for_the_worst(&ways.problem, &mut budget) {
        return stay;
    }
    let anew = solve(&ways.problem, &mut budget);
    if worst(&anew) > worst(&stay) { anew } else { stay }
}

/// The rails that each GPU has when all work, where a map of that node is at hand.
fn known(healthy: &[Rail], request: &Request) -> Option<Vec<Vec<usize>>> {
    let map = request.known.filter(|map| map.broken.is_empty() && map.rails == healthy)?;
    let rails_of = |gpu: &GpuPlacement| {
        let mut rails: Vec<usize> = gpu.choices.iter().map(|choice| choice.rail.0).collect();
        rails.sort_unstable();
        rails
    };
    (map.policy == Policy::Closest).then(|| map.gpus.iter().map(rails_of).collect())
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

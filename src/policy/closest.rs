//! `closest`: each GPU the one rail that gives it the most bandwidth, then the nearest, evenly used.
#![forbid(unsafe_code)]

use super::solve::{Problem, solve};
use super::{Edges, gbps};
use crate::diagnostic::Diagnostic;
use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::Topology;

pub(super) fn place(
    topology: &Topology,
    node: &NodePlacement,
    edges: &Edges,
) -> (Vec<GpuPlacement>, Option<Diagnostic>) {
    let kinds: Vec<Vec<u8>> =
        edges.paths.iter().map(|row| row.iter().map(|path| path.kind as u8).collect()).collect();
    let solution = solve(Problem { values: &edges.values, kinds: &kinds, rails: node.rails.len() });
    let unproven =
        || Diagnostic::new("closest", "too many GPUs share too few NICs: good, but not proven the best");
    let diagnostic = (!solution.exact).then(unproven);
    let mut users = vec![0usize; node.rails.len()];
    solution.rail_of.iter().for_each(|&rail| users[rail] += 1);
    let gpus = (0..topology.gpus.len())
        .map(|gpu| {
            let numa_node = topology.numa_node_of(topology.gpus[gpu].address);
            let Some(&rail) = solution.rail_of.get(gpu) else {
                let reason = "no NIC of this node may be chosen".to_string();
                return GpuPlacement { choices: Vec::new(), numa_node, reason };
            };
            let choice = edges.choice(gpu, rail, users[rail]);
            let reason = reason(node, edges, gpu, rail, users[rail]);
            GpuPlacement { choices: vec![choice], numa_node, reason }
        })
        .collect();
    (gpus, diagnostic)
}

/// Why this rail and no other, in one true sentence.
fn reason(node: &NodePlacement, edges: &Edges, gpu: usize, rail: usize, users: usize) -> String {
    let kind = edges.paths[gpu][rail].kind;
    let nearest = edges.paths[gpu].iter().map(|path| path.kind).min().unwrap_or(kind);
    let ties = edges.paths[gpu].iter().filter(|path| path.kind == kind).count() - 1;
    let distance = if kind == nearest && ties == 0 {
        format!("the only NIC at {kind}")
    } else if kind == nearest {
        format!("one of {} NICs at {kind}, the nearest there are", ties + 1)
    } else {
        format!("at {kind}: every nearer NIC would leave some GPU of the node with less")
    };
    let share = gbps(edges.values[gpu][rail] / users.max(1) as u64);
    let use_of_it = match (users, edges.rates_known) {
        (1, true) => format!("{share} to itself"),
        (1, false) => "no other GPU uses it".to_string(),
        (more, true) => format!("{share} as one of {more} GPUs that share it"),
        (more, false) => format!("{more} GPUs share it"),
    };
    format!("{} is {distance}; {use_of_it}", node.rails[rail])
}

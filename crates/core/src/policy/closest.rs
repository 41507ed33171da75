//! `closest`: each GPU the rails that give it the most bandwidth, then the nearest, evenly used.
#![forbid(unsafe_code)]

use super::explain::why_this;
use super::solve::{MOST_RAILS, RailSet, solve};
use super::{Ways, parts, placements};
use crate::order::Order;
use crate::placement::{GpuPlacement, NicsEach, NodePlacement, Rail};
use crate::topology::Topology;
use crate::wish::Wish;

pub(super) fn map_gpus(
    topology: &Topology,
    node: &NodePlacement,
    wish: &Wish,
) -> Vec<GpuPlacement> {
    let (ways, rails_of) = steady(topology, node, wish);
    explained(topology, node, &ways, &rails_of, wish)
}

/// The best answer.  If NICs are broken, GPUs whose NICs work keep those that they have when all work, unless the
/// worst-off GPU gets more by a move: a node that lost a NIC still pairs like the others.
pub(super) fn steady(
    topology: &Topology,
    node: &NodePlacement,
    wish: &Wish,
) -> (Ways, Vec<RailSet>) {
    let healthy = in_order(node);
    if node.broken.is_empty() || node.rails.is_empty() || healthy.len() > MOST_RAILS {
        return best(topology, &node.rails, wish);
    }
    let usable: Vec<Option<usize>> = healthy
        .iter()
        .map(|rail| Some(node.rail_at(rail.at())?.0))
        .collect();
    let working = |rails: RailSet| rails.iter().filter_map(|rail| usable[rail]).collect();
    let (_, when_healthy) = best(topology, &healthy, wish);
    let left: Vec<RailSet> = when_healthy.into_iter().map(working).collect();
    let want = |left: &RailSet| match wish.nics_per_task {
        NicsEach::Auto => left.len().max(1),
        NicsEach::Number(number) => usize::from(number).clamp(1, node.rails.len()),
    };
    let wants: Vec<usize> = left.iter().map(want).collect();
    let mut ways = Ways::new(topology, &node.rails, &wish.admin.through, &wants);
    let anew = solve(&ways.problem);
    let (worst, anew) = (anew.worst_mbps(), anew.rails_of);
    let keeps = |(left, want): (RailSet, &usize)| (left.len() == *want).then_some(left);
    ways.problem
        .keep(&left.into_iter().zip(&wants).map(keeps).collect::<Vec<_>>());
    let stay = solve(&ways.problem);
    let rails_of = if worst > stay.worst_mbps() {
        anew
    } else {
        stay.rails_of
    };
    (ways, rails_of)
}

fn best(topology: &Topology, rails: &[Rail], wish: &Wish) -> (Ways, Vec<RailSet>) {
    let NicsEach::Number(number) = wish.nics_per_task else {
        return parts::solved(topology, rails, &wish.admin.through);
    };
    let ways = Ways::new(
        topology,
        rails,
        &wish.admin.through,
        &vec![number.into(); topology.gpus.len()],
    );
    let rails_of = solve(&ways.problem).rails_of;
    (ways, rails_of)
}

/// Usable and broken rails together, in rail order.
pub(super) fn in_order(node: &NodePlacement) -> Vec<Rail> {
    let mut rails: Vec<Rail> = node.rails.iter().chain(&node.broken).cloned().collect();
    rails.order_by_key(Rail::at);
    rails
}

/// An answer with the reasons why each GPU has these rails and no nearer ones.
pub(super) fn explained(
    topology: &Topology,
    node: &NodePlacement,
    ways: &Ways,
    rails_of: &[RailSet],
    wish: &Wish,
) -> Vec<GpuPlacement> {
    let parts = match wish.nics_per_task {
        NicsEach::Auto if !wish.wordless => parts::of_nearest(&ways.problem),
        _ => Vec::new(),
    };
    placements(topology, ways, rails_of, wish, |answer, gpu, choices| {
        why_this(node, ways, answer, gpu, choices, parts.get(gpu.0))
    })
}

#[cfg(test)]
mod tests {
    use crate::placement::NicsEach;
    use crate::policy::map;
    use crate::policy::tests::{Parts, names};
    use crate::topology::PortState;
    use crate::wish::Wish;

    #[test]
    fn a_gpu_whose_nic_works_moves_where_another_one_broke_if_the_worst_off_gains_by_it() {
        let parts = Parts {
            gpus: vec![0, 1, 0, 2],
            nics: [2, 1, 3, 1].map(|switch| (switch, 400)).to_vec(),
        };
        let (whole, mut broken) = (parts.topology(), parts.topology());
        broken.nics[1].ports[0].state = PortState::Down;
        let request = Wish {
            nics_per_task: NicsEach::Number(1),
            ..Wish::default()
        };
        let first = |topology| names(&map(topology, &request)).concat();
        assert_eq!(
            first(&whole),
            ["mlx5_1:1", "mlx5_1:1", "mlx5_3:1", "mlx5_0:1"]
        );
        // the third GPU lost its own, and the second gives way to it
        assert_eq!(
            first(&broken),
            ["mlx5_1:1", "mlx5_2:1", "mlx5_1:1", "mlx5_0:1"]
        );
    }
}

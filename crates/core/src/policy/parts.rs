//! The number of rails of each GPU under `NicsEach::Auto`: an equal share of its nearest rails.
//!
//! NCCL also divides NICs (NVIDIA/nccl, src/graph/topo.cc, `ncclTopoGetLocalNetType`): the NICs
//! local to a GPU have the most bandwidth and, of equals, the shortest path. If n NICs are local to
//! m GPUs, each GPU uses n / m of them. NCCL rounds up, so that GPUs share a NIC. We round down: of
//! nine NICs for eight GPUs each gets one.

use super::Through;
use super::paths::Paths;
use super::solve::{Load, Problem, RailSet, Solved, solve};
use crate::placement::{NicsEach, Rail};
use crate::topology::{PciAddress, Topology};
use std::cmp::Reverse;

pub(super) struct Part {
    pub(super) nearest: RailSet,
    /// number of GPUs, with this one, whose nearest rails overlap `nearest`; 1 for a single rail
    pub(super) sharers: usize,
    /// number of `nearest` divided by `sharers`, from 1 to [`NicsEach::MOST`]
    pub(super) rails: usize,
}

pub(super) fn of_nearest(problem: &Problem) -> Vec<Part> {
    let gpus = 0..problem.gpus();
    let nearest: Vec<RailSet> = gpus.map(|gpu| nearest(problem, gpu)).collect();
    let part = |&own: &RailSet| {
        let shares_them = |others: &&RailSet| !others.and(own).is_empty();
        // a single rail cannot be divided
        let sharers = match own.len() {
            0 | 1 => 1,
            _ => nearest.iter().filter(shares_them).count(),
        };
        Part {
            nearest: own,
            sharers,
            rails: (own.len() / sharers).clamp(1, NicsEach::MOST.into()),
        }
    };
    nearest.iter().map(part).collect()
}

/// The rails with the most bandwidth for the GPU; of these, the nearest.
fn nearest(problem: &Problem, gpu: usize) -> RailSet {
    let key = |rail: usize| {
        let mbps = problem.alone_mbps(gpu, rail);
        (Reverse(mbps), problem.kind(gpu, rail))
    };
    let rails = 0..problem.rails();
    let best = rails.clone().map(key).min();
    rails.filter(|&rail| Some(key(rail)) == best).collect()
}

/// Each GPU's rails under `NicsEach::Auto`: one, then idle ones of its nearest (`add_idle`). The
/// problem is then solved again with these numbers of rails, so that a GPU's rails are neighbours
/// in rail order; the first answer stays if it is better.
pub(super) fn solved(node: &Topology, rails: &[Rail], through: &Through) -> (Paths, Vec<RailSet>) {
    let paths = Paths::one_each(node, rails, through);
    let one_each = solve(&paths.problem).rails_of;
    let parts = of_nearest(&paths.problem);
    let used = RailSet::union(&one_each);
    let may_get_more = |part: &Part| part.rails > 1 && !part.nearest.minus(used).is_empty();
    if !parts.iter().any(may_get_more) {
        return (paths, one_each);
    }
    let wants: Vec<usize> = parts.iter().map(|part| part.rails).collect();
    let several = Paths::new(node, rails, through, &wants);
    let card = |rail: usize| node.nic(rails[rail].nic).address.map(PciAddress::card);
    let is_card = |one, other| card(one).is_some() && card(one) == card(other);
    let with_idle = add_idle(&several.problem, one_each.clone(), &parts, is_card);
    if with_idle == one_each {
        return (paths, one_each);
    }
    let paths = match with_idle.iter().map(|rails| rails.len()).eq(wants) {
        true => several,
        false => Paths::for_answer(node, rails, through, &with_idle),
    };
    let anew = solve(&paths.problem);
    let with_idle = Solved::new(&paths.problem, with_idle);
    let rails_of = match anew.score() <= with_idle.score() {
        true => anew.rails_of,
        false => with_idle.rails_of,
    };
    (paths, rails_of)
}

/// In each round, each GPU gets one idle rail of its nearest if the shares, sorted ascending, then
/// compare greater. A rail behind a full link raises no share. If no share changes, a GPU with two
/// or more rails still gets a rail on the card of one: the planes of a card belong together.
fn add_idle(
    problem: &Problem,
    mut rails_of: Vec<RailSet>,
    parts: &[Part],
    is_card: impl Fn(usize, usize) -> bool,
) -> Vec<RailSet> {
    let ascending = |load: &Load, rails_of: &[RailSet]| {
        let mut shares = load.totals(rails_of);
        shares.sort_unstable();
        shares
    };
    let mut load = Load::of(problem, &rails_of);
    let mut best = ascending(&load, &rails_of);
    let mut idle = RailSet::first(problem.rails()).minus(RailSet::union(&rails_of));
    let rounds = parts.iter().map(|part| part.rails).max().unwrap_or(0);
    for round in 1..rounds {
        for (gpu, part) in parts.iter().enumerate() {
            let own = rails_of[gpu];
            if part.rails <= round || own.len() != round {
                continue;
            }
            for rail in idle.and(part.nearest).iter() {
                load.put(gpu, rail);
                rails_of[gpu] = own.with(rail);
                let with_it = ascending(&load, &rails_of);
                let completes = round > 1 && own.iter().any(|other| is_card(other, rail));
                if with_it > best || with_it == best && completes {
                    (best, idle) = (with_it, idle.without(rail));
                    break;
                }
                load.lift(gpu, rail);
                rails_of[gpu] = own;
            }
        }
    }
    rails_of
}

#[cfg(test)]
mod tests {
    use super::{Part, Problem, RailSet, add_idle};
    use crate::placement::{NicsEach, NodePlacement, Policy};
    use crate::policy::tests::{function, machine, model, names, parts, rails, says, wish};
    use crate::policy::{map, map_of, pairs};
    use crate::topology::{GpuIndex, PortState, Topology};
    use crate::wish::Wish;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    fn oci(down: &[&str]) -> Topology {
        model("oci-bm-gpu-h100-8", down)
    }

    fn dealt(topology: &Topology, policy: Policy, nics_each: NicsEach) -> NodePlacement {
        map(topology, &wish(policy, nics_each))
    }

    fn in_parts(topology: &Topology) -> NodePlacement {
        dealt(topology, Policy::Closest, NicsEach::Auto)
    }

    #[test]
    fn idle_rails_are_given_in_rail_order() {
        let mut problem = Problem::new(&[100; 3], &[1]);
        let link = problem.add_link(1000);
        for kind in [1, 0, 0] {
            problem.add_path(100, kind, [&[link], &[]], None);
        }
        let part = Part {
            nearest: RailSet::first(3),
            sharers: 1,
            rails: 3,
        };
        let one = vec![[1].into_iter().collect()];
        let with_idle = add_idle(&problem, one, &[part], |_, _| false);
        assert_eq!(with_idle, [RailSet::first(3)]);
    }

    #[test]
    fn a_gpu_with_two_ports_of_its_own_gets_both_and_by_a_number_the_first() {
        for policy in [Policy::Closest, Policy::Rail] {
            for (each, ports) in [(NicsEach::Auto, 2), (NicsEach::Number(1), 1)] {
                let own = |gpu: usize| (2 * gpu..2 * gpu + ports).collect::<Vec<_>>();
                let expected: Vec<_> = (0..8).map(own).collect();
                let found = rails(&dealt(&oci(&[]), policy, each));
                assert_eq!(found, expected, "{policy:?} {each:?}");
            }
        }
        let reason = &in_parts(&oci(&[])).gpus[0].reason;
        let both = "mlx5_0:1 and mlx5_1:1 are both its nearest NICs (PXB), ";
        says(reason, [both, "", "; 400 Gb/s together"]);
    }

    #[test]
    fn a_part_is_what_the_nearest_nics_give_each_of_those_who_share_them() {
        // the number of NICs that each GPU of a machine of two sockets with two switches each gets,
        // by the switches of GPUs and NICs
        let cases: [(&[u8], &[u8], &[usize]); 7] = [
            (&[0, 1], &[0, 1], &[1, 1]),
            // no NIC is dealt twice
            (&[0, 0], &[0, 0, 0], &[1, 1]),
            // its own link carries no more than two of them
            (&[0], &[0, 0, 0], &[2]),
            (&[0, 1, 2, 3], &[0, 1, 2, 3, 3], &[1, 1, 1, 2]),
            // a GPU without a NIC of its own shares another's
            (&[0, 1, 2], &[0, 0, 0, 2], &[1, 1, 1]),
            // the poor ones of the other switch need it
            (&[1, 0, 2, 2, 1], &[0, 1, 0, 2], &[1; 5]),
            // the connection of the sockets carries no more
            (&[0], &[2, 3], &[1]),
        ];
        for (gpus, nics, expected) in cases {
            let with_rates: Vec<(u8, u64)> = nics.iter().map(|&switch| (switch, 400)).collect();
            let rails = rails(&in_parts(&machine(gpus, &with_rates)));
            let counts: Vec<usize> = rails.iter().map(Vec::len).collect();
            assert_eq!(counts, expected, "{gpus:?} {nics:?}");
        }
    }

    #[test]
    fn a_gpu_gets_all_planes_of_its_card_though_the_cards_link_carries_fewer() {
        // four planes of 200 Gb/s are one card: behind a Gen5 link of 504 Gb/s, and behind a Gen6
        // link of twice that
        for tenths_gt in [320, 640] {
            let mut topology = machine(&[0], &[(0, 200); 4]);
            let first = topology.nics[0].address.unwrap();
            for number in [3, 2, 1, 0] {
                let mut address = first;
                address.function = number;
                function(&mut topology, first, |plane| {
                    plane.address = address;
                    plane.link.current.as_mut().unwrap().tenths_gt = tenths_gt;
                    plane.link.max = plane.link.current;
                });
                topology.nics[usize::from(number)].address = Some(address);
            }
            topology.sort();
            assert_eq!(rails(&in_parts(&topology)), [[0, 1, 2, 3]], "{tenths_gt}");
        }
    }

    #[test]
    fn nics_of_which_one_is_not_among_the_nearest_are_no_part_of_these() {
        // the GPU's own link carries no more than the first two, and the third is the other of the
        // two that give most
        let nics = [(3, 400), (3, 200), (3, 400), (0, 200), (0, 200), (0, 200)];
        let node = in_parts(&machine(&[3], &nics));
        assert_eq!(rails(&node), [[3, 4]]);
        says(&node.gpus[0].reason, ["", "are 2 of 3 NICs up to PIX", ""]);
    }

    #[test]
    fn nine_nics_for_eight_gpus_are_one_for_each() {
        let mut topology = model("dgx-h100", &[]);
        // all of them on one switch
        let gpus: Vec<_> = topology.gpus.iter().map(|gpu| gpu.address).collect();
        let bridge = topology.pci.get(gpus[0]).unwrap().parent;
        let nics = topology.nics.iter().filter_map(|nic| nic.address);
        for address in nics.chain(gpus).collect::<Vec<_>>() {
            function(&mut topology, address, |function| function.parent = bridge);
        }
        let node = in_parts(&topology);
        assert!(node.rails.len() >= 8 && rails(&node).iter().all(|rails| rails.len() == 1));
    }

    #[test]
    fn a_port_that_is_down_costs_its_gpu_that_port_and_nobody_anything_else() {
        let node = in_parts(&oci(&["mlx5_4"]));
        let (mut whole, degraded) = (names(&in_parts(&oci(&[]))), names(&node));
        whole[1] = vec!["mlx5_3:1".to_string()];
        assert_eq!(degraded, whole);
        says(&node.gpus[0].reason, ["", "NCCL uses both", ""]);
    }

    #[test]
    fn a_number_that_somebody_asked_for_is_no_part() {
        for down in [&[][..], &["mlx5_4"]] {
            let node = dealt(&oci(down), Policy::Closest, NicsEach::Number(2));
            says(&node.gpus[7].reason, ["", "only 2 NICs up to PXB", ""]);
        }
    }

    #[test]
    fn the_rails_of_a_gpu_are_its_group_of_them() {
        let node = dealt(&oci(&["mlx5_4"]), Policy::Rail, NicsEach::Auto);
        assert_eq!(names(&node)[1], ["mlx5_3:1"]);
        let (gpu, broken) = (&node.gpus[1], "rail 3 (mlx5_4:1) is broken");
        let reason = format!("rail 2 (mlx5_3:1) is GPU 1's; {broken}");
        assert_eq!(gpu.reason, reason);
        assert_eq!(gpu.shortfall, Some(format!("GPU 1: {broken}")));
        // the numbers do not shift
        assert_eq!(names(&node)[2], ["mlx5_5:1", "mlx5_6:1"]);
        let node = dealt(&oci(&["mlx5_3", "mlx5_4"]), Policy::Rail, NicsEach::Auto);
        assert_eq!(names(&node)[1].len(), 1);
        let reason = format!("rail 2 (mlx5_3:1) and {broken}; in its place ");
        says(&node.gpus[1].reason, [&reason, "", ""]);
    }

    #[test]
    fn a_job_alone_on_the_node_gets_idle_nics_beside_its_parts() {
        let alone = [GpuIndex(0), GpuIndex(4)];
        let spread = wish(Policy::Spread, NicsEach::Auto);
        let rails = rails(&map_of(&oci(&[]), &spread, Some(&alone), &[]));
        assert_eq!((rails[0].len(), rails[4].len()), (8, 8));
        assert_eq!(rails[0][..2], [0, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        // the GPUs' shares, the worst-off first, are never less than with one NIC each: a second
        // NIC takes nothing from a GPU with less
        #[test]
        fn nobody_loses_by_the_parts_of_others(parts in parts()) {
            let topology = parts.topology();
            let get = |nics_each| -> Vec<u64> {
                let node = dealt(&topology, Policy::Closest, nics_each);
                let share = |gpu: usize| node.gpus[gpu].choices.iter().filter_map(|choice| choice.share_mbps).sum();
                let mut shares: Vec<u64> = (0..node.gpus.len()).map(share).collect();
                shares.sort_unstable();
                shares
            };
            prop_assert!(get(NicsEach::Auto) >= get(NicsEach::Number(1)));
        }

        #[test]
        fn nics_that_are_called_a_part_of_the_nearest_are_as_near_as_any(
            parts in parts(), failing in any::<prop::sample::Index>(), fails in any::<bool>(),
        ) {
            let mut topology = parts.topology();
            let failing = failing.index(topology.nics.len());
            topology.nics[failing].ports[0].state = if fails { PortState::Down } else { PortState::Active };
            let node = in_parts(&topology);
            let is_part = |gpu: &GpuIndex| node.gpu(*gpu).reason.contains("nearest NICs (");
            for gpu in topology.gpu_indices().filter(is_part) {
                let pairs = pairs::pairs(&topology, &node, &Wish::default(), gpu);
                let key = |pair: &pairs::Pair| (Reverse(pair.alone_mbps), pair.path);
                let best = pairs.iter().map(key).min();
                for pair in pairs.iter().filter(|pair| pair.chosen) {
                    prop_assert_eq!(Some(key(pair)), best);
                }
            }
        }
    }
}

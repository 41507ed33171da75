//! The number of rails of each GPU under `NicsEach::Auto`: an even part of its nearest rails.
//!
//! NCCL also divides NICs (NVIDIA/nccl, src/graph/topo.cc, `ncclTopoGetLocalNetType`): a GPU's
//! local NICs have the most bandwidth and, of equals, the shortest path. The GPU uses their number
//! divided by the number of GPUs local to them. NCCL rounds up, so that GPUs share a NIC. We round
//! down: of nine NICs for eight GPUs each gets one.

use super::Through;
use super::solve::{Load, Problem, RailSet, Solved, solve};
use super::ways::Ways;
use crate::placement::{NicsEach, Rail};
use crate::topology::{PciAddress, Topology};
use std::cmp::Reverse;

pub(super) struct Part {
    pub(super) nearest: RailSet,
    /// number of GPUs, this one included, whose nearest rails overlap `nearest`
    pub(super) sharers: usize,
    /// number of rails in its even part, at least one
    pub(super) rails: usize,
}

pub(super) fn of_nearest(problem: &Problem) -> Vec<Part> {
    let gpus = 0..problem.gpus();
    let nearest: Vec<RailSet> = gpus.map(|gpu| nearest(problem, gpu)).collect();
    let part = |&own: &RailSet| {
        let shares_them = |others: &&RailSet| !others.and(own).is_empty();
        // a single rail has no parts
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

/// The GPU's rails of most bandwidth, of equals the nearest.
fn nearest(problem: &Problem, gpu: usize) -> RailSet {
    let key = |rail: usize| {
        let mbps = problem.alone_mbps(gpu, rail);
        (Reverse(mbps), problem.kind(gpu, rail))
    };
    let rails = 0..problem.rails();
    let best = rails.clone().map(key).min();
    rails.filter(|&rail| Some(key(rail)) == best).collect()
}

/// The answer under `NicsEach::Auto`. Every GPU gets one rail, then idle rails of its part, as long
/// as no GPU with less bandwidth loses. The problem is then solved again with these numbers of
/// rails, so that a GPU's rails are neighbours.
pub(super) fn solved(node: &Topology, rails: &[Rail], through: &Through) -> (Ways, Vec<RailSet>) {
    let ways = Ways::one_each(node, rails, through);
    let one_each = solve(&ways.problem).rails_of;
    let parts = of_nearest(&ways.problem);
    let used = RailSet::union(&one_each);
    let may_get_more = |part: &Part| part.rails > 1 && !part.nearest.minus(used).is_empty();
    if !parts.iter().any(may_get_more) {
        return (ways, one_each);
    }
    let wants: Vec<usize> = parts.iter().map(|part| part.rails).collect();
    let several = Ways::new(node, rails, through, &wants);
    let card = |rail: usize| node.nic(rails[rail].nic).address.map(PciAddress::card);
    let is_card = |one, other| card(one).is_some() && card(one) == card(other);
    let with_idle = add_idle(&several.problem, one_each.clone(), &parts, is_card);
    if with_idle == one_each {
        return (ways, one_each);
    }
    let ways = match with_idle.iter().map(|rails| rails.len()).eq(wants) {
        true => several,
        false => Ways::for_answer(node, rails, through, &with_idle),
    };
    let anew = solve(&ways.problem);
    let with_idle = Solved::new(&ways.problem, with_idle);
    let rails_of = match anew.score() <= with_idle.score() {
        true => anew.rails_of,
        false => with_idle.rails_of,
    };
    (ways, rails_of)
}

/// Gives GPUs in turn one idle rail of their part, if that raises the least share, or keeps it and
/// raises the next. A rail behind a full link raises none. A GPU with several rails of a card also
/// gets the card's other rails if no share falls: the planes of a card belong together.
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
    use crate::policy::tests::{Parts, names, parts};
    use crate::policy::{map, map_of, pairs};
    use crate::topology::{GpuIndex, PciAddress, PciFunction, PortState, Topology};
    use crate::wish::Wish;
    use nic_placement_node::platform;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    fn oci(down: &[&str]) -> Topology {
        let mut topology = platform::model("oci-bm-gpu-h100-8").unwrap();
        for nic in topology
            .nics
            .iter_mut()
            .filter(|nic| down.contains(&nic.name.as_str()))
        {
            nic.ports[0].state = PortState::Down;
        }
        topology
    }

    fn dealt(topology: &Topology, policy: Policy, nics_each: NicsEach) -> NodePlacement {
        map(
            topology,
            &Wish {
                policy,
                nics_per_task: nics_each,
                ..Wish::default()
            },
        )
    }

    /// The numbers of each GPU's rails.
    fn rails(node: &NodePlacement) -> Vec<Vec<usize>> {
        let of_gpu = |gpu: usize| {
            node.gpus[gpu]
                .choices
                .iter()
                .map(|choice| choice.rail.0)
                .collect()
        };
        (0..node.gpus.len()).map(of_gpu).collect()
    }

    /// The number of NICs that each GPU of a machine of two sockets with two switches each gets, by the
    /// switches of GPUs and NICs.
    fn counts(gpus: &[u8], nics: &[u8]) -> Vec<usize> {
        let nics = nics.iter().map(|&switch| (switch, 400)).collect();
        let topology = Parts {
            gpus: gpus.to_vec(),
            nics,
        }
        .topology();
        rails(&dealt(&topology, Policy::Closest, NicsEach::Auto))
            .iter()
            .map(Vec::len)
            .collect()
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

    fn pairs() -> Vec<Vec<usize>> {
        (0..8).map(|gpu| vec![2 * gpu, 2 * gpu + 1]).collect()
    }

    #[test]
    fn a_gpu_with_two_ports_of_its_own_gets_both() {
        let node = dealt(&oci(&[]), Policy::Closest, NicsEach::Auto);
        assert_eq!(rails(&node), pairs());
        let reason = "mlx5_0:1 and mlx5_1:1 are both its nearest NICs (PXB), and NCCL uses both; 400 Gb/s together";
        assert_eq!(node.gpus[0].reason, reason);
        let one = dealt(&oci(&[]), Policy::Closest, NicsEach::Number(1));
        assert_eq!(
            rails(&one),
            (0..8).map(|gpu| vec![2 * gpu]).collect::<Vec<_>>(),
            "a number stays a number"
        );
    }

    #[test]
    fn a_part_is_what_the_nearest_nics_give_each_of_those_who_share_them() {
        assert_eq!(counts(&[0, 1], &[0, 1]), [1, 1]);
        assert_eq!(counts(&[0, 0], &[0, 0, 0]), [1, 1], "no NIC is dealt twice");
        assert_eq!(
            counts(&[0], &[0, 0, 0]),
            [2],
            "its own link carries no more than two of them"
        );
        assert_eq!(counts(&[0, 1, 2, 3], &[0, 1, 2, 3, 3]), [1, 1, 1, 2]);
        assert_eq!(
            counts(&[0, 1, 2], &[0, 0, 0, 2]),
            [1, 1, 1],
            "a GPU without a NIC of its own shares another's"
        );
        assert_eq!(
            counts(&[1, 0, 2, 2, 1], &[0, 1, 0, 2]),
            [1; 5],
            "the poor ones of the other switch need it"
        );
        assert_eq!(
            counts(&[0], &[2, 3]),
            [1],
            "the connection of the sockets carries no more"
        );
    }

    #[test]
    fn a_gpu_gets_all_planes_of_its_card_though_the_cards_link_carries_fewer() {
        // four planes of 200 Gb/s are one card: behind a Gen5 link of 504 Gb/s, and behind a Gen6
        // link of twice that
        for tenths_gt in [320, 640] {
            let mut topology = Parts {
                gpus: vec![0],
                nics: vec![(0, 200); 4],
            }
            .topology();
            let first = topology.nics[0].address.unwrap();
            let mut function = topology.pci.get(first).unwrap().clone();
            function.link.current.as_mut().unwrap().tenths_gt = tenths_gt;
            function.link.max = function.link.current;
            for (number, nic) in (0..).zip(&mut topology.nics) {
                let address = PciAddress {
                    function: number,
                    ..first
                };
                topology.pci.insert(PciFunction {
                    address,
                    ..function.clone()
                });
                nic.address = Some(address);
            }
            topology.sort();
            let node = dealt(&topology, Policy::Closest, NicsEach::Auto);
            assert_eq!(rails(&node), [[0, 1, 2, 3]], "{tenths_gt}");
        }
    }

    #[test]
    fn a_part_that_nccl_would_round_up_is_not_called_nccls() {
        let topology = Parts {
            gpus: vec![0, 0],
            nics: vec![(0, 200); 5],
        }
        .topology();
        let node = dealt(&topology, Policy::Closest, NicsEach::Auto);
        assert_eq!(
            rails(&node).iter().map(Vec::len).collect::<Vec<_>>(),
            [2, 2]
        );
        let reason = &node.gpus[0].reason;
        assert!(
            reason.contains("2 of its 5 nearest NICs") && !reason.contains("NCCL"),
            "{reason}"
        );
    }

    #[test]
    fn a_part_that_divides_the_nearest_nics_without_rest_is_called_nccls() {
        let topology = Parts {
            gpus: vec![0, 0],
            nics: vec![(0, 200); 4],
        }
        .topology();
        let reason = &dealt(&topology, Policy::Closest, NicsEach::Auto).gpus[0].reason;
        assert!(
            reason.contains("2 of its 4 nearest NICs (PIX), as NCCL uses them"),
            "{reason}"
        );
    }

    #[test]
    fn nics_of_which_one_is_not_among_the_nearest_are_no_part_of_these() {
        // the GPU's own link carries no more than the first two, and the third is the other of the
        // two that give most
        let nics = vec![(3, 400), (3, 200), (3, 400), (0, 200), (0, 200), (0, 200)];
        let node = dealt(
            &Parts {
                gpus: vec![3],
                nics,
            }
            .topology(),
            Policy::Closest,
            NicsEach::Auto,
        );
        assert_eq!(rails(&node), [[3, 4]]);
        let reason = "mlx5_0:1 and mlx5_1:1 are 2 of 3 NICs up to PIX, the nearest there are; 504.1 Gb/s together";
        assert_eq!(node.gpus[0].reason, reason);
    }

    #[test]
    fn nine_nics_for_eight_gpus_are_one_for_each() {
        let mut topology = platform::model("dgx-h100").unwrap();
        // all of them on one switch
        let gpus: Vec<_> = topology.gpus.iter().map(|gpu| gpu.address).collect();
        let bridge = topology.pci.get(gpus[0]).unwrap().parent;
        let nics = topology.nics.iter().filter_map(|nic| nic.address);
        for address in nics.chain(gpus).collect::<Vec<_>>() {
            let function = topology.pci.get(address).cloned().unwrap();
            topology.pci.insert(crate::topology::PciFunction {
                parent: bridge,
                ..function
            });
        }
        let node = dealt(&topology, Policy::Closest, NicsEach::Auto);
        assert!(node.rails.len() >= 8 && rails(&node).iter().all(|rails| rails.len() == 1));
    }

    #[test]
    fn a_port_that_is_down_costs_its_gpu_that_port_and_nobody_anything_else() {
        let node = dealt(&oci(&["mlx5_4"]), Policy::Closest, NicsEach::Auto);
        let whole = names(&dealt(&oci(&[]), Policy::Closest, NicsEach::Auto));
        let degraded = names(&node);
        assert_eq!(degraded[1], ["mlx5_3:1"]);
        let others = |names: &[Vec<String>]| [&names[..1], &names[2..]].concat();
        assert_eq!(others(&degraded), others(&whole));
        assert!(
            node.gpus[0].reason.contains("NCCL uses both"),
            "{}",
            node.gpus[0].reason
        );
    }

    #[test]
    fn a_number_that_somebody_asked_for_is_no_part() {
        for down in [&[][..], &["mlx5_4"]] {
            let node = dealt(&oci(down), Policy::Closest, NicsEach::Number(2));
            let reason = &node.gpus[7].reason;
            assert!(reason.contains("the only 2 NICs up to PXB"), "{reason}");
        }
    }

    #[test]
    fn the_rails_of_a_gpu_are_its_group_of_them() {
        assert_eq!(
            rails(&dealt(&oci(&[]), Policy::Rail, NicsEach::Auto)),
            pairs()
        );
        let one = rails(&dealt(&oci(&[]), Policy::Rail, NicsEach::Number(1)));
        assert_eq!(
            one,
            (0..8).map(|gpu| vec![2 * gpu]).collect::<Vec<_>>(),
            "the first of the group"
        );
        let node = dealt(&oci(&["mlx5_4"]), Policy::Rail, NicsEach::Auto);
        assert_eq!(names(&node)[1], ["mlx5_3:1"]);
        assert_eq!(
            node.gpus[1].reason,
            "rail 2 (mlx5_3:1) is GPU 1's; rail 3 (mlx5_4:1) is broken"
        );
        assert_eq!(
            node.gpus[1].shortfall.as_deref(),
            Some("GPU 1: rail 3 (mlx5_4:1) is broken")
        );
        assert_eq!(
            names(&node)[2],
            ["mlx5_5:1", "mlx5_6:1"],
            "the numbers do not shift"
        );
        let node = dealt(&oci(&["mlx5_3", "mlx5_4"]), Policy::Rail, NicsEach::Auto);
        assert_eq!(names(&node)[1].len(), 1);
        let reason = "rail 2 (mlx5_3:1) and rail 3 (mlx5_4:1) is broken; in its place ";
        assert!(
            node.gpus[1].reason.starts_with(reason),
            "{}",
            node.gpus[1].reason
        );
    }

    #[test]
    fn a_job_alone_on_the_node_gets_idle_nics_beside_its_parts() {
        let topology = oci(&[]);
        let alone = [GpuIndex(0), GpuIndex(4)];
        let request = Wish {
            policy: Policy::Spread,
            ..Wish::default()
        };
        let node = map_of(&topology, &request, Some(&alone), &[]);
        assert_eq!((rails(&node)[0].len(), rails(&node)[4].len()), (8, 8));
        assert_eq!(rails(&node)[0][..2], [0, 1]);
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
            let node = dealt(&topology, Policy::Closest, NicsEach::Auto);
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

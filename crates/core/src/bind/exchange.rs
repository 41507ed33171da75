//! Tasks that Slurm put far from their GPUs change places: each takes the mask of another that is nearer.
//!
//! Only tasks with equal shares change, and whole masks, so every task keeps its share, however Slurm counts, and cores stay
//! as Slurm cut them.  A task never gets farther away.
#![forbid(unsafe_code)]

use super::crew::Crew;
use crate::topology::{CpuSet, NodeSet, Topology};

/// The mean distance of CPUs from the nearest of some NUMA nodes, in hundredths (ACPI SLIT: 10 is local).
///
/// Where the kernel knows no distances, another node counts as 20, its own default (include/linux/topology.h,
/// `REMOTE_DISTANCE`).
pub(super) fn distance(topology: &Topology, cpus: &CpuSet, home: &NodeSet) -> u64 {
    let between =
        |own: u32, node: u32| topology.distance(own, node).unwrap_or(if own == node { 10 } else { 20 });
    let of_node = |node: u32| home.iter().map(|own| between(own, node)).min().unwrap_or(0);
    let nodes = topology.numa_nodes.iter().filter(|node| node.cpus.intersects(cpus));
    let sum: u64 =
        nodes.map(|node| node.cpus.intersection(cpus).len() as u64 * u64::from(of_node(node.os_index))).sum();
    100 * sum / cpus.len().max(1) as u64
}

/// `[task]`: whose mask it takes; its own where that is as near.  `[task]` of `shares` tells which tasks may change.
pub(super) fn exchanged<S: PartialEq>(topology: &Topology, crew: &Crew, shares: &[S]) -> Vec<usize> {
    let far = |id: &usize| {
        let home = crew.homes.get(*id).and_then(Option::as_ref);
        home.is_some_and(|home| !crew.mask(*id).is_subset(&topology.cpus_of(home)))
    };
    let mut takes: Vec<usize> = (0..crew.len()).collect();
    // of one mask for all there is nothing to change
    let mut left: Vec<usize> = match crew.shares_one_mask() {
        true => Vec::new(),
        false => (0..crew.len()).filter(far).collect(),
    };
    while let Some(&first) = left.first() {
        let (alike, rest): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|&&id| shares[id] == shares[first]);
        left = rest;
        let away = |task: usize, mask: usize| {
            let home = crew.homes.get(alike[task]).and_then(Option::as_ref);
            home.map_or(0, |home| distance(topology, crew.mask(alike[mask]), home))
        };
        let own: Vec<u64> = (0..alike.len()).map(|task| away(task, task)).collect();
        let cost = |task: usize, mask: usize| {
            let there = away(task, mask);
            let stays_by_memory = || crew.may_run(topology, crew.mask(alike[task]), crew.mask(alike[mask]));
            let may = task == mask || (there <= own[task] && stays_by_memory());
            // of ways that are as near, the one in which fewest change
            may.then(|| 2 * alike.len() as u64 * there + u64::from(task != mask))
        };
        for (task, mask) in assigned(alike.len(), cost).into_iter().enumerate() {
            takes[alike[task]] = alike[mask];
        }
    }
    takes
}

/// The assignment of `count` places to as many takers that costs least; `None` is a place that a taker may not have.  Each may
/// have the place of its own number.
///
/// The Hungarian method, by shortest paths from one taker after another (Kuhn 1955; Jonker and Volgenant 1987).
fn assigned(count: usize, cost: impl Fn(usize, usize) -> Option<u64>) -> Vec<usize> {
    const NEVER: i64 = i64::MAX / 4;
    let cost: Vec<Vec<i64>> = (0..count)
        .map(|taker| {
            (0..count).map(|place| cost(taker, place).map_or(NEVER / 1024, |cost| cost as i64)).collect()
        })
        .collect();
    // places and takers count from 1; 0 is none
    let mut of_taker = vec![0i64; count + 1];
    let mut of_place = vec![0i64; count + 1];
    let mut taken_by = vec![0usize; count + 1];
    for taker in 1..=count {
        let (mut least, mut from, mut done) =
            (vec![NEVER; count + 1], vec![0usize; count + 1], vec![false; count + 1]);
        taken_by[0] = taker;
        let mut at = 0;
        while taken_by[at] != 0 {
            done[at] = true;
            let (now, mut delta, mut next) = (taken_by[at], NEVER, 0);
            for place in (1..=count).filter(|place| !done[*place]) {
                let reduced = cost[now - 1][place - 1] - of_taker[now] - of_place[place];
                if reduced < least[place] {
                    (least[place], from[place]) = (reduced, at);
                }
                if least[place] < delta {
                    (delta, next) = (least[place], place);
                }
            }
            for place in 0..=count {
                if done[place] {
                    of_taker[taken_by[place]] += delta;
                    of_place[place] -= delta;
                } else {
                    least[place] -= delta;
                }
            }
            at = next;
        }
        while at != 0 {
            let before = from[at];
            taken_by[at] = taken_by[before];
            at = before;
        }
    }
    let mut place_of = vec![0; count];
    (1..=count).for_each(|place| place_of[taken_by[place] - 1] = place - 1);
    place_of
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The least cost of all ways, found by trying them.
    fn least(costs: &[Vec<Option<u64>>], taker: usize, free: &mut Vec<bool>) -> Option<u64> {
        if taker == costs.len() {
            return Some(0);
        }
        let mut best: Option<u64> = None;
        for place in 0..costs.len() {
            let (true, Some(cost)) = (free[place], costs[taker][place]) else { continue };
            free[place] = false;
            if let Some(rest) = least(costs, taker + 1, free) {
                best = Some(best.map_or(cost + rest, |best| best.min(cost + rest)));
            }
            free[place] = true;
        }
        best
    }

    proptest! {
        #[test]
        fn no_assignment_costs_less(costs in (1usize..6).prop_flat_map(|count| {
            prop::collection::vec(prop::collection::vec(prop::option::of(0u64..9), count), count)
        })) {
            let mut costs = costs;
            (0..costs.len()).for_each(|own| costs[own][own] = costs[own][own].or(Some(9)));
            let found = assigned(costs.len(), |taker, place| costs[taker][place]);
            let cost: Option<u64> = found.iter().enumerate().map(|(taker, &place)| costs[taker][place]).sum();
            prop_assert_eq!(cost, least(&costs, 0, &mut vec![true; costs.len()]));
        }
    }

    #[test]
    fn of_ways_that_cost_the_same_the_first_in_order_is_taken() {
        assert_eq!(assigned(3, |_, _| Some(1)), [0, 1, 2]);
        assert_eq!(assigned(0, |_, _| Some(1)), Vec::<usize>::new());
    }
}

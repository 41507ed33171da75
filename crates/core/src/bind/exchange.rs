//! Tasks far from their GPUs exchange masks, so that some come nearer and none gets farther away.
//!
//! Only tasks with equal shares exchange, and only whole masks: every task keeps its shares of CPUs
//! and of cores, and no core is split.

use super::tasks::StepTasks;
use crate::topology::NodeSet;

/// `[task]`: the task whose mask it takes; its own id without an exchange.
pub(super) fn exchanged(tasks: &StepTasks, shares: &[[u64; 2]]) -> Vec<usize> {
    let mut takes: Vec<usize> = (0..tasks.len()).collect();
    if tasks.share_one_mask() {
        return takes;
    }
    let is_far =
        |(id, nodes): &(usize, &NodeSet)| !tasks.mask(*id).is_subset(&tasks.node.cpus_of(nodes));
    let mut left: Vec<(usize, &NodeSet)> = tasks.with_known_gpus().filter(is_far).collect();
    while let Some(&(first, _)) = left.first() {
        let alike: Vec<(usize, &NodeSet)>;
        (alike, left) = left
            .into_iter()
            .partition(|(id, _)| shares[*id] == shares[first]);
        let mask = |place: usize| tasks.mask(alike[place].0);
        let away = |task: usize, place: usize| tasks.distance(mask(place), alike[task].1);
        let own: Vec<u64> = (0..alike.len()).map(|task| away(task, task)).collect();
        let cost = |task: usize, place: usize| {
            let there = away(task, place);
            let may =
                task == place || (there <= own[task] && tasks.may_run(mask(task), mask(place)));
            // of equally near assignments, the one with the fewest exchanges is cheapest
            may.then(|| 2 * alike.len() as u64 * there + u64::from(task != place))
        };
        for (task, place) in assigned(alike.len(), cost).into_iter().enumerate() {
            takes[alike[task].0] = alike[place].0;
        }
    }
    takes
}

/// `[taker]`: its place in the cheapest assignment of `count` places to `count` takers. A `cost` of
/// `None` forbids a place; `cost(k, k)` is never `None`.
///
/// The Hungarian method, by shortest paths from one taker after another (Kuhn 1955; Jonker and
/// Volgenant 1987).
fn assigned(count: usize, cost: impl Fn(usize, usize) -> Option<u64>) -> Vec<usize> {
    const NEVER: i64 = i64::MAX / 4;
    let price = |taker, place| cost(taker, place).map_or(NEVER / 1024, |cost| cost as i64);
    let costs: Vec<Vec<i64>> = (0..count)
        .map(|taker| (0..count).map(|place| price(taker, place)).collect())
        .collect();
    // places and takers count from 1; 0 is none
    let mut of_taker = vec![0i64; count + 1];
    let mut of_place = vec![0i64; count + 1];
    let mut taken_by = vec![0usize; count + 1];
    for taker in 1..=count {
        let mut least = vec![NEVER; count + 1];
        let mut from = vec![0usize; count + 1];
        let mut done = vec![false; count + 1];
        taken_by[0] = taker;
        let mut at = 0;
        while taken_by[at] != 0 {
            done[at] = true;
            let (now, mut delta, mut next) = (taken_by[at], NEVER, 0);
            for place in (1..=count).filter(|place| !done[*place]) {
                let reduced = costs[now - 1][place - 1] - of_taker[now] - of_place[place];
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
            taken_by[at] = taken_by[from[at]];
            at = from[at];
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
            let (true, Some(cost)) = (free[place], costs[taker][place]) else {
                continue;
            };
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

//! All ways to deal a few GPUs to rails, one each, by sets: exact where nothing but the rails themselves is shared.
#![forbid(unsafe_code)]

use super::{PARTS, Problem, Score, Solution, path_digit};

/// GPUs, at most: the work grows with 3 to their number, 0.5 ms at 8 and 5 ms at 10.
pub(super) const MOST_GPUS: usize = 10;
/// a digit of an order for each GPU, for 64 rails
const DIGIT: usize = 6;

/// The best answer as if only rails were shared.  It is also the best of all if no other place takes anything from it:
/// each answer is then worth at most what it is worth here.  `None` where that is not so.
pub(super) fn solve(problem: &Problem) -> Option<Solution> {
    if problem.gpus() > MOST_GPUS || problem.wanted() != 1 {
        return None;
    }
    let (rail_of, score) = deal(problem)?;
    let rails_of: Vec<Vec<usize>> = rail_of.into_iter().map(|rail| vec![rail]).collect();
    (problem.score(&rails_of) == score).then_some(Solution { rails_of, exact: true })
}

/// What remains to be compared between answers that are equal in the worst share; ordered so that less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    sum: i64,
    path: u64,
    users: u64,
    /// the rails in order of GPUs, the first GPU's in the highest digit
    order: u128,
}

impl Cost {
    const NOTHING: Cost = Cost { sum: 0, path: 0, users: 0, order: 0 };

    fn plus(self, other: Cost) -> Cost {
        Cost {
            sum: self.sum + other.sum,
            path: self.path + other.path,
            users: self.users + other.users,
            order: self.order + other.order,
        }
    }
}

/// Every set of GPUs on every rail: first the best worst share, then the best of all answers that reach it.
fn deal(problem: &Problem) -> Option<(Vec<usize>, Score)> {
    let gpus = problem.gpus();
    let full = (1usize << gpus) - 1;
    let sets: Vec<Vec<Together>> = (0..problem.rails).map(|rail| together(problem, rail)).collect();

    let mut worst: Vec<Option<u64>> = vec![None; full + 1];
    worst[0] = Some(u64::MAX);
    for sets in &sets {
        for served in (0..=full).rev() {
            let Some(before) = worst[served] else { continue };
            for_each_subset(full & !served, |set| {
                let after = &mut worst[served | set];
                *after = (*after).max(Some(before.min(sets[set].share)));
            });
        }
    }
    let required = worst[full]?;

    let mut costs: Vec<Option<Cost>> = vec![None; full + 1];
    costs[0] = Some(Cost::NOTHING);
    for sets in &sets {
        for served in (0..=full).rev() {
            let Some(before) = costs[served] else { continue };
            for_each_subset(full & !served, |set| {
                if sets[set].share < required {
                    return;
                }
                let candidate = before.plus(sets[set].cost);
                let after = &mut costs[served | set];
                if after.is_none_or(|known| candidate < known) {
                    *after = Some(candidate);
                }
            });
        }
    }
    let cost = costs[full]?;
    let rail_of = (0..gpus).map(|gpu| (cost.order >> ((gpus - 1 - gpu) * DIGIT) & 63) as usize).collect();
    Some((rail_of, Score { worst: u64::MAX - required, sum: cost.sum, path: cost.path, users: cost.users }))
}

/// A set of GPUs on one rail.
#[derive(Debug, Clone, Copy)]
struct Together {
    /// the worst share
    share: u64,
    cost: Cost,
}

/// Every set of GPUs on this rail, indexed by the set.
fn together(problem: &Problem, rail: usize) -> Vec<Together> {
    let gpus = problem.gpus();
    // shares[users][gpu]
    let shares: Vec<Vec<u64>> = (0..=gpus as u64)
        .map(|users| (0..gpus).map(|gpu| share(problem, gpu, rail, users.max(1))).collect())
        .collect();
    let mut sets = vec![Together { share: u64::MAX, cost: Cost::NOTHING }; 1 << gpus];
    for (set, known) in sets.iter_mut().enumerate().skip(1) {
        let users = set.count_ones() as usize;
        let mut members = set;
        let mut all = Together { share: u64::MAX, cost: Cost::NOTHING };
        while members != 0 {
            let gpu = members.trailing_zeros() as usize;
            members &= members - 1;
            all.share = all.share.min(shares[users][gpu]);
            all.cost.sum -= shares[users][gpu] as i64;
            all.cost.path += path_digit(problem.edges[gpu][rail].kind);
            all.cost.order += (rail as u128) << ((gpus - 1 - gpu) * DIGIT);
        }
        all.cost.users = (users * users) as u64;
        *known = all;
    }
    sets
}

/// One of `users` GPUs on the rail, the rest of the way to itself.
fn share(problem: &Problem, gpu: usize, rail: usize, users: u64) -> u64 {
    let edge = &problem.edges[gpu][rail];
    let shares = edge.crosses.iter().map(|&place| {
        let users = if place == rail { users } else { 1 };
        problem.capacities[place] * PARTS / users
    });
    shares.min().unwrap_or(0) * edge.through / 1000
}

fn for_each_subset(of: usize, mut visit: impl FnMut(usize)) {
    let mut set = of;
    while set != 0 {
        visit(set);
        set = (set - 1) & of;
    }
}

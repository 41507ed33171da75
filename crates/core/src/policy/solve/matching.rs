//! Every GPU rails of its own, each a best one for it: nothing can beat that, since each share is at its upper bound.
#![forbid(unsafe_code)]

use super::{Problem, Solution, path_digit};

/// Seekers up to which the nearest of all perfect matchings is searched; 2 to their number times rails.
const GROUP: usize = 12;

/// Each GPU asks as often as it gets rails; those who compete for the same best rails form groups that do not touch, so
/// each group is solved alone.  `None` where some GPU cannot have that, or where the ways are shared elsewhere.
pub(super) fn solve(problem: &Problem) -> Option<Solution> {
    let wanted = problem.wanted();
    let best: Vec<u64> = (0..problem.gpus()).map(|gpu| best_rails(problem, gpu)).collect();
    // a GPU whose best rails are too few takes others too, and which is best then depends on the other GPUs
    if best.iter().any(|rails| (rails.count_ones() as usize) < wanted) {
        return None;
    }
    let mut rails_of = vec![Vec::with_capacity(wanted); best.len()];
    let mut exact = true;
    let mut open: Vec<usize> = (0..best.len()).collect();
    while let Some(&first) = open.first() {
        let mut rails = best[first];
        let mut group = Vec::new();
        loop {
            let (joins, rest): (Vec<usize>, Vec<usize>) =
                open.into_iter().partition(|&gpu| best[gpu] & rails != 0);
            open = rest;
            if joins.is_empty() {
                break;
            }
            rails = joins.iter().fold(rails, |rails, &gpu| rails | best[gpu]);
            group.extend(joins);
        }
        group.sort_unstable();
        let seekers: Vec<usize> = group.iter().flat_map(|&gpu| std::iter::repeat_n(gpu, wanted)).collect();
        let found = if seekers.len() > rails.count_ones() as usize {
            None
        } else if seekers.len() <= GROUP {
            nearest(problem, &seekers, &best)
        } else {
            // kinds of path may then be traded between GPUs, so the answer is not proven the nearest
            let kinds = |gpu: usize| problem.edges[gpu].iter().map(|edge| edge.kind);
            exact &= group.iter().all(|&gpu| kinds(gpu).eq(kinds(group[0])));
            any(problem, &seekers, &best)
        };
        for (gpu, rail) in seekers.iter().zip(found?) {
            rails_of[*gpu].push(rail);
        }
    }
    rails_of.iter_mut().for_each(|rails| rails.sort_unstable());
    // links that several ways cross may give less than the rails promise
    let (score, ideal) = (problem.score(&rails_of), problem.ideal());
    if (score.worst, score.sum) != (ideal.worst, ideal.sum) {
        return None;
    }
    // where two fit on one rail without loss, sharing a near one beats having a far one
    (score.path == ideal.path || sharing_costs(problem, &best)).then_some(Solution { rails_of, exact })
}

/// Does every GPU lose on each of its best rails if a second one joins?
fn sharing_costs(problem: &Problem, best: &[u64]) -> bool {
    best.iter().enumerate().all(|(gpu, rails)| {
        (0..problem.rails).filter(|rail| rails >> rail & 1 == 1).all(|rail| {
            problem.capacities[rail] / 2 * problem.edges[gpu][rail].through / 1000 < problem.value(gpu, rail)
        })
    })
}

fn best_rails(problem: &Problem, gpu: usize) -> u64 {
    let values: Vec<u64> = (0..problem.rails).map(|rail| problem.value(gpu, rail)).collect();
    let most = values.iter().max();
    values
        .iter()
        .enumerate()
        .filter(|(_, value)| Some(*value) == most)
        .fold(0, |set, (rail, _)| set | 1 << rail)
}

/// Of all ways to give each seeker a best rail of its own, the nearest, then the first in rail order.
fn nearest(problem: &Problem, seekers: &[usize], best: &[u64]) -> Option<Vec<usize>> {
    /// a digit for each seeker, for 64 rails
    const DIGIT: usize = 6;
    let size = seekers.len();
    let full = (1usize << size) - 1;
    // costs[served]: the cheapest way to serve exactly these seekers with the rails seen so far, and how
    let mut costs: Vec<Option<(u64, u128)>> = vec![None; full + 1];
    costs[0] = Some((0, 0));
    for rail in 0..problem.rails {
        // downwards, so that one rail serves one seeker
        for served in (0..full).rev() {
            let Some((path, order)) = costs[served] else { continue };
            for (position, &gpu) in seekers.iter().enumerate() {
                if served >> position & 1 == 1 || best[gpu] >> rail & 1 == 0 {
                    continue;
                }
                let digit = (rail as u128) << ((size - 1 - position) * DIGIT);
                let candidate = (path + path_digit(problem.edges[gpu][rail].kind), order + digit);
                let after = &mut costs[served | 1 << position];
                if after.is_none_or(|known| candidate < known) {
                    *after = Some(candidate);
                }
            }
        }
    }
    let (_, order) = costs[full]?;
    Some((0..size).map(|position| (order >> ((size - 1 - position) * DIGIT) & 63) as usize).collect())
}

/// Some way to give each seeker a best rail of its own, near and early rails first (augmenting paths).
fn any(problem: &Problem, seekers: &[usize], best: &[u64]) -> Option<Vec<usize>> {
    let mut user_of: Vec<Option<usize>> = vec![None; problem.rails];
    for seeker in 0..seekers.len() {
        let mut tried = 0u64;
        if !augment(problem, seekers, seeker, best, &mut user_of, &mut tried) {
            return None;
        }
    }
    Some(
        (0..seekers.len())
            .map(|seeker| user_of.iter().position(|user| *user == Some(seeker)).unwrap_or(0))
            .collect(),
    )
}

/// Finds a seeker a rail, moving others along if it must; recursion is bounded by the number of rails.
fn augment(
    problem: &Problem,
    seekers: &[usize],
    seeker: usize,
    best: &[u64],
    user_of: &mut [Option<usize>],
    tried: &mut u64,
) -> bool {
    let gpu = seekers[seeker];
    let mut rails: Vec<usize> = (0..problem.rails).filter(|&rail| best[gpu] >> rail & 1 == 1).collect();
    rails.sort_unstable_by_key(|&rail| (problem.edges[gpu][rail].kind, rail));
    // nobody is moved while a free one is left
    let free = rails.iter().copied().find(|&rail| user_of[rail].is_none());
    for rail in free.into_iter().chain(rails) {
        if *tried >> rail & 1 == 1 {
            continue;
        }
        *tried |= 1 << rail;
        let free = match user_of[rail] {
            None => true,
            Some(user) => augment(problem, seekers, user, best, user_of, tried),
        };
        if free {
            user_of[rail] = Some(seeker);
            return true;
        }
    }
    false
}

//! The assignment solver: every GPU one rail, as even and as near as the machine allows.
//!
//! In this order: the worst GPU's share as large as possible; the sum of all shares as large as possible; paths as near as
//! possible; users spread as evenly as possible; rails in order.  A rail that `u` GPUs use gives each of them a `u`-th of
//! what its path lets through.
//!
//! Exact wherever each GPU can have a best rail of its own, and for up to [`EXACT_GPUS`] GPUs otherwise; beyond, the
//! answer is one that no move of a GPU and no exchange between two improves, and says so.
#![forbid(unsafe_code)]

/// GPUs up to which sharing is solved exactly: the work grows with 3 to their number, 0.5 ms at 8 and 5 ms at 10.
pub const EXACT_GPUS: usize = 10;
/// Shares are compared in this part of a Mbit/s, a multiple of 1 to 16, so that they divide without remainder.
const PARTS: u64 = 720_720;

/// What the solver is asked.
#[derive(Debug, Clone, Copy)]
pub struct Problem<'a> {
    /// `[gpu][rail]`: what the path lets through when nobody shares the rail
    pub values: &'a [Vec<u64>],
    /// `[gpu][rail]`: kind of path, 0 the nearest, below 5
    pub kinds: &'a [Vec<u8>],
    /// number of rails, at most 32
    pub rails: usize,
}

/// What the solver answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// the rail of each GPU
    pub rail_of: Vec<usize>,
    /// is it proven that there is no better?
    pub exact: bool,
}

/// Solves; no rail gives an empty answer.
pub fn solve(problem: Problem) -> Solution {
    if problem.rails == 0 || problem.values.is_empty() {
        return Solution { rail_of: Vec::new(), exact: true };
    }
    if let Some(solution) = each_its_own(problem) {
        return solution;
    }
    if problem.values.len() <= EXACT_GPUS {
        return Solution { rail_of: shared(problem), exact: true };
    }
    Solution { rail_of: improved(problem), exact: false }
}

/// What remains to be compared between answers that are equal in the worst share; ordered so that less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    /// the sum of shares, negated
    sum: i64,
    /// how many paths of each kind, the farthest in the highest digit
    path: u64,
    /// sum of the squares of the rails' users
    users: u32,
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

/// A digit for each kind of path; 256 GPUs fit one digit.
fn path_digit(kind: u8) -> u64 {
    1 << (u32::from(kind) * 9)
}

/// A digit for each GPU of a group, 5 bits for 32 rails.
fn order_digit(position: usize, group: usize, rail: usize) -> u128 {
    (rail as u128) << ((group - 1 - position) * 5)
}

/// Where every GPU can have a rail of its own that is a best one for it, nothing can beat that: each share is at its upper
/// bound.  GPUs that compete for the same best rails form groups that do not touch, so each is solved alone.
fn each_its_own(problem: Problem) -> Option<Solution> {
    /// Group size up to which the nearest of all perfect matchings is searched; 2 to its number times rails.
    const GROUP: usize = 12;
    let best: Vec<u32> = problem
        .values
        .iter()
        .map(|row| {
            let most = row.iter().max();
            row.iter()
                .enumerate()
                .filter(|(_, value)| Some(*value) == most)
                .fold(0, |set, (rail, _)| set | 1 << rail)
        })
        .collect();
    let mut solution = Solution { rail_of: vec![0; best.len()], exact: true };
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
        group.sort();
        let found = if group.len() > rails.count_ones() as usize {
            None
        } else if group.len() <= GROUP {
            nearest_matching(problem, &group, &best)
        } else {
            // kinds of path may then be traded between GPUs, so the answer is not proven the nearest
            solution.exact &= group.iter().all(|&gpu| problem.kinds[gpu] == problem.kinds[group[0]]);
            first_matching(problem, &group, &best)
        };
        for (gpu, rail) in group.iter().zip(found?) {
            solution.rail_of[*gpu] = rail;
        }
    }
    Some(solution)
}

/// Of all ways to give each GPU of the group a best rail of its own, the nearest, then the first in rail order.
fn nearest_matching(problem: Problem, group: &[usize], best: &[u32]) -> Option<Vec<usize>> {
    let size = group.len();
    let full = (1usize << size) - 1;
    // costs[served]: the cheapest way to serve exactly these GPUs with the rails seen so far, and how
    let mut costs: Vec<Option<(u64, u128)>> = vec![None; full + 1];
    costs[0] = Some((0, 0));
    for rail in 0..problem.rails {
        // downwards, so that one rail serves one GPU
        for served in (0..full).rev() {
            let Some((path, order)) = costs[served] else { continue };
            for (position, &gpu) in group.iter().enumerate() {
                if served >> position & 1 == 1 || best[gpu] >> rail & 1 == 0 {
                    continue;
                }
                let candidate =
                    (path + path_digit(problem.kinds[gpu][rail]), order + order_digit(position, size, rail));
                let after = &mut costs[served | 1 << position];
                if after.is_none_or(|known| candidate < known) {
                    *after = Some(candidate);
                }
            }
        }
    }
    let (_, order) = costs[full]?;
    Some((0..size).map(|position| (order >> ((size - 1 - position) * 5) & 31) as usize).collect())
}

/// Some way to give each GPU of the group a best rail of its own, near and early rails first (augmenting paths).
fn first_matching(problem: Problem, group: &[usize], best: &[u32]) -> Option<Vec<usize>> {
    let mut user_of: Vec<Option<usize>> = vec![None; problem.rails];
    for &gpu in group {
        let mut tried = 0u32;
        if !augment(problem, gpu, best, &mut user_of, &mut tried) {
            return None;
        }
    }
    Some(group.iter().map(|gpu| user_of.iter().position(|user| user == &Some(*gpu)).unwrap_or(0)).collect())
}

/// Finds `gpu` a rail, moving others along if it must; recursion is bounded by the number of rails.
fn augment(
    problem: Problem,
    gpu: usize,
    best: &[u32],
    user_of: &mut [Option<usize>],
    tried: &mut u32,
) -> bool {
    let mut rails: Vec<usize> = (0..problem.rails).filter(|&rail| best[gpu] >> rail & 1 == 1).collect();
    rails.sort_by_key(|&rail| (problem.kinds[gpu][rail], rail));
    for rail in rails {
        if *tried >> rail & 1 == 1 {
            continue;
        }
        *tried |= 1 << rail;
        let free = match user_of[rail] {
            None => true,
            Some(user) => augment(problem, user, best, user_of, tried),
        };
        if free {
            user_of[rail] = Some(gpu);
            return true;
        }
    }
    false
}

/// Every set of GPUs on every rail: first the best worst share, then the best of all answers that reach it.
fn shared(problem: Problem) -> Vec<usize> {
    let gpus = problem.values.len();
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
    let Some(required) = worst[full] else { return vec![0; gpus] };

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
    let order = costs[full].map_or(0, |cost| cost.order);
    (0..gpus).map(|gpu| (order >> ((gpus - 1 - gpu) * 5) & 31) as usize).collect()
}

/// A set of GPUs on one rail.
#[derive(Debug, Clone, Copy)]
struct Together {
    /// the worst share
    share: u64,
    cost: Cost,
}

/// Every set of GPUs on this rail, indexed by the set.
fn together(problem: Problem, rail: usize) -> Vec<Together> {
    let gpus = problem.values.len();
    // the least and the summed value come first, and are divided when the number of users is known
    let mut sets = vec![Together { share: u64::MAX, cost: Cost::NOTHING }; 1 << gpus];
    for set in 1..sets.len() {
        let gpu = set.trailing_zeros() as usize;
        let rest = sets[set & (set - 1)];
        let value = problem.values[gpu][rail];
        sets[set] = Together {
            share: rest.share.min(value),
            cost: rest.cost.plus(Cost {
                sum: -(value as i64),
                path: path_digit(problem.kinds[gpu][rail]),
                users: 0,
                order: order_digit(gpu, gpus, rail),
            }),
        };
    }
    for (set, together) in sets.iter_mut().enumerate().skip(1) {
        let users = set.count_ones();
        together.share = together.share * PARTS / u64::from(users);
        together.cost.sum = together.cost.sum * PARTS as i64 / i64::from(users);
        together.cost.users = users * users;
    }
    sets
}

fn for_each_subset(of: usize, mut visit: impl FnMut(usize)) {
    let mut set = of;
    while set != 0 {
        visit(set);
        set = (set - 1) & of;
    }
}

/// Starts with each GPU on the rail that gives it most at that moment, then moves and exchanges while that improves.
fn improved(problem: Problem) -> Vec<usize> {
    /// Rounds, at most; each is bounded by GPUs x (GPUs + rails).
    const ROUNDS: usize = 16;
    let gpus = problem.values.len();
    let mut users = vec![0u64; problem.rails];
    let mut rail_of = Vec::with_capacity(gpus);
    for gpu in 0..gpus {
        let key = |rail: &usize| {
            let share = problem.values[gpu][*rail] * PARTS / (users[*rail] + 1);
            (u64::MAX - share, problem.kinds[gpu][*rail], *rail)
        };
        let rail = (0..problem.rails).min_by_key(key).unwrap_or(0);
        users[rail] += 1;
        rail_of.push(rail);
    }
    // above this many GPUs a round is no longer a matter of microseconds
    if gpus > 64 {
        return rail_of;
    }
    let mut known = evaluate(problem, &rail_of);
    for _ in 0..ROUNDS {
        let before = known;
        for gpu in 0..gpus {
            for rail in 0..problem.rails {
                let old = std::mem::replace(&mut rail_of[gpu], rail);
                let candidate = evaluate(problem, &rail_of);
                if candidate < known {
                    known = candidate;
                } else {
                    rail_of[gpu] = old;
                }
            }
            for other in 0..gpu {
                rail_of.swap(gpu, other);
                let candidate = evaluate(problem, &rail_of);
                if candidate < known {
                    known = candidate;
                } else {
                    rail_of.swap(gpu, other);
                }
            }
        }
        if known == before {
            break;
        }
    }
    rail_of
}

/// How good an answer is; less is better.  The order of rails is left out: it cannot be held for many GPUs.
fn evaluate(problem: Problem, rail_of: &[usize]) -> (u64, i64, u64, u64) {
    let mut users = vec![0u64; problem.rails];
    rail_of.iter().for_each(|&rail| users[rail] += 1);
    let (mut worst, mut sum, mut path) = (u64::MAX, 0, 0);
    for (gpu, &rail) in rail_of.iter().enumerate() {
        let share = problem.values[gpu][rail] * PARTS / users[rail];
        worst = worst.min(share);
        sum += share as i64;
        path += path_digit(problem.kinds[gpu][rail]);
    }
    (u64::MAX - worst, -sum, path, users.iter().map(|users| users * users).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(values: &[Vec<u64>], kinds: &[Vec<u8>]) -> Vec<usize> {
        solve(Problem { values, kinds, rails: values[0].len() }).rail_of
    }

    /// All that is compared, rail order included.
    fn score(
        values: &[Vec<u64>],
        kinds: &[Vec<u8>],
        rail_of: &[usize],
    ) -> ((u64, i64, u64, u64), Vec<usize>) {
        (evaluate(Problem { values, kinds, rails: values[0].len() }, rail_of), rail_of.to_vec())
    }

    fn exhaustive(values: &[Vec<u64>], kinds: &[Vec<u8>]) -> Vec<usize> {
        let (gpus, rails) = (values.len(), values[0].len());
        let all = (0..rails.pow(gpus as u32)).map(|mut code| {
            let mut answer: Vec<usize> = (0..gpus).map(|_| (code % rails, code /= rails).0).collect();
            answer.reverse();
            answer
        });
        all.min_by_key(|answer| score(values, kinds, answer)).unwrap()
    }

    #[test]
    fn equal_rails_are_dealt_in_order() {
        let values = vec![vec![100; 4]; 4];
        assert_eq!(run(&values, &vec![vec![0; 4]; 4]), [0, 1, 2, 3]);
        assert_eq!(run(&vec![vec![100; 2]; 4], &vec![vec![0; 2]; 4]), [0, 0, 1, 1]);
    }

    #[test]
    fn a_gpu_whose_switch_has_no_rail_takes_the_idle_far_one_if_sharing_gives_less() {
        let near_or_far = vec![vec![400, 180], vec![400, 180]];
        assert_eq!(run(&near_or_far, &vec![vec![0, 4]; 2]), [0, 0], "half of 400 is more than 180");
        let near_or_far = vec![vec![400, 280], vec![400, 280]];
        assert_eq!(run(&near_or_far, &vec![vec![0, 3]; 2]), [0, 1], "280 is more than half of 400");
    }

    #[test]
    fn sixty_four_gpus_share_eight_rails_evenly() {
        let values: Vec<Vec<u64>> =
            (0..64).map(|gpu| (0..8).map(|rail| if gpu / 8 == rail { 400 } else { 180 }).collect()).collect();
        let kinds: Vec<Vec<u8>> =
            (0..64).map(|gpu| (0..8).map(|rail| if gpu / 8 == rail { 0 } else { 4 }).collect()).collect();
        let expected: Vec<usize> = (0..64).map(|gpu| gpu / 8).collect();
        assert_eq!(run(&values, &kinds), expected);
    }

    /// Machines of up to 5 x 5 from few different figures, so that ties are common.
    fn machines() -> impl Strategy<Value = (Vec<Vec<u64>>, Vec<Vec<u8>>)> {
        let edge = prop_oneof![
            Just((400u64, 0u8)),
            Just((400, 1)),
            Just((340, 2)),
            Just((280, 3)),
            Just((180, 4)),
            Just((90, 4))
        ];
        (1usize..=5, 1usize..=5).prop_flat_map(move |(gpus, rails)| {
            prop::collection::vec(prop::collection::vec(edge.clone(), rails), gpus).prop_map(|rows| {
                let values = rows.iter().map(|row| row.iter().map(|edge| edge.0).collect()).collect();
                let kinds = rows.iter().map(|row| row.iter().map(|edge| edge.1).collect()).collect();
                (values, kinds)
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn the_answer_is_the_one_that_exhaustive_search_finds((values, kinds) in machines()) {
            let found = run(&values, &kinds);
            let best = exhaustive(&values, &kinds);
            prop_assert_eq!(score(&values, &kinds, &found), score(&values, &kinds, &best));
        }

        #[test]
        fn the_improver_alone_is_never_worse_than_its_start_and_never_beats_the_optimum((values, kinds) in machines()) {
            let problem = Problem { values: &values, kinds: &kinds, rails: values[0].len() };
            let found = evaluate(problem, &improved(problem));
            prop_assert!(found >= evaluate(problem, &exhaustive(&values, &kinds)));
        }
    }
}

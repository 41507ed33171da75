//! The solver against exhaustive search, on generated machines.
#![forbid(unsafe_code)]

use super::*;
use proptest::prelude::*;

/// A machine without shared links: what each rail carries, what each GPU's own link to each rail carries, and how much of
/// it the path lets through.
fn machine(rails: &[u64], paths: &[Vec<u8>], links: &[u64]) -> Problem {
    const THROUGH: [u64; 5] = [1000, 1000, 850, 700, 450];
    let mut capacities = rails.to_vec();
    capacities.extend(links);
    let edges = paths.iter().enumerate().map(|(gpu, kinds)| {
        let edge = |(rail, &kind): (usize, &u8)| Edge {
            through: THROUGH[usize::from(kind)],
            kind,
            crosses: vec![rail, rails.len() + gpu],
        };
        kinds.iter().enumerate().map(edge).collect()
    });
    Problem { edges: edges.collect(), capacities, rails: rails.len(), each: 1 }
}

fn alike(gpus: usize, rails: usize) -> Problem {
    machine(&vec![400_000; rails], &vec![vec![0; rails]; gpus], &vec![504_000; gpus])
}

fn rail_of(problem: &Problem) -> Vec<usize> {
    let solution = solve(problem);
    assert!(solution.exact);
    solution.rails_of.into_iter().map(|rails| rails[0]).collect()
}

/// The best answer of all, the first in rail order where several are: every answer is looked at, but for those whose
/// beginning is already worse than the best known answer's worst share, which later GPUs can only lessen.
fn exhaustive(problem: &Problem) -> (Score, Vec<Vec<usize>>) {
    fn descend(
        problem: &Problem,
        sets: &[Vec<usize>],
        begun: &mut Vec<Vec<usize>>,
        best: &mut Option<(Score, Vec<Vec<usize>>)>,
    ) {
        let score = problem.score(begun);
        if best.as_ref().is_some_and(|(known, _)| !begun.is_empty() && known.worst < score.worst) {
            return;
        }
        if begun.len() == problem.gpus() {
            if best.as_ref().is_none_or(|(known, _)| score < *known) {
                *best = Some((score, begun.clone()));
            }
            return;
        }
        for set in sets {
            begun.push(set.clone());
            descend(problem, sets, begun, best);
            begun.pop();
        }
    }
    let mut sets = vec![Vec::new()];
    for _ in 0..problem.wanted() {
        sets = sets
            .iter()
            .flat_map(|set: &Vec<usize>| {
                let first = set.last().map_or(0, |last| last + 1);
                (first..problem.rails).map(|rail| set.iter().copied().chain([rail]).collect::<Vec<usize>>())
            })
            .collect();
    }
    let mut best = None;
    descend(problem, &sets, &mut Vec::new(), &mut best);
    best.unwrap()
}

#[test]
fn equal_rails_are_dealt_in_order() {
    assert_eq!(rail_of(&alike(4, 4)), [0, 1, 2, 3]);
    assert_eq!(rail_of(&alike(4, 2)), [0, 0, 1, 1]);
    assert_eq!(solve(&Problem { each: 2, ..alike(3, 6) }).rails_of, [[0, 1], [2, 3], [4, 5]]);
}

#[test]
fn a_gpu_whose_switch_has_no_rail_takes_the_idle_far_one_if_sharing_gives_less() {
    let far = |kind| machine(&[400_000; 2], &[vec![0, kind], vec![0, kind]], &[504_000; 2]);
    assert_eq!(rail_of(&far(4)), [0, 0], "half of 400 is more than 0.45 of it");
    assert_eq!(rail_of(&far(3)), [0, 1], "0.7 of 400 is more than half of it");
}

#[test]
fn a_narrow_link_makes_sharing_free_and_a_near_rail_is_shared_then() {
    let narrow = machine(&[400_000; 2], &[vec![0, 1], vec![0, 1]], &[126_000; 2]);
    assert_eq!(rail_of(&narrow), [0, 0]);
}

#[test]
fn a_fast_rail_serves_more_gpus_than_a_slow_one() {
    let unequal = machine(&[400_000, 100_000], &vec![vec![0, 0]; 5], &[504_000; 5]);
    assert_eq!(rail_of(&unequal), [0, 0, 0, 0, 1]);
}

#[test]
fn gpus_behind_one_uplink_do_not_both_cross_it_where_another_way_is_free() {
    // GPU 0 and 1 reach rail 0 without and rail 1, 2 through an uplink that both share; GPU 2 is free of it
    let mut problem = machine(&[400_000; 3], &[vec![3, 3, 3], vec![3, 3, 3], vec![3, 3, 3]], &[504_000; 3]);
    let uplink = problem.capacities.len();
    problem.capacities.push(252_000);
    for gpu in [0, 1] {
        for rail in [1, 2] {
            problem.edges[gpu][rail].crosses.push(uplink);
        }
    }
    let solution = solve(&problem);
    assert!(solution.exact);
    assert_eq!(solution.rails_of, [[0], [1], [2]]);
    assert_eq!(problem.shares(&solution.rails_of), [[280_000], [176_400], [280_000]]);
}

#[test]
fn sixty_four_parts_of_gpus_share_eight_rails_evenly_and_that_is_proven() {
    let paths: Vec<Vec<u8>> =
        (0..64).map(|gpu| (0..8).map(|rail| if gpu / 8 == rail { 0 } else { 4 }).collect()).collect();
    let problem = machine(&[400_000; 8], &paths, &[504_000; 64]);
    let expected: Vec<usize> = (0..64).map(|gpu| gpu / 8).collect();
    assert_eq!(rail_of(&problem), expected);
}

#[test]
fn sixteen_gpus_on_eight_rails_are_proven() {
    let paths: Vec<Vec<u8>> =
        (0..16).map(|gpu| (0..8).map(|rail| if gpu / 2 == rail { 0 } else { 3 }).collect()).collect();
    let expected: Vec<usize> = (0..16).map(|gpu| gpu / 2).collect();
    assert_eq!(rail_of(&machine(&[200_000; 8], &paths, &[504_000; 16])), expected);
}

#[test]
fn as_many_gpus_and_rails_as_a_node_can_have_are_dealt() {
    assert_eq!(rail_of(&alike(64, 64)), (0..64).collect::<Vec<usize>>());
    assert_eq!(solve(&alike(256, 64)).rails_of.len(), 256);
}

#[test]
fn those_who_keep_their_rails_keep_them_and_the_others_make_the_best_of_it() {
    let problem = alike(4, 3);
    let kept = vec![Some(vec![2]), None, Some(vec![0]), None];
    assert_eq!(solve_around(&problem, &kept).rails_of, [[2], [0], [0], [1]]);
}

/// Machines from few different figures, so that ties are common; `shared` adds uplinks that several ways cross.
fn machines(
    gpus: std::ops::RangeInclusive<usize>,
    rails: std::ops::RangeInclusive<usize>,
    shared: usize,
    each: usize,
) -> impl Strategy<Value = Problem> {
    (gpus, rails).prop_flat_map(move |(gpus, rails)| {
        let rate = prop_oneof![4 => Just(400_000u64), 1 => Just(200_000), 1 => Just(100_000)];
        let link = prop_oneof![4 => Just(504_000u64), 1 => Just(252_000), 1 => Just(126_000)];
        let paths = prop::collection::vec(prop::collection::vec(0u8..5, rails), gpus);
        let uplinks =
            prop::collection::vec((prop_oneof![Just(504_000u64), Just(252_000)], any::<u64>()), 0..=shared);
        (prop::collection::vec(rate, rails), paths, prop::collection::vec(link, gpus), uplinks).prop_map(
            move |(rates, paths, links, uplinks)| {
                let mut problem = Problem { each, ..machine(&rates, &paths, &links) };
                for (capacity, mut ways) in uplinks {
                    let place = problem.capacities.len();
                    problem.capacities.push(capacity);
                    for edge in problem.edges.iter_mut().flatten() {
                        if ways & 3 == 0 {
                            edge.crosses.push(place);
                        }
                        ways = ways.rotate_right(1);
                    }
                }
                problem
            },
        )
    })
}

fn assert_is_the_best(problem: &Problem) {
    let solution = solve(problem);
    assert!(solution.exact, "not proven: {problem:?}");
    let (score, answer) = exhaustive(problem);
    assert_eq!(problem.score(&solution.rails_of), score, "{:?} against {answer:?}", solution.rails_of);
    assert_eq!(solution.rails_of, answer, "of equal answers the first in rail order");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_answer_is_the_one_that_exhaustive_search_finds(problem in machines(1..=5, 1..=5, 0, 1)) {
        assert_is_the_best(&problem);
    }

    #[test]
    fn with_shared_links_too(problem in machines(1..=5, 1..=4, 3, 1)) {
        assert_is_the_best(&problem);
    }

    #[test]
    fn with_several_rails_for_each_gpu_too(problem in machines(1..=4, 1..=5, 1, 2)) {
        assert_is_the_best(&problem);
    }

    #[test]
    fn gpus_in_another_order_get_as_much(problem in machines(1..=6, 1..=6, 2, 1), seed in any::<u64>()) {
        let mut order: Vec<usize> = (0..problem.gpus()).collect();
        order.sort_by_key(|&gpu| (gpu as u64 + 1).wrapping_mul(seed | 1));
        let other = Problem { edges: order.iter().map(|&gpu| problem.edges[gpu].clone()).collect(), ..problem.clone() };
        let (one, two) = (solve(&problem), solve(&other));
        prop_assert_eq!(problem.score(&one.rails_of), other.score(&two.rails_of));
    }

    #[test]
    fn a_rail_that_nobody_uses_can_go_without_moving_anybody(problem in machines(1..=5, 2..=6, 1, 1)) {
        let before = solve(&problem);
        let used: Vec<usize> = before.rails_of.iter().map(|rails| rails[0]).collect();
        prop_assume!((0..problem.rails).any(|rail| !used.contains(&rail)));
        let gone = (0..problem.rails).find(|rail| !used.contains(rail)).unwrap();
        let mut without = problem.clone();
        without.rails -= 1;
        without.capacities.remove(gone);
        for edges in &mut without.edges {
            edges.remove(gone);
            for place in edges.iter_mut().flat_map(|edge| &mut edge.crosses) {
                *place -= usize::from(*place > gone);
            }
        }
        let expected: Vec<usize> = used.iter().map(|&rail| rail - usize::from(rail > gone)).collect();
        prop_assert_eq!(rail_of(&without), expected);
    }

    #[test]
    fn a_farther_rail_changes_nothing_for_gpus_that_have_a_near_one_each(gpus in 1usize..=8, far in 2u8..5) {
        let near = |gpu: usize, rail: usize| if gpu == rail { 0 } else { 3 };
        let paths = |rails: usize| -> Vec<Vec<u8>> {
            (0..gpus).map(|gpu| (0..rails).map(|rail| if rail == gpus { far } else { near(gpu, rail) }).collect()).collect()
        };
        let links = vec![504_000; gpus];
        let before = rail_of(&machine(&vec![400_000; gpus], &paths(gpus), &links));
        let after = rail_of(&machine(&vec![400_000; gpus + 1], &paths(gpus + 1), &links));
        prop_assert_eq!(before, after);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn eight_gpus_on_eight_rails_are_solved_as_by_exhaustive_search(problem in machines(7..=8, 6..=8, 2, 1)) {
        assert_is_the_best(&problem);
    }
}

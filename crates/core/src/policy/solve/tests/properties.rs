//! The solver against exhaustive search, on generated machines.
#![forbid(unsafe_code)]

use super::*;
use proptest::prelude::*;

/// Machines from few different figures, so that ties are common; `shared` adds uplinks that several ways cross.
fn machines(
    gpus: std::ops::RangeInclusive<usize>,
    rails: std::ops::RangeInclusive<usize>,
    shared: usize,
    each: usize,
) -> impl Strategy<Value = Machine> {
    (gpus, rails).prop_flat_map(move |(gpus, rails)| {
        let rate = prop_oneof![4 => Just(400_000u64), 1 => Just(200_000), 1 => Just(100_000)];
        let link = prop_oneof![4 => Just(504_000u64), 1 => Just(252_000), 1 => Just(126_000)];
        let kinds = prop::collection::vec(prop::collection::vec(0u8..5, rails), gpus);
        let uplinks =
            prop::collection::vec((prop_oneof![Just(504_000u64), Just(252_000)], any::<u64>()), 0..=shared);
        (prop::collection::vec(rate, rails), kinds, prop::collection::vec(link, gpus), uplinks).prop_map(
            move |(rates, kinds, links, uplinks)| {
                let mut machine = Machine::new(&rates, &kinds, &links).wanting(each);
                for (capacity, bits) in uplinks {
                    let ways = (0..gpus * rails).filter(|way| bits.rotate_right(*way as u32) & 3 == 0);
                    let ways: Vec<(usize, usize)> = ways.map(|way| (way / rails, way % rails)).collect();
                    machine = machine.shared(capacity, &ways);
                }
                machine
            },
        )
    })
}

fn assert_is_the_best(machine: &Machine) {
    let problem = machine.problem();
    let solution = solve(&problem, &mut plenty());
    assert!(solution.exact, "not proven: {machine:?}");
    let (score, answer) = exhaustive(&problem);
    assert_eq!(Score::of(&problem, &solution.rails_of), score, "{:?} against {answer:?}", solution.rails_of);
    assert_eq!(solution.rails_of, answer, "of equal answers the first in rail order");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_answer_is_the_one_that_exhaustive_search_finds(machine in machines(1..=5, 1..=5, 0, 1)) {
        assert_is_the_best(&machine);
    }

    #[test]
    fn with_shared_links_too(machine in machines(1..=5, 1..=4, 3, 1)) {
        assert_is_the_best(&machine);
    }

    #[test]
    fn with_several_rails_for_each_gpu_too(machine in machines(1..=4, 1..=5, 1, 2)) {
        assert_is_the_best(&machine);
    }

    #[test]
    fn with_another_number_of_rails_for_each_gpu_too(
        machine in machines(1..=4, 1..=4, 1, 1), wants in prop::collection::vec(1usize..4, 4),
    ) {
        let wants = wants[..machine.wants.len()].to_vec();
        assert_is_the_best(&Machine { wants, ..machine });
    }

    #[test]
    fn the_shares_of_an_answer_overload_no_place(machine in machines(1..=6, 1..=6, 3, 2), seed in any::<u64>()) {
        let problem = machine.problem();
        let choices = sets(problem.rails(), problem.wants(0));
        let rails_of: Vec<Vec<usize>> = (0..problem.gpus())
            .map(|gpu| choices[(seed.rotate_right(8 * gpu as u32) % 251) as usize % choices.len()].clone())
            .collect();
        let load = load::Load::of(&problem, &rails_of);
        let mut carried = vec![0; machine.rates.len() + machine.places.len()];
        for (gpu, rails) in rails_of.iter().enumerate() {
            for &rail in rails {
                let share = load.share(gpu, rail);
                let (kind, places) = &machine.ways[gpu][rail];
                prop_assert!(share <= machine.rates[rail] * problem::PARTS * THROUGH[usize::from(*kind)] / 1000);
                carried[rail] += share;
                places.iter().for_each(|place| carried[machine.rates.len() + place] += share);
            }
        }
        let capacities = machine.rates.iter().chain(&machine.places);
        for (carried, capacity) in carried.into_iter().zip(capacities) {
            prop_assert!(carried <= capacity * problem::PARTS);
        }
    }

    #[test]
    fn a_budget_that_ends_leaves_an_answer_no_worse_than_the_nearest_rail_with_the_fewest_users(
        machine in machines(1..=9, 1..=9, 3, 1), each in 1usize..3, looks in 0u64..3000,
    ) {
        let problem = machine.wanting(each).problem();
        let solution = solve(&problem, &mut Budget::new(looks));
        let near = start::nearest(&problem);
        prop_assert!(Score::of(&problem, &solution.rails_of) <= Score::of(&problem, &near));
        if solution.exact {
            let best = solve(&problem, &mut plenty());
            prop_assert_eq!(Score::of(&problem, &solution.rails_of), Score::of(&problem, &best.rails_of));
        }
    }

    #[test]
    fn what_a_move_loses_is_what_the_scores_say(
        machine in machines(1..=6, 2..=6, 3, 2), gpu in any::<prop::sample::Index>(), rail in any::<prop::sample::Index>(),
    ) {
        let problem = machine.problem();
        let rails_of = start::nearest(&problem);
        let gpu = gpu.index(problem.gpus());
        let others: Vec<usize> = (0..problem.rails()).filter(|rail| !rails_of[gpu].contains(rail)).collect();
        prop_assume!(!others.is_empty());
        let rail = others[rail.index(others.len())];
        let here = Score::of(&problem, &rails_of);
        let moved = |slot: usize| {
            let mut other = rails_of.clone();
            other[gpu][slot] = rail;
            Score::of(&problem, &other)
        };
        let there = (0..rails_of[gpu].len()).map(moved).min().unwrap();
        let loss = Answer::new(&problem, rails_of).loss(gpu, rail).unwrap();
        match loss {
            Loss::Less { there: less, here: more, .. } => {
                prop_assert!(less < more && there.shares < here.shares);
                let differing = there.shares.iter().zip(&here.shares).find(|(a, b)| a != b).unwrap();
                prop_assert!(less <= *differing.0 && more > *differing.0);
            }
            Loss::Path => prop_assert!(there.shares == here.shares && there.path > here.path),
            Loss::Users => prop_assert!(there.path == here.path && there.users > here.users),
            Loss::Order => prop_assert!(there == here),
            Loss::Gain => prop_assert!(there < here),
        }
    }

    #[test]
    fn no_bound_rules_out_the_beginning_of_the_best_answer(
        machine in machines(1..=5, 1..=4, 3, 1), each in 1usize..3, seed in any::<u64>(),
    ) {
        let problem = machine.wanting(each).problem();
        let (score, answer) = exhaustive(&problem);
        let mut order: Vec<usize> = (0..problem.gpus()).collect();
        order.sort_by_key(|&gpu| (gpu as u64 + 1).wrapping_mul(seed | 1));
        let mut load = load::Load::new(&problem);
        let mut rails_of = vec![Vec::new(); problem.gpus()];
        let nearest = bound::nearest(&problem);
        for gpu in order {
            answer[gpu].iter().for_each(|&rail| load.put(gpu, rail));
            rails_of[gpu].clone_from(&answer[gpu]);
            let ways = (0..problem.gpus()).flat_map(|gpu| (0..problem.rails()).map(move |rail| (gpu, rail)));
            let most: Vec<u64> =
                ways.map(|(gpu, rail)| problem.most(gpu, rail).min(load.joining(gpu, rail))).collect();
            let (problem, load, rails_of) = (&problem, &load, &rails_of);
            let begun = bound::Begun { problem, load, rails_of, most: &most, nearest: &nearest };
            prop_assert_ne!(begun.compare(&score), std::cmp::Ordering::Greater);
            prop_assert!(begun.most_for_the_worst() >= score.worst_mbps());
        }
    }

    #[test]
    fn gpus_in_another_order_get_as_much(machine in machines(1..=6, 1..=6, 2, 1), seed in any::<u64>()) {
        let mut order: Vec<usize> = (0..machine.wants.len()).collect();
        order.sort_by_key(|&gpu| (gpu as u64 + 1).wrapping_mul(seed | 1));
        let other = Machine { ways: order.iter().map(|&gpu| machine.ways[gpu].clone()).collect(), ..machine.clone() };
        let score = |machine: &Machine| Score::of(&machine.problem(), &solved(machine));
        prop_assert_eq!(score(&machine), score(&other));
    }

    #[test]
    fn a_rail_that_nobody_uses_can_go_without_moving_anybody(machine in machines(1..=4, 5..=6, 1, 1)) {
        let used = rail_of(&machine);
        let gone = (0..machine.rates.len()).find(|rail| !used.contains(rail)).unwrap();
        let mut without = machine.clone();
        without.rates.remove(gone);
        without.ways.iter_mut().for_each(|ways| drop(ways.remove(gone)));
        let expected: Vec<usize> = used.iter().map(|&rail| rail - usize::from(rail > gone)).collect();
        prop_assert_eq!(rail_of(&without), expected);
    }

    #[test]
    fn a_farther_rail_changes_nothing_for_gpus_that_have_a_near_one_each(gpus in 1usize..=8, far in 2u8..5) {
        let near = |gpu: usize, rail: usize| if gpu == rail { 0 } else { 3 };
        let kinds = |rails: usize| -> Vec<Vec<u8>> {
            (0..gpus).map(|gpu| (0..rails).map(|rail| if rail == gpus { far } else { near(gpu, rail) }).collect()).collect()
        };
        let links = vec![504_000; gpus];
        let before = rail_of(&Machine::new(&vec![400_000; gpus], &kinds(gpus), &links));
        let after = rail_of(&Machine::new(&vec![400_000; gpus + 1], &kinds(gpus + 1), &links));
        prop_assert_eq!(before, after);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn eight_gpus_on_eight_rails_are_solved_as_by_exhaustive_search(machine in machines(7..=8, 6..=8, 2, 1)) {
        assert_is_the_best(&machine);
    }
}

//! The solver against exhaustive search, on generated machines.

use super::*;
use proptest::prelude::*;

type Span = std::ops::RangeInclusive<usize>;

/// Machines from few different figures, so that ties are common; `shared` adds uplinks that several
/// ways cross.
fn machines(gpus: Span, rails: Span, shared: usize, each: usize) -> impl Strategy<Value = Machine> {
    (gpus, rails).prop_flat_map(move |(gpus, rails)| {
        let rate = prop_oneof![4 => Just(400_000u64), 1 => Just(200_000), 1 => Just(100_000)];
        let link = prop_oneof![4 => Just(504_000u64), 1 => Just(252_000), 1 => Just(126_000)];
        let uplink = (prop_oneof![Just(504_000u64), Just(252_000)], any::<u64>());
        let parts = (
            prop::collection::vec(rate, rails),
            prop::collection::vec(prop::collection::vec(0u8..5, rails), gpus),
            prop::collection::vec(link, gpus),
            prop::collection::vec(uplink, 0..=shared),
        );
        parts.prop_map(move |(rates, kinds, links, uplinks)| {
            let mut machine = Machine::new(&rates, &kinds, &links).wanting(each);
            for (capacity, bits) in uplinks {
                let ways = (0..gpus * rails).filter(|way| bits.rotate_right(*way as u32) & 3 == 0);
                let ways = ways.map(|way| (way / rails, way % rails));
                machine = machine.shared(capacity, &Vec::from_iter(ways));
            }
            machine
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_shares_of_an_answer_overload_no_place(machine in machines(1..=6, 1..=6, 3, 2), seed in any::<u64>()) {
        let problem = machine.problem();
        let choices = choices(problem.rails(), problem.wants[0]);
        let rails_of: Vec<RailSet> = (0..problem.gpus())
            .map(|gpu| choices[(seed.rotate_right(8 * gpu as u32) % 251) as usize % choices.len()])
            .collect();
        let load = load::Load::of(&problem, &rails_of);
        let mut carried = vec![0; machine.rates.len() + machine.places.len()];
        for (gpu, rails) in rails_of.iter().enumerate() {
            for rail in rails.iter() {
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
    fn no_answer_is_worse_than_the_nearest_rail_with_the_fewest_users(
        machine in machines(1..=9, 1..=9, 3, 1), each in 1usize..3,
    ) {
        let problem = machine.wanting(each).problem();
        let near = start::nearest(&problem);
        prop_assert!(solve(&problem).score() <= near.score());
    }

    #[test]
    fn what_a_move_loses_is_what_the_scores_say(
        machine in machines(1..=6, 2..=6, 3, 2), gpu in any::<prop::sample::Index>(), rail in any::<prop::sample::Index>(),
    ) {
        let problem = machine.problem();
        let rails_of = start::nearest(&problem).rails_of;
        let gpu = gpu.index(problem.gpus());
        let others: Vec<usize> = (0..problem.rails()).filter(|rail| !rails_of[gpu].contains(*rail)).collect();
        prop_assume!(!others.is_empty());
        let rail = others[rail.index(others.len())];
        let score = |rails_of: &[RailSet]| Solved::new(&problem, rails_of.to_vec()).score();
        let here = score(&rails_of);
        let moved = |own: usize| {
            let mut other = rails_of.clone();
            other[gpu] = other[gpu].without(own).with(rail);
            score(&other)
        };
        let there = rails_of[gpu].iter().map(moved).min().unwrap();
        let loss = Solved::new(&problem, rails_of).loss(gpu, rail).unwrap();
        match loss {
            Loss::Less { there: less, here: more, .. } => {
                prop_assert!(less < more && there.shares > here.shares);
                let differing = there.shares.0.iter().zip(&here.shares.0).find(|(a, b)| a != b).unwrap();
                prop_assert!(less <= *differing.0 && more > *differing.0);
            }
            Loss::Path => prop_assert!(there.shares == here.shares && there.path > here.path),
            Loss::Users => prop_assert!(there.path == here.path && there.users > here.users),
            Loss::Order => prop_assert!(there == here),
            Loss::Gain => prop_assert!(there < here),
        }
    }

    #[test]
    fn a_farther_rail_changes_nothing_for_gpus_that_have_a_near_one_each(gpus in 1usize..=8, far in 2u8..5) {
        let near = |gpu: usize, rail: usize| if gpu == rail { 0 } else { 3 };
        let kind = |gpu, rail| if rail == gpus { far } else { near(gpu, rail) };
        let with = |rails| rail_of(&wide(&vec![400_000; rails], &kinds(gpus, rails, kind)));
        prop_assert_eq!(with(gpus), with(gpus + 1));
    }
}

//! The solver on machines made by hand, and exhaustive search to compare it with.
#![forbid(unsafe_code)]

use super::*;

mod beginnings;
mod properties;
mod twins;
mod work;

const THROUGH: [u64; 5] = [1000, 1000, 850, 700, 450];

/// What a test changes and then asks.
#[derive(Debug, Clone)]
struct Machine {
    rates: Vec<u64>,
    /// what the places besides the rails carry
    places: Vec<u64>,
    /// `[gpu][rail]`: the kind of path, and the places on it
    ways: Vec<Vec<(u8, Vec<usize>)>>,
    wants: Vec<usize>,
}

impl Machine {
    /// A machine without shared links: what each rail carries, and what each GPU's own link does.
    fn new(rates: &[u64], kinds: &[Vec<u8>], links: &[u64]) -> Machine {
        let way = |(gpu, kinds): (usize, &Vec<u8>)| kinds.iter().map(|&kind| (kind, vec![gpu])).collect();
        Machine {
            rates: rates.to_vec(),
            places: links.to_vec(),
            ways: kinds.iter().enumerate().map(way).collect(),
            wants: vec![1; kinds.len()],
        }
    }

    fn wanting(self, each: usize) -> Machine {
        Machine { wants: vec![each; self.wants.len()], ..self }
    }

    /// A link on these ways.
    fn shared(mut self, mbps: u64, ways: &[(usize, usize)]) -> Machine {
        self.places.push(mbps);
        for &(gpu, rail) in ways {
            self.ways[gpu][rail].1.push(self.places.len() - 1);
        }
        self
    }

    fn problem(&self) -> Problem {
        let mut draft = Draft::new(&self.rates, &self.wants);
        let places: Vec<u16> = self.places.iter().map(|&mbps| draft.place(mbps)).collect();
        for row in &self.ways {
            for ((kind, crossed), rate) in row.iter().zip(&self.rates) {
                let through = rate * THROUGH[usize::from(*kind)] / 1000;
                let crossed: Vec<u16> = crossed.iter().map(|&place| places[place]).collect();
                draft.way(through, *kind, [&crossed, &[]], None);
            }
        }
        draft.finish()
    }
}

#[test]
fn idle_rails_are_dealt_in_rail_order_wherever_the_budget_ends() {
    let problem = Machine::new(&[100; 3], &[vec![1, 0, 0]], &[1000]).problem();
    let most = [Most { of: 0b111, rails: 3 }];
    let dealt = |looks| deal_idle(&problem, vec![vec![1]], &most, &mut Budget::new(looks)).remove(0);
    let all: Vec<Vec<usize>> = (1..100).map(dealt).collect();
    assert!(all.contains(&vec![0, 1]) && all.contains(&vec![0, 1, 2]), "{all:?}");
    assert!(all.iter().all(|rails| rails.is_sorted()), "{all:?}");
}

fn alike(gpus: usize, rails: usize) -> Machine {
    Machine::new(&vec![400_000; rails], &vec![vec![0; rails]; gpus], &vec![504_000; gpus])
}

fn plenty() -> Budget {
    Budget::new(u64::MAX)
}

fn solved(machine: &Machine) -> Vec<Vec<usize>> {
    let solution = solve(&machine.problem(), &mut plenty());
    assert!(solution.exact);
    solution.rails_of
}

fn rail_of(machine: &Machine) -> Vec<usize> {
    solved(machine).into_iter().map(|rails| rails[0]).collect()
}

/// What each GPU gets, in Gbit/s.
fn shares(machine: &Machine, rails_of: &[Vec<usize>]) -> Vec<u64> {
    let problem = machine.problem();
    Answer::new(&problem, rails_of.to_vec()).shares().iter().map(|mbps| mbps / 1000).collect()
}

/// The best answer of all, the first in rail order where several are.  Every answer is looked at, but for those whose
/// beginning is worse already than the best known one: further GPUs can only lessen what the first ones have.
fn exhaustive(problem: &Problem) -> (Score, Vec<Vec<usize>>) {
    let mut all = Exhaustive { problem, load: load::Load::new(problem), begun: Vec::new(), best: None };
    all.descend();
    all.best.unwrap()
}

struct Exhaustive<'p> {
    problem: &'p Problem,
    load: load::Load<'p>,
    begun: Vec<Vec<usize>>,
    best: Option<(Score, Vec<Vec<usize>>)>,
}

impl Exhaustive<'_> {
    fn descend(&mut self) {
        let gpu = self.begun.len();
        let shares = self.begun.iter().enumerate().map(|(gpu, rails)| score::total(&self.load, gpu, rails));
        let mut shares: Vec<u64> = shares.collect();
        shares.sort_unstable();
        shares.resize(self.problem.gpus(), u64::MAX);
        if self.best.as_ref().is_some_and(|(known, _)| shares < known.shares) {
            return;
        }
        if gpu == self.problem.gpus() {
            let score = Score::of(self.problem, &self.begun);
            if self.best.as_ref().is_none_or(|(known, _)| score < *known) {
                self.best = Some((score, self.begun.clone()));
            }
            return;
        }
        let is_open = |set: &Vec<usize>| set.iter().all(|&rail| self.problem.is_open(gpu, rail));
        for set in sets(self.problem.rails(), self.problem.wants(gpu)).into_iter().filter(is_open) {
            set.iter().for_each(|&rail| self.load.put(gpu, rail));
            self.begun.push(set.clone());
            self.descend();
            self.begun.pop();
            set.iter().for_each(|&rail| self.load.lift(gpu, rail));
        }
    }
}

/// All sets of so many rails, in order.
fn sets(rails: usize, size: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..size {
        sets = sets
            .iter()
            .flat_map(|set| {
                let first = set.last().map_or(0, |last| last + 1);
                (first..rails).map(|rail| set.iter().copied().chain([rail]).collect::<Vec<usize>>())
            })
            .collect();
    }
    sets
}

#[test]
fn equal_rails_are_dealt_in_order() {
    assert_eq!(rail_of(&alike(4, 4)), [0, 1, 2, 3]);
    assert_eq!(rail_of(&alike(4, 2)), [0, 0, 1, 1]);
    assert_eq!(solved(&alike(3, 6).wanting(2)), [[0, 1], [2, 3], [4, 5]]);
}

#[test]
fn a_gpu_whose_switch_has_no_rail_takes_the_idle_far_one_if_sharing_gives_less() {
    let far = |kind| Machine::new(&[400_000; 2], &[vec![0, kind], vec![0, kind]], &[504_000; 2]);
    assert_eq!(rail_of(&far(4)), [0, 0], "half of 400 is more than 0.45 of it");
    assert_eq!(rail_of(&far(3)), [0, 1], "0.7 of 400 is more than half of it");
}

#[test]
fn what_the_way_lets_through_limits_a_gpus_own_share_and_not_its_part_of_a_shared_place() {
    // a near and a far GPU on the one rail there is
    let machine = Machine::new(&[400_000], &[vec![0], vec![3]], &[504_000; 2]);
    assert_eq!(shares(&machine, &[vec![0], vec![0]]), [200, 200], "0.7 of 400 is more than its half");
    let machine = Machine::new(&[400_000], &[vec![0], vec![4]], &[504_000; 2]);
    assert_eq!(
        shares(&machine, &[vec![0], vec![0]]),
        [220, 180],
        "what the far one cannot use is the near one's"
    );
}

#[test]
fn a_loss_of_the_next_worst_off_is_not_weighed_up_by_any_gain_of_the_best_off() {
    // every GPU reaches both rails alike, so what each gets depends only on how many share its rail
    let machine = Machine::new(&[400_000, 100_000], &vec![vec![0, 0]; 5], &[504_000; 5]);
    assert_eq!(rail_of(&machine), [0, 0, 0, 0, 1], "five times 80 is worse than five times 100");
    let machine = Machine::new(&[400_000, 200_000], &vec![vec![0, 0]; 3], &[504_000; 3]);
    assert_eq!(rail_of(&machine), [0, 0, 1], "three times 200 and not once 400, twice 100");
}

#[test]
fn far_gpus_are_spread_and_not_put_together_where_they_disturb_but_one() {
    // four GPUs of the other socket, whose connection leaves each 45, and four that have a rail each
    let far = [4, 4, 4, 4];
    let near = |own: usize| (0..4).map(|rail| if rail == own { 0 } else { 3 }).collect::<Vec<u8>>();
    let kinds: Vec<Vec<u8>> = (0..8).map(|gpu| if gpu < 4 { far.to_vec() } else { near(gpu - 4) }).collect();
    let crossing: Vec<(usize, usize)> = (0..4).flat_map(|gpu| (0..4).map(move |rail| (gpu, rail))).collect();
    let machine = Machine::new(&[400_000; 4], &kinds, &[504_000; 8]).shared(180_000, &crossing);
    assert_eq!(rail_of(&machine), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(shares(&machine, &solved(&machine)), [45, 45, 45, 45, 220, 220, 220, 220]);
}

#[test]
fn a_bound_leaves_to_newcomers_what_those_on_a_rail_cannot_use() {
    // GPUs 0 and 1 share an uplink of 252 to both rails, so a third on their rail gets more than a third of it; a bound that
    // overlooked this ruled the best answer out
    let machine = Machine::new(
        &[400_000; 2],
        &[vec![3, 0], vec![3, 0], vec![2, 0], vec![0, 0]],
        &[504_000, 504_000, 504_000, 126_000],
    );
    let machine = machine.shared(252_000, &[(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(rail_of(&machine), [0, 0, 1, 0]);
}

#[test]
fn a_narrow_link_makes_sharing_free_and_a_near_rail_is_shared_then() {
    let narrow = Machine::new(&[400_000; 2], &[vec![0, 1], vec![0, 1]], &[126_000; 2]);
    assert_eq!(rail_of(&narrow), [0, 0]);
}

#[test]
fn gpus_behind_one_uplink_do_not_both_cross_it_where_another_way_is_free() {
    // GPU 0 and 1 reach rail 0 without and rail 1, 2 through an uplink that both share; GPU 2 is free of it
    let machine = Machine::new(&[400_000; 3], &vec![vec![3, 3, 3]; 3], &[504_000; 3]);
    let machine = machine.shared(252_000, &[(0, 1), (0, 2), (1, 1), (1, 2)]);
    assert_eq!(solved(&machine), [[0], [1], [2]]);
    assert_eq!(shares(&machine, &solved(&machine)), [280, 252, 280]);
}

#[test]
fn a_gpus_own_rails_share_its_own_link() {
    let machine = alike(1, 2).wanting(2);
    assert_eq!(shares(&machine, &solved(&machine)), [504]);
}

#[test]
fn sixty_four_parts_of_gpus_share_eight_rails_evenly_and_that_is_proven() {
    let kinds: Vec<Vec<u8>> =
        (0..64).map(|gpu| (0..8).map(|rail| if gpu / 8 == rail { 0 } else { 4 }).collect()).collect();
    let expected: Vec<usize> = (0..64).map(|gpu| gpu / 8).collect();
    assert_eq!(rail_of(&Machine::new(&[400_000; 8], &kinds, &[504_000; 64])), expected);
}

#[test]
fn sixteen_gpus_on_eight_rails_are_proven() {
    let kinds: Vec<Vec<u8>> =
        (0..16).map(|gpu| (0..8).map(|rail| if gpu / 2 == rail { 0 } else { 3 }).collect()).collect();
    let expected: Vec<usize> = (0..16).map(|gpu| gpu / 2).collect();
    assert_eq!(rail_of(&Machine::new(&[200_000; 8], &kinds, &[504_000; 16])), expected);
}

#[test]
fn as_many_gpus_and_rails_as_a_node_can_have_are_dealt() {
    assert_eq!(rail_of(&alike(64, 64)), (0..64).collect::<Vec<usize>>());
    assert_eq!(solved(&alike(256, 64)).len(), 256);
}

#[test]
fn as_many_paths_of_a_kind_as_there_can_be_are_still_nearer_than_one_farther() {
    let near: u128 = (0..256 * 8).map(|_| score::path_digit(3)).sum();
    assert!(near < score::path_digit(4));
}

#[test]
fn a_move_loses_in_the_first_respect_in_which_the_answers_differ() {
    let loss = |machine: &Machine, rails_of: &[usize], gpu: usize, to: usize| {
        let rails_of = rails_of.iter().map(|&rail| vec![rail]).collect();
        Answer::new(&machine.problem(), rails_of).loss(gpu, to).unwrap()
    };
    // links so narrow that sharing is free
    let narrow = |far: u8| Machine::new(&[400_000; 3], &vec![vec![0, far, 0]; 2], &[126_000; 2]);
    assert_eq!(loss(&narrow(1), &[0, 2], 0, 1), Loss::Path);
    assert_eq!(loss(&narrow(1), &[1, 2], 0, 0), Loss::Gain, "a nearer one");
    assert_eq!(loss(&narrow(0), &[0, 1], 0, 1), Loss::Users);
    assert_eq!(loss(&narrow(0), &[0, 0], 0, 1), Loss::Gain, "fewer users");
    assert_eq!(loss(&narrow(0), &[0, 1], 0, 2), Loss::Order);
    let wide = alike(3, 3);
    assert_eq!(loss(&wide, &[0, 0, 1], 0, 2), Loss::Gain, "more for both");
    let (here, there) = (400_000, 200_000);
    assert_eq!(
        loss(&wide, &[0, 1, 2], 0, 1),
        Loss::Less { gpu: 0, here, there },
        "who moves, before the other"
    );
    // the GPU that moves gets no less there, but the one that has the rail does
    let two = Machine::new(&[400_000; 2], &vec![vec![0, 0]; 2], &[126_000, 504_000]);
    assert_eq!(loss(&two, &[0, 1], 0, 1), Loss::Less { gpu: 1, here: 400_000, there: 274_000 });
}

#[test]
fn those_who_keep_their_rails_keep_them_and_the_others_make_the_best_of_it() {
    let problem = alike(4, 3).problem();
    let kept = vec![Some(vec![2]), None, Some(vec![0]), None];
    assert_eq!(solve_around(&problem, &kept, &mut plenty()).rails_of, [[2], [0], [0], [1]]);
}

#[test]
fn a_small_part_is_solved_before_a_large_one_so_that_the_budget_is_enough_for_it() {
    // in each pair both are nearest to the first NIC, and the one that could go to the second does not without a search
    let mut kinds = vec![vec![4; 6]; 6];
    for (first, rail) in [(0, 0), (2, 2), (4, 4)] {
        kinds[first][rail..rail + 2].copy_from_slice(&[0, 3]);
        kinds[first + 1][rail] = 0;
    }
    // and the second pair's NICs are not too far for the first pair
    kinds[0][2] = 3;
    let problem = Machine::new(&[400_000; 6], &kinds, &[504_000; 6]).problem();
    let solved = |looks| solve(&problem, &mut Budget::new(looks)).rails_of.concat();
    let (begun, best) = (solved(0), solved(u64::MAX));
    assert_eq!((begun.as_slice(), best.as_slice()), (&[0, 0, 2, 2, 4, 4][..], &[1, 0, 3, 2, 5, 4][..]));
    let all: Vec<Vec<usize>> = (0..5000).map(solved).collect();
    assert!(
        all.iter().any(|rails| rails[..4] == begun[..4] && rails[4..] == best[4..]),
        "the small part alone"
    );
    assert!(all.iter().all(|rails| rails[..4] == begun[..4] || rails[4..] == best[4..]), "or both");
}

#[test]
fn gpus_whose_ways_have_no_more_in_common_than_a_link_that_is_too_narrow_are_solved_together() {
    // each has rails of its own, and what it could get of the other's is too little
    let too_little = |machine: Machine, each: usize| {
        let ways: Vec<(usize, usize)> = (0..2 * each).map(|rail| (usize::from(rail < each), rail)).collect();
        machine.shared(10_000, &ways)
    };
    let one = Machine::new(&[400_000; 4], &[vec![0, 3, 0, 0], vec![0, 0, 0, 3]], &[504_000; 2]);
    let one = too_little(one, 2).shared(500_000, &[(0, 0), (1, 2)]);
    assert_eq!(solved(&one), [[0], [3]], "400 and 280, where alone each would take what leaves 250 to both");
    let kinds = [vec![0, 0, 3, 0, 0, 0], vec![0, 0, 0, 0, 0, 3]];
    let two = Machine::new(&[200_000; 6], &kinds, &[504_000; 2]).wanting(2);
    let two = too_little(two, 3).shared(500_000, &[(0, 0), (0, 1), (1, 3), (1, 4)]);
    assert_eq!(solved(&two), [[0, 2], [3, 5]], "340 for each, where alone each would take what leaves 250");
}

#[test]
fn a_link_that_can_never_be_too_narrow_for_those_on_it_is_no_place() {
    let reduced = |machine: Machine| {
        let problem = machine.problem();
        let mut crossed: Vec<u16> = problem.crossed.clone();
        crossed.sort_unstable();
        crossed.dedup();
        crossed.into_iter().map(|place| problem.capacity(place.into()) / problem::PARTS).collect::<Vec<u64>>()
    };
    let two = || Machine::new(&[400_000; 2], &vec![vec![0; 2]; 2], &[504_000; 2]);
    let (all, to_first) = ([(0, 0), (0, 1), (1, 0), (1, 1)], [(0, 0), (1, 0)]);
    assert_eq!(reduced(two()), [400_000; 2], "each GPU's own");
    assert_eq!(reduced(two().shared(500_000, &all)), [400_000, 400_000, 500_000]);
    assert_eq!(reduced(two().shared(800_000, &all)), [400_000; 2], "it carries what all can move");
    assert_eq!(reduced(two().shared(600_000, &all).shared(500_000, &all)), [400_000, 400_000, 500_000]);
    assert_eq!(reduced(two().shared(500_000, &to_first)), [400_000; 2], "the rail behind it is narrower");
    assert_eq!(reduced(two().shared(300_000, &to_first)), [300_000, 400_000], "a part of the rail behind it");
    assert_eq!(reduced(two().shared(300_000, &to_first[..1])), [400_000; 2], "of one of its ways alone");
}

//! The solver on machines made by hand, and exhaustive search to compare it with.

use super::*;
use answer::Score;

mod beginnings;
mod properties;
mod random;

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
        let way =
            |(gpu, kinds): (usize, &Vec<u8>)| kinds.iter().map(|&kind| (kind, vec![gpu])).collect();
        Machine {
            rates: rates.to_vec(),
            places: links.to_vec(),
            ways: kinds.iter().enumerate().map(way).collect(),
            wants: vec![1; kinds.len()],
        }
    }

    fn wanting(self, each: usize) -> Machine {
        Machine {
            wants: vec![each; self.wants.len()],
            ..self
        }
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
        let mut problem = Problem::new(&self.rates, &self.wants);
        let places: Vec<u16> = self
            .places
            .iter()
            .map(|&mbps| problem.add_link(mbps))
            .collect();
        for row in &self.ways {
            for ((kind, crossed), rate) in row.iter().zip(&self.rates) {
                let through = rate * THROUGH[usize::from(*kind)] / 1000;
                let crossed: Vec<u16> = crossed.iter().map(|&place| places[place]).collect();
                problem.add_path(through, *kind, [&crossed, &[]], None);
            }
        }
        problem
    }
}

fn alike(gpus: usize, rails: usize) -> Machine {
    Machine::new(
        &vec![400_000; rails],
        &vec![vec![0; rails]; gpus],
        &vec![504_000; gpus],
    )
}

/// An answer as lists, ascending.
fn lists(rails_of: &[RailSet]) -> Vec<Vec<usize>> {
    rails_of
        .iter()
        .map(|rails| rails.iter().collect())
        .collect()
}

/// And back.
fn sets(lists: &[Vec<usize>]) -> Vec<RailSet> {
    lists
        .iter()
        .map(|rails| rails.iter().copied().collect())
        .collect()
}

fn solved(machine: &Machine) -> Vec<Vec<usize>> {
    lists(&solve(&machine.problem()).rails_of)
}

fn rail_of(machine: &Machine) -> Vec<usize> {
    solved(machine).concat()
}

/// What each GPU gets, in Gbit/s.
fn shares(machine: &Machine, rails_of: &[Vec<usize>]) -> Vec<u64> {
    let problem = machine.problem();
    Solved::new(&problem, sets(rails_of))
        .shares
        .iter()
        .map(|mbps| mbps / 1000)
        .collect()
}

/// An answer whose GPUs get more than by that score, from the worst-off one on.  Every answer is
/// looked at, but for those whose beginning is no better already: further GPUs can only lessen what
/// the first ones have.
pub(crate) fn better(problem: &Problem, than: &Score) -> Option<Vec<RailSet>> {
    let mut search = Search {
        problem,
        than,
        load: load::Load::new(problem),
        rails_of: Vec::new(),
    };
    search.descend().then_some(search.rails_of)
}

struct Search<'p> {
    problem: &'p Problem,
    than: &'p Score,
    load: load::Load<'p>,
    rails_of: Vec<RailSet>,
}

impl Search<'_> {
    fn descend(&mut self) -> bool {
        let Search {
            problem,
            load,
            rails_of,
            ..
        } = self;
        let gpu = rails_of.len();
        let begun = rails_of
            .iter()
            .enumerate()
            .map(|(gpu, rails)| load.total(gpu, *rails));
        let open = (gpu..problem.gpus()).map(|gpu| {
            let open = problem.open[gpu].iter();
            let mut joining: Vec<u64> =
                open.filter_map(|rail| load.joining(gpu, rail, 0)).collect();
            joining.sort_unstable();
            joining.iter().rev().take(problem.wants[gpu]).sum::<u64>() / problem::PARTS
        });
        let mut shares: Vec<u64> = begun.chain(open).collect();
        shares.sort_unstable();
        if shares <= self.than.shares.0 || gpu == problem.gpus() {
            return shares > self.than.shares.0;
        }
        let is_open = |set: &RailSet| set.minus(problem.open[gpu]).is_empty();
        for set in choices(problem.rails(), problem.wants[gpu])
            .into_iter()
            .filter(is_open)
        {
            set.iter().for_each(|rail| self.load.put(gpu, rail));
            self.rails_of.push(set);
            if self.descend() {
                return true;
            }
            self.rails_of.pop();
            set.iter().for_each(|rail| self.load.lift(gpu, rail));
        }
        false
    }
}

/// All sets of so many rails, in order.
fn choices(rails: usize, size: usize) -> Vec<RailSet> {
    let mut choices = vec![RailSet::default()];
    for _ in 0..size {
        let after = |set: &RailSet| set.iter().last().map_or(0, |last| last + 1);
        choices = choices
            .iter()
            .flat_map(|set| (after(set)..rails).map(|rail| set.with(rail)))
            .collect();
    }
    choices
}

#[test]
fn equal_rails_are_dealt_in_order() {
    assert_eq!(rail_of(&alike(4, 4)), [0, 1, 2, 3]);
    assert_eq!(rail_of(&alike(4, 2)), [0, 0, 1, 1]);
    assert_eq!(solved(&alike(3, 6).wanting(2)), [[0, 1], [2, 3], [4, 5]]);
}

#[test]
fn a_gpu_whose_switch_has_no_rail_takes_the_idle_far_one_if_sharing_gives_less() {
    let far = |kind| {
        Machine::new(
            &[400_000; 2],
            &[vec![0, kind], vec![0, kind]],
            &[504_000; 2],
        )
    };
    assert_eq!(
        rail_of(&far(4)),
        [0, 0],
        "half of 400 is more than 0.45 of it"
    );
    assert_eq!(
        rail_of(&far(3)),
        [0, 1],
        "0.7 of 400 is more than half of it"
    );
}

#[test]
fn what_the_way_lets_through_limits_a_gpus_own_share_and_not_its_part_of_a_shared_place() {
    // a near and a far GPU on the one rail there is
    let machine = Machine::new(&[400_000], &[vec![0], vec![3]], &[504_000; 2]);
    assert_eq!(
        shares(&machine, &[vec![0], vec![0]]),
        [200, 200],
        "0.7 of 400 is more than its half"
    );
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
    assert_eq!(
        rail_of(&machine),
        [0, 0, 0, 0, 1],
        "five times 80 is worse than five times 100"
    );
    let machine = Machine::new(&[400_000, 200_000], &vec![vec![0, 0]; 3], &[504_000; 3]);
    assert_eq!(
        rail_of(&machine),
        [0, 0, 1],
        "three times 200 and not once 400, twice 100"
    );
}

#[test]
fn far_gpus_are_spread_and_not_put_together_where_they_disturb_but_one() {
    // four GPUs of the other socket, whose connection leaves each 45, and four that have a rail
    // each
    let far = [4, 4, 4, 4];
    let near = |own: usize| {
        (0..4)
            .map(|rail| if rail == own { 0 } else { 3 })
            .collect::<Vec<u8>>()
    };
    let kinds: Vec<Vec<u8>> = (0..8)
        .map(|gpu| if gpu < 4 { far.to_vec() } else { near(gpu - 4) })
        .collect();
    let crossing: Vec<(usize, usize)> = (0..4)
        .flat_map(|gpu| (0..4).map(move |rail| (gpu, rail)))
        .collect();
    let machine = Machine::new(&[400_000; 4], &kinds, &[504_000; 8]).shared(180_000, &crossing);
    assert_eq!(rail_of(&machine), [0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(
        shares(&machine, &solved(&machine)),
        [45, 45, 45, 45, 220, 220, 220, 220]
    );
}

#[test]
fn a_third_gpu_gets_what_those_on_a_rail_cannot_use() {
    // GPUs 0 and 1 share an uplink of 252 to both rails, so a third on their rail gets more than a
    // third of it
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
    // GPU 0 and 1 reach rail 0 without and rail 1, 2 through an uplink that both share; GPU 2 is
    // free of it
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
fn sixty_four_parts_of_gpus_share_eight_rails_evenly() {
    let kinds: Vec<Vec<u8>> = (0..64)
        .map(|gpu| {
            (0..8)
                .map(|rail| if gpu / 8 == rail { 0 } else { 4 })
                .collect()
        })
        .collect();
    let expected: Vec<usize> = (0..64).map(|gpu| gpu / 8).collect();
    assert_eq!(
        rail_of(&Machine::new(&[400_000; 8], &kinds, &[504_000; 64])),
        expected
    );
}

#[test]
fn sixteen_gpus_on_eight_rails_share_them_by_two() {
    let kinds: Vec<Vec<u8>> = (0..16)
        .map(|gpu| {
            (0..8)
                .map(|rail| if gpu / 2 == rail { 0 } else { 3 })
                .collect()
        })
        .collect();
    let expected: Vec<usize> = (0..16).map(|gpu| gpu / 2).collect();
    assert_eq!(
        rail_of(&Machine::new(&[200_000; 8], &kinds, &[504_000; 16])),
        expected
    );
}

#[test]
fn as_many_gpus_and_rails_as_a_node_can_have_are_dealt() {
    assert_eq!(rail_of(&alike(64, 64)), (0..64).collect::<Vec<usize>>());
    assert_eq!(solved(&alike(256, 64)).len(), 256);
    assert_eq!(
        solved(&alike(2, 0)),
        [[], []] as [[usize; 0]; 2],
        "and none without a rail"
    );
}

#[test]
fn as_many_paths_of_a_kind_as_there_can_be_are_still_nearer_than_one_farther() {
    let near: u128 = (0..256 * 8).map(|_| problem::path_digit(3)).sum();
    assert!(near < problem::path_digit(4));
}

#[test]
fn a_move_loses_in_the_first_respect_in_which_the_answers_differ() {
    let loss = |machine: &Machine, rails_of: &[usize], gpu: usize, to: usize| {
        let rails_of: Vec<Vec<usize>> = rails_of.iter().map(|&rail| vec![rail]).collect();
        Solved::new(&machine.problem(), sets(&rails_of))
            .loss(gpu, to)
            .unwrap()
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
        Loss::Less {
            gpu: 0,
            here,
            there
        },
        "who moves, before the other"
    );
    // the GPU that moves gets no less there, but the one that has the rail does
    let two = Machine::new(&[400_000; 2], &vec![vec![0, 0]; 2], &[126_000, 504_000]);
    assert_eq!(
        loss(&two, &[0, 1], 0, 1),
        Loss::Less {
            gpu: 1,
            here: 400_000,
            there: 274_000
        }
    );
}

#[test]
fn those_who_keep_their_rails_keep_them_and_the_others_make_the_best_of_it() {
    let mut problem = alike(4, 3).problem();
    let only = |rail: usize| Some(RailSet::default().with(rail));
    problem.keep(&[only(2), None, only(0), None]);
    assert_eq!(lists(&solve(&problem).rails_of), [[2], [0], [0], [1]]);
}

#[test]
fn a_gpu_that_can_go_elsewhere_leaves_the_nic_that_two_are_nearest_to() {
    let mut kinds = vec![vec![4; 6]; 6];
    for (first, rail) in [(0, 0), (2, 2), (4, 4)] {
        kinds[first][rail..rail + 2].copy_from_slice(&[0, 3]);
        kinds[first + 1][rail] = 0;
    }
    let machine = Machine::new(&[400_000; 6], &kinds, &[504_000; 6]);
    assert_eq!(rail_of(&machine), [1, 0, 3, 2, 5, 4]);
}

#[test]
fn gpus_that_have_no_more_in_common_than_a_narrow_link_keep_out_of_each_others_way() {
    // each has rails of its own, and what it could get of the other's is too little
    let too_little = |machine: Machine, each: usize| {
        let ways: Vec<(usize, usize)> = (0..2 * each)
            .map(|rail| (usize::from(rail < each), rail))
            .collect();
        machine.shared(10_000, &ways)
    };
    let one = Machine::new(
        &[400_000; 4],
        &[vec![0, 3, 0, 0], vec![0, 0, 0, 3]],
        &[504_000; 2],
    );
    let one = too_little(one, 2).shared(500_000, &[(0, 0), (1, 2)]);
    assert_eq!(
        solved(&one),
        [[0], [3]],
        "400 and 280, where alone each would take what leaves 250 to both"
    );
    let kinds = [vec![0, 0, 3, 0, 0, 0], vec![0, 0, 0, 0, 0, 3]];
    let two = Machine::new(&[200_000; 6], &kinds, &[504_000; 2]).wanting(2);
    let two = too_little(two, 3).shared(500_000, &[(0, 0), (0, 1), (1, 3), (1, 4)]);
    assert_eq!(
        solved(&two),
        [[0, 2], [3, 5]],
        "340 for each, where alone each would take what leaves 250"
    );
}

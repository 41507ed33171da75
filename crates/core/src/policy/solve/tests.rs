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
        let ways = kinds.iter().enumerate();
        let ways = ways.map(|(gpu, row)| row.iter().map(|&kind| (kind, vec![gpu])).collect());
        Machine {
            rates: rates.to_vec(),
            places: links.to_vec(),
            ways: ways.collect(),
            wants: vec![1; kinds.len()],
        }
    }

    fn wanting(mut self, each: usize) -> Machine {
        self.wants.fill(each);
        self
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
        let places = self.places.iter().map(|&mbps| problem.add_link(mbps));
        let places: Vec<u16> = places.collect();
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
    wide(&vec![400_000; rails], &vec![vec![0; rails]; gpus])
}

/// An answer as lists, ascending.
fn lists(rails_of: &[RailSet]) -> Vec<Vec<usize>> {
    let rails_of = rails_of.iter();
    rails_of.map(|rails| rails.iter().collect()).collect()
}

fn sets(lists: &[Vec<usize>]) -> Vec<RailSet> {
    let lists = lists.iter();
    lists.map(|rails| rails.iter().copied().collect()).collect()
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
    let solved = Solved::new(&problem, sets(rails_of));
    solved.shares.iter().map(|mbps| mbps / 1000).collect()
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
        let (problem, load, rails_of) = (self.problem, &self.load, &self.rails_of);
        let gpu = rails_of.len();
        let begun = rails_of.iter().enumerate();
        let begun = begun.map(|(gpu, rails)| load.total(gpu, *rails));
        let open = (gpu..problem.gpus()).map(|gpu| {
            let open = problem.open[gpu].iter();
            let joining = open.filter_map(|rail| load.joining(gpu, rail, 0));
            let mut joining: Vec<u64> = joining.collect();
            joining.sort_unstable();
            joining.iter().rev().take(problem.wants[gpu]).sum::<u64>() / problem::PARTS
        });
        let mut shares: Vec<u64> = begun.chain(open).collect();
        shares.sort_unstable();
        if shares <= self.than.shares.0 || gpu == problem.gpus() {
            return shares > self.than.shares.0;
        }
        let is_open = |set: &RailSet| set.minus(problem.open[gpu]).is_empty();
        let sets = choices(problem.rails(), problem.wants[gpu]);
        for set in sets.into_iter().filter(is_open) {
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
        let more = |set: &RailSet| (after(set)..rails).map(|rail| set.with(rail)).collect();
        choices = choices.iter().flat_map::<Vec<_>, _>(more).collect();
    }
    choices
}

/// Each GPU's kind of path to each rail.
fn kinds(gpus: usize, rails: usize, kind: impl Fn(usize, usize) -> u8) -> Vec<Vec<u8>> {
    let row = |gpu| (0..rails).map(|rail| kind(gpu, rail)).collect();
    (0..gpus).map(row).collect()
}

/// GPUs without a link that is too narrow for a rail.
fn wide(rates: &[u64], kinds: &[Vec<u8>]) -> Machine {
    Machine::new(rates, kinds, &vec![504_000; kinds.len()])
}

#[test]
fn each_gpu_has_the_rail_that_gives_the_worst_off_most() {
    let two = [400_000; 2];
    let flat = |gpus| vec![vec![0, 0]; gpus];
    let narrow = Machine::new(&two, &[vec![0, 1], vec![0, 1]], &[126_000; 2]);
    let ways = [vec![0, 3, 1, 1], vec![0, 1, 0, 2], vec![4, 1, 0, 2]];
    let equal = Machine::new(&[400_000; 4], &ways, &[126_000, 504_000, 504_000]);
    let near = |each: usize, far| move |gpu, rail| if gpu / each == rail { 0 } else { far };
    let of_64 = wide(&[400_000; 8], &kinds(64, 8, near(8, 4)));
    let of_16 = wide(&[200_000; 8], &kinds(16, 8, near(2, 3)));
    for (machine, expected) in [
        // equal rails are dealt in order
        (alike(4, 4), &[0, 1, 2, 3][..]),
        (alike(4, 2), &[0, 0, 1, 1]),
        (alike(3, 6).wanting(2), &[0, 1, 2, 3, 4, 5]),
        // a GPU whose switch has no rail shares: half of 400 is more than 0.45 of it
        (wide(&two, &[vec![0, 4], vec![0, 4]]), &[0, 0]),
        // or takes the idle far one: 0.7 of 400 is more than half of it
        (wide(&two, &[vec![0, 3], vec![0, 3]]), &[0, 1]),
        // a loss of the next worst-off is not weighed up by any gain of the best-off: five times 80
        // is worse than five times 100, three times 200 is better than once 400 and twice 100
        (wide(&[400_000, 100_000], &flat(5)), &[0, 0, 0, 0, 1]),
        (wide(&[400_000, 200_000], &flat(3)), &[0, 0, 1]),
        // a narrow link makes sharing free, and a near rail is shared then
        (narrow, &[0, 0]),
        // of two equal answers, here [0, 1, 2], that which began with the nearest rails
        (equal, &[3, 0, 2]),
        // 64 parts of GPUs on 8 rails, and 16 GPUs
        (of_64, &std::array::from_fn::<_, 64, _>(|gpu| gpu / 8)),
        (of_16, &std::array::from_fn::<_, 16, _>(|gpu| gpu / 2)),
        // as many as a node can have
        (alike(64, 64), &std::array::from_fn::<_, 64, _>(|gpu| gpu)),
    ] {
        assert_eq!(rail_of(&machine), expected);
    }
    assert_eq!(solved(&alike(256, 64)).len(), 256);
    // and none without a rail
    assert_eq!(solved(&alike(2, 0)), [[], []] as [[usize; 0]; 2]);
}

#[test]
fn what_the_way_lets_through_limits_a_gpus_own_share_and_not_its_part_of_a_shared_place() {
    // a near and a far GPU on the one rail there is: 0.7 of 400 is more than its half, and what the
    // far one cannot use is the near one's
    for (far, expected) in [(3, [200, 200]), (4, [220, 180])] {
        let machine = wide(&[400_000], &[vec![0], vec![far]]);
        assert_eq!(shares(&machine, &[vec![0], vec![0]]), expected);
    }
    // a GPU's own rails share its own link
    let machine = alike(1, 2).wanting(2);
    assert_eq!(shares(&machine, &solved(&machine)), [504]);
}

#[test]
fn far_gpus_are_spread_and_not_put_together_where_they_disturb_but_one() {
    // four GPUs of the other socket, whose connection leaves each 45, and four that have a rail
    // each
    let kinds = kinds(8, 4, |gpu, rail| match gpu.checked_sub(4) {
        None => 4,
        Some(own) if own == rail => 0,
        Some(_) => 3,
    });
    let crossing: Vec<(usize, usize)> = (0..16).map(|way| (way / 4, way % 4)).collect();
    let machine = wide(&[400_000; 4], &kinds).shared(180_000, &crossing);
    assert_eq!(rail_of(&machine), [0, 1, 2, 3, 0, 1, 2, 3]);
    let expected = [45, 45, 45, 45, 220, 220, 220, 220];
    assert_eq!(shares(&machine, &solved(&machine)), expected);
}

#[test]
fn a_third_gpu_gets_what_those_on_a_rail_cannot_use() {
    // GPUs 0 and 1 share an uplink of 252 to both rails, so a third on their rail gets more than a
    // third of it
    let kinds = [vec![3, 0], vec![3, 0], vec![2, 0], vec![0, 0]];
    let machine = Machine::new(&[400_000; 2], &kinds, &[504_000, 504_000, 504_000, 126_000]);
    let machine = machine.shared(252_000, &[(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(rail_of(&machine), [0, 0, 1, 0]);
}

#[test]
fn gpus_behind_one_uplink_do_not_both_cross_it_where_another_way_is_free() {
    // GPU 0 and 1 reach rail 0 without and rail 1, 2 through an uplink that both share; GPU 2 is
    // free of it
    let machine = wide(&[400_000; 3], &vec![vec![3, 3, 3]; 3]);
    let machine = machine.shared(252_000, &[(0, 1), (0, 2), (1, 1), (1, 2)]);
    assert_eq!(solved(&machine), [[0], [1], [2]]);
    assert_eq!(shares(&machine, &solved(&machine)), [280, 252, 280]);
}

#[test]
fn as_many_paths_of_a_kind_as_there_can_be_are_still_nearer_than_one_farther() {
    let near: u128 = (0..256 * 8).map(|_| problem::path_digit(3)).sum();
    assert!(near < problem::path_digit(4));
}

#[test]
fn a_move_loses_in_the_first_respect_in_which_the_answers_differ() {
    // links so narrow that sharing is free
    let narrow = |far: u8| Machine::new(&[400_000; 3], &vec![vec![0, far, 0]; 2], &[126_000; 2]);
    let less = |gpu, here, there| Loss::Less { gpu, here, there };
    let two = Machine::new(&[400_000; 2], &vec![vec![0, 0]; 2], &[126_000, 504_000]);
    for (machine, rails_of, to, loss) in [
        (narrow(1), &[0, 2][..], 1, Loss::Path),
        (narrow(1), &[1, 2], 0, Loss::Gain),
        (narrow(0), &[0, 1], 1, Loss::Users),
        (narrow(0), &[0, 0], 1, Loss::Gain),
        (narrow(0), &[0, 1], 2, Loss::Order),
        (alike(3, 3), &[0, 0, 1], 2, Loss::Gain),
        // the GPU that moves, before the other
        (alike(3, 3), &[0, 1, 2], 1, less(0, 400_000, 200_000)),
        // the GPU that moves gets no less there, but the one that has the rail does
        (two, &[0, 1], 1, less(1, 400_000, 274_000)),
    ] {
        let answer: Vec<Vec<usize>> = rails_of.iter().map(|&rail| vec![rail]).collect();
        let problem = machine.problem();
        let found = Solved::new(&problem, sets(&answer)).loss(0, to);
        assert_eq!(found, Some(loss), "{rails_of:?} {to}");
    }
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
    let kinds = kinds(6, 6, |gpu, rail| {
        match (gpu / 2 == rail / 2, rail % 2, gpu % 2) {
            (true, 0, _) => 0,
            (true, 1, 0) => 3,
            _ => 4,
        }
    });
    assert_eq!(rail_of(&wide(&[400_000; 6], &kinds)), [1, 0, 3, 2, 5, 4]);
}

#[test]
fn gpus_that_have_no_more_in_common_than_a_narrow_link_keep_out_of_each_others_way() {
    // each has rails of its own, and what it could get of the other's is too little
    let too_little = |machine: Machine, each: usize| {
        let ways = (0..2 * each).map(|rail| (usize::from(rail < each), rail));
        machine.shared(10_000, &Vec::from_iter(ways))
    };
    // 400 and 280, where alone each would take what leaves 250 to both
    let one = wide(&[400_000; 4], &[vec![0, 3, 0, 0], vec![0, 0, 0, 3]]);
    let one = too_little(one, 2).shared(500_000, &[(0, 0), (1, 2)]);
    assert_eq!(solved(&one), [[0], [3]]);
    // 340 for each, where alone each would take what leaves 250
    let kinds = [vec![0, 0, 3, 0, 0, 0], vec![0, 0, 0, 0, 0, 3]];
    let two = wide(&[200_000; 6], &kinds).wanting(2);
    let two = too_little(two, 3).shared(500_000, &[(0, 0), (0, 1), (1, 3), (1, 4)]);
    assert_eq!(solved(&two), [[0, 2], [3, 5]]);
}

//! The ways that cross each place in an answer, and what it leaves to each of them.
#![forbid(unsafe_code)]

use super::RailSet;
use super::problem::Problem;

/// One GPU gives up a rail and takes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) gpu: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The ways that cross each place in an answer, or in the beginning of one, and the place's even part for each.
pub(super) struct Load<'p> {
    problem: &'p Problem,
    /// `[place]`: what the ways across it let through when alone, ascending, and how many let through as much
    owns: Vec<Vec<(u64, u64)>>,
    /// `[place]`: what each way gets of it at most
    pub(super) levels: Vec<u64>,
    /// `[place]`: the level if one more way came that can use all of it
    pub(super) joining: Vec<u64>,
}

impl<'p> Load<'p> {
    pub(super) fn new(problem: &'p Problem) -> Load<'p> {
        let places = problem.places();
        Load {
            problem,
            owns: vec![Vec::new(); places],
            levels: vec![u64::MAX; places],
            joining: (0..places).map(|place| problem.capacity(place)).collect(),
        }
    }

    pub(super) fn of(problem: &'p Problem, rails_of: &[RailSet]) -> Load<'p> {
        let mut load = Load::new(problem);
        for (gpu, rails) in rails_of.iter().enumerate() {
            rails.iter().for_each(|rail| load.add(gpu, rail));
        }
        (0..problem.places()).for_each(|place| load.reckon(place));
        load
    }

    pub(super) fn put(&mut self, gpu: usize, rail: usize) {
        self.add(gpu, rail);
        self.problem
            .crossed(gpu, rail)
            .for_each(|place| self.reckon(place));
    }

    pub(super) fn lift(&mut self, gpu: usize, rail: usize) {
        self.remove(gpu, rail);
        self.problem
            .crossed(gpu, rail)
            .for_each(|place| self.reckon(place));
    }

    /// Changes the levels as these moves would, but not `joining`; returns the places on the moves' ways, as often as
    /// they are on one, with their levels before.  [`Load::complete`] or [`Load::undo`] has to follow.
    pub(super) fn attempt(&mut self, moves: &[Move]) -> Vec<(usize, u64)> {
        let problem = self.problem;
        let mut before = Vec::with_capacity(16 * moves.len());
        for &Move { gpu, from, to } in moves {
            self.remove(gpu, from);
            self.add(gpu, to);
            let places = problem.crossed(gpu, from).chain(problem.crossed(gpu, to));
            before.extend(places.map(|place| (place, self.levels[place])));
        }
        for &(place, _) in &before {
            self.levels[place] = level(problem.capacity(place), &self.owns[place], 0);
        }
        before
    }

    /// Makes the moves of an attempt that returned `before`.
    pub(super) fn complete(&mut self, before: &[(usize, u64)]) {
        before.iter().for_each(|&(place, _)| self.reckon(place));
    }

    pub(super) fn undo(&mut self, moves: &[Move], before: &[(usize, u64)]) {
        for &Move { gpu, from, to } in moves {
            self.remove(gpu, to);
            self.add(gpu, from);
        }
        before
            .iter()
            .for_each(|&(place, level)| self.levels[place] = level);
    }

    fn add(&mut self, gpu: usize, rail: usize) {
        let own = self.problem.own(gpu, rail);
        for place in self.problem.crossed(gpu, rail) {
            let owns = &mut self.owns[place];
            let at = owns
                .iter()
                .position(|(other, _)| *other >= own)
                .unwrap_or(owns.len());
            match owns.get_mut(at) {
                Some((other, ways)) if *other == own => *ways += 1,
                _ => owns.insert(at, (own, 1)),
            }
        }
    }

    /// What no way lets through any more stays with 0 ways: it may come again.
    fn remove(&mut self, gpu: usize, rail: usize) {
        let own = self.problem.own(gpu, rail);
        for place in self.problem.crossed(gpu, rail) {
            if let Some((_, ways)) = self.owns[place].iter_mut().find(|(other, _)| *other == own) {
                *ways -= 1;
            }
        }
    }

    fn reckon(&mut self, place: usize) {
        let (capacity, owns) = (self.problem.capacity(place), &self.owns[place]);
        self.levels[place] = level(capacity, owns, 0);
        self.joining[place] = level(capacity, owns, 1);
    }

    /// The part that a GPU has of its rail, in parts of a Mbit/s.
    pub(super) fn share(&self, gpu: usize, rail: usize) -> u64 {
        let places = self
            .problem
            .crossed(gpu, rail)
            .map(|place| self.levels[place]);
        places.fold(self.problem.own(gpu, rail), u64::min)
    }

    /// The part that a GPU would have of another rail; `None` if that is less than `least`.
    pub(super) fn joining(&self, gpu: usize, rail: usize, least: u64) -> Option<u64> {
        let enough = |share: u64| Some(share).filter(|&share| share >= least);
        let mut places = self
            .problem
            .crossed(gpu, rail)
            .map(|place| self.joining[place]);
        places.try_fold(enough(self.problem.own(gpu, rail))?, |share, place| {
            enough(share.min(place))
        })
    }

    pub(super) fn ways(&self, place: usize) -> usize {
        self.owns[place]
            .iter()
            .map(|&(_, ways)| ways as usize)
            .sum()
    }
}

/// The most that each way gets of a place: an even part, where ways leave what they cannot use to the others;
/// `u64::MAX` if there is enough for all.  `owns` has, ascending, the bandwidths of ways and the number of ways of
/// each; `greedy` more ways use all they get.
fn level(capacity: u64, owns: &[(u64, u64)], greedy: u64) -> u64 {
    let (mut left, mut sharers) = (
        capacity,
        greedy + owns.iter().map(|(_, ways)| ways).sum::<u64>(),
    );
    for &(own, ways) in owns.iter().filter(|(_, ways)| *ways > 0) {
        let even = left / sharers;
        if own > even {
            return even;
        }
        (left, sharers) = (left - own * ways, sharers - ways);
    }
    left.checked_div(sharers).unwrap_or(u64::MAX)
}

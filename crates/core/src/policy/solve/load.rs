//! The paths that cross each link in an answer, and each path's bandwidth on the link.

use super::RailSet;
use super::problem::{PARTS, Problem};

#[derive(Clone, Copy)]
pub(super) struct Move {
    pub(super) gpu: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

pub(crate) struct Load<'p> {
    problem: &'p Problem,
    /// `[link]`: its paths' bandwidths when alone, ascending, each with the number of such paths
    owns: Vec<Vec<(u64, u64)>>,
    /// `[link]`: the most that a path gets of it ([`level`])
    pub(super) levels: Vec<u64>,
    /// `[link]`: its level with one more path of unlimited demand
    pub(super) joining: Vec<u64>,
}

impl<'p> Load<'p> {
    pub(super) fn new(problem: &'p Problem) -> Load<'p> {
        let links = problem.capacities.len();
        Load {
            problem,
            owns: vec![Vec::new(); links],
            levels: vec![u64::MAX; links],
            joining: problem.capacities.clone(),
        }
    }

    pub(crate) fn of(problem: &'p Problem, rails_of: &[RailSet]) -> Load<'p> {
        let mut load = Load::new(problem);
        for (gpu, rails) in rails_of.iter().enumerate() {
            rails.iter().for_each(|rail| load.change(gpu, rail, true));
        }
        (0..load.owns.len()).for_each(|link| load.reckon(link));
        load
    }

    pub(crate) fn put(&mut self, gpu: usize, rail: usize) {
        self.change(gpu, rail, true);
        self.problem
            .crossed(gpu, rail)
            .for_each(|link| self.reckon(link));
    }

    pub(crate) fn lift(&mut self, gpu: usize, rail: usize) {
        self.change(gpu, rail, false);
        self.problem
            .crossed(gpu, rail)
            .for_each(|link| self.reckon(link));
    }

    /// Sets `levels`, but not `joining`, to the values after these moves. Returns the old level of
    /// each link on the moves' paths, once for each path. [`Load::undo`] must follow, or
    /// [`Load::reckon`] for each of these links.
    pub(super) fn attempt(&mut self, moves: &[Move]) -> Vec<(usize, u64)> {
        let problem = self.problem;
        let mut before = Vec::with_capacity(16 * moves.len());
        for &Move { gpu, from, to } in moves {
            self.change(gpu, from, false);
            self.change(gpu, to, true);
            let links = problem.crossed(gpu, from).chain(problem.crossed(gpu, to));
            before.extend(links.map(|link| (link, self.levels[link])));
        }
        for &(link, _) in &before {
            self.levels[link] = level(problem.capacities[link], &self.owns[link], 0);
        }
        before
    }

    pub(super) fn undo(&mut self, moves: &[Move], before: &[(usize, u64)]) {
        for &Move { gpu, from, to } in moves {
            self.change(gpu, to, false);
            self.change(gpu, from, true);
        }
        for &(link, level) in before {
            self.levels[link] = level;
        }
    }

    /// Adds or removes a path. A bandwidth without paths stays in `owns`: paths often come again.
    fn change(&mut self, gpu: usize, rail: usize, adds: bool) {
        let own = self.problem.own(gpu, rail);
        for link in self.problem.crossed(gpu, rail) {
            let owns = &mut self.owns[link];
            let at = owns.iter().position(|(other, _)| *other >= own);
            let at = at.unwrap_or(owns.len());
            match owns.get_mut(at) {
                Some((other, paths)) if *other == own => match adds {
                    true => *paths += 1,
                    false => *paths -= 1,
                },
                _ => owns.insert(at, (own, 1)),
            }
        }
    }

    pub(super) fn reckon(&mut self, link: usize) {
        let (capacity, owns) = (self.problem.capacities[link], &self.owns[link]);
        self.levels[link] = level(capacity, owns, 0);
        self.joining[link] = level(capacity, owns, 1);
    }

    pub(crate) fn totals(&self, rails_of: &[RailSet]) -> Vec<u64> {
        let rails_of = rails_of.iter().enumerate();
        rails_of
            .map(|(gpu, rails)| self.total(gpu, *rails))
            .collect()
    }

    /// A GPU's share of these rails together, in whole Mbit/s.
    pub(super) fn total(&self, gpu: usize, rails: RailSet) -> u64 {
        rails.iter().map(|rail| self.share(gpu, rail)).sum::<u64>() / PARTS
    }

    /// A GPU's share of a rail, in Mbit/s times [`PARTS`].
    pub(super) fn share(&self, gpu: usize, rail: usize) -> u64 {
        let levels = self
            .problem
            .crossed(gpu, rail)
            .map(|link| self.levels[link]);
        levels.fold(self.problem.own(gpu, rail), u64::min)
    }

    /// A GPU's share of `rail` if the GPU took it too; `None` if less than `least`.
    pub(super) fn joining(&self, gpu: usize, rail: usize, least: u64) -> Option<u64> {
        let enough = |share: u64| Some(share).filter(|&share| share >= least);
        let mut levels = self
            .problem
            .crossed(gpu, rail)
            .map(|link| self.joining[link]);
        let own = enough(self.problem.own(gpu, rail))?;
        levels.try_fold(own, |share, level| enough(share.min(level)))
    }

    pub(super) fn paths(&self, link: usize) -> usize {
        self.owns[link]
            .iter()
            .map(|&(_, paths)| paths as usize)
            .sum()
    }
}

/// The most that each path gets of a link; `u64::MAX` if the link suffices for all. `greedy`:
/// number of additional paths of unlimited demand.
fn level(capacity: u64, owns: &[(u64, u64)], greedy: u64) -> u64 {
    let mut left = capacity;
    let mut sharers = greedy + owns.iter().map(|(_, paths)| paths).sum::<u64>();
    for &(own, paths) in owns.iter().filter(|(_, paths)| *paths > 0) {
        let even = left / sharers;
        if own > even {
            return even;
        }
        (left, sharers) = (left - own * paths, sharers - paths);
    }
    left.checked_div(sharers).unwrap_or(u64::MAX)
}

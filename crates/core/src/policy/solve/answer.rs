//! An answer of the solver, its score, and the loss by a move.

use super::RailSet;
use super::load::Load;
use super::problem::{PARTS, Problem, path_digit};
use std::cmp::Reverse;

/// The loss if a GPU moves to another rail, by the first field in which the [`Score`]s differ.
#[derive(Debug, PartialEq)]
pub(crate) enum Loss {
    /// GPU `gpu` would get `there` instead of `here`, in Mbit/s, and no other GPU's gain outweighs
    /// this
    Less { gpu: usize, there: u64, here: u64 },
    /// farther paths
    Path,
    /// less even use of the rails
    Users,
    /// an equal answer, but later in rail order
    Order,
    /// none: the new answer is better
    Gain,
}

/// The quality of an answer; less is better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// in whole Mbit/s, ascending, since the worst-off GPU counts first
    pub(super) shares: Reverse<Vec<u64>>,
    /// number of paths of each kind, the farthest kind in the highest 16 bits
    pub(super) path: u128,
    /// sum of the squares of the rails' numbers of users
    pub(super) users: u64,
}

pub struct Solved<'p> {
    pub(super) problem: &'p Problem,
    /// `[gpu]`
    pub rails_of: Vec<RailSet>,
    pub(super) load: Load<'p>,
    /// `[gpu]`: its bandwidth in Mbit/s, rounded down
    pub(super) shares: Vec<u64>,
}

impl<'p> Solved<'p> {
    pub(crate) fn new(problem: &'p Problem, rails_of: Vec<RailSet>) -> Solved<'p> {
        let load = Load::of(problem, &rails_of);
        Solved::with_load(problem, rails_of, load)
    }

    pub(super) fn with_load(
        problem: &'p Problem,
        rails_of: Vec<RailSet>,
        load: Load<'p>,
    ) -> Solved<'p> {
        let shares = load.totals(&rails_of);
        Solved {
            problem,
            rails_of,
            load,
            shares,
        }
    }

    pub(crate) fn share_mbps(&self, gpu: usize, rail: usize) -> u64 {
        self.load.share(gpu, rail) / PARTS
    }

    pub fn users(&self, rail: usize) -> usize {
        self.load.paths(rail)
    }

    pub(crate) fn worst_mbps(&self) -> u64 {
        self.shares.iter().copied().min().unwrap_or(0)
    }

    pub(crate) fn score(&self) -> Score {
        let problem = self.problem;
        let mut shares = self.shares.clone();
        shares.sort_unstable();
        let mut path = 0;
        for (gpu, rails) in self.rails_of.iter().enumerate() {
            let paths = rails.iter().map(|rail| path_digit(problem.kind(gpu, rail)));
            path += paths.sum::<u128>();
        }
        let users = (0..problem.rails()).map(|rail| self.users(rail).pow(2) as u64);
        Score {
            shares: Reverse(shares),
            path,
            users: users.sum(),
        }
    }

    /// True if no other answer is as good: each GPU's rails give full bandwidth, and every other
    /// rail open to the GPU is worse.
    pub(super) fn is_ideal(&self) -> bool {
        let problem = self.problem;
        self.rails_of.iter().enumerate().all(|(gpu, rails)| {
            let key = |rail: usize| (Reverse(problem.own(gpu, rail)), problem.kind(gpu, rail));
            let farthest = rails.iter().map(key).max();
            let is_alone = |rail: usize| self.load.share(gpu, rail) == problem.own(gpu, rail);
            let others = problem.open[gpu].minus(*rails);
            rails.iter().all(is_alone) && others.iter().all(|rail| Some(key(rail)) > farthest)
        })
    }

    /// The loss if a GPU gave its least useful rail for `to`, and no other GPU moved; `None` if the
    /// GPU has no rail.
    pub(crate) fn loss(&mut self, gpu: usize, to: usize) -> Option<Loss> {
        let own = self.rails_of[gpu];
        let (score, before) = (self.score(), self.shares.clone());
        let moved = |from: usize| {
            self.load.lift(gpu, from);
            self.load.put(gpu, to);
            self.rails_of[gpu] = own.without(from).with(to);
            self.shares = self.load.totals(&self.rails_of);
            let there = (
                self.score(),
                std::mem::replace(&mut self.shares, before.clone()),
            );
            self.load.lift(gpu, to);
            self.load.put(gpu, from);
            self.rails_of[gpu] = own;
            there
        };
        let (there, after) = own
            .iter()
            .map(moved)
            .min_by(|(one, _), (other, _)| one.cmp(other))?;
        if there < score {
            return Some(Loss::Gain);
        }
        let mut levels = there.shares.0.iter().zip(&score.shares.0);
        if let Some((&level, _)) = levels.find(|(after, before)| after != before) {
            // of the GPUs that fell from above `level`, the one with the largest new share up to
            // `level`; of equals, the GPU that moved
            let fallen =
                (0..before.len()).filter(|&gpu| after[gpu] <= level && level < before[gpu]);
            let most = fallen.max_by_key(|&other| (after[other], other == gpu, Reverse(other)));
            return Some(most.map_or(Loss::Order, |gpu| Loss::Less {
                gpu,
                there: after[gpu],
                here: before[gpu],
            }));
        }
        Some(if there.path > score.path {
            Loss::Path
        } else if there.users > score.users {
            Loss::Users
        } else {
            Loss::Order
        })
    }
}

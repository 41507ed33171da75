//! An answer with what each GPU gets, and what it would lose by a move.
#![forbid(unsafe_code)]

use super::RailSet;
use super::load::Load;
use super::problem::{PARTS, Problem};
use super::score::{Score, path_digit, shares};
use std::cmp::Reverse;

/// What an answer loses against the one before a GPU moved, in the first respect in which they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// this GPU gets so much there instead of so much here, in Mbit/s, and nothing that others gain weighs it up
    Less { gpu: usize, there: u64, here: u64 },
    /// its paths are farther
    Path,
    /// it uses the rails less evenly
    Users,
    /// none but a later place in rail order
    Order,
    /// none: the answer is better
    Gain,
}

/// An answer, open to changes.
pub(crate) struct Answer<'p> {
    pub(super) problem: &'p Problem,
    /// `[gpu]`
    pub(crate) rails_of: Vec<RailSet>,
    pub(super) load: Load<'p>,
    /// `[gpu]`: its bandwidth in Mbit/s, rounded down
    pub(super) shares: Vec<u64>,
}

impl<'p> Answer<'p> {
    pub(crate) fn new(problem: &'p Problem, rails_of: Vec<RailSet>) -> Answer<'p> {
        let load = Load::of(problem, &rails_of);
        Answer::with_load(problem, rails_of, load)
    }

    pub(super) fn with_load(
        problem: &'p Problem,
        rails_of: Vec<RailSet>,
        load: Load<'p>,
    ) -> Answer<'p> {
        let shares = shares(&load, &rails_of);
        Answer {
            problem,
            rails_of,
            load,
            shares,
        }
    }

    pub(crate) fn share_mbps(&self, gpu: usize, rail: usize) -> u64 {
        self.load.share(gpu, rail) / PARTS
    }

    pub(crate) fn users(&self, rail: usize) -> usize {
        self.load.ways(rail)
    }

    /// The least share of any GPU.
    pub(crate) fn worst_mbps(&self) -> u64 {
        self.shares.iter().copied().min().unwrap_or(0)
    }

    pub(crate) fn score(&self) -> Score {
        let Answer {
            problem, rails_of, ..
        } = self;
        let mut shares = self.shares.clone();
        shares.sort_unstable();
        let path = |gpu: usize, rail: usize| path_digit(problem.kind(gpu, rail));
        let paths = |gpu: usize| {
            rails_of[gpu]
                .iter()
                .map(move |rail| path(gpu, rail))
                .sum::<u128>()
        };
        let users = (0..problem.rails())
            .map(|rail| self.users(rail).pow(2) as u64)
            .sum();
        Score {
            shares: Reverse(shares),
            path: (0..rails_of.len()).map(paths).sum(),
            users,
        }
    }

    /// True if each GPU has the rails that give it most and are nearest, as if it were alone on the node, and no other
    /// rail equals them: then no other answer is as good.
    pub(super) fn is_ideal(&self) -> bool {
        let Answer {
            problem,
            rails_of,
            load,
            ..
        } = self;
        rails_of.iter().enumerate().all(|(gpu, rails)| {
            let key = |rail: usize| (Reverse(problem.own(gpu, rail)), problem.kind(gpu, rail));
            let farthest = rails.iter().map(key).max();
            rails
                .iter()
                .all(|rail| load.share(gpu, rail) == problem.own(gpu, rail))
                && problem
                    .open(gpu)
                    .iter()
                    .all(|rail| rails.contains(rail) || Some(key(rail)) > farthest)
        })
    }

    /// The loss if a GPU gave up the rail that it misses least for `to`, and no other GPU moved; `None` if it has no
    /// rail to give up.
    pub(crate) fn loss(&mut self, gpu: usize, to: usize) -> Option<Loss> {
        let own = self.rails_of[gpu];
        let (score, before) = (self.score(), self.shares.clone());
        let moved = |from: usize| {
            self.load.lift(gpu, from);
            self.load.put(gpu, to);
            self.rails_of[gpu] = own.without(from).with(to);
            self.shares = shares(&self.load, &self.rails_of);
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
        let level = there
            .shares
            .0
            .iter()
            .zip(&score.shares.0)
            .find(|(after, before)| after != before);
        Some(match level {
            Some((&level, _)) => {
                // more GPUs than before have no more than this; the one that moves is named before others that lose as much
                let fallen =
                    (0..before.len()).filter(|&gpu| after[gpu] <= level && level < before[gpu]);
                let most = fallen.max_by_key(|&other| (after[other], other == gpu, Reverse(other)));
                most.map_or(Loss::Order, |gpu| Loss::Less {
                    gpu,
                    there: after[gpu],
                    here: before[gpu],
                })
            }
            None if there.path > score.path => Loss::Path,
            None if there.users > score.users => Loss::Users,
            None => Loss::Order,
        })
    }
}

//! How good an answer is, and what it loses against another.
#![forbid(unsafe_code)]

use super::load::Load;
use super::problem::{PARTS, Problem};
use std::cmp::Ordering;

/// How good an answer is; the better one is the lesser one.
///
/// What every GPU gets, the worst-off first, then the next (leximin): no gain of one GPU, however large, weighs up a loss
/// of one that has less.  Then nearer paths, then more even use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// in whole Mbit/s, ascending: answers that differ by less are equally good
    pub(super) shares: Vec<u64>,
    /// how many paths of each kind, the farthest in the highest digit
    pub(super) path: u128,
    /// sum of the squares of the rails' users
    pub(super) users: u64,
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        let shares = || other.shares.cmp(&self.shares);
        shares().then_with(|| (self.path, self.users).cmp(&(other.path, other.users)))
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Score {
    /// The score of an answer: for each GPU its rails.
    pub fn of(problem: &Problem, rails_of: &[Vec<usize>]) -> Score {
        let load = Load::of(problem, rails_of);
        let shares = rails_of.iter().enumerate().map(|(gpu, rails)| total(&load, gpu, rails)).collect();
        Score::with(problem, rails_of, &load, shares)
    }

    /// The score of an answer of which the load is known, and what each GPU gets.
    pub(super) fn with(
        problem: &Problem,
        rails_of: &[Vec<usize>],
        load: &Load,
        mut shares: Vec<u64>,
    ) -> Score {
        shares.sort_unstable();
        let path = rails_of
            .iter()
            .enumerate()
            .map(|(gpu, rails)| rails.iter().map(|&rail| path_digit(problem.kind(gpu, rail))).sum::<u128>());
        let users = (0..problem.rails()).map(|rail| load.users(rail).len().pow(2) as u64);
        Score { shares, path: path.sum(), users: users.sum() }
    }

    /// What the worst-off GPU gets, in Mbit/s.
    pub fn worst_mbps(&self) -> u64 {
        self.shares.first().copied().unwrap_or(0)
    }
}

/// What a GPU gets of these rails together, in whole Mbit/s.
pub(super) fn total(load: &Load, gpu: usize, rails: &[usize]) -> u64 {
    rails.iter().map(|&rail| load.share(gpu, rail)).sum::<u64>() / PARTS
}

/// A digit for each kind of path: no node has as many ways as one digit can count.
pub(super) fn path_digit(kind: u8) -> u128 {
    1 << (u32::from(kind) * 16)
}

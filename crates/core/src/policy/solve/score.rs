//! How good an answer is.
#![forbid(unsafe_code)]

use super::RailSet;
use super::load::Load;
use super::problem::PARTS;
use std::cmp::Reverse;

/// The quality of an answer; the lesser one is better.
///
/// The GPUs' shares, the worst-off first (leximin): no gain of one GPU weighs up a loss of one that has less.  Then
/// nearer paths, then more even use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// in whole Mbit/s, ascending: answers that differ by less are equally good
    pub(super) shares: Reverse<Vec<u64>>,
    /// number of paths of each kind, the farthest in the highest digit
    pub(super) path: u128,
    /// sum of the squares of the rails' users
    pub(super) users: u64,
}

pub(super) fn shares(load: &Load, rails_of: &[RailSet]) -> Vec<u64> {
    rails_of
        .iter()
        .enumerate()
        .map(|(gpu, rails)| total(load, gpu, *rails))
        .collect()
}

/// A GPU's share of these rails together, in whole Mbit/s.
pub(super) fn total(load: &Load, gpu: usize, rails: RailSet) -> u64 {
    rails.iter().map(|rail| load.share(gpu, rail)).sum::<u64>() / PARTS
}

/// A digit for each kind of path: no node has as many ways as one digit can count.
pub(super) fn path_digit(kind: u8) -> u128 {
    1 << (u32::from(kind) * 16)
}

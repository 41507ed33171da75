//! Rails that no GPU uses in an answer, given as second and further ones.
#![forbid(unsafe_code)]

use super::RailSet;
use super::load::Load;
use super::problem::Problem;
use super::score::shares;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) nearest: RailSet,
    /// GPUs with a rail of `nearest` among their own nearest, itself included
    pub(crate) sharers: usize,
    /// its even part of `nearest`, at least one
    pub(crate) rails: usize,
}

/// Gives GPUs idle rails of their parts in turn, each time one that makes the answer better: more for the worst-off,
/// then for the next.  A rail behind a full link makes none better, or costs others more.  A GPU with several rails of
/// a card gets the rest of it if that costs nothing: the planes of a card belong together.
pub(crate) fn add_idle(
    problem: &Problem,
    mut rails_of: Vec<RailSet>,
    parts: &[Part],
    is_card: impl Fn(usize, usize) -> bool,
) -> Vec<RailSet> {
    let mut load = Load::of(problem, &rails_of);
    let mut best = ascending(&load, &rails_of);
    let mut idle = RailSet::first(problem.rails()).minus(RailSet::union(&rails_of));
    let rounds = parts.iter().map(|part| part.rails).max().unwrap_or(0);
    for round in 1..rounds {
        for (gpu, part) in parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.rails > round)
        {
            let own = rails_of[gpu];
            if own.len() != round {
                continue;
            }
            for rail in idle.and(part.nearest).iter() {
                load.put(gpu, rail);
                rails_of[gpu] = own.with(rail);
                let with_it = ascending(&load, &rails_of);
                let completes = round > 1 && own.iter().any(|other| is_card(other, rail));
                if with_it > best || with_it == best && completes {
                    (best, idle) = (with_it, idle.without(rail));
                    break;
                }
                load.lift(gpu, rail);
                rails_of[gpu] = own;
            }
        }
    }
    rails_of
}

/// The GPUs' shares in whole Mbit/s, the worst-off first.
fn ascending(load: &Load, rails_of: &[RailSet]) -> Vec<u64> {
    let mut shares = shares(load, rails_of);
    shares.sort_unstable();
    shares
}

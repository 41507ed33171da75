//! Rails that no GPU uses in an answer, given as second and further ones.
#![forbid(unsafe_code)]

use super::load::Load;
use super::problem::{Problem, bits};
use super::score::total;

/// What a GPU may have in the end: of these rails, a bit for each, and how many rails in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// rails that it may be given
    pub of: u64,
    /// rails that it may have
    pub rails: usize,
}

/// Gives GPUs idle rails too, in turn, each time one that makes the answer better: what the worst-off gets, then the next.
/// A rail behind a link that is full makes none better, or costs others more.
pub fn add_idle(problem: &Problem, mut rails_of: Vec<Vec<usize>>, most: &[Most]) -> Vec<Vec<usize>> {
    let mut load = Load::of(problem, &rails_of);
    let mut shares = ascending(&load, &rails_of);
    let mut idle = (0..problem.rails())
        .filter(|&rail| load.users(rail).is_empty())
        .fold(0u64, |idle, rail| idle | 1 << rail);
    let rounds = most.iter().map(|most| most.rails).max().unwrap_or(0);
    for round in 1..rounds {
        for (gpu, most) in most.iter().enumerate().filter(|(_, most)| most.rails > round) {
            if rails_of[gpu].len() != round {
                continue;
            }
            for rail in bits(idle & most.of) {
                load.put(gpu, rail);
                rails_of[gpu].push(rail);
                let with_it = ascending(&load, &rails_of);
                if with_it > shares {
                    (shares, idle) = (with_it, idle & !(1 << rail));
                    break;
                }
                load.lift(gpu, rail);
                rails_of[gpu].pop();
            }
        }
    }
    rails_of.iter_mut().for_each(|rails| rails.sort_unstable());
    rails_of
}

/// What the GPUs get, in whole Mbit/s, the worst-off first.
fn ascending(load: &Load, rails_of: &[Vec<usize>]) -> Vec<u64> {
    let shares = rails_of.iter().enumerate().map(|(gpu, rails)| total(load, gpu, rails));
    let mut shares: Vec<u64> = shares.collect();
    shares.sort_unstable();
    shares
}

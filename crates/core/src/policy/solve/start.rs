//! Two simple answers to begin with.
#![forbid(unsafe_code)]

use super::load::Load;
use super::problem::{KINDS, Problem, bits};
use std::cmp::Reverse;

/// GPU after GPU the nearest rail, of these that with the fewest users so far: what other programs do.
pub(super) fn nearest(problem: &Problem) -> Vec<Vec<usize>> {
    let mut users = vec![0; problem.rails()];
    let decided = (0..problem.gpus()).filter(|&gpu| problem.is_decided(gpu));
    decided.flat_map(|gpu| problem.open_to(gpu)).for_each(|rail| users[rail] += 1);
    // the rails of each kind that are open to a GPU, a bit for each: looked up once, they serve in every round
    let of_kinds = |gpu: usize| {
        let mut of_kinds = [0u64; KINDS as usize];
        problem.open_to(gpu).for_each(|rail| of_kinds[usize::from(problem.kind(gpu, rail))] |= 1 << rail);
        of_kinds
    };
    let of_kinds: Vec<[u64; KINDS as usize]> = (0..problem.gpus()).map(of_kinds).collect();
    deal(problem, |gpu, open| {
        let nearest = of_kinds[gpu].iter().map(|of_kind| of_kind & open).find(|rails| *rails != 0)?;
        let rail = bits(nearest).min_by_key(|&rail| (users[rail], rail))?;
        users[rail] += 1;
        Some(rail)
    })
}

/// GPU after GPU the rail that gives it most at that moment.
pub(super) fn richest(problem: &Problem) -> Vec<Vec<usize>> {
    let mut load = Load::new(problem);
    for gpu in (0..problem.gpus()).filter(|&gpu| problem.is_decided(gpu)) {
        problem.open_to(gpu).for_each(|rail| load.put(gpu, rail));
    }
    deal(problem, |gpu, open| {
        let key = |rail: &usize| (Reverse(load.joining(gpu, *rail)), problem.kind(gpu, *rail), *rail);
        let rail = bits(open).min_by_key(key)?;
        load.put(gpu, rail);
        Some(rail)
    })
}

/// Gives every GPU a first rail, then a second one to GPUs that want several, and so on; `next` chooses from the rails that
/// are open to the GPU, a bit for each.  GPUs without a choice have theirs from the start.
fn deal(problem: &Problem, mut next: impl FnMut(usize, u64) -> Option<usize>) -> Vec<Vec<usize>> {
    let given =
        |gpu: usize| if problem.is_decided(gpu) { problem.open_to(gpu).collect() } else { Vec::new() };
    let mut rails_of: Vec<Vec<usize>> = (0..problem.gpus()).map(given).collect();
    let rounds = (0..problem.gpus()).map(|gpu| problem.wants(gpu)).max().unwrap_or(0);
    for round in 0..rounds {
        for gpu in (0..problem.gpus()).filter(|&gpu| !problem.is_decided(gpu) && round < problem.wants(gpu)) {
            let taken = rails_of[gpu].iter().fold(0, |taken, rail| taken | 1 << rail);
            rails_of[gpu].extend(next(gpu, problem.open[gpu] & !taken));
        }
    }
    rails_of.iter_mut().for_each(|rails| rails.sort_unstable());
    rails_of
}

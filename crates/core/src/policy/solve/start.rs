//! Two simple answers to begin with.
#![forbid(unsafe_code)]

use super::RailSet;
use super::answer::Answer;
use super::load::Load;
use super::problem::{KINDS, Problem};
use std::cmp::Reverse;

/// GPU after GPU the nearest rail, of these that with the fewest users so far: what other programs do.
pub(super) fn nearest(problem: &Problem) -> Answer<'_> {
    let mut users = vec![0; problem.rails()];
    let decided = (0..problem.gpus()).filter(|&gpu| problem.is_decided(gpu));
    decided
        .flat_map(|gpu| problem.open(gpu).iter())
        .for_each(|rail| users[rail] += 1);
    // the rails of each kind that are open to a GPU: looked up once, they serve in every round
    let of_kinds = |gpu: usize| {
        let mut of_kinds = [RailSet::default(); KINDS as usize];
        for rail in problem.open(gpu).iter() {
            let of_kind = &mut of_kinds[usize::from(problem.kind(gpu, rail))];
            *of_kind = of_kind.with(rail);
        }
        of_kinds
    };
    let of_kinds: Vec<[RailSet; KINDS as usize]> = (0..problem.gpus()).map(of_kinds).collect();
    let rails_of = in_turn(problem, |gpu, open| {
        let nearest = of_kinds[gpu]
            .iter()
            .map(|of_kind| of_kind.and(open))
            .find(|rails| !rails.is_empty())?;
        let rail = nearest.iter().min_by_key(|&rail| (users[rail], rail))?;
        users[rail] += 1;
        Some(rail)
    });
    Answer::new(problem, rails_of)
}

/// GPU after GPU the rail that gives it most at that moment; of equals the nearest, of these the first.
pub(super) fn richest(problem: &Problem) -> Answer<'_> {
    let mut load = Load::new(problem);
    for gpu in (0..problem.gpus()).filter(|&gpu| problem.is_decided(gpu)) {
        problem
            .open(gpu)
            .iter()
            .for_each(|rail| load.put(gpu, rail));
    }
    let rails_of = in_turn(problem, |gpu, open| {
        let mut best: Option<(u64, Reverse<u8>, usize)> = None;
        for rail in open.iter() {
            let Some(share) = load.joining(gpu, rail, best.map_or(0, |best| best.0)) else {
                continue;
            };
            let near = Reverse(problem.kind(gpu, rail));
            if best.is_none_or(|best| (share, near) > (best.0, best.1)) {
                best = Some((share, near, rail));
            }
        }
        let (.., rail) = best?;
        load.put(gpu, rail);
        Some(rail)
    });
    Answer::with_load(problem, rails_of, load)
}

/// Gives every GPU a first rail, then a second one to GPUs that want several, and so on; `next` chooses from the rails
/// open to the GPU.  GPUs without a choice have theirs from the start.
fn in_turn(
    problem: &Problem,
    mut next: impl FnMut(usize, RailSet) -> Option<usize>,
) -> Vec<RailSet> {
    let decided = |gpu: usize| {
        if problem.is_decided(gpu) {
            problem.open(gpu)
        } else {
            RailSet::default()
        }
    };
    let mut rails_of: Vec<RailSet> = (0..problem.gpus()).map(decided).collect();
    let rounds = (0..problem.gpus())
        .map(|gpu| problem.wants(gpu))
        .max()
        .unwrap_or(0);
    for round in 0..rounds {
        for gpu in (0..problem.gpus())
            .filter(|&gpu| !problem.is_decided(gpu) && round < problem.wants(gpu))
        {
            if let Some(rail) = next(gpu, problem.open(gpu).minus(rails_of[gpu])) {
                rails_of[gpu] = rails_of[gpu].with(rail);
            }
        }
    }
    rails_of
}

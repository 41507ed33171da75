//! The solver's two first answers.

use super::RailSet;
use super::answer::Solved;
use super::load::Load;
use super::problem::{KINDS, Problem};
use std::cmp::Reverse;

/// Each GPU in turn takes its nearest rail; of equals, the least used so far.
pub(super) fn nearest(problem: &Problem) -> Solved<'_> {
    let given = given(problem);
    let mut users = vec![0; problem.rails()];
    given
        .iter()
        .flat_map(|rails| rails.iter())
        .for_each(|rail| users[rail] += 1);
    // `[gpu][kind of path]`: the GPU's open rails
    let mut of_kinds = vec![[RailSet::default(); KINDS as usize]; problem.gpus()];
    for (gpu, of_kinds) in of_kinds.iter_mut().enumerate() {
        for rail in problem.open[gpu].iter() {
            let of_kind = &mut of_kinds[usize::from(problem.kind(gpu, rail))];
            *of_kind = of_kind.with(rail);
        }
    }
    let rails_of = in_turn(problem, given, |gpu, open| {
        let mut near = of_kinds[gpu].iter().map(|of_kind| of_kind.and(open));
        let nearest = near.find(|rails| !rails.is_empty())?;
        let rail = nearest.iter().min_by_key(|&rail| (users[rail], rail))?;
        users[rail] += 1;
        Some(rail)
    });
    Solved::new(problem, rails_of)
}

/// Each GPU in turn takes the rail that has the most bandwidth left for it; of equals the nearest,
/// then the first.
pub(super) fn richest(problem: &Problem) -> Solved<'_> {
    let given = given(problem);
    let mut load = Load::of(problem, &given);
    let rails_of = in_turn(problem, given, |gpu, open| {
        let mut best: Option<(u64, Reverse<u8>, usize)> = None;
        for rail in open.iter() {
            let least = best.map_or(0, |(share, ..)| share);
            let Some(share) = load.joining(gpu, rail, least) else {
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
    Solved::with_load(problem, rails_of, load)
}

/// The rails of GPUs without a choice; other GPUs get none.
fn given(problem: &Problem) -> Vec<RailSet> {
    let given = |gpu: usize| match problem.is_decided(gpu) {
        true => problem.open[gpu],
        false => RailSet::default(),
    };
    (0..problem.gpus()).map(given).collect()
}

/// Gives each GPU with a choice one rail per round, until it has as many as it wants; `next`
/// chooses from the open rails that the GPU lacks.
fn in_turn(
    problem: &Problem,
    mut rails_of: Vec<RailSet>,
    mut next: impl FnMut(usize, RailSet) -> Option<usize>,
) -> Vec<RailSet> {
    let gpus = || (0..problem.gpus()).filter(|&gpu| !problem.is_decided(gpu));
    let rounds = problem.wants.iter().copied().max().unwrap_or(0);
    for round in 0..rounds {
        for gpu in gpus().filter(|&gpu| round < problem.wants[gpu]) {
            if let Some(rail) = next(gpu, problem.open[gpu].minus(rails_of[gpu])) {
                rails_of[gpu] = rails_of[gpu].with(rail);
            }
        }
    }
    rails_of
}

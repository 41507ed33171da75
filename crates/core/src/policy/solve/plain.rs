//! The answer that needs no search: each GPU has the rail that gives it most, and gets as much of it as if it were alone.
#![forbid(unsafe_code)]

use super::answer::Answer;
use super::problem::Problem;
use std::cmp::Reverse;

/// Gives every GPU the rail that gives it most, of several the nearest, if that is one rail and every GPU gets as much of
/// its rail as alone.  Then no other answer is as good: so it is where each GPU has a NIC beside it.
pub(super) fn plain(problem: &Problem) -> Option<Vec<Vec<usize>>> {
    let rails: Option<Vec<Vec<usize>>> =
        (0..problem.gpus()).map(|gpu| Some(vec![favourite(problem, gpu)?])).collect();
    let answer = Answer::new(problem, rails?);
    let favourites = answer.rails_of().iter().map(|rails| rails[0]).enumerate();
    let all_get_all =
        favourites.zip(answer.shares()).all(|((gpu, rail), &share)| problem.alone_mbps(gpu, rail) == share);
    all_get_all.then(|| answer.into_rails())
}

/// The rail that gives most to a GPU that wants one, of these the nearest; `None` where two are alike.
fn favourite(problem: &Problem, gpu: usize) -> Option<usize> {
    let key = |rail: usize| (Reverse(problem.alone_mbps(gpu, rail)), problem.kind(gpu, rail));
    let best = problem.open_to(gpu).min_by_key(|&rail| key(rail))?;
    let is_alone = problem.open_to(gpu).all(|rail| rail == best || key(rail) != key(best));
    (problem.wants(gpu) == 1 && is_alone).then_some(best)
}

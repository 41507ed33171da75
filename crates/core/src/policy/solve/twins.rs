//! GPUs and rails that nothing tells from others but their numbers.
#![forbid(unsafe_code)]

use super::problem::{Problem, bits};

/// For each GPU the last one before it whose ways are the same, where links of its own may stand for links of the other's.
pub(super) fn twin_gpus(problem: &Problem) -> Vec<Option<usize>> {
    // the only GPU that crosses a place
    let mut only: Vec<Option<usize>> = vec![None; problem.places()];
    for gpu in 0..problem.gpus() {
        for place in problem.open_to(gpu).flat_map(|rail| problem.crossed(gpu, rail)) {
            only[place] = Some(only[place].map_or(gpu, |other| if other == gpu { gpu } else { usize::MAX }));
        }
    }
    (0..problem.gpus())
        .map(|gpu| (0..gpu).rev().find(|&before| gpus_are_alike(problem, before, gpu, &only)))
        .collect()
}

fn gpus_are_alike(problem: &Problem, a: usize, b: usize, only: &[Option<usize>]) -> bool {
    if problem.wants(a) != problem.wants(b) || problem.open[a] != problem.open[b] || problem.is_decided(a) {
        return false;
    }
    // which link of the one stands for which of the other
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let mut stands_for = |one: usize, other: usize| {
        if one == other {
            return true;
        }
        let known = pairs.iter().find(|(left, right)| *left == one || *right == other).copied();
        let is_new = known.is_none()
            && only[one] == Some(a)
            && only[other] == Some(b)
            && problem.capacity(one) == problem.capacity(other);
        if is_new {
            pairs.push((one, other));
        }
        is_new || known == Some((one, other))
    };
    bits(problem.open[a]).all(|rail| {
        problem.own(a, rail) == problem.own(b, rail)
            && problem.kind(a, rail) == problem.kind(b, rail)
            && problem.crossed(a, rail).len() == problem.crossed(b, rail).len()
            && problem
                .crossed(a, rail)
                .zip(problem.crossed(b, rail))
                .all(|(one, other)| stands_for(one, other))
    })
}

/// For each rail those before it that no GPU can tell from it: a bit for each.
pub(super) fn twin_rails(problem: &Problem) -> Vec<u64> {
    let twins = |rail: usize| (0..rail).filter(move |&before| rails_are_alike(problem, before, rail));
    (0..problem.rails()).map(|rail| twins(rail).fold(0, |all, twin| all | 1 << twin)).collect()
}

fn rails_are_alike(problem: &Problem, a: usize, b: usize) -> bool {
    let are_alike = |gpu: usize| match (problem.is_open(gpu, a), problem.is_open(gpu, b)) {
        (true, true) => {
            // a GPU without a choice uses both rails, so neither can stay unused in place of the other
            !problem.is_decided(gpu)
                && problem.own(gpu, a) == problem.own(gpu, b)
                && problem.kind(gpu, a) == problem.kind(gpu, b)
                && problem.crossed(gpu, a).skip(1).eq(problem.crossed(gpu, b).skip(1))
        }
        (one, other) => one == other,
    };
    problem.capacity(a) == problem.capacity(b) && (0..problem.gpus()).all(are_alike)
}

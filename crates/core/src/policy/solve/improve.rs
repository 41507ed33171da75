//! Improves an answer by moves of one GPU and exchanges between two, in a fixed number of rounds.
#![forbid(unsafe_code)]

use super::answer::{Answer, Move};
use std::cmp::Reverse;

/// Rounds in which each rail of each GPU is compared with each other rail.  Real nodes need three.
const ROUNDS: usize = 8;
/// Comparisons in all rounds together: 256 GPUs with 8 of 64 NICs each have too many for one round, and few enough for
/// all eight rounds are 16 GPUs with 2 of 32.  A comparison takes up to half a microsecond.
const COMPARISONS: usize = 8192;

/// The answer after GPUs moved to other rails, and exchanged a rail of one for a rail of another, while that was a gain.
pub(super) fn improved(mut answer: Answer) -> Answer {
    let problem = answer.problem();
    let in_one_round = (0..problem.gpus()).map(|gpu| problem.wants(gpu)).sum::<usize>() * problem.rails();
    for _ in 0..ROUNDS.min(COMPARISONS / in_one_round.max(1)) {
        // the worst-off first: a gain of theirs is the greatest
        let mut gpus: Vec<usize> = (0..problem.gpus()).filter(|&gpu| !problem.is_decided(gpu)).collect();
        gpus.sort_by_key(|&gpu| (answer.shares()[gpu], gpu));
        let mut gained = false;
        for gpu in gpus {
            for slot in 0..answer.rails_of()[gpu].len() {
                for to in problem.open_to(gpu) {
                    gained |=
                        try_move(&mut answer, gpu, slot, to) || try_exchanges(&mut answer, gpu, slot, to);
                }
            }
        }
        for to in 0..problem.rails() {
            for from in to + 1..problem.rails() {
                gained |= try_swap(&mut answer, from, to);
            }
        }
        if !gained {
            break;
        }
    }
    answer
}

/// Moves a GPU from the rail in this slot to another one.
fn try_move(answer: &mut Answer, gpu: usize, slot: usize, to: usize) -> bool {
    let rails = &answer.rails_of()[gpu];
    let one = Move { gpu, from: rails[slot], to };
    !rails.contains(&to) && answer.may_move(one) && make_if_gain(answer, &[one])
}

/// Exchanges the rail in this slot with a GPU that has the other one.
fn try_exchanges(answer: &mut Answer, gpu: usize, slot: usize, to: usize) -> bool {
    let problem = answer.problem();
    let rails = &answer.rails_of()[gpu];
    if rails.contains(&to) {
        return false;
    }
    let one = Move { gpu, from: rails[slot], to };
    (0..problem.gpus()).any(|other| {
        let theirs = &answer.rails_of()[other];
        let may_take = theirs.contains(&to)
            && !theirs.contains(&one.from)
            && !problem.is_decided(other)
            && problem.is_open(other, one.from);
        let moves = [one, Move { gpu: other, from: to, to: one.from }];
        may_take && answer.may_exchange(&moves) && make_if_gain(answer, &moves)
    })
}

/// Exchanges two rails among all GPUs that have one of them, where one is better for one of these GPUs, or earlier in order.
fn try_swap(answer: &mut Answer, from: usize, to: usize) -> bool {
    let problem = answer.problem();
    let has = |gpu: usize, rail: usize| answer.rails_of()[gpu].contains(&rail);
    let movers = (0..problem.gpus()).filter(|&gpu| has(gpu, from) != has(gpu, to));
    let moves: Vec<Move> = movers
        .map(|gpu| if has(gpu, from) { Move { gpu, from, to } } else { Move { gpu, from: to, to: from } })
        .collect();
    let may = |one: &Move| !problem.is_decided(one.gpu) && problem.is_open(one.gpu, one.to);
    let is_better = |one: &Move| {
        let key = |rail| (Reverse(problem.own(one.gpu, rail)), problem.kind(one.gpu, rail));
        key(one.to) < key(one.from)
    };
    let is_earlier = moves.first().is_some_and(|first| first.to == to);
    moves.iter().all(may) && (is_earlier || moves.iter().any(is_better)) && make_if_gain(answer, &moves)
}

fn make_if_gain(answer: &mut Answer, moves: &[Move]) -> bool {
    let effect = answer.effect(moves);
    let is_gain = effect.is_gain();
    if is_gain {
        answer.make(moves, &effect);
    }
    is_gain
}

//! Improves an answer by moves of one GPU and exchanges between several, in a fixed number of rounds.
#![forbid(unsafe_code)]

use super::answer::Answer;
use super::load::Move;
use super::problem::PARTS;
use super::score::{path_digit, total};
use std::cmp::{Ordering, Reverse};

/// Rounds in which each rail of each GPU is compared with each other rail.  Real nodes need three.
const ROUNDS: usize = 8;
/// Comparisons in all rounds together, which bound the time of a step: 256 GPUs with 8 of 64 NICs each have too many for one
/// round, and 16 GPUs with 2 of 32 few enough for all eight.
const COMPARISONS: usize = 8192;

/// The answer after GPUs moved to other rails, and exchanged a rail of one for a rail of another, while that was a gain.
pub(super) fn improved(answer: Answer) -> Answer {
    let problem = answer.problem;
    let in_one_round = (0..problem.gpus())
        .map(|gpu| problem.wants(gpu))
        .sum::<usize>()
        * problem.rails();
    let rounds = ROUNDS.min(COMPARISONS / in_one_round.max(1));
    if rounds == 0 {
        return answer;
    }
    let mut improving = Improving::new(answer);
    for _ in 0..rounds {
        if !improving.round() {
            break;
        }
    }
    improving.answer
}

struct Improving<'p> {
    answer: Answer<'p>,
    /// the least share of any GPU
    worst: u64,
    /// `[place]`: the GPUs that cross it, ascending, each as often as it has ways across
    users: Vec<Vec<usize>>,
}

impl<'p> Improving<'p> {
    fn new(answer: Answer<'p>) -> Improving<'p> {
        let mut users = vec![Vec::new(); answer.problem.places()];
        for (gpu, rails) in answer.rails_of.iter().enumerate() {
            let places = rails
                .iter()
                .flat_map(|rail| answer.problem.crossed(gpu, rail));
            places.for_each(|place| users[place].push(gpu));
        }
        Improving {
            worst: answer.worst_mbps(),
            answer,
            users,
        }
    }

    /// Tries to move each GPU to each other rail, and to exchange each two rails; true if one was a gain.
    fn round(&mut self) -> bool {
        let problem = self.answer.problem;
        // the worst-off first: a gain of theirs is the greatest
        let mut gpus: Vec<usize> = (0..problem.gpus())
            .filter(|&gpu| !problem.is_decided(gpu))
            .collect();
        gpus.sort_by_key(|&gpu| (self.answer.shares[gpu], gpu));
        let mut gained = false;
        for gpu in gpus {
            for slot in 0..self.answer.rails_of[gpu].len() {
                for to in problem.open(gpu).iter() {
                    gained |= self.try_rail(gpu, slot, to);
                }
            }
        }
        for to in 0..problem.rails() {
            for from in to + 1..problem.rails() {
                gained |= self.try_swap(from, to);
            }
        }
        gained
    }

    /// Moves a GPU from the rail in this slot to another one, or exchanges the two with a GPU that has that one.
    fn try_rail(&mut self, gpu: usize, slot: usize, to: usize) -> bool {
        let rails = self.answer.rails_of[gpu];
        let Some(from) = rails.iter().nth(slot).filter(|_| !rails.contains(to)) else {
            return false;
        };
        let one = Move { gpu, from, to };
        if self.may_move(one) && self.make_if_gain(&[one]) {
            return true;
        }
        (0..self.users[to].len()).any(|at| {
            let moves = [
                one,
                Move {
                    gpu: self.users[to][at],
                    from: to,
                    to: from,
                },
            ];
            self.may_take(&moves[1]) && self.may_exchange(&moves) && self.make_if_gain(&moves)
        })
    }

    /// Exchanges two rails among all GPUs that have one of them, where one is better for one of these GPUs, or earlier in
    /// order.
    fn try_swap(&mut self, from: usize, to: usize) -> bool {
        let problem = self.answer.problem;
        let mut moves: Vec<Move> = Vec::new();
        for (from, to) in [(from, to), (to, from)] {
            // a GPU that has both stays
            let gpus = self.users[from]
                .iter()
                .filter(|gpu| !self.answer.rails_of[**gpu].contains(to));
            moves.extend(gpus.map(|&gpu| Move { gpu, from, to }));
        }
        moves.sort_unstable_by_key(|one| one.gpu);
        let is_better = |one: &Move| {
            let key = |rail| {
                (
                    Reverse(problem.own(one.gpu, rail)),
                    problem.kind(one.gpu, rail),
                )
            };
            key(one.to) < key(one.from)
        };
        let is_earlier = moves.first().is_some_and(|first| first.to == to);
        (is_earlier || moves.iter().any(is_better))
            && moves.iter().all(|one| self.may_take(one))
            && self.make_if_gain(&moves)
    }

    /// True if the GPU has a choice, may choose the rail to which it would move, and does not have it yet.
    fn may_take(&self, &Move { gpu, to, .. }: &Move) -> bool {
        let Answer {
            problem, rails_of, ..
        } = &self.answer;
        !rails_of[gpu].contains(to) && !problem.is_decided(gpu) && problem.open(gpu).contains(to)
    }

    /// A quick test: true if the answer may become better when a GPU moves to another rail.  It may overlook a gain of
    /// other GPUs: one with several rails can make up for a loss on one of them.
    fn may_move(&self, Move { gpu, from, to }: Move) -> bool {
        let Answer { problem, load, .. } = &self.answer;
        if problem.wants(gpu) > 1 {
            return true;
        }
        let stays = |place: &usize| problem.crossed(gpu, from).any(|own| own == *place);
        let level = |place| {
            if stays(&place) {
                load.levels[place]
            } else {
                load.joining[place]
            }
        };
        let there = problem
            .crossed(gpu, to)
            .map(level)
            .fold(problem.own(gpu, to), u64::min);
        let key = |rail: usize, users: usize| (problem.kind(gpu, rail), users, rail);
        match there.cmp(&load.share(gpu, from)) {
            Ordering::Equal => {
                key(to, self.users[to].len() + 1) < key(from, self.users[from].len())
                    || problem
                        .crossed(gpu, from)
                        .any(|place| load.levels[place] < u64::MAX)
            }
            unequal => unequal == Ordering::Greater,
        }
    }

    /// As `may_move`, of two GPUs that exchange rails.
    fn may_exchange(&self, moves: &[Move; 2]) -> bool {
        let Answer {
            problem,
            load,
            shares,
            ..
        } = &self.answer;
        let most = |&Move { gpu, from, to }: &Move| {
            let there = problem.crossed(gpu, to).map(|place| load.levels[place]);
            let there = there.fold(problem.own(gpu, to), u64::min) / PARTS;
            (shares[gpu] + there).saturating_sub(load.share(gpu, from) / PARTS)
        };
        let before = moves.each_ref().map(|one| shares[one.gpu]);
        let after = moves.each_ref().map(most);
        let sorted = |[one, other]: [u64; 2]| [one.min(other), one.max(other)];
        match sorted(after).cmp(&sorted(before)) {
            Ordering::Equal => self.is_nearer(moves),
            unequal => unequal == Ordering::Greater,
        }
    }

    /// Makes moves between two rails, all together, if the answer becomes better, or as good and earlier in order.
    fn make_if_gain(&mut self, moves: &[Move]) -> bool {
        let places = self.answer.load.attempt(moves);
        moves
            .iter()
            .for_each(|one| self.exchange(one.gpu, one.from, one.to));
        let changed = self.changed_shares(moves, &places);
        let is_gain = changed
            .as_ref()
            .is_some_and(|changed| match self.compare(changed) {
                Ordering::Equal => self.is_nearer(moves),
                unequal => unequal == Ordering::Greater,
            });
        let Some(changed) = changed.filter(|_| is_gain) else {
            self.answer.load.undo(moves, &places);
            moves
                .iter()
                .for_each(|one| self.exchange(one.gpu, one.to, one.from));
            return false;
        };
        self.answer.load.complete(&places);
        for &Move { gpu, from, to } in moves {
            for place in self.answer.problem.crossed(gpu, from) {
                let at = self.users[place].partition_point(|&other| other < gpu);
                self.users[place].remove(at);
            }
            for place in self.answer.problem.crossed(gpu, to) {
                let at = self.users[place].partition_point(|&other| other < gpu);
                self.users[place].insert(at, gpu);
            }
        }
        changed
            .into_iter()
            .for_each(|(gpu, after)| self.answer.shares[gpu] = after);
        self.worst = self.answer.worst_mbps();
        true
    }

    fn exchange(&mut self, gpu: usize, from: usize, to: usize) {
        let rails = &mut self.answer.rails_of[gpu];
        *rails = rails.without(from).with(to);
    }

    /// The GPUs whose shares attempted moves change, with the new shares; `None` if one is below the worst-off GPU's
    /// now.  `places` are those on the moves' ways, with their levels before.
    fn changed_shares(&self, moves: &[Move], places: &[(usize, u64)]) -> Option<Vec<(usize, u64)>> {
        let Answer {
            load,
            rails_of,
            shares,
            ..
        } = &self.answer;
        let other_levels = places
            .iter()
            .filter(|&&(place, before)| load.levels[place] != before);
        let users = other_levels.flat_map(|&(place, _)| &self.users[place]);
        let mut changed: Vec<(usize, u64)> = Vec::new();
        for gpu in moves.iter().map(|one| one.gpu).chain(users.copied()) {
            let after = total(load, gpu, rails_of[gpu]);
            if after < self.worst {
                return None;
            }
            if after != shares[gpu] {
                changed.push((gpu, after));
            }
        }
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }

    /// Compares what these GPUs would get, from the worst-off one on, with what they get now.
    fn compare(&self, changed: &[(usize, u64)]) -> Ordering {
        let mut before: Vec<u64> = changed
            .iter()
            .map(|&(gpu, _)| self.answer.shares[gpu])
            .collect();
        let mut after: Vec<u64> = changed.iter().map(|&(_, after)| after).collect();
        before.sort_unstable();
        after.sort_unstable();
        after.cmp(&before)
    }

    /// True if moves between two rails, which change no share, lead to nearer paths, else to more even use, else to
    /// rails that are earlier in order for the first GPU that moves.
    fn is_nearer(&self, moves: &[Move]) -> bool {
        let Some(&Move { from, to, .. }) = moves.first() else {
            return false;
        };
        let path = |rail: fn(&Move) -> usize| {
            moves
                .iter()
                .map(|one| path_digit(self.answer.problem.kind(one.gpu, rail(one))))
                .sum::<u128>()
        };
        let came = moves
            .iter()
            .map(|one| if one.to == to { 1 } else { -1 })
            .sum::<i64>();
        let users = |rail: usize| self.users[rail].len() as i64;
        let squares = |came: i64| (users(from) - came).pow(2) + (users(to) + came).pow(2);
        let first = moves.iter().min_by_key(|one| one.gpu).unwrap_or(&moves[0]);
        (path(|one| one.to), squares(came), first.to)
            < (path(|one| one.from), squares(0), first.from)
    }
}

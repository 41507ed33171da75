//! Improves an answer by moves of one GPU and exchanges between several.

use super::answer::Solved;
use super::load::Move;
use super::problem::{PARTS, path_digit};
use std::cmp::{Ordering, Reverse};

/// The most rounds; a round compares each rail of each GPU with each other rail. Real nodes need
/// three.
const ROUNDS: usize = 8;
/// The most comparisons in all rounds, a bound on the step's time: 16 GPUs with 2 of 32 NICs each
/// get all eight rounds, 256 GPUs with 8 of 64 none.
const COMPARISONS: usize = 8192;

pub(super) fn improved(answer: Solved) -> Solved {
    let problem = answer.problem;
    let in_one_round = problem.wants.iter().sum::<usize>() * problem.rails();
    let rounds = ROUNDS.min(COMPARISONS / in_one_round.max(1));
    if rounds == 0 {
        return answer;
    }
    let mut users = vec![Vec::new(); problem.capacities.len()];
    for (gpu, rails) in answer.rails_of.iter().enumerate() {
        for link in rails.iter().flat_map(|rail| problem.crossed(gpu, rail)) {
            users[link].push(gpu);
        }
    }
    let mut improving = Improving {
        worst: answer.worst_mbps(),
        answer,
        users,
    };
    for _ in 0..rounds {
        if !improving.round() {
            break;
        }
    }
    improving.answer
}

struct Improving<'p> {
    answer: Solved<'p>,
    /// the least share
    worst: u64,
    /// `[link]`: the GPUs whose paths cross it, ascending, once for each path
    users: Vec<Vec<usize>>,
}

impl Improving<'_> {
    /// Tries every move of a GPU to another rail, and every exchange of two rails; true if one
    /// gained.
    fn round(&mut self) -> bool {
        let problem = self.answer.problem;
        let mut gpus: Vec<usize> = (0..problem.gpus()).collect();
        gpus.retain(|&gpu| !problem.is_decided(gpu));
        // the worst-off GPUs first, since their gains count most
        gpus.sort_by_key(|&gpu| (self.answer.shares[gpu], gpu));
        let mut gained = false;
        for gpu in gpus {
            for slot in 0..self.answer.rails_of[gpu].len() {
                for to in problem.open[gpu].iter() {
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

    /// Moves a GPU from its `slot`-th rail to `to`, or exchanges these rails with a GPU that has
    /// `to`. Keeps only a gain; true if kept.
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
            let other = Move {
                gpu: self.users[to][at],
                from: to,
                to: from,
            };
            let moves = [one, other];
            self.may_take(&other) && self.may_exchange(&moves) && self.make_if_gain(&moves)
        })
    }

    /// Exchanges rails `from` and `to` of the GPUs that have one of them. Keeps only a gain; true
    /// if kept. Tried only if a GPU gets a better rail, or the first GPU gets `to`, the earlier
    /// rail.
    fn try_swap(&mut self, from: usize, to: usize) -> bool {
        let Solved {
            problem, rails_of, ..
        } = &self.answer;
        let mut moves: Vec<Move> = Vec::new();
        for (from, to) in [(from, to), (to, from)] {
            // a GPU that has both stays
            let gpus = self.users[from]
                .iter()
                .filter(|gpu| !rails_of[**gpu].contains(to));
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

    /// True if the GPU has a choice, may have `to`, and does not have it yet.
    fn may_take(&self, &Move { gpu, to, .. }: &Move) -> bool {
        let problem = self.answer.problem;
        let open = problem.open[gpu].minus(self.answer.rails_of[gpu]);
        open.contains(to) && !problem.is_decided(gpu)
    }

    /// A quick test: false if the GPU itself would hardly gain, though others might. Always true
    /// for a GPU with several rails: the others may gain.
    fn may_move(&self, Move { gpu, from, to }: Move) -> bool {
        let Solved { problem, load, .. } = &self.answer;
        if problem.wants[gpu] > 1 {
            return true;
        }
        let level = |link| match problem.crossed(gpu, from).any(|own| own == link) {
            true => load.levels[link],
            false => load.joining[link],
        };
        let levels = problem.crossed(gpu, to).map(level);
        let there = levels.fold(problem.own(gpu, to), u64::min);
        let key = |rail: usize, users: usize| (problem.kind(gpu, rail), users, rail);
        match there.cmp(&load.share(gpu, from)) {
            Ordering::Equal => {
                let mut left = problem.crossed(gpu, from);
                key(to, self.users[to].len() + 1) < key(from, self.users[from].len())
                    || left.any(|link| load.levels[link] < u64::MAX)
            }
            unequal => unequal == Ordering::Greater,
        }
    }

    /// As `may_move`, for two GPUs that exchange rails.
    fn may_exchange(&self, moves: &[Move; 2]) -> bool {
        let Solved {
            problem,
            load,
            shares,
            ..
        } = &self.answer;
        let most = |&Move { gpu, from, to }: &Move| {
            let levels = problem.crossed(gpu, to).map(|link| load.levels[link]);
            let there = levels.fold(problem.own(gpu, to), u64::min) / PARTS;
            (shares[gpu] + there).saturating_sub(load.share(gpu, from) / PARTS)
        };
        let mut before = moves.each_ref().map(|one| shares[one.gpu]);
        let mut after = moves.each_ref().map(most);
        before.sort_unstable();
        after.sort_unstable();
        self.is_gain(after.cmp(&before), moves)
    }

    /// Makes `moves`, all between two rails, if together they gain; true if made.
    fn make_if_gain(&mut self, moves: &[Move]) -> bool {
        let before = self.answer.load.attempt(moves);
        for one in moves {
            self.exchange(one.gpu, one.from, one.to);
        }
        let changed = self.changed_shares(moves, &before);
        let Some(changed) = changed.filter(|new| self.is_gain(self.compare(new), moves)) else {
            self.answer.load.undo(moves, &before);
            for one in moves {
                self.exchange(one.gpu, one.to, one.from);
            }
            return false;
        };
        for (link, _) in before {
            self.answer.load.reckon(link);
        }
        for &Move { gpu, from, to } in moves {
            for (rail, comes) in [(from, false), (to, true)] {
                for link in self.answer.problem.crossed(gpu, rail) {
                    let users = &mut self.users[link];
                    let at = users.partition_point(|&other| other < gpu);
                    match comes {
                        true => users.insert(at, gpu),
                        false => _ = users.remove(at),
                    }
                }
            }
        }
        for (gpu, after) in changed {
            self.answer.shares[gpu] = after;
        }
        self.worst = self.answer.worst_mbps();
        true
    }

    fn exchange(&mut self, gpu: usize, from: usize, to: usize) {
        let rails = &mut self.answer.rails_of[gpu];
        *rails = rails.without(from).with(to);
    }

    /// The GPUs whose shares the attempted moves change, with the new shares; `None` if a share
    /// falls below the present least. `before` is from `Load::attempt`.
    fn changed_shares(&self, moves: &[Move], before: &[(usize, u64)]) -> Option<Vec<(usize, u64)>> {
        let Solved {
            load,
            rails_of,
            shares,
            ..
        } = &self.answer;
        let other_levels = before
            .iter()
            .filter(|&&(link, before)| load.levels[link] != before);
        let users = other_levels.flat_map(|&(link, _)| &self.users[link]);
        let mut changed: Vec<(usize, u64)> = Vec::new();
        for gpu in moves.iter().map(|one| one.gpu).chain(users.copied()) {
            let after = load.total(gpu, rails_of[gpu]);
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

    /// Compares the new shares with the present ones, from the least on.
    fn compare(&self, changed: &[(usize, u64)]) -> Ordering {
        let (mut before, mut after): (Vec<u64>, Vec<u64>) = changed
            .iter()
            .map(|&(gpu, after)| (self.answer.shares[gpu], after))
            .unzip();
        before.sort_unstable();
        after.sort_unstable();
        after.cmp(&before)
    }

    /// True if `shares` (new against present) is `Greater`. If `Equal`: true for nearer paths, else
    /// more even use of the rails, else an earlier rail for the first GPU that moves.
    fn is_gain(&self, shares: Ordering, moves: &[Move]) -> bool {
        if shares != Ordering::Equal {
            return shares == Ordering::Greater;
        }
        let Some(&Move { from, to, .. }) = moves.iter().min_by_key(|one| one.gpu) else {
            return false;
        };
        let path = |rail: fn(&Move) -> usize| {
            let kinds = moves
                .iter()
                .map(|one| self.answer.problem.kind(one.gpu, rail(one)));
            kinds.map(path_digit).sum::<u128>()
        };
        let came = moves
            .iter()
            .map(|one| if one.to == to { 1 } else { -1 })
            .sum::<i64>();
        let users = |rail: usize| self.users[rail].len() as i64;
        let squares = |came: i64| (users(from) - came).pow(2) + (users(to) + came).pow(2);
        (path(|one| one.to), squares(came), to) < (path(|one| one.from), squares(0), from)
    }
}

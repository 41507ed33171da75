//! An answer with its shares, and what becomes of it when GPUs move.
#![forbid(unsafe_code)]

use super::load::Load;
use super::problem::{PARTS, Problem};
use super::score::{Score, path_digit, total};
use std::cmp::{Ordering, Reverse};

/// One GPU gives up a rail and takes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) gpu: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// What an answer loses against the one before a GPU moved, in the first respect in which they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// this GPU gets this much instead of that, in Mbit/s, and nothing that others gain weighs it up
    Less {
        /// the GPU
        gpu: usize,
        /// what it gets after the move
        there: u64,
        /// what it gets before
        here: u64,
    },
    /// its paths are farther
    Path,
    /// it uses the rails less evenly
    Users,
    /// nothing but its place in the order
    Order,
    /// it is the better one
    Gain,
}

/// What a change does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effect {
    /// GPUs in order, what each gets before, and after, in whole Mbit/s
    shares: Vec<(usize, u64, u64)>,
    /// what it adds to [`super::Score::path`], round the end
    path: u128,
    users: i64,
    /// where the moved GPUs' rails come in the order of answers, compared with where they came
    order: Ordering,
}

/// An answer, open to changes.
pub struct Answer<'p> {
    problem: &'p Problem,
    rails_of: Vec<Vec<usize>>,
    load: Load<'p>,
    /// what each GPU gets, in whole Mbit/s
    shares: Vec<u64>,
}

impl<'p> Answer<'p> {
    /// An answer to a problem: for each GPU its rails.
    pub fn new(problem: &'p Problem, rails_of: Vec<Vec<usize>>) -> Answer<'p> {
        let load = Load::of(problem, &rails_of);
        let shares = rails_of.iter().enumerate().map(|(gpu, rails)| total(&load, gpu, rails)).collect();
        Answer { problem, rails_of, load, shares }
    }

    /// What it answers.
    pub(super) fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// For each GPU its rails.
    pub fn rails_of(&self) -> &[Vec<usize>] {
        &self.rails_of
    }

    /// What each GPU gets, in Mbit/s.
    pub(super) fn shares(&self) -> &[u64] {
        &self.shares
    }

    /// What a GPU gets of one of its rails, in Mbit/s.
    pub fn share_mbps(&self, gpu: usize, rail: usize) -> u64 {
        self.load.share(gpu, rail) / PARTS
    }

    /// GPUs on a rail.
    pub fn users(&self, rail: usize) -> usize {
        self.load.users(rail).len()
    }

    /// The answer alone.
    pub(super) fn into_rails(self) -> Vec<Vec<usize>> {
        self.rails_of
    }

    /// Its score.
    pub(super) fn score(&self) -> Score {
        Score::with(self.problem, &self.rails_of, &self.load, self.shares.clone())
    }

    /// Has each GPU the rails that give it most and are nearest, as if it were alone on the node, and are these no others'
    /// equals?  Then no answer is as good.
    pub(super) fn is_ideal(&self) -> bool {
        let Answer { problem, rails_of, load, .. } = self;
        rails_of.iter().enumerate().all(|(gpu, rails)| {
            let key = |rail: usize| (Reverse(problem.own(gpu, rail)), problem.kind(gpu, rail));
            let farthest = rails.iter().map(|&rail| key(rail)).max();
            rails.iter().all(|&rail| load.share(gpu, rail) == problem.own(gpu, rail))
                && problem.open_to(gpu).all(|rail| rails.contains(&rail) || Some(key(rail)) > farthest)
        })
    }

    /// Can the answer become better if a GPU moves to another rail?  A quick look, which may overlook a gain of others: a GPU
    /// with several rails can weigh a loss on one up by what the others gain.
    pub(super) fn may_move(&self, Move { gpu, from, to }: Move) -> bool {
        let Answer { problem, load, .. } = self;
        if problem.wants(gpu) > 1 {
            return true;
        }
        let stays = |place: &usize| problem.crossed(gpu, from).any(|own| own == *place);
        let level = |place| if stays(&place) { load.level(place) } else { load.level_for_one_more(place) };
        let there = problem.crossed(gpu, to).map(level).fold(problem.own(gpu, to), u64::min);
        let key = |rail: usize, users: usize| (problem.kind(gpu, rail), users, rail);
        match there.cmp(&load.share(gpu, from)) {
            Ordering::Equal => {
                key(to, load.users(to).len() + 1) < key(from, load.users(from).len())
                    || problem.crossed(gpu, from).any(|place| load.level(place) < u64::MAX)
            }
            unequal => unequal == Ordering::Greater,
        }
    }

    /// The same of two GPUs that exchange rails.
    pub(super) fn may_exchange(&self, moves: &[Move; 2]) -> bool {
        let Answer { problem, load, shares, .. } = self;
        let most = |&Move { gpu, from, to }: &Move| {
            let there = problem.crossed(gpu, to).map(|place| load.level(place));
            let there = there.fold(problem.own(gpu, to), u64::min) / PARTS;
            (shares[gpu] + there).saturating_sub(load.share(gpu, from) / PARTS)
        };
        let before = moves.each_ref().map(|one| shares[one.gpu]);
        let after = moves.each_ref().map(most);
        let sorted = |[one, other]: [u64; 2]| [one.min(other), one.max(other)];
        match sorted(after).cmp(&sorted(before)) {
            Ordering::Equal => {
                let kinds = |rail: fn(&Move) -> usize| {
                    let digits = moves.iter().map(|one| path_digit(problem.kind(one.gpu, rail(one))));
                    digits.sum::<u128>()
                };
                let [one, other] = moves;
                let is_earlier = (one.gpu < other.gpu) == (one.to < one.from);
                let (to, from) = (kinds(|one| one.to), kinds(|one| one.from));
                to < from || to == from && is_earlier
            }
            unequal => unequal == Ordering::Greater,
        }
    }

    /// What would be lost if a GPU took a rail in place of that of its own which it would miss least, and no other GPU
    /// moved; `None` where it has none to give up.
    pub fn loss(&mut self, gpu: usize, to: usize) -> Option<Loss> {
        let mut least: Option<Effect> = None;
        for at in 0..self.rails_of[gpu].len() {
            let effect = self.effect(&[Move { gpu, from: self.rails_of[gpu][at], to }]);
            if least.as_ref().is_none_or(|least| effect.compare(least) == Ordering::Less) {
                least = Some(effect);
            }
        }
        least.map(|effect| effect.loss(gpu))
    }

    /// What moves would do, all together.
    pub(super) fn effect(&mut self, moves: &[Move]) -> Effect {
        let mut places: Vec<(usize, u64)> = Vec::new();
        let mut effect = Effect::NONE;
        // answers differ in order where the first GPU that moves does
        let first = moves.iter().map(|one| one.gpu).min().unwrap_or(0);
        let rails_before = self.rails_of[first].clone();
        for &Move { gpu, from, to } in moves {
            let ways = self.problem.crossed(gpu, from).chain(self.problem.crossed(gpu, to));
            places.extend(ways.map(|place| (place, self.load.level(place))));
            let digit = |rail| path_digit(self.problem.kind(gpu, rail));
            effect.path = effect.path.wrapping_add(digit(to)).wrapping_sub(digit(from));
        }
        let squares = |answer: &Answer| -> i64 {
            let mut rails: Vec<usize> = moves.iter().flat_map(|one| [one.from, one.to]).collect();
            rails.sort_unstable();
            rails.dedup();
            rails.into_iter().map(|rail| answer.users(rail).pow(2) as i64).sum()
        };
        let before = squares(self);
        self.carry_out(moves);
        effect.users = squares(self) - before;
        effect.order = self.rails_of[first].cmp(&rails_before);
        let mut gpus: Vec<usize> = moves.iter().map(|one| one.gpu).collect();
        for (place, before) in places {
            if self.load.level(place) != before {
                gpus.extend(self.load.users(place).iter().map(|&(_, gpu)| gpu as usize));
            }
        }
        gpus.sort_unstable();
        gpus.dedup();
        let after = |gpu: usize| (gpu, self.shares[gpu], total(&self.load, gpu, &self.rails_of[gpu]));
        effect.shares = gpus.into_iter().map(after).filter(|(_, before, after)| before != after).collect();
        let back: Vec<Move> =
            moves.iter().rev().map(|&Move { gpu, from, to }| Move { gpu, from: to, to: from }).collect();
        self.carry_out(&back);
        effect
    }

    /// Makes the moves, of which the effect is known.
    pub(super) fn make(&mut self, moves: &[Move], effect: &Effect) {
        self.carry_out(moves);
        effect.shares.iter().for_each(|&(gpu, _, after)| self.shares[gpu] = after);
    }

    fn carry_out(&mut self, moves: &[Move]) {
        for &Move { gpu, from, to } in moves {
            self.load.lift(gpu, from);
            self.load.put(gpu, to);
            if let Some(rail) = self.rails_of[gpu].iter_mut().find(|rail| **rail == from) {
                *rail = to;
            }
            self.rails_of[gpu].sort_unstable();
        }
    }
}

impl Effect {
    /// That of no change.
    const NONE: Effect = Effect { shares: Vec::new(), path: 0, users: 0, order: Ordering::Equal };

    /// Which of two changes of one answer leads to the better one; `Less` is better.
    fn compare(&self, other: &Effect) -> Ordering {
        let (mine, theirs) = self.beside(other);
        theirs.cmp(&mine).then_with(|| {
            // at most half of the range either way, so that the sign is the difference's
            let path = self.path.wrapping_sub(other.path) as i128;
            (path, self.users).cmp(&(0, other.users))
        })
    }

    /// Does it make the answer better, or as good and earlier in order?
    pub(super) fn is_gain(&self) -> bool {
        self.compare(&Effect::NONE).then(self.order) == Ordering::Less
    }

    /// The shares of all GPUs that one of two changes touches, after each of the two, ascending.
    fn beside(&self, other: &Effect) -> (Vec<u64>, Vec<u64>) {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        let (mut a, mut b) = (self.shares.iter().peekable(), other.shares.iter().peekable());
        loop {
            let (gpu_a, gpu_b) = (a.peek().map(|one| one.0), b.peek().map(|one| one.0));
            let Some(gpu) = gpu_a.into_iter().chain(gpu_b).min() else { break };
            let (one, two) = (a.next_if(|one| one.0 == gpu), b.next_if(|one| one.0 == gpu));
            let before = one.or(two).map_or(0, |one| one.1);
            mine.push(one.map_or(before, |one| one.2));
            theirs.push(two.map_or(before, |two| two.2));
        }
        mine.sort_unstable();
        theirs.sort_unstable();
        (mine, theirs)
    }

    /// What is lost where `mover` moved: it is named before others that lose as much.
    fn loss(&self, mover: usize) -> Loss {
        let (after, before) = self.beside(&Effect::NONE);
        let differing = after.iter().zip(&before).find(|(after, before)| after != before);
        match (differing, self.path as i128, self.users) {
            (Some((after, before)), _, _) if after > before => Loss::Gain,
            (Some((&level, _)), _, _) => {
                // more GPUs than before have no more than this
                let fallen =
                    self.shares.iter().filter(|(_, before, after)| *after <= level && level < *before);
                let gpu = fallen.max_by_key(|&&(gpu, _, after)| (after, gpu == mover, Reverse(gpu)));
                gpu.map_or(Loss::Order, |&(gpu, here, there)| Loss::Less { gpu, there, here })
            }
            (None, 1.., _) => Loss::Path,
            (None, 0, 1..) => Loss::Users,
            (None, 0, 0) => Loss::Order,
            (None, ..) => Loss::Gain,
        }
    }
}

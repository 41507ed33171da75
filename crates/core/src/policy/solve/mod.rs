//! The assignment solver: every GPU its rails, as even and as near as the machine allows.
//!
//! In this order: the worst GPU's share as large as possible; the sum of all shares as large as possible; paths as near as
//! possible; users spread as evenly as possible; rails in order.  A GPU's share is the sum over its rails; on each, what
//! the narrowest place on the way leaves it, a place that `u` GPUs cross being divided by `u`, times what the kind of path
//! lets through.
//!
//! There are two ways, and each says whether its answer is proven the best: all ways to deal up to
//! [`subsets::MOST_GPUS`] GPUs to rails, where nothing but the rails is shared ([`subsets`]); and a search that starts with
//! a good answer and is cut off after a bounded number of steps ([`search`]).
#![forbid(unsafe_code)]

mod search;
mod subsets;
#[cfg(test)]
mod tests;

/// Rails, at most: one bit each in a word.
pub const MOST_RAILS: usize = 64;
/// Shares are compared in this part of a Mbit/s, a multiple of 1 to 16, so that they divide without remainder.
const PARTS: u64 = 720_720;

/// One GPU's way to one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// what the kind of path lets through, in thousandths
    pub through: u64,
    /// kind of path, 0 the nearest, below [`KINDS`]
    pub kind: u8,
    /// places on the way, positions in [`Problem::capacities`]; the rail itself is the place with its own number
    pub crosses: Vec<usize>,
}

/// Kinds of path that can be told apart: 9 bits of a word for each.
pub const KINDS: u8 = 7;

/// What the solver is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// `[gpu][rail]`
    pub edges: Vec<Vec<Edge>>,
    /// what each place carries, in Mbit/s: the rails first, then links that several of them are reached by
    pub capacities: Vec<u64>,
    /// number of rails, at most [`MOST_RAILS`]
    pub rails: usize,
    /// rails that each GPU gets, at least 1; all of them where there are fewer
    pub each: usize,
}

/// What the solver answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// the rails of each GPU, ascending
    pub rails_of: Vec<Vec<usize>>,
    /// is it proven that there is no better?
    pub exact: bool,
}

/// How good an answer is; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// the worst GPU's share, from the top down
    worst: u64,
    /// the sum of shares, negated
    sum: i64,
    /// how many paths of each kind, the farthest in the highest digit
    path: u64,
    /// sum of the squares of the rails' users
    users: u64,
}

impl Score {
    fn new(worst: u64, sum: u64, path: u64, users: u64) -> Score {
        Score { worst: u64::MAX - worst, sum: -(sum as i64), path, users }
    }

    /// The worst GPU's share, in Mbit/s, rounded down.
    pub fn worst_mbps(&self) -> u64 {
        (u64::MAX - self.worst) / PARTS
    }

    /// Is the worst GPU's share better than in `other`?
    pub fn is_less_bad_than(&self, other: &Score) -> bool {
        self.worst < other.worst
    }
}

impl Problem {
    /// What the way lets through when nobody shares it, in Mbit/s.
    pub fn value(&self, gpu: usize, rail: usize) -> u64 {
        let edge = &self.edges[gpu][rail];
        let narrowest = edge.crosses.iter().map(|&place| self.capacities[place]).min().unwrap_or(0);
        narrowest * edge.through / 1000
    }

    fn gpus(&self) -> usize {
        self.edges.len()
    }

    /// Rails that each GPU really gets.
    fn wanted(&self) -> usize {
        self.each.clamp(1, self.rails.max(1))
    }

    /// GPUs' ways that cross each place.
    fn users(&self, rails_of: &[Vec<usize>]) -> Vec<u64> {
        let mut users = vec![0; self.capacities.len()];
        for (gpu, rails) in rails_of.iter().enumerate() {
            for place in rails.iter().flat_map(|&rail| &self.edges[gpu][rail].crosses) {
                users[*place] += 1;
            }
        }
        users
    }

    /// One GPU's share of one rail, in parts of a Mbit/s, where the places have these users.
    fn share(&self, gpu: usize, rail: usize, users: &[u64]) -> u64 {
        let edge = &self.edges[gpu][rail];
        let shares = edge.crosses.iter().map(|&place| self.capacities[place] * PARTS / users[place].max(1));
        shares.min().unwrap_or(0) * edge.through / 1000
    }

    /// How good an answer is.
    pub fn score(&self, rails_of: &[Vec<usize>]) -> Score {
        let users = self.users(rails_of);
        let (mut worst, mut sum, mut path) = (u64::MAX, 0, 0);
        for (gpu, rails) in rails_of.iter().enumerate() {
            let share = rails.iter().map(|&rail| self.share(gpu, rail, &users)).sum();
            worst = worst.min(share);
            sum += share;
            path += rails.iter().map(|&rail| path_digit(self.edges[gpu][rail].kind)).sum::<u64>();
        }
        Score::new(worst, sum, path, squares(&users[..self.rails]))
    }

    /// Each rail's share of each GPU in an answer, in Mbit/s, in the answer's order.
    pub fn shares(&self, rails_of: &[Vec<usize>]) -> Vec<Vec<u64>> {
        let users = self.users(rails_of);
        let share = |gpu: usize, rail: &usize| self.share(gpu, *rail, &users) / PARTS;
        rails_of
            .iter()
            .enumerate()
            .map(|(gpu, rails)| rails.iter().map(|rail| share(gpu, rail)).collect())
            .collect()
    }

    /// What no answer can be better than: every GPU alone on its best rails, and no rail carrying more than it can.
    fn ideal(&self) -> Score {
        let wanted = self.wanted();
        let alone = vec![1; self.capacities.len()];
        let (mut worst, mut sum, mut path) = (u64::MAX, 0u64, 0);
        for gpu in 0..self.gpus() {
            let mut shares: Vec<u64> = (0..self.rails).map(|rail| self.share(gpu, rail, &alone)).collect();
            shares.sort_unstable_by_key(|share| u64::MAX - share);
            let mut digits: Vec<u64> = self.edges[gpu].iter().map(|edge| path_digit(edge.kind)).collect();
            digits.sort_unstable();
            let share = shares.iter().take(wanted).sum();
            worst = worst.min(share);
            sum += share;
            path += digits.iter().take(wanted).sum::<u64>();
        }
        let carried = self.carried();
        // as many as there are GPUs cannot all have more than their part of what the rails carry
        let gpus = self.gpus().max(1) as u64;
        Score::new(
            worst.min(carried / gpus),
            sum.min(carried),
            path,
            even_squares(&[], self.rails, self.gpus() * wanted),
        )
    }

    /// What all rails together can give, in parts of a Mbit/s.
    fn carried(&self) -> u64 {
        (0..self.rails)
            .map(|rail| {
                let through = self.edges.iter().map(|edges| edges[rail].through).max().unwrap_or(0);
                self.capacities[rail] * PARTS * through / 1000
            })
            .sum()
    }
}

/// Solves; no rail gives an empty answer.
pub fn solve(problem: &Problem) -> Solution {
    if problem.rails == 0 || problem.edges.is_empty() {
        return Solution { rails_of: Vec::new(), exact: true };
    }
    if problem.wanted() == problem.rails {
        return Solution { rails_of: vec![(0..problem.rails).collect(); problem.gpus()], exact: true };
    }
    if let Some(solution) = subsets::solve(problem) {
        return solution;
    }
    search::solve(problem)
}

/// The best answer in which GPUs that `kept` names keep their rails.
pub fn solve_around(problem: &Problem, kept: &[Option<Vec<usize>>]) -> Solution {
    search::around(problem, kept)
}

/// A digit for each kind of path; 256 GPUs fit one digit.
fn path_digit(kind: u8) -> u64 {
    1 << (u32::from(kind.min(KINDS - 1)) * 9)
}

fn squares(users: &[u64]) -> u64 {
    users.iter().map(|users| users * users).sum()
}

/// The least sum of squares when `more` users join these rails' users (missing ones have none).
fn even_squares(users: &[u64], rails: usize, more: usize) -> u64 {
    let mut users: Vec<u64> = users.iter().copied().chain(std::iter::repeat(0)).take(rails).collect();
    for _ in 0..more {
        if let Some(least) = users.iter_mut().min() {
            *least += 1;
        }
    }
    squares(&users)
}

/// What an answer loses against another one, in the first respect in which they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// the worst GPU gets this much instead of that, in Mbit/s
    Worst(u64, u64),
    /// all GPUs together get this much instead of that, in Mbit/s
    Sum(u64, u64),
    /// its paths are farther
    Path,
    /// it uses the rails less evenly
    Users,
    /// nothing but its place in the order
    Order,
    /// it is the better one
    Gain,
}

impl Score {
    /// What is lost against `other`.
    pub fn loss(&self, other: &Score) -> Loss {
        let sum = |score: &Score| score.sum.unsigned_abs() / PARTS;
        if self < other {
            Loss::Gain
        } else if self.worst != other.worst {
            Loss::Worst(self.worst_mbps(), other.worst_mbps())
        } else if self.sum != other.sum {
            Loss::Sum(sum(self), sum(other))
        } else if self.path != other.path {
            Loss::Path
        } else if self.users != other.users {
            Loss::Users
        } else {
            Loss::Order
        }
    }
}

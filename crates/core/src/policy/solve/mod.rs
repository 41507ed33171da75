//! The assignment solver: every GPU its rails, as even and as near as the machine allows.
//!
//! In this order: what the worst-off GPU gets, then the next, up to the best-off (leximin); paths as near as possible;
//! users spread as evenly as possible; rails in order.  A GPU's share of a rail is the least of what its own way lets
//! through and of what every place on it leaves to it: the rail's port, PCIe links, the connection of two sockets.  A place
//! divides what it carries evenly among the ways that cross it, and what one way cannot use, since it lets less through,
//! the others get.  Shares of several rails add up.
//!
//! The solver starts with the better of two simple answers (`start`).  What the worst-off GPU gets there rules out many
//! ways, and often the problem falls into parts (`part`) that are solved by themselves: where no answer can be better than
//! the known one (`bound`) that is all, else it is improved by moves, and then all answers are walked through that could
//! be better (`search`).  All this is work that a [`Budget`] limits; where that ends, the answer is good and not proven.
#![forbid(unsafe_code)]

mod answer;
mod bound;
mod budget;
mod crowd;
mod draft;
mod idle;
mod level;
mod load;
mod part;
mod plain;
mod problem;
mod reduce;
mod score;
mod search;
mod start;
#[cfg(test)]
mod tests;
mod twins;

pub use answer::{Answer, Loss};
pub use budget::Budget;
pub use draft::Draft;
pub use idle::{Most, deal_idle};
pub use problem::{KINDS, Problem};
pub use score::Score;

use bound::Bounds;
use part::Part;
use search::{Goal, search};

/// Rails, at most.
pub const MOST_RAILS: usize = 64;
/// GPUs of a part of which the first of several best answers in rail order is looked for, at most.
const MOST_ORDERED: usize = 10;

/// GPUs whose rails are given, and `None` for the others.
pub type Kept = [Option<Vec<usize>>];

/// What the solver answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// the rails of each GPU, ascending
    pub rails_of: Vec<Vec<usize>>,
    /// is it proven that there is no better?
    pub exact: bool,
}

/// Solves; no rail gives an empty answer.
pub fn solve(problem: &Problem, budget: &mut Budget) -> Solution {
    solve_around(problem, &vec![None; problem.gpus()], budget)
}

/// The best answer in which GPUs that `kept` names keep their rails.
pub fn solve_around(problem: &Problem, kept: &Kept, budget: &mut Budget) -> Solution {
    if problem.rails() == 0 || problem.gpus() == 0 {
        return Solution { rails_of: Vec::new(), exact: true };
    }
    let whole = problem.around(kept);
    let ways = (problem.gpus() * problem.rails()) as u64;
    if !budget.spend(4 * ways) {
        return Solution { rails_of: start::nearest(&whole), exact: false };
    }
    let plain = match kept.iter().all(Option::is_none) {
        true => problem.plain.clone(),
        false => plain::plain(&whole),
    };
    if let Some(rails_of) = plain {
        return Solution { rails_of, exact: true };
    }
    let near = Answer::new(&whole, start::nearest(&whole));
    if problem.gpus() > MOST_ORDERED && near.is_best(budget) {
        return Solution { rails_of: near.into_rails(), exact: true };
    }
    let rounds = (0..problem.gpus()).map(|gpu| problem.wants(gpu)).max().unwrap_or(1) as u64;
    let rails_of = match richest(&whole, 16 * ways * rounds, budget) {
        Some(rich) if rich.score() < near.score() => rich.into_rails(),
        _ => near.into_rails(),
    };
    let mut solution = Solution { rails_of: vec![Vec::new(); problem.gpus()], exact: true };
    let mut open = vec![Part::whole(whole, rails_of)];
    // small parts first, so that a large one leaves them their part of the budget
    while let Some(smallest) = (0..open.len()).min_by_key(|&at| open[at].size()) {
        let part = open.swap_remove(smallest);
        if let Some(part) = settled(part, &mut open, budget, &mut solution.exact) {
            for (&gpu, rails) in part.gpus.iter().zip(&part.rails_of) {
                solution.rails_of[gpu] = rails.iter().map(|&rail| part.rails[rail]).collect();
            }
        }
    }
    solution
}

/// The answer in which GPU after GPU takes what gives it most, unless that is more work than half of what is left.
fn richest<'p>(problem: &'p Problem, looks: u64, budget: &mut Budget) -> Option<Answer<'p>> {
    let may = looks <= budget.left() / 2;
    (may && budget.spend(looks)).then(|| Answer::new(problem, start::richest(problem)))
}

/// A part with the best answer to it, or with one for which that is not `exact`; `None` where it fell into parts that were
/// added to `open`.
fn settled<'p>(
    mut part: Part<'p>,
    open: &mut Vec<Part<'p>>,
    budget: &mut Budget,
    exact: &mut bool,
) -> Option<Part<'p>> {
    if budget.is_spent() {
        *exact = false;
        return Some(part);
    }
    let mut answer = Answer::new(&part.problem, part.rails_of.clone());
    budget.spend(8 * (part.problem.gpus() * part.problem.rails()) as u64);
    if let Some(mut parts) = part.split(answer.shares()) {
        open.append(&mut parts);
        return None;
    }
    let mut is_best = answer.is_best(budget);
    if !is_best {
        start::improve(&mut answer, budget);
        part.rails_of = answer.rails_of().to_vec();
        let parts = if budget.is_spent() { None } else { part.split(answer.shares()) };
        if let Some(mut parts) = parts {
            open.append(&mut parts);
            return None;
        }
        is_best = budget.left() > 0 && answer.is_best(budget)
            || search(&part.problem, Goal::Best, &mut part.rails_of, budget);
    }
    if is_best && part.gpus.len() <= MOST_ORDERED {
        search(&part.problem, Goal::First, &mut part.rails_of, budget);
    }
    *exact &= is_best;
    Some(part)
}

/// What no answer gives the worst-off GPU more than, in Mbit/s.
pub fn most_for_the_worst(problem: &Problem, budget: &mut Budget) -> u64 {
    let bounds = Bounds::new(problem);
    let most = bounds.begun().most_for_the_worst();
    budget.spend(bounds.begun().load.take_looks());
    most
}

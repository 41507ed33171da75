//! The assignment solver: every GPU its rails, as even and as near as the machine allows.
//!
//! In this order: what the worst-off GPU gets, then the next, up to the best-off (leximin); paths as near as possible;
//! users spread as evenly as possible; rails in order.  A GPU's share of a rail is the least of what its own way lets
//! through and of what every place on it leaves to it: the rail's port, PCIe links, the connection of two sockets.  A place
//! divides what it carries evenly among the ways that cross it, and what one way cannot use, since it lets less through,
//! the others get.  Shares of several rails add up.
//!
//! The solver starts with two simple answers (`start`), improves each by moves and exchanges of rails (`improve`), in a fixed
//! number of rounds, and takes the better one.  The tests compare it with exhaustive search.
#![forbid(unsafe_code)]

mod answer;
mod idle;
mod improve;
mod load;
mod problem;
mod score;
mod start;
#[cfg(test)]
pub(super) mod tests;

pub use answer::{Answer, Loss};
pub use idle::{Most, add_idle};
pub use problem::{KINDS, Problem};
pub use score::Score;

/// Rails, at most: the rails of a GPU are bits of a `u64`.
pub const MOST_RAILS: usize = 64;

/// GPUs whose rails are given, and `None` for the others.
pub type Kept = [Option<Vec<usize>>];

/// A good answer: for each GPU its rails, ascending.  Empty where there is no GPU or no rail.
pub fn solve(problem: &Problem) -> Vec<Vec<usize>> {
    if problem.rails() == 0 || problem.gpus() == 0 {
        return Vec::new();
    }
    let near = Answer::new(problem, start::nearest(problem));
    if near.is_ideal() {
        return near.into_rails();
    }
    let rich = Answer::new(problem, start::richest(problem));
    let [near, rich] = [near, rich].map(improve::improved);
    if rich.score() < near.score() { rich.into_rails() } else { near.into_rails() }
}

/// A good answer in which GPUs that `kept` names keep their rails.
pub fn solve_around(problem: &Problem, kept: &Kept) -> Vec<Vec<usize>> {
    if kept.iter().all(Option::is_none) {
        return solve(problem);
    }
    let mut around = problem.clone();
    around.keep(kept);
    solve(&around)
}

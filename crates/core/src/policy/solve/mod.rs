//! The assignment solver: every GPU gets rails, as evenly and as near as the machine allows.
//!
//! Answers are compared by the GPUs' shares from the worst-off to the best-off (leximin), then by
//! nearer paths, by equal numbers of GPUs per rail, and by rail order.
//!
//! A path from a GPU to a rail crosses links: the rail's port, PCIe links, the connection of two
//! sockets. Each link divides its bandwidth evenly among its paths; if a path gets less elsewhere,
//! the others get the rest. A GPU's share of a rail is the least that the path and its links allow;
//! shares of several rails add up.

mod answer;
mod improve;
mod load;
mod problem;
mod rails;
mod start;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use answer::Loss;
pub use answer::Solved;
pub(crate) use load::Load;
pub(crate) use problem::{KINDS, Problem};
pub(crate) use rails::MOST_RAILS;
pub use rails::RailSet;

/// A good answer: each GPU has as many rails as it wants, or all that it may have.
pub(crate) fn solve(problem: &Problem) -> Solved<'_> {
    let near = start::nearest(problem);
    if near.is_ideal() {
        return near;
    }
    let [near, rich] = [near, start::richest(problem)].map(improve::improved);
    match rich.score() < near.score() {
        true => rich,
        false => near,
    }
}

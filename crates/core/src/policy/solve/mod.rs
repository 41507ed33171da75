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
mod rails;
mod score;
mod start;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use answer::{Answer, Loss};
pub(crate) use idle::{Part, add_idle};
pub(crate) use problem::{KINDS, Problem};
pub(crate) use rails::{MOST_RAILS, RailSet};

/// GPUs whose rails are given, and `None` for the others.
pub(crate) type Kept = [Option<RailSet>];

/// A good answer: each GPU has as many rails as it wants and the node has.
pub(crate) fn solve(problem: &Problem) -> Answer<'_> {
    let near = start::nearest(problem);
    if near.is_ideal() {
        return near;
    }
    let [near, rich] = [near, start::richest(problem)].map(improve::improved);
    if rich.score() < near.score() {
        rich
    } else {
        near
    }
}

//! A problem while its ways are told.
#![forbid(unsafe_code)]

use super::problem::{Edge, KINDS, PARTS, Problem};
use super::reduce::reduce;

/// A problem to which ways are still being added: GPU by GPU, and for each rail by rail.
pub struct Draft(Problem);

impl Draft {
    /// Rails with the rates of their ports, in Mbit/s, at most [`super::MOST_RAILS`]; and how many of them each GPU is to
    /// get: at least 1, and all where there are fewer.
    pub fn new(rates: &[u64], wants: &[usize]) -> Draft {
        let rails = rates.len();
        Draft(Problem {
            rails,
            wants: wants.iter().map(|&want| want.clamp(1, rails.max(1))).collect(),
            narrowest: vec![u64::MAX; wants.len()],
            open: vec![u64::MAX.checked_shr(64 - rails.min(64) as u32).unwrap_or(0); wants.len()],
            capacities: rates.iter().map(|rate| rate * PARTS).collect(),
            edges: Vec::with_capacity(rails * wants.len()),
            crossed: Vec::with_capacity(6 * rails * wants.len()),
        })
    }

    /// A place that several ways may cross, by what it carries in Mbit/s; gives its number.
    pub fn place(&mut self, mbps: u64) -> usize {
        self.0.capacities.push(mbps * PARTS);
        self.0.capacities.len() - 1
    }

    /// The next way: what its kind of path lets through, in Mbit/s, that kind, and the places on it besides the rail.
    pub fn way(&mut self, lets_through: u64, kind: u8, places: impl IntoIterator<Item = usize>) {
        let problem = &mut self.0;
        let rail = problem.edges.len() % problem.rails;
        let first = problem.crossed.len();
        problem.crossed.push(rail as u16);
        let mut own = problem.capacities[rail].min(lets_through * PARTS);
        for place in places {
            own = own.min(problem.capacities[place]);
            // a node has too few bridges and connections to come near either limit
            let number = u16::try_from(place).unwrap_or(rail as u16);
            if !problem.crossed[first..].contains(&number) && problem.crossed.len() - first < 255 {
                problem.crossed.push(number);
            }
        }
        let places = (problem.crossed.len() - first) as u8;
        problem.edges.push(Edge { own, most: own, first: first as u32, places, kind: kind.min(KINDS - 1) });
    }

    /// The problem, once it has all ways.
    pub fn finish(self) -> Problem {
        let mut problem = self.0;
        reduce(&mut problem);
        problem
    }
}

//! A problem while its ways are told.
#![forbid(unsafe_code)]

use super::Kept;
use super::plain::plain;
use super::problem::{Edge, KINDS, PARTS, Problem};
use super::reduce::reduce;

/// A problem to which ways are still being added: GPU by GPU, and for each rail by rail.
pub struct Draft(Problem);

impl Draft {
    /// Rails with the rates of their ports, in Mbit/s, and how many of them each GPU is to get: at least 1, and all where
    /// there are fewer.  Of more rails than [`super::MOST_RAILS`] the ways are told, and nothing can be solved.
    pub fn new(rates: &[u64], wants: &[usize]) -> Draft {
        let rails = rates.len();
        Draft(Problem {
            rails,
            wants: wants.iter().map(|&want| want.clamp(1, rails.max(1))).collect(),
            narrowest: vec![u64::MAX; wants.len()],
            open: vec![u64::MAX.checked_shr(64 - rails.min(64) as u32).unwrap_or(0); wants.len()],
            capacities: rates.iter().map(|rate| rate * PARTS).collect(),
            edges: Vec::with_capacity(rails * wants.len()),
            crossed: Vec::with_capacity(4 * rails * wants.len()),
            plain: None,
        })
    }

    /// The same where some GPUs have their rails already: their other ways have what they let through, and no places.
    pub fn around(rates: &[u64], wants: &[usize], kept: &Kept) -> Draft {
        let mut draft = Draft::new(rates, wants);
        draft.0.keep(kept);
        draft
    }

    /// A place that several ways may cross, by what it carries in Mbit/s; gives its number.
    pub fn place(&mut self, mbps: u64) -> u16 {
        self.0.capacities.push(mbps * PARTS);
        // a node has too few bridges and connections to come near the limit
        u16::try_from(self.0.capacities.len() - 1).unwrap_or(u16::MAX)
    }

    /// The next way: what it lets one GPU have, in Mbit/s; the kind of path; and the places on it besides the rail, on the
    /// GPU's side and on the rail's, and between them.
    pub fn way(&mut self, lets_through: u64, kind: u8, sides: [&[u16]; 2], between: Option<u16>) {
        let (gpu, rail) = self.next();
        let problem = &mut self.0;
        let first = problem.crossed.len();
        problem.crossed.push(rail as u16);
        let [of_gpu, of_rail] = sides;
        problem.crossed.extend_from_slice(of_gpu);
        // where the sides meet one link can be on both: that above two functions of one device
        let twice = of_rail.last().is_some_and(|last| of_gpu.last() == Some(last));
        problem.crossed.extend_from_slice(&of_rail[..of_rail.len() - usize::from(twice)]);
        problem.crossed.extend(between);
        let places = &problem.crossed[first..];
        let narrowest = places.iter().map(|&place| problem.capacities[usize::from(place)]).min();
        let own = narrowest.unwrap_or(0).min(lets_through * PARTS);
        if !problem.is_open(gpu, rail) {
            problem.crossed.truncate(first);
        }
        let places = (problem.crossed.len() - first) as u8;
        let first = first as u32;
        problem.edges.push(Edge { own, most: own, first, places, kind: kind.min(KINDS - 1) });
    }

    /// Is the next way one that its GPU may choose?
    pub fn is_open(&self) -> bool {
        let (gpu, rail) = self.next();
        self.0.is_open(gpu, rail)
    }

    /// The next way is left out: nothing will be asked of it.
    pub fn leave_out(&mut self) {
        let first = self.0.crossed.len() as u32;
        self.0.edges.push(Edge { own: 0, most: 0, first, places: 0, kind: KINDS - 1 });
    }

    /// The GPU and the rail of the next way.
    fn next(&self) -> (usize, usize) {
        (self.0.edges.len() / self.0.rails, self.0.edges.len() % self.0.rails)
    }

    /// The problem, once it has all ways.
    pub fn finish(self) -> Problem {
        let mut problem = self.0;
        problem.plain = plain(&problem);
        if problem.plain.is_none() {
            reduce(&mut problem);
        }
        problem
    }

    /// The same, not made smaller: less work, where nothing will be searched.
    pub fn finish_as_it_is(self) -> Problem {
        self.0
    }
}

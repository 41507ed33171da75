//! What the solver is asked: which places each GPU crosses on its way to each rail, and what they carry.
#![forbid(unsafe_code)]

use super::{Kept, RailSet};

/// Shares are reckoned in this part of a Mbit/s, a multiple of 1 to 16, so that most divide without remainder.
pub(super) const PARTS: u64 = 720_720;

/// Kinds of path that can be told apart; farther ones count as the farthest.
pub(crate) const KINDS: u8 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Edge {
    /// the most that its GPU can have, when no other way shares it, in parts of a Mbit/s
    own: u64,
    /// its first place in [`Problem::crossed`]
    first: u32,
    places: u8,
    /// kind of path, 0 the nearest, below [`KINDS`]
    kind: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    rails: usize,
    /// `[gpu]`: number of rails that it is to get
    wants: Vec<usize>,
    /// `[gpu]`: rails from which it may choose
    open: Vec<RailSet>,
    /// `[place]`: in parts of a Mbit/s: the rails first, then links that several ways share
    capacities: Vec<u64>,
    /// `[gpu * rails + rail]`
    edges: Vec<Edge>,
    /// the places of all ways, one way after the other, the rail first
    crossed: Vec<u16>,
}

impl Problem {
    /// A problem without ways, which [`Problem::add_way`] adds: the rails' rates in Mbit/s, and the number of rails
    /// that each GPU is to get, at least 1, and all where there are fewer.  It has at most [`super::MOST_RAILS`] rails.
    pub(crate) fn new(rates: &[u64], wants: &[usize]) -> Problem {
        let rails = rates.len();
        Problem {
            rails,
            wants: wants
                .iter()
                .map(|&want| want.clamp(1, rails.max(1)))
                .collect(),
            open: vec![RailSet::first(rails); wants.len()],
            capacities: rates.iter().map(|rate| rate * PARTS).collect(),
            edges: Vec::with_capacity(rails * wants.len()),
            crossed: Vec::with_capacity(4 * rails * wants.len()),
        }
    }

    /// Adds a place that several ways may cross, by what it carries in Mbit/s; gives its number.
    pub(crate) fn add_place(&mut self, mbps: u64) -> u16 {
        self.capacities.push(mbps * PARTS);
        // a node has too few bridges and connections to come near the limit
        u16::try_from(self.capacities.len() - 1).unwrap_or(u16::MAX)
    }

    /// Adds the next way, GPU by GPU and rail by rail: the most that one GPU can have, in Mbit/s; the kind of path; and
    /// the places on it besides the rail, on the GPU's side and on the rail's, and between them.
    pub(crate) fn add_way(
        &mut self,
        lets_through: u64,
        kind: u8,
        sides: [&[u16]; 2],
        between: Option<u16>,
    ) {
        let (rail, first) = (self.edges.len() % self.rails, self.crossed.len());
        self.crossed.push(rail as u16);
        // mostly the narrowest: what is looked for by its share ends there
        self.crossed.extend(between);
        let [of_gpu, of_rail] = sides;
        self.crossed.extend_from_slice(of_gpu);
        // where the sides meet one link can be on both: that above two functions of one device
        let twice = of_rail
            .last()
            .is_some_and(|last| of_gpu.last() == Some(last));
        self.crossed
            .extend_from_slice(&of_rail[..of_rail.len() - usize::from(twice)]);
        let places = &self.crossed[first..];
        let narrowest = places
            .iter()
            .map(|&place| self.capacities[usize::from(place)])
            .min();
        let own = narrowest.unwrap_or(0).min(lets_through * PARTS);
        let places = places.len() as u8;
        self.edges.push(Edge {
            own,
            first: first as u32,
            places,
            kind: kind.min(KINDS - 1),
        });
    }

    pub(crate) fn gpus(&self) -> usize {
        self.wants.len()
    }

    pub(crate) fn rails(&self) -> usize {
        self.rails
    }

    pub(super) fn places(&self) -> usize {
        self.capacities.len()
    }

    pub(crate) fn wants(&self, gpu: usize) -> usize {
        self.wants[gpu]
    }

    pub(crate) fn alone_mbps(&self, gpu: usize, rail: usize) -> u64 {
        self.own(gpu, rail) / PARTS
    }

    pub(crate) fn kind(&self, gpu: usize, rail: usize) -> u8 {
        self.edge(gpu, rail).kind
    }

    pub(super) fn own(&self, gpu: usize, rail: usize) -> u64 {
        self.edge(gpu, rail).own
    }

    pub(super) fn capacity(&self, place: usize) -> u64 {
        self.capacities[place]
    }

    pub(super) fn crossed(
        &self,
        gpu: usize,
        rail: usize,
    ) -> impl ExactSizeIterator<Item = usize> + use<'_> {
        let &Edge { first, places, .. } = self.edge(gpu, rail);
        self.crossed[first as usize..][..places.into()]
            .iter()
            .map(|&place| place.into())
    }

    pub(super) fn open(&self, gpu: usize) -> RailSet {
        self.open[gpu]
    }

    pub(super) fn is_decided(&self, gpu: usize) -> bool {
        self.open[gpu].len() <= self.wants[gpu]
    }

    fn edge(&self, gpu: usize, rail: usize) -> &Edge {
        &self.edges[gpu * self.rails + rail]
    }

    /// Limits GPUs that already have their rails to these.
    pub(crate) fn keep(&mut self, kept: &Kept) {
        for (open, rails) in self.open.iter_mut().zip(kept) {
            *open = rails.unwrap_or(*open);
        }
    }
}

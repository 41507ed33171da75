//! What the solver is asked: which places each GPU crosses on its way to each rail, and what they carry.
#![forbid(unsafe_code)]

use super::Kept;
use std::borrow::Cow;

/// Shares are reckoned in this part of a Mbit/s, a multiple of 1 to 16, so that most divide without remainder.
pub(super) const PARTS: u64 = 720_720;

/// Kinds of path that can be told apart; farther ones count as the farthest.
pub const KINDS: u8 = 8;

/// One GPU's way to one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    /// what the way lets its GPU have when no other way shares it, in parts of a Mbit/s
    pub(super) own: u64,
    /// the most that it gives in any answer
    pub(super) most: u64,
    /// where its places begin in [`Problem::crossed`]
    pub(super) first: u32,
    /// how many they are
    pub(super) places: u8,
    /// kind of path, 0 the nearest, below [`KINDS`]
    pub(super) kind: u8,
}

/// GPUs, rails, and the ways between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(super) rails: usize,
    /// rails that each GPU is to get
    pub(super) wants: Vec<usize>,
    /// what the links on all ways of a GPU carry, in parts of a Mbit/s: the most that it can get of all rails together
    pub(super) narrowest: Vec<u64>,
    /// for each GPU the rails from which it may choose, a bit for each
    pub(super) open: Vec<u64>,
    /// what each place carries, in parts of a Mbit/s: the rails first, then links that several ways share
    pub(super) capacities: Vec<u64>,
    /// `[gpu * rails + rail]`
    pub(super) edges: Vec<Edge>,
    /// the places of all ways, one way after the other, the rail first
    pub(super) crossed: Vec<u16>,
    /// the answer, where it need not be looked for: such a problem is not made smaller
    pub(super) plain: Option<Vec<Vec<usize>>>,
}

impl Problem {
    /// Number of GPUs.
    pub fn gpus(&self) -> usize {
        self.wants.len()
    }

    /// Number of rails.
    pub fn rails(&self) -> usize {
        self.rails
    }

    /// Number of places.
    pub(super) fn places(&self) -> usize {
        self.capacities.len()
    }

    /// Rails that a GPU gets.
    pub fn wants(&self, gpu: usize) -> usize {
        self.wants[gpu]
    }

    /// What the way lets through when no other way shares it, in Mbit/s.
    pub fn alone_mbps(&self, gpu: usize, rail: usize) -> u64 {
        self.own(gpu, rail) / PARTS
    }

    /// The kind of path, 0 the nearest.
    pub fn kind(&self, gpu: usize, rail: usize) -> u8 {
        self.edge(gpu, rail).kind
    }

    /// What the way lets its GPU have when no other way shares it, in parts of a Mbit/s.
    pub(super) fn own(&self, gpu: usize, rail: usize) -> u64 {
        self.edge(gpu, rail).own
    }

    /// The most that the way gives in any answer, in parts of a Mbit/s.
    pub(super) fn most(&self, gpu: usize, rail: usize) -> u64 {
        self.edge(gpu, rail).most
    }

    /// The most that a GPU can get of all rails together, in parts of a Mbit/s.
    pub(super) fn narrowest(&self, gpu: usize) -> u64 {
        self.narrowest[gpu]
    }

    /// What a place carries, in parts of a Mbit/s.
    pub(super) fn capacity(&self, place: usize) -> u64 {
        self.capacities[place]
    }

    /// The places on a way that may be too narrow for all ways that may cross them; the first is the rail.
    pub(super) fn crossed(&self, gpu: usize, rail: usize) -> impl ExactSizeIterator<Item = usize> + use<'_> {
        let &Edge { first, places, .. } = self.edge(gpu, rail);
        self.crossed[first as usize..][..places.into()].iter().map(|&place| place.into())
    }

    /// The rails from which a GPU may choose, ascending.
    pub(super) fn open_to(&self, gpu: usize) -> impl Iterator<Item = usize> + use<> {
        bits(self.open[gpu])
    }

    /// Is a rail one of those from which a GPU may choose?  Beyond [`super::MOST_RAILS`] there is none: such ways are only
    /// told.
    pub(super) fn is_open(&self, gpu: usize, rail: usize) -> bool {
        rail < super::MOST_RAILS && self.open[gpu] >> rail & 1 == 1
    }

    /// Has a GPU no choice?
    pub(super) fn is_decided(&self, gpu: usize) -> bool {
        self.open[gpu].count_ones() as usize <= self.wants[gpu]
    }

    pub(super) fn edge(&self, gpu: usize, rail: usize) -> &Edge {
        &self.edges[gpu * self.rails + rail]
    }

    /// The same where some GPUs have their rails already.
    pub(super) fn around(&self, kept: &Kept) -> Cow<'_, Problem> {
        if kept.iter().all(Option::is_none) {
            return Cow::Borrowed(self);
        }
        let mut around = self.clone();
        around.keep(kept);
        Cow::Owned(around)
    }

    /// Leaves GPUs that have their rails already no others.
    pub(super) fn keep(&mut self, kept: &Kept) {
        for (open, rails) in self.open.iter_mut().zip(kept) {
            if let Some(rails) = rails {
                *open = rails.iter().fold(0, |open, rail| open | 1 << rail);
            }
        }
    }
}

/// The positions of the bits that are set, ascending.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = usize> + use<> {
    std::iter::from_fn(move || {
        let first = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            first
        })
    })
}

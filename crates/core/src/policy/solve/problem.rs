//! The solver's input: the links that each GPU crosses on its path to each rail, and their
//! bandwidth.

use super::{MOST_RAILS, RailSet};

/// Parts of a Mbit/s, the unit of shares: divisible by 1 to 16, so that most divisions are exact.
pub(super) const PARTS: u64 = 720_720;

/// Number of kinds of path; all farther paths count as the last kind.
pub(crate) const KINDS: u8 = 8;

/// One path of this kind in `Score::path`: each kind has 16 bits, enough for all paths of a node.
pub(super) fn path_digit(kind: u8) -> u128 {
    1 << (u32::from(kind) * 16)
}

struct Path {
    /// bandwidth when no other path shares its links, in parts of a Mbit/s
    own: u64,
    /// position of its first link in [`Problem::crossed`]
    first: u32,
    links: u8,
    /// 0 for the nearest, below [`KINDS`]
    kind: u8,
}

pub(crate) struct Problem {
    rails: usize,
    /// `[gpu]`: number of rails to get
    pub(super) wants: Vec<usize>,
    /// `[gpu]`: rails that the GPU may get
    pub(super) open: Vec<RailSet>,
    /// `[link]`, in parts of a Mbit/s: the rails first, then links that several paths share
    pub(super) capacities: Vec<u64>,
    /// `[gpu * rails + rail]`
    paths: Vec<Path>,
    /// the links of all paths, one path after the other; a path's first link is its rail
    crossed: Vec<u16>,
}

impl Problem {
    /// A problem without paths. `rates`: Mbit/s of each rail, for at most [`MOST_RAILS`] rails.
    /// `wants`: each GPU's number of rails; 0 counts as 1, too many as all.
    pub(crate) fn new(rates: &[u64], wants: &[usize]) -> Problem {
        let rails = rates.len();
        let most = rails.clamp(1, MOST_RAILS);
        Problem {
            rails,
            wants: wants.iter().map(|&want| want.clamp(1, most)).collect(),
            open: vec![RailSet::first(rails); wants.len()],
            capacities: rates.iter().map(|rate| rate * PARTS).collect(),
            paths: Vec::with_capacity(rails * wants.len()),
            crossed: Vec::with_capacity(4 * rails * wants.len()),
        }
    }

    /// Adds a link that several paths may cross; returns its number.
    pub(crate) fn add_link(&mut self, mbps: u64) -> u16 {
        self.capacities.push(mbps * PARTS);
        // a node has too few bridges and connections to exceed a `u16`
        u16::try_from(self.capacities.len() - 1).unwrap_or(u16::MAX)
    }

    /// Adds the next path; paths come GPU by GPU, in rail order. `lets_through`: the path's Mbit/s
    /// apart from shared links. `of_gpu`, `of_rail`, `between`: shared links besides the rail.
    pub(crate) fn add_path(
        &mut self,
        lets_through: u64,
        kind: u8,
        [of_gpu, of_rail]: [&[u16]; 2],
        between: Option<u16>,
    ) {
        let (rail, first) = (self.paths.len() % self.rails, self.crossed.len());
        self.crossed.push(rail as u16);
        // mostly the narrowest link: placed early, it lets `Load::joining` end early
        self.crossed.extend(between);
        self.crossed.extend_from_slice(of_gpu);
        // the link above two functions of one device is on both sides, and counts once
        let twice = !of_rail.is_empty() && of_gpu.last() == of_rail.last();
        let of_rail = &of_rail[..of_rail.len() - usize::from(twice)];
        self.crossed.extend_from_slice(of_rail);
        let crossed = &self.crossed[first..];
        let capacities = crossed
            .iter()
            .map(|&link| self.capacities[usize::from(link)]);
        self.paths.push(Path {
            own: capacities.fold(lets_through * PARTS, u64::min),
            first: first as u32,
            links: crossed.len() as u8,
            kind: kind.min(KINDS - 1),
        });
    }

    pub(crate) fn gpus(&self) -> usize {
        self.wants.len()
    }

    pub(crate) fn rails(&self) -> usize {
        self.rails
    }

    pub(crate) fn alone_mbps(&self, gpu: usize, rail: usize) -> u64 {
        self.own(gpu, rail) / PARTS
    }

    pub(crate) fn kind(&self, gpu: usize, rail: usize) -> u8 {
        self.path(gpu, rail).kind
    }

    pub(super) fn own(&self, gpu: usize, rail: usize) -> u64 {
        self.path(gpu, rail).own
    }

    pub(super) fn crossed(
        &self,
        gpu: usize,
        rail: usize,
    ) -> impl ExactSizeIterator<Item = usize> + use<'_> {
        let &Path { first, links, .. } = self.path(gpu, rail);
        let crossed = &self.crossed[first as usize..][..links.into()];
        crossed.iter().map(|&link| link.into())
    }

    pub(super) fn is_decided(&self, gpu: usize) -> bool {
        self.open[gpu].len() <= self.wants[gpu]
    }

    fn path(&self, gpu: usize, rail: usize) -> &Path {
        &self.paths[gpu * self.rails + rail]
    }

    /// Limits each GPU to its rails in `kept`; `None` sets no limit.
    pub(crate) fn keep(&mut self, kept: &[Option<RailSet>]) {
        for (open, rails) in self.open.iter_mut().zip(kept) {
            *open = rails.unwrap_or(*open);
        }
    }
}

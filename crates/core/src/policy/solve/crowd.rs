//! The ways and GPUs that may cross a place, whatever is chosen.
#![forbid(unsafe_code)]

use super::level::level;
use super::problem::Problem;

/// The ways that may cross a place, and the GPUs that cannot do without it.
#[derive(Default)]
pub(super) struct Crowd {
    /// number of their ways
    pub(super) ways: usize,
    /// a number that is the same for places on the same ways
    pub(super) mark: u64,
    /// a bit for each rail to which the ways lead
    pub(super) rails: u64,
    /// what all can use of the place at most, in parts of a Mbit/s
    pub(super) demand: u64,
    /// the GPUs that cannot get their rails without it, once for each way that they need over it: the least that one of
    /// these lets through, and the GPU; ascending
    pub(super) forced: Vec<(u64, usize)>,
    /// of each of these GPUs the same least; ascending by GPU
    least_of: Vec<(usize, u64)>,
    /// the GPUs of which every way crosses it, and how many ways that is
    captives: Vec<(usize, usize)>,
}

impl Crowd {
    /// The crowds of all places.
    pub(super) fn of_all(problem: &Problem) -> Vec<Crowd> {
        let mut crowds: Vec<Crowd> = (0..problem.places()).map(|_| Crowd::default()).collect();
        let mut of_one: Vec<OfOne> = vec![OfOne::default(); problem.places()];
        let mut met: Vec<usize> = Vec::new();
        for gpu in 0..problem.gpus() {
            let mut open = 0;
            for rail in problem.open_to(gpu) {
                open += 1;
                let (own, bit) = (problem.own(gpu, rail), 1 << rail);
                let mark = mixed((gpu * problem.rails() + rail) as u64);
                for place in problem.crossed(gpu, rail) {
                    let one = &mut of_one[place];
                    if one.rails == 0 {
                        met.push(place);
                    }
                    one.rails |= bit;
                    one.mark ^= mark;
                    (one.least, one.most) = (one.least.min(own), one.most.max(own));
                }
            }
            for place in met.drain(..) {
                let one = std::mem::take(&mut of_one[place]);
                crowds[place].add(problem, gpu, &one, open, place < problem.rails());
            }
        }
        crowds.iter_mut().for_each(|crowd| crowd.forced.sort_unstable());
        crowds
    }

    /// Adds one GPU, which may choose from `open` rails.
    fn add(&mut self, problem: &Problem, gpu: usize, one: &OfOne, open: usize, is_rail: bool) {
        let (want, count) = (problem.wants(gpu), one.rails.count_ones() as usize);
        self.ways += count;
        self.rails |= one.rails;
        self.mark ^= one.mark;
        self.demand += one.most * want.min(count) as u64;
        if !is_rail {
            if count == open {
                self.captives.push((gpu, count));
            }
            let must = want.saturating_sub(open - count);
            if must > 0 {
                self.forced.extend(std::iter::repeat_n((one.least, gpu), must));
                self.least_of.push((gpu, one.least));
            }
        }
    }

    /// The GPUs that get nothing but through it, as far as they may choose from all rails.
    pub(super) fn captives(&self, rails: usize) -> impl Iterator<Item = usize> {
        self.captives.iter().filter(move |(_, ways)| *ways == rails).map(|(gpu, _)| *gpu)
    }

    /// The rail that the place is a part of: it stands on every way there, and on no other.
    pub(super) fn is_part_of(&self, crowds: &[Crowd]) -> Option<usize> {
        let rail = self.rails.trailing_zeros() as usize;
        (self.rails.count_ones() == 1 && self.ways == crowds[rail].ways).then_some(rail)
    }

    /// What a GPU has of the place at most, beside the others that must cross it: one that need not cross it itself, and
    /// one that must, by the least that it can use there.
    pub(super) fn at_most(&self, capacity: u64) -> AtMost {
        let leasts = || self.forced.iter().map(|&(least, _)| least);
        let newcomer = level(capacity, self.forced.len() + 1, leasts().chain([u64::MAX]));
        let mut of_least: Vec<(u64, u64)> = Vec::new();
        for (at, least) in leasts().enumerate() {
            if of_least.last().is_none_or(|&(known, _)| known != least) {
                let others = leasts().take(at).chain(leasts().skip(at + 1));
                of_least.push((least, level(capacity, self.forced.len(), others.chain([u64::MAX]))));
            }
        }
        AtMost { newcomer, of_least }
    }

    /// What one GPU has of the place at most.
    pub(super) fn of_gpu(&self, at_most: &AtMost, gpu: usize) -> u64 {
        let mine = self.least_of.binary_search_by_key(&gpu, |&(user, _)| user).ok();
        let least = mine.map(|at| self.least_of[at].1);
        let known = least.and_then(|least| at_most.of_least.binary_search_by_key(&least, |&(of, _)| of).ok());
        known.map_or(at_most.newcomer, |at| at_most.of_least[at].1)
    }
}

/// What GPUs have of a place at most, in parts of a Mbit/s.
pub(super) struct AtMost {
    /// a GPU that need not cross it
    newcomer: u64,
    /// a GPU that must, by the least that it can use there; ascending
    of_least: Vec<(u64, u64)>,
}

/// One GPU's ways over a place.
#[derive(Clone)]
struct OfOne {
    /// a bit for each rail to which they lead
    rails: u64,
    mark: u64,
    /// the least that one of them lets through, and the most
    least: u64,
    most: u64,
}

impl Default for OfOne {
    fn default() -> OfOne {
        OfOne { rails: 0, mark: 0, least: u64::MAX, most: 0 }
    }
}

/// Spreads numbers over the 64 bits, so that the sums of different sets differ (the last steps of MurmurHash3).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests {
    use super::mixed;

    fn are_different(mut marks: Vec<u64>) -> bool {
        let count = marks.len();
        marks.sort_unstable();
        marks.dedup();
        marks.len() == count
    }

    #[test]
    fn no_way_has_the_mark_of_another_nor_two_that_of_two_others() {
        assert!(are_different((0..256 * 64).map(mixed).collect()), "as many as a node can have");
        let pairs = (0..1000).flat_map(|one| (0..one).map(move |other| mixed(one) ^ mixed(other)));
        assert!(are_different(pairs.collect()));
    }
}

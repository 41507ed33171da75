//! Parts of a problem that have nothing to do with each other, once it is known how much each GPU gets at least.
#![forbid(unsafe_code)]

use super::problem::{PARTS, Problem};
use std::borrow::Cow;

/// A part of a problem, which is a problem by itself, and the best answer to it that is known.
pub(super) struct Part<'p> {
    pub(super) problem: Cow<'p, Problem>,
    /// the numbers of its GPUs in the whole, ascending
    pub(super) gpus: Vec<usize>,
    /// the numbers of its rails in the whole, ascending
    pub(super) rails: Vec<usize>,
    /// for each of its GPUs, its rails, by their numbers in the part
    pub(super) rails_of: Vec<Vec<usize>>,
    /// what each of its GPUs gets at least in any answer that it holds, in Mbit/s
    worst: u64,
}

impl<'p> Part<'p> {
    /// All of a problem, with an answer to it.
    pub(super) fn whole(problem: Cow<'p, Problem>, rails_of: Vec<Vec<usize>>) -> Part<'p> {
        let (gpus, rails) = ((0..problem.gpus()).collect(), (0..problem.rails()).collect());
        Part { problem, gpus, rails, rails_of, worst: 0 }
    }

    /// The parts that are left of this part without the ways on which a GPU gets less than the worst-off one does in the
    /// known answer: a better answer can hold none of these.  `None` where that rules nothing out.
    pub(super) fn split(&self, shares: &[u64]) -> Option<Vec<Part<'p>>> {
        let worst = shares.iter().copied().min().filter(|worst| *worst > self.worst)?;
        let problem = &*self.problem;
        let gpus = problem.gpus();
        let open: Vec<u64> = (0..gpus).map(|gpu| ways_worth(problem, gpu, worst * PARTS)).collect();
        if (0..gpus).all(|gpu| open[gpu] == problem.open[gpu]) {
            return None;
        }
        let mut groups = Groups::new(problem.places() + gpus);
        let binds = binding(problem, &open);
        for (gpu, &open) in open.iter().enumerate() {
            for rail in super::problem::bits(open) {
                let places = problem.crossed(gpu, rail).filter(|&place| place == rail || binds[place]);
                places.for_each(|place| groups.join(problem.places() + gpu, place));
            }
        }
        let mut parts: Vec<(usize, Vec<usize>)> = Vec::new();
        for gpu in 0..gpus {
            let group = groups.find(problem.places() + gpu);
            match parts.iter_mut().find(|(of, _)| *of == group) {
                Some((_, gpus)) => gpus.push(gpu),
                None => parts.push((group, vec![gpu])),
            }
        }
        let part = |(_, gpus): (usize, Vec<usize>)| {
            let open: Vec<u64> = gpus.iter().map(|&gpu| open[gpu]).collect();
            let (part, rails) = problem.part(&gpus, &open);
            let number = |rail: &usize| rails.binary_search(rail).unwrap_or(0);
            let rails_of = gpus.iter().map(|&gpu| self.rails_of[gpu].iter().map(number).collect());
            Part {
                problem: Cow::Owned(part),
                rails_of: rails_of.collect(),
                gpus: gpus.iter().map(|&gpu| self.gpus[gpu]).collect(),
                rails: rails.iter().map(|&rail| self.rails[rail]).collect(),
                worst,
            }
        };
        Some(parts.into_iter().map(part).collect())
    }

    /// How large it is, so that parts can be put in order.
    pub(super) fn size(&self) -> (usize, Option<usize>) {
        (self.gpus.len() * self.rails.len(), self.gpus.first().copied())
    }
}

/// Those of a GPU's rails of which it can use one and still get that much, in parts of a Mbit/s: a bit for each.
fn ways_worth(problem: &Problem, gpu: usize, worst: u64) -> u64 {
    let others = match problem.wants(gpu) - 1 {
        0 => 0,
        others => {
            // with the best others
            let mut most: Vec<u64> = problem.open_to(gpu).map(|rail| problem.most(gpu, rail)).collect();
            most.sort_unstable();
            most.iter().rev().take(others).sum()
        }
    };
    let worth = problem.open_to(gpu).filter(|&rail| problem.most(gpu, rail) + others >= worst);
    worth.fold(0, |open, rail| open | 1 << rail)
}

/// Which places can still be too narrow for the GPUs that may cross them.
fn binding(problem: &Problem, open: &[u64]) -> Vec<bool> {
    let mut most = vec![0u64; problem.places()];
    let mut demand = vec![0u64; problem.places()];
    let mut met: Vec<usize> = Vec::new();
    for (gpu, &open) in open.iter().enumerate() {
        for rail in super::problem::bits(open) {
            for place in problem.crossed(gpu, rail).skip(1) {
                if most[place] == 0 {
                    met.push(place);
                }
                most[place] = most[place].max(problem.own(gpu, rail));
            }
        }
        for place in met.drain(..) {
            demand[place] += std::mem::take(&mut most[place]) * problem.wants(gpu) as u64;
        }
    }
    (0..problem.places()).map(|place| demand[place] > problem.capacity(place)).collect()
}

/// Which of so many things belong together.
struct Groups(Vec<usize>);

impl Groups {
    fn new(things: usize) -> Groups {
        Groups((0..things).collect())
    }

    fn find(&mut self, thing: usize) -> usize {
        let mut root = thing;
        while self.0[root] != root {
            self.0[root] = self.0[self.0[root]];
            root = self.0[root];
        }
        root
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.0[one] = other;
    }
}

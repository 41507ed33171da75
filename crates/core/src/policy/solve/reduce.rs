//! Makes problems smaller: what can never bind goes, and a part of one becomes a problem by itself.
#![forbid(unsafe_code)]

use super::crowd::{AtMost, Crowd};
use super::problem::{Edge, Problem, bits};

/// Lowers what ways give at most by the GPUs that must cross their places, and leaves out places that limit no way.
pub(super) fn reduce(problem: &mut Problem) {
    let crowds = Crowd::of_all(problem);
    problem.reckon_with_those_who_must(&crowds);
    problem.drop_needless_places(&crowds);
}

impl Problem {
    /// A part of the problem: some GPUs, each with the rails from which it may still choose, a bit for each.  Also gives the
    /// rails of the part; they and the GPUs are counted anew there.
    pub(super) fn part(&self, gpus: &[usize], open: &[u64]) -> (Problem, Vec<usize>) {
        let rails: Vec<usize> = bits(open.iter().fold(0, |all, open| all | open)).collect();
        let mut part = Problem {
            rails: rails.len(),
            wants: gpus.iter().map(|&gpu| self.wants[gpu]).collect(),
            narrowest: gpus.iter().map(|&gpu| self.narrowest[gpu]).collect(),
            open: Vec::with_capacity(gpus.len()),
            capacities: rails.iter().map(|&rail| self.capacities[rail]).collect(),
            edges: Vec::with_capacity(gpus.len() * rails.len()),
            crossed: Vec::new(),
            plain: None,
        };
        let mut places: Vec<Option<u16>> = vec![None; self.places()];
        for (&gpu, &open) in gpus.iter().zip(open) {
            part.open.push(0);
            for (number, &rail) in rails.iter().enumerate() {
                let first = part.crossed.len() as u32;
                let edge = self.edge(gpu, rail);
                if open >> rail & 1 == 0 {
                    part.edges.push(Edge { first, places: 0, ..*edge });
                    continue;
                }
                if let Some(open) = part.open.last_mut() {
                    *open |= 1 << number;
                }
                part.crossed.push(number as u16);
                for place in self.crossed(gpu, rail).skip(1) {
                    let number = *places[place].get_or_insert_with(|| {
                        part.capacities.push(self.capacities[place]);
                        (part.capacities.len() - 1) as u16
                    });
                    part.crossed.push(number);
                }
                part.edges.push(Edge { first, ..*edge });
            }
        }
        let crowds = Crowd::of_all(&part);
        part.drop_needless_places(&crowds);
        (part, rails)
    }

    /// Of GPUs that cannot get their rails without a link, each has its part of it at most, whatever else is chosen, and so
    /// has every GPU that joins them.
    fn reckon_with_those_who_must(&mut self, crowds: &[Crowd]) {
        for (place, crowd) in crowds.iter().enumerate() {
            for gpu in crowd.captives(self.rails) {
                self.narrowest[gpu] = self.narrowest[gpu].min(self.capacities[place]);
            }
        }
        if crowds.iter().all(|crowd| crowd.forced.is_empty()) {
            return;
        }
        let at_most = |(place, crowd): (usize, &Crowd)| crowd.at_most(self.capacities[place]);
        let at_most: Vec<AtMost> = crowds.iter().enumerate().map(at_most).collect();
        // for each place the GPU that was asked about last, and the answer
        let mut known: Vec<(usize, u64)> = vec![(usize::MAX, u64::MAX); crowds.len()];
        for gpu in 0..self.gpus() {
            for rail in self.open_to(gpu) {
                let mut most = self.own(gpu, rail);
                for place in self.crossed(gpu, rail).filter(|&place| !crowds[place].forced.is_empty()) {
                    if known[place].0 != gpu {
                        known[place] = (gpu, crowds[place].of_gpu(&at_most[place], gpu));
                    }
                    most = most.min(known[place].1);
                }
                self.edges[gpu * self.rails + rail].most = most;
            }
        }
    }

    /// A link that carries all that its users can move is as good as none, and so is one that leads to a single rail and
    /// carries more.  One on every way to a rail and on no other is part of that rail; of several on the same ways the
    /// narrowest stands for all.
    fn drop_needless_places(&mut self, crowds: &[Crowd]) {
        let rails = self.rails;
        let mut binds: Vec<bool> = vec![true; crowds.len()];
        for (place, crowd) in crowds.iter().enumerate().skip(rails) {
            if let Some(rail) = crowd.is_part_of(crowds) {
                self.capacities[rail] = self.capacities[rail].min(self.capacities[place]);
                binds[place] = false;
            }
        }
        let mut order: Vec<usize> = (rails..crowds.len()).filter(|&place| binds[place]).collect();
        order.sort_unstable_by_key(|&place| {
            (crowds[place].ways, crowds[place].mark, self.capacities[place], place)
        });
        for pair in order.windows(2) {
            let (first, second) = (&crowds[pair[0]], &crowds[pair[1]]);
            binds[pair[1]] = (first.ways, first.mark) != (second.ways, second.mark);
        }
        for place in order {
            let (crowd, capacity) = (&crowds[place], self.capacities[place]);
            let leads_to_one = crowd.rails.count_ones() == 1;
            let rail_is_narrower =
                leads_to_one && self.capacities[crowd.rails.trailing_zeros() as usize] <= capacity;
            binds[place] &= crowd.demand > capacity && !rail_is_narrower;
        }
        let mut kept = 0;
        for edge in &mut self.edges {
            let first = edge.first as usize;
            edge.first = kept as u32;
            for at in first..first + usize::from(edge.places) {
                let place = self.crossed[at];
                if binds[usize::from(place)] {
                    self.crossed[kept] = place;
                    kept += 1;
                }
            }
            edge.places = (kept - edge.first as usize) as u8;
        }
        self.crossed.truncate(kept);
    }
}

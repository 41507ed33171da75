//! The PCIe links above GPUs and NICs. Paths do not compete for a private link: a link above one
//! rail alone is private if it carries the rail's rate, a link above one GPU alone if the GPU gets
//! one rail or the link carries all its rails. Only shared links are in the [`Problem`].

use super::solve::Problem;
use crate::topology::{Ascent, PciAddress};
use std::collections::BTreeMap;

/// The links above a PCI function.
pub(super) struct Climb {
    /// the solver's numbers of the shared links, nearest first
    shared: Vec<u16>,
    /// `[n]`: number of shared links among the first `n`, and the least Mbit/s of private ones
    up_to: Vec<(usize, u64)>,
}

impl Climb {
    /// Of the first `links` links: the shared ones, and the least Mbit/s of private ones.
    pub(super) fn up_to(&self, links: usize) -> (&[u16], u64) {
        let (shared, narrowest) = self.up_to[links.min(self.up_to.len() - 1)];
        (&self.shared[..shared], narrowest)
    }
}

/// Numbers of GPUs and rails below a link.
#[derive(Default)]
struct Below {
    gpus: usize,
    rails: usize,
    /// the sum of the rails' rates, in Mbit/s
    rate: u64,
    /// the solver's number of the link, if shared
    number: Option<u16>,
}

pub(super) struct Links {
    /// by the device at the link's lower end
    below: BTreeMap<PciAddress, Below>,
    /// the most that one GPU's paths carry together, in Mbit/s; 0 if each GPU gets one rail only
    one_gpu: u64,
}

impl Links {
    /// The links above these GPUs and rails; a GPU gets at most `each` rails.
    pub(super) fn new<'a>(
        gpus: impl Iterator<Item = &'a Ascent>,
        rails: &[Option<Ascent>],
        rates: &[u64],
        each: usize,
    ) -> Links {
        let mut below: BTreeMap<PciAddress, Below> = BTreeMap::new();
        for (device, _) in gpus.flat_map(Ascent::links).flatten() {
            below.entry(*device).or_default().gpus += 1;
        }
        for (rail, rate) in rails.iter().zip(rates) {
            for (device, _) in rail.iter().flat_map(Ascent::links).flatten() {
                let below = below.entry(*device).or_default();
                below.rails += 1;
                below.rate += rate;
            }
        }
        let fastest = rates.iter().copied().max().filter(|_| each > 1);
        Links {
            below,
            one_gpu: each as u64 * fastest.unwrap_or(0),
        }
    }

    /// The links above a function; shared ones are added to the problem.
    pub(super) fn climb(&mut self, ascent: Option<&Ascent>, problem: &mut Problem) -> Climb {
        let links = ascent.map_or(&[][..], Ascent::links);
        let (mut shared, mut narrowest) = (Vec::with_capacity(links.len()), u64::MAX);
        let mut up_to = Vec::with_capacity(links.len() + 1);
        up_to.push((0, narrowest));
        for link in links {
            let known = link.and_then(|(device, mbps)| Some((self.below.get_mut(&device)?, mbps)));
            if let Some((below, mbps)) = known {
                let is_of_one = match (below.gpus, below.rails) {
                    (0, 1) => mbps >= below.rate,
                    (1, 0) => mbps >= self.one_gpu,
                    _ => false,
                };
                match is_of_one {
                    true => narrowest = narrowest.min(mbps),
                    false => {
                        shared.push(*below.number.get_or_insert_with(|| problem.add_link(mbps)));
                    }
                }
            }
            up_to.push((shared.len(), narrowest));
        }
        Climb { shared, up_to }
    }
}

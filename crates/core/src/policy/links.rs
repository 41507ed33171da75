//! The PCIe links above GPUs and NICs: which of them several ways can have to share, and how narrow the others are.
#![forbid(unsafe_code)]

use super::solve::Problem;
use crate::topology::{Ascent, PciAddress};
use std::collections::BTreeMap;

pub(super) struct Climb {
    /// the places of the shared links, nearest first
    places: Vec<u16>,
    /// `[number of links from the function up]`: how many of `places` are among them, and the narrowest of the other
    /// links, in Mbit/s
    up_to: Vec<(usize, u64)>,
}

impl Climb {
    /// Of the first `links`: the places of the shared ones, and the narrowest of the others, in Mbit/s.
    pub(super) fn up_to(&self, links: usize) -> (&[u16], u64) {
        let (places, narrowest) = self.up_to[links.min(self.up_to.len() - 1)];
        (&self.places[..places], narrowest)
    }
}

/// The GPUs and rails below a link.
#[derive(Default)]
struct Below {
    gpus: usize,
    rails: usize,
    /// the rails' ports together, in Mbit/s
    rate: u64,
    place: Option<u16>,
}

/// All links above GPUs and rails, by the device below each.
pub(super) struct Links {
    below: BTreeMap<PciAddress, Below>,
    /// all ways of one GPU together, in Mbit/s
    one_gpu: u64,
    /// true if each GPU has one way only
    one_way: bool,
}

impl Links {
    /// The links above these GPUs and rails; a GPU is to get `each` rails at most.
    pub(super) fn new<'a>(
        gpus: impl Iterator<Item = Option<&'a Ascent>>,
        rails: &[Option<Ascent>],
        rates: &[u64],
        each: usize,
    ) -> Links {
        let mut below: BTreeMap<PciAddress, Below> = BTreeMap::new();
        let known = |ascent: &'a Ascent| ascent.links().iter().flatten().map(|(device, _)| *device);
        for device in gpus.flatten().flat_map(known) {
            below.entry(device).or_default().gpus += 1;
        }
        for (rail, rate) in rails.iter().zip(rates) {
            for (device, _) in rail.iter().flat_map(|rail| rail.links().iter().flatten()) {
                let below = below.entry(*device).or_default();
                (below.rails, below.rate) = (below.rails + 1, below.rate + rate);
            }
        }
        let one_gpu = each.max(1) as u64 * rates.iter().copied().max().unwrap_or(0);
        Links {
            below,
            one_gpu,
            one_way: each <= 1,
        }
    }

    /// The links above a function; those that matter to several ways become places.
    pub(super) fn climb(&mut self, ascent: Option<&Ascent>, problem: &mut Problem) -> Climb {
        let links = ascent.map_or(&[][..], Ascent::links);
        let (mut places, mut narrowest) = (Vec::with_capacity(links.len()), u64::MAX);
        let mut up_to = Vec::with_capacity(links.len() + 1);
        up_to.push((0, narrowest));
        for link in links {
            if let Some((below, mbps)) =
                link.and_then(|(device, mbps)| Some((self.below.get_mut(&device)?, mbps)))
            {
                let is_of_one_rail = below.gpus == 0 && below.rails == 1 && mbps >= below.rate;
                let is_of_one_gpu =
                    below.gpus == 1 && below.rails == 0 && (self.one_way || mbps >= self.one_gpu);
                match is_of_one_rail || is_of_one_gpu {
                    true => narrowest = narrowest.min(mbps),
                    false => {
                        places.push(*below.place.get_or_insert_with(|| problem.add_place(mbps)))
                    }
                }
            }
            up_to.push((places.len(), narrowest));
        }
        Climb { places, up_to }
    }
}

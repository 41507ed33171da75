//! How every GPU reaches every rail, and what the ways have in common: the solver's question, made from the node.
#![forbid(unsafe_code)]

use super::solve::{Edge, KINDS, Problem};
use super::{Through, gbps};
use crate::placement::{Rail, RailIndex, RailUse};
use crate::topology::{GpuIndex, PathType, Topology};
use std::collections::BTreeMap;

/// Rate that stands for an unknown one, so that machines without any rate are still compared by their paths, in Mbit/s.
const UNKNOWN_RATE: u64 = 100_000;

/// How every GPU reaches every rail.
pub(super) struct Ways {
    /// `[gpu][rail]`
    pub(super) kinds: Vec<Vec<PathType>>,
    /// the same for the solver
    pub(super) problem: Problem,
    /// is any rate or link known?
    pub(super) rates_known: bool,
}

/// Something that several ways can cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Crossed {
    /// a PCIe link, by the device below it
    Link(crate::topology::PciAddress),
    /// the connection of two NUMA nodes
    Crossing(u32, u32),
}

impl Ways {
    /// The ways to these rails; each GPU is to get `each` of them.
    pub(super) fn new(topology: &Topology, rails: &[Rail], through: &Through, each: usize) -> Ways {
        let distances = far_distances(topology);
        // One flow gets from a connection between sockets what the table says that SYS lets through; how much more two
        // flows get is not known, and the measured case of four says: nothing (Azure ND MI300X v5, 4 GPUs x 4 NICs).
        let widest = rails.iter().filter_map(|rail| rail.rate_mbps).max().unwrap_or(UNKNOWN_RATE);
        let mut ways = Ways {
            kinds: Vec::with_capacity(topology.gpus.len()),
            problem: Problem { edges: Vec::new(), capacities: Vec::new(), rails: rails.len(), each },
            rates_known: false,
        };
        for rail in rails {
            let link = topology.nic(rail.nic).address.and_then(|at| topology.pci.get(at)?.link.current);
            let rate = rail.rate_mbps.or(link.map(|link| link.mbps()));
            ways.rates_known |= rate.is_some();
            ways.problem.capacities.push(rate.unwrap_or(UNKNOWN_RATE));
        }
        let mut places: BTreeMap<Crossed, usize> = BTreeMap::new();
        for gpu in &topology.gpus {
            let mut kinds = Vec::with_capacity(rails.len());
            let mut edges = Vec::with_capacity(rails.len());
            for (number, rail) in rails.iter().enumerate() {
                let mut crosses = vec![number];
                let way = topology.nic(rail.nic).address.map(|address| topology.way(gpu.address, address));
                let kind = way.as_ref().map_or(PathType::Sys, |way| way.kind);
                let mut farther = 0;
                if let Some(way) = &way {
                    // a GPU on NVLink-C2C does not reach its CPU through its PCIe link
                    let links = way.links.iter().filter(|link| !(link.of_a && gpu.has_c2c()));
                    let links = links.map(|link| (Crossed::Link(link.below), link.mbps));
                    let crossing = way.crossing.map(|(a, b)| (Crossed::Crossing(a, b), widest));
                    farther = way.crossing.and_then(|(a, b)| topology.distance(a, b)).map_or(0, |distance| {
                        distances.iter().position(|&known| known == distance).unwrap_or(0)
                    });
                    for (place, capacity) in links.chain(crossing) {
                        let known = places.len();
                        let position = *places.entry(place).or_insert(rails.len() + known);
                        if position == ways.problem.capacities.len() {
                            ways.problem.capacities.push(capacity);
                        }
                        if !crosses.contains(&position) {
                            crosses.push(position);
                        }
                    }
                    ways.rates_known |= !way.links.is_empty();
                }
                let through = match kind {
                    PathType::Phb | PathType::Node if gpu.has_c2c() => 1000,
                    kind => through.of(kind),
                };
                let kind_number = (kind as usize + farther).min(usize::from(KINDS) - 1) as u8;
                edges.push(Edge { through, kind: kind_number, crosses });
                kinds.push(kind);
            }
            ways.kinds.push(kinds);
            ways.problem.edges.push(edges);
        }
        ways
    }

    /// The path between a GPU and a rail.
    pub(super) fn kind(&self, gpu: GpuIndex, rail: RailIndex) -> PathType {
        self.kinds[gpu.0][rail.0]
    }

    /// What the way between a GPU and a rail gives when nobody shares it, in Mbit/s.
    pub(super) fn value(&self, gpu: GpuIndex, rail: RailIndex) -> u64 {
        self.problem.value(gpu.0, rail.0)
    }

    /// The answer as data: for each GPU its rails with what each gives it.
    pub(super) fn choices(&self, rails_of: &[Vec<usize>]) -> Vec<Vec<RailUse>> {
        let mut users = vec![0; self.problem.rails];
        rails_of.iter().flatten().for_each(|&rail| users[rail] += 1);
        let shares = self.problem.shares(rails_of);
        let choice = |gpu: usize, (&rail, &share): (&usize, &u64)| RailUse {
            rail: RailIndex(rail),
            path: self.kinds[gpu][rail],
            share_mbps: self.rates_known.then_some(share),
            users: users[rail],
        };
        let gpus = rails_of.iter().zip(&shares).enumerate();
        gpus.map(|(gpu, (rails, shares))| {
            let mut choices: Vec<RailUse> = rails.iter().zip(shares).map(|pair| choice(gpu, pair)).collect();
            choices
                .sort_by_key(|choice| (u64::MAX - choice.share_mbps.unwrap_or(0), choice.path, choice.rail));
            choices
        })
        .collect()
    }

    /// `400 Gb/s`, or nothing where no rate is known.
    pub(super) fn rate(&self, mbps: u64) -> Option<String> {
        self.rates_known.then(|| gbps(mbps))
    }
}

/// The distances between different NUMA nodes, nearest first.
fn far_distances(topology: &Topology) -> Vec<u32> {
    let numa_nodes = &topology.numa_nodes;
    let pairs =
        numa_nodes.iter().flat_map(|from| numa_nodes.iter().map(move |to| (from.os_index, to.os_index)));
    let mut distances: Vec<u32> =
        pairs.filter(|(from, to)| from != to).filter_map(|(from, to)| topology.distance(from, to)).collect();
    distances.sort_unstable();
    distances.dedup();
    distances
}

//! How every GPU reaches every rail, and what the ways have in common: the solver's question, made from the node.
#![forbid(unsafe_code)]

use super::links::{Climb, Links};
use super::solve::{Answer, KINDS, Problem, RailSet};
use super::{Through, gbps};
use crate::order::Order;
use crate::placement::{Rail, RailIndex, RailUse};
use crate::topology::{Ascent, GpuIndex, PathType, Topology};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Mbit/s for an unknown rate, so that machines without rates are compared by their paths.
const UNKNOWN_RATE: u64 = 100_000;

pub struct Ways {
    /// `[gpu][rail]`
    pub(super) kinds: Vec<Vec<PathType>>,
    pub(super) problem: Problem,
    /// true if any rate or link is known
    rates_known: bool,
}

impl Ways {
    /// The ways for a finished answer: each GPU wants as many as it has there.
    pub(super) fn for_answer(
        topology: &Topology,
        rails: &[Rail],
        through: &Through,
        rails_of: &[RailSet],
    ) -> Ways {
        let wants: Vec<usize> = rails_of.iter().map(|rails| rails.len()).collect();
        Ways::new(topology, rails, through, &wants)
    }

    /// Paths from every GPU to each port, for an assignment of one port per GPU.
    pub fn one_each(topology: &Topology, rails: &[Rail], through: &Through) -> Ways {
        Ways::new(topology, rails, through, &vec![1; topology.gpus.len()])
    }

    /// The ways to these rails; `[gpu]` is to get `wants` of them, but at least one.
    pub(super) fn new(
        topology: &Topology,
        rails: &[Rail],
        through: &Through,
        wants: &[usize],
    ) -> Ways {
        let nics: Vec<Option<Ascent>> = rails
            .iter()
            .map(|rail| topology.nic(rail.nic).address.map(|at| topology.ascent(at)))
            .collect();
        let gpus: Vec<Ascent> = topology
            .gpus
            .iter()
            .map(|gpu| topology.ascent(gpu.address))
            .collect();
        // where a port does not tell its rate, its NIC's own link stands for it
        let own_link = |nic: &Option<Ascent>| Some(nic.as_ref()?.links().first()?.as_ref()?.1);
        let told = rails
            .iter()
            .zip(&nics)
            .map(|(rail, nic)| rail.rate_mbps.or_else(|| own_link(nic)));
        let told: Vec<Option<u64>> = told.collect();
        let rates: Vec<u64> = told
            .iter()
            .map(|rate| rate.unwrap_or(UNKNOWN_RATE))
            .collect();
        let mut links = gpus
            .iter()
            .chain(nics.iter().flatten())
            .flat_map(Ascent::links);
        let rates_known =
            !rails.is_empty() && (told.iter().any(Option::is_some) || links.any(Option::is_some));

        let mut problem = Problem::new(&rates, wants);
        // a GPU on NVLink-C2C does not reach its CPU through its PCIe link
        let has_c2c: Vec<bool> = topology.gpus.iter().map(|gpu| gpu.has_c2c()).collect();
        let climbing = gpus
            .iter()
            .zip(&has_c2c)
            .map(|(gpu, has_c2c)| (!has_c2c).then_some(gpu));
        let mut links = Links::new(
            climbing.clone(),
            &nics,
            &rates,
            wants.iter().copied().max().unwrap_or(1),
        );
        let of_gpus: Vec<Climb> = climbing.map(|gpu| links.climb(gpu, &mut problem)).collect();
        let of_nics: Vec<Climb> = nics
            .iter()
            .map(|nic| links.climb(nic.as_ref(), &mut problem))
            .collect();

        let mut connections = Connections::new(topology, through, &rates);
        let mut kinds = vec![Vec::with_capacity(rails.len()); gpus.len()];
        for (((gpu, above_gpu), has_c2c), kinds) in
            gpus.iter().zip(&of_gpus).zip(has_c2c).zip(&mut kinds)
        {
            for ((nic, above_nic), rate) in nics.iter().zip(&of_nics).zip(&rates) {
                let Some(nic) = nic else {
                    let limit = rate * through.of(PathType::Sys) / 1000;
                    problem.add_way(limit, PathType::Sys as u8, [&[], &[]], None);
                    kinds.push(PathType::Sys);
                    continue;
                };
                let meeting = topology.meeting(gpu, nic);
                let connection = meeting
                    .crossing
                    .map(|nodes| connections.between(nodes, &mut problem));
                let (connection, farther) = connection.unwrap_or_default();
                let lets_through = match meeting.kind {
                    PathType::Phb | PathType::Node if has_c2c => 1000,
                    kind => through.of(kind),
                };
                let (gpu_links, nic_links) = meeting.links();
                let (gpu_places, of_gpu) = above_gpu.up_to(gpu_links);
                let (nic_places, of_nic) = above_nic.up_to(nic_links);
                let limit = (rate * lets_through / 1000).min(of_gpu).min(of_nic);
                let kind = meeting.kind as u8 + farther;
                problem.add_way(limit, kind, [gpu_places, nic_places], connection);
                kinds.push(meeting.kind);
            }
        }
        Ways {
            kinds,
            problem,
            rates_known,
        }
    }

    pub fn kind(&self, gpu: GpuIndex, rail: RailIndex) -> PathType {
        self.kinds[gpu.0][rail.0]
    }

    /// The way's bandwidth when no other way shares it, in Mbit/s; `None` if no rate is known.
    pub fn alone_mbps(&self, gpu: GpuIndex, rail: RailIndex) -> Option<u64> {
        self.rates_known
            .then(|| self.problem.alone_mbps(gpu.0, rail.0))
    }

    /// Of these rails the one that gives the GPU most; of equals the nearest, of these the first.
    pub(crate) fn best(
        &self,
        gpu: GpuIndex,
        rails: impl Iterator<Item = RailIndex>,
    ) -> Option<RailIndex> {
        rails.min_by_key(|&rail| {
            (
                Reverse(self.problem.alone_mbps(gpu.0, rail.0)),
                self.kind(gpu, rail),
                rail,
            )
        })
    }

    /// For each GPU its rails, with what each gives it.
    pub(super) fn choices(&self, answer: &Answer) -> Vec<Vec<RailUse>> {
        let choice = |gpu: usize, rail: usize| RailUse {
            rail: RailIndex(rail),
            path: self.kinds[gpu][rail],
            share_mbps: self.rates_known.then(|| answer.share_mbps(gpu, rail)),
            users: answer.users(rail),
        };
        let of_gpu = |(gpu, rails): (usize, &RailSet)| {
            let mut choices: Vec<RailUse> = rails.iter().map(|rail| choice(gpu, rail)).collect();
            choices.order_by_key(|choice| {
                (
                    u64::MAX - choice.share_mbps.unwrap_or(0),
                    choice.path,
                    choice.rail,
                )
            });
            choices
        };
        answer.rails_of.iter().enumerate().map(of_gpu).collect()
    }

    /// `400 Gb/s`, or nothing where no rate is known.
    pub(super) fn rate(&self, mbps: u64) -> Option<String> {
        self.rates_known.then(|| gbps(mbps))
    }
}

/// The connection of two NUMA nodes: the place, if their sockets differ, and the steps by which they are farther apart
/// than the nearest two.
type Connection = (Option<u16>, u8);

/// The connections of sockets, each a place that is made when the first way comes to it.
struct Connections<'a> {
    topology: &'a Topology,
    /// by pairs of NUMA nodes
    known: BTreeMap<(u32, u32), Connection>,
    /// the last question and its answer: rails of one NUMA node mostly follow each other
    last: Option<((u32, u32), Connection)>,
    /// by pairs of sockets
    places: BTreeMap<(u32, u32), u16>,
    /// between different NUMA nodes, nearest first
    distances: Vec<u32>,
    /// the bandwidth of one, in Mbit/s
    carries: u64,
}

impl<'a> Connections<'a> {
    fn new(topology: &'a Topology, through: &Through, rates: &[u64]) -> Connections<'a> {
        let widest = rates.iter().copied().max().unwrap_or(UNKNOWN_RATE);
        Connections {
            topology,
            known: BTreeMap::new(),
            last: None,
            places: BTreeMap::new(),
            distances: far_distances(topology),
            // Where nothing is known of it, all flows together get what one gets.  So it was measured on Azure's ND MI300X
            // v5, where four flows between sockets had a seventh of what they have on theirs.  It follows from the rails'
            // rate, so that a description without rates is answered as one with them.
            carries: widest * through.of(PathType::Sys) / 1000,
        }
    }

    /// The connection of the sockets of two NUMA nodes, and how much farther apart these are than the nearest two.
    fn between(&mut self, nodes: (u32, u32), problem: &mut Problem) -> Connection {
        let Connections {
            topology,
            known,
            last,
            places,
            distances,
            carries,
        } = self;
        if let Some((_, connection)) = last.filter(|(last, _)| *last == nodes) {
            return connection;
        }
        let connection = *known.entry(nodes).or_insert_with(|| {
            let (one, other) = (topology.socket_of(nodes.0), topology.socket_of(nodes.1));
            let sockets = (one.min(other), one.max(other));
            let new_place = || problem.add_place(*carries);
            let place = (one != other).then(|| *places.entry(sockets).or_insert_with(new_place));
            let distance = topology.distance(nodes.0, nodes.1);
            let farther = distance.and_then(|distance| distances.binary_search(&distance).ok());
            (
                place,
                u8::try_from(farther.unwrap_or(0))
                    .unwrap_or(u8::MAX)
                    .min(KINDS),
            )
        });
        *last = Some((nodes, connection));
        connection
    }
}

fn far_distances(topology: &Topology) -> Vec<u32> {
    let numa_nodes = &topology.numa_nodes;
    let pairs = numa_nodes.iter().flat_map(|from| {
        numa_nodes
            .iter()
            .map(move |to| (from.os_index, to.os_index))
    });
    let mut distances: Vec<u32> = pairs
        .filter(|(from, to)| from != to)
        .filter_map(|(from, to)| topology.distance(from, to))
        .collect();
    distances.order();
    distances.dedup();
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::map;
    use crate::policy::tests::Parts;
    use crate::topology::{PciAddress, PcieLink};
    use crate::wish::Wish;

    /// What a GPU gets of the NIC beside it where that tells its rate or not, and only these functions their links.
    fn share_where_known(
        nic_tells: bool,
        tells: impl Fn(&Topology, PciAddress) -> bool,
    ) -> Option<u64> {
        let mut topology = Parts {
            gpus: vec![0],
            nics: vec![(0, 200)],
        }
        .topology();
        for mut function in topology.pci.iter().cloned().collect::<Vec<_>>() {
            if !tells(&topology, function.address) {
                function.link = PcieLink::default();
                topology.pci.insert(function);
            }
        }
        if !nic_tells {
            topology.nics[0].ports[0].rate_mbps = None;
        }
        map(&topology, &Wish::default()).gpus[0].choices[0].share_mbps
    }

    #[test]
    fn a_share_is_told_where_a_rate_or_a_link_is_known_and_nowhere_else() {
        assert_eq!(
            share_where_known(false, |_, _| false),
            None,
            "nothing but paths"
        );
        assert_eq!(
            share_where_known(true, |_, _| false),
            Some(200_000),
            "a port's rate"
        );
        let is_gpu = |topology: &Topology, address| topology.gpus[0].address == address;
        assert_eq!(
            share_where_known(false, is_gpu),
            Some(UNKNOWN_RATE),
            "the GPU's link, which is wider"
        );
        let is_nic = |topology: &Topology, address| topology.nics[0].address == Some(address);
        assert_eq!(
            share_where_known(false, is_nic),
            Some(504_123),
            "the NIC's link, which stands for its rate"
        );
    }
}

//! The path from every GPU to every rail, and the links that paths share, as the solver's
//! [`Problem`].

use super::links::{Climb, Links};
use super::solve::{KINDS, Problem, RailSet, Solved};
use super::{Through, gbps};
use crate::order::{self, Order};
use crate::placement::{Rail, RailIndex, RailUse};
use crate::topology::{Ascent, GpuIndex, PathType, Topology};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Mbit/s assumed for a rail of unknown rate. If no rate is known, path types decide.
const UNKNOWN_RATE: u64 = 100_000;

pub struct Paths {
    /// `[gpu][rail]`
    pub(super) kinds: Vec<Vec<PathType>>,
    pub(super) problem: Problem,
    /// true if the rate of any port or link is known
    rates_known: bool,
}

impl Paths {
    pub fn for_answer(
        node: &Topology,
        rails: &[Rail],
        through: &Through,
        rails_of: &[RailSet],
    ) -> Paths {
        let wants: Vec<usize> = rails_of.iter().map(|rails| rails.len()).collect();
        Paths::new(node, rails, through, &wants)
    }

    pub fn one_each(node: &Topology, rails: &[Rail], through: &Through) -> Paths {
        Paths::new(node, rails, through, &vec![1; node.gpus.len()])
    }

    /// Paths to these rails. `wants`: each GPU's number of rails; 0 counts as 1.
    pub(super) fn new(
        node: &Topology,
        rails: &[Rail],
        through: &Through,
        wants: &[usize],
    ) -> Paths {
        let ascents = node.gpus.iter().map(|gpu| node.ascent(gpu.address));
        let gpus: Vec<Ascent> = ascents.collect();
        let addresses = rails.iter().map(|rail| node.nic(rail.nic).address);
        let nics: Vec<Option<Ascent>> = addresses.map(|at| Some(node.ascent(at?))).collect();
        // a port without a known rate has the rate of its NIC's PCIe link
        let own_link = |nic: &Option<Ascent>| Some(nic.as_ref()?.links().first()?.as_ref()?.1);
        let rates = rails.iter().zip(&nics);
        let rates = rates.map(|(rail, nic)| rail.rate_mbps.or_else(|| own_link(nic)));
        let rates: Vec<Option<u64>> = rates.collect();
        let mut links = gpus
            .iter()
            .chain(nics.iter().flatten())
            .flat_map(Ascent::links);
        let rates_known =
            !rails.is_empty() && (rates.iter().any(Option::is_some) || links.any(Option::is_some));
        let rates: Vec<u64> = rates
            .iter()
            .map(|rate| rate.unwrap_or(UNKNOWN_RATE))
            .collect();

        let mut problem = Problem::new(&rates, wants);
        // a GPU on NVLink-C2C does not reach its CPU through its PCIe links: they limit no path
        let climbing = gpus.iter().zip(&node.gpus);
        let climbing = climbing.map(|(ascent, gpu)| (!gpu.has_c2c()).then_some(ascent));
        let most = wants.iter().copied().max().unwrap_or(1);
        let mut links = Links::new(climbing.clone().flatten(), &nics, &rates, most);
        let above_gpus: Vec<Climb> = climbing.map(|gpu| links.climb(gpu, &mut problem)).collect();
        let above_nics = nics
            .iter()
            .map(|nic| links.climb(nic.as_ref(), &mut problem));
        let above_nics: Vec<Climb> = above_nics.collect();

        let mut connections = Connections::new(node, through, &rates);
        let mut kinds = Vec::with_capacity(gpus.len());
        for ((gpu, above_gpu), device) in gpus.iter().zip(&above_gpus).zip(&node.gpus) {
            let (mut of_gpu, has_c2c) = (Vec::with_capacity(rails.len()), device.has_c2c());
            for ((nic, above_nic), rate) in nics.iter().zip(&above_nics).zip(&rates) {
                let Some(nic) = nic else {
                    let limit = rate * through.of(PathType::Sys) / 1000;
                    problem.add_path(limit, PathType::Sys as u8, [&[], &[]], None);
                    of_gpu.push(PathType::Sys);
                    continue;
                };
                let meeting = node.meeting(gpu, nic);
                let lets_through = match meeting.kind {
                    PathType::Phb | PathType::Node if has_c2c => 1000,
                    kind => through.of(kind),
                };
                let crossing = meeting.crossing;
                let connection = crossing.map(|nodes| connections.between(nodes, &mut problem));
                let (connection, farther) = connection.unwrap_or_default();
                let (gpu_links, nic_links) = meeting.links();
                let (of_gpus_side, narrowest_of_gpu) = above_gpu.up_to(gpu_links);
                let (of_nics_side, narrowest_of_nic) = above_nic.up_to(nic_links);
                problem.add_path(
                    (rate * lets_through / 1000)
                        .min(narrowest_of_gpu)
                        .min(narrowest_of_nic),
                    meeting.kind as u8 + farther,
                    [of_gpus_side, of_nics_side],
                    connection,
                );
                of_gpu.push(meeting.kind);
            }
            kinds.push(of_gpu);
        }
        Paths {
            kinds,
            problem,
            rates_known,
        }
    }

    pub fn answer(&self, rails_of: Vec<RailSet>) -> Solved<'_> {
        Solved::new(&self.problem, rails_of)
    }

    pub fn kind(&self, gpu: GpuIndex, rail: RailIndex) -> PathType {
        self.kinds[gpu.0][rail.0]
    }

    /// The path's bandwidth when no other path shares it, in Mbit/s; `None` if no rate is known.
    pub fn alone_mbps(&self, gpu: GpuIndex, rail: RailIndex) -> Option<u64> {
        let mbps = self.problem.alone_mbps(gpu.0, rail.0);
        self.rates_known.then_some(mbps)
    }

    /// The rail with the most bandwidth for the GPU; of equals the nearest, then the first.
    pub(crate) fn best(
        &self,
        gpu: GpuIndex,
        rails: impl Iterator<Item = RailIndex>,
    ) -> Option<RailIndex> {
        rails.min_by_key(|&rail| {
            let mbps = self.problem.alone_mbps(gpu.0, rail.0);
            (Reverse(mbps), self.kind(gpu, rail), rail)
        })
    }

    /// Each GPU's rails with its share of each, best first.
    pub(super) fn choices(&self, answer: &Solved) -> Vec<Vec<RailUse>> {
        let of_gpu = |(gpu, rails): (usize, &RailSet)| {
            let choice = |rail: usize| RailUse {
                rail: RailIndex(rail),
                path: self.kinds[gpu][rail],
                share_mbps: self.rates_known.then(|| answer.share_mbps(gpu, rail)),
                users: answer.users(rail),
            };
            let mut choices: Vec<RailUse> = rails.iter().map(choice).collect();
            choices.order_by_key(|own| (Reverse(own.share_mbps), own.path, own.rail));
            choices
        };
        answer.rails_of.iter().enumerate().map(of_gpu).collect()
    }

    /// `None` if no rate is known.
    pub(super) fn rate(&self, mbps: u64) -> Option<String> {
        self.rates_known.then(|| gbps(mbps))
    }
}

/// Of two NUMA nodes: the solver's link if their sockets differ, and the rank of their distance
/// among the host's distances, 0 for the shortest.
type Connection = (Option<u16>, u8);

/// The first path between two sockets adds a link.
struct Connections<'a> {
    node: &'a Topology,
    /// by pairs of NUMA nodes
    known: BTreeMap<(u32, u32), Connection>,
    /// by pairs of sockets
    links: BTreeMap<(u32, u32), u16>,
    /// between different NUMA nodes
    distances: BTreeSet<u32>,
    mbps: u64,
}

impl<'a> Connections<'a> {
    fn new(node: &'a Topology, through: &Through, rates: &[u64]) -> Connections<'a> {
        let numa_nodes = || node.numa_nodes.iter().map(|numa_node| numa_node.os_index);
        let pairs = numa_nodes().flat_map(|from| numa_nodes().map(move |to| (from, to)));
        let pairs = pairs.filter(|(from, to)| from != to);
        let widest = rates.iter().copied().max().unwrap_or(UNKNOWN_RATE);
        Connections {
            node,
            known: BTreeMap::new(),
            links: BTreeMap::new(),
            distances: order::set(pairs.filter_map(|(from, to)| node.distance(from, to))),
            // all flows between two sockets together get the bandwidth of one: on Azure's ND MI300X
            // v5 four got a seventh of their bandwidth within a socket. `mbps` scales with the
            // widest rail's rate, so that the answer is the same without known rates
            mbps: widest * through.of(PathType::Sys) / 1000,
        }
    }

    fn between(&mut self, nodes: (u32, u32), problem: &mut Problem) -> Connection {
        let node = self.node;
        *self.known.entry(nodes).or_insert_with(|| {
            let (one, other) = (node.socket_of(nodes.0), node.socket_of(nodes.1));
            let sockets = (one.min(other), one.max(other));
            let new_link = || problem.add_link(self.mbps);
            let link = (one != other).then(|| *self.links.entry(sockets).or_insert_with(new_link));
            let distance = node.distance(nodes.0, nodes.1);
            let shorter = distance.map_or(0, |own| self.distances.range(..own).count());
            (link, shorter.min(KINDS.into()) as u8)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::map;
    use crate::policy::tests::{function, machine};
    use crate::topology::PcieLink;
    use crate::wish::Wish;

    #[test]
    fn a_share_is_told_where_a_rate_or_a_link_is_known_and_nowhere_else() {
        // of the GPU's link, the NIC's link and the NIC's rate those that are told
        for (gpu, nic, rate, share) in [
            (false, false, false, None),
            (false, false, true, Some(200_000)),
            // the GPU's link, which is wider
            (true, false, false, Some(UNKNOWN_RATE)),
            // the NIC's link, which stands for its rate
            (false, true, false, Some(504_123)),
        ] {
            let mut topology = machine(&[0], &[(0, 200)]);
            let (of_gpu, of_nic) = (topology.gpus[0].address, topology.nics[0].address.unwrap());
            let functions: Vec<_> = topology.pci.iter().cloned().collect();
            for address in functions.iter().map(|function| function.address) {
                if !(gpu && address == of_gpu || nic && address == of_nic) {
                    function(&mut topology, address, |end| end.link = PcieLink::default());
                }
            }
            topology.nics[0].ports[0].rate_mbps = rate.then_some(200_000);
            let found = map(&topology, &Wish::default()).gpus[0].choices[0].share_mbps;
            assert_eq!(found, share, "{gpu} {nic} {rate}");
        }
    }
}

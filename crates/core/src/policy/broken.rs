//! Broken rails: ports that would be rails if they worked, recognised by their likeness to working ones.
//!
//! A rail's number is its place among all rails of the node, and must not change when another rail fails.
#![forbid(unsafe_code)]

use super::evidence::{Candidate, device};
use crate::order;
use crate::placement::Rail;
use crate::topology::{Ascent, LinkLayer, Nic, NicIndex, PathType, PciAddress, Topology};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// Facts that the working rails have in common.
pub(super) struct Likeness<'a> {
    topology: &'a Topology,
    /// PCI function numbers and port numbers: a port's place on its card.  Sites often connect one port of a
    /// card with two; the other one is not a broken rail.
    places: BTreeSet<(u8, u8)>,
    layers: BTreeSet<LinkLayer>,
    devices: BTreeSet<u16>,
    rails: &'a [Rail],
    /// for a port that is like them in all else
    distances: OnceCell<Distances>,
}

struct Distances {
    /// each kind of GPU, and its path to its nearest rail
    gpus: Vec<(Ascent, Option<PathType>)>,
    /// the longest of the rails' paths to their nearest GPUs
    farthest: Option<PathType>,
}

impl<'a> Likeness<'a> {
    pub(super) fn new(topology: &'a Topology, rails: &'a [Rail]) -> Likeness<'a> {
        let nics = || rails.iter().map(|rail| topology.nic(rail.nic));
        let places = nics().zip(rails);
        Likeness {
            topology,
            places: order::set(
                places.filter_map(|(nic, rail)| Some((nic.address?.function, rail.port))),
            ),
            layers: order::set(
                rails
                    .iter()
                    .filter_map(|rail| Some(topology.port(rail.at())?.link_layer)),
            ),
            devices: order::set(nics().filter_map(|nic| device(topology, nic))),
            rails,
            distances: OnceCell::new(),
        }
    }

    /// True if this port would be a rail if it worked.  Unknown facts do not count against it.
    pub(super) fn would_be_a_rail(&self, &Candidate { nic, port, .. }: &Candidate) -> bool {
        let nic = self.topology.nic(nic);
        let Some(address) = nic.address else {
            return false;
        };
        let same_layer =
            port.link_layer == LinkLayer::Unknown || self.layers.contains(&port.link_layer);
        let same_device = match device(self.topology, nic) {
            Some(device) if !self.devices.is_empty() => self.devices.contains(&device),
            _ => true,
        };
        let same_place = self.places.contains(&(address.function, port.number));
        same_layer && same_device && same_place && self.is_as_near(nic)
    }

    /// True if it is as near to a GPU as the farthest of the rails.
    fn is_as_near(&self, nic: &Nic) -> bool {
        let Distances { gpus, farthest } = self.distances();
        let gpus = gpus.iter().map(|(gpu, _)| gpu);
        nic.address
            .and_then(|address| nearest(self.topology, gpus, &self.topology.ascent(address)))
            <= *farthest
    }

    /// True if a GPU is nearer to this NIC than to any rail, or another port of its card is a rail.
    ///
    /// A port that no GPU misses is no rail at a lower rate: a NIC for storage has compute NICs beside it.
    pub(super) fn is_missed(&self, nic: NicIndex) -> bool {
        let Some(address) = self.topology.nic(nic).address else {
            return false;
        };
        let of_rails = || {
            self.rails
                .iter()
                .filter_map(|rail| self.topology.nic(rail.nic).address)
        };
        let nic = self.topology.ascent(address);
        of_rails().any(|other| other.card() == address.card())
            || self.distances().gpus.iter().any(|(gpu, nearest)| {
                nearest.is_some_and(|nearest| self.topology.meeting(gpu, &nic).kind < nearest)
            })
    }

    fn distances(&self) -> &Distances {
        self.distances.get_or_init(|| {
            let address = |rail: &Rail| self.topology.nic(rail.nic).address;
            let ascent = |address: PciAddress| self.topology.ascent(address);
            let rails: Vec<Ascent> = self.rails.iter().filter_map(address).map(ascent).collect();
            let gpus = kinds_of_gpus(self.topology);
            let farthest = rails
                .iter()
                .filter_map(|rail| nearest(self.topology, gpus.iter(), rail))
                .max();
            let to_rails = |gpu: &Ascent| nearest(self.topology, rails.iter(), gpu);
            let gpus = gpus
                .into_iter()
                .map(|gpu| (to_rails(&gpu), gpu))
                .map(|(path, gpu)| (gpu, path));
            Distances {
                gpus: gpus.collect(),
                farthest,
            }
        })
    }
}

/// The GPUs from which the paths differ: those below one bridge reach every NIC alike, unless a path is stated.
fn kinds_of_gpus(topology: &Topology) -> Vec<Ascent> {
    let mut addresses: Vec<PciAddress> = topology.gpus.iter().map(|gpu| gpu.address).collect();
    if topology.stated_paths.is_empty() {
        let mut above = BTreeSet::new();
        addresses.retain(|&address| {
            let function = topology.pci.get(address);
            let bridge =
                function.and_then(|function| Some((function.parent.bridge()?, function.numa_node)));
            bridge.is_none_or(|bridge| above.insert(bridge))
        });
    }
    addresses
        .into_iter()
        .map(|address| topology.ascent(address))
        .collect()
}

fn nearest<'a>(
    topology: &Topology,
    several: impl Iterator<Item = &'a Ascent>,
    one: &Ascent,
) -> Option<PathType> {
    several.map(|other| topology.meeting(other, one).kind).min()
}

#[cfg(test)]
mod tests {
    use crate::policy::tests::Parts;
    use crate::policy::{Selection, candidates};
    use crate::topology::{PciFunction, PortState, Topology};

    /// The ports that do not work, and those that came up at less than their rate.
    fn lacking(topology: &Topology) -> (Vec<String>, Vec<String>) {
        let found = candidates::rails(topology, &Selection::default(), &[]);
        let [broken, degraded] = [found.broken, found.degraded]
            .map(|rails| rails.iter().map(ToString::to_string).collect());
        (broken, degraded)
    }

    #[test]
    fn a_port_is_a_broken_rail_though_the_devices_of_the_working_ones_are_not_known() {
        let mut topology = Parts {
            gpus: vec![0, 1],
            nics: vec![(0, 400), (1, 400)],
        }
        .topology();
        topology.nics[1].ports[0].state = PortState::Down;
        let function = topology
            .pci
            .get(topology.nics[1].address.unwrap())
            .unwrap()
            .clone();
        topology.pci.insert(PciFunction {
            device: Some(0x1021),
            ..function
        });
        assert_eq!(lacking(&topology), (vec!["mlx5_1:1".to_string()], vec![]));
    }

    #[test]
    fn a_port_that_came_up_slower_than_the_other_of_its_card_is_missed_among_the_rails() {
        let mut topology = Parts {
            gpus: vec![0],
            nics: vec![(0, 400), (0, 400), (0, 400), (0, 200)],
        }
        .topology();
        assert_eq!(
            lacking(&topology),
            (vec![], vec![]),
            "a card of its own, and no GPU is nearer to it"
        );
        // now two cards of two functions
        for (first, second) in [(0, 1), (2, 3)] {
            let function = topology
                .pci
                .get(topology.nics[first].address.unwrap())
                .unwrap()
                .clone();
            let mut address = function.address;
            address.function = 1;
            topology.pci.insert(PciFunction {
                address,
                ..function
            });
            topology.nics[second].address = Some(address);
        }
        topology.sort();
        assert_eq!(lacking(&topology), (vec![], vec!["mlx5_3:1".to_string()]));
    }
}

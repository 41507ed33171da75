//! Broken rails: ports that would be rails if they worked, recognised by their likeness to working ones.
//!
//! A rail's number is its place among all rails of the node, and must not change when another rail fails.
#![forbid(unsafe_code)]

use super::fabric::Candidate;
use crate::order;
use crate::placement::Rail;
use crate::topology::{Ascent, LinkLayer, Nic, PathType, PciAddress, Topology};
use std::collections::BTreeSet;

/// What the working rails have in common.
pub(super) struct Likeness<'a> {
    topology: &'a Topology,
    /// PCI function numbers and port numbers: a port's place on its card.  Sites often connect one port of a
    /// card with two; the other one is not a broken rail.
    places: BTreeSet<(u8, u8)>,
    layers: BTreeSet<LinkLayer>,
    devices: BTreeSet<u16>,
    gpus: Vec<Ascent>,
    /// how far from its nearest GPU the farthest of them is
    farthest: Option<PathType>,
}

impl<'a> Likeness<'a> {
    pub(super) fn new(topology: &'a Topology, rails: &[Rail]) -> Likeness<'a> {
        let nics = || rails.iter().map(|rail| topology.nic(rail.nic));
        let places = nics().zip(rails);
        let gpus = kinds_of_gpus(topology);
        Likeness {
            topology,
            places: order::set(places.filter_map(|(nic, rail)| Some((nic.address?.function, rail.port)))),
            layers: order::set(rails.iter().filter_map(|rail| Some(topology.port(rail.at())?.link_layer))),
            devices: order::set(nics().filter_map(|nic| device(topology, nic))),
            farthest: nics().filter_map(|nic| nearest_gpu(topology, &gpus, nic)).max(),
            gpus,
        }
    }

    /// Would this port be a rail if it worked?  Unknown facts do not count against it.
    pub(super) fn would_be_a_rail(&self, &Candidate { nic, port, .. }: &Candidate) -> bool {
        let nic = self.topology.nic(nic);
        let Some(address) = nic.address else { return false };
        let same_layer = port.link_layer == LinkLayer::Unknown || self.layers.contains(&port.link_layer);
        let same_device = match device(self.topology, nic) {
            Some(device) if !self.devices.is_empty() => self.devices.contains(&device),
            _ => true,
        };
        let as_near = nearest_gpu(self.topology, &self.gpus, nic) <= self.farthest;
        same_layer && same_device && as_near && self.places.contains(&(address.function, port.number))
    }
}

/// The device id of a NIC's function.  We do not read the vendor id for a decision: it hardly ever differs if
/// the device id agrees.
pub(super) fn device(topology: &Topology, nic: &Nic) -> Option<u16> {
    topology.pci.get(nic.address?)?.device
}

/// The GPUs from which the paths differ: those below one bridge reach every NIC alike, unless a path is stated.
fn kinds_of_gpus(topology: &Topology) -> Vec<Ascent> {
    let mut addresses: Vec<PciAddress> = topology.gpus.iter().map(|gpu| gpu.address).collect();
    if topology.stated_paths.is_empty() {
        let mut above = BTreeSet::new();
        addresses.retain(|&address| {
            let function = topology.pci.get(address);
            let bridge = function.and_then(|function| Some((function.parent.bridge()?, function.numa_node)));
            bridge.is_none_or(|bridge| above.insert(bridge))
        });
    }
    addresses.into_iter().map(|address| topology.ascent(address)).collect()
}

fn nearest_gpu(topology: &Topology, gpus: &[Ascent], nic: &Nic) -> Option<PathType> {
    let nic = topology.ascent(nic.address?);
    gpus.iter().map(|gpu| topology.meeting(gpu, &nic).kind).min()
}

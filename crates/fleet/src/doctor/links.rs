//! PCIe links that run slower than the path that they are part of allows.
//!
//! A path can carry what the weakest pair of ends on it can (the least, over its segments, of what both ends can do). A segment
//! that runs below that slows the path down. One that runs below its own maximum and not below that costs nothing: a card of
//! the fifth generation behind a switch of the fourth. An idle GPU slows its own link by itself.

use super::{Examined, Judged, fail, listed, note, or_ok, warn};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::topology::{
    GpuVendor, LinkRate, NicKind, PciAddress, PciFunction, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// A link: the function at its lower end, and what it runs at and could run at.
struct Segment<'a> {
    child: &'a PciFunction,
    now: LinkRate,
    cap: LinkRate,
}

/// Nearest first, as far as both ends tell their rates.
fn segments(node: &Topology, address: PciAddress) -> Vec<Segment<'_>> {
    let (chain, _) = node.pci.climb(address);
    // each pair is the ends of a link: endpoint and port, port and port
    let pairs = chain.chunks_exact(2).filter_map(|pair| {
        let (child, parent) = (pair[0], pair[1]);
        let faster = |a: LinkRate, b: LinkRate| if b.mbps() > a.mbps() { b } else { a };
        let slower = |a: LinkRate, b: LinkRate| if b.mbps() < a.mbps() { b } else { a };
        Some(Segment {
            child,
            // a virtual machine's ends tell different rates: the better counts
            now: faster(
                child.link.current?,
                parent.link.current.or(child.link.current)?,
            ),
            cap: slower(child.link.max?, parent.link.max?),
        })
    });
    pairs.collect()
}

/// Links below the cap of a device's path, by the address of the lower end; true for a GPU's own, which an idle GPU slows down.
fn slow_ones(node: &Topology) -> BTreeMap<PciAddress, (Segment<'_>, bool)> {
    let mut found = BTreeMap::new();
    let gpus = node.gpus.iter().map(|gpu| (gpu.address, Some(gpu.vendor)));
    let nics = node.nics.iter();
    let nics = nics
        .filter(|nic| nic.kind != NicKind::Ethernet)
        .filter_map(|nic| Some((nic.address?, None)));
    for (address, vendor) in gpus.chain(nics) {
        let segments = segments(node, address);
        let cap = segments.iter().map(|segment| segment.cap.mbps()).min();
        let slow = |segment: &Segment| Some(segment.now.mbps()) < cap;
        for segment in segments.into_iter().filter(slow) {
            let child = segment.child;
            // the bridge on a GPU's own board belongs to it
            let of_the_gpu = |vendor: GpuVendor| {
                child.address == address
                    || child.vendor.and_then(GpuVendor::from_pci) == Some(vendor)
            };
            let is_gpus = vendor.is_some_and(of_the_gpu);
            found.entry(child.address).or_insert((segment, is_gpus));
        }
    }
    found
}

/// The most lanes that a link of another function like this one has.
fn lanes_of_siblings(node: &Topology, child: &PciFunction) -> Option<u32> {
    let is_like = |other: &&PciFunction| {
        (other.vendor, other.device) == (child.vendor, child.device)
            && other.address != child.address
    };
    let siblings = node.pci.iter().filter(is_like);
    siblings
        .filter_map(|other| Some(other.link.current?.width))
        .max()
}

pub fn pcie_link(subject: &Examined) -> Judged {
    let node = &*subject.plan.node;
    let devices: BTreeSet<PciAddress> = (node.gpus.iter().map(|gpu| gpu.address))
        .chain(node.nics.iter().filter_map(|nic| nic.address))
        .filter(|address| !segments(node, *address).is_empty())
        .collect();
    if devices.is_empty() {
        return None;
    }
    let is_virtual = subject.facts.is_some_and(|facts| facts.is_virtual);
    let (mut verdicts, mut idle) = (Vec::new(), Vec::new());
    for (at, (Segment { child, now, cap }, is_gpus)) in slow_ones(node) {
        let facts = format!("the link above `{at}` runs at {now}, and both its ends can do {cap}");
        let lacks_lanes = now.width < cap.width && lanes_of_siblings(node, child) > Some(now.width);
        verdicts.push(if is_virtual {
            note(format!("{facts}: a virtual machine's links tell little"))
        } else if !is_gpus {
            fail(facts).about(at)
        } else if lacks_lanes {
            warn(format!("{facts}: GPUs like it have more lanes now")).about(at)
        } else {
            idle.push(at.to_string());
            continue;
        });
    }
    if !idle.is_empty() {
        let text = "their links are slower than they can be, as a GPU that idles makes them: look again while they work";
        verdicts.push(note(format!("GPUs {}: {text}", listed(&idle))));
    }
    or_ok(
        verdicts,
        Some(format!(
            "{}: no link is slower than its path allows",
            counted(devices.len(), "device")
        )),
    )
}

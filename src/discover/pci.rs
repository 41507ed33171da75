//! PCI functions and the bridges above them, from their place below `/sys/devices`
//! (Documentation/ABI/testing/sysfs-bus-pci in the kernel's tree).
#![forbid(unsafe_code)]

use super::{Root, Scope, number};
use crate::topology::{
    CpuSet, HostBridge, LinkRate, PciAddress, PciFunction, PciParent, PciTree, PcieLink, Topology,
};

/// Adds the function whose directory is, or is above, `path`, with all bridges above it; returns its address and its
/// own directory.
///
/// The directory's name says it all: `sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/…`.  Parts that are neither
/// a host bridge nor an address (an auxiliary device, a VMD controller's inner bus) are passed over.
pub(super) fn function(
    root: &Root,
    scope: Scope,
    topology: &mut Topology,
    path: &str,
) -> Option<(PciAddress, String)> {
    let mut parent = None;
    let mut found = None;
    let mut end = 0;
    for part in path.split('/') {
        end += part.len();
        if let Ok(host) = part.parse::<HostBridge>() {
            // the inner host bridge of an Intel VMD controller stands below a function of the outer one
            parent = parent.or(Some(PciParent::Host(host)));
        } else if let (Ok(address), Some(above)) = (part.parse::<PciAddress>(), parent) {
            let directory = &path[..end];
            if topology.pci.get(address).is_none() {
                topology.pci.insert(read(root, scope, directory, address, above));
            }
            parent = Some(PciParent::Bridge(address));
            found = Some((address, directory.to_string()));
        }
        end += 1;
    }
    // what stands above may itself be deeper than a tree may be
    found.filter(|(address, _)| topology.pci.ancestors(*address).0.len() < PciTree::MAX_DEPTH)
}

fn read(root: &Root, scope: Scope, directory: &str, address: PciAddress, parent: PciParent) -> PciFunction {
    let file = |name: &str| root.read(&format!("{directory}/{name}"));
    let full = |name: &str| (scope == Scope::Full).then(|| file(name)).flatten();
    let numa_node = number::<i64>(file("numa_node")).and_then(|node| u32::try_from(node).ok());
    let local_cpus = match numa_node {
        Some(_) if scope == Scope::Placement => None,
        _ => file("local_cpulist").and_then(|cpus| CpuSet::from_list(&cpus).ok()),
    };
    PciFunction {
        address,
        parent,
        class: hex(full("class")),
        vendor: hex(full("vendor")).and_then(|id| u16::try_from(id).ok()),
        device: hex(full("device")).and_then(|id| u16::try_from(id).ok()),
        numa_node,
        local_cpus: local_cpus.filter(|cpus| !cpus.is_empty()),
        link: PcieLink {
            current: rate(file("current_link_speed"), file("current_link_width")),
            max: rate(full("max_link_speed"), full("max_link_width")),
        },
    }
}

/// `0x030200`
pub(super) fn hex(text: Option<String>) -> Option<u32> {
    u32::from_str_radix(text?.trim().strip_prefix("0x")?, 16).ok()
}

/// `32.0 GT/s PCIe` (since Linux 5.5; `32 GT/s` before), `16`.  `Unknown` and width 0 are a link that is down, or no
/// link at all, as for functions that are part of the CPU.
fn rate(speed: Option<String>, width: Option<String>) -> Option<LinkRate> {
    let speed = speed?;
    let (whole, tenth) = match speed.split_whitespace().next()?.split_once('.') {
        Some((whole, fraction)) => (whole.to_string(), fraction.chars().next()?.to_digit(10)?),
        None => (speed.split_whitespace().next()?.to_string(), 0),
    };
    let tenths_gt = whole.parse::<u32>().ok().filter(|&gt| gt < 1_000)? * 10 + tenth;
    let width = number::<u32>(width).filter(|&width| width > 0 && width <= 32)?;
    Some(LinkRate { tenths_gt, width })
}

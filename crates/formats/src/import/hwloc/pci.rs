//! PCI functions and the bridges above them.

use super::object::{Object, Objects};
use crate::import::{Imported, Result, hex, shown};
use nic_placement_core::topology::{
    CpuSet, HostBridge, LinkRate, PciAddress, PciFunction, PciParent, PciTree, PcieLink, Topology,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

pub struct Bus<'f> {
    pub file: &'f Objects<'f>,
    functions: BTreeMap<usize, PciFunction>,
}

impl<'f> Bus<'f> {
    pub fn new(file: &'f Objects<'f>, to: &mut Imported) -> Result<Bus<'f>> {
        let mut functions: BTreeMap<usize, PciFunction> = BTreeMap::new();
        let mut seen: BTreeMap<PciAddress, usize> = BTreeMap::new();
        for (index, object) in file.objects.iter().enumerate() {
            let is_function = match object.kind {
                "PCIDev" => true,
                // a bridge without an address is a host bridge
                "Bridge" => object.attribute("pci_busid").is_some(),
                _ => false,
            };
            if !is_function {
                continue;
            }
            let function = function(object)?;
            if let Some(&first) = seen.get(&function.address) {
                let is_kept = functions.get(&first).is_some_and(may_matter);
                if is_kept && may_matter(&function) {
                    let line = file.objects[first].line();
                    return Err(object.bad(format!(
                        "`{}` is there twice, first in line {line}",
                        function.address
                    )));
                }
                to.note(
                    function.address.to_string(),
                    "also the address of a device of another kind, which is left out",
                );
                if is_kept {
                    continue;
                }
                functions.remove(&first);
            }
            seen.insert(function.address, index);
            functions.insert(index, function);
        }
        Ok(Bus { file, functions })
    }

    pub fn function(&self, index: usize) -> Option<&PciFunction> {
        self.functions.get(&index)
    }

    pub fn device_of(&self, os_device: usize) -> Option<usize> {
        self.file.above(os_device, "PCIDev")
    }

    /// `false` if the device is deeper than we follow any path.
    pub fn add(&self, index: usize, to: &mut Imported) -> Result<bool> {
        let Some(device) = self.function(index) else {
            return Ok(false);
        };
        if to.topology.pci.get(device.address).is_some() {
            return Ok(true);
        }
        if let Some(outer) = self.file.above(index, "PCIDev") {
            let line = self.file.objects[outer].line();
            return Err(self.file.objects[index].bad(format!(
                "`{}` is inside the PCI device of line {line}",
                device.address
            )));
        }
        let bridges: Vec<usize> = self
            .file
            .ancestors(index)
            .filter(|&above| self.functions.contains_key(&above))
            .collect();
        if bridges.len() > PciTree::MAX_DEPTH {
            to.note(
                device.address.to_string(),
                format!("below more than {} bridges: left out", PciTree::MAX_DEPTH),
            );
            return Ok(false);
        }
        let locality = self.locality(index)?;
        let numa_node = locality
            .as_ref()
            .and_then(|cpus| only_node(&to.topology, cpus));
        let chain: Vec<usize> = std::iter::once(index).chain(bridges).collect();
        for (position, place) in chain.iter().enumerate() {
            let function = &self.functions[place];
            if to.topology.pci.get(function.address).is_some() {
                break;
            }
            let parent = match chain.get(position + 1) {
                Some(bridge) => {
                    let bridge_function = &self.functions[bridge];
                    let (object, address) = (&self.file.objects[*bridge], bridge_function.address);
                    let holds = |(domain, buses): &(u32, RangeInclusive<u8>)| {
                        *domain == function.address.domain && buses.contains(&function.address.bus)
                    };
                    if buses(object)?.is_some_and(|buses| !holds(&buses)) {
                        to.note(function.address.to_string(), format!(
                            "stands below `{address}`, which leads to other buses: it is left there"
                        ));
                    }
                    PciParent::Bridge(address)
                }
                None => PciParent::Host(self.host_bridge(*place, function.address, to)?),
            };
            let local_cpus = locality.clone();
            to.topology.pci.insert(PciFunction {
                parent,
                numa_node,
                local_cpus,
                ..function.clone()
            });
        }
        Ok(true)
    }

    /// The outermost host bridge above the topmost function: the kernel's tree does not count an Intel VMD
    /// controller's inner one either.
    fn host_bridge(
        &self,
        top: usize,
        address: PciAddress,
        to: &mut Imported,
    ) -> Result<HostBridge> {
        let outermost = self
            .file
            .ancestors(top)
            .filter(|&above| self.file.objects[above].kind == "Bridge")
            .by_ref()
            .last();
        if let Some(host) = outermost {
            let object = &self.file.objects[host];
            let buses =
                buses(object)?.ok_or_else(|| object.bad("a host bridge without bridge_pci"))?;
            return Ok(HostBridge {
                domain: buses.0,
                bus: *buses.1.start(),
            });
        }
        // lstopo can leave bridges out; functions of one bus share a host bridge in any case
        to.note(
            address.to_string(),
            "no host bridge above it in the file: only what is on its bus counts as near",
        );
        Ok(HostBridge {
            domain: address.domain,
            bus: address.bus,
        })
    }

    fn locality(&self, index: usize) -> Result<Option<CpuSet>> {
        for above in self.file.ancestors(index) {
            let object = &self.file.objects[above];
            if matches!(object.kind, "Bridge" | "PCIDev" | "OSDev") {
                continue;
            }
            if let Some(cpus) = object.set("cpuset")? {
                return Ok(Some(cpus).filter(|cpus| !cpus.is_empty()));
            }
        }
        Ok(None)
    }
}

/// True for GPUs, NICs and bridges: hwloc loads files in which another device, such as a disk
/// controller, has the same address.
fn may_matter(function: &PciFunction) -> bool {
    // network, display, bridge, accelerator; and InfiniBand, as old adapters have it
    function.class.is_none_or(|class| {
        matches!(class >> 16, 0x02 | 0x03 | 0x06 | 0x12) || class >> 8 == 0x0c06
    })
}

fn only_node(node: &Topology, cpus: &CpuSet) -> Option<u32> {
    node.numa_nodes
        .iter()
        .find(|node| cpus.is_subset(&node.cpus))
        .map(|node| node.os_index)
}

/// The domain and the buses below a bridge: `bridge_pci="0000:[d0-d7]"`
fn buses(object: &Object) -> Result<Option<(u32, RangeInclusive<u8>)>> {
    let Some(text) = object.attribute("bridge_pci") else {
        return Ok(None);
    };
    let read = || {
        let (domain, buses) = text.split_once(':')?;
        let (first, last) = buses
            .strip_prefix('[')?
            .strip_suffix(']')?
            .split_once('-')?;
        let (domain, first, last) = (hex(domain, 8)?, hex(first, 2)?, hex(last, 2)?);
        Some((domain, first as u8..=last as u8))
    };
    read().map(Some).ok_or_else(|| {
        object.bad(format!(
            "bridge_pci `{}`: expected a domain and buses such as `0000:[15-1f]`",
            shown(text)
        ))
    })
}

/// An object's own values; we find its parent later, and only if it matters.
fn function(object: &Object) -> Result<PciFunction> {
    let busid = object.attribute("pci_busid").unwrap_or_default();
    let address: PciAddress =
        busid
            .parse()
            .map_err(|bad: nic_placement_core::topology::pci::BadPciAddress| {
                object.bad(bad.to_string().replace(busid, &shown(busid).to_string()))
            })?;
    let ids = object
        .attribute("pci_type")
        .map(|text| {
            ids(text).ok_or_else(|| {
                let text = shown(text);
                object.bad(format!(
                "pci_type `{text}`: expected `class [vendor:device] …` such as `0302 [10de:2330]`"
            ))
            })
        })
        .transpose()?;
    let current = object
        .attribute("pci_link_speed")
        .and_then(|text| text.parse().ok())
        .and_then(link_rate);
    let parent = PciParent::Host(HostBridge {
        domain: address.domain,
        bus: address.bus,
    });
    Ok(PciFunction {
        class: ids.map(|ids| ids.0),
        vendor: ids.map(|ids| ids.1),
        device: ids.map(|ids| ids.2),
        link: PcieLink { current, max: None },
        ..PciFunction::new(address, parent)
    })
}

/// `0302 [10de:2330] [10de:16c1] a1`; version 3 adds the programming interface, the class's third byte.
fn ids(text: &str) -> Option<(u32, u16, u16)> {
    let mut words = text.split_whitespace();
    let class = hex(words.next()?, 4)?;
    let (vendor, device) = words
        .next()?
        .strip_prefix('[')?
        .strip_suffix(']')?
        .split_once(':')?;
    let interface = words.nth(2).and_then(|word| hex(word, 2)).unwrap_or(0);
    Some((
        class << 8 | interface,
        hex(vendor, 4)? as u16,
        hex(device, 4)? as u16,
    ))
}

/// Speed and width for a bandwidth in GB/s, which alone hwloc keeps.
///
/// Of links with one bandwidth (8 GT/s x16, 16 GT/s x8) the nearest, then the slowest and widest
/// up to 16 lanes; [`LinkRate::mbps`] is right in any case.  `None` if no link comes within a
/// tenth (a conventional bus; 0 if the kernel does not tell).
fn link_rate(gigabytes: f64) -> Option<LinkRate> {
    let wanted = Some(gigabytes * 8_000.0).filter(|wanted| wanted.is_finite())?;
    let mut best: Option<(f64, LinkRate)> = None;
    // 32 lanes last: they exist in the specification rather than in machines
    for widths in [&[16, 8, 4, 2, 1][..], &[32]] {
        for tenths_gt in [25, 50, 80, 160, 320, 640] {
            for &width in widths {
                let rate = LinkRate { tenths_gt, width };
                let off = (rate.mbps() as f64 - wanted).abs();
                // hwloc rounds differently from `mbps`, by less than 1 Mbit/s for each lane
                if off <= wanted * 0.1 && best.is_none_or(|(least, _)| off + 32.0 < least) {
                    best = Some((off, rate));
                }
            }
        }
    }
    best.map(|(_, rate)| rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bandwidth_becomes_the_link_that_has_it() {
        for (gigabytes, tenths_gt, width) in [
            (0.25, 25, 1),
            (2.0, 25, 8),
            (7.876923, 80, 8),
            (15.753846, 80, 16),
            (31.507692, 160, 16),
            (63.015385, 320, 16),
            (121.0, 640, 16),
        ] {
            assert_eq!(
                link_rate(gigabytes),
                Some(LinkRate { tenths_gt, width }),
                "{gigabytes}"
            );
        }
    }

    #[test]
    fn a_bandwidth_that_no_link_has_stays_unknown() {
        for gigabytes in [0.0, -1.0, 0.1, 1e9, f64::NAN, f64::INFINITY] {
            assert_eq!(link_rate(gigabytes), None, "{gigabytes}");
        }
    }
}

//! The PCI functions of a file, and that each leads to a host bridge.
#![forbid(unsafe_code)]

use super::super::function;
use super::super::text::Text;
use super::super::values::{
    Once, Place, Result, at_most, dangling, hex, link_rate, list, name, optional, parent, pci_address, wrong,
};
use super::super::{BadTopology, MAX_PCI};
use crate::order;
use crate::topology::{LinkRate, PciAddress, PciFunction, PciParent, PciTree, PcieLink, Topology};

pub(super) fn tree<'f>(functions: &'f [function::PciFunction<'_>], topology: &Topology) -> Result<PciTree> {
    at_most(Place::of("pci"), functions.len(), MAX_PCI)?;
    let mut all = Vec::with_capacity(functions.len());
    let mut addresses = Once::new();
    // most links of a node are alike
    let mut last_link: Option<(&'f str, LinkRate)> = None;
    for (i, function) in functions.iter().enumerate() {
        let at = |field| Place::of("pci").nth(i).field(field);
        let address: PciAddress = pci_address(at("address"), &function.address)?;
        addresses.add(at("address"), address)?;
        // without a list nothing is known of the nodes but their numbers
        let is_listed = |node: u32| topology.numa_nodes.is_empty() || topology.numa_node(node).is_some();
        if let Some(node) = function.numa_node.filter(|&node| !is_listed(node)) {
            return Err(dangling(at("numa_node"), node, "numa_nodes"));
        }
        let id = |field: &'static str, text: &Option<Text>| -> Result<Option<u16>> {
            let id = optional(text, |text| hex(at(field), text, 4, "an id such as `0x10de`"))?;
            Ok(id.map(|id| id as u16))
        };
        let mut link = |field: &'static str, text: &'f Option<Text>| -> Result<Option<LinkRate>> {
            let Some(text) = text.as_deref() else { return Ok(None) };
            let rate = match last_link {
                Some((last, rate)) if last == text => rate,
                _ => link_rate(at(field), text)?,
            };
            last_link = Some((text, rate));
            Ok(Some(rate))
        };
        all.push(PciFunction {
            address,
            parent: parent(at("parent"), &function.parent)?,
            class: optional(&function.class, |text| {
                hex(at("class"), text, 6, "a class of three bytes such as `0x030200`")
            })?,
            vendor: id("vendor", &function.vendor)?,
            device: id("device", &function.device)?,
            subsystem: optional(&function.subsystem, |text| {
                let ids = text.split_once(':').and_then(|(vendor, device)| {
                    let four = |id: &str| (id.len() == 4).then(|| u16::from_str_radix(id, 16).ok()).flatten();
                    Some((four(vendor)?, four(device)?))
                });
                ids.ok_or_else(|| wrong(at("subsystem"), text, "two ids such as `1000:a096`"))
            })?,
            numa_node: function.numa_node,
            local_cpus: optional(&function.local_cpus, |text| list(at("local_cpus"), text))?,
            link: PcieLink {
                current: link("link.current", &function.link.current)?,
                max: link("link.max", &function.link.max)?,
            },
            physfn: optional(&function.physfn, |text| pci_address(at("physfn"), text))?,
            vfs: function.vfs,
            iommu: optional(&function.iommu, |text| name(at("iommu"), text))?,
        });
    }
    let tree = PciTree::of(all);
    // last, when all bridges are known: the file need not be in address order
    for function in tree.iter() {
        if !tree.reaches_host(function.address) {
            let place = addresses.first_place(&function.address).unwrap_or(Place::of("pci"));
            check_parents(&tree, function, place.beside("parent"))?;
        }
    }
    Ok(tree)
}

/// What is wrong above a function that leads to no host bridge; [`PciTree::ancestors`] stops where one does not.
fn check_parents(tree: &PciTree, function: &PciFunction, place: Place) -> Result<()> {
    let address = function.address;
    if let PciParent::Bridge(bridge) = function.parent {
        tree.get(bridge).ok_or_else(|| dangling(place, bridge, "pci"))?;
    }
    let (bridges, _) = tree.ancestors(address);
    if order::set(&bridges).len() < bridges.len() {
        return Err(BadTopology::Circle { place: place.to_string(), value: address.to_string() });
    }
    if bridges.len() < PciTree::MAX_DEPTH {
        // a parent further up is missing: the function that names it gets the error
        return Ok(());
    }
    let expected = format!("at most `{}` above `{address}`", PciTree::MAX_DEPTH);
    Err(wrong(place, format_args!("{} bridges or more", bridges.len() + 1), expected))
}

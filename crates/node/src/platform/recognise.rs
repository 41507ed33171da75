//! Finds which known machine a live node is, and takes from the model what the live bus hides.
//!
//! A node is a known machine if nothing contradicts that and at least two facts of different kinds support
//! it: the DMI product name or the PCI addresses, and a second one of the hardware.  GPUs and NICs alone are
//! not enough, since many vendors use the same eight of each.
//!
//! Live facts win wherever there are any.  Only two things come from a model: the path between functions whose switches a
//! virtual machine hides, and a NIC's role.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use super::{MODELS, Model};
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::order::{self, Order};
use nic_placement_topology::{
    Gpu, Nic, NicIndex, NicKind, NicRole, PathType, PciAddress, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// A node's identity in `/sys/class/dmi/id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dmi {
    /// `product_name`
    pub product: Option<String>,
    /// `sys_vendor`
    pub vendor: Option<String>,
    /// `board_name`
    pub board: Option<String>,
    /// marks the machines of some clouds
    pub chassis_asset_tag: Option<String>,
}

// the kinds of fact by which a node is recognised
/// its DMI product or board has the model's name
const PRODUCT: &str = "its product name";
/// as many GPUs, of the same kind
const GPUS: &str = "its GPUs";
/// as many NICs of the kinds that carry the fabric
const NICS: &str = "its NICs";
/// its GPUs, and at least half of the fabric's NICs, have the model's addresses
const ADDRESSES: &str = "its PCI addresses";

/// The known machine that this node is; `None` where none is certain or two are equally likely.
pub fn recognise(dmi: &Dmi, live: &Topology) -> Option<&'static Model> {
    let mut candidates: Vec<(usize, &'static Model)> = MODELS
        .iter()
        .filter_map(|model| Some((evidence(dmi, live, model)?.len(), model)))
        .collect();
    candidates.order_by_key(|&(facts, _)| std::cmp::Reverse(facts));
    match candidates.as_slice() {
        [(most, _), (second, _), ..] if most == second => None,
        [(_, model), ..] => Some(model),
        [] => None,
    }
}

/// The facts that make this node `model`; `None` if they are too few or something contradicts it.
fn evidence(dmi: &Dmi, live: &Topology, model: &Model) -> Option<Vec<&'static str>> {
    // first the checks without the model's topology: the plugin tries every model in every step
    let is_recognisable = model.addresses || has_product(dmi, model);
    if !is_recognisable || contradicts(dmi, live, model) {
        return None;
    }
    let facts = facts(dmi, live, model, &model.topology()?)?;
    let is_named = facts
        .iter()
        .any(|&fact| fact == PRODUCT || fact == ADDRESSES);
    (facts.len() >= 2 && is_named).then_some(facts)
}

/// True if the node's DMI names or its GPUs exclude this machine.
pub fn contradicts(dmi: &Dmi, live: &Topology, model: &Model) -> bool {
    let differs = |said: &Option<String>, known: Option<&str>| match (said, known) {
        (Some(said), Some(known)) => said.trim() != known,
        _ => false,
    };
    let elsewhere = model.cloud.as_ref().is_some_and(|cloud| {
        differs(&dmi.vendor, cloud.vendor) || differs(&dmi.chassis_asset_tag, cloud.asset_tag)
    });
    // an unknown product with no vendor is not a virtual machine of a cloud
    let names_its_vendor = dmi.vendor.is_some() || dmi.chassis_asset_tag.is_some();
    let names_another = dmi.product.is_some() && !has_product(dmi, model);
    let elsewhere = elsewhere || (model.is_a_clouds() && names_another && !names_its_vendor);
    let other_product = names_another && !model.products.is_empty();
    let gpus = gpu_addresses(live);
    let other_gpus = live
        .gpus
        .iter()
        .any(|gpu| is_of_kind(live, gpu, model) == Some(false));
    elsewhere || other_product || other_gpus || gpus.is_empty() || gpus.len() > model.gpus
}

/// True for a GPU of the machine's kind, by its vendor and device id, else by its driver's name.
fn is_of_kind(live: &Topology, gpu: &Gpu, model: &Model) -> Option<bool> {
    let mut kinds = model
        .kinds
        .iter()
        .filter(|kind| kind.vendor == gpu.vendor)
        .peekable();
    if kinds.peek().is_none() {
        return Some(false);
    }
    if let Some(id) = device(live, gpu.address) {
        return Some(kinds.any(|kind| kind.id == id));
    }
    let name = gpu.model.as_deref()?;
    Some(kinds.any(|kind| kind.names.contains(&name)))
}

pub fn has_product(dmi: &Dmi, model: &Model) -> bool {
    let said = [&dmi.product, &dmi.board];
    let mut said = said.into_iter().flatten().map(|name| name.trim());
    said.any(|name| {
        model
            .products
            .iter()
            .any(|product| name.starts_with(product))
    })
}

/// The facts that agree; `None` if GPUs are missing without a reason.
fn facts(dmi: &Dmi, live: &Topology, model: &Model, known: &Topology) -> Option<Vec<&'static str>> {
    let gpus = gpu_addresses(live);
    let in_place = model.addresses && gpus.is_subset(&gpu_addresses(known));
    // only addresses can identify a job's or a virtual machine's part of the GPUs
    if gpus.len() < model.gpus && !in_place {
        return None;
    }
    let same_gpus = gpus.len() == model.gpus
        && live
            .gpus
            .iter()
            .all(|gpu| is_of_kind(live, gpu, model) == Some(true));
    let agreeing = [
        (PRODUCT, has_product(dmi, model)),
        (GPUS, same_gpus),
        (NICS, same_nics(live, known)),
        (ADDRESSES, in_place && fabric_in_place(live, model, known)),
    ];
    Some(
        agreeing
            .into_iter()
            .filter(|(_, agrees)| *agrees)
            .map(|(fact, _)| fact)
            .collect(),
    )
}

/// True if the node has as many NICs of each kind that carries the model's fabric.
fn same_nics(live: &Topology, known: &Topology) -> bool {
    let kind = |topology: &Topology, nic: &Nic| (nic.kind, nic_device(topology, nic));
    let count = |topology: &Topology, wanted: (NicKind, Option<u16>)| {
        topology
            .nics
            .iter()
            .filter(|nic| kind(topology, nic) == wanted)
            .count()
    };
    let mut kinds = known
        .nics
        .iter()
        .filter(|nic| carries_the_fabric(nic))
        .map(|nic| kind(known, nic))
        .peekable();
    let same =
        |kind: (NicKind, Option<u16>)| kind.1.is_some() && count(live, kind) == count(known, kind);
    kinds.peek().is_some() && kinds.all(same)
}

/// True if at least half of the fabric's NICs have the model's addresses.  One may be broken.
fn fabric_in_place(live: &Topology, model: &Model, known: &Topology) -> bool {
    let found = |nic: &&Nic| {
        live.nics
            .iter()
            .any(|other| other.kind == nic.kind && other.address == nic.address)
    };
    let fabric = known
        .nics
        .iter()
        .filter(|nic| carries_the_fabric(nic) && is_stated(nic, model));
    let fabric: Vec<&Nic> = fabric.collect();
    let in_place = fabric.iter().filter(|nic| found(nic)).count();
    in_place > 0 && in_place * 2 >= fabric.len()
}

pub fn carries_the_fabric(nic: &Nic) -> bool {
    nic.address.is_some() && nic.role == Some(NicRole::Compute)
}

/// Each GPU's PCI function once: the partitions of a GPU share one.
pub fn gpu_addresses(topology: &Topology) -> BTreeSet<PciAddress> {
    order::set(topology.gpus.iter().map(|gpu| gpu.address))
}

fn device(topology: &Topology, address: PciAddress) -> Option<u16> {
    topology.pci.get(address)?.device
}

fn nic_device(topology: &Topology, nic: &Nic) -> Option<u16> {
    device(topology, nic.address?)
}

/// Adds what the live bus hides, and reports it: roles, and paths between GPUs and NICs that the bus shows no nearer
/// than [`PathType::Node`].  It changes no known fact.
///
/// A GPU or a NIC that the bus shows near another one keeps what the bus shows.
pub(crate) fn supply(live: &mut Topology, model: &Model) -> Vec<Diagnostic> {
    let Some(known) = model.topology() else {
        return Vec::new();
    };
    let how = facts(&Dmi::default(), live, model, &known).unwrap_or_default();
    let paths = hidden_paths(live, model, &known);
    let roles: Vec<(NicIndex, NicRole)> = live
        .numbered_nics()
        .filter(|(_, nic)| nic.role.is_none())
        .filter_map(|(index, nic)| Some((index, counterpart(live, nic, model, &known)?.role?)))
        .collect();
    if paths.is_empty() && roles.is_empty() {
        return Vec::new();
    }
    let finding = format!(
        "recognised by {}; from its model: {}",
        listed(&how),
        match (paths.len(), roles.len()) {
            (paths, 0) => counted(paths, "path"),
            (0, roles) => counted(roles, "role"),
            (paths, roles) => format!("{} and {}", counted(paths, "path"), counted(roles, "role")),
        }
    );
    live.stated_paths.extend(paths);
    roles
        .into_iter()
        .for_each(|(nic, role)| live.nics[nic.0].role = Some(role));
    vec![Diagnostic::new(model.name, finding)]
}

/// The model's paths between functions of both, where they are nearer than the live bus shows.
fn hidden_paths(
    live: &Topology,
    model: &Model,
    modelled: &Topology,
) -> BTreeMap<(PciAddress, PciAddress), PathType> {
    let (gpus, known_gpus) = (gpu_addresses(live), gpu_addresses(modelled));
    let nics = order::set(live.nics.iter().filter_map(|nic| nic.address));
    let pairs = || {
        gpus.iter()
            .flat_map(|&gpu| nics.iter().map(move |&nic| (gpu, nic)))
    };
    let shown = order::map(pairs().map(|(gpu, nic)| ((gpu, nic), live.path_type(gpu, nic))));
    let near = shown.iter().filter(|(_, kind)| **kind <= PathType::Pxb);
    let shown_near = order::set(near.flat_map(|(&(gpu, nic), _)| [gpu, nic]));
    let known = |gpu: PciAddress, nic: PciAddress| {
        let stated = |known: &Nic| known.address == Some(nic) && is_stated(known, model);
        known_gpus.contains(&gpu) && modelled.nics.iter().any(stated)
    };
    let mut hidden = BTreeMap::new();
    for (&(gpu, nic), &shown) in &shown {
        let is_shown = [gpu, nic]
            .iter()
            .any(|address| shown_near.contains(address));
        let is_stated = [(gpu, nic), (nic, gpu)]
            .iter()
            .any(|pair| live.stated_paths.contains_key(pair));
        if is_shown || is_stated || !known(gpu, nic) || shown < PathType::Node {
            continue;
        }
        let path = modelled.path_type(gpu, nic);
        // whether two functions share a NUMA node is for the live system to say, if it knows their nodes
        let unplaced = [gpu, nic]
            .into_iter()
            .any(|address| live.numa_node_of(address).is_none());
        if path < shown && (path < PathType::Node || unplaced) {
            hidden.insert((gpu, nic), path);
        }
    }
    hidden
}

/// The model's NIC for a live one: at the same address, else of the same name and kind of device.
fn counterpart<'a>(
    live: &Topology,
    nic: &Nic,
    model: &Model,
    modelled: &'a Topology,
) -> Option<&'a Nic> {
    let same_kind = || modelled.nics.iter().filter(|known| known.kind == nic.kind);
    let at_its_address = same_kind().find(|known| {
        nic.address.is_some() && known.address == nic.address && is_stated(known, model)
    });
    at_its_address.or_else(|| {
        let device = nic_device(live, nic)?;
        same_kind()
            .find(|known| known.name == nic.name && nic_device(modelled, known) == Some(device))
    })
}

/// True if a source of the model states this NIC's address.
pub fn is_stated(nic: &Nic, model: &Model) -> bool {
    model.addresses && !model.assumed.contains(&nic.name.as_str())
}

/// `its GPUs, its NICs and its PCI addresses`
fn listed(facts: &[&str]) -> String {
    match facts {
        [] => "its name".to_string(),
        [only] => only.to_string(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("`{count}` {what}{}", if count == 1 { "" } else { "s" })
}

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

use super::marks::{MARKS, Marks};
use super::{MODELS, Model};
use crate::diagnostic::Diagnostic;
use crate::order::{self, Order};
use crate::topology::{Gpu, Nic, NicIndex, NicKind, NicRole, PathType, PciAddress, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A node's identity in `/sys/class/dmi/id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dmi {
    /// `product_name`
    pub product: Option<String>,
    /// `sys_vendor`
    pub vendor: Option<String>,
    /// `board_name`
    pub board: Option<String>,
    /// `chassis_asset_tag`, which marks the machines of some clouds
    pub chassis_asset_tag: Option<String>,
}

/// A kind of fact by which a node is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fact {
    /// its DMI product or board has the model's name
    Product,
    /// as many GPUs, of the same kind
    Gpus,
    /// as many NICs of the kinds that carry the fabric
    Nics,
    /// its GPUs, and at least half of the fabric's NICs, have the model's addresses
    Addresses,
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fact::Product => "its product name",
            Fact::Gpus => "its GPUs",
            Fact::Nics => "its NICs",
            Fact::Addresses => "its PCI addresses",
        })
    }
}

/// The known machine that this node is; `None` where none is certain or two are equally likely.
pub fn recognise(dmi: &Dmi, live: &Topology) -> Option<&'static Model> {
    let mut candidates: Vec<(usize, &'static Model)> =
        MODELS.iter().filter_map(|model| Some((evidence(dmi, live, model)?.len(), model))).collect();
    candidates.order_by_key(|&(facts, _)| std::cmp::Reverse(facts));
    match candidates.as_slice() {
        [(most, _), (second, _), ..] if most == second => None,
        [(_, model), ..] => Some(model),
        [] => None,
    }
}

/// The facts that make this node `model`; `None` if they are too few or something contradicts it.
pub(super) fn evidence(dmi: &Dmi, live: &Topology, model: &Model) -> Option<Vec<Fact>> {
    let marks = marks(model.name)?;
    // first the checks without the model's topology: the plugin tries every model in every step
    let is_recognisable = marks.addresses || has_product(dmi, marks);
    if !is_recognisable || contradicts(dmi, live, marks) {
        return None;
    }
    let facts = facts(dmi, live, marks, &model.topology().ok()?)?;
    let named = facts.iter().any(|fact| matches!(fact, Fact::Product | Fact::Addresses));
    let seen = facts.iter().any(|fact| matches!(fact, Fact::Gpus | Fact::Nics | Fact::Addresses));
    (facts.len() >= 2 && named && seen).then_some(facts)
}

pub(super) fn marks(model: &str) -> Option<&'static Marks> {
    MARKS.iter().find(|marks| marks.model == model)
}

/// Do the node's DMI names or its GPUs exclude this machine?
pub(super) fn contradicts(dmi: &Dmi, live: &Topology, marks: &Marks) -> bool {
    let differs = |said: &Option<String>, known: Option<&str>| match (said, known) {
        (Some(said), Some(known)) => said.trim() != known,
        _ => false,
    };
    let elsewhere = marks.provider.as_ref().is_some_and(|provider| {
        differs(&dmi.vendor, provider.vendor) || differs(&dmi.chassis_asset_tag, provider.asset_tag)
    });
    // an unknown product with no vendor is not a virtual machine of a cloud
    let names_its_vendor = dmi.vendor.is_some() || dmi.chassis_asset_tag.is_some();
    let names_another = dmi.product.is_some() && !has_product(dmi, marks);
    let elsewhere = elsewhere || (marks.provider.is_some() && names_another && !names_its_vendor);
    let other_product = dmi.product.is_some() && !marks.products.is_empty() && !has_product(dmi, marks);
    let gpus = gpu_addresses(live);
    let other_gpus = live
        .gpus
        .iter()
        .any(|gpu| gpu.vendor != marks.gpu_vendor || is_of_kind(live, gpu, marks) == Some(false));
    elsewhere || other_product || other_gpus || gpus.is_empty() || gpus.len() > marks.gpus
}

/// Is it a GPU of the machine's kind, by its device id, else by its driver's name?
fn is_of_kind(live: &Topology, gpu: &Gpu, marks: &Marks) -> Option<bool> {
    if let Some(id) = device(live, gpu.address) {
        return Some(marks.kinds.iter().any(|kind| kind.id == id));
    }
    let name = gpu.model.as_deref()?;
    Some(marks.kinds.iter().any(|kind| kind.names.contains(&name)))
}

pub(super) fn has_product(dmi: &Dmi, marks: &Marks) -> bool {
    let said = [&dmi.product, &dmi.board];
    let mut said = said.into_iter().flatten().map(|name| name.trim());
    said.any(|name| marks.products.iter().any(|product| name.starts_with(product)))
}

/// The facts that agree; `None` if GPUs are missing without a reason.
fn facts(dmi: &Dmi, live: &Topology, marks: &Marks, model: &Topology) -> Option<Vec<Fact>> {
    let gpus = gpu_addresses(live);
    let in_place = marks.addresses && gpus.is_subset(&gpu_addresses(model));
    // only addresses can identify a job's or a virtual machine's part of the GPUs
    if gpus.len() < marks.gpus && !in_place {
        return None;
    }
    let same_gpus =
        gpus.len() == marks.gpus && live.gpus.iter().all(|gpu| is_of_kind(live, gpu, marks) == Some(true));
    let agreeing = [
        (Fact::Product, has_product(dmi, marks)),
        (Fact::Gpus, same_gpus),
        (Fact::Nics, same_nics(live, model)),
        (Fact::Addresses, in_place && fabric_in_place(live, marks, model)),
    ];
    Some(agreeing.into_iter().filter(|(_, agrees)| *agrees).map(|(fact, _)| fact).collect())
}

/// Does the node have as many NICs of each kind that carries the model's fabric?
fn same_nics(live: &Topology, model: &Topology) -> bool {
    let kind = |topology: &Topology, nic: &Nic| (nic.kind, nic_device(topology, nic));
    let count = |topology: &Topology, wanted: (NicKind, Option<u16>)| {
        topology.nics.iter().filter(|nic| kind(topology, nic) == wanted).count()
    };
    let mut kinds =
        model.nics.iter().filter(|nic| carries_the_fabric(nic)).map(|nic| kind(model, nic)).peekable();
    let same = |kind: (NicKind, Option<u16>)| kind.1.is_some() && count(live, kind) == count(model, kind);
    kinds.peek().is_some() && kinds.all(same)
}

/// Do at least half of the fabric's NICs have the model's addresses?  One may be broken.
fn fabric_in_place(live: &Topology, marks: &Marks, model: &Topology) -> bool {
    let found =
        |nic: &&Nic| live.nics.iter().any(|other| other.kind == nic.kind && other.address == nic.address);
    let fabric: Vec<&Nic> = model
        .nics
        .iter()
        .filter(|nic| carries_the_fabric(nic) && !marks.assumed.contains(&nic.name.as_str()))
        .collect();
    let in_place = fabric.iter().filter(|nic| found(nic)).count();
    in_place > 0 && in_place * 2 >= fabric.len()
}

pub(super) fn carries_the_fabric(nic: &Nic) -> bool {
    nic.address.is_some() && nic.role == Some(NicRole::Compute)
}

/// Each GPU's PCI function once: the partitions of a GPU share one.
pub(super) fn gpu_addresses(topology: &Topology) -> BTreeSet<PciAddress> {
    order::set(topology.gpus.iter().map(|gpu| gpu.address))
}

fn device(topology: &Topology, address: PciAddress) -> Option<u16> {
    topology.pci.get(address)?.device
}

fn nic_device(topology: &Topology, nic: &Nic) -> Option<u16> {
    device(topology, nic.address?)
}

/// Fills in what the live bus hides, and reports it: roles, and paths between GPUs and NICs that the live bus
/// shows no nearer than [`PathType::Node`].  It changes no known fact.
///
/// A GPU or a NIC that the live bus shows near another one keeps what the bus shows: there it hides nothing.
pub(crate) fn supply(live: &mut Topology, model: &Topology) -> Vec<Diagnostic> {
    let marks = marks(&model.name);
    let how = marks.and_then(|marks| facts(&Dmi::default(), live, marks, model)).unwrap_or_default();
    let paths = hidden_paths(live, marks, model);
    let roles: Vec<(NicIndex, NicRole)> = live
        .numbered_nics()
        .filter(|(_, nic)| nic.role.is_none())
        .filter_map(|(index, nic)| Some((index, counterpart(live, nic, marks, model)?.role?)))
        .collect();
    if paths.is_empty() && roles.is_empty() {
        return Vec::new();
    }
    let finding = format!(
        "recognised by {}; from its model: {}",
        listed(&how, "its name"),
        match (paths.len(), roles.len()) {
            (paths, 0) => counted(paths, "path"),
            (0, roles) => counted(roles, "role"),
            (paths, roles) => format!("{} and {}", counted(paths, "path"), counted(roles, "role")),
        }
    );
    live.stated_paths.extend(paths);
    roles.into_iter().for_each(|(nic, role)| live.nics[nic.0].role = Some(role));
    vec![Diagnostic::new(&model.name, finding)]
}

/// The model's paths between functions of both, where they are nearer than the live bus shows.
fn hidden_paths(
    live: &Topology,
    marks: Option<&Marks>,
    model: &Topology,
) -> BTreeMap<(PciAddress, PciAddress), PathType> {
    let (gpus, known_gpus) = (gpu_addresses(live), gpu_addresses(model));
    let nics = order::set(live.nics.iter().filter_map(|nic| nic.address));
    let pairs = || gpus.iter().flat_map(|&gpu| nics.iter().map(move |&nic| (gpu, nic)));
    let shown = order::map(pairs().map(|(gpu, nic)| ((gpu, nic), live.path_type(gpu, nic))));
    let near = shown.iter().filter(|(_, kind)| **kind <= PathType::Pxb);
    let shown_near = order::set(near.flat_map(|(&(gpu, nic), _)| [gpu, nic]));
    let known = |gpu: PciAddress, nic: PciAddress| {
        let stated = |known: &Nic| known.address == Some(nic) && is_stated(known, marks);
        known_gpus.contains(&gpu) && model.nics.iter().any(stated)
    };
    let mut hidden = BTreeMap::new();
    for (&(gpu, nic), &shown) in &shown {
        let is_shown = [gpu, nic].iter().any(|address| shown_near.contains(address));
        let is_stated = [(gpu, nic), (nic, gpu)].iter().any(|pair| live.stated_paths.contains_key(pair));
        if is_shown || is_stated || !known(gpu, nic) || shown < PathType::Node {
            continue;
        }
        let modelled = model.path_type(gpu, nic);
        // whether two functions share a NUMA node is for the live system to say, if it knows their nodes
        let unplaced = [gpu, nic].into_iter().any(|address| live.numa_node_of(address).is_none());
        if modelled < shown && (modelled < PathType::Node || unplaced) {
            hidden.insert((gpu, nic), modelled);
        }
    }
    hidden
}

/// The model's NIC for a live one: at the same address, else of the same name and kind of device.
fn counterpart<'a>(
    live: &Topology,
    nic: &Nic,
    marks: Option<&Marks>,
    model: &'a Topology,
) -> Option<&'a Nic> {
    let same_kind = || model.nics.iter().filter(|known| known.kind == nic.kind);
    let at_its_address = same_kind()
        .find(|known| nic.address.is_some() && known.address == nic.address && is_stated(known, marks));
    at_its_address.or_else(|| {
        let device = nic_device(live, nic)?;
        same_kind().find(|known| known.name == nic.name && nic_device(model, known) == Some(device))
    })
}

/// Does a source of the model give this NIC's address?
fn is_stated(nic: &Nic, marks: Option<&Marks>) -> bool {
    marks.is_none_or(|marks| marks.addresses && !marks.assumed.contains(&nic.name.as_str()))
}

/// `its GPUs, its NICs and its PCI addresses`
fn listed(facts: &[Fact], none: &str) -> String {
    let words: Vec<String> = facts.iter().map(ToString::to_string).collect();
    match words.as_slice() {
        [] => none.to_string(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("`{count}` {what}{}", if count == 1 { "" } else { "s" })
}

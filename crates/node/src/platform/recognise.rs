//! Recognises a live node as a known machine.
//!
//! DMI and GPUs must not contradict the model, and two facts must agree with the model: DMI product
//! or PCI addresses, and one more. GPUs and NICs do not suffice: many vendors use the same ones.
//!
//! Live facts override the model. The model adds only roles of NICs, and paths through switches
//! that a virtual machine hides.

#[cfg(test)]
mod tests;

use super::{MODELS, Model};
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::order::{self, Order};
use nic_placement_topology::{
    Gpu, Nic, NicIndex, NicKind, NicRole, PathType, PciAddress, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// The identity in `/sys/class/dmi/id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dmi {
    /// `product_name`
    pub product: Option<String>,
    /// `sys_vendor`
    pub vendor: Option<String>,
    /// `board_name`
    pub board: Option<String>,
    /// set by some clouds
    pub chassis_asset_tag: Option<String>,
}

// kinds of facts that agree with a model
/// the DMI product or board
const PRODUCT: &str = "its product name";
/// as many GPUs as the model has, all of the model's kinds
const GPUS: &str = "its GPUs";
/// as many NICs as the model has, for each kind of compute NIC
const NICS: &str = "its NICs";
/// the PCI addresses of all GPUs, and of at least half of the compute NICs
const ADDRESSES: &str = "its PCI addresses";

/// The model with the most agreeing facts; `None` if no model has enough, or on a tie.
pub fn recognise(dmi: &Dmi, live: &Topology) -> Option<&'static Model> {
    let models = MODELS.iter();
    let mut candidates: Vec<(usize, &'static Model)> = models
        .filter_map(|model| Some((evidence(dmi, live, model)?.len(), model)))
        .collect();
    candidates.order_by_key(|&(facts, _)| std::cmp::Reverse(facts));
    match candidates.as_slice() {
        [(most, _), (second, _), ..] if most == second => None,
        candidates => Some(candidates.first()?.1),
    }
}

/// Facts that agree with a model; `None` if too few do, or DMI or GPUs contradict the model.
fn evidence(dmi: &Dmi, live: &Topology, model: &Model) -> Option<Vec<&'static str>> {
    // every step tries every model, so checks that unpack no topology come first
    let is_recognisable = model.addresses || has_product(dmi, model);
    if !is_recognisable || contradicts(dmi, live, model) {
        return None;
    }
    let facts = facts(dmi, live, model, &model.topology()?)?;
    let is_named = facts.contains(&PRODUCT) || facts.contains(&ADDRESSES);
    (facts.len() >= 2 && is_named).then_some(facts)
}

fn contradicts(dmi: &Dmi, live: &Topology, model: &Model) -> bool {
    let differs = |found: &Option<String>, known: Option<&str>| {
        let both = found.as_deref().zip(known);
        both.is_some_and(|(found, known)| found.trim() != known)
    };
    let names_another = dmi.product.is_some() && !has_product(dmi, model);
    let elsewhere = model.cloud.as_ref().is_some_and(|cloud| {
        differs(&dmi.vendor, cloud.vendor)
            || differs(&dmi.chassis_asset_tag, cloud.asset_tag)
            // a cloud's virtual machine has the cloud's vendor or tag in its DMI
            || names_another && dmi.vendor.is_none() && dmi.chassis_asset_tag.is_none()
    });
    let is_other = |gpu| is_of_kind(live, gpu, model) == Some(false);
    let gpus = gpu_addresses(live).len();
    elsewhere
        || names_another && !model.products.is_empty()
        || live.gpus.iter().any(is_other)
        || gpus == 0
        || gpus > model.gpus
}

/// True for a GPU of the model's kinds, by PCI device id, else by its name in the driver; `None` if
/// neither is known.
fn is_of_kind(live: &Topology, gpu: &Gpu, model: &Model) -> Option<bool> {
    let kinds = model.kinds.iter();
    let mut kinds = kinds.filter(|kind| kind.vendor == gpu.vendor).peekable();
    if kinds.peek().is_none() {
        return Some(false);
    }
    if let Some(id) = device(live, gpu.address) {
        return Some(kinds.any(|kind| kind.id == id));
    }
    let name = gpu.model.as_deref()?;
    Some(kinds.any(|kind| kind.names.contains(&name)))
}

fn has_product(dmi: &Dmi, model: &Model) -> bool {
    let mut names = [&dmi.product, &dmi.board].into_iter().flatten();
    names.any(|name| {
        let mut products = model.products.iter();
        products.any(|product| name.trim().starts_with(product))
    })
}

/// The facts that agree. `None` if `live` has fewer GPUs than the model (as in a job or virtual
/// machine), unless all are at the model's stated addresses.
fn facts(dmi: &Dmi, live: &Topology, model: &Model, known: &Topology) -> Option<Vec<&'static str>> {
    let gpus = gpu_addresses(live);
    let in_place = model.addresses && gpus.is_subset(&gpu_addresses(known));
    if gpus.len() < model.gpus && !in_place {
        return None;
    }
    let is_same = |gpu| is_of_kind(live, gpu, model) == Some(true);
    let agreeing = [
        (PRODUCT, has_product(dmi, model)),
        (
            GPUS,
            gpus.len() == model.gpus && live.gpus.iter().all(is_same),
        ),
        (NICS, same_nics(live, known)),
        (ADDRESSES, in_place && fabric_in_place(live, model, known)),
    ];
    let agreeing = agreeing.into_iter().filter(|(_, agrees)| *agrees);
    Some(agreeing.map(|(fact, _)| fact).collect())
}

/// True if node and model have equally many NICs of each kind of compute NIC in the model.
fn same_nics(live: &Topology, known: &Topology) -> bool {
    let kind = |node: &Topology, nic: &Nic| (nic.kind, nic_device(node, nic));
    let count = |node: &Topology, wanted: (NicKind, Option<u16>)| {
        let nics = node.nics.iter();
        nics.filter(|nic| kind(node, nic) == wanted).count()
    };
    let mut fabric = known
        .nics
        .iter()
        .filter(|nic| carries_the_fabric(nic))
        .peekable();
    fabric.peek().is_some()
        && fabric
            .map(|nic| kind(known, nic))
            .all(|kind| kind.1.is_some() && count(live, kind) == count(known, kind))
}

/// True if `live` has at least half of the model's compute NICs at their addresses; some may be
/// broken.
fn fabric_in_place(live: &Topology, model: &Model, known: &Topology) -> bool {
    let found = |nic: &&&Nic| {
        let mut others = live.nics.iter();
        others.any(|other| other.kind == nic.kind && other.address == nic.address)
    };
    let fabric = known.nics.iter();
    let fabric = fabric.filter(|nic| carries_the_fabric(nic) && is_stated(nic, model));
    let fabric: Vec<&Nic> = fabric.collect();
    let in_place = fabric.iter().filter(found).count();
    in_place > 0 && in_place * 2 >= fabric.len()
}

pub fn carries_the_fabric(nic: &Nic) -> bool {
    nic.address.is_some() && nic.role == Some(NicRole::Compute)
}

/// PCI addresses of GPUs; partitions share the GPU's address.
pub fn gpu_addresses(node: &Topology) -> BTreeSet<PciAddress> {
    order::set(node.gpus.iter().map(|gpu| gpu.address))
}

fn device(node: &Topology, address: PciAddress) -> Option<u16> {
    node.pci.get(address)?.device
}

fn nic_device(node: &Topology, nic: &Nic) -> Option<u16> {
    device(node, nic.address?)
}

/// Adds the model's roles and [`hidden_paths`] to a recognised node; returns a finding that counts
/// them.
pub(crate) fn supply(live: &mut Topology, model: &Model) -> Vec<Diagnostic> {
    let Some(known) = model.topology() else {
        return Vec::new();
    };
    let how = facts(&Dmi::default(), live, model, &known).unwrap_or_default();
    let paths = hidden_paths(live, model, &known);
    let nics = live.numbered_nics().filter(|(_, nic)| nic.role.is_none());
    let roles: Vec<(NicIndex, NicRole)> = nics
        .filter_map(|(index, nic)| Some((index, counterpart(live, nic, model, &known)?.role?)))
        .collect();
    let what = match (paths.len(), roles.len()) {
        (0, 0) => return Vec::new(),
        (paths, 0) => counted(paths, "path"),
        (0, roles) => counted(roles, "role"),
        (paths, roles) => format!("{} and {}", counted(paths, "path"), counted(roles, "role")),
    };
    live.stated_paths.extend(paths);
    for (nic, role) in roles {
        live.nics[nic.0].role = Some(role);
    }
    let finding = format!("recognised by {}; from its model: {what}", listed(&how));
    vec![Diagnostic::new(model.name, finding)]
}

/// Paths from GPUs to NICs that are nearer in the model than on the live bus. A GPU and a NIC below
/// a common live switch get none: the bus shows all their paths.
fn hidden_paths(
    live: &Topology,
    model: &Model,
    modelled: &Topology,
) -> BTreeMap<(PciAddress, PciAddress), PathType> {
    let known_gpus = gpu_addresses(modelled);
    let nics = order::set(live.nics.iter().filter_map(|nic| nic.address));
    let pairs = gpu_addresses(live).into_iter();
    let pairs = pairs.flat_map(|gpu| nics.iter().map(move |&nic| (gpu, nic)));
    let shown = order::map(pairs.map(|(gpu, nic)| ((gpu, nic), live.path_type(gpu, nic))));
    let near = shown.iter().filter(|(_, kind)| **kind <= PathType::Pxb);
    let shown_near = order::set(near.flat_map(|(&(gpu, nic), _)| [gpu, nic]));
    let is_known = |gpu: PciAddress, nic: PciAddress| {
        let stated = |known: &Nic| known.address == Some(nic) && is_stated(known, model);
        known_gpus.contains(&gpu) && modelled.nics.iter().any(stated)
    };
    let is_stated = |pair| live.stated_paths.contains_key(&pair);
    let mut hidden = BTreeMap::new();
    for (&(gpu, nic), &shown) in &shown {
        let is_shown = shown_near.contains(&gpu) || shown_near.contains(&nic);
        if is_shown
            || is_stated((gpu, nic))
            || is_stated((nic, gpu))
            || !is_known(gpu, nic)
            || shown < PathType::Node
        {
            continue;
        }
        let path = modelled.path_type(gpu, nic);
        // if both NUMA nodes are known, the live bus decides between `Node` and `Sys`
        let is_placed = |address| live.numa_node_of(address).is_some();
        let is_open = !is_placed(gpu) || !is_placed(nic);
        if path < shown && (path < PathType::Node || is_open) {
            hidden.insert((gpu, nic), path);
        }
    }
    hidden
}

/// The model's NIC at the address of `nic`, else with the name and PCI device id of `nic`.
fn counterpart<'a>(
    live: &Topology,
    nic: &Nic,
    model: &Model,
    modelled: &'a Topology,
) -> Option<&'a Nic> {
    let same_kind = || modelled.nics.iter().filter(|known| known.kind == nic.kind);
    let is_there = |known: &&Nic| {
        nic.address.is_some() && known.address == nic.address && is_stated(known, model)
    };
    same_kind().find(is_there).or_else(|| {
        let device = nic_device(live, nic)?;
        let is_it =
            |known: &&Nic| known.name == nic.name && nic_device(modelled, known) == Some(device);
        same_kind().find(is_it)
    })
}

/// True if the model's sources state this NIC's address.
pub fn is_stated(nic: &Nic, model: &Model) -> bool {
    model.addresses && !model.assumed.contains(&nic.name.as_str())
}

/// Joins `its GPUs, its NICs and its PCI addresses`.
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

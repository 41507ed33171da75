//! The switch that each cable of a node belongs on: by most nodes on the same switches.
//!
//! Nodes are compared with those that have the same NICs. On a switch with cables of several nodes, most of these have their
//! port `s` on one switch: the partner of that switch for `s`. Each cable of a node votes for the partner of its switch, so
//! one wrong cable is outvoted by the others of the node, and no order of switches need be known.

use super::names::{NodeCables, PortKey};
use crate::audit;
use crate::audit::kinds::{PART, majority};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CableLayout {
    /// each NIC of a node on a switch of its own, NICs of one number together
    RailOptimised,
    /// several NICs of a node on each of several switches
    Grouped,
    OneLeaf,
    /// no order that most nodes share
    NotRecognised,
}

pub struct CableKind<'a> {
    pub slots: Vec<PortKey<'a>>,
    pub nodes: Vec<&'a NodeCables<'a>>,
    pub cables: Vec<SlotCable<'a>>,
    pub layout: CableLayout,
    /// of each slot; storage and management NICs have none
    pub rail_of: Vec<Option<usize>>,
    /// the switches of each set of slots; not of storage or management NICs
    pub classes: Classes<'a>,
}

/// A cable, or the place for one that most nodes of the kind have.
#[derive(Clone, Copy)]
pub struct SlotCable<'a> {
    pub node: &'a NodeCables<'a>,
    pub slot: usize,
    pub is_linked: bool,
    /// `None` without a link, and where the sources name several
    pub at: Option<&'a str>,
    /// the switch of most nodes beside it; `None` if not known
    pub belongs: Option<&'a str>,
}

impl SlotCable<'_> {
    pub fn is_elsewhere(&self) -> bool {
        self.at.is_some() && self.belongs.is_some() && self.at != self.belongs
    }
}

impl CableKind<'_> {
    pub fn nic(&self, slot: usize) -> String {
        let (nic, port) = self.slots[slot];
        let ports = self.slots.iter().filter(|(other, _)| *other == nic);
        match (ports.count(), port) {
            (1, 1) => nic.to_string(),
            _ => format!("{nic}:{port}"),
        }
    }

    /// Rails and slots, sorted, for `rails=`; `None` if it cannot name them: two ports of one NIC share a name, and `HCA-1` is a
    /// subnet manager's.
    pub fn order(&self, mut slots: Vec<(usize, usize)>) -> Option<String> {
        slots.sort_unstable();
        let nics: Vec<&str> = slots.iter().map(|(_, slot)| self.slots[*slot].0).collect();
        let is_named = self.layout == CableLayout::RailOptimised
            && self.nodes.iter().all(|node| node.has_own_names)
            && BTreeSet::from_iter(&nics).len() == nics.len()
            && !nics.iter().any(|nic| nic.starts_with("HCA-"));
        is_named.then(|| nics.join(","))
    }
}

/// The kinds of nodes, the weightiest first: many nodes with many NICs.
fn kinds<'a>(nodes: &'a [NodeCables<'a>]) -> Vec<CableKind<'a>> {
    let mut sets: BTreeMap<BTreeSet<PortKey>, Vec<&NodeCables>> = BTreeMap::new();
    for node in nodes {
        let set = node.ports.iter().copied().collect();
        sets.entry(set).or_default().push(node);
    }
    let lacks_few = |set: &BTreeSet<PortKey>, of: &BTreeSet<PortKey>| {
        let missing = of.len().saturating_sub(set.len());
        let is_few = missing * PART <= of.len() || missing == 1 && of.len() > 2;
        (is_few && set.is_subset(of)).then_some(missing)
    };
    let mut kinds = audit::kinds::kinds(sets, lacks_few);
    // nodes with many NICs number the rails: sixteen of these, and not a thousand nodes with two
    kinds.sort_by_key(|(set, nodes)| Reverse(set.len().pow(3) * nodes.len()));
    let kinds = kinds.into_iter();
    kinds.map(|(set, nodes)| kind(set.len(), nodes)).collect()
}

fn kind<'a>(ports: usize, mut nodes: Vec<&'a NodeCables<'a>>) -> CableKind<'a> {
    nodes.sort_by_key(|node| node.name);
    // the order of a node that has all ports, if possible of one with a report
    let whole = nodes.iter().filter(|node| node.ports.len() == ports);
    let slots: Vec<PortKey> = whole
        .max_by_key(|node| !node.rails.is_empty())
        .map(|node| node.ports.clone())
        .unwrap_or_default();
    let switch = |node: &NodeCables<'a>, slot| Some((*node.ends.get(slot)?)?.0);
    let rows: Vec<Vec<Option<&str>>> = nodes
        .iter()
        .map(|node| slots.iter().map(|slot| switch(node, slot)).collect())
        .collect();
    let mut cables = Vec::with_capacity(nodes.len() * slots.len());
    for (slot, key) in slots.iter().enumerate() {
        let partners = partners(&rows, slot);
        let is_used = rows.iter().filter(|row| row[slot].is_some()).count() * 2 > nodes.len();
        for (&node, row) in nodes.iter().zip(&rows) {
            let is_linked = node.ends.contains_key(key);
            let votes = row
                .iter()
                .flatten()
                .filter_map(|at| partners.get(at).copied());
            // of several switches that sources name, none is judged
            let belongs = majority(votes).filter(|_| !is_linked || row[slot].is_some());
            if is_linked || is_used {
                cables.push(SlotCable {
                    node,
                    slot,
                    is_linked,
                    at: row[slot],
                    belongs,
                });
            }
        }
    }
    cables.sort_by_key(|cable| cable.node.name);
    CableKind {
        layout: CableLayout::NotRecognised,
        rail_of: vec![None; slots.len()],
        classes: Classes::new(),
        slots,
        nodes,
        cables,
    }
}

/// For each switch, the switch on which most nodes that are on it have this slot.
fn partners<'a>(rows: &[Vec<Option<&'a str>>], slot: usize) -> BTreeMap<&'a str, &'a str> {
    let mut pairs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let Some(to) = row[slot] else { continue };
        for from in BTreeSet::from_iter(row.iter().flatten()) {
            pairs.entry(from).or_default().push(to);
        }
    }
    let pairs = pairs.into_iter();
    pairs
        .filter_map(|(from, to)| Some((from, majority(to.into_iter())?)))
        .collect()
}

#[derive(Default)]
pub struct Rails<'a> {
    pub kinds: Vec<CableKind<'a>>,
    pub of_switch: BTreeMap<&'a str, usize>,
    /// the NICs of each rail, as the weightiest kind names them
    pub nics: Vec<Vec<String>>,
}

impl Rails<'_> {
    pub fn rail(&self, switch: Option<&str>) -> Option<usize> {
        self.of_switch.get(switch?).copied()
    }
}

pub type Classes<'a> = BTreeMap<Vec<usize>, BTreeSet<&'a str>>;

/// Numbers the rails in the NICs' order of the weightiest kind; switches keep their number for the others.
pub fn rails<'a>(nodes: &'a [NodeCables<'a>]) -> Rails<'a> {
    let are_gpus_known = nodes.iter().any(|node| !node.rails.is_empty());
    let mut found = Rails::default();
    for mut kind in kinds(nodes) {
        let classes = classes(&mut kind).unwrap_or_default();
        // nodes without GPUs beside nodes with GPUs make no rails, nor do servers of a file system with a few NICs
        let has_gpus = kind.nodes.iter().any(|node| !node.rails.is_empty());
        let is_new = (has_gpus || !are_gpus_known)
            && [0, classes.len()].contains(&found.nics.len())
            && !classes
                .values()
                .flatten()
                .any(|switch| found.of_switch.contains_key(switch));
        for (number, (slots, switches)) in classes.iter().enumerate() {
            let known = switches
                .iter()
                .filter_map(|switch| found.rail(Some(switch)));
            let number = known.min().or(is_new.then_some(number));
            let Some(number) = number.filter(|_| kind.layout != CableLayout::OneLeaf) else {
                continue;
            };
            slots
                .iter()
                .for_each(|slot| kind.rail_of[*slot] = Some(number));
            for switch in switches {
                found.of_switch.entry(switch).or_insert(number);
            }
            if number == found.nics.len() {
                let nics = slots.iter().map(|slot| kind.nic(*slot));
                found.nics.push(nics.collect());
            }
        }
        found.kinds.push(CableKind { classes, ..kind });
    }
    found
}

/// Sets the layout; `None` without an order.
fn classes<'a>(kind: &mut CableKind<'a>) -> Option<Classes<'a>> {
    // for each switch, how many more cables of each slot are right there than elsewhere
    let mut homes: BTreeMap<&str, BTreeMap<usize, i64>> = BTreeMap::new();
    let (mut right, mut elsewhere, mut unclear) = (0, 0, 0);
    for cable in kind.cables.iter().filter(|cable| cable.is_linked) {
        let (Some(at), Some(belongs)) = (cable.at, cable.belongs) else {
            unclear += 1;
            continue;
        };
        let count = if at == belongs { 1 } else { -1 };
        *if count > 0 {
            &mut right
        } else {
            &mut elsewhere
        } += 1;
        *homes.entry(at).or_default().entry(cable.slot).or_default() += count;
    }
    if right == 0 || right < elsewhere + unclear || elsewhere * 2 > right {
        return None;
    }
    // if the sources have other names than the reports, no slot is known as a GPU's
    let rails = kind.nodes.iter().flat_map(|node| &node.rails);
    let rails: BTreeSet<&PortKey> = rails.filter(|rail| kind.slots.contains(rail)).collect();
    let is_gpus = |slot: &usize| rails.is_empty() || rails.contains(&kind.slots[*slot]);
    let (mut classes, mut cables): (Classes, BTreeMap<usize, i64>) = Default::default();
    for (switch, mut slots) in homes {
        slots.retain(|_, count| *count > 0);
        if slots.keys().any(is_gpus) {
            *cables.entry(slots.len()).or_default() += slots.values().sum::<i64>();
            let slots = slots.into_keys().collect();
            classes.entry(slots).or_default().insert(switch);
        }
    }
    // of two sizes as common the smaller: NICs for storage often share a switch
    let sizes = cables.into_iter();
    let (size, _) = sizes.max_by_key(|(size, count)| (*count, usize::MAX - size))?;
    classes.retain(|slots, _| slots.len() == size);
    let distinct: BTreeSet<&usize> = classes.keys().flatten().collect();
    kind.layout = match (classes.len(), size) {
        (count, size) if distinct.len() != count * size => return None,
        (1, _) => CableLayout::OneLeaf,
        (_, 1) => CableLayout::RailOptimised,
        _ => CableLayout::Grouped,
    };
    Some(classes)
}

//! The switch that each cable of a node belongs on: by most nodes on the same switches.
//!
//! Nodes are compared with those that have the same NICs. On a switch with cables of several nodes, most of these have their
//! port `s` on one switch: the partner of that switch for `s`. Each cable of a node votes for the partner of its switch, so
//! one wrong cable is outvoted by the others of the node, and no order of switches need be known.

use super::names::{NodeCables, PortKey, are_names};
use crate::audit::kinds::majority;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A node with fewer ports is of a kind if at most one in so many is missing, as `audit` has it.
const PART: usize = 4;
/// The time must not grow with the square of the input.
const MOST_CENTRES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CableLayout {
    /// each NIC of a node on a switch of its own, NICs of one number together
    RailOptimised,
    /// so many NICs of a node on each of several switches
    Grouped(usize),
    OneLeaf,
    OneNic,
    /// no order that most nodes share
    NotRecognised,
    NotTold,
}

pub struct CableKind<'a> {
    pub slots: Vec<PortKey>,
    pub nodes: Vec<&'a NodeCables<'a>>,
    pub cables: Vec<SlotCable<'a>>,
    pub layout: CableLayout,
    /// of each slot; storage and management NICs have none
    pub rail_of: Vec<Option<usize>>,
    /// true for each slot of the fabric: not of a storage or management NIC
    pub is_fabrics: Vec<bool>,
    pub switches: BTreeSet<&'a str>,
}

#[derive(Clone, Copy)]
pub struct SlotCable<'a> {
    pub node: &'a NodeCables<'a>,
    pub slot: usize,
    pub place: CablePlace<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CablePlace<'a> {
    Right {
        at: &'a str,
    },
    Elsewhere {
        at: &'a str,
        belongs: &'a str,
    },
    /// not known; without a switch where the sources name several
    Unclear {
        at: Option<&'a str>,
    },
    /// most nodes of the kind have a link there, and this one has none
    NoLink {
        belongs: Option<&'a str>,
    },
    /// no link, as on most nodes
    Unused,
}

impl<'a> SlotCable<'a> {
    pub fn at(&self) -> Option<&'a str> {
        match self.place {
            CablePlace::Right { at } | CablePlace::Elsewhere { at, .. } => Some(at),
            CablePlace::Unclear { at } => at,
            CablePlace::NoLink { .. } | CablePlace::Unused => None,
        }
    }

    /// The switch that it belongs on, if that is another.
    pub fn belongs(&self) -> Option<&'a str> {
        match self.place {
            CablePlace::Elsewhere { belongs, .. } => Some(belongs),
            CablePlace::NoLink { belongs } => belongs,
            _ => None,
        }
    }
}

impl CableKind<'_> {
    pub fn nic(&self, slot: usize) -> String {
        let (nic, port) = &self.slots[slot];
        let ports = self.slots.iter().filter(|(other, _)| other == nic).count();
        if ports > 1 || *port != 1 {
            format!("{nic}:{port}")
        } else {
            nic.clone()
        }
    }

    /// `None` if the configuration file cannot name them.
    pub fn order(&self, mut slots: Vec<(usize, usize)>, nodes: &[&NodeCables]) -> Option<String> {
        slots.sort_unstable();
        let nics: Vec<&str> = slots
            .iter()
            .map(|(_, slot)| &*self.slots[*slot].0)
            .collect();
        let is_named = self.layout == CableLayout::RailOptimised
            && nodes.iter().all(|node| node.has_own_names)
            && are_names(&nics);
        is_named.then(|| nics.join(","))
    }
}

/// The kinds of nodes, the weightiest first: many nodes with many NICs.
fn kinds<'a>(nodes: &'a [NodeCables<'a>]) -> Vec<CableKind<'a>> {
    let mut sets: BTreeMap<BTreeSet<&PortKey>, Vec<&NodeCables>> = BTreeMap::new();
    for node in nodes {
        let set = node.ports.iter().map(|(key, _)| key).collect();
        sets.entry(set).or_default().push(node);
    }
    let mut common = Vec::from_iter(sets);
    common.sort_by_key(|(set, nodes)| (usize::MAX - nodes.len(), usize::MAX - set.len()));
    let mut kinds: Vec<(BTreeSet<&PortKey>, Vec<&NodeCables>, usize)> = Vec::new();
    for (set, members) in common {
        let lacks_few = |(of, _, whole): &&mut (BTreeSet<&PortKey>, _, usize)| {
            let missing = of.len().saturating_sub(set.len());
            let is_few = missing * PART <= of.len() || missing == 1 && of.len() > 2;
            is_few && members.len() * 2 <= *whole && set.is_subset(of)
        };
        match kinds.iter_mut().take(MOST_CENTRES).find(lacks_few) {
            Some((_, nodes, _)) => nodes.extend(members),
            None => kinds.push((set, members.clone(), members.len())),
        }
    }
    // nodes with many NICs number the rails: sixteen of these, and not a thousand nodes with two
    kinds.sort_by_key(|(set, nodes, _)| usize::MAX - set.len().pow(3) * nodes.len());
    kinds
        .into_iter()
        .map(|(set, nodes, _)| kind(set.len(), nodes))
        .collect()
}

fn kind<'a>(ports: usize, mut nodes: Vec<&'a NodeCables<'a>>) -> CableKind<'a> {
    nodes.sort_by_key(|node| node.name);
    // the order of a node that has all ports, if possible of one with a report
    let slots: Vec<PortKey> = nodes
        .iter()
        .filter(|node| node.ports.len() == ports)
        .max_by_key(|node| !node.rails.is_empty())
        .map_or(&[][..], |node| &node.ports)
        .iter()
        .map(|(key, _)| key.clone())
        .collect();
    let at = |node: &NodeCables<'a>, slot| match node.ends(slot) {
        Some(ends) if ends.len() == 1 => ends.keys().next().copied(),
        _ => None,
    };
    let rows: Vec<Vec<Option<&str>>> = nodes
        .iter()
        .map(|node| slots.iter().map(|slot| at(node, slot)).collect())
        .collect();
    let partners: Vec<_> = (0..slots.len()).map(|slot| partners(&rows, slot)).collect();
    let linked = |slot: usize| rows.iter().filter(|row| row[slot].is_some()).count();
    let is_used: Vec<bool> = (0..slots.len())
        .map(|slot| linked(slot) * 2 > nodes.len())
        .collect();
    let mut cables = Vec::with_capacity(nodes.len() * slots.len());
    for (node, row) in nodes.iter().zip(&rows) {
        for (slot, key) in slots.iter().enumerate() {
            let votes = row
                .iter()
                .flatten()
                .filter_map(|at| partners[slot].get(at).copied());
            let place = match (row[slot], majority(votes)) {
                (Some(at), Some(belongs)) if at == belongs => CablePlace::Right { at },
                (Some(at), Some(belongs)) => CablePlace::Elsewhere { at, belongs },
                (Some(at), None) => CablePlace::Unclear { at: Some(at) },
                (None, _) if node.ends(key).is_some_and(|ends| ends.len() > 1) => {
                    CablePlace::Unclear { at: None }
                }
                (None, belongs) if is_used[slot] => CablePlace::NoLink { belongs },
                (None, _) => CablePlace::Unused,
            };
            cables.push(SlotCable { node, slot, place });
        }
    }
    CableKind {
        layout: CableLayout::NotRecognised,
        rail_of: vec![None; slots.len()],
        is_fabrics: vec![false; slots.len()],
        switches: BTreeSet::new(),
        slots,
        nodes,
        cables,
    }
}

/// For each switch, the switch on which most nodes that are on it have this slot.
fn partners<'a>(rows: &[Vec<Option<&'a str>>], slot: usize) -> BTreeMap<&'a str, &'a str> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let Some(to) = row[slot] else { continue };
        let from: BTreeSet<&str> = row.iter().flatten().copied().collect();
        pairs.extend(from.into_iter().map(|from| (from, to)));
    }
    pairs.sort_unstable();
    pairs
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|of| Some((of[0].0, majority(of.iter().map(|pair| pair.1))?)))
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
    pub fn rail(&self, cable: &SlotCable) -> Option<usize> {
        self.of_switch.get(cable.at()?).copied()
    }
}

type Classes<'a> = BTreeMap<Vec<usize>, BTreeSet<&'a str>>;

/// Numbers the rails in the NICs' order of the weightiest kind; switches keep their number for the others.
pub fn rails<'a>(nodes: &'a [NodeCables<'a>]) -> Rails<'a> {
    let are_gpus_known = nodes.iter().any(|node| !node.rails.is_empty());
    let mut found = Rails::default();
    for mut kind in kinds(nodes) {
        let (layout, classes) = classes(&kind);
        kind.layout = layout;
        kind.switches = classes.values().flatten().copied().collect();
        // nodes without GPUs beside nodes with GPUs make no rails
        let has_gpus = kind.nodes.iter().any(|node| !node.rails.is_empty());
        let has_rails = matches!(layout, CableLayout::RailOptimised | CableLayout::Grouped(_));
        // servers of a file system may have a few NICs, on rails or on switches of their own
        let has_all = [0, classes.len()].contains(&found.nics.len());
        let may_be_new = has_all && (has_gpus || !are_gpus_known);
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        for (slots, switches) in &classes {
            slots.iter().for_each(|slot| kind.is_fabrics[*slot] = true);
            if !has_rails || !has_all && !has_gpus {
                continue;
            }
            let known = switches
                .iter()
                .filter_map(|switch| found.of_switch.get(switch).copied());
            let new = || {
                (0..)
                    .find(|number| !taken.contains(number))
                    .filter(|_| may_be_new)
            };
            let Some(number) = known.min().or_else(new) else {
                continue;
            };
            taken.insert(number);
            slots
                .iter()
                .for_each(|slot| kind.rail_of[*slot] = Some(number));
            for switch in switches {
                found.of_switch.entry(switch).or_insert(number);
            }
            if number >= found.nics.len() {
                found.nics.resize(number + 1, Vec::new());
            }
            if found.nics[number].is_empty() {
                found.nics[number] = slots.iter().map(|slot| kind.nic(*slot)).collect();
            }
        }
        found.kinds.push(kind);
    }
    found
}

/// Without the classes of storage and management.
fn classes<'a>(kind: &CableKind<'a>) -> (CableLayout, Classes<'a>) {
    const NONE: (CableLayout, Classes) = (CableLayout::NotRecognised, Classes::new());
    // for each switch, how many more cables of each slot are right there than elsewhere
    let mut homes: BTreeMap<&str, BTreeMap<usize, i64>> = BTreeMap::new();
    let (mut right, mut elsewhere, mut unclear) = (0, 0, 0);
    for cable in &kind.cables {
        let mut count = |at, by| *homes.entry(at).or_default().entry(cable.slot).or_default() += by;
        match cable.place {
            CablePlace::Right { at } => {
                right += 1;
                count(at, 1);
            }
            CablePlace::Elsewhere { at, .. } => {
                elsewhere += 1;
                count(at, -1);
            }
            CablePlace::Unclear { .. } => unclear += 1,
            CablePlace::NoLink { .. } | CablePlace::Unused => {}
        }
    }
    if right == 0 || right < elsewhere + unclear || elsewhere * 2 > right {
        return NONE;
    }
    // if the sources have other names than the reports, no slot is known as a GPU's
    let rails: BTreeSet<&PortKey> = kind
        .nodes
        .iter()
        .flat_map(|node| &node.rails)
        .filter(|rail| kind.slots.contains(rail))
        .collect();
    let is_gpus = |slot: &usize| rails.is_empty() || rails.contains(&kind.slots[*slot]);
    let (mut classes, mut cables): (Classes, BTreeMap<usize, i64>) = Default::default();
    for (switch, mut slots) in homes {
        slots.retain(|_, count| *count > 0);
        if slots.keys().any(is_gpus) {
            *cables.entry(slots.len()).or_default() += slots.values().sum::<i64>();
            classes
                .entry(slots.into_keys().collect())
                .or_default()
                .insert(switch);
        }
    }
    // of two sizes as common the smaller: NICs for storage often share a switch
    let size = cables
        .into_iter()
        .max_by_key(|(size, count)| (*count, usize::MAX - size));
    let Some((size, _)) = size else { return NONE };
    classes.retain(|slots, _| slots.len() == size);
    let distinct: BTreeSet<&usize> = classes.keys().flatten().collect();
    let layout = match (classes.len(), size) {
        (count, size) if distinct.len() != count * size => return NONE,
        (1, 1) => CableLayout::OneNic,
        (1, _) => CableLayout::OneLeaf,
        (_, 1) => CableLayout::RailOptimised,
        (_, size) => CableLayout::Grouped(size),
    };
    (layout, classes)
}

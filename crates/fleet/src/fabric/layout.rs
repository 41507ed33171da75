//! Which switches are which rail's: by the ports that most nodes have on them.
#![forbid(unsafe_code)]

use super::names::{NodeCables, PortKey, nic_name};
use super::votes::{CableKind, CablePlace};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How the NICs of a node are spread over switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CableLayout {
    /// each NIC of a node on a switch of its own, NICs of one number together
    RailOptimised,
    /// so many NICs of a node on each of several switches
    Grouped(usize),
    /// all NICs of a node on one switch
    OneLeaf,
    /// one NIC for each node
    OneNic,
    /// no order that most nodes share
    NotRecognised,
    /// the sources tell no NICs
    NotTold,
}

/// The rails of all kinds.
#[derive(Debug, Default)]
pub(super) struct RailNumbers {
    /// the rail of each switch that has one
    pub(super) of_switch: BTreeMap<u32, usize>,
    pub(super) kinds: Vec<KindLayout>,
    /// the NICs of each rail, as the weightiest kind names them
    pub(super) names: Vec<Vec<String>>,
}

impl RailNumbers {
    /// The layout of the first kind with rails, else of the first.
    pub(super) fn layout(&self) -> CableLayout {
        let has_rails = |kind: &&KindLayout| kind.rail_of.iter().any(Option::is_some);
        let kind = self.kinds.iter().find(has_rails).or(self.kinds.first());
        kind.map_or(CableLayout::NotTold, |kind| kind.layout)
    }
}

/// What one kind makes of its switches.
#[derive(Debug)]
pub(super) struct KindLayout {
    pub(super) layout: CableLayout,
    /// for each slot its rail
    pub(super) rail_of: Vec<Option<usize>>,
    /// for each slot: is it of the fabric, and not a NIC for storage or management?
    pub(super) is_fabrics: Vec<bool>,
    /// switches of the fabric
    pub(super) switches: BTreeSet<u32>,
}

impl KindLayout {
    pub(super) fn is_recognised(&self) -> bool {
        self.layout != CableLayout::NotRecognised
    }
}

/// Slots that share switches, with these switches.
type Classes = BTreeMap<Vec<usize>, BTreeSet<u32>>;

/// Numbers the rails: in the NICs' order of the weightiest kind, and switches keep their number for the others.
pub(super) fn numbered(kinds: &[CableKind], nodes: &[NodeCables]) -> RailNumbers {
    let is_told = nodes.iter().any(|node| !node.rails.is_empty());
    let mut found = RailNumbers::default();
    for kind in kinds {
        let (layout, classes) = classes(kind, nodes);
        // nodes without GPUs beside nodes with GPUs make no rails
        let of_gpus = kind.nodes.iter().any(|node| !nodes[*node].rails.is_empty());
        let has_rails = matches!(layout, CableLayout::RailOptimised | CableLayout::Grouped(_));
        let mut of_kind = KindLayout {
            layout,
            rail_of: vec![None; kind.slots.len()],
            is_fabrics: vec![false; kind.slots.len()],
            switches: classes.values().flatten().copied().collect(),
        };
        // servers of a file system or a subnet manager may have a few NICs, on rails or on switches of their own
        let has_all = [0, classes.len()].contains(&found.names.len());
        let may_be_new = has_all && (of_gpus || !is_told);
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        for (slots, switches) in &classes {
            slots
                .iter()
                .for_each(|slot| of_kind.is_fabrics[*slot] = true);
            let known = switches
                .iter()
                .filter_map(|switch| found.of_switch.get(switch).copied())
                .min();
            let free = |taken: &BTreeSet<usize>| (0..).find(|number| !taken.contains(number));
            let new = || if may_be_new { free(&taken) } else { None };
            let Some(number) = known
                .or_else(new)
                .filter(|_| has_rails && (has_all || of_gpus))
            else {
                continue;
            };
            taken.insert(number);
            slots
                .iter()
                .for_each(|slot| of_kind.rail_of[*slot] = Some(number));
            switches
                .iter()
                .for_each(|switch| _ = found.of_switch.entry(*switch).or_insert(number));
            if number >= found.names.len() {
                found.names.resize(number + 1, Vec::new());
            }
            if found.names[number].is_empty() {
                found.names[number] = slots
                    .iter()
                    .map(|slot| nic_name(&kind.slots, *slot))
                    .collect();
            }
        }
        found.kinds.push(of_kind);
    }
    found
}

/// The layout of a kind, and its classes without those for storage and management.
fn classes(kind: &CableKind, nodes: &[NodeCables]) -> (CableLayout, Classes) {
    let mut homes: BTreeMap<(u32, usize), i64> = BTreeMap::new();
    let (mut right, mut elsewhere, mut unclear) = (0, 0, 0);
    for place in kind
        .places
        .iter()
        .flat_map(|places| places.iter().enumerate())
    {
        match place {
            (slot, &CablePlace::Right { at }) => {
                right += 1;
                *homes.entry((at, slot)).or_default() += 1;
            }
            (slot, &CablePlace::Elsewhere { at, .. }) => {
                elsewhere += 1;
                *homes.entry((at, slot)).or_default() -= 1;
            }
            (_, CablePlace::Unclear { .. }) => unclear += 1,
            (_, CablePlace::NoLink { .. } | CablePlace::Unused) => {}
        }
    }
    if right == 0 || right < elsewhere + unclear || elsewhere * 2 > right {
        return (CableLayout::NotRecognised, Classes::new());
    }
    let mut of_switch: BTreeMap<u32, (Vec<usize>, i64)> = BTreeMap::new();
    for ((switch, slot), cables) in homes.into_iter().filter(|(_, cables)| *cables > 0) {
        let of = of_switch.entry(switch).or_default();
        of.0.push(slot);
        of.1 += cables;
    }
    let (mut classes, mut cables): (Classes, BTreeMap<usize, i64>) = Default::default();
    // where the sources have other names than the reports, no slot is known as a GPU's
    let rails = kind.nodes.iter().flat_map(|node| &nodes[*node].rails);
    let rails: BTreeSet<&PortKey> = rails.filter(|rail| kind.slots.contains(rail)).collect();
    for (switch, (slots, count)) in of_switch {
        if rails.is_empty() || slots.iter().any(|slot| rails.contains(&kind.slots[*slot])) {
            *cables.entry(slots.len()).or_default() += count;
            classes.entry(slots).or_default().insert(switch);
        }
    }
    // of two sizes as common the smaller: NICs for storage often share a switch
    let size = cables
        .into_iter()
        .max_by_key(|(size, count)| (*count, usize::MAX - size));
    let Some((size, _)) = size else {
        return (CableLayout::NotRecognised, Classes::new());
    };
    classes.retain(|slots, _| slots.len() == size);
    let distinct: BTreeSet<usize> = classes.keys().flatten().copied().collect();
    let layout = match (classes.len(), size) {
        (count, size) if distinct.len() != count * size => CableLayout::NotRecognised,
        (1, 1) => CableLayout::OneNic,
        (1, _) => CableLayout::OneLeaf,
        (_, 1) => CableLayout::RailOptimised,
        (_, size) => CableLayout::Grouped(size),
    };
    if layout == CableLayout::NotRecognised {
        classes.clear();
    }
    (layout, classes)
}

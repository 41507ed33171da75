//! The rail of each switch: by the ports that most nodes have on it.
#![forbid(unsafe_code)]

use super::kinds::{CableKind, CableLayout, CablePlace, SlotCable, kinds};
use super::names::{NodeCables, PortKey};
use std::collections::{BTreeMap, BTreeSet};

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

/// Slots that share switches, with these switches.
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
        // servers of a file system or a subnet manager may have a few NICs, on rails or on switches of their own
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

/// The layout of a kind, and its classes without those for storage and management.
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
    let rails = kind.nodes.iter().flat_map(|node| &node.rails);
    let rails: BTreeSet<&PortKey> = rails.filter(|rail| kind.slots.contains(rail)).collect();
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

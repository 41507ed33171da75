//! Where a node's cables belong, by what most nodes on the same switches have.
//!
//! Nodes are compared with those that have the same NICs.  On a switch with cables of several nodes, most of these have their
//! port `s` on one switch: the partner of that switch for `s`.  Each cable of a node votes for the partner of its switch, so
//! one wrong cable is outvoted by the others of the node, and no order of switches need be known.
#![forbid(unsafe_code)]

use super::names::{CableEnd, NodeCables, PortKey};
use std::collections::{BTreeMap, BTreeSet};

/// A node with fewer ports is of a kind if at most one in so many is missing, as `audit` has it.
const PART: usize = 4;
/// The most common kinds, to which nodes with fewer ports are added: the time must not grow with the square of the input.
const MOST_CENTRES: usize = 64;

/// Nodes with the same ports, or all but a few.
#[derive(Debug)]
pub(super) struct CableKind {
    /// in order
    pub(super) slots: Vec<PortKey>,
    /// by their numbers
    pub(super) nodes: Vec<usize>,
    /// for each node and slot
    pub(super) places: Vec<Vec<CablePlace>>,
}

/// A cable as it is, beside where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CablePlace {
    Right {
        at: u32,
    },
    Elsewhere {
        at: u32,
        belongs: u32,
    },
    /// not known
    Unclear {
        at: Option<u32>,
    },
    /// most nodes of the kind have a link there, and this one has none
    NoLink {
        belongs: Option<u32>,
    },
    /// no link, as on most nodes
    Unused,
}

impl CablePlace {
    /// The switch that it is on.
    pub(super) fn at(self) -> Option<u32> {
        match self {
            CablePlace::Right { at } | CablePlace::Elsewhere { at, .. } => Some(at),
            CablePlace::Unclear { at } => at,
            CablePlace::NoLink { .. } | CablePlace::Unused => None,
        }
    }
}

/// The switches by number.
#[derive(Debug, Default)]
pub(super) struct SwitchPool<'a> {
    numbers: BTreeMap<&'a str, u32>,
    pub(super) keys: Vec<&'a str>,
}

impl<'a> SwitchPool<'a> {
    fn number(&mut self, key: &'a str) -> u32 {
        let next = self.keys.len() as u32;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.keys.push(key);
        }
        number
    }
}

/// The kinds of nodes, the weightiest first: many nodes with many NICs.
pub(super) fn kinds<'a>(nodes: &'a [NodeCables]) -> (Vec<CableKind>, SwitchPool<'a>) {
    let mut switches = SwitchPool::default();
    let kinds = grouped(nodes)
        .into_iter()
        .map(|(slots, of)| kind(slots, of, nodes, &mut switches))
        .collect();
    (kinds, switches)
}

/// The ports of each kind, and its nodes by number.
fn grouped(nodes: &[NodeCables]) -> Vec<(BTreeSet<&PortKey>, Vec<usize>)> {
    let mut sets: BTreeMap<BTreeSet<&PortKey>, Vec<usize>> = BTreeMap::new();
    for (number, node) in nodes.iter().enumerate() {
        sets.entry(node.ports.iter().map(|(key, _)| key).collect())
            .or_default()
            .push(number);
    }
    let mut common: Vec<_> = sets.into_iter().collect();
    common.sort_by_key(|(set, nodes)| (usize::MAX - nodes.len(), usize::MAX - set.len()));
    let mut kinds: Vec<(BTreeSet<&PortKey>, Vec<usize>, usize)> = Vec::new();
    for (set, members) in common {
        let lacks_few = |(of, _, count): &&mut (BTreeSet<&PortKey>, Vec<usize>, usize)| {
            let missing = of.len().saturating_sub(set.len());
            let is_few = missing * PART <= of.len() || missing == 1 && of.len() > 2;
            is_few && members.len() * 2 <= *count && set.is_subset(of)
        };
        match kinds.iter_mut().take(MOST_CENTRES).find(lacks_few) {
            Some((_, nodes, _)) => nodes.extend(members),
            None => {
                let count = members.len();
                kinds.push((set, members, count));
            }
        }
    }
    // rails are made for nodes with many NICs: sixteen of these number them, and not a thousand nodes with two
    kinds.sort_by_key(|(set, nodes, _)| usize::MAX - set.len().pow(3) * nodes.len());
    kinds
        .into_iter()
        .map(|(set, nodes, _)| (set, nodes))
        .collect()
}

fn kind<'a>(
    set: BTreeSet<&PortKey>,
    mut members: Vec<usize>,
    nodes: &'a [NodeCables],
    switches: &mut SwitchPool<'a>,
) -> CableKind {
    members.sort_unstable();
    // the order of a node that has them all, where there is one with a report
    let whole = members
        .iter()
        .map(|node| &nodes[*node])
        .filter(|node| node.ports.len() == set.len());
    let order = whole.max_by_key(|node| !node.rails.is_empty());
    let slots: Vec<PortKey> = order.map_or_else(
        || set.into_iter().cloned().collect(),
        |node| node.ports.iter().map(|(key, _)| key.clone()).collect(),
    );
    let numbers: BTreeMap<&PortKey, usize> = slots
        .iter()
        .enumerate()
        .map(|(at, key)| (key, at))
        .collect();
    // for each node, the switch of each slot; a slot with several counts as unclear
    let mut ends: Vec<Vec<Option<u32>>> = vec![vec![None; slots.len()]; members.len()];
    let mut several: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (row, node) in members.iter().enumerate() {
        for (key, end) in &nodes[*node].ports {
            let Some(&slot) = numbers.get(key) else {
                continue;
            };
            match end {
                CableEnd::At(at) => ends[row][slot] = Some(switches.number(&at.switch)),
                CableEnd::Several => _ = several.insert((row, slot)),
                CableEnd::NoLink => {}
            }
        }
    }
    let mut places = vec![Vec::with_capacity(slots.len()); members.len()];
    for slot in 0..slots.len() {
        let linked = ends.iter().filter(|row| row[slot].is_some()).count();
        let partners = partners(&ends, slot);
        for (row, places) in places.iter_mut().enumerate() {
            let belongs = belongs(&ends[row], &partners);
            places.push(match (ends[row][slot], belongs) {
                (Some(at), Some(belongs)) if at == belongs => CablePlace::Right { at },
                (Some(at), Some(belongs)) => CablePlace::Elsewhere { at, belongs },
                (Some(at), None) => CablePlace::Unclear { at: Some(at) },
                (None, _) if several.contains(&(row, slot)) => CablePlace::Unclear { at: None },
                (None, belongs) if linked * 2 > members.len() => CablePlace::NoLink { belongs },
                (None, _) => CablePlace::Unused,
            });
        }
    }
    CableKind {
        slots,
        nodes: members,
        places,
    }
}

/// For each switch, on which switch most nodes that are on it have this slot; only where most agree.
fn partners(ends: &[Vec<Option<u32>>], slot: usize) -> BTreeMap<u32, u32> {
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for row in ends {
        let Some(to) = row[slot] else { continue };
        let from: BTreeSet<u32> = row.iter().flatten().copied().collect();
        pairs.extend(from.into_iter().map(|from| (from, to)));
    }
    pairs.sort_unstable();
    let of_switch = |all: &[(u32, u32)]| {
        let most = all.chunk_by(|a, b| a == b).max_by_key(|same| same.len())?;
        (most.len() * 2 > all.len()).then_some(most[0])
    };
    pairs
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(of_switch)
        .collect()
}

/// The switch that more than half of a node's cables vote for.
fn belongs(row: &[Option<u32>], partners: &BTreeMap<u32, u32>) -> Option<u32> {
    let mut votes: Vec<u32> = row
        .iter()
        .flatten()
        .filter_map(|at| partners.get(at).copied())
        .collect();
    votes.sort_unstable();
    let most = votes
        .chunk_by(|a, b| a == b)
        .max_by_key(|same| same.len())?;
    (most.len() * 2 > votes.len()).then_some(most[0])
}

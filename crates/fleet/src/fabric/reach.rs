//! Do the rails of a fabric reach each other?  By the links between its switches, else by the subnets of its ports.
#![forbid(unsafe_code)]

use super::cabling::Cabling;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Which rails reach each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RailReach {
    /// there are no two rails
    NoRails,
    /// switches connect all rails
    Together,
    /// no switch connects two rails
    Isolated,
    /// each rail has InfiniBand subnets of its own
    IsolatedBySubnets,
    /// groups of rails that switches connect
    Partly(Vec<Vec<usize>>),
    /// no source tells the links between switches
    NotKnown,
}

/// By the switches of each rail, and the subnets of its ports where reports tell them.
pub(super) fn reach(
    cabling: &Cabling,
    leaves: &[BTreeSet<&str>],
    subnets: &[BTreeSet<&str>],
) -> RailReach {
    if leaves.len() < 2 {
        return RailReach::NoRails;
    }
    let told = told(cabling);
    if leaves.iter().flatten().all(|leaf| told.contains(leaf)) {
        return by_switches(cabling, leaves);
    }
    let all: usize = subnets.iter().map(BTreeSet::len).sum();
    let distinct: BTreeSet<&str> = subnets.iter().flatten().copied().collect();
    let is_told = subnets.len() == leaves.len() && subnets.iter().all(|of| !of.is_empty());
    if is_told && distinct.len() == all {
        RailReach::IsolatedBySubnets
    } else {
        RailReach::NotKnown
    }
}

/// The switches whose links to others a source tells: those of a source that tells them all, by which a NIC has a GUID, and
/// those that stand in a tree.
fn told(cabling: &Cabling) -> BTreeSet<&str> {
    let subnets = cabling
        .cables
        .iter()
        .filter(|cable| cabling.tells_trunks && cable.nic.guid.is_some());
    let mut told: BTreeSet<&str> = subnets
        .filter_map(|cable| cable.to.as_ref())
        .map(|to| to.switch.as_str())
        .collect();
    told.extend(
        cabling
            .trunks
            .iter()
            .flat_map(|(a, b)| [a.switch.as_str(), b.switch.as_str()]),
    );
    let tree: BTreeSet<&String> = cabling
        .parents
        .iter()
        .flat_map(|(below, above)| [below, above])
        .collect();
    let in_tree = cabling
        .switches
        .iter()
        .filter(|(key, name)| tree.contains(key) || tree.contains(name));
    told.extend(in_tree.map(|(key, _)| key.as_str()));
    told
}

fn by_switches(cabling: &Cabling, leaves: &[BTreeSet<&str>]) -> RailReach {
    let mut parts = Parts::default();
    for (a, b) in &cabling.trunks {
        parts.join(&a.switch, &b.switch);
    }
    for (a, b) in &cabling.parents {
        parts.join(a, b);
    }
    // a tree has names, and LLDP tells a MAC and a name
    let names: BTreeSet<&String> = cabling
        .parents
        .iter()
        .flat_map(|(below, above)| [below, above])
        .collect();
    for (key, name) in cabling
        .switches
        .iter()
        .filter(|(_, name)| names.contains(name))
    {
        parts.join(key, name);
    }
    let mut rails_of: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (rail, leaves) in leaves.iter().enumerate() {
        for leaf in leaves {
            let number = parts.number(leaf);
            rails_of.entry(parts.root(number)).or_default().insert(rail);
        }
    }
    if rails_of.values().all(|rails| rails.len() == 1) {
        return RailReach::Isolated;
    }
    if rails_of.values().all(|rails| rails.len() == leaves.len()) {
        return RailReach::Together;
    }
    let groups: BTreeSet<Vec<usize>> = rails_of
        .into_values()
        .map(|rails| rails.into_iter().collect())
        .collect();
    RailReach::Partly(groups.into_iter().collect())
}

/// Switches that links connect.
#[derive(Default)]
struct Parts<'a> {
    numbers: BTreeMap<&'a str, usize>,
    above: Vec<usize>,
}

impl<'a> Parts<'a> {
    fn number(&mut self, switch: &'a str) -> usize {
        let next = self.above.len();
        let number = *self.numbers.entry(switch).or_insert(next);
        if number == next {
            self.above.push(next);
        }
        number
    }

    fn root(&mut self, mut number: usize) -> usize {
        while self.above[number] != number {
            // halving the path keeps later ways short
            self.above[number] = self.above[self.above[number]];
            number = self.above[number];
        }
        number
    }

    fn join(&mut self, a: &'a str, b: &'a str) {
        let (a, b) = (self.number(a), self.number(b));
        let (a, b) = (self.root(a), self.root(b));
        self.above[a.max(b)] = a.min(b);
    }
}

//! What cables make of the rails: which switch is which rail's, which cables are wrong, and what the admin should write.
//!
//! The k-th NIC of each node is on one switch, the leaf of rail k, or on one such switch for each group of nodes (a pod).  Most
//! nodes decide, so no list of switches is needed; where there is no majority, the answer is "not known".
#![forbid(unsafe_code)]

use super::advice::{Advice, AdvisedLine};
use super::cabling::Cabling;
use super::faults::{CableFault, Doubt, Faults};
use super::layout::{CableLayout, RailNumbers, numbered};
use super::names::{self, CableEnd, NodeCables, NodeNames, PortKey, natural};
use super::reach::{RailReach, reach};
use super::votes::{CableKind, CablePlace, kinds};
use crate::audit::hostlist::compressed;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the cables of a fabric make of its rails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FabricRails {
    /// of the nodes with rails, else of the weightiest kind
    pub layout: CableLayout,
    pub rails: Vec<CabledRail>,
    pub reach: RailReach,
    pub faults: Vec<CableFault>,
    /// what to write into the configuration file
    pub lines: Vec<AdvisedLine>,
    /// what is not known, or need not be wrong
    pub notes: Vec<String>,
    pub switches: Vec<CabledSwitch>,
    pub nodes: Vec<CabledNode>,
}

/// A rail, over all groups of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CabledRail {
    pub rail: usize,
    /// its NICs on most nodes
    pub nics: Vec<String>,
    /// its switches: one for each group of nodes
    pub leaves: Vec<String>,
    /// cables that are where they belong
    pub right: usize,
    /// ports that belong to it
    pub ports: usize,
}

/// A switch with cables of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CabledSwitch {
    pub switch: String,
    pub rail: Option<usize>,
    /// as a list of Slurm's
    pub nodes: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CabledNode {
    pub node: String,
    pub nics: Vec<CabledPort>,
}

/// Where a NIC's port is cabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CabledPort {
    pub nic: String,
    pub port: u8,
    /// `null` without a link, and where the sources name several
    pub switch: Option<String>,
    pub switch_port: Option<String>,
    /// the rail of that switch
    pub rail: Option<usize>,
    /// where most nodes beside it have that NIC, if that is another switch
    pub belongs: Option<String>,
}

impl FabricRails {
    /// The rails of a fabric.  Reports of `check --json` add the nodes' own names of NICs, and which of these the GPUs use.
    pub fn of(cabling: &Cabling, reports: &BTreeMap<String, NodeNames>) -> FabricRails {
        let mut notes = cabling.notes.clone();
        let nodes = names::nodes(cabling, reports, &mut notes);
        let (kinds, switches) = kinds(&nodes);
        let numbers = numbered(&kinds, &nodes);
        let all = all_names(cabling, reports);
        let name = |key: &str| all.get(key).cloned().unwrap_or_else(|| key.to_string());
        let names: Vec<String> = switches.keys.iter().map(|key| name(key)).collect();
        let faults = Faults {
            nodes: &nodes,
            kinds: &kinds,
            numbers: &numbers,
            switches: &names,
        };
        let (found, doubts, orders) = faults.find();
        let mut leaves: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); numbers.names.len()];
        for (switch, rail) in &numbers.of_switch {
            leaves[*rail].insert(switches.keys[*switch as usize]);
        }
        let reach = reach(cabling, &leaves, &subnets(&kinds, &nodes, &numbers));
        notes.extend(
            doubts
                .iter()
                .map(|(doubt, nodes)| text(doubt, &compressed(nodes.iter().copied()))),
        );
        notes.extend(of_slurm(cabling));
        let told: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        // a login node has no NIC of the fabric
        let silent = reports
            .values()
            .filter(|of| !of.rails.is_empty() && !told.contains(of.node.as_str()));
        let silent = compressed(silent.map(|of| of.node.as_str()));
        if !silent.is_empty() && !nodes.is_empty() {
            notes.push(format!("no source tells a cable of {silent}"));
        }
        FabricRails {
            layout: numbers.layout(),
            rails: rails(&kinds, &numbers, &leaves, &name),
            lines: Advice {
                kinds: &kinds,
                nodes: &nodes,
                numbers: &numbers,
                names: &names,
            }
            .lines(orders, &reach),
            reach,
            faults: found,
            notes,
            switches: match kinds.is_empty() {
                true => slurms_leaves(cabling, &name),
                false => cabled_switches(&kinds, &nodes, &numbers, &names),
            },
            nodes: cabled_nodes(&kinds, &nodes, &numbers, &names),
        }
    }

    /// Versioned JSON for programs.  `unread` says of each input that could not be read why.
    pub fn to_json(&self, unread: &[String]) -> String {
        /// Grows by one when a field changes its meaning or is removed, not with new fields.
        const VERSION: u32 = 1;
        #[derive(Serialize)]
        struct Answer<'a> {
            format: &'static str,
            version: u32,
            #[serde(flatten)]
            rails: &'a FabricRails,
            unread: &'a [String],
        }
        let answer = Answer {
            format: "nic-placement fabric",
            version: VERSION,
            rails: self,
            unread,
        };
        // JSON can hold all of these structures
        serde_json::to_string_pretty(&answer).unwrap_or_default() + "\n"
    }
}

/// Each switch by its name; where two have the same, with what identifies it.
fn all_names(cabling: &Cabling, reports: &BTreeMap<String, NodeNames>) -> BTreeMap<String, String> {
    let told = reports
        .values()
        .flat_map(NodeNames::switches)
        .map(|(key, name)| (key.to_string(), name.to_string()));
    let mut all: BTreeMap<String, String> = told.collect();
    all.extend(
        cabling
            .switches
            .iter()
            .map(|(key, name)| (key.clone(), name.clone())),
    );
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    all.values()
        .for_each(|name| *counts.entry(name.clone()).or_default() += 1);
    for (key, name) in &mut all {
        match counts.get(name) {
            _ if name.trim().is_empty() => name.clone_from(key),
            Some(2..) if name != key => *name = format!("{name} ({key})"),
            _ => {}
        }
    }
    all
}

fn text(doubt: &Doubt, nodes: &str) -> String {
    match doubt {
        Doubt::OtherLeaf(nic, on, belongs) => {
            format!(
                "{nodes}: {nic} is on {on}, and its neighbours' on {belongs}: another leaf of the same rail"
            )
        }
        Doubt::Unclear(nics) => format!(
            "{nodes}: {}: the nodes on the same switches do not agree, so it is not known which cables are right",
            nics.join(" ")
        ),
    }
}

/// What files of Slurm's topology tell, which know no NICs.
fn of_slurm(cabling: &Cabling) -> Option<String> {
    let leaves: BTreeSet<&String> = cabling.leaves.values().flatten().collect();
    let nodes = cabling.leaves.len();
    (nodes > 0).then(|| {
        format!(
            "a topology of Slurm's tells that {nodes} nodes are on {} leaves; which NIC is on which, and so the rails, it does not tell",
            leaves.len()
        )
    })
}

fn slurms_leaves(cabling: &Cabling, name: &impl Fn(&str) -> String) -> Vec<CabledSwitch> {
    let mut on: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, leaves) in &cabling.leaves {
        leaves
            .iter()
            .for_each(|leaf| _ = on.entry(leaf).or_default().insert(node));
    }
    let switch = |(leaf, nodes): (&str, BTreeSet<&str>)| CabledSwitch {
        switch: name(leaf),
        rail: None,
        nodes: compressed(nodes),
    };
    on.into_iter().map(switch).collect()
}

/// The InfiniBand subnets of each rail's ports.
fn subnets<'a>(
    kinds: &[CableKind],
    nodes: &'a [NodeCables],
    numbers: &RailNumbers,
) -> Vec<BTreeSet<&'a str>> {
    let mut found = vec![BTreeSet::new(); numbers.names.len()];
    for (kind, of_kind) in kinds.iter().zip(&numbers.kinds) {
        for (key, rail) in kind.slots.iter().zip(&of_kind.rail_of) {
            let Some(rail) = rail else { continue };
            let of_nodes = kind
                .nodes
                .iter()
                .filter_map(|node| nodes[*node].subnets.get(key));
            found[*rail].extend(of_nodes.map(String::as_str));
        }
    }
    found
}

fn rails(
    kinds: &[CableKind],
    numbers: &RailNumbers,
    leaves: &[BTreeSet<&str>],
    name: &impl Fn(&str) -> String,
) -> Vec<CabledRail> {
    let rail = |(rail, leaves): (usize, &BTreeSet<&str>)| {
        let mut leaves: Vec<String> = leaves.iter().map(|leaf| name(leaf)).collect();
        leaves.sort_by_cached_key(|leaf| natural(leaf));
        let nics = numbers.names[rail].clone();
        CabledRail {
            rail,
            nics,
            leaves,
            right: 0,
            ports: 0,
        }
    };
    let mut rails: Vec<CabledRail> = leaves.iter().enumerate().map(rail).collect();
    for (kind, of_kind) in kinds.iter().zip(&numbers.kinds) {
        for (slot, rail) in of_kind.rail_of.iter().enumerate() {
            let Some(rail) = rail else { continue };
            let places = kind.places.iter().map(|places| places[slot]);
            let on = |at: u32| numbers.of_switch.get(&at) == Some(rail);
            rails[*rail].right += places
                .filter(|place| match place {
                    CablePlace::Right { at } | CablePlace::Elsewhere { at, .. } => on(*at),
                    _ => false,
                })
                .count();
            rails[*rail].ports += kind.places.len();
        }
    }
    rails
}

fn cabled_switches(
    kinds: &[CableKind],
    nodes: &[NodeCables],
    numbers: &RailNumbers,
    names: &[String],
) -> Vec<CabledSwitch> {
    let mut on: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for kind in kinds {
        for (node, places) in kind.nodes.iter().zip(&kind.places) {
            for at in places.iter().filter_map(|place| place.at()) {
                on.entry(at).or_default().insert(&nodes[*node].name);
            }
        }
    }
    let switch = |(at, nodes): (u32, BTreeSet<&str>)| CabledSwitch {
        switch: names[at as usize].clone(),
        rail: numbers.of_switch.get(&at).copied(),
        nodes: compressed(nodes),
    };
    let mut all: Vec<CabledSwitch> = on.into_iter().map(switch).collect();
    all.sort_by_cached_key(|of| (of.rail.is_none(), of.rail, natural(&of.switch)));
    all
}

fn cabled_nodes(
    kinds: &[CableKind],
    nodes: &[NodeCables],
    numbers: &RailNumbers,
    names: &[String],
) -> Vec<CabledNode> {
    let mut all = Vec::new();
    for kind in kinds {
        for (node, places) in kind.nodes.iter().zip(&kind.places) {
            let node = &nodes[*node];
            let ports: BTreeMap<&PortKey, &CableEnd> =
                node.ports.iter().map(|(key, end)| (key, end)).collect();
            let port = |(key, place): (&PortKey, &CablePlace)| {
                let at = place.at();
                let belongs = match place {
                    CablePlace::Elsewhere { belongs, .. } => Some(*belongs),
                    CablePlace::NoLink { belongs } => *belongs,
                    _ => None,
                };
                let switch_port = match ports.get(key) {
                    Some(CableEnd::At(at)) => Some(at.port.clone()).filter(|port| !port.is_empty()),
                    _ => None,
                };
                CabledPort {
                    nic: key.0.clone(),
                    port: key.1,
                    switch: at.map(|at| names[at as usize].clone()),
                    switch_port,
                    rail: at.and_then(|at| numbers.of_switch.get(&at).copied()),
                    belongs: belongs.map(|at| names[at as usize].clone()),
                }
            };
            let is_there = |(_, place): &(&PortKey, &CablePlace)| **place != CablePlace::Unused;
            let nics = kind
                .slots
                .iter()
                .zip(places)
                .filter(is_there)
                .map(port)
                .collect();
            all.push(CabledNode {
                node: node.name.clone(),
                nics,
            });
        }
    }
    all.sort_by_cached_key(|of| natural(&of.node));
    all
}

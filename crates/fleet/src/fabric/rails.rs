//! The rails of a fabric: the rail of each switch, cables that are wrong, and lines for the admin.
//!
//! The k-th NIC of each node is on one switch, the leaf of rail k, or on one such switch for each group of nodes (a pod). Most
//! nodes decide, so no list of switches is needed; without a majority the answer is "not known".

use super::cabling::Cabling;
use super::faults::{CableFault, FabricCable, Faults};
use super::kinds::{CableLayout, Rails, rails};
use super::names::{Reports, nodes};
use crate::audit::hostlist::compressed;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Serialize)]
pub struct FabricRails {
    format: &'static str,
    version: u32,
    /// of the nodes with rails, else of the weightiest kind
    pub layout: CableLayout,
    pub rails: Vec<CabledRail>,
    pub reach: RailReach,
    pub faults: Vec<CableFault>,
    /// for the configuration file, each with its reason
    pub lines: BTreeMap<String, &'static str>,
    pub notes: Vec<String>,
    pub cables: Vec<FabricCable>,
    /// the reasons for inputs that could not be read
    pub unread: Vec<String>,
}

const VERSION: u32 = 2;

#[derive(Debug, Serialize)]
pub struct CabledRail {
    pub rail: usize,
    pub nics: Vec<String>,
    /// its switches: one for each group of nodes
    pub leaves: Vec<String>,
    pub right: usize,
    pub ports: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RailReach {
    NoRails,
    Together,
    Isolated,
    Partly,
    NotKnown,
}

impl FabricRails {
    /// Reports of `check --json` add the nodes' own names of NICs, and the NICs that GPUs use.
    pub fn of(cabling: &Cabling, reports: &Reports) -> FabricRails {
        let mut notes = cabling.notes.clone();
        let names = cabling.names();
        let nodes = nodes(cabling, &names, reports, &mut notes);
        let rails = rails(&nodes);
        let faults = Faults::of(&rails);
        let list = |nodes: &BTreeSet<&str>| compressed(nodes.iter().copied());
        notes.extend(faults.unclear.iter().map(|(nics, nodes)| format!(
            "{}: {nics}: the nodes on the same switches do not agree, so it is not known which cables are right",
            list(nodes)
        )));
        let reach = reach(cabling, &names, &rails);
        let mut lines = BTreeMap::new();
        for (order, nodes) in &faults.orders {
            lines.insert(
                format!("NodeName={} rails={order}", list(nodes)),
                "only if its cables are meant to be so: then its NICs are numbered otherwise than on most nodes",
            );
        }
        for kind in rails.kinds.iter().skip(1) {
            let of = &kind.rail_of;
            let slots = (0..of.len()).filter_map(|slot| Some((of[slot]?, slot)));
            let order = kind.order(slots.collect());
            if let Some(order) = order.filter(|_| !of.is_sorted()) {
                let nodes = kind.nodes.iter().map(|node| node.name).collect();
                lines.insert(
                    format!("NodeName={} rails={order}", list(&nodes)),
                    "their NICs are on the rails' switches in another order than those of most nodes",
                );
            }
        }
        if reach == RailReach::Isolated {
            lines.insert(
                "fabric=isolated-rails".to_string(),
                "no switch connects two rails, and nodes see that only where each rail has a subnet of its own",
            );
        }
        let cables = rails.kinds.iter().flat_map(|kind| {
            let cable = |cable| FabricCable::of(&rails, kind, cable);
            kind.cables.iter().map(cable)
        });
        let mut kinds = rails.kinds.iter();
        let first = kinds.find(|kind| kind.rail_of.iter().any(Option::is_some));
        let first = first.or(rails.kinds.first());
        FabricRails {
            format: "nic-placement fabric",
            version: VERSION,
            layout: first.map_or(CableLayout::NotRecognised, |kind| kind.layout),
            rails: cabled_rails(&rails),
            lines,
            reach,
            faults: faults.faults,
            notes,
            cables: cables.collect(),
            unread: Vec::new(),
        }
    }
}

fn cabled_rails(of: &Rails) -> Vec<CabledRail> {
    let mut rails: Vec<CabledRail> = Vec::new();
    for (rail, nics) in of.nics.iter().enumerate() {
        let leaves = of.of_switch.iter().filter(|(_, of)| **of == rail);
        let leaves = leaves.map(|(leaf, _)| leaf.to_string()).collect();
        rails.push(CabledRail {
            rail,
            nics: nics.clone(),
            leaves,
            right: 0,
            ports: 0,
        });
    }
    for kind in &of.kinds {
        for cable in &kind.cables {
            if let Some(rail) = kind.rail_of[cable.slot] {
                let is_right = cable.belongs.is_some() && of.rail(cable.at) == Some(rail);
                rails[rail].right += usize::from(is_right);
                rails[rail].ports += 1;
            }
        }
    }
    rails
}

fn reach(cabling: &Cabling, names: &BTreeMap<&str, String>, rails: &Rails) -> RailReach {
    if rails.nics.len() < 2 {
        return RailReach::NoRails;
    }
    let name = |switch: &'_ String| names.get(&**switch).unwrap_or(switch).clone();
    let mut beside: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (a, b) in &cabling.trunks {
        beside.entry(name(a)).or_default().push(name(b));
        beside.entry(name(b)).or_default().push(name(a));
    }
    let whole: BTreeSet<String> = cabling.whole.iter().map(name).collect();
    let mut leaves = rails.of_switch.keys();
    if !leaves.all(|leaf| whole.contains(*leaf)) {
        return RailReach::NotKnown;
    }
    let mut sizes = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for leaf in rails.of_switch.keys() {
        let (mut group, mut open) = (BTreeSet::new(), vec![*leaf]);
        while let Some(switch) = open.pop() {
            if seen.insert(switch) {
                group.extend(rails.rail(Some(switch)));
                open.extend(beside.get(switch).into_iter().flatten().map(String::as_str));
            }
        }
        sizes.insert(group.len());
    }
    sizes.remove(&0);
    match (sizes.first(), sizes.last()) {
        (_, Some(1)) => RailReach::Isolated,
        (Some(least), _) if *least == rails.nics.len() => RailReach::Together,
        _ => RailReach::Partly,
    }
}

//! The rails of a fabric: the rail of each switch, cables that are wrong, and lines for the admin.
//!
//! The k-th NIC of each node is on one switch, the leaf of rail k, or on one such switch for each group of nodes (a pod). Most
//! nodes decide, so no list of switches is needed; without a majority the answer is "not known".

use super::cabling::{Cabling, SwitchPort};
use super::faults::{CableFault, Faults};
use super::kinds::{CableLayout, CablePlace, Rails, rails};
use super::names::{NameBook, NodeNames, natural, nodes};
use crate::audit::hostlist::compressed;
use crate::audit::report::to_json;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FabricRails {
    /// of the nodes with rails, else of the weightiest kind
    pub layout: CableLayout,
    pub rails: Vec<CabledRail>,
    pub reach: RailReach,
    pub faults: Vec<CableFault>,
    pub lines: Vec<AdvisedLine>,
    /// unknowns, and oddities that need not be wrong
    pub notes: Vec<String>,
    pub switches: Vec<CabledSwitch>,
    pub nodes: Vec<CabledNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CabledRail {
    pub rail: usize,
    /// its NICs on most nodes
    pub nics: Vec<String>,
    /// its switches: one for each group of nodes
    pub leaves: Vec<String>,
    pub right: usize,
    pub ports: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RailReach {
    NoRails,
    Together,
    Isolated,
    Partly(Vec<Vec<usize>>),
    NotKnown,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AdvisedLine {
    pub line: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CabledSwitch {
    pub switch: String,
    pub rail: Option<usize>,
    pub nodes: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CabledNode {
    pub node: String,
    pub nics: Vec<CabledPort>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CabledPort {
    pub nic: String,
    pub port: u8,
    /// `null` without a link, and where the sources name several
    pub switch: Option<String>,
    pub switch_port: Option<String>,
    pub rail: Option<usize>,
    /// the switch that most nodes beside it have there, if it is another
    pub belongs: Option<String>,
}

impl FabricRails {
    /// Reports of `check --json` add the nodes' own names of NICs, and the NICs that GPUs use.
    pub fn of(cabling: &Cabling, reports: &BTreeMap<String, NodeNames>) -> FabricRails {
        let mut notes = cabling.notes.clone();
        let names = names(cabling, reports);
        let nodes = nodes(cabling, reports, &names, &mut notes);
        let rails = rails(&nodes);
        let Faults {
            faults,
            doubts,
            orders,
        } = Faults::of(&rails);
        let list = |nodes: &BTreeSet<&str>| compressed(nodes.iter().copied());
        notes.extend(
            doubts
                .iter()
                .map(|(text, nodes)| format!("{}: {text}", list(nodes))),
        );
        let listed: BTreeSet<&str> = nodes.iter().map(|node| node.name).collect();
        // a login node has no NIC of the fabric
        let silent = reports
            .iter()
            .filter(|(node, of)| !of.rails.is_empty() && !listed.contains(&***node));
        let silent = compressed(silent.map(|(node, _)| node.as_str()));
        if !silent.is_empty() && !nodes.is_empty() {
            notes.push(format!("no source tells a cable of {silent}"));
        }
        let reach = reach(cabling, &names, &rails);
        let mut lines = Vec::new();
        for (order, nodes) in &orders {
            lines.push(line(
                format!("NodeName={} rails={order}", list(nodes)),
                "only if its cables are meant to be so: then its NICs are numbered otherwise than on most nodes",
            ));
        }
        lines.extend(by_kinds(&rails));
        match reach {
            RailReach::Isolated => lines.push(line(
                "fabric=isolated-rails".to_string(),
                "no switch connects two rails, and nodes see that only where each rail has a subnet of its own",
            )),
            RailReach::Together if nodes.iter().any(|node| node.is_ethernet) => lines.push(line(
                "fabric=routed".to_string(),
                "only if each rail has an IPv4 network of its own and the hosts route between these: the switches connect them",
            )),
            _ => {}
        }
        let first = rails
            .kinds
            .iter()
            .find(|kind| kind.rail_of.iter().any(Option::is_some))
            .or(rails.kinds.first());
        FabricRails {
            layout: first.map_or(CableLayout::NotTold, |kind| kind.layout),
            rails: cabled_rails(&rails),
            lines,
            reach,
            faults,
            notes,
            switches: cabled_switches(&rails),
            nodes: cabled_nodes(&rails),
        }
    }

    /// `unread` has the reasons for inputs that could not be read.
    pub fn to_json(&self, unread: &[String]) -> String {
        /// Grows when a field changes its meaning or goes, not with new fields.
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
        to_json(&answer)
    }
}

fn names(cabling: &Cabling, reports: &BTreeMap<String, NodeNames>) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = reports
        .values()
        .flat_map(|report| &report.ports)
        .filter_map(|port| port.neighbour.as_ref())
        .map(|of| (of.id.clone(), of.switch.clone()))
        .collect();
    all.extend(cabling.switches.clone());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in all.values() {
        *counts.entry(name.clone()).or_default() += 1;
    }
    for (key, name) in &mut all {
        if name.trim().is_empty() {
            name.clone_from(key);
        } else if counts[name] > 1 && name != key {
            *name = format!("{name} ({key})");
        }
    }
    all
}

fn cabled_rails(of: &Rails) -> Vec<CabledRail> {
    let rail = |(rail, nics): (usize, &Vec<String>)| {
        let mut leaves: Vec<String> = of
            .of_switch
            .iter()
            .filter(|(_, of)| **of == rail)
            .map(|(leaf, _)| leaf.to_string())
            .collect();
        leaves.sort_by_cached_key(|leaf| natural(leaf));
        CabledRail {
            rail,
            nics: nics.clone(),
            leaves,
            right: 0,
            ports: 0,
        }
    };
    let mut rails: Vec<CabledRail> = of.nics.iter().enumerate().map(rail).collect();
    for kind in &of.kinds {
        for cable in &kind.cables {
            if let Some(rail) = kind.rail_of[cable.slot] {
                let is_clear = !matches!(cable.place, CablePlace::Unclear { .. });
                rails[rail].right += usize::from(is_clear && of.rail(cable) == Some(rail));
                rails[rail].ports += 1;
            }
        }
    }
    rails
}

fn cabled_switches(rails: &Rails) -> Vec<CabledSwitch> {
    let mut on: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for cable in rails.kinds.iter().flat_map(|kind| &kind.cables) {
        if let Some(at) = cable.at() {
            on.entry(at).or_default().insert(cable.node.name);
        }
    }
    let mut all: Vec<CabledSwitch> = on
        .into_iter()
        .map(|(at, nodes)| CabledSwitch {
            switch: at.to_string(),
            rail: rails.of_switch.get(at).copied(),
            nodes: compressed(nodes),
        })
        .collect();
    all.sort_by_cached_key(|of| (of.rail.is_none(), of.rail, natural(&of.switch)));
    all
}

fn cabled_nodes(rails: &Rails) -> Vec<CabledNode> {
    let mut nodes: BTreeMap<&str, Vec<CabledPort>> = BTreeMap::new();
    for kind in &rails.kinds {
        for cable in &kind.cables {
            let nics = nodes.entry(cable.node.name).or_default();
            if cable.place == CablePlace::Unused {
                continue;
            }
            let key = &kind.slots[cable.slot];
            let port = cable
                .at()
                .and_then(|at| cable.node.ends(key)?.get(at).copied());
            nics.push(CabledPort {
                nic: key.0.clone(),
                port: key.1,
                switch: cable.at().map(String::from),
                switch_port: port.filter(|port| !port.is_empty()).map(String::from),
                rail: rails.rail(cable),
                belongs: cable.belongs().map(String::from),
            });
        }
    }
    let mut all: Vec<CabledNode> = nodes
        .into_iter()
        .map(|(node, nics)| CabledNode {
            node: node.to_string(),
            nics,
        })
        .collect();
    all.sort_by_cached_key(|of| natural(&of.node));
    all
}

fn reach(cabling: &Cabling, names: &BTreeMap<String, String>, rails: &Rails) -> RailReach {
    if rails.nics.len() < 2 {
        return RailReach::NoRails;
    }
    let name = |end: &'_ SwitchPort| names.get(&end.switch).unwrap_or(&end.switch).clone();
    let mut beside: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (a, b) in &cabling.trunks {
        beside.entry(name(a)).or_default().push(name(b));
        beside.entry(name(b)).or_default().push(name(a));
    }
    // a source that gives a NIC's GUID lists all links of its switch
    let whole: BTreeSet<String> = cabling
        .cables
        .iter()
        .filter(|cable| cabling.tells_trunks && cable.nic.guid.is_some())
        .filter_map(|cable| cable.to.as_ref().map(name))
        .collect();
    let mut leaves = rails.of_switch.keys();
    if !leaves.all(|leaf| whole.contains(*leaf) || beside.contains_key(*leaf)) {
        return RailReach::NotKnown;
    }
    let (mut seen, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for leaf in rails.of_switch.keys() {
        let (mut group, mut open) = (BTreeSet::new(), vec![*leaf]);
        while let Some(switch) = open.pop() {
            if seen.insert(switch) {
                group.extend(rails.of_switch.get(switch).copied());
                open.extend(beside.get(switch).into_iter().flatten().map(String::as_str));
            }
        }
        if !group.is_empty() {
            groups.insert(Vec::from_iter(group));
        }
    }
    if groups.iter().all(|group| group.len() == 1) {
        RailReach::Isolated
    } else if groups.iter().all(|group| group.len() == rails.nics.len()) {
        RailReach::Together
    } else {
        RailReach::Partly(groups.into_iter().collect())
    }
}

fn line(line: String, why: &str) -> AdvisedLine {
    AdvisedLine {
        line,
        why: why.to_string(),
    }
}

/// For nodes of another kind, if their NICs are on the rails' switches in another order.
fn by_kinds(rails: &Rails) -> Vec<AdvisedLine> {
    let most = rails.kinds.first().map_or(0, |kind| kind.nodes.len());
    rails
        .kinds
        .iter()
        .filter(|kind| kind.layout == CableLayout::RailOptimised && kind.nodes.len() < most)
        .filter_map(|kind| {
            let rails = &kind.rail_of;
            let slots = (0..rails.len()).filter_map(|slot| Some((rails[slot]?, slot)));
            let order = kind
                .order(slots.collect(), &kind.nodes)
                .filter(|_| !rails.is_sorted())?;
            let nodes = compressed(kind.nodes.iter().map(|node| node.name));
            Some(line(
                format!("NodeName={nodes} rails={order}"),
                "their NICs are on the rails' switches in another order than those of most nodes",
            ))
        })
        .collect()
}

/// Subject in the report, attribute, value.
pub type CableFacts = Vec<(String, String, String)>;

/// The place of each NIC for `audit`: by rails, which are the same in each pod.
pub fn positions<'a>(rails: &'a FabricRails, names: &NameBook) -> Vec<(&'a str, CableFacts)> {
    let mut all = Vec::new();
    for CabledNode { node, nics } in &rails.nodes {
        let Some(report) = names.nodes.get(node) else {
            continue;
        };
        let fact = |nic: &CabledPort| {
            // the state of a port without a link is in the report
            nic.switch.as_ref()?;
            let port = report
                .ports
                .iter()
                .find(|port| port.key.0 == nic.nic && port.key.1 == nic.port)?;
            let (what, value) = match (rails.layout, nic.rail) {
                (CableLayout::RailOptimised | CableLayout::Grouped(_), rail) => (
                    "rail by cable",
                    rail.map_or("none".to_string(), |rail| rail.to_string()),
                ),
                (CableLayout::OneLeaf, _) => {
                    let not = if nic.belongs.is_some() { "not " } else { "" };
                    ("switch", format!("{not}its neighbours'"))
                }
                _ => return None,
            };
            Some((
                port.subject.clone(),
                format!("port {} {what}", nic.port),
                value,
            ))
        };
        all.push((node.as_str(), nics.iter().filter_map(fact).collect()));
    }
    all
}

//! Where each NIC of a node is cabled, as facts that `audit` compares: by positions, which are the same in each pod.
#![forbid(unsafe_code)]

use super::layout::CableLayout;
use super::names::{NameBook, natural};
use super::rails::{CabledPort, FabricRails};
use std::collections::BTreeMap;

/// The facts of one node's NICs: the subject in its report, what about it, its value.
pub type CableFacts = Vec<(String, String, String)>;

/// The facts of each node that a report and a cable's source tell.
pub fn positions<'a>(rails: &'a FabricRails, names: &NameBook) -> Vec<(&'a str, CableFacts)> {
    let of_node = |node: &'a super::rails::CabledNode| {
        let known = names.nodes.get(&node.node)?;
        let subjects: BTreeMap<(&str, u8), &str> = known
            .ports
            .iter()
            .map(|port| ((port.nic.as_str(), port.port), port.subject.as_str()))
            .collect();
        let fact = |port: &CabledPort| {
            let subject = subjects.get(&(port.nic.as_str(), port.port))?;
            let (what, value) = position(rails.layout, port)?;
            Some((
                subject.to_string(),
                format!("port {} {what}", port.port),
                value,
            ))
        };
        Some((
            node.node.as_str(),
            node.nics.iter().filter_map(fact).collect(),
        ))
    };
    let mut all: Vec<(&str, CableFacts)> = rails.nodes.iter().filter_map(of_node).collect();
    all.sort_by_cached_key(|(node, _)| natural(node));
    all
}

/// Of a port without a link its state tells.
fn position(layout: CableLayout, port: &CabledPort) -> Option<(&'static str, String)> {
    port.switch.as_ref()?;
    match layout {
        CableLayout::RailOptimised | CableLayout::Grouped(_) => Some((
            "rail by cable",
            port.rail
                .map_or("none".to_string(), |rail| rail.to_string()),
        )),
        CableLayout::OneLeaf => {
            let is_elsewhere = port.belongs.is_some();
            Some((
                "switch",
                if is_elsewhere {
                    "not its neighbours'"
                } else {
                    "its neighbours'"
                }
                .to_string(),
            ))
        }
        CableLayout::OneNic | CableLayout::NotRecognised | CableLayout::NotTold => None,
    }
}

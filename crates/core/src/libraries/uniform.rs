//! One list of NICs for all tasks of a node, set only to leave NICs out.

use crate::maps;
use crate::placement::Rail;
use crate::topology::{Nic, NicIndex, NicKind, Port, PortRef, PortState, Topology};
use std::ops::Deref;

/// The list and its reason, or the reason for none.
pub(super) type NodeList = Result<(String, String), &'static str>;

/// Verbs NICs with an active port that is no rail; libraries skip inactive ports themselves.
pub fn left_out<'t>(
    node: &'t Topology,
    rails: &[Rail],
) -> impl Iterator<Item = (NicIndex, &'t Nic)> {
    let is_left_out = |nic: NicIndex, of: &Port| {
        let port = of.number;
        let is_rail = |rail: &Rail| rail.at() == PortRef { nic, port };
        of.state == PortState::Active && !rails.iter().any(is_rail)
    };
    node.numbered_nics().filter(move |(nic, of)| {
        of.kind == NicKind::Verbs && of.ports.iter().any(|port| is_left_out(*nic, port))
    })
}

/// The rails as `mlx5_0:1,mlx5_1:1`, if a NIC must be left out.
pub fn list(node: &Topology, rails: &[Rail]) -> NodeList {
    if rails.is_empty() {
        return Err(match node.is_left_to_libfabric() {
            true => "this node's NICs are reached through libfabric, where it is not read",
            false => "no NIC of this node may be chosen, and an empty list would mean all",
        });
    }
    let left_out = names_of(left_out(node, rails).map(|(_, nic)| &nic.name)).replace(',', " ");
    if left_out.is_empty() {
        return Err("every NIC that it would find may be used");
    }
    let why = format!("one list for the whole node, without {left_out}");
    Ok((joined(rails), why))
}

pub fn names_of<'a, N: Deref<Target = str> + 'a>(names: impl Iterator<Item = &'a N>) -> String {
    maps::distinct(names).join(",")
}

pub fn joined(entries: impl IntoIterator<Item: ToString>) -> String {
    let entries = entries.into_iter().map(|entry| entry.to_string());
    entries.collect::<Vec<_>>().join(",")
}

//! Lists for a whole node, set only to exclude NICs.
#![forbid(unsafe_code)]

use super::Answer;
use super::template::names_of;
use crate::placement::Rail;
use crate::topology::{Nic, NicIndex, NicKind, Port, PortRef, PortState, Topology};

/// A list for all tasks of a node, and why; or why there is nothing to set.
pub(super) type NodeList = Result<(String, String), &'static str>;

/// NICs that a verbs library would find and should not use, each once.  Libraries skip inactive ports themselves.
pub(super) fn left_out<'t>(
    topology: &'t Topology,
    rails: &[Rail],
) -> impl Iterator<Item = (NicIndex, &'t Nic)> {
    let is_rail =
        |nic: NicIndex, port: &Port| rails.iter().any(|rail| rail.at() == PortRef { nic, port: port.number });
    let verbs = topology.numbered_nics().filter(|(_, nic)| nic.kind == NicKind::Verbs);
    verbs.filter(move |(index, nic)| {
        nic.ports.iter().any(|port| port.state == PortState::Active && !is_rail(*index, port))
    })
}

/// The names of those of which no port is a rail.
pub(super) fn unused(topology: &Topology, rails: &[Rail]) -> String {
    let unused = left_out(topology, rails).filter(|(nic, _)| rails.iter().all(|rail| rail.nic != *nic));
    names_of(unused.map(|(_, nic)| nic.name.as_str()))
}

/// These rails as `mlx5_0:1,mlx5_1:1`, if something must be left out.
pub(super) fn list(topology: &Topology, rails: &[Rail]) -> NodeList {
    if rails.is_empty() {
        let why = match topology.is_left_to_libfabric() {
            true => "this node's NICs are reached through libfabric, where it is not read",
            false => "no NIC of this node may be chosen, and an empty list would mean all",
        };
        return Err(why);
    }
    let left_out = names_of(left_out(topology, rails).map(|(_, nic)| nic.name.as_str())).replace(',', " ");
    if left_out.is_empty() {
        return Err("every NIC that it would find may be used");
    }
    let entries: Vec<String> = rails.iter().map(ToString::to_string).collect();
    Ok((entries.join(","), format!("one list for the whole node, without {left_out}")))
}

/// The answer where NICs must be left out, from the list and why.
pub(super) fn answer(list: &NodeList, needed: impl FnOnce(&str, &str) -> Answer) -> Answer {
    match list {
        Ok((list, why)) => needed(list, why),
        Err(why) => Answer::no(*why),
    }
}

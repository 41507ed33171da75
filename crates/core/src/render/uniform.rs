//! What the lists for a whole node leave out: the libraries that read one find the rest by themselves.
#![forbid(unsafe_code)]

use super::template::names_of;
use crate::placement::NodePlacement;
use crate::topology::{NicIndex, NicKind, Port, PortRef, PortState, Topology};

/// A list for all tasks of a node.
pub(super) enum List {
    /// the entries, and the NICs that are not among them
    Needed(String, String),
    /// there is nothing to set, for this reason
    Not(&'static str),
}

/// NICs that a verbs library would find and should not use, each once.
///
/// Ports that are not active are skipped by the libraries themselves, and EFA, Slingshot and plain Ethernet are no
/// devices that a verbs library could take for one of its own.
fn left_out(topology: &Topology, node: &NodePlacement) -> String {
    let is_rail = |nic: NicIndex, port: &Port| node.rail_at(PortRef { nic, port: port.number }).is_some();
    let verbs = topology.numbered_nics().filter(|(_, nic)| nic.kind == NicKind::Verbs);
    let unwanted = verbs.filter(|(index, nic)| {
        nic.ports.iter().any(|port| port.state == PortState::Active && !is_rail(*index, port))
    });
    names_of(unwanted.map(|(_, nic)| nic.name.as_str())).replace(',', " ")
}

/// `mlx5_0:1,mlx5_1:1` of the node's rails, where something must be left out.
pub(super) fn list(topology: &Topology, node: &NodePlacement) -> List {
    if node.rails.is_empty() {
        let why = match topology.is_left_to_libfabric() {
            true => "this node's NICs are reached through libfabric, where it is not read",
            false => "no NIC of this node may be chosen, and an empty list would mean all",
        };
        return List::Not(why);
    }
    let left_out = left_out(topology, node);
    if left_out.is_empty() {
        return List::Not("every NIC that it would find may be used");
    }
    let entries: Vec<String> = node.rails.iter().map(ToString::to_string).collect();
    List::Needed(entries.join(","), left_out)
}

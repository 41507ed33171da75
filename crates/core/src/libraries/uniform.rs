//! One list of NICs for all tasks of a node, set only to leave NICs out.
#![forbid(unsafe_code)]

use crate::placement::Rail;
use crate::topology::{Nic, NicIndex, NicKind, Port, PortRef, PortState, Topology};
use std::ops::Deref;

/// The list and its reason; or the reason for none.
pub(super) type NodeList = Result<(String, String), &'static str>;

/// Verbs NICs with an active port that is no rail.  Libraries skip inactive ports themselves.
pub(super) fn left_out<'t>(
    topology: &'t Topology,
    rails: &[Rail],
) -> impl Iterator<Item = (NicIndex, &'t Nic)> {
    let is_rail = |nic: NicIndex, port: &Port| {
        rails.iter().any(|rail| {
            rail.at()
                == PortRef {
                    nic,
                    port: port.number,
                }
        })
    };
    let verbs = topology
        .numbered_nics()
        .filter(|(_, nic)| nic.kind == NicKind::Verbs);
    verbs.filter(move |(index, nic)| {
        nic.ports
            .iter()
            .any(|port| port.state == PortState::Active && !is_rail(*index, port))
    })
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
    let left_out = names_of(left_out(topology, rails).map(|(_, nic)| &nic.name)).replace(',', " ");
    if left_out.is_empty() {
        return Err("every NIC that it would find may be used");
    }
    let entries: Vec<String> = rails.iter().map(ToString::to_string).collect();
    Ok((
        entries.join(","),
        format!("one list for the whole node, without {left_out}"),
    ))
}

/// Each name once, in order: ports of one NIC share it.
pub(super) fn names_of<'a, N: Deref<Target = str> + 'a>(
    names: impl Iterator<Item = &'a N>,
) -> String {
    let mut list: Vec<&str> = Vec::new();
    for name in names.map(Deref::deref) {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    list.join(",")
}

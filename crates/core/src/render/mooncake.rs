//! Mooncake's transfer engine, on demand (`env=default+mooncake`): `MC_TE_FILTERS`, one list for every task of the node.
//!
//! Exact device names without ports.  The engine uses only named devices, those of the memory's NUMA node
//! first (mooncake-transfer-engine/src/topology.cpp `getIbvDeviceWhitelist`, `listInfiniBandDevices`).  It reads the
//! variable since 0.3.12.  Of the devices that a program names itself only those in the list are left, which is why
//! nobody gets it unasked.
#![forbid(unsafe_code)]

use super::template::names_of;
use super::uniform::List;
use super::{Answer, Asked};
use crate::placement::NodePlacement;

pub(super) const FILTERS: &str = "MC_TE_FILTERS";

/// The node's list.
pub(super) fn list(of_node: &List, node: &NodePlacement) -> Answer<'static> {
    match of_node {
        List::Needed(_, left_out) => {
            let names = names_of(node.rails.iter().map(|rail| rail.name.as_str()));
            Answer::yes(names, format!("one list for the whole node, without {left_out}"))
        }
        List::Not(why) => Answer::no(*why),
    }
}

/// The same for every task.
pub(super) fn filters<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    Some(asked.prepared.mooncake.borrowed())
}

//! Mooncake's transfer engine, on demand (`env=default+mooncake`): `MC_TE_FILTERS`, one list for every task of the node.
//!
//! Exact device names without ports.  The engine uses only named devices, those of the memory's NUMA node
//! first (mooncake-transfer-engine/src/topology.cpp).
#![forbid(unsafe_code)]

use super::template::names_of;
use super::uniform::{self, List};
use super::{Answer, Asked};
use crate::placement::NodePlacement;
use crate::topology::Topology;

pub(super) const FILTERS: &str = "MC_TE_FILTERS";

/// The node's list.
pub(super) fn list(topology: &Topology, node: &NodePlacement) -> Answer<'static> {
    match uniform::list(topology, node) {
        List::Needed(_, left_out) => {
            let names = names_of(node.rails.iter().map(|rail| rail.name.as_str()));
            Answer::yes(names, format!("one list for the whole node, without {left_out}"))
        }
        List::Not(why) => Answer::no(why),
    }
}

/// The same for every task.
pub(super) fn filters<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    Some(asked.prepared.mooncake.borrowed())
}

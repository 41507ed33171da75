//! NVSHMEM: `NVSHMEM_HCA_LIST`, one list for every task of the node, set only to exclude something.
//!
//! Items are exact names with a port; `^` would invert the list.  NVSHMEM filters by it with or without
//! `NVSHMEM_ENABLE_NIC_PE_MAPPING` and skips inactive ports.  Then each processing element computes by the
//! same rule which NIC serves which element, so all lists must be equal (NVSHMEM 3.5:
//! src/modules/transport/ibrc, `parse_hca_list`; src/host/transport/transport.cpp; src/host/topo/topo.cpp).
//! The list would make NVSHMEM ignore `NVSHMEM_HCA_PE_MAPPING`, so we set none beside a user's own mapping.
//! With one NIC in each element's list (`env=nvshmem-pe`) nothing is left to compute; that is right if every
//! element has exactly one.
//!
//! We leave `NVSHMEM_HCA_PREFIX` alone: its default differs between releases (`mlx5`, later everything but
//! `smi`), so no value is right for all.
#![forbid(unsafe_code)]

use super::uniform::{self, List};
use super::wanted::Libraries;
use super::{Answer, Asked};
use crate::placement::NodePlacement;
use crate::topology::{GpuVendor, Topology};

pub(super) const HCA_LIST: &str = "NVSHMEM_HCA_LIST";
pub(super) const PE_MAPPING: &str = "NVSHMEM_HCA_PE_MAPPING";

/// The node's list; `None` if no GPU of the node can run NVSHMEM.
pub(super) fn list(topology: &Topology, node: &NodePlacement) -> Option<Answer<'static>> {
    if !topology.gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Nvidia) {
        return None;
    }
    Some(match uniform::list(topology, node) {
        List::Needed(list, left_out) => {
            Answer::yes(list, format!("one list for the whole node, without {left_out}"))
        }
        List::Not(why) => Answer::no(why),
    })
}

/// The node's list, or on request the task's one NIC.
pub(super) fn hca_list<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let of_the_node = asked.prepared.nvshmem.as_ref()?;
    if asked.users(PE_MAPPING).is_some() {
        return Some(Answer::no("the user's `NVSHMEM_HCA_PE_MAPPING` would be ignored beside it"));
    }
    if asked.prepared.wanted.libraries.has(Libraries::NVSHMEM_PE) && !asked.task.gpus.is_empty() {
        if let [(rail, _)] = asked.task.rails.as_slice() {
            let value = asked.node.rail(*rail).to_string();
            return Some(Answer::yes(value, "its GPU's NIC, as `env=nvshmem-pe` asks"));
        }
    }
    Some(of_the_node.borrowed())
}

//! NCCL and RCCL: `NCCL_IB_HCA`, one exact list for every task of the node, and only if it leaves something out.
//!
//! NCCL numbers devices by their place in each rank's own list and merges the ranks of a node by that number, so lists
//! that differ between ranks send all traffic through one NIC (src/graph/topo.cc `ncclTopoGetSystem`; NVIDIA/nccl issue
//! 1478: "You should not set NCCL_IB_HCA differently on each rank").  With `=` an entry is a whole name; without it
//! `mlx5_1` means `mlx5_10` too.  At most 32 entries of 63 characters (src/misc/utils.cc `parseStringList`).  Ports that
//! are not active are skipped anyway.
#![forbid(unsafe_code)]

use crate::placement::NodePlacement;
use crate::topology::{PortState, Topology};

pub(super) const IB_HCA: &str = "NCCL_IB_HCA";

/// Entries of the list that NCCL reads (`MAX_IB_DEVS`, src/transport/net_ib/common.h); what stands behind them it ignores.
const MAX_ENTRIES: usize = 32;

/// The site's configuration; NCCL reads it after the environment and never over it (src/misc/param.cc).
pub const CONFIGURATION: &str = "/etc/nccl.conf";

/// Which of our variables a configuration file sets: `NAME=VALUE` in lines, `#` begins a comment.
pub fn configured(text: &str) -> Option<&'static str> {
    let names = text.lines().filter_map(|line| line.split('#').next()?.split_once('='));
    names.into_iter().any(|(name, _)| name.trim() == IB_HCA).then_some(IB_HCA)
}

/// The value, and why it is this or none: from the node alone, never from the task.
pub(super) fn ib_hca(topology: &Topology, node: &NodePlacement) -> (Option<String>, String) {
    if let Some((_, file)) = node.configured.iter().find(|(name, _)| *name == IB_HCA) {
        return (None, format!("`{file}` sets it"));
    }
    if topology.gpus.is_empty() {
        return (None, "the node has no GPU".to_string());
    }
    if node.rails.is_empty() {
        return (None, "no NIC of this node may be chosen, and an empty list would mean all".to_string());
    }
    let is_rail = |name: &str, port: u8| node.rails.iter().any(|rail| rail.name == name && rail.port == port);
    let left_out: Vec<&str> = topology
        .nics
        .iter()
        .filter(|nic| {
            nic.ports.iter().any(|port| port.state == PortState::Active && !is_rail(&nic.name, port.number))
        })
        .map(|nic| nic.name.as_str())
        .collect();
    if left_out.is_empty() {
        return (None, "every NIC that NCCL would find may be used".to_string());
    }
    if node.rails.len() > MAX_ENTRIES {
        let ports = node.rails.len();
        return (None, format!("{ports} ports may be used, and NCCL reads a list of {MAX_ENTRIES} at most"));
    }
    let list: Vec<String> = node.rails.iter().map(ToString::to_string).collect();
    (
        Some(format!("={}", list.join(","))),
        format!("one list for the whole node, without {}", left_out.join(" ")),
    )
}

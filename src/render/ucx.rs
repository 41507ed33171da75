//! UCX: `UCX_NET_DEVICES`, the network devices that a process may use.
//!
//! Items are exact and always `name:port` (a bare name is read only from 1.21 on); an unknown item is a warning, no known
//! one an error at the first remote peer.  The list filters TCP interfaces too, which breaks programs that asked for the
//! tcp transport.  Peers may use different devices as long as the fabric connects them.  (UCX: src/ucs/config/parser.c,
//! src/ucp/core/ucp_context.c; its FAQ, "selecting networks and transports".)
#![forbid(unsafe_code)]

use super::Present;
use crate::placement::{NodePlacement, TaskPlacement};

pub(super) const NET_DEVICES: &str = "UCX_NET_DEVICES";
pub(super) const TLS: &str = "UCX_TLS";

/// The value, and why it is this or none.
pub(super) fn net_devices(
    node: &NodePlacement,
    task: &TaskPlacement,
    present: &Present,
) -> (Option<String>, String) {
    if task.gpus.is_empty() {
        return (None, "a task without GPUs is left to UCX, which uses two NICs itself".to_string());
    }
    if task.rails.is_empty() {
        return (None, "no NIC of this node may be chosen".to_string());
    }
    if present.get(TLS).is_some_and(|tls| tls.split(',').any(|transport| transport.trim() == "tcp")) {
        return (None, "`UCX_TLS` asks for tcp, whose interfaces the list would hide".to_string());
    }
    let anything_left_out = task.rails.len() < node.rails.len() || !node.excluded.is_empty();
    if task.rails.len() > 1 && !anything_left_out {
        return (None, "it may use every NIC of the node".to_string());
    }
    let list: Vec<String> = task.rails.iter().map(|&(rail, _)| node.rails[rail].to_string()).collect();
    let reason = match (task.gpus.len(), list.len()) {
        (1, 1) => "its GPU's NIC".to_string(),
        (_, 1) => "the NIC that all its GPUs share".to_string(),
        (1, many) => format!("the {many} NICs of its GPU"),
        (_, many) => format!("the {many} NICs of its GPUs, of which UCX takes the nearest to the GPU in use"),
    };
    (Some(list.join(",")), reason)
}

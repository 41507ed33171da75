//! MORI, on demand (`env=default+mori`): `MORI_RDMA_DEVICES`, one list for every task of the node, set only to exclude something.
//!
//! Exact device names without ports.  A plain list changes the order of the devices, by which MORI numbers them; with `^`
//! the order stays and the named ones go, each with all its ports (src/application/transport/rdma/rdma.cpp
//! `RdmaContext::Initialize`).  So a NIC of which one port may be used stays.
#![forbid(unsafe_code)]

use super::uniform::{self, List};
use super::{Answer, Asked};
use crate::topology::GpuVendor;

pub(super) const DEVICES: &str = "MORI_RDMA_DEVICES";

/// What the node leaves out; no answer if no GPU of the node can run MORI.
pub(super) fn devices<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    if !asked.topology.gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Amd) {
        return None;
    }
    let left_out = uniform::left_out_as_a_whole(asked.topology, asked.node);
    Some(match &asked.prepared.of_node {
        List::Needed(..) if left_out.is_empty() => {
            Answer::no("it knows no ports, and every NIC that it would find has one that may be used")
        }
        List::Needed(..) => {
            Answer::yes(format!("^{left_out}"), "what no task of the node should use, as `env=mori` asks")
        }
        List::Not(why) => Answer::no(*why),
    })
}

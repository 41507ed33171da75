//! MORI, on demand (`env=default+mori`): `MORI_RDMA_DEVICES`, one list for every task of the node, set only to exclude something.
//!
//! Exact device names without ports.  A plain list changes the order of the devices, by which MORI numbers them; with `^`
//! the order stays and the named ones go (src/application/transport/rdma/rdma.cpp `RdmaContext::Initialize`).
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
    Some(match uniform::list(asked.topology, asked.node) {
        List::Needed(_, left_out) => Answer::yes(
            format!("^{}", left_out.replace(' ', ",")),
            "what no task of the node should use, as `env=mori` asks",
        ),
        List::Not(why) => Answer::no(why),
    })
}

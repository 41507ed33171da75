//! EFA: `FI_EFA_IFACE` is never set.
//!
//! aws-ofi-nccl groups the devices by all GPUs of the node, and every peer must find the same number of devices in a group
//! (src/nccl_ofi_topo.cpp; its issue 1061: "Unexpected number of remote rails"), so no shorter list is right.
#![forbid(unsafe_code)]

use super::{Answer, Library, Query};
use crate::topology::NicKind;

pub(super) const LIBRARY: Library = Library {
    name: "EFA",
    never: Some((IFACE, iface)),
    evidence: &[IFACE],
    doubtful: "FI_EFA_*",
    uniform: "FI_EFA_*",
    ..Library::NONE
};

const IFACE: &str = "FI_EFA_IFACE";

/// The reason; no answer if the node has no EFA device.
fn iface(query: &Query) -> Option<Answer> {
    query.nics_of(NicKind::Efa).next()?;
    let why = "EFA's plug-in for NCCL groups the devices by GPU itself, and breaks where some are hidden";
    Some(Answer::no(why))
}

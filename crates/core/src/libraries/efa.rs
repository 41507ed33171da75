//! EFA: we set nothing, ever, and report why.
//!
//! aws-ofi-nccl groups the devices by the GPUs that it sees, all of the node's.  Every peer must find the
//! same number of devices in a group (src/nccl_ofi_topo.cpp; its issue 1061: "Unexpected number of remote
//! rails").  So no shorter list is right, for a task or for a node.  A task gets all devices beside its GPU
//! anyway.
#![forbid(unsafe_code)]

use super::{Answer, Asked, Library};
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

/// Never a value; no answer if the node has no EFA device.
fn iface<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let has_efa = asked.topology.nics.iter().any(|nic| nic.kind == NicKind::Efa);
    has_efa.then(|| {
        Answer::no(
            "EFA's plug-in for NCCL groups the devices by GPU itself, and breaks where some are hidden",
        )
    })
}

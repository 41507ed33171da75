//! MORI, on demand (`env=default+mori`): `MORI_RDMA_DEVICES`, one list for every task of the node, set only to exclude something.
//!
//! Exact device names without ports.  A plain list changes the order of the devices, by which MORI numbers them; with `^`
//! the order stays and the named ones go, each with all its ports (src/application/transport/rdma/rdma.cpp
//! `RdmaContext::Initialize`).  So a NIC of which one port may be used stays.
#![forbid(unsafe_code)]

use super::template::names_of;
use super::uniform::{self, left_out};
use super::{Answer, Library, Query};
use crate::topology::GpuVendor;

pub(super) const LIBRARY: Library = Library {
    name: "MORI",
    word: "mori",
    variables: &[(DEVICES, devices)],
    uniform: DEVICES,
    ..Library::NONE
};

const DEVICES: &str = "MORI_RDMA_DEVICES";

fn devices(query: &Query) -> Option<Answer> {
    let (topology, node) = (query.topology, query.node);
    if !query.has_gpu_of(GpuVendor::Amd) {
        return None;
    }
    let has_rail = |nic| node.rails.iter().any(|rail| rail.nic == nic);
    let unwanted = left_out(topology, &node.rails).filter(|(nic, _)| !has_rail(*nic));
    let unwanted = names_of(unwanted.map(|(_, nic)| nic.name.as_str()));
    Some(uniform::answer(&query.prepared.list, |_, _| match unwanted.is_empty() {
        true => Answer::no("it knows no ports, and every NIC that it would find has one that may be used"),
        false => {
            Answer::yes(format!("^{unwanted}"), "what no task of the node should use, as `env=mori` asks")
        }
    }))
}

//! oneCCL, on demand (`env=default+oneccl`): `CCL_MNIC=local`, the NICs of the task's own NUMA node.
//!
//! oneCCL itself finds which are local: those whose CPUs contain the process's, or the other way round.  Where it finds
//! none, it fails (src/atl/ofi/atl_ofi_helper.cpp `atl_ofi_open_nw_provs`; src/hwloc/hwloc_wrapper.cpp
//! `is_dev_close_by_pci`).  So we set it only for a task whose CPUs are all on one NUMA node that has a NIC.
#![forbid(unsafe_code)]

use super::{Answer, Asked};
use crate::topology::NicKind;

pub(super) const MNIC: &str = "CCL_MNIC";

/// The word; no answer on nodes without NICs that libfabric reaches.
pub(super) fn mnic<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let (topology, node) = (asked.topology, asked.node);
    let slingshot = topology.numbered_nics().filter(|(_, nic)| nic.kind == NicKind::Slingshot);
    let nics = node.rails.iter().map(|rail| rail.nic).chain(slingshot.map(|(index, _)| index));
    let addresses: Vec<_> = nics.filter_map(|nic| topology.nic(nic).address).collect();
    if addresses.is_empty() {
        return None;
    }
    let cpus = asked.task.cpus.cpus();
    let holds = |address| {
        let on = topology.numa_node_of(address).and_then(|os_index| topology.numa_node(os_index));
        on.is_some_and(|on| !cpus.is_empty() && cpus.is_subset(&on.cpus))
    };
    Some(match addresses.into_iter().any(holds) {
        true => Answer::yes("local", "the NICs of its NUMA node, as `env=oneccl` asks"),
        false => {
            Answer::no("its CPUs are not all on a NUMA node with a NIC, and oneCCL would fail without one")
        }
    })
}

//! oneCCL, on demand (`env=default+oneccl`): `CCL_MNIC=local`, the NICs of the task's own NUMA node.
//!
//! oneCCL itself finds which are local, and fails where it finds none: those whose CPUs contain the process's, or the other way
//! round (src/atl/ofi/atl_ofi_helper.cpp `atl_ofi_open_nw_provs`; src/hwloc/hwloc_wrapper.cpp `is_dev_close_by_pci`).  It looks
//! among the NICs that `CCL_MNIC_NAME` leaves.  A provider that does not say where on the bus its device is, as tcp, has none
//! that is local (`atl_ofi_is_allowed_nic_name`, `atl_ofi_is_nic_local`).
#![forbid(unsafe_code)]

use super::libfabric::PROVIDER;
use super::{Answer, Library, Query, uniform};
use crate::topology::{NicIndex, NicKind};

pub(super) const LIBRARY: Library = Library {
    name: "oneCCL",
    word: "oneccl",
    variables: &[(MNIC, mnic)],
    evidence: &[NAME, PROVIDER],
    ..Library::NONE
};

const MNIC: &str = "CCL_MNIC";
/// The beginnings of the names of NICs to use, or to leave out.
const NAME: &str = "CCL_MNIC_NAME";

/// Providers of libfabric's whose devices are on the PCI bus (`FI_BUS_PCI` in prov/).
const ON_THE_BUS: [&str; 6] = ["cxi", "verbs", "psm3", "psm2", "opx", "efa"];

/// The word; no answer on nodes without NICs that libfabric reaches.
fn mnic(query: &Query) -> Option<Answer> {
    let (topology, node) = (query.topology, query.node);
    let slingshot = || topology.numbered_nics().filter(|(_, nic)| nic.kind == NicKind::Slingshot);
    let is_usable = |nic: &NicIndex| node.left_to_libfabric.contains(nic);
    let usable = slingshot().map(|(index, _)| index).filter(is_usable);
    let nics = node.rails.iter().map(|rail| rail.nic).chain(usable);
    let addresses: Vec<_> = nics.filter_map(|nic| topology.nic(nic).address).collect();
    if addresses.is_empty() {
        return None;
    }
    let verbs = uniform::left_out(topology, &node.rails);
    let left_out = verbs.chain(slingshot().filter(|(index, _)| !is_usable(index)));
    let is_on_the_bus = |providers: &String| {
        let mut names = providers.split([',', ';']).map(str::trim);
        providers.is_empty() || providers.starts_with('^') || names.any(|name| ON_THE_BUS.contains(&name))
    };
    let cpus = query.task.cpus.cpus();
    let holds = |address| {
        let on = topology.numa_node_of(address).and_then(|os_index| topology.numa_node(os_index));
        on.is_some_and(|on| !cpus.is_empty() && cpus.is_subset(&on.cpus))
    };
    let answer = Answer::yes("local", "the NICs of its NUMA node, as `env=oneccl` asks");
    Some(answer.unless(&[
        (
            query.users(NAME).is_some(),
            "the user's `CCL_MNIC_NAME` chooses, and oneCCL would fail if none of these is near",
        ),
        (
            !query.users(PROVIDER).is_none_or(is_on_the_bus),
            "the user's `FI_PROVIDER` does not tell where its NICs are, and oneCCL would fail",
        ),
        (
            left_out.filter_map(|(_, nic)| nic.address).any(holds),
            "oneCCL would also take a NIC of its NUMA node that is left out",
        ),
        (
            !addresses.into_iter().any(holds),
            "its CPUs are not all on a NUMA node with a NIC, and oneCCL would fail without one",
        ),
    ]))
}

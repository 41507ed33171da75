//! `env=default+oneccl`, oneCCL: the NICs of the task's NUMA node, and one of the task's CPUs for
//! the worker thread.
//!
//! With `CCL_MNIC=local` oneCCL uses a NIC of `CCL_MNIC_NAME` (default: any) if the CPUs near the
//! NIC contain the process's CPUs or lie within them; if no NIC fits, oneCCL fails
//! (src/atl/ofi/atl_ofi_helper.cpp `atl_ofi_open_nw_provs`; src/hwloc/hwloc_wrapper.cpp
//! `is_dev_close_by_pci`). A provider that reports no PCI address, such as tcp, has no local NIC
//! (`atl_ofi_is_nic_local`).
//!
//! Without `CCL_WORKER_AFFINITY` workers run on the last CPUs of the machine or `I_MPI_PIN_INFO`,
//! whatever the mask. A process takes the variable's entry at its local rank, else fails: ours
//! repeats the task's CPU (2022.2: src/common/env/env.cpp `env_2_worker_affinity`;
//! src/common/global/global.cpp `set_local_coord`).

use super::libfabric::{PROVIDER, admits_provider};
use super::{Answer, Library, Query, uniform};
use crate::topology::{NicKind, PciAddress};

pub const LIBRARY: Library = Library {
    name: "oneCCL",
    word: "oneccl",
    variables: &[("CCL_MNIC", mnic), ("CCL_WORKER_AFFINITY", workers)],
    evidence: &[
        NAME,
        PROVIDER,
        "CCL_WORKER_OFFLOAD",
        RANKS,
        "CCL_PROCESS_LAUNCHER",
        COUNT,
    ],
    ..Library::NONE
};

/// Prefixes of NIC names to use or to leave out.
const NAME: &str = "CCL_MNIC_NAME";
/// Hydra's count of the node's processes, which oneCCL reads unless `CCL_PROCESS_LAUNCHER` is set.
const RANKS: &str = "MPI_LOCALNRANKS";
/// Workers per process, 1 by default.
const COUNT: &str = "CCL_WORKER_COUNT";

/// Providers that report a PCI address (`FI_BUS_PCI` in libfabric's prov/).
const ON_THE_BUS: [&str; 6] = ["cxi", "verbs", "psm3", "psm2", "opx", "efa"];

/// `None` if no rail or usable Slingshot NIC has a PCI address.
fn mnic(query: &Query) -> Option<Answer> {
    let (node, map) = (query.node, query.map);
    let nics = node.numbered_nics();
    let slingshot = nics.filter(|(_, nic)| nic.kind == NicKind::Slingshot);
    let (usable, unusable): (Vec<_>, Vec<_>) =
        slingshot.partition(|(nic, _)| map.left_to_libfabric.contains(nic));
    let rails = map.rails.iter().map(|rail| node.nic(rail.nic));
    let nics = rails.chain(usable.into_iter().map(|(_, nic)| nic));
    let addresses: Vec<_> = nics.filter_map(|nic| nic.address).collect();
    if addresses.is_empty() {
        return None;
    }
    let left_out = uniform::left_out(node, &map.rails).chain(unusable);
    let is_on_the_bus = |filter| ON_THE_BUS.iter().any(|name| admits_provider(filter, name));
    let cpus = &query.task.cpus;
    let is_local = |address: PciAddress| {
        let numa_node = node.numa_node_of(address);
        let numa_node = numa_node.and_then(|os_index| node.numa_node(os_index));
        numa_node.is_some_and(|of| !cpus.is_empty() && cpus.is_subset(&of.cpus))
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
            left_out.filter_map(|(_, nic)| nic.address).any(is_local),
            "oneCCL would also take a NIC of its NUMA node that is left out",
        ),
        (
            !addresses.into_iter().any(is_local),
            "its CPUs are not all on a NUMA node with a NIC, and oneCCL would fail without one",
        ),
    ]))
}

fn workers(query: &Query) -> Option<Answer> {
    let has = |name| query.value(name).is_some();
    if has("CCL_WORKER_OFFLOAD") {
        return None;
    }
    let ranks = query
        .value(RANKS)
        .filter(|_| !has("CCL_PROCESS_LAUNCHER") && !has(COUNT));
    let entries = ranks.and_then(|ranks| ranks.parse::<u8>().ok());
    let cpus: Vec<u32> = query.task.cpus.iter().collect();
    // tasks with the same mask take different CPUs
    let place = query.task.local_id as usize % cpus.len().max(1);
    let spare = cpus.iter().rev().nth(place).filter(|_| cpus.len() > 1);
    Some(match (entries, spare) {
        (Some(entries @ 1..), Some(cpu)) => Answer::yes(
            uniform::joined(vec![cpu; entries.into()]),
            "its worker would leave the task's CPUs for the machine's last",
        ),
        _ => Answer::no(
            "its entries cannot be counted, or the task has one CPU: no worker leaves it with `CCL_WORKER_OFFLOAD=0`",
        ),
    })
}

//! oneCCL, on demand (`env=default+oneccl`): the NICs of the task's own NUMA node, and a CPU of the task's own for its worker
//! thread.
//!
//! `CCL_MNIC=local`: NICs whose CPUs contain the process's, or the other way round, of those that `CCL_MNIC_NAME` leaves; oneCCL
//! fails where there is none (src/atl/ofi/atl_ofi_helper.cpp `atl_ofi_open_nw_provs`; src/hwloc/hwloc_wrapper.cpp
//! `is_dev_close_by_pci`). A provider that does not say where on the bus its device is, as tcp, has none that is local
//! (`atl_ofi_is_nic_local`).
//!
//! `CCL_WORKER_AFFINITY`: without it workers run on the machine's last CPUs, whatever the masks.  A process takes the entry of
//! its number on the node, and fails where there are fewer entries than processes, so ours repeats one CPU (2022.2:
//! src/common/env/env.cpp `env_2_worker_affinity`; src/common/global/global.cpp `set_local_coord`).
#![forbid(unsafe_code)]

use super::libfabric::{PROVIDER, admits_provider};
use super::{Answer, Library, Query, uniform};
use crate::topology::{NicIndex, NicKind};

pub(super) const LIBRARY: Library = Library {
    name: "oneCCL",
    word: "oneccl",
    variables: &[(MNIC, mnic), (WORKERS, workers)],
    evidence: &[NAME, PROVIDER, OFFLOAD, RANKS, LAUNCHER, COUNT],
    ..Library::NONE
};

const MNIC: &str = "CCL_MNIC";
/// The beginnings of the names of NICs to use, or to leave out.
const NAME: &str = "CCL_MNIC_NAME";
const WORKERS: &str = "CCL_WORKER_AFFINITY";
const OFFLOAD: &str = "CCL_WORKER_OFFLOAD";
/// Processes of the node, by Hydra, unless a launcher is named.
const RANKS: &str = "MPI_LOCALNRANKS";
const LAUNCHER: &str = "CCL_PROCESS_LAUNCHER";
/// Workers of a process, by default one.
const COUNT: &str = "CCL_WORKER_COUNT";

/// Providers of libfabric's whose devices are on the PCI bus (`FI_BUS_PCI` in prov/).
const ON_THE_BUS: [&str; 6] = ["cxi", "verbs", "psm3", "psm2", "opx", "efa"];

/// No answer on nodes without NICs that libfabric reaches.
fn mnic(query: &Query) -> Option<Answer> {
    let (topology, node) = (query.topology, query.node);
    let slingshot = || {
        topology
            .numbered_nics()
            .filter(|(_, nic)| nic.kind == NicKind::Slingshot)
    };
    let is_usable = |nic: &NicIndex| node.left_to_libfabric.contains(nic);
    let usable = slingshot().map(|(index, _)| index).filter(is_usable);
    let nics = node.rails.iter().map(|rail| rail.nic).chain(usable);
    let addresses: Vec<_> = nics.filter_map(|nic| topology.nic(nic).address).collect();
    if addresses.is_empty() {
        return None;
    }
    let verbs = uniform::left_out(topology, &node.rails);
    let left_out = verbs.chain(slingshot().filter(|(index, _)| !is_usable(index)));
    let is_on_the_bus =
        |filter: &String| ON_THE_BUS.iter().any(|name| admits_provider(filter, name));
    let cpus = query.task.cpus.cpus();
    let holds = |address| {
        let on = topology
            .numa_node_of(address)
            .and_then(|os_index| topology.numa_node(os_index));
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

/// No answer if the user says whether there are workers.
fn workers(query: &Query) -> Option<Answer> {
    let present = query.evidence.present;
    if present.contains_key(OFFLOAD) {
        return None;
    }
    let is_counted = ![LAUNCHER, COUNT]
        .iter()
        .any(|name| present.contains_key(*name));
    let entries = present
        .get(RANKS)
        .filter(|_| is_counted)
        .and_then(|ranks| ranks.parse::<u8>().ok());
    let cpus: Vec<u32> = query.task.cpus.cpus().iter().collect();
    // tasks may share their CPUs
    let place = query.task.local_id as usize % cpus.len().max(1);
    let spare = cpus.iter().rev().nth(place).filter(|_| cpus.len() > 1);
    Some(match (entries, spare) {
        (Some(entries @ 1..), Some(cpu)) => {
            let list = vec![cpu.to_string(); entries.into()].join(",");
            Answer::yes(
                list,
                "its worker would leave the task's CPUs for the machine's last",
            )
        }
        _ => Answer::no(
            "its entries cannot be counted, or the task has one CPU: no worker leaves it with `CCL_WORKER_OFFLOAD=0`",
        ),
    })
}

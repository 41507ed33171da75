//! oneCCL, on demand (`env=default+oneccl`): `CCL_MNIC=local`, the NICs of the task's own NUMA node, and
//! `CCL_WORKER_AFFINITY`, a CPU of the task's own for its worker thread.
//!
//! oneCCL itself finds which NICs are local, and fails where it finds none: those whose CPUs contain the process's, or the other way
//! round (src/atl/ofi/atl_ofi_helper.cpp `atl_ofi_open_nw_provs`; src/hwloc/hwloc_wrapper.cpp `is_dev_close_by_pci`).  It looks
//! among the NICs that `CCL_MNIC_NAME` leaves.  A provider that does not say where on the bus its device is, as tcp, has none
//! that is local (`atl_ofi_is_allowed_nic_name`, `atl_ofi_is_nic_local`).
//!
//! Without a list it pins the workers of a node to the machine's last CPUs, whatever the masks.  A process takes the entry of its
//! own number, and fails unless there is one for each process of the node, so ours repeats one CPU.  It counts the processes by
//! the launcher's variables (2022.2: src/common/env/env.cpp `env_2_worker_affinity`; src/common/global/global.cpp
//! `set_local_coord`).
#![forbid(unsafe_code)]

use super::libfabric::{self, PROVIDER};
use super::{Answer, Library, Query, uniform};
use crate::topology::{NicIndex, NicKind};

pub(super) const LIBRARY: Library = Library {
    name: "oneCCL",
    word: "oneccl",
    variables: &[(MNIC, mnic), (WORKERS, workers)],
    evidence: &[NAME, PROVIDER, LAUNCHER, RANKS, COUNT, OFFLOAD],
    ..Library::NONE
};

const MNIC: &str = "CCL_MNIC";
/// The beginnings of the names of NICs to use, or to leave out.
const NAME: &str = "CCL_MNIC_NAME";

const WORKERS: &str = "CCL_WORKER_AFFINITY";
/// By which launcher's variables processes are counted, Hydra's without it.
const LAUNCHER: &str = "CCL_PROCESS_LAUNCHER";
/// Hydra's word for the processes of the node.
const RANKS: &str = "MPI_LOCALNRANKS";
/// Workers of a process, one without it.
const COUNT: &str = "CCL_WORKER_COUNT";
/// Without workers, the program's own thread does their work.
const OFFLOAD: &str = "CCL_WORKER_OFFLOAD";
/// Processes of a node for which a list is made, at most.
const MAX_RANKS: usize = 512;

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
    let is_on_the_bus =
        |filter: &String| ON_THE_BUS.iter().any(|provider| libfabric::admits_provider(filter, provider));
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

/// A CPU of the task for its worker, in every entry; no answer where there is no worker.
fn workers(query: &Query) -> Option<Answer> {
    let present = query.evidence.present;
    let is = |name: &str, usual: &str| present.get(name).is_none_or(|value| value == usual);
    if present.get(OFFLOAD).is_some_and(|value| value.starts_with(['0', 'n', 'N', 'f', 'F'])) {
        return None;
    }
    let ranks = present.get(RANKS).and_then(|ranks| ranks.parse().ok());
    let ranks =
        ranks.filter(|ranks| (1..=MAX_RANKS).contains(ranks) && is(LAUNCHER, "hydra") && is(COUNT, "1"));
    let cpus = query.task.cpus.cpus();
    let cpu = cpus.iter().last().filter(|_| cpus.iter().nth(1).is_some());
    Some(match (ranks, cpu) {
        (Some(ranks), Some(cpu)) => {
            let why = "its worker thread would leave the task's CPUs for the machine's last ones";
            Answer::yes(vec![cpu.to_string(); ranks].join(","), why)
        }
        (_, cpu) => Answer::no(match cpu {
            Some(_) => {
                "no `MPI_LOCALNRANKS` says how many entries oneCCL wants, whose worker leaves the task's CPUs: \
                        `CCL_WORKER_OFFLOAD=0` ends it"
            }
            None => {
                "the task has no CPU to spare for oneCCL's worker, which leaves its CPUs: `CCL_WORKER_OFFLOAD=0` ends it"
            }
        }),
    })
}

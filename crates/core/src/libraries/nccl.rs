//! NCCL and RCCL: `NCCL_IB_HCA`, one exact list for every task of the node, set only to exclude something.
//!
//! NCCL numbers devices by their place in each rank's own list and merges the ranks of a node by that number, so lists that
//! differ send all traffic through one NIC (src/graph/topo.cc `ncclTopoGetSystem`; NVIDIA/nccl issue 1478).  Of the network
//! plug-ins aws-ofi-nccl (EFA, Slingshot) does not read the list; amd-anp, nccl-rdma-sharp-plugins and UCCL's read it as NCCL
//! does.  torchcomms' CTRAN reads `name[:port]` alone, and gives the k-th entry to GPU k (comms/ctran/ibverbx/IbvDevice.cc,
//! backends/ib/CtranIb.cc).
//!
//! On isolated rails `NCCL_CROSS_NIC=0` keeps each connection on one rail ("Environment Variables";
//! src/graph/search.cc `ncclTopoCompute`).  From 2.30.7 on NCCL compares the rails that the list states (`mlx5_0:1:RAIL`), else
//! the card's GUID and the port: these differ between the hosts of one NVLink domain, and can be the same for two NICs of one
//! card (`ncclTopoSearchCheckNet`).  Releases from 2.5.6 to 2.30.4, and RCCL since ROCm 3.3, pass over what follows a port's
//! number, and read an empty port (`mlx5_0::RAIL`) as port 0 (src/misc/utils.cc `parseStringList`, run from each).
//!
//! Before 2.5.6 NCCL does not know `=`, and before 2.18.5 it looks at 16 devices at most.  RCCL recognises machines by their NICs
//! (src/graph/rome_models.cc), and a list can hide the machine's model from it.
#![forbid(unsafe_code)]

use super::files::{Files, Line, non_empty};
use super::uniform;
use super::wanted::Fabric;
use super::{Answer, Library, Present, Query, ReadFile, has_gpu_of};
use crate::order;
use crate::placement::{NodePlacement, Rail};
use crate::topology::{GpuVendor, PciAddress, PortRef, Topology};
use std::borrow::Cow;

pub(super) const LIBRARY: Library = Library {
    name: "NCCL",
    word: "nccl",
    by_default: true,
    variables: &[(IB_HCA, ib_hca), (CROSS_NIC, cross_nic)],
    evidence: &[
        CONF_FILE,
        HOME,
        FORCE_MERGE,
        TOPO_FILE,
        CTRAN[0],
        CTRAN[1],
        CTRAN[2],
    ],
    files: Some(&FILES),
    doubtful: "NCCL_IB_TC NCCL_IB_SL NCCL_IB_FIFO_TC NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT NCCL_IB_QPS_PER_CONNECTION \
               NCCL_IB_GID_INDEX NCCL_IB_DISABLE NCCL_IB_MERGE_VFS NCCL_NSOCKS_PERTHREAD NCCL_SOCKET_NTHREADS \
               NCCL_SOCKET_IFNAME NCCL_ALGO NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_NCHANNELS_* NCCL_NVLS_* \
               NCCL_P2P_* NCCL_PXN_* NCCL_SHM_* NCCL_NET NCCL_NET_PLUGIN NCCL_NET_GDR_* NCCL_NETDEVS_POLICY NCCL_CROSS_NIC \
               NCCL_DMABUF_ENABLE NCCL_IGNORE_* NCCL_HOSTID NCCL_DEBUG* OFI_NCCL_*",
    uniform: "NCCL_* RCCL_* OFI_NCCL_*",
    ..Library::NONE
};

const IB_HCA: &str = "NCCL_IB_HCA";
/// The user's own file (src/misc/param.cc `initEnv`).
const CONF_FILE: &str = "NCCL_CONF_FILE";
/// Allows a connection to enter and leave a node by different NICs.
pub(super) const CROSS_NIC: &str = "NCCL_CROSS_NIC";
/// Groups of NICs that are to be one: `a,b;c,d`, with or without ports.
const FORCE_MERGE: &str = "NCCL_NET_FORCE_MERGE";
/// A file that NCCL believes instead of the bus.
const TOPO_FILE: &str = "NCCL_TOPO_FILE";
pub(super) const HOME: &str = "HOME";
/// The variables that switch CTRAN on (comms/utils/cvars/nccl_cvars.yaml).
const CTRAN: [&str; 3] = [
    "NCCL_CTRAN_ENABLE",
    "NCCL_CTRAN_BACKENDS",
    "NCCL_CTRAN_IB_DEVICES_PER_RANK",
];

/// Entries of the list that NCCL reads (`MAX_IB_DEVS`, src/transport/net_ib/common.h); it ignores the rest.
const MAX_ENTRIES: usize = 32;

/// Bytes of a line in one piece, and a NUL (`envValue` of src/misc/param.cc).
const MAX_LINE: usize = 1024;

/// `NAME=VALUE`, both as they stand, without a comment behind; a line that begins with `#` is one (src/misc/param.cc
/// `setEnvFile`).  The user's files come before the site's, and overwrite nothing that is set (`initEnvFunc`, `ncclOsSetEnv`).
pub(super) const FILES: Files = Files {
    of_site: |topology| {
        let files = &["/etc/nccl.conf", "/etc/rccl.conf"];
        if has_gpu_of(topology, GpuVendor::Amd) {
            files
        } else {
            &files[..1]
        }
    },
    of_user: users_files,
    lines,
    last_counts: false,
    beat_environment: false,
    variables: &[IB_HCA, CROSS_NIC, FORCE_MERGE, TOPO_FILE],
    rivals: &[],
    matter: |_, wish, has_list| {
        has_list || wish.admin.fabric == Fabric::IsolatedRails || wish.judges_files()
    },
};

/// RCCL of before NCCL 2.23 does not know `NCCL_CONF_FILE`.  Up to 2.29 NCCL asks the system for the home directory, then `HOME`,
/// into which Slurm puts the same.
fn users_files(topology: &Topology, present: &Present) -> Vec<String> {
    let at_home = |file: &str| non_empty(present, HOME).map(|home| format!("{home}/{file}"));
    let nccls = non_empty(present, CONF_FILE)
        .cloned()
        .or_else(|| at_home(".nccl.conf"));
    let rccls = at_home(".rccl.conf").filter(|_| has_gpu_of(topology, GpuVendor::Amd));
    nccls.into_iter().chain(rccls).collect()
}

fn lines<'t>(text: &'t str, _: ReadFile) -> Vec<Line<'t>> {
    // a comment gives its value to a name that begins with `#`, which no variable has
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        Some(Line::new(name, value, line.len() < MAX_LINE, Some(true)))
    });
    lines.collect()
}

/// The node's list; none if a file sets the variable, or NCCL would miss a NIC.
fn ib_hca(query: &Query) -> Option<Answer> {
    let answer = query.unless_in_files(&FILES, IB_HCA, without_files(query));
    let missed = answer
        .value
        .as_ref()
        .and_then(|_| merged_though_left_out(query));
    let why = |name| format!("`{FORCE_MERGE}` names {name}, without which NCCL would fail");
    Some(missed.map_or(answer, |name| Answer::no(why(name))))
}

fn without_files(query: &Query) -> Answer {
    if query.topology.gpus.is_empty() {
        return Answer::no("the node has no GPU");
    }
    let degraded = degraded(query);
    let rails = without(query.node, &degraded);
    let own = (!degraded.is_empty()).then(|| uniform::list(query.topology, &rails));
    let mut more = String::new();
    if let [first, rest @ ..] = degraded.as_slice() {
        let others = if rest.is_empty() {
            String::new()
        } else {
            format!(" and {} more", rest.len())
        };
        more = format!(
            ": {first}{others} came up at less, and the slowest port sets the pace of NCCL's rings"
        );
    }
    if query.has_gpu_of(GpuVendor::Amd) {
        more += "; with fewer NICs RCCL may not recognise the machine";
    }
    let stated = with_rails(query, &rails);
    if stated.is_some() {
        more += ", and with the numbers of the isolated rails";
    }
    match (own.as_ref().unwrap_or(&query.prepared.list), rails.len()) {
        (Err(why), _) => Answer::no(*why),
        (Ok((list, why)), ..=MAX_ENTRIES) => Answer::yes(
            format!("={}", stated.as_deref().unwrap_or(list)),
            format!("{why}{more}"),
        ),
        (_, ports) => Answer::no(format!(
            "{ports} ports may be used, and NCCL reads a list of {MAX_ENTRIES} at most"
        )),
    }
}

/// The entries for a fabric of isolated rails: each port with its place among all of the node, which hosts of one kind share whatever is
/// left out.  Not beside CTRAN, which would find no device.
///
/// No list is set for the numbers alone: PyTorch copies it into an unset `NVSHMEM_HCA_LIST`, and NVSHMEM would miss the first NIC.
fn with_rails(query: &Query, rails: &[Rail]) -> Option<String> {
    if !is_isolated(query)
        || CTRAN
            .iter()
            .any(|name| query.evidence.present.contains_key(*name))
    {
        return None;
    }
    let nics = || query.topology.numbered_nics();
    let ports = || {
        nics().flat_map(|(nic, of)| {
            of.ports.iter().map(move |port| PortRef {
                nic,
                port: port.number,
            })
        })
    };
    let entry = |rail: &Rail| {
        Some(format!(
            "{rail}:{}",
            ports().position(|port| port == rail.at())?
        ))
    };
    let entries: Option<Vec<String>> = rails.iter().map(entry).collect();
    Some(entries?.join(","))
}

fn is_isolated(query: &Query) -> bool {
    query.prepared.wish.admin.fabric == Fabric::IsolatedRails
}

/// The rails on cards with a degraded one, if the others carry three quarters of what all do together.
///
/// A channel has the least bandwidth that it has on any node (src/init.cc `initTransportsRank`).  On 16 machines, with
/// ports at half rate on one node of two, NCCL 2.30.7's search gives up to 75 % more without these while the others
/// carry that much, and less where neither bus nor file shows the switches.
fn degraded(query: &Query) -> Vec<Rail> {
    let &Query { topology, node, .. } = query;
    if node.degraded.is_empty() {
        return Vec::new();
    }
    let card = |rail: &Rail| topology.nic(rail.nic).address.map(PciAddress::card);
    let is_on_its_card = |rail: &&Rail| node.degraded.iter().any(|slow| card(slow) == card(rail));
    let slow: Vec<Rail> = node.rails.iter().filter(is_on_its_card).cloned().collect();
    let mbps = |rails: &[Rail]| rails.iter().filter_map(|rail| rail.rate_mbps).sum::<u64>();
    let is_worth_it = 4 * mbps(&slow) <= mbps(&node.rails);
    if slow.is_empty() || !is_worth_it || !sees_switches(query) {
        Vec::new()
    } else {
        slow
    }
}

fn without<'n>(node: &'n NodePlacement, degraded: &[Rail]) -> Cow<'n, [Rail]> {
    let rest = || {
        node.rails
            .iter()
            .filter(|rail| !degraded.contains(rail))
            .cloned()
            .collect()
    };
    if degraded.is_empty() {
        Cow::Borrowed(&node.rails)
    } else {
        rest()
    }
}

/// Does NCCL see the switches between GPUs and NICs, on the bus or in a file?
fn sees_switches(query: &Query) -> bool {
    query.topology.stated_paths.is_empty()
        || query.prepared.is_wanted(TOPO_FILE)
        || non_empty(query.evidence.present, TOPO_FILE).is_some()
        || query.claimed(&FILES, TOPO_FILE).is_some()
}

/// The first NIC of [`FORCE_MERGE`] that the list leaves out: NCCL would fail (since 2.24: src/graph/topo.cc
/// `ncclTopoForceMerge`).
fn merged_though_left_out(query: &Query) -> Option<String> {
    let &Query {
        topology,
        node,
        evidence,
        ..
    } = query;
    let in_files = || {
        query
            .claimed(&FILES, FORCE_MERGE)
            .and_then(|claimed| claimed.value)
    };
    let groups = evidence
        .present
        .get(FORCE_MERGE)
        .cloned()
        .or_else(in_files)?;
    let rails = without(node, &degraded(query));
    let names = groups
        .split([';', ','])
        .filter_map(|entry| entry.split(':').next());
    // NCCL's name for the other way to a NIC (src/transport/net_ib/init.cc)
    let mut names = names.map(|name| name.strip_suffix("_dma").unwrap_or(name));
    let is_left_out = |name: &&str| {
        uniform::left_out(topology, &rails).any(|(_, nic)| nic.name == *name)
            && rails.iter().all(|rail| rail.name != *name)
    };
    names.find(is_left_out).map(str::to_string)
}

/// The same for every task; no answer unless rails are isolated.
fn cross_nic(query: &Query) -> Option<Answer> {
    let has_both = !query.topology.gpus.is_empty() && !query.node.rails.is_empty();
    let answer = Answer::yes(
        "0",
        "the fabric's rails are isolated, so no connection may change them",
    );
    (is_isolated(query) && has_both).then(|| query.unless_in_files(&FILES, CROSS_NIC, answer))
}

/// NCCL's and RCCL's files on this node, the site's first.
pub fn files(topology: &Topology, present: &Present) -> Vec<String> {
    let sites = (FILES.of_site)(topology).iter().map(ToString::to_string);
    sites.chain(users_files(topology, present)).collect()
}

/// Our variables that the text of such a file sets, by name.
pub fn set_in(text: &str) -> Vec<&'static str> {
    let lines = lines(text, &|_| None);
    let is_set = |ours: &&str| lines.iter().any(|line| line.name == *ours);
    order::set(super::variables().filter(is_set))
        .into_iter()
        .collect()
}

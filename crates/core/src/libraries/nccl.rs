//! NCCL and RCCL: `NCCL_IB_HCA`, one list of exact names for a node's tasks, set only to leave NICs
//! out.
//!
//! NCCL takes entry k of every rank's list for the same device, so different lists put all traffic
//! on one NIC (src/graph/topo.cc `ncclTopoGetSystem`; NVIDIA/nccl issue 1478). Network
//! plug-ins: aws-ofi-nccl (EFA, Slingshot) ignores the list; amd-anp, nccl-rdma-sharp-plugins and
//! UCCL's read it like NCCL. torchcomms' CTRAN reads only `name[:port]`, and gives entry k to GPU k
//! (comms/ctran/ibverbx/IbvDevice.cc, backends/ib/CtranIb.cc).
//!
//! On isolated rails `NCCL_CROSS_NIC=0` keeps each connection on one rail ("Environment Variables";
//! src/graph/search.cc `ncclTopoCompute`). To tell rails apart, NCCL since 2.30.7 compares rail
//! numbers if the list has them (`mlx5_0:1:RAIL`), else pairs of card GUID and port
//! (`ncclTopoSearchCheckNet`). These pairs differ between hosts of one NVLink domain, and two NICs
//! of a card may share a pair. NCCL 2.5.6 to 2.30.4, and RCCL since ROCm 3.3, ignore text behind
//! the port, and read an empty port (`mlx5_0::RAIL`) as 0 (src/misc/utils.cc `parseStringList`,
//! run for each release).
//!
//! NCCL before 2.5.6 knows no `=` before a list; NCCL before 2.18.5 reads 16 devices at most.
//! RCCL recognises machines by their NICs (src/graph/rome_models.cc); with fewer NICs it may not.

use super::files::{Files, UNKNOWN_HOME, non_empty, pairs};
use super::wanted::Fabric;
use super::{Answer, Evidence, Library, Query, has_gpu_of, uniform};
use crate::placement::Rail;
use crate::topology::{GpuVendor, PciAddress, Topology};
use std::borrow::Cow;

pub(super) const LIBRARY: Library = Library {
    name: "NCCL",
    word: "nccl",
    by_default: true,
    variables: &[(IB_HCA, ib_hca), (CROSS_NIC, cross_nic)],
    evidence: &[
        CONF_FILE,
        HOME,
        USER_ID,
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
/// The path of the user's configuration file (src/misc/param.cc `initEnv`).
const CONF_FILE: &str = "NCCL_CONF_FILE";
/// `0`: a ring or tree enters and leaves a node by one NIC.
pub(super) const CROSS_NIC: &str = "NCCL_CROSS_NIC";
/// NICs to merge: `a,b;c,d`, with or without ports.
const FORCE_MERGE: &str = "NCCL_NET_FORCE_MERGE";
/// NCCL prefers this file's PCIe topology to the kernel's.
const TOPO_FILE: &str = "NCCL_TOPO_FILE";
pub(super) const HOME: &str = "HOME";
const USER_ID: &str = "SLURM_JOB_UID";
/// CTRAN's variables (comms/utils/cvars/nccl_cvars.yaml).
const CTRAN: [&str; 3] = [
    "NCCL_CTRAN_ENABLE",
    "NCCL_CTRAN_BACKENDS",
    "NCCL_CTRAN_IB_DEVICES_PER_RANK",
];

/// NCCL ignores further entries (`MAX_IB_DEVS`, src/transport/net_ib/common.h).
const MAX_ENTRIES: usize = 32;

/// Bytes of NCCL's buffer for a line and its NUL (`envValue` of src/misc/param.cc).
const MAX_LINE: usize = 1024;

/// Lines `NAME=VALUE`, untrimmed; `#` begins a comment line (src/misc/param.cc `setEnvFile`). NCCL
/// reads the user's files first; a variable once set stays (`initEnvFunc`, `ncclOsSetEnv`).
pub const FILES: Files = Files {
    of_site: |node| {
        let files = &["/etc/nccl.conf", "/etc/rccl.conf"];
        if has_gpu_of(node, GpuVendor::Amd) {
            files
        } else {
            &files[..1]
        }
    },
    of_user: users_files,
    // a comment line gives a name with `#`, which matches no variable
    lines: |text, _| pairs(text, MAX_LINE, |line| line.split_once('=')),
    last_counts: false,
    beat_environment: false,
    variables: &[IB_HCA, CROSS_NIC, FORCE_MERGE, TOPO_FILE],
    rivals: &[],
    matter: |_, wish, has_list| {
        has_list || wish.admin.fabric == Fabric::IsolatedRails || wish.judges_files()
    },
};

/// NCCL's file. With AMD GPUs also `.rccl.conf`: RCCL based on NCCL before 2.23 ignores
/// `NCCL_CONF_FILE`.
fn users_files(node: &Topology, task: &Evidence) -> Vec<String> {
    let at_home = |file: &str| Some(format!("{}/{file}", home(task)?));
    let nccls = non_empty(task.present, CONF_FILE)
        .cloned()
        .or_else(|| at_home(".nccl.conf"));
    let rccls = has_gpu_of(node, GpuVendor::Amd).then(|| at_home(".rccl.conf"));
    nccls.into_iter().chain(rccls.flatten()).collect()
}

/// `HOME`, else the home in /etc/passwd: NCCL up to 2.29 calls getpwuid(3), and
/// `srun --export=NONE` gives a task no `HOME`. [`UNKNOWN_HOME`] if /etc/passwd lacks the user.
fn home(task: &Evidence) -> Option<String> {
    if let Some(home) = non_empty(task.present, HOME) {
        return Some(home.clone());
    }
    let id = non_empty(task.present, USER_ID)?;
    let passwd = (task.read)("/etc/passwd")?;
    let home = |line: &str| {
        let mut fields = line.split(':').skip(2);
        (fields.next() == Some(id)).then(|| fields.nth(2).unwrap_or_default().to_string())
    };
    let home = passwd.text.lines().find_map(home);
    Some(home.unwrap_or_else(|| UNKNOWN_HOME.to_string()))
}

fn ib_hca(query: &Query) -> Option<Answer> {
    let degraded = degraded(query);
    let mut rails = Cow::Borrowed(query.map.rails.as_slice());
    if !degraded.is_empty() {
        rails.to_mut().retain(|rail| !degraded.contains(rail));
    }
    let answer = without_files(query, &degraded, &rails);
    let answer = query.unless_in_files(&FILES, IB_HCA, answer);
    let missed = match answer.value {
        Some(_) => merged_though_left_out(query, &rails),
        None => None,
    };
    let why = |name| format!("`{FORCE_MERGE}` names {name}, without which NCCL would fail");
    Some(missed.map_or(answer, |name| Answer::no(why(name))))
}

fn without_files(query: &Query, degraded: &[Rail], rails: &[Rail]) -> Answer {
    if query.node.gpus.is_empty() {
        return Answer::no("the node has no GPU");
    }
    let mut list = Cow::Borrowed(&query.prepared.list);
    let mut more = String::new();
    if let [first, rest @ ..] = degraded {
        list = Cow::Owned(uniform::list(query.node, rails));
        more = format!(": {first}");
        if !rest.is_empty() {
            more += &format!(" and {} more", rest.len());
        }
        more += " came up at less, and the slowest port sets the pace of NCCL's rings";
    }
    if query.has_gpu_of(GpuVendor::Amd) {
        more += "; with fewer NICs RCCL may not recognise the machine";
    }
    let stated = with_rails(query, rails);
    if stated.is_some() {
        more += ", and with the numbers of the isolated rails";
    }
    match (&*list, rails.len()) {
        (Err(why), _) => Answer::no(*why),
        (Ok((list, why)), ..=MAX_ENTRIES) => Answer::yes(
            format!("={}", stated.as_ref().unwrap_or(list)),
            format!("{why}{more}"),
        ),
        (_, ports) => Answer::no(format!(
            "{ports} ports may be used, and NCCL reads a list of {MAX_ENTRIES} at most"
        )),
    }
}

/// The list with rail numbers (`mlx5_0:1:0`), on isolated rails. A number is the port's position
/// among all ports of the node, so equal hosts have equal numbers. `None` with CTRAN, which finds
/// no device by a numbered entry.
///
/// Rail numbers alone are no reason to set a list: PyTorch copies the list to an unset
/// `NVSHMEM_HCA_LIST`, and NVSHMEM would miss the first NIC, after the `=`.
fn with_rails(query: &Query, rails: &[Rail]) -> Option<String> {
    if !query.is_isolated() || CTRAN.iter().any(|name| query.value(name).is_some()) {
        return None;
    }
    let entry = |rail: &Rail| {
        let mut ports = query
            .node
            .numbered_nics()
            .flat_map(|(nic, of)| of.ports.iter().map(move |of| (nic, of.number)));
        let number = ports.position(|port| port == (rail.nic, rail.port))?;
        Some(format!("{rail}:{number}"))
    };
    let entries: Option<Vec<String>> = rails.iter().map(entry).collect();
    Some(entries?.join(","))
}

/// The rails on cards with a degraded rail; empty if these rails have over a quarter of the
/// bandwidth of all rails, or if NCCL sees no PCIe switches.
///
/// An NCCL channel has the bandwidth of its slowest node (src/init.cc `initTransportsRank`). If one
/// of two nodes has half-rate ports, NCCL 2.30.7's graph search finds up to 75 % more bandwidth
/// without these ports (16 machine models), but less if NCCL sees no PCIe switches.
fn degraded(query: &Query) -> Vec<Rail> {
    let &Query { node, map, .. } = query;
    if map.degraded.is_empty() {
        return Vec::new();
    }
    let card = |rail: &Rail| node.nic(rail.nic).address.map(PciAddress::card);
    let is_on_its_card = |rail: &&Rail| map.degraded.iter().any(|slow| card(slow) == card(rail));
    let slow: Vec<Rail> = map.rails.iter().filter(is_on_its_card).cloned().collect();
    let mbps = |rails: &[Rail]| rails.iter().filter_map(|rail| rail.rate_mbps).sum::<u64>();
    if 4 * mbps(&slow) <= mbps(&map.rails) && sees_switches(query) {
        slow
    } else {
        Vec::new()
    }
}

/// True if NCCL sees PCIe switches, on the bus or in a topology file.
fn sees_switches(query: &Query) -> bool {
    query.node.stated_paths.is_empty()
        || query.prepared.is_wanted(TOPO_FILE)
        || non_empty(query.evidence.present, TOPO_FILE).is_some()
        || query.claimed(&FILES, TOPO_FILE).is_some()
}

/// The first left-out NIC that [`FORCE_MERGE`] names: without this NIC in the list NCCL fails
/// (since 2.24: src/graph/topo.cc `ncclTopoForceMerge`).
fn merged_though_left_out(query: &Query, rails: &[Rail]) -> Option<String> {
    let groups = match query.value(FORCE_MERGE) {
        Some(groups) => groups.to_string(),
        None => query.claimed(&FILES, FORCE_MERGE)?.value?,
    };
    let names = groups
        .split([';', ','])
        .filter_map(|entry| entry.split(':').next());
    // NCCL's suffix for a NIC's second PCIe path (src/transport/net_ib/init.cc)
    let mut names = names.map(|name| name.strip_suffix("_dma").unwrap_or(name));
    let is_left_out = |name: &&str| {
        uniform::left_out(query.node, rails).any(|(_, nic)| nic.name == *name)
            && rails.iter().all(|rail| rail.name != *name)
    };
    names.find(is_left_out).map(str::to_string)
}

fn cross_nic(query: &Query) -> Option<Answer> {
    if !query.is_isolated() || query.node.gpus.is_empty() || query.map.rails.is_empty() {
        return None;
    }
    let why = "the fabric's rails are isolated, so no connection may change them";
    Some(query.unless_in_files(&FILES, CROSS_NIC, Answer::yes("0", why)))
}

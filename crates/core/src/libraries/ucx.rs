//! UCX: `UCX_NET_DEVICES`, the network devices that a process may use.
//!
//! Items are exact and always `name:port`; UCX reads a bare name only from 1.21 on.  An unknown item causes a warning; a list
//! without a known item fails at the first remote peer, or at the start where `UCX_TLS` leaves nothing else.  Peers may use
//! different devices if the fabric connects them (src/ucs/config/parser.c, src/ucp/core/ucp_context.c
//! `ucp_is_resource_in_device_list`).
//!
//! The list rules IP interfaces too.  With NICs alone in it, a program that connects by IP address fails: "device eth0 is not
//! enabled, enable it in UCX_NET_DEVICES" (src/ucp/wireup/wireup_cm.c `ucp_cm_client_resolve_cb`), and for an address of the node
//! itself the device is `lo`.  Where the NIC is missing, as in a container, or UCX was built without verbs, nothing is left at
//! all. So all interfaces go into ours, those of storage NICs too: beside RDMA they carry no data.  Small messages have one lane,
//! and the lanes of large ones must read remote memory, which tcp cannot (src/ucp/wireup/select.c
//! `ucp_wireup_add_rma_bw_lanes`).  With `UCX_RNDV_SCHEME=put_zcopy` a quarter of the bytes went by TCP beside a NIC of 2.5 Gb/s,
//! and none beside one of 200 Gb/s. tests/clients.rs counts all of this.
//!
//! An IP interface may be called as a NIC: rdma-core names both `ibp65s0`, by their place on the bus.  Since 1.21 such an item
//! means the NIC too, on any port (`ucp_get_dev_basename`).  It stays, since without it connections by its address would fail.
//!
//! GPUs that send by themselves have devices of their own, `cuda0-mlx5_0:1` (since 1.20: src/uct/ib/mlx5/gdaki/gdaki.c
//! `uct_gdaki_query_tl_devices`), and a list without them switches those off.  NIXL-EP chooses that transport after its start
//! (`UCX_TLS=^cuda_ipc`).  So they are in the list wherever `UCX_TLS` leaves `rc_gda` in and NVIDIA's driver lets a GPU ring a
//! NIC's doorbell (`PeerMappingOverride=1`, `uct_gdaki_md_check_uar`).  A context without such devices would print a line on
//! stdout (`ucp_report_unavailable`), so `UCX_WARN_INVALID_CONFIG=n` goes along.  From 1.21 on UCX pairs GPUs and NICs by itself
//! (`uct_gdaki_dev_matrix_init`), so all NICs as near as the nearest are named.
#![forbid(unsafe_code)]

mod addresses;
pub(super) mod interfaces;
mod items;
mod subnets;

use super::files::{Files, Line, MARK, before_comment, non_empty};
use super::nccl::HOME;
use super::uniform::names_of;
use super::wanted::Fabric;
use super::{Answer, Library, Query, ReadFile, has_gpu_of};
use crate::placement::{NodePlacement, RailIndex, TaskPlacement};
use crate::step::program::{NICS_OF_SGLANG, is_off};
use crate::topology::{GpuIndex, GpuVendor, PathType, Topology};
use addresses::{ALL_DEVICES, PRIORITY};
use items::{Gda, Transports};
use subnets::{REACHABILITY, Separated};

pub(super) const LIBRARY: Library = Library {
    name: "UCX",
    word: "ucx",
    word_for_more: WITH_GPUS,
    by_default: true,
    variables: &[
        (NET_DEVICES, net_devices),
        (PRIORITY, addresses::priority),
        (WARN, quiet),
    ],
    // without it UCX's clients can fail to connect
    companion: Some(PRIORITY),
    evidence: &[
        TLS,
        ALL_DEVICES,
        OF_LIBFABRIC,
        OF_VLLM,
        OF_MODEL_EXPRESS,
        REACHABILITY,
        CONFIG_DIR,
    ],
    files: Some(&FILES),
    doubtful: "UCX_TLS UCX_IB_*",
    ..Library::NONE
};

/// The word that adds the devices of GPUs that send by themselves.
const WITH_GPUS: &str = "ucx-gda";

pub(super) const NET_DEVICES: &str = "UCX_NET_DEVICES";
const TLS: &str = "UCX_TLS";
/// Does UCX warn of devices and transports that it does not have (since 1.4)?
const WARN: &str = "UCX_WARN_INVALID_CONFIG";
/// The folder of the user's own `ucx.conf`.
const CONFIG_DIR: &str = "UCX_CONFIG_DIR";
/// libfabric's word for the list: its ucx provider sets `UCX_NET_DEVICES` to it, unless that is set (since 1.18:
/// prov/ucx/src/ucx_init.c `ucx_getinfo`).
const OF_LIBFABRIC: &str = "FI_UCX_DEVICES";

/// vLLM's map from GPUs to NICs, of which it puts each worker's before the list that it finds
/// (vllm/v1/executor/vllm_net_devices.py).
const OF_VLLM: &str = "VLLM_GPU_NIC_PCIE_MAPPING";

/// modelexpress's choice of NICs, which it writes over the list (0.7: modelexpress/ucx_utils.py `apply_nic_pin_for_device`).
const OF_MODEL_EXPRESS: &str = "MX_RDMA_NIC_PIN";

/// Items of a list, at most: with more a program aborts (src/ucp/core/ucp_context.c `ucp_is_resource_in_device_list`).
const MAX_ITEMS: usize = 64;

/// Since 1.12 UCX reads, each over the one before: /etc/ucx/ucx.conf, `<library's folder>/../etc/ucx/ucx.conf` (unknown here), and
/// `ucx.conf` at home, in the user's own folder and in the working directory.  The environment counts more
/// (src/ucs/config/parser.c `ucs_config_parse_config_files`, `ucs_config_apply_config_vars`).
pub(super) const FILES: Files = Files {
    of_site: |_| &["/etc/ucx/ucx.conf"],
    of_user: |_, present| {
        let folders = [CONFIG_DIR, HOME]
            .into_iter()
            .filter_map(|name| non_empty(present, name));
        let files = folders.map(|folder| format!("{folder}/ucx.conf"));
        ["ucx.conf".to_string()].into_iter().chain(files).collect()
    },
    lines,
    last_counts: true,
    beat_environment: false,
    variables: &[NET_DEVICES, PRIORITY, ALL_DEVICES, WARN],
    rivals: &[],
    matter: |_, _, _| true,
};

/// Bytes of a line in one piece, and a NUL (`INI_MAX_LINE`).
const MAX_LINE: usize = 200;

/// An INI file: `NAME=VALUE` or `NAME: VALUE`, and white space and `;` begin a comment.  A line that is indented below another
/// is one more value of that one's name.  A line that names another machine ends its section (src/ucs/config/ini.c
/// `ini_parse_stream`; src/ucs/config/parser.c `ucs_config_parse_config_file_line`).
fn lines<'t>(text: &'t str, read: ReadFile) -> Vec<Line<'t>> {
    let mut lines = Vec::new();
    let (mut section, mut holds, mut above) = ("", Some(true), None);
    for line in text.trim_start_matches(MARK).lines() {
        let trimmed = line.trim();
        let is_short = line.len() < MAX_LINE;
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
            continue;
        }
        if let Some(above) = above.filter(|_| line.starts_with(char::is_whitespace)) {
            lines.push(Line::new(above, trimmed, is_short, holds));
        } else if let Some((name, _)) = trimmed
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            if name != section {
                (section, holds) = (name, Some(true));
            }
            above = None;
        } else if let Some((name, value)) = before_comment(trimmed, ';').split_once(['=', ':']) {
            let (name, value) = (name.trim(), value.trim());
            above = Some(name);
            if holds != Some(false) && ["CPU vendor", "CPU model", "Product name"].contains(&name) {
                holds = holds_for(value, read);
            }
            lines.push(Line::new(name, value, is_short, holds));
        }
    }
    lines
}

/// UCX's names of processors, each behind the kernel's word for its maker or, of Arm, its model (`vendor_id`, `CPU part` of
/// /proc/cpuinfo; UCX 1.23: src/ucs/arch/cpu.c, src/ucs/arch/*/cpu.*).
const PROCESSORS: [&str; 4] = [
    "GenuineIntel,intel,ivybridge,sandybridge,nehalem,westmere,haswell,broadwell,skylake,icelake,emerald rapids",
    "AuthenticAMD,amd,naples,rome,milan,genoa,turin",
    "0xd4f,grace",
    "0x010,vera",
];

/// `Some(false)` if the name is another processor's.
fn holds_for(value: &str, read: ReadFile) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let names = PROCESSORS
        .iter()
        .find(|names| names.split(',').any(|name| name == value))?;
    let text = read("/proc/cpuinfo")?.text;
    let mut words = text.lines().filter_map(|line| line.split_once(':'));
    let (_, own) = words.find(|(name, _)| ["vendor_id", "CPU part"].contains(&name.trim()))?;
    (!names.starts_with(own.trim())).then_some(false)
}

/// The same for all tasks of a step.
pub(super) struct Shared {
    /// may GPUs of the node send by themselves?
    gpus_may_send: bool,
    /// the node's interfaces, sorted, if known
    interfaces: Option<Vec<String>>,
    /// rails that do not reach each other
    separated: Option<Separated>,
}

/// `None` where no task gets a list.
pub(super) fn shared(
    topology: &Topology,
    node: &NodePlacement,
    is_wanted: bool,
    is_claimed: bool,
    read: ReadFile,
) -> Option<Shared> {
    if !is_wanted || topology.gpus.is_empty() || node.rails.is_empty() {
        return None;
    }
    let interfaces = if is_claimed {
        None
    } else {
        interfaces::read(read)
    };
    let gpus_may_send = interfaces.is_some() && gpus_may_send(topology, read);
    Some(Shared {
        gpus_may_send,
        interfaces,
        separated: Separated::new(topology, node),
    })
}

/// NVIDIA's driver's parameters, which it prints without asking a GPU (kernel-open/nvidia/nv-procfs.c `nv_procfs_read_params`).
const PARAMETERS: &str = "/proc/driver/nvidia/params";

/// Does the driver let GPUs ring a NIC's doorbell?
fn gpus_may_send(topology: &Topology, read: ReadFile) -> bool {
    let parameters = if has_gpu_of(topology, GpuVendor::Nvidia) {
        read(PARAMETERS)
    } else {
        None
    }
    .unwrap_or_default();
    let mut lines = parameters.text.lines();
    lines.any(|line| line.starts_with("RegistryDwords") && line.contains("PeerMappingOverride=1;"))
}

/// The task's list.
fn net_devices(query: &Query) -> Option<Answer> {
    let task = query.task;
    let no = |why: &'static str| Some(Answer::no(why));
    if task.gpus.is_empty() {
        return no("a task without GPUs is left to UCX, which uses two NICs itself");
    }
    let Some(shared) = query
        .prepared
        .ucx
        .as_ref()
        .filter(|_| !task.rails.is_empty())
    else {
        return no("no NIC of this node may be chosen");
    };
    if query.prepared.claimed_by_site(NET_DEVICES).is_some() {
        return query.claimed(&FILES, NET_DEVICES).map(Answer::left_to);
    }
    let transports = items::transports(query.evidence.present.get(TLS).map(String::as_str));
    if !transports.rdma {
        return no("`UCX_TLS` leaves no transport that uses an RDMA device");
    }
    // what begins so lets libfabric choose
    if query
        .users(OF_LIBFABRIC)
        .is_some_and(|devices| !devices.starts_with("auto"))
    {
        return no("the user's `FI_UCX_DEVICES` chooses the device");
    }
    if query.users(OF_VLLM).is_some() {
        return no(
            "the user's `VLLM_GPU_NIC_PCIE_MAPPING` chooses the device, and would come before a list",
        );
    }
    if query
        .users(OF_MODEL_EXPRESS)
        .is_some_and(|pin| !is_off(pin))
    {
        return no("the user's `MX_RDMA_NIC_PIN` chooses the device");
    }
    // SGLang 0.5.23 with NIXL (srt/disaggregation/nixl/conn.py)
    if query.prepared.words.contains(&NICS_OF_SGLANG) {
        return no(
            "the program's `--disaggregation-ib-device` chooses the device, and SGLang ignores it beside a list",
        );
    }
    let answer = without_files(query, shared, transports).unwrap_or_else(Answer::no);
    Some(query.unless_in_files(&FILES, NET_DEVICES, answer))
}

/// Ends an older UCX's warnings of devices of GPUs in our list.
fn quiet(query: &Query) -> Option<Answer> {
    let names_gpus = query.ours(NET_DEVICES)?.contains("cuda");
    let tls = query.evidence.present.get(TLS).map_or("", String::as_str);
    let lists_transports = !tls.is_empty() && tls != "all" && !tls.starts_with('^');
    let why =
        "a UCX without devices of GPUs that send by themselves would print a line for each context";
    let answer = Answer::yes("n", why);
    (names_gpus && !lists_transports).then(|| query.unless_in_files(&FILES, WARN, answer))
}

/// The answer where no file sets the variable.
fn without_files(
    query: &Query,
    shared: &Shared,
    transports: Transports,
) -> Result<Answer, &'static str> {
    let (node, task) = (query.node, query.task);
    let isolated = isolated(query, shared);
    let rails: Vec<RailIndex> = match isolated {
        Some(_) => node.rail_indices().collect(),
        None => task.rails.iter().map(|&(rail, _)| rail).collect(),
    };
    let leaves_out = rails.len() < node.rails.len() || query.prepared.list.is_ok();
    if !leaves_out {
        let every = "it may use every NIC of the node";
        return Ok(Answer::no(
            isolated.map_or(every.to_string(), |why| format!("{why}, so {every}")),
        ));
    }
    let interfaces = match &shared.interfaces {
        _ if !transports.tcp => &[][..],
        Some(names) => names,
        None => return Err("the list would hide the node's IP interfaces, which are not known"),
    };
    let with_gpus = match transports.gpu_initiated {
        Gda::Named => true,
        Gda::LeftIn => shared.gpus_may_send || query.has_word(WITH_GPUS),
        Gda::RuledOut => query.has_word(WITH_GPUS),
    };
    let list = items(query, &rails, with_gpus, interfaces)?;
    if let Some(why) = addresses::needs_all(query, &list) {
        return Err(why);
    }
    let mut why = isolated.map_or_else(
        || reason(task),
        |why| format!("{why}, so all good NICs of the node"),
    );
    if !interfaces.is_empty() {
        why += ", and the IP interfaces, which a list would hide";
        why += &also_nics(query, &rails, interfaces);
    } else if transports.tcp && !query.topology.provenance.is_this_system() {
        why += "; on the node its IP interfaces are added";
        if addresses::goes_with_interfaces(query, &list) {
            why += " and `UCX_SOCKADDR_TLS_PRIORITY` is set";
        }
    }
    Ok(Answer::yes(list.join(","), why))
}

/// Tells of interfaces with the name of a NIC that the list leaves out.
fn also_nics(query: &Query, rails: &[RailIndex], interfaces: &[String]) -> String {
    let is_listed = |name: &str| {
        rails
            .iter()
            .any(|&rail| query.node.rail(rail).name == *name)
    };
    let is_nic = |name: &str| query.topology.nics.iter().any(|nic| nic.name == *name);
    let names = interfaces
        .iter()
        .filter(|name| is_nic(name) && !is_listed(name));
    match names_of(names).replace(',', " ") {
        none if none.is_empty() => none,
        names => format!("; from UCX 1.21 on {names} also means the NIC of that name"),
    }
}

/// The reason, if there is one, for the NICs of all rails in each task's list.
fn isolated(query: &Query, shared: &Shared) -> Option<&'static str> {
    let mode = query.evidence.present.get(REACHABILITY).map(String::as_str);
    match query.prepared.wish.admin.fabric {
        Fabric::IsolatedRails => Some("the fabric's rails are isolated"),
        Fabric::Unsaid => shared.separated.as_ref()?.why(mode),
        Fabric::Routed => None,
    }
}

/// The list, or the reason for none.  If each GPU with each of its NICs is too much, each has its best one: without any, UCX could not
/// let a GPU send.
fn items(
    query: &Query,
    rails: &[RailIndex],
    with_gpus: bool,
    interfaces: &[String],
) -> Result<Vec<String>, &'static str> {
    let nics: Vec<String> = rails
        .iter()
        .map(|&rail| query.node.rail(rail).to_string())
        .collect();
    let devices = |each: usize| {
        if with_gpus {
            gpu_initiated(query, each)
        } else {
            Vec::new()
        }
    };
    let lists = [usize::MAX, 1].map(|each| [&nics[..], &devices(each)].concat());
    match lists
        .iter()
        .find(|list| list.len() + interfaces.len() <= MAX_ITEMS)
    {
        Some(list) => Ok([list, interfaces].concat()),
        None if lists[1].len() <= MAX_ITEMS => Err(
            "the node has more IP interfaces than UCX reads in a list, which would hide the rest",
        ),
        None => Err("the task has more devices than UCX reads in a list"),
    }
}

/// The devices of GPUs that send by themselves: for each GPU of the task its own NICs, then others as near, `each` of them at most.
///
/// A GPU's number is cuDeviceGet's, of all GPUs that the program sees (src/uct/ib/mlx5/gdaki/gdaki.c `uct_gdaki_query_tl_devices`).  A NIC
/// has such a device for its first port alone.
fn gpu_initiated(query: &Query, each: usize) -> Vec<String> {
    let Query {
        topology,
        node,
        task,
        ..
    } = query;
    // the kinds of paths that UCX tells apart (src/ucs/sys/topo/base/topo.c `ucs_topo_get_distance_sysfs`)
    let path = |gpu: GpuIndex, rail: RailIndex| {
        let nic = topology.nic(node.rail(rail).nic).address;
        let kind = nic.map_or(PathType::Sys, |nic| {
            topology.path_type(topology.gpu(gpu).address, nic)
        });
        if kind == PathType::Pxb {
            PathType::Pix
        } else {
            kind
        }
    };
    let nvidia = task
        .seen
        .iter()
        .filter(|gpu| topology.gpu(**gpu).vendor == GpuVendor::Nvidia);
    let numbered = nvidia
        .enumerate()
        .filter(|(_, gpu)| task.gpus.contains(gpu));
    let devices = numbered.flat_map(|(number, gpu)| {
        let nearest = node.rail_indices().map(|rail| path(*gpu, rail)).min();
        let own = node.gpus.get(gpu.0).map_or(&[][..], |gpu| &gpu.choices);
        let mut named: Vec<RailIndex> = own.iter().map(|choice| choice.rail).collect();
        let others: Vec<RailIndex> = node
            .rail_indices()
            .filter(|rail| !named.contains(rail))
            .collect();
        named.extend(
            others
                .into_iter()
                .filter(|&rail| Some(path(*gpu, rail)) == nearest),
        );
        named.retain(|rail| node.rail(*rail).port == 1);
        named
            .into_iter()
            .take(each)
            .map(move |rail| format!("cuda{number}-{}", node.rail(rail)))
    });
    devices.collect()
}

fn reason(task: &TaskPlacement) -> String {
    match (task.gpus.len(), task.rails.len()) {
        (1, 1) => "its GPU's NIC".to_string(),
        (_, 1) => "the NIC that all its GPUs share".to_string(),
        (1, many @ 3..) => {
            format!(
                "the {many} NICs of its GPU, of which UCX sends a message by two without `env=ucx-rails`"
            )
        }
        (1, many) => format!("the {many} NICs of its GPU"),
        (_, many) => {
            format!("the {many} NICs of its GPUs, of which UCX takes the nearest to the GPU in use")
        }
    }
}

//! UCX: `UCX_NET_DEVICES`, the network devices that a process may use.
//!
//! Items are `name:port`; a bare name needs UCX 1.21. UCX warns of an unknown item. If all items
//! are unknown, the program fails at its first remote peer, or at start if `UCX_TLS` allows only
//! network transports. Peers may use different devices if the fabric connects them
//! (src/ucs/config/parser.c, src/ucp/core/ucp_context.c `ucp_is_resource_in_device_list`).
//!
//! **IP interfaces**, `lo` too, must be in the list, or connections by IP address fail: "device
//! eth0 is not enabled, enable it in UCX_NET_DEVICES" (src/ucp/wireup/wireup_cm.c
//! `ucp_cm_client_resolve_cb`). A container without RDMA devices, or a UCX without verbs, has only
//! IP interfaces. Interfaces of storage NICs do no harm, since RDMA carries the data: a small
//! message has one lane, and a large message only lanes that read remote memory, which tcp cannot
//! (src/ucp/wireup/select.c `ucp_wireup_add_rma_bw_lanes`). With `UCX_RNDV_SCHEME=put_zcopy`, a
//! quarter of the bytes went by TCP beside a NIC of 2.5 Gb/s, none beside a NIC of 200 Gb/s
//! (tests/clients.rs).
//!
//! An interface can have a NIC's name: rdma-core names NICs by PCI address too (`ibp65s0`). Since
//! 1.21 the item `ibp65s0` also admits the NIC, on any port (`ucp_get_dev_basename`).
//!
//! **GPU-initiated RDMA** uses devices like `cuda0-mlx5_0:1` (since 1.20:
//! src/uct/ib/mlx5/gdaki/gdaki.c `uct_gdaki_query_tl_devices`), which a list must name. NIXL-EP
//! selects this transport, `rc_gda`, only at run time (`UCX_TLS=^cuda_ipc`). So our list names the
//! devices even without `env=ucx-gda`, if `UCX_TLS` admits `rc_gda` and NVIDIA's driver lets GPUs
//! ring a NIC's doorbell (`PeerMappingOverride=1`, `uct_gdaki_md_check_uar`). If a listed device is
//! missing, each UCX context prints a line on stdout (`ucp_report_unavailable`), unless
//! `UCX_WARN_INVALID_CONFIG=n`. Since 1.21 UCX pairs GPUs and NICs itself
//! (`uct_gdaki_dev_matrix_init`), so our list names all equally near NICs.

mod addresses;
pub(super) mod interfaces;
mod items;
mod subnets;

use super::files::{Files, Line, MARK, before_comment, non_empty};
use super::nccl::HOME;
use super::uniform::names_of;
use super::wanted::Fabric;
use super::{Answer, Library, Query, ReadFile, has_gpu_of};
use crate::placement::{NodePlacement, Rail, TaskPlacement};
use crate::step::program::{NICS_OF_SGLANG, is_off};
use crate::topology::{GpuIndex, GpuVendor, PathType, Topology};
use addresses::{ALL_DEVICES, PRIORITY};
use items::{Gda, Transports};
use subnets::{REACHABILITY, Separated};

pub const LIBRARY: Library = Library {
    name: "UCX",
    word: "ucx",
    word_for_more: WITH_GPUS,
    by_default: true,
    variables: &[
        (NET_DEVICES, net_devices),
        (PRIORITY, addresses::priority),
        (WARN, quiet),
    ],
    // clients can fail to connect without this variable
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

/// The word of `env=` for GPU-initiated RDMA.
const WITH_GPUS: &str = "ucx-gda";

pub const NET_DEVICES: &str = "UCX_NET_DEVICES";
const TLS: &str = "UCX_TLS";
/// `n` stops warnings about unknown devices and transports (since 1.4).
const WARN: &str = "UCX_WARN_INVALID_CONFIG";
const CONFIG_DIR: &str = "UCX_CONFIG_DIR";
/// libfabric's ucx provider copies this value to an unset `UCX_NET_DEVICES` (since 1.18:
/// prov/ucx/src/ucx_init.c `ucx_getinfo`).
const OF_LIBFABRIC: &str = "FI_UCX_DEVICES";

/// vLLM puts each worker's NIC, from this map, before the items of `UCX_NET_DEVICES`
/// (vllm/v1/executor/vllm_net_devices.py).
const OF_VLLM: &str = "VLLM_GPU_NIC_PCIE_MAPPING";

/// modelexpress overwrites `UCX_NET_DEVICES` with this value (0.7: modelexpress/ucx_utils.py
/// `apply_nic_pin_for_device`).
const OF_MODEL_EXPRESS: &str = "MX_RDMA_NIC_PIN";

/// UCX aborts if a list is longer (`ucp_is_resource_in_device_list`).
const MAX_ITEMS: usize = 64;

/// Since 1.12 UCX reads, weakest first: /etc/ucx/ucx.conf, `<library's folder>/../etc/ucx/ucx.conf`
/// (unknown to us), `ucx.conf` in the home, in `UCX_CONFIG_DIR` and in the working directory, and
/// the environment (src/ucs/config/parser.c `ucs_config_parse_config_files`,
/// `ucs_config_apply_config_vars`).
pub const FILES: Files = Files {
    of_site: |_| &["/etc/ucx/ucx.conf"],
    of_user: |_, &super::Evidence { present, .. }| {
        let mut files = vec!["ucx.conf".to_string()];
        for folder in [CONFIG_DIR, HOME] {
            files.extend(non_empty(present, folder).map(|folder| format!("{folder}/ucx.conf")));
        }
        files
    },
    lines,
    last_counts: true,
    beat_environment: false,
    variables: &[NET_DEVICES, PRIORITY, ALL_DEVICES, WARN],
    rivals: &[],
    matter: |_, _, _| true,
};

/// Bytes of UCX's buffer for a line and its NUL (`INI_MAX_LINE`).
const MAX_LINE: usize = 200;

/// An INI file of `NAME=VALUE` or `NAME: VALUE`; `;` after white space begins a comment. An
/// indented line is another value of the name above. In a section, lines below a condition
/// (`CPU model=Grace`) count only on such machines (src/ucs/config/ini.c `ini_parse_stream`;
/// src/ucs/config/parser.c `ucs_config_parse_config_file_line`).
fn lines<'t>(text: &'t str, read: ReadFile) -> Vec<Line<'t>> {
    let mut lines = Vec::new();
    let (mut section, mut holds, mut above) = ("", Some(true), None);
    for line in text.trim_start_matches(MARK).lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
            continue;
        }
        let header = trimmed.strip_prefix('[');
        let (name, value) = if let Some(above) =
            above.filter(|_| line.starts_with(char::is_whitespace))
        {
            (above, trimmed)
        } else if let Some((name, _)) = header.and_then(|rest| rest.split_once(']')) {
            if name != section {
                (section, holds) = (name, Some(true));
            }
            above = None;
            continue;
        } else if let Some((name, value)) = before_comment(trimmed, ';').split_once(['=', ':']) {
            let (name, value) = (name.trim(), value.trim());
            above = Some(name);
            if holds != Some(false) && ["CPU vendor", "CPU model", "Product name"].contains(&name) {
                holds = holds_for(value, read);
            }
            (name, value)
        } else {
            continue;
        };
        let value = (line.len() < MAX_LINE).then_some(value);
        lines.push(Line { name, value, holds });
    }
    lines
}

/// A `vendor_id`, or Arm's `CPU part`, of /proc/cpuinfo, then UCX's names for such processors (UCX
/// 1.23: src/ucs/arch/cpu.c, src/ucs/arch/*/cpu.*).
const PROCESSORS: [&str; 4] = [
    "GenuineIntel,intel,ivybridge,sandybridge,nehalem,westmere,haswell,broadwell,skylake,icelake,emerald rapids",
    "AuthenticAMD,amd,naples,rome,milan,genoa,turin",
    "0xd4f,grace",
    "0x010,vera",
];

/// `Some(false)` if the value names another processor; else `None`.
fn holds_for(value: &str, read: ReadFile) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let mut processors = PROCESSORS.iter();
    let names = processors.find(|names| names.split(',').any(|name| name == value))?;
    let text = read("/proc/cpuinfo")?.text;
    let mut words = text.lines().filter_map(|line| line.split_once(':'));
    let (_, own) = words.find(|(name, _)| ["vendor_id", "CPU part"].contains(&name.trim()))?;
    (!names.starts_with(own.trim())).then_some(false)
}

pub(super) struct Shared {
    gpus_may_send: bool,
    /// `None` if unknown
    interfaces: Option<Vec<String>>,
    separated: Option<Separated>,
}

/// `None` if no task gets a list.
pub fn shared(
    node: &Topology,
    map: &NodePlacement,
    is_wanted: bool,
    is_claimed: bool,
    read: ReadFile,
) -> Option<Shared> {
    if !is_wanted || node.gpus.is_empty() || map.rails.is_empty() {
        return None;
    }
    let interfaces = if is_claimed {
        None
    } else {
        interfaces::read(read)
    };
    Some(Shared {
        gpus_may_send: interfaces.is_some() && gpus_may_send(node, read),
        interfaces,
        separated: Separated::new(node, map),
    })
}

/// NVIDIA's driver prints this file without access to a GPU (kernel-open/nvidia/nv-procfs.c
/// `nv_procfs_read_params`).
const PARAMETERS: &str = "/proc/driver/nvidia/params";

/// True if NVIDIA's driver lets GPUs ring a NIC's doorbell.
fn gpus_may_send(node: &Topology, read: ReadFile) -> bool {
    let allows =
        |line: &str| line.starts_with("RegistryDwords") && line.contains("PeerMappingOverride=1;");
    has_gpu_of(node, GpuVendor::Nvidia)
        && read(PARAMETERS).is_some_and(|parameters| parameters.text.lines().any(allows))
}

fn net_devices(query: &Query) -> Option<Answer> {
    let task = query.task;
    let no = |why: &'static str| Some(Answer::no(why));
    if task.gpus.is_empty() {
        return no("a task without GPUs is left to UCX, which uses two NICs itself");
    }
    let shared = query.prepared.ucx.as_ref();
    let Some(shared) = shared.filter(|_| !task.rails.is_empty()) else {
        return no("no NIC of this node may be chosen");
    };
    if query.prepared.claimed_by_site(NET_DEVICES).is_some() {
        return query.claimed(&FILES, NET_DEVICES).map(Answer::left_to);
    }
    let transports = items::transports(query.value(TLS));
    if !transports.rdma {
        return no("`UCX_TLS` leaves no transport that uses an RDMA device");
    }
    // with `auto…` libfabric chooses the devices
    let chooses = |devices: &str| !devices.starts_with("auto");
    if query.users(OF_LIBFABRIC).is_some_and(chooses) {
        return no("the user's `FI_UCX_DEVICES` chooses the device");
    }
    if query.users(OF_VLLM).is_some() {
        return no(
            "the user's `VLLM_GPU_NIC_PCIE_MAPPING` chooses the device, and would come before a list",
        );
    }
    if !query.users(OF_MODEL_EXPRESS).is_none_or(is_off) {
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

/// `n` if our list has devices for GPU-initiated RDMA: a UCX without them would warn. `None` if
/// `UCX_TLS` lists transports.
fn quiet(query: &Query) -> Option<Answer> {
    let tls = query.value(TLS).unwrap_or_default();
    if !query.ours(NET_DEVICES)?.contains("cuda")
        || !(["", "all"].contains(&tls) || tls.starts_with('^'))
    {
        return None;
    }
    let why =
        "a UCX without devices of GPUs that send by themselves would print a line for each context";
    Some(query.unless_in_files(&FILES, WARN, Answer::yes("n", why)))
}

fn without_files(
    query: &Query,
    shared: &Shared,
    transports: Transports,
) -> Result<Answer, &'static str> {
    let (map, task) = (query.map, query.task);
    let isolated = isolated(query, shared);
    let rails: Vec<&Rail> = match isolated {
        Some(_) => map.rails.iter().collect(),
        None => task.rails.iter().map(|of| map.rail(of.0)).collect(),
    };
    if rails.len() >= map.rails.len() && query.prepared.list.is_err() {
        let every = "it may use every NIC of the node";
        let why = isolated.map(|why| format!("{why}, so {every}"));
        return Ok(why.map_or(Answer::no(every), Answer::no));
    }
    let interfaces = match &shared.interfaces {
        _ if !transports.tcp => &[][..],
        Some(names) => names,
        None => return Err("the list would hide the node's IP interfaces, which are not known"),
    };
    let gda = transports.gpu_initiated;
    let with_gpus = query.has_word(WITH_GPUS)
        || gda == Gda::Named
        || gda == Gda::LeftIn && shared.gpus_may_send;
    let list = items(query, &rails, with_gpus, interfaces)?;
    addresses::check(query, &list)?;
    let mut why = match isolated {
        Some(why) => format!("{why}, so all good NICs of the node"),
        None => reason(task),
    };
    if !interfaces.is_empty() {
        why += ", and the IP interfaces, which a list would hide";
        why += &also_nics(query, &rails, interfaces);
    } else if transports.tcp && !query.node.provenance.is_this_system() {
        why += "; on the node its IP interfaces are added";
        if addresses::goes_with_interfaces(query, &list) {
            why += " and `UCX_SOCKADDR_TLS_PRIORITY` is set";
        }
    }
    Ok(Answer::yes(list.join(","), why))
}

/// A remark if an interface has the name of a NIC that the list lacks; else empty.
fn also_nics(query: &Query, rails: &[&Rail], interfaces: &[String]) -> String {
    let is_other_nic = |name: &&String| {
        query.node.nic_index(name).is_some() && !rails.iter().any(|rail| rail.name == ***name)
    };
    let names = names_of(interfaces.iter().filter(is_other_nic)).replace(',', " ");
    if names.is_empty() {
        return names;
    }
    format!("; from UCX 1.21 on {names} also means the NIC of that name")
}

/// `Some` if NICs of different rails cannot connect: the reason why a task needs all rails.
fn isolated(query: &Query, shared: &Shared) -> Option<&'static str> {
    match query.prepared.wish.admin.fabric {
        Fabric::IsolatedRails => Some("the fabric's rails are isolated"),
        Fabric::Unsaid => shared.separated.as_ref()?.why(query.value(REACHABILITY)),
        Fabric::Routed => None,
    }
}

/// The list's items. If more than [`MAX_ITEMS`], each GPU keeps one device for GPU-initiated RDMA:
/// with none, UCX would disable the transport.
fn items(
    query: &Query,
    rails: &[&Rail],
    with_gpus: bool,
    interfaces: &[String],
) -> Result<Vec<String>, &'static str> {
    for each in [usize::MAX, 1] {
        let mut list: Vec<String> = rails.iter().map(ToString::to_string).collect();
        if with_gpus {
            list.extend(gpu_initiated(query, each));
        }
        let has_room = list.len() <= MAX_ITEMS;
        list.extend_from_slice(interfaces);
        if list.len() <= MAX_ITEMS {
            return Ok(list);
        }
        if each == 1 && has_room {
            return Err(
                "the node has more IP interfaces than UCX reads in a list, which would hide the rest",
            );
        }
    }
    Err("the task has more devices than UCX reads in a list")
}

/// The devices for GPU-initiated RDMA, up to `each` for each GPU of the task: first on the NICs
/// chosen for the GPU, then on the other nearest NICs.
///
/// UCX numbers GPUs as cuDeviceGet does, among all that the program sees. Only a NIC's first port
/// has such a device (`uct_gdaki_query_tl_devices`).
fn gpu_initiated(query: &Query, each: usize) -> Vec<String> {
    let (node, map, task) = (query.node, query.map, query.task);
    let is_nvidia = |gpu: &&GpuIndex| node.gpu(**gpu).vendor == GpuVendor::Nvidia;
    let mut devices = Vec::new();
    for (number, gpu) in task.seen.iter().filter(is_nvidia).enumerate() {
        if !task.gpus.contains(gpu) {
            continue;
        }
        // UCX does not distinguish PXB from PIX (src/ucs/sys/topo/base/topo.c
        // `ucs_topo_get_distance_sysfs`)
        let path = |rail: &Rail| match node.nic(rail.nic).address {
            Some(nic) => match node.path_type(node.gpu(*gpu).address, nic) {
                PathType::Pxb => PathType::Pix,
                path => path,
            },
            None => PathType::Sys,
        };
        let nearest = map.rails.iter().map(path).min();
        let choices = map.gpus.get(gpu.0).map_or(&[][..], |gpu| &gpu.choices);
        let own: Vec<&Rail> = choices.iter().map(|of| map.rail(of.rail)).collect();
        let is_other = |rail: &&Rail| !own.contains(rail) && Some(path(rail)) == nearest;
        let rails = own.iter().copied();
        let rails = rails.chain(map.rails.iter().filter(is_other));
        let first_ports = rails.filter(|rail| rail.port == 1).take(each);
        devices.extend(first_ports.map(|rail| format!("cuda{number}-{rail}")));
    }
    devices
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

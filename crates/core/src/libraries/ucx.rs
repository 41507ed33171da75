//! UCX: `UCX_NET_DEVICES`, the network devices that a process may use.
//!
//! Items are exact and always `name:port`; UCX reads a bare name only from 1.21 on.  An unknown item causes a
//! warning; a list without a known item fails at the first remote peer.  Peers may use different devices if the
//! fabric connects them.  (UCX: src/ucs/config/parser.c, src/ucp/core/ucp_context.c
//! `ucp_is_resource_in_device_list`; its FAQ, "selecting networks and transports".)
//!
//! The list rules IP interfaces too.  With NICs alone in it, a program that connects by IP address fails: "device
//! eth0 is not enabled, enable it in UCX_NET_DEVICES" (src/ucp/wireup/wireup_cm.c `ucp_cm_client_resolve_cb`), and
//! for an address of the node itself the device is `lo`.  Where the NIC is missing, as in a container, or UCX was
//! built without verbs, nothing is left at all.  Without a list UCX has all interfaces, so all go into ours,
//! those of storage NICs too: an address on them is the program's own choice, and beside RDMA they carry no data.
//! Small messages have one lane (`UCX_MAX_EAGER_RAILS`), and the lanes of large ones must all be able to read remote
//! memory, which tcp is not (src/ucp/wireup/select.c `ucp_wireup_add_rma_bw_lanes`; src/uct/tcp/tcp_iface.c).  With
//! `UCX_RNDV_SCHEME=put_zcopy` they need not: beside a NIC of 2.5 Gb/s, which is less than four times TCP's 1 Gb/s
//! (`UCX_MULTI_LANE_MAX_RATIO`), a quarter of the bytes went by TCP, and none beside one of 200 Gb/s.  tests/clients.rs
//! counts all of this.
//!
//! An IP interface may be called as a NIC: where rdma-core names NICs by their place on the bus, as it does by default, an
//! InfiniBand NIC and its interface are both `ibp65s0`.  Since 1.21 such an item means the NIC too, on any port
//! (`ucp_get_dev_basename`), and nothing tells the two apart.  It stays, since without it connections by its address would
//! fail, and the report says what it also means.
//!
//! GPUs that send by themselves have devices of their own, `cuda0-mlx5_0:1` (since 1.20: src/uct/ib/mlx5/gdaki/gdaki.c
//! `uct_gdaki_fill_cuda_tl_devices`), and a list without them switches those off.  Every other program would be
//! warned of names that it lacks, so they are added where `UCX_TLS` names `rc_gda`, or on request.
//!
//! Open MPI, MPICH and NIXL read it if they run on UCX, and need no variable of their own.
#![forbid(unsafe_code)]

mod addresses;
mod interfaces;
mod items;
mod subnets;

use super::files::{Files, Line, before_comment, non_empty};
use super::nccl::HOME;
use super::template::names_of;
use super::wanted::Fabric;
use super::{Answer, Asked, Library, ReadFile};
use crate::placement::{NodePlacement, RailIndex, TaskPlacement};
use crate::topology::{GpuVendor, Topology};
use addresses::{ALL_DEVICES, PRIORITY};
use interfaces::Interfaces;
use items::Transports;
use std::borrow::Cow;
use subnets::{REACHABILITY, Subnets};

pub(super) const LIBRARY: Library = Library {
    name: "UCX",
    word: "ucx",
    word_for_more: WITH_GPUS,
    by_default: true,
    variables: &[(NET_DEVICES, net_devices), (PRIORITY, addresses::priority)],
    // without it UCX's clients can fail to connect
    companion: Some(PRIORITY),
    evidence: &[TLS, ALL_DEVICES, OF_LIBFABRIC, REACHABILITY, CONFIG_DIR],
    files: Some(&FILES),
    lists: &[items::DEVICES],
    doubts: &[("UCX_NET_DEVICES UCX_TLS", items::doubts)],
    doubtful: "UCX_TLS UCX_IB_*",
    ..Library::NONE
};

/// The word that adds the devices of GPUs that send by themselves.
const WITH_GPUS: &str = "ucx-gda";

pub(super) const NET_DEVICES: &str = "UCX_NET_DEVICES";
const TLS: &str = "UCX_TLS";
/// Names a folder of the user's with a configuration file.
const CONFIG_DIR: &str = "UCX_CONFIG_DIR";
/// libfabric's word for the list: its ucx provider sets `UCX_NET_DEVICES` to it, unless that is set (since 1.18:
/// prov/ucx/src/ucx_init.c `ucx_getinfo`).
const OF_LIBFABRIC: &str = "FI_UCX_DEVICES";

/// Items of a list, at most: a program with more of them aborts (src/ucp/core/ucp_context.c
/// `ucp_is_resource_in_device_list`, `ucs_assert_always`).
const MAX_ITEMS: usize = 64;

/// UCX reads, each over the one before: /etc/ucx/ucx.conf, `<library's folder>/../etc/ucx/ucx.conf`, and `ucx.conf` at home,
/// in the user's own folder and in the working directory, since 1.12 (src/ucs/config/parser.c
/// `ucs_config_parse_config_files`).  We do not know which library a program will load, so we do not know the second.  UCX
/// prefers the environment (`ucs_config_apply_config_vars`).
pub(super) const FILES: Files = Files {
    of_site: |_| &["/etc/ucx/ucx.conf"],
    of_user: |_, present| {
        let folders = [CONFIG_DIR, HOME].into_iter().filter_map(|name| non_empty(present, name));
        let files = folders.map(|folder| format!("{folder}/ucx.conf"));
        ["ucx.conf".to_string()].into_iter().chain(files).collect()
    },
    lines,
    longest_line: 199,
    last_counts: true,
    skips_mark: true,
    beat_environment: false,
    variables: &[NET_DEVICES, PRIORITY, ALL_DEVICES],
    rivals: &[],
    matter: |step| !step.topology.gpus.is_empty() && !step.node.rails.is_empty(),
};

/// An INI file: `NAME=VALUE` or `NAME: VALUE`, and white space and `;` begin a comment.  A line that is indented below another
/// is one more value of that one's name.  The lines of a section count only where the machine is one of those that the section
/// names (src/ucs/config/ini.c `ini_parse_stream`, whose `INI_MAX_LINE` is 200; src/ucs/config/parser.c
/// `ucs_config_parse_config_file_line`).
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let (mut in_section, mut above) = (false, None);
    for line in text.lines() {
        let trimmed = line.trim();
        let value_of =
            |name, value| Line { name, value: Some(value).filter(|_| !in_section), length: line.len() };
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
            continue;
        }
        if let Some(above) = above.filter(|_| line.starts_with(char::is_whitespace)) {
            lines.push(value_of(above, trimmed));
        } else if trimmed.starts_with('[') {
            (in_section, above) = (true, None);
        } else if let Some((name, value)) = before_comment(trimmed, ';').split_once(['=', ':']) {
            above = Some(name.trim());
            lines.push(value_of(name.trim(), value.trim()));
        }
    }
    lines
}

/// What all tasks share.
pub(super) struct OfStep {
    /// the interfaces of the node
    interfaces: Interfaces,
    /// the subnets of the rails
    subnets: Subnets,
}

/// Reads the kernel's tables; `None` where no task gets a list.
pub(super) fn of_step(
    topology: &Topology,
    node: &NodePlacement,
    is_wanted: bool,
    is_claimed: bool,
    read: ReadFile,
) -> Option<OfStep> {
    if !is_wanted || topology.gpus.is_empty() || node.rails.is_empty() {
        return None;
    }
    let interfaces = if is_claimed { Interfaces::Unknown } else { interfaces::read(read) };
    Some(OfStep { interfaces, subnets: Subnets::new(topology, node) })
}

/// The value or none, and why.
fn net_devices(asked: &Asked) -> Option<Answer> {
    let task = asked.task;
    let no = |why: &'static str| Some(Answer::no(why));
    if task.gpus.is_empty() {
        return no("a task without GPUs is left to UCX, which uses two NICs itself");
    }
    let Some(of_step) = asked.prepared.ucx.as_ref().filter(|_| !task.rails.is_empty()) else {
        return no("no NIC of this node may be chosen");
    };
    if asked.prepared.claimed_by_site(NET_DEVICES).is_some() {
        return asked.claimed(&FILES, NET_DEVICES).map(Answer::left_to);
    }
    let left = items::transports(asked.evidence.present.get(TLS).map(String::as_str));
    if !left.rdma {
        return no("`UCX_TLS` leaves no transport that uses an RDMA device");
    }
    // what begins so lets libfabric choose
    if asked.users(OF_LIBFABRIC).is_some_and(|devices| !devices.starts_with("auto")) {
        return no("the user's `FI_UCX_DEVICES` chooses the device");
    }
    Some(asked.unless_in_files(&FILES, NET_DEVICES, without_files(asked, of_step, left)))
}

/// The same as if the user had no file.
fn without_files(asked: &Asked, of_step: &OfStep, left: Transports) -> Answer {
    let (node, task) = (asked.node, asked.task);
    let no = |why: &'static str| Answer::no(why);
    let isolated = isolated(asked, of_step);
    let rails: Vec<RailIndex> = match isolated {
        Some(_) => node.rail_indices().collect(),
        None => task.rails.iter().map(|&(rail, _)| rail).collect(),
    };
    let anything_left_out = rails.len() < node.rails.len() || !node.excluded.is_empty();
    if rails.len() > 1 && !anything_left_out {
        return match isolated {
            Some(why) => Answer::no(format!("{why}, so it may use every NIC of the node")),
            None => no("it may use every NIC of the node"),
        };
    }
    let interfaces: &[String] = match &of_step.interfaces {
        _ if !left.tcp => &[],
        Interfaces::Known(names) => names,
        Interfaces::Unknown => {
            return no("the list would hide the node's IP interfaces, which are not known");
        }
    };
    let with_gpus = left.gpu_initiated || asked.has_word(WITH_GPUS);
    let list = match items(asked, &rails, with_gpus, interfaces) {
        Ok(list) => list,
        Err(why) => return no(why),
    };
    if let Some(why) = addresses::needs_all(asked, &list) {
        return no(why);
    }
    let why = match isolated {
        Some(why) => Cow::from(format!("{why}, so all good NICs of the node")),
        None => reason(task),
    };
    let is_elsewhere = left.tcp && !asked.topology.provenance.is_this_system();
    let why = match interfaces.is_empty() {
        true if is_elsewhere => {
            let beside = if addresses::goes_with_interfaces(asked, &list) {
                " and `UCX_SOCKADDR_TLS_PRIORITY` is set"
            } else {
                ""
            };
            Cow::from(format!("{why}; on the node its IP interfaces are added{beside}"))
        }
        true => why,
        false => {
            let also = also_nics(asked, &rails, interfaces);
            Cow::from(format!("{why}, and the IP interfaces, which a list would hide{also}"))
        }
    };
    Answer::yes(list.join(","), why)
}

/// What the names of interfaces also mean that are called as NICs that have no place in the list; empty if none is.
fn also_nics(asked: &Asked, rails: &[RailIndex], interfaces: &[String]) -> String {
    let is_listed = |name: &str| rails.iter().any(|&rail| asked.node.rail(rail).name == *name);
    let is_nic = |name: &str| asked.topology.nics.iter().any(|nic| nic.name == *name);
    let names = interfaces.iter().map(String::as_str).filter(|name| is_nic(name) && !is_listed(name));
    match names_of(names).replace(',', " ") {
        none if none.is_empty() => none,
        names => format!("; from UCX 1.21 on {names} also means the NIC of that name"),
    }
}

/// Why a task must have the NICs of all rails: with its own alone it could not reach tasks on others.
fn isolated(asked: &Asked, of_step: &OfStep) -> Option<&'static str> {
    let mode = asked.evidence.present.get(REACHABILITY).map(String::as_str);
    match asked.prepared.wanted.fabric {
        Fabric::IsolatedRails => Some("the fabric's rails are isolated"),
        Fabric::Unsaid => of_step.subnets.hold_rails_apart(mode),
        Fabric::Routed => None,
    }
}

/// All that stands in the list; or why it has no place there.
///
/// Where each GPU with each of its NICs is too much, each has its best one: without any, UCX could not let a GPU send at
/// all.
fn items(
    asked: &Asked,
    rails: &[RailIndex],
    with_gpus: bool,
    interfaces: &[String],
) -> Result<Vec<String>, &'static str> {
    let nics: Vec<String> = rails.iter().map(|&rail| asked.node.rail(rail).to_string()).collect();
    let devices = |each: usize| if with_gpus { gpu_initiated(asked, rails, each) } else { Vec::new() };
    let tried = [usize::MAX, 1].map(|each| [&nics[..], &devices(each)].concat());
    let has_place = |list: &&Vec<String>| list.len() + interfaces.len() <= MAX_ITEMS;
    match tried.iter().find(has_place) {
        Some(list) => Ok([&list[..], interfaces].concat()),
        None if tried[1].len() <= MAX_ITEMS => {
            Err("the node has more IP interfaces than UCX reads in a list, which would hide the rest")
        }
        None => Err("the task has more devices than UCX reads in a list"),
    }
}

/// The devices of GPUs that send by themselves: each of the task's GPUs, by CUDA's number, with so many of its
/// own NICs at most.
///
/// The number is the GPU's in the program, cuDeviceGet's (src/uct/ib/mlx5/gdaki/gdaki.c
/// `uct_gdaki_fill_cuda_tl_devices`): it counts all GPUs that the program sees, also where a promise or a rank tells which
/// one it uses.  A NIC has such a device for its first port alone.
fn gpu_initiated(asked: &Asked, rails: &[RailIndex], each: usize) -> Vec<String> {
    let Asked { topology, node, task, .. } = asked;
    let nvidia = task.seen.iter().filter(|gpu| topology.gpu(**gpu).vendor == GpuVendor::Nvidia);
    let numbered = nvidia.enumerate().filter(|(_, gpu)| task.gpus.contains(gpu));
    let devices = numbered.flat_map(|(number, gpu)| {
        let own = node.gpus.get(gpu.0).map_or(&[][..], |gpu| &gpu.choices);
        let own = own.iter().map(|choice| choice.rail).filter(|rail| rails.contains(rail));
        let own = own.filter(|rail| node.rail(*rail).port == 1);
        own.take(each).map(move |rail| format!("cuda{number}-{}", node.rail(rail)))
    });
    devices.collect()
}

fn reason(task: &TaskPlacement) -> Cow<'static, str> {
    match (task.gpus.len(), task.rails.len()) {
        (1, 1) => Cow::from("its GPU's NIC"),
        (_, 1) => Cow::from("the NIC that all its GPUs share"),
        (1, many) => Cow::from(format!("the {many} NICs of its GPU")),
        (_, many) => Cow::from(format!(
            "the {many} NICs of its GPUs, of which UCX takes the nearest to the GPU in use"
        )),
    }
}

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
mod subnets;
pub(super) mod transports;

use super::claimed::{Claimed, Grammar, claimed_in, strongest, unless_claimed};
use super::template::names_of;
use super::wanted::{Fabric, Libraries};
use super::{Answer, Asked, Evidence, ReadFile, nccl};
use crate::placement::{NodePlacement, RailIndex, TaskPlacement};
use crate::topology::{GpuVendor, Topology};
use addresses::OfSite;
use interfaces::Interfaces;
use std::borrow::Cow;
use std::cell::OnceCell;
use subnets::Subnets;
use transports::Transports;

pub(super) use addresses::{ALL_DEVICES, PRIORITY, priority};
pub(super) use subnets::REACHABILITY;

pub(super) const NET_DEVICES: &str = "UCX_NET_DEVICES";
pub(super) const TLS: &str = "UCX_TLS";
/// Names a folder of the user's with a configuration file.
pub(super) const CONFIG_DIR: &str = "UCX_CONFIG_DIR";
/// libfabric's word for the list: its ucx provider sets `UCX_NET_DEVICES` to it, unless that is set (since 1.18:
/// prov/ucx/src/ucx_init.c `ucx_getinfo`).
pub(super) const OF_LIBFABRIC: &str = "FI_UCX_DEVICES";

/// What is found out once for all of a task's variables of UCX's.
#[derive(Default)]
pub(super) struct OfTask {
    /// the user's configuration files that are there, strongest first
    files: OnceCell<Vec<String>>,
    /// the list that is set
    list: OnceCell<String>,
}

impl OfTask {
    /// Takes down what is set: the list comes before the variables beside it.
    pub(super) fn note(&self, name: &str, value: &str) {
        if name == NET_DEVICES {
            self.list.get_or_init(|| value.to_string());
        }
    }
}

/// The site's configuration; UCX prefers the environment (src/ucs/config/parser.c `ucs_config_apply_config_vars`).
///
/// UCX reads, each over the one before: this, `<library's folder>/../etc/ucx/ucx.conf`, and the user's own files
/// ([`users_file`]).  We do not know which library a program will load, so we do not know the second.
const SITE: &str = "/etc/ucx/ucx.conf";
/// What the file is called in every folder.
const FILE: &str = "ucx.conf";

/// Items of a list, at most: a program with more of them aborts (src/ucp/core/ucp_context.c
/// `ucp_is_resource_in_device_list`, `ucs_assert_always`).
const MAX_ITEMS: usize = 64;

/// What all tasks share.
pub(super) struct Shared {
    /// why the site's file keeps us from setting the variable
    site: Option<Claimed>,
    /// what it says of connections by address
    addresses: OfSite,
    /// the interfaces of the node
    interfaces: Interfaces,
    /// the subnets of the rails
    subnets: Subnets,
}

/// Reads the site's file and the kernel's tables; `None` where no task gets a list.
pub(super) fn shared(
    topology: &Topology,
    node: &NodePlacement,
    wanted: bool,
    read: ReadFile,
) -> Option<Shared> {
    if !wanted || topology.gpus.is_empty() || node.rails.is_empty() {
        return None;
    }
    let site = claimed(read, SITE, NET_DEVICES);
    let interfaces = match site {
        Some(_) => Interfaces::Unknown,
        None => interfaces::read(read),
    };
    Some(Shared { site, addresses: OfSite::new(read), interfaces, subnets: Subnets::new(topology, node) })
}

/// Why a file keeps us from setting a variable; `None` if it does not.
fn claimed(read: ReadFile, file: &str, name: &str) -> Option<Claimed> {
    claimed_in(read, file, &[name], Grammar::Ini)
}

/// Why a file of the user's keeps us from setting a variable; we read it with the user's rights.
///
/// UCX reads `ucx.conf` at home, in the user's own folder and in the working directory, each over the one before, since
/// 1.12 (src/ucs/config/parser.c `ucs_config_parse_config_files`).
fn users_file(asked: &Asked, name: &str) -> Option<Claimed> {
    let Evidence { present, read } = &asked.evidence;
    let there = asked.ucx.files.get_or_init(|| {
        let variable = |name: &str| present.get(name).filter(|value| !value.is_empty());
        let folders = [CONFIG_DIR, nccl::HOME].into_iter().filter_map(variable);
        let files = [FILE.to_string()].into_iter().chain(folders.map(|folder| format!("{folder}/{FILE}")));
        files.filter(|file| read(file).is_some()).collect()
    });
    strongest(there.iter().map(|file| claimed(*read, file, name)))
}

/// The value or none, and why.
pub(super) fn net_devices<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let task = asked.task;
    let no = |why: &'static str| Some(Answer::no(why));
    if task.gpus.is_empty() {
        return no("a task without GPUs is left to UCX, which uses two NICs itself");
    }
    let Some(shared) = asked.prepared.ucx.as_ref().filter(|_| !task.rails.is_empty()) else {
        return no("no NIC of this node may be chosen");
    };
    if shared.site.is_some() {
        return strongest([users_file(asked, NET_DEVICES), shared.site.clone()]).map(Answer::left_to);
    }
    let left = transports::left(asked.evidence.present.get(TLS).map(String::as_str));
    if !left.rdma {
        return no("`UCX_TLS` leaves no transport that uses an RDMA device");
    }
    // what begins so lets libfabric choose
    if asked.users(OF_LIBFABRIC).is_some_and(|devices| !devices.starts_with("auto")) {
        return no("the user's `FI_UCX_DEVICES` chooses the device");
    }
    let users = || users_file(asked, NET_DEVICES);
    Some(unless_claimed(without_files(asked, shared, left), asked.judges_files(), users))
}

/// The same as if the user had no file.
fn without_files<'p>(asked: &Asked<'p, '_>, shared: &Shared, left: Transports) -> Answer<'p> {
    let (node, task) = (asked.node, asked.task);
    let no = |why: &'static str| Answer::no(why);
    let isolated = isolated(asked, shared);
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
    let interfaces: &[String] = match &shared.interfaces {
        _ if !left.tcp => &[],
        Interfaces::Known(names) => names,
        Interfaces::Unknown => {
            return no("the list would hide the node's IP interfaces, which are not known");
        }
    };
    let with_gpus = left.gpu_initiated || asked.prepared.wanted.libraries.has(Libraries::UCX_GDA);
    let list = match items(asked, &rails, with_gpus, interfaces) {
        Ok(list) => list,
        Err(why) => return no(why),
    };
    if let Some(why) = addresses::needs_all(asked, &shared.addresses, &list) {
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
fn isolated(asked: &Asked<'_, '_>, shared: &Shared) -> Option<&'static str> {
    let mode = asked.evidence.present.get(REACHABILITY).map(String::as_str);
    match asked.prepared.wanted.fabric {
        Fabric::IsolatedRails => Some("the fabric's rails are isolated"),
        Fabric::Unsaid => shared.subnets.hold_rails_apart(mode),
        Fabric::Routed => None,
    }
}

/// All that stands in the list; or why it has no place there.
///
/// Where each GPU with each of its NICs is too much, each has its best one: without any, UCX could not let a GPU send at
/// all.
fn items(
    asked: &Asked<'_, '_>,
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
fn gpu_initiated(asked: &Asked<'_, '_>, rails: &[RailIndex], each: usize) -> Vec<String> {
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

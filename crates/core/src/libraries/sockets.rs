//! `env=sockets`: the IP interface for the bootstrap of NCCL, NVSHMEM, Gloo and TensorPipe.
//!
//! By default NCCL and NVSHMEM take an interface `ib*`, else the first but `docker*` and `lo` (NCCL
//! 2.30: src/misc/socket.cc `ncclFindInterfaces`). Gloo and TensorPipe take the hostname's address,
//! which can be 127.0.1.1 (PyTorch's ProcessGroupGloo.cpp `createDefaultDevice`,
//! tensorpipe_agent.cpp `guessAddress`). The libraries read interface names differently:
//!
//! - NCCL 2.8 to 2.30: `=eth0` is a whole name, `eth0` a prefix (src/misc/socket.cc, since 2.30
//!   src/os/linux.cc `ncclOsFindInterfaces`). Without RDMA the interface also carries NCCL's data.
//! - NVSHMEM: NCCL's parser, IPv4 by default
//!   (src/modules/bootstrap/uid/ncclSocket/ncclsocket_socket.cpp). If NVSHMEM's variable is unset,
//!   PyTorch copies NCCL's value to it (c10d's `maybe_initialize_env_vars`).
//! - Gloo: whole names; PyTorch spreads traffic over all of them (c10d/init.cpp;
//!   gloo/transport/tcp/device.cc).
//! - TensorPipe: one whole name (tensorpipe/transport/uv/context_impl.cc `lookupAddrForIface`).
//!
//! Slurm gives a step srun's address (`SLURM_SRUN_COMM_HOST`, 22.05 to 26.11:
//! src/slurmd/slurmd/req.c `_rpc_launch_tasks`), but in no release the address of the step's node.
//! In a batch job srun runs on the first node. We take the interface of the main routing table's
//! route to srun, which Slurm's traffic uses.

use super::ucx::interfaces::{LOOPBACK, ROUTES, is_bridge, is_running, stands_for_an_address};
use super::{Answer, Library, Query, ReadFile, files::Files, nccl};
use crate::topology::network::Ipv4Route;
use crate::topology::{DeviceName, GpuVendor, Nic, NicRole, Topology};
use crate::wish::Wish;
use std::net::{IpAddr, Ipv4Addr};

pub const LIBRARY: Library = Library {
    name: "sockets",
    word: "sockets",
    variables: &[
        (NCCL, nccl),
        ("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", nvshmem),
        ("GLOO_SOCKET_IFNAME", whole_name),
        ("TP_SOCKET_IFNAME", whole_name),
    ],
    evidence: &[
        "NCCL_IB_DISABLE",
        NET,
        COMM_ID,
        "NCCL_SOCKET_FAMILY",
        "NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY",
    ],
    files: Some(&FILES),
    doubtful: "GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME",
    uniform: "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME GLOO_* TP_*",
    ..Library::NONE
};

const NCCL: &str = "NCCL_SOCKET_IFNAME";
/// NCCL's network; `Socket` (ignoring case) means IP.
const NET: &str = "NCCL_NET";
/// NCCL takes the interface on this address's network.
const COMM_ID: &str = "NCCL_COMM_ID";
const IPV6: &str = "AF_INET6";
const OTHER_FAMILY: &str =
    "the user wants an address of IPv6, and the interface is known by its IPv4 route";

const FILES: Files = Files {
    variables: &[NCCL],
    matter: |_, wish, _| is_wanted(wish),
    ..nccl::FILES
};

/// An interface and its reason, or the reason for none.
pub(super) type Interface = Result<(String, &'static str), &'static str>;

/// True if a wanted variable, or a template, needs the interface.
pub fn is_wanted(wish: &Wish) -> bool {
    let has = |(name, _): &(&str, _)| wish.wants(name, LIBRARY.word, None);
    let templates = &wish.admin.templates;
    LIBRARY.variables.iter().any(has) || templates.iter().any(|of| of.has_interface())
}

/// The interface of the kernel's route to srun; of the default route if srun's address is unknown,
/// IPv6 or a loopback.
pub fn interface(node: &Topology, srun: Option<&str>, read: ReadFile) -> Interface {
    let table = read(ROUTES)
        .filter(|table| !table.is_cut)
        .ok_or("the node's routes are not known")?;
    let routes = || table.text.lines().filter_map(Ipv4Route::of_line);
    // only default routes match 0.0.0.0
    let srun = srun.and_then(ipv4).unwrap_or(Ipv4Addr::UNSPECIFIED);
    let has_gateway = |name: &str| routes().any(|of| of.interface == name && of.has_gateway());
    let may_be_used = |route: &Ipv4Route| {
        let name = route.interface;
        srun & route.mask == route.destination
            && stands_for_an_address(route)
            && DeviceName::is_one(name)
            && name != LOOPBACK
            && !carries_storage(node, name)
            && is_running(read, name) != Some(false)
            // a bridge without a route to a gateway connects only containers
            && (has_gateway(name) || !is_bridge(read, name))
    };
    let routes = routes().filter(may_be_used);
    let best = routes.min_by_key(|route| (route.mask.to_bits().count_zeros(), route.metric));
    match best {
        Some(best) => {
            let why = if best.mask.is_unspecified() {
                "the interface of this node's default route"
            } else {
                "the interface by which this node reaches srun"
            };
            Ok((best.interface.to_string(), why))
        }
        None if node.provenance.is_this_system() => {
            Err("no IPv4 route of this node tells its interface")
        }
        None => Err("the interface is known on the node alone"),
    }
}

/// `None` for IPv6 and loopback addresses. Slurm can write IPv4 as IPv4-mapped IPv6.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    match text.parse::<IpAddr>().ok()?.to_canonical() {
        IpAddr::V4(address) if !address.is_loopback() => Some(address),
        _ => None,
    }
}

/// True for a storage NIC's interface, or a VLAN on one.
fn carries_storage(node: &Topology, interface: &str) -> bool {
    let is_on = |netdev: &String| {
        let rest = interface.strip_prefix(netdev.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let is_storage = |nic: &&Nic| nic.role == Some(NicRole::Storage);
    node.nics
        .iter()
        .filter(is_storage)
        .flat_map(|nic| &nic.netdevs)
        .any(is_on)
}

fn named(query: &Query, mark: &str) -> Answer {
    match &query.prepared.interface {
        Ok((name, why)) => Answer::yes(format!("{mark}{name}"), *why),
        Err(why) => Answer::no(*why),
    }
}

fn whole_name(query: &Query) -> Option<Answer> {
    Some(named(query, ""))
}

/// No value if NCCL's data go over IP: NCCL would use one interface instead of all.
fn nccl(query: &Query) -> Option<Answer> {
    let node = query.node;
    if node.gpus.is_empty() {
        return None;
    }
    let users = |name: &str| query.users(name).unwrap_or_default();
    let answer = named(query, "=").unless(&[
        (
            query.map.rails.is_empty() && !node.is_left_to_libfabric(),
            "no NIC of this node but by sockets may carry NCCL's data, and these go by all interfaces",
        ),
        (
            !["", "0"].contains(&users("NCCL_IB_DISABLE")) || users(NET).eq_ignore_ascii_case("socket"),
            "the user's NCCL sends its data by sockets, and these go by all interfaces",
        ),
        (!users(COMM_ID).is_empty(), "the user's `NCCL_COMM_ID` leads to the interface"),
        (users("NCCL_SOCKET_FAMILY") == IPV6, OTHER_FAMILY),
    ]);
    Some(query.unless_in_files(&FILES, NCCL, answer))
}

fn nvshmem(query: &Query) -> Option<Answer> {
    let family = query.users("NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY");
    let answer = named(query, "=").unless(&[(family == Some(IPV6), OTHER_FAMILY)]);
    query.has_gpu_of(GpuVendor::Nvidia).then_some(answer)
}

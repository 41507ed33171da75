//! Sockets: the interface by which the processes of NCCL, NVSHMEM, Gloo and TensorPipe meet, on request (`env=sockets`).
//!
//! Without it NCCL and NVSHMEM take an interface that begins with `ib`, then the first one that is neither docker's nor `lo`
//! (NCCL 2.30: src/misc/socket.cc `ncclFindInterfaces`); Gloo and TensorPipe the address of the host's name, which can be
//! 127.0.1.1 (PyTorch's ProcessGroupGloo.cpp `createDefaultDevice`, tensorpipe_agent.cpp `guessAddress`).  Each has its own
//! parser:
//!
//! - NCCL 2.8 to 2.30: `=eth0` is the whole name, `eth0` a beginning (src/misc/socket.cc, since 2.30 src/os/linux.cc
//!   `ncclOsFindInterfaces`).  RDMA NICs are told of each other by it, and without any it carries the data.
//! - NVSHMEM: NCCL's parser, IPv4 unless the user says otherwise (src/modules/bootstrap/uid/ncclSocket/ncclsocket_socket.cpp).
//!   PyTorch copies NCCL's into it if it is not set (c10d's `maybe_initialize_env_vars`).
//! - Gloo: whole names; PyTorch makes a device for each, and spreads traffic over them (c10d/init.cpp;
//!   gloo/transport/tcp/device.cc).
//! - TensorPipe: one whole name (tensorpipe/transport/uv/context_impl.cc `lookupAddrForIface`).
//!
//! No release of Slurm tells a step which address of its node Slurm uses, but slurmd writes srun's into each step
//! (`SLURM_SRUN_COMM_HOST`, 22.05 to 26.11: src/slurmd/slurmd/req.c `_rpc_launch_tasks`).  The route to it leaves by the
//! interface that Slurm's answers take, and srun runs on the job's first node in a batch job.  Not seen: rules that choose
//! another table than the main one, and IPv6, where the default route of IPv4 counts.
#![forbid(unsafe_code)]

use super::files::Files;
use super::nccl;
use super::ucx::interfaces::{LOOPBACK, ROUTES, is_bridge, is_running, stands_for_an_address};
use super::{Answer, Library, Query, ReadFile};
use crate::topology::network::Ipv4Route;
use crate::topology::{DeviceName, GpuVendor, NicRole, Topology};
use crate::wish::Wish;
use std::net::{IpAddr, Ipv4Addr};

pub(super) const LIBRARY: Library = Library {
    name: "sockets",
    word: "sockets",
    variables: &[
        (NCCL, nccl),
        (NVSHMEM, nvshmem),
        (GLOO, whole_name),
        (TENSORPIPE, whole_name),
    ],
    evidence: &[IB_DISABLE, NET, COMM_ID, FAMILY, NVSHMEM_FAMILY],
    files: Some(&FILES),
    doubtful: "GLOO_SOCKET_IFNAME TP_SOCKET_IFNAME",
    uniform: "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME GLOO_* TP_*",
    ..Library::NONE
};

const NCCL: &str = "NCCL_SOCKET_IFNAME";
const NVSHMEM: &str = "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME";
const GLOO: &str = "GLOO_SOCKET_IFNAME";
const TENSORPIPE: &str = "TP_SOCKET_IFNAME";
/// Takes the RDMA NICs away from NCCL.
const IB_DISABLE: &str = "NCCL_IB_DISABLE";
/// Names the transport of NCCL's data, in any case of its letters: `Socket`.
const NET: &str = "NCCL_NET";
/// An address of one process: NCCL takes an interface of its network.
const COMM_ID: &str = "NCCL_COMM_ID";
const FAMILY: &str = "NCCL_SOCKET_FAMILY";
const NVSHMEM_FAMILY: &str = "NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY";
const IPV6: &str = "AF_INET6";
const OTHER_FAMILY: &str =
    "the user wants an address of IPv6, and the interface is known by its IPv4 route";

/// NCCL's, where sites often name the interface.
const FILES: Files = Files {
    variables: &[NCCL],
    matter: |_, wish, _| is_wanted(wish),
    ..nccl::FILES
};

/// An interface and its reason, or the reason for none.
pub(super) type Interface = Result<(String, &'static str), &'static str>;

/// Is it wanted, by one of the variables or by a template?
pub(super) fn is_wanted(wish: &Wish) -> bool {
    let has = |(name, _): &(&str, _)| wish.wants(name, LIBRARY.word, None);
    LIBRARY.variables.iter().any(has)
        || wish
            .admin
            .templates
            .iter()
            .any(|template| template.has_interface())
}

/// The interface of the most specific route to srun, as the kernel chooses; of the default route without an address that other nodes
/// have.
pub(super) fn interface(topology: &Topology, srun: Option<&str>, read: ReadFile) -> Interface {
    let table = read(ROUTES)
        .filter(|table| !table.is_cut)
        .ok_or("the node's routes are not known")?;
    let routes = || table.text.lines().filter_map(Ipv4Route::of_line);
    // 0.0.0.0 is in the networks of default routes alone
    let srun = srun.and_then(ipv4).unwrap_or(Ipv4Addr::UNSPECIFIED);
    let has_gateway =
        |name: &str| routes().any(|route| route.interface == name && route.has_gateway());
    let may_be_used = |route: &Ipv4Route| {
        let name = route.interface;
        DeviceName::is_one(name)
            && name != LOOPBACK
            && !carries_storage(topology, name)
            && is_running(read, name) != Some(false)
            // a bridge with a gateway behind it is the node's own network
            && (has_gateway(name) || !is_bridge(read, name))
    };
    let leads_there = |route: &Ipv4Route| srun & route.mask == route.destination;
    let ways = routes()
        .filter(leads_there)
        .filter(stands_for_an_address)
        .filter(may_be_used);
    let way = ways.min_by_key(|route| (route.mask.to_bits().count_zeros(), route.metric));
    match way {
        Some(way) if way.mask.is_unspecified() => Ok((
            way.interface.to_string(),
            "the interface of this node's default route",
        )),
        Some(way) => Ok((
            way.interface.to_string(),
            "the interface by which this node reaches srun",
        )),
        None if topology.provenance.is_this_system() => {
            Err("no IPv4 route of this node tells its interface")
        }
        None => Err("the interface is known on the node alone"),
    }
}

/// An address that other nodes have, as Slurm writes it.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let address = match text.parse().ok()? {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    };
    address.filter(|address| !address.is_loopback())
}

/// Is it an interface of a NIC for storage, or a VLAN on one?
fn carries_storage(topology: &Topology, interface: &str) -> bool {
    let is_on = |netdev: &String| {
        let rest = interface.strip_prefix(netdev.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let storage = topology
        .nics
        .iter()
        .filter(|nic| nic.role == Some(NicRole::Storage));
    storage.flat_map(|nic| &nic.netdevs).any(is_on)
}

/// The interface behind a mark.
fn named(query: &Query, mark: &str) -> Answer {
    match &query.prepared.interface {
        Ok((name, why)) => Answer::yes(format!("{mark}{name}"), *why),
        Err(why) => Answer::no(*why),
    }
}

fn whole_name(query: &Query) -> Option<Answer> {
    Some(named(query, ""))
}

/// The whole name; none if NCCL's data go by sockets, which would lose all other interfaces.
fn nccl(query: &Query) -> Option<Answer> {
    let Query { topology, node, .. } = query;
    if topology.gpus.is_empty() {
        return None;
    }
    let users = |name: &str| query.users(name).map(String::as_str).unwrap_or_default();
    let has_other_nics = !node.rails.is_empty() || topology.is_left_to_libfabric();
    let is_told_sockets =
        !matches!(users(IB_DISABLE), "" | "0") || users(NET).eq_ignore_ascii_case("socket");
    let answer = named(query, "=").unless(&[
        (
            !has_other_nics,
            "no NIC of this node but by sockets may carry NCCL's data, and these go by all interfaces",
        ),
        (is_told_sockets, "the user's NCCL sends its data by sockets, and these go by all interfaces"),
        (!users(COMM_ID).is_empty(), "the user's `NCCL_COMM_ID` leads to the interface"),
        (users(FAMILY) == IPV6, OTHER_FAMILY),
    ]);
    Some(query.unless_in_files(&FILES, NCCL, answer))
}

fn nvshmem(query: &Query) -> Option<Answer> {
    let is_ipv6 = query
        .users(NVSHMEM_FAMILY)
        .is_some_and(|family| family == IPV6);
    query
        .has_gpu_of(GpuVendor::Nvidia)
        .then(|| named(query, "=").unless(&[(is_ipv6, OTHER_FAMILY)]))
}

//! Rails that do not reach each other by UCX's rules.
//!
//! UCX connects two InfiniBand ports only if their subnet prefixes are equal, and since 1.19 two RoCE ports only if the
//! routes to the other's address leave by the own interface, since 1.20.1 no other interface having a closer one
//! (src/uct/ib/base/ib_iface.c `uct_ib_iface_dev_addr_is_reachable`, `uct_ib_iface_roce_is_routable`; src/ucs/sys/netlink.c
//! `ucs_netlink_is_best_route`).  With a subnet for each rail a NIC reaches its own rail alone, whatever the switches
//! connect.
#![forbid(unsafe_code)]

use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::{LinkLayer, Network, Port, PortRef, SubnetPrefix, Topology};
use std::collections::BTreeSet;

/// With `all` UCX connects RoCE ports without asking for routes.
pub(super) const REACHABILITY: &str = "UCX_IB_ROCE_REACHABILITY_MODE";

/// A port's subnet: UCX connects ports of equal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subnet {
    InfiniBand(SubnetPrefix),
    Roce(Network),
    /// This port's own, which is not known.  UCX reads the routes of IPv6 and those of every table, a VRF's too (since 1.19:
    /// src/ucs/sys/netlink.c `ucs_netlink_init_routing_table_cache`), and we the main table of IPv4 alone.
    Unknown(PortRef),
}

/// Rails between which UCX connects no NICs.
pub(super) struct Separated {
    is_roce: bool,
    why: &'static str,
}

impl Separated {
    /// `None` if every two GPUs have a subnet in common, as with a NIC of each GPU on each of two planes.
    pub(super) fn new(topology: &Topology, node: &NodePlacement) -> Option<Separated> {
        let of_gpus: BTreeSet<Vec<Subnet>> = node
            .gpus
            .iter()
            .filter_map(|gpu| of_gpu(topology, node, gpu))
            .collect();
        let meet =
            |one: &[Subnet], other: &[Subnet]| one.iter().any(|subnet| other.contains(subnet));
        if of_gpus
            .iter()
            .all(|one| of_gpus.iter().all(|other| meet(one, other)))
        {
            return None;
        }
        let why = "the rails are on different subnets, between which UCX connects no NICs";
        Some(match of_gpus.iter().flatten().next()? {
            Subnet::InfiniBand(_) => Separated {
                is_roce: false,
                why,
            },
            Subnet::Roce(_) => Separated { is_roce: true, why },
            Subnet::Unknown(_) => Separated {
                is_roce: true,
                why: "the rails have addresses whose networks are not in the main table of IPv4 routes, and UCX connects no NICs \
                      of different ones",
            },
        })
    }

    /// The reason for no connection, with this value of [`REACHABILITY`].
    pub(super) fn why(&self, mode: Option<&str>) -> Option<&'static str> {
        let asks_no_route =
            self.is_roce && mode.is_some_and(|mode| mode.trim().eq_ignore_ascii_case("all"));
        (!asks_no_route).then_some(self.why)
    }
}

/// The subnets of a GPU's own NICs; `None` without a NIC, or if InfiniBand's prefix could not be read.  A RoCE interface without an IPv4
/// address is on none.
fn of_gpu(topology: &Topology, node: &NodePlacement, gpu: &GpuPlacement) -> Option<Vec<Subnet>> {
    let ports = gpu.choices.iter().filter_map(|choice| {
        let at = node.rail(choice.rail).at();
        Some((at, topology.port(at)?))
    });
    let ports: Vec<(PortRef, &Port)> = ports.collect();
    let found: Vec<Subnet> = ports
        .iter()
        .flat_map(|(at, port)| of_port(*at, port))
        .collect();
    let is_known = !found.is_empty()
        || ports
            .iter()
            .any(|(_, port)| port.link_layer == LinkLayer::Ethernet);
    is_known.then_some(found)
}

/// RoCE's networks that hold no narrower one: UCX takes the closest route.
fn of_port(at: PortRef, port: &Port) -> Vec<Subnet> {
    match port.link_layer {
        LinkLayer::Ethernet if port.networks.is_empty() && port.routes_elsewhere => {
            vec![Subnet::Unknown(at)]
        }
        LinkLayer::InfiniBand => port.subnet.map(Subnet::InfiniBand).into_iter().collect(),
        LinkLayer::Ethernet => {
            let is_wider = |one: &Network| {
                port.networks
                    .iter()
                    .any(|other| other != one && one.contains(*other))
            };
            port.networks
                .iter()
                .filter(|one| !is_wider(one))
                .map(|one| Subnet::Roce(*one))
                .collect()
        }
        LinkLayer::Unknown => Vec::new(),
    }
}

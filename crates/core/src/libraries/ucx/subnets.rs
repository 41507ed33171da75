//! Rails that UCX does not connect with each other.
//!
//! UCX connects InfiniBand ports of equal subnet prefixes. Since 1.19 UCX connects RoCE ports only
//! if the route to the peer's address leaves by the port's interface, since 1.20.1 only if no other
//! interface has a closer route (src/uct/ib/base/ib_iface.c `uct_ib_iface_dev_addr_is_reachable`,
//! `uct_ib_iface_roce_is_routable`; src/ucs/sys/netlink.c `ucs_netlink_is_best_route`). With a
//! subnet for each rail a NIC reaches only its own rail, whatever the switches connect.

use crate::placement::{GpuPlacement, NodePlacement};
use crate::topology::{LinkLayer, Network, Port, PortRef, SubnetPrefix, Topology};
use std::collections::BTreeSet;

/// `all` connects RoCE ports whatever the routes.
pub const REACHABILITY: &str = "UCX_IB_ROCE_REACHABILITY_MODE";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subnet {
    InfiniBand(SubnetPrefix),
    Roce(Network),
    /// a port without a network in IPv4's main table, the only table in `Topology`; UCX also reads
    /// tables of IPv6 and VRFs (since 1.19: src/ucs/sys/netlink.c
    /// `ucs_netlink_init_routing_table_cache`)
    Unknown(PortRef),
}

pub(super) struct Separated {
    is_roce: bool,
    why: &'static str,
}

impl Separated {
    /// `None` if every two GPUs share a subnet, such as GPUs with a NIC on each of two planes.
    pub fn new(node: &Topology, map: &NodePlacement) -> Option<Separated> {
        let of_gpus = map.gpus.iter().filter_map(|gpu| of_gpu(node, map, gpu));
        let of_gpus: BTreeSet<Vec<Subnet>> = of_gpus.collect();
        let meets = |one: &[Subnet]| {
            let mut others = of_gpus.iter();
            others.all(|other| one.iter().any(|subnet| other.contains(subnet)))
        };
        if of_gpus.iter().all(|one| meets(one)) {
            return None;
        }
        let first = of_gpus.iter().flatten().next()?;
        Some(Separated {
            is_roce: !matches!(first, Subnet::InfiniBand(_)),
            why: match first {
                Subnet::Unknown(_) => {
                    "the rails have addresses whose networks are not in the main table of IPv4 routes, and UCX connects no NICs \
                     of different ones"
                }
                _ => "the rails are on different subnets, between which UCX connects no NICs",
            },
        })
    }

    /// `None` if `mode`, the value of [`REACHABILITY`], connects the rails.
    pub fn why(&self, mode: Option<&str>) -> Option<&'static str> {
        let is_all = mode.is_some_and(|mode| mode.trim().eq_ignore_ascii_case("all"));
        (!self.is_roce || !is_all).then_some(self.why)
    }
}

/// The subnets of a GPU's NICs, empty for RoCE without an address; `None` without NICs, or with
/// only InfiniBand ports of unknown prefix.
fn of_gpu(node: &Topology, map: &NodePlacement, gpu: &GpuPlacement) -> Option<Vec<Subnet>> {
    let (mut found, mut has_ethernet) = (Vec::new(), false);
    for choice in &gpu.choices {
        let at = map.rail(choice.rail).at();
        if let Some(port) = node.port(at) {
            found.extend(of_port(at, port));
            has_ethernet |= port.link_layer == LinkLayer::Ethernet;
        }
    }
    (has_ethernet || !found.is_empty()).then_some(found)
}

/// The port's subnets, without a RoCE network that contains another: UCX takes the closest route.
fn of_port(at: PortRef, port: &Port) -> Vec<Subnet> {
    let networks = &port.networks;
    match port.link_layer {
        LinkLayer::Ethernet if networks.is_empty() && port.routes_elsewhere => {
            vec![Subnet::Unknown(at)]
        }
        LinkLayer::InfiniBand => port.subnet.map(Subnet::InfiniBand).into_iter().collect(),
        LinkLayer::Ethernet => {
            let is_wider = |one: &Network| networks.iter().any(|of| of != one && one.contains(*of));
            let closest = networks.iter().filter(|one| !is_wider(one));
            closest.copied().map(Subnet::Roce).collect()
        }
        LinkLayer::Unknown => Vec::new(),
    }
}

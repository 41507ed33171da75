//! Which NICs carry the node's default route and its IPv4 networks, from `/proc/net/route`, `/proc/net/ipv6_route`
//! (Documentation/filesystems/proc.rst in the kernel's tree) and what stands below bonds and VLANs in `/sys/class/net`; and
//! which ports have addresses beside these, from their GIDs, or no interface here.
#![forbid(unsafe_code)]

use super::nic::{RdmaDevice, is_active_ethernet};
use super::{Discovery, Root, number};
use nic_placement_topology::file::MAX_NETWORKS;
use nic_placement_topology::network::{Ipv4Route, is_usable};
use nic_placement_topology::{DeviceName, Network, Nic, NicKind, Port};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

const IPV4: &str = "proc/net/route";
const IPV6: &str = "proc/net/ipv6_route";
const NET: &str = "sys/class/net";
/// Interfaces looked at for one route, at most: a bridge can have hundreds of a container runtime's below it.
const MAX_BELOW: usize = 256;

impl Discovery<'_> {
    pub(super) fn routes(&mut self, devices: &[RdmaDevice]) {
        if devices.is_empty() {
            return;
        }
        let Tables {
            default,
            networks,
            dropped,
            is_there,
            ..
        } = tables(self.root);
        if dropped > 0 {
            self.report(
                IPV4,
                format!("{dropped} networks more than the {MAX_NETWORKS} that are kept"),
            );
        }
        for interface in default.interfaces {
            self.mark_ports(devices, &interface, |port| {
                port.default_route = Some(interface.clone())
            });
        }
        for (interface, networks) in networks {
            self.mark_ports(devices, &interface, |port| port.networks.extend(&networks));
        }
        if is_there {
            self.routes_elsewhere(devices);
        }
    }

    /// Marks the RoCE ports whose interface has an address but no network in the main IPv4 table: its addresses are
    /// IPv6's, or its routes are in a table of their own, as a VRF's.  UCX goes by these routes too.
    ///
    /// The kernel makes a port's GIDs of its interfaces' addresses (drivers/infiniband/core/roce_gid_mgmt.c).
    fn routes_elsewhere(&mut self, devices: &[RdmaDevice]) {
        /// Two for each address, as of RoCE v1 and v2: the two of the link alone come first, and are no reason.
        const GIDS: u32 = 8;
        let root = self.root;
        for RdmaDevice { index, parent } in devices {
            let nic = self
                .topology
                .nics
                .get_mut(*index)
                .filter(|nic| nic.kind == NicKind::Verbs);
            let Some(Nic { name, ports, .. }) = nic else {
                continue;
            };
            for port in ports
                .iter_mut()
                .filter(|port| is_active_ethernet(port) && port.networks.is_empty())
            {
                let place = format!("{parent}/infiniband/{name}/ports/{}", port.number);
                port.other_namespace = is_of_another_namespace(root, parent, &place);
                // those of another namespace are no addresses of this one
                let mut gids =
                    (0..GIDS).filter_map(|index| root.read(&format!("{place}/gids/{index}")));
                port.routes_elsewhere =
                    !port.other_namespace && gids.any(|gid| leads_beyond_the_link(&gid));
            }
        }
    }

    /// Changes each port whose interface this is, or stands below it.
    fn mark_ports(&mut self, devices: &[RdmaDevice], interface: &str, mark: impl Fn(&mut Port)) {
        let mut names = vec![interface.to_string()];
        let mut next = 0;
        while let Some(name) = names.get(next).cloned() {
            next += 1;
            // …/0000:18:00.0/net/ibp24s0; bonds, VLANs and bridges stand below devices/virtual
            let Some(path) = self.root.follow(&format!("{NET}/{name}")) else {
                continue;
            };
            let parent = path.rsplit_once("/net/").map(|(parent, _)| parent);
            let mut own = devices
                .iter()
                .filter(|device| Some(device.parent.as_str()) == parent)
                .peekable();
            // a virtual machine's interface can be one above a NIC of its own too: Hyper-V's, Azure's, over the virtual function
            // that carries its traffic (drivers/net/hyperv/netvsc_drv.c, `netvsc_vf_join`), and virtio's over its standby's primary
            if path.contains("/virtual/") || own.peek().is_none() {
                let below = self.root.list(&path, |name| name.starts_with("lower_"));
                for name in below.iter().filter_map(|name| name.strip_prefix("lower_")) {
                    if names.len() < MAX_BELOW && !names.iter().any(|known| known == name) {
                        names.push(name.to_string());
                    }
                }
                continue;
            }
            for device in own {
                let nic = self.topology.nics.get_mut(device.index);
                if let Some(port) = nic.and_then(|nic| port(self.root, nic, &path)) {
                    mark(port);
                }
            }
        }
    }
}

/// True if the interface that a port's first GID names is in another network namespace.
///
/// By default all namespaces see an RDMA device (rdma-system(8), "netns shared"), but one sees its interface: an
/// interface given to a container leaves the device here, active and with the container's addresses as its GIDs.
fn is_of_another_namespace(root: &Root, parent: &str, port: &str) -> bool {
    let interface = root.read(&format!("{port}/gid_attrs/ndevs/0"));
    interface.is_some_and(|interface| {
        // a bond's is none of the device's own; and a capture may lack the class
        DeviceName::is_one(&interface)
            && root.follow(&format!("{NET}/{interface}")).is_none()
            && root.list(&format!("{parent}/net"), |_| true).is_empty()
    })
}

/// True if a GID of RoCE is an address that is valid beyond the link.  `0000:0000:0000:0000:0000:ffff:0a00:0101` is
/// 10.0.1.1.
fn leads_beyond_the_link(gid: &str) -> bool {
    let Ok(address) = gid.parse::<Ipv6Addr>() else {
        return false;
    };
    match address.to_ipv4_mapped() {
        Some(address) => !address.is_link_local(),
        None => !address.is_unspecified() && !address.is_unicast_link_local(),
    }
}

/// The routing tables.  Routes through gateways and to single hosts are not kept: a node can have one for each pod.
#[derive(Debug, Default)]
struct Tables {
    /// false if there is no table of IPv4, which a capture may lack
    is_there: bool,
    default: DefaultRoute,
    networks: BTreeMap<String, BTreeSet<Network>>,
    /// number of networks in `networks`
    kept: usize,
    /// number of routes to other networks, for which there was no room
    dropped: usize,
}

/// The default route with the least metric counts, as for the kernel.
#[derive(Debug, Default)]
struct DefaultRoute {
    metric: u32,
    interfaces: BTreeSet<String>,
}

impl DefaultRoute {
    fn add(&mut self, (metric, interface): (u32, String)) {
        if self.interfaces.is_empty() || metric < self.metric {
            *self = DefaultRoute {
                metric,
                interfaces: BTreeSet::new(),
            };
        }
        if metric == self.metric {
            self.interfaces.insert(interface);
        }
    }
}

/// Reads the tables.  The IPv6 default route counts only without an IPv4 one: routers announce themselves on every
/// interface.
fn tables(root: &Root) -> Tables {
    let mut tables = Tables::default();
    root.lines(IPV4, |line| {
        tables.is_there = true;
        let Some(route) = Ipv4Route::of_line(line) else {
            return;
        };
        let Some(interface) = plain(route.interface) else {
            return;
        };
        if let Some(network) = network_of(&route) {
            if tables.kept >= MAX_NETWORKS {
                tables.dropped += 1;
            } else if tables
                .networks
                .entry(interface)
                .or_default()
                .insert(network)
            {
                tables.kept += 1;
            }
        } else if route.is_usable()
            && route.mask.is_unspecified()
            && route.destination.is_unspecified()
        {
            tables.default.add((route.metric, interface));
        }
    });
    if tables.default.interfaces.is_empty() {
        root.lines(IPV6, |line| {
            ipv6_default(line)
                .into_iter()
                .for_each(|route| tables.default.add(route))
        });
    }
    tables
}

fn network_of(route: &Ipv4Route) -> Option<Network> {
    let (address, bits) = (
        route.destination,
        u32::from(route.mask).leading_ones() as u8,
    );
    let attached = route.is_usable() && !route.has_gateway() && (1..=31).contains(&bits);
    Network::new(address, bits).filter(|_| attached && !address.is_link_local())
}

/// Metric and interface of a default route: destination and its bits, source and its bits, gateway, metric, references, use,
/// flags, interface.
fn ipv6_default(line: &str) -> Option<(u32, String)> {
    let words: Vec<&str> = line.split_whitespace().take(10).collect();
    let &[destination, "00", _, _, _, metric, _, _, flags, interface] = words.as_slice() else {
        return None;
    };
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let (metric, flags) = (hex(metric)?, hex(flags)?);
    // every table ends with the kernel's own "no route"
    let usable = is_usable(flags) && interface != "lo" && destination.bytes().all(|b| b == b'0');
    Some((metric, plain(interface)?)).filter(|_| usable)
}

/// A name that can stand in a path and in a topology file; `*` is a route without an interface.
fn plain(interface: &str) -> Option<String> {
    DeviceName::is_one(interface).then(|| interface.to_string())
}

/// The port behind an interface: a NIC with several tells by `dev_port`, which counts from 0.
fn port<'a>(root: &Root, nic: &'a mut Nic, interface: &str) -> Option<&'a mut Port> {
    if nic.ports.len() <= 1 {
        return nic.ports.first_mut();
    }
    let number: u8 = number(root.read(&format!("{interface}/dev_port")))?;
    nic.ports
        .iter_mut()
        .find(|port| Some(port.number) == number.checked_add(1))
}

#[cfg(test)]
mod tests;

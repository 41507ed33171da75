//! Finds each port's default route and IPv4 networks, or whether its routes are in another table or
//! network namespace.
//!
//! Reads `/proc/net/route`, `/proc/net/ipv6_route` (the kernel's
//! Documentation/filesystems/proc.rst) and, for interfaces below bonds and VLANs, `/sys/class/net`.

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
/// Most interfaces for one route; a container runtime's bridge can have hundreds below it.
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
            let finding = format!("{dropped} networks more than the {MAX_NETWORKS} that are kept");
            self.report(IPV4, finding);
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

    /// For active RoCE ports without a network in the main IPv4 table, sets `other_namespace` if
    /// the interface is in another one. Otherwise sets `routes_elsewhere` if a GID is valid beyond
    /// the link: UCX also uses IPv6 routes and other tables, such as a VRF's.
    ///
    /// The kernel makes a port's GIDs from its interfaces' addresses
    /// (drivers/infiniband/core/roce_gid_mgmt.c).
    fn routes_elsewhere(&mut self, devices: &[RdmaDevice]) {
        /// GIDs to read: two for each address (RoCE v1 and v2), the link-local address first.
        const GIDS: u32 = 8;
        let root = self.root;
        for RdmaDevice { index, parent } in devices {
            let nic = self.node.nics.get_mut(*index);
            let Some(Nic { name, ports, .. }) = nic.filter(|nic| nic.kind == NicKind::Verbs) else {
                continue;
            };
            for port in ports {
                if !is_active_ethernet(port) || !port.networks.is_empty() {
                    continue;
                }
                let place = format!("{parent}/infiniband/{name}/ports/{}", port.number);
                port.other_namespace = is_of_another_namespace(root, parent, &place);
                let gids = (0..GIDS).map(|index| format!("{place}/gids/{index}"));
                let mut gids = gids.filter_map(|gid| root.read(&gid));
                port.routes_elsewhere =
                    !port.other_namespace && gids.any(|gid| leads_beyond_the_link(&gid));
            }
        }
    }

    /// Calls `mark` for each port of `interface`, or of the interfaces below it.
    fn mark_ports(&mut self, devices: &[RdmaDevice], interface: &str, mark: impl Fn(&mut Port)) {
        let mut names = vec![interface.to_string()];
        let mut next = 0;
        while let Some(name) = names.get(next).cloned() {
            next += 1;
            // …/0000:18:00.0/net/ibp24s0; bonds, VLANs and bridges are below devices/virtual
            let Some(path) = self.root.follow(&format!("{NET}/{name}")) else {
                continue;
            };
            let parent = path.rsplit_once("/net/").map(|(parent, _)| parent);
            let own = devices.iter();
            let own = own.filter(|device| Some(&*device.parent) == parent);
            let mut own = own.peekable();
            // a virtual function's interface can be below the interface of Hyper-V's NIC on Azure
            // (drivers/net/hyperv/netvsc_drv.c, `netvsc_vf_join`), or of virtio's with a standby
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
                let nic = self.node.nics.get_mut(device.index);
                if let Some(port) = nic.and_then(|nic| port(self.root, nic, &path)) {
                    mark(port);
                }
            }
        }
    }
}

/// True if the interface of a port's first GID is in another network namespace.
///
/// If an interface moves into a container, its RDMA device stays active here, with the container's
/// addresses as GIDs: by default all namespaces share RDMA devices (rdma-system(8), "netns
/// shared").
fn is_of_another_namespace(root: &Root, parent: &str, port: &str) -> bool {
    let interface = root.read(&format!("{port}/gid_attrs/ndevs/0"));
    interface.is_some_and(|interface| {
        // an interface of this namespace is in its PCI function's `net`, even if `ndevs/0` is a
        // bond or a capture lacks /sys/class/net
        DeviceName::is_one(&interface)
            && root.follow(&format!("{NET}/{interface}")).is_none()
            && root.list(&format!("{parent}/net"), |_| true).is_empty()
    })
}

/// True if a RoCE GID is an address valid beyond the link;
/// `0000:0000:0000:0000:0000:ffff:0a00:0101` is 10.0.1.1.
fn leads_beyond_the_link(gid: &str) -> bool {
    gid.parse()
        .is_ok_and(|address: Ipv6Addr| match address.to_ipv4_mapped() {
            Some(address) => !address.is_link_local(),
            None => !address.is_unspecified() && !address.is_unicast_link_local(),
        })
}

/// Default routes, and networks reached without a gateway. Other routes through gateways and routes
/// to single hosts are left out: a node can have one for each pod.
#[derive(Debug, Default)]
struct Tables {
    /// false if there is no IPv4 table, as in some captures
    is_there: bool,
    default: DefaultRoute,
    networks: BTreeMap<String, BTreeSet<Network>>,
    /// number of networks in `networks`
    kept: usize,
    /// number of routes beyond [`MAX_NETWORKS`]
    dropped: usize,
}

/// The default routes with the least metric; the kernel prefers these.
#[derive(Debug, Default)]
struct DefaultRoute {
    metric: u32,
    interfaces: BTreeSet<String>,
}

impl DefaultRoute {
    fn add(&mut self, metric: u32, interface: String) {
        if self.interfaces.is_empty() || metric < self.metric {
            self.interfaces.clear();
            self.metric = metric;
        }
        if metric == self.metric {
            self.interfaces.insert(interface);
        }
    }
}

/// IPv6's default route counts only if IPv4 has none, because IPv6 routers announce themselves on
/// every interface.
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
        let to_all = route.mask.is_unspecified() && route.destination.is_unspecified();
        if let Some(network) = network_of(&route) {
            if tables.kept >= MAX_NETWORKS {
                tables.dropped += 1;
            } else {
                let networks = tables.networks.entry(interface).or_default();
                tables.kept += usize::from(networks.insert(network));
            }
        } else if route.is_usable() && to_all {
            tables.default.add(route.metric, interface);
        }
    });
    if tables.default.interfaces.is_empty() {
        root.lines(IPV6, |line| {
            if let Some((metric, interface)) = ipv6_default(line) {
                tables.default.add(metric, interface);
            }
        });
    }
    tables
}

fn network_of(route: &Ipv4Route) -> Option<Network> {
    let bits = u32::from(route.mask).leading_ones() as u8;
    let attached = route.is_usable() && !route.has_gateway() && (1..=31).contains(&bits);
    let attached = attached && !route.destination.is_link_local();
    Network::new(route.destination, bits).filter(|_| attached)
}

/// Metric and interface of a default route. A line is destination and bits, source and bits,
/// gateway, metric, references, use, flags and interface.
fn ipv6_default(line: &str) -> Option<(u32, String)> {
    let words: Vec<&str> = line.split_whitespace().take(10).collect();
    let &[destination, "00", _, _, _, metric, _, _, flags, interface] = words.as_slice() else {
        return None;
    };
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let (metric, flags) = (hex(metric)?, hex(flags)?);
    // the kernel ends each table with "no route" on `lo`
    let usable = is_usable(flags) && interface != "lo" && destination.bytes().all(|b| b == b'0');
    Some((metric, plain(interface)?)).filter(|_| usable)
}

/// The interface, if its name fits paths and topology files; a route without interface has `*`.
fn plain(interface: &str) -> Option<String> {
    DeviceName::is_one(interface).then(|| interface.to_string())
}

/// The port of an interface: the NIC's only port, else by `dev_port`, which counts from 0.
fn port<'a>(root: &Root, nic: &'a mut Nic, interface: &str) -> Option<&'a mut Port> {
    if nic.ports.len() <= 1 {
        return nic.ports.first_mut();
    }
    let number: u8 = number(root.read(&format!("{interface}/dev_port")))?;
    let mut ports = nic.ports.iter_mut();
    ports.find(|port| Some(port.number) == number.checked_add(1))
}

#[cfg(test)]
mod tests;

//! Which NICs carry the node's default route and its IPv4 networks, from `/proc/net/route`, `/proc/net/ipv6_route`
//! (Documentation/filesystems/proc.rst in the kernel's tree) and what stands below bonds and VLANs in `/sys/class/net`.
#![forbid(unsafe_code)]

use super::nic::Found;
use super::{Root, number};
use crate::topology::{Network, Nic, Port, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

const NET: &str = "sys/class/net";
/// Interfaces looked at for one route, at most: a bridge can have hundreds of a container runtime's below it.
const MAX_BELOW: usize = 256;

/// Flags of a route (include/uapi/linux/route.h): usable, through a gateway, a refusal.
const UP: u32 = 0x1;
const GATEWAY: u32 = 0x2;
const REJECT: u32 = 0x200;

/// Marks the ports.  Of several default routes the one with the least metric counts, as for the kernel; the IPv6 one only
/// where there is no IPv4 one, since routers announce themselves on every interface.
pub(super) fn routes(root: &Root, topology: &mut Topology, found: &[Found]) {
    if found.is_empty() {
        return;
    }
    let table = root.read("proc/net/route").unwrap_or_default();
    let routes: Vec<Route> = table.lines().filter_map(ipv4).collect();
    let default = least(routes.iter().filter(|route| route.is_default()));
    let default = default.or_else(|| {
        let table = root.read("proc/net/ipv6_route")?;
        let routes: Vec<Route> = table.lines().filter_map(ipv6_default).collect();
        least(routes.iter())
    });
    let mut networks: BTreeMap<&str, BTreeSet<Network>> = BTreeMap::new();
    for route in &routes {
        if let Some(network) = route.network() {
            networks.entry(&route.interface).or_default().insert(network);
        }
    }
    for interface in default.into_iter().flatten() {
        for_each_port(root, topology, found, &interface, |port| port.default_route = Some(interface.clone()));
    }
    for (interface, networks) in networks {
        for_each_port(root, topology, found, interface, |port| port.networks.extend(&networks));
    }
}

struct Route {
    interface: String,
    destination: u32,
    mask: u32,
    flags: u32,
    metric: u32,
}

impl Route {
    fn is_default(&self) -> bool {
        self.mask == 0 && self.destination == 0 && self.flags & (UP | REJECT) == UP
    }

    /// The network that the interface itself is in.
    fn network(&self) -> Option<Network> {
        // printed as a number of this processor's, though it stands in memory in the network's order
        let [address, mask] = [self.destination, self.mask].map(|text| Ipv4Addr::from(text.to_ne_bytes()));
        let bits = u32::from(mask).leading_ones() as u8;
        let attached = self.flags & (UP | GATEWAY | REJECT) == UP && (1..=31).contains(&bits);
        Network::new(address, bits).filter(|_| attached && !address.is_link_local())
    }
}

/// `eth0 00000000 0101000A 0003 0 0 100 00000000 0 0 0`: interface, destination, gateway, flags, references, use, metric,
/// mask
fn ipv4(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let &[interface, destination, _, flags, _, _, metric, mask] = words.as_slice() else { return None };
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(Route {
        interface: plain(interface)?,
        destination: hex(destination)?,
        mask: hex(mask)?,
        flags: hex(flags)?,
        metric: metric.parse().ok()?,
    })
}

/// Destination and its bits, source and its bits, gateway, metric, references, use, flags, interface; only default routes
fn ipv6_default(line: &str) -> Option<Route> {
    let words: Vec<&str> = line.split_whitespace().take(10).collect();
    let &[destination, "00", _, _, _, metric, _, _, flags, interface] = words.as_slice() else { return None };
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let (metric, flags) = (hex(metric)?, hex(flags)?);
    // the kernel's own "no route" ends every table
    let usable = flags & (UP | REJECT) == UP && interface != "lo" && destination.bytes().all(|b| b == b'0');
    usable.then_some(Route { interface: plain(interface)?, destination: 0, mask: 0, flags, metric })
}

/// A name that can stand in a path and in a topology file; `*` is a route without an interface.
fn plain(interface: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let plain = interface.bytes().all(allowed) && !interface.starts_with(['.', '-']);
    plain.then(|| interface.to_string())
}

/// The interfaces of the routes with the least metric; `None` where there is no route.
fn least<'a>(routes: impl Iterator<Item = &'a Route> + Clone) -> Option<BTreeSet<String>> {
    let metric = routes.clone().map(|route| route.metric).min()?;
    Some(routes.filter(|route| route.metric == metric).map(|route| route.interface.clone()).collect())
}

/// Changes each port whose interface this is, or stands below it.
fn for_each_port(
    root: &Root,
    topology: &mut Topology,
    found: &[Found],
    interface: &str,
    change: impl Fn(&mut Port),
) {
    let mut names = vec![interface.to_string()];
    let mut next = 0;
    while let Some(name) = names.get(next).cloned() {
        next += 1;
        // …/0000:18:00.0/net/ibp24s0; bonds, VLANs and bridges stand below devices/virtual
        let Some(path) = root.follow(&format!("{NET}/{name}")) else { continue };
        if path.contains("/virtual/") {
            let below = root.list(&path, |name| name.starts_with("lower_"));
            for name in below.iter().filter_map(|name| name.strip_prefix("lower_")) {
                if names.len() < MAX_BELOW && !names.iter().any(|known| known == name) {
                    names.push(name.to_string());
                }
            }
            continue;
        }
        let Some((parent, _)) = path.rsplit_once("/net/") else { continue };
        for nic in found.iter().filter(|nic| nic.parent == parent) {
            if let Some(port) = topology.nics.get_mut(nic.index).and_then(|nic| port(root, nic, &path)) {
                change(port);
            }
        }
    }
}

/// The port behind an interface: a NIC with several tells by `dev_port`, which counts from 0.
fn port<'a>(root: &Root, nic: &'a mut Nic, interface: &str) -> Option<&'a mut Port> {
    if nic.ports.len() <= 1 {
        return nic.ports.first_mut();
    }
    let number: u8 = number(root.read(&format!("{interface}/dev_port")))?;
    nic.ports.iter_mut().find(|port| Some(port.number) == number.checked_add(1))
}

#[cfg(test)]
mod tests;

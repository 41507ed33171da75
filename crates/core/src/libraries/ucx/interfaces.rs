//! The IP interfaces that UCX's tcp transport uses.
//!
//! UCX uses interfaces that are up, running and have an address, `lo` too (UCX 1.11 to 1.22:
//! src/uct/tcp/tcp_iface.c `uct_tcp_query_devices`, src/ucs/sys/sock.c `ucs_netif_get_addr`); since
//! 1.16 no bridges (`uct_tcp_is_bridge`), since 1.22 no IPv4 link-local addresses. Of other
//! interfaces in a list UCX warns in every process.
//!
//! The kernel prints /proc/net's tables without the RTNL lock. getifaddrs(3) waits for that lock,
//! which a driver may hold while its firmware works.

use super::super::ReadFile;
use crate::order::Order;
use crate::topology::network::Ipv4Route;
use std::collections::BTreeMap;

/// IPv4's main routing table (the kernel's net/ipv4/fib_trie.c, `fib_route_seq_show`).
pub const ROUTES: &str = "/proc/net/route";
/// IPv6 addresses (the kernel's net/ipv6/addrconf.c, `if6_seq_show`).
const ADDRESSES: &str = "/proc/net/if_inet6";
const CLASS: &str = "/sys/class/net";
pub const LOOPBACK: &str = "lo";

/// Each interface costs two file reads, and execve(2) fails if a variable exceeds 128 KiB.
const MOST: usize = 1024;

/// The interfaces of this network namespace, sorted; `None` if some may be unknown.
pub fn read(read: ReadFile) -> Option<Vec<String>> {
    let routes = read(ROUTES)?;
    // a kernel without IPv6 has no such table
    let addresses = read(ADDRESSES).unwrap_or_default();
    let by_route = routes
        .text
        .lines()
        .filter_map(Ipv4Route::of_line)
        .filter(stands_for_an_address);
    let by_address = addresses.text.lines().filter_map(with_global_address);
    // by interface: true if a route through a gateway uses it
    let mut found: BTreeMap<&str, bool> = BTreeMap::new();
    for (name, has_gateway) in by_route
        .map(|route| (route.interface, route.has_gateway()))
        .chain(by_address.map(|name| (name, false)))
    {
        // a list cannot hold `,` or `^` in a name
        if name != LOOPBACK && !name.contains([',', '^']) {
            *found.entry(name).or_default() |= has_gateway;
        }
    }
    if routes.is_cut || addresses.is_cut || found.len() > MOST {
        return None;
    }
    // a bridge without a route to a gateway connects only containers
    found.retain(|name, has_gateway| {
        is_running(read, name) != Some(false) && (*has_gateway || !is_bridge(read, name))
    });
    let mut names: Vec<String> = found.into_keys().map(str::to_string).collect();
    if is_running(read, LOOPBACK) == Some(true) {
        names.push(LOOPBACK.to_string());
    }
    names.order();
    Some(names)
}

/// True if the route proves that its interface has an address.
///
/// A host route without gateway is no proof: container networks have such routes to interfaces
/// without addresses. An IPv6 next hop, printed as gateway 0, is no proof: with BGP unnumbered the
/// node's address is on `lo`. Link-local networks (169.254.0.0/16), such as a BMC's, do not count.
pub fn stands_for_an_address(route: &Ipv4Route) -> bool {
    let is_to_host_or_by_ipv6 = if route.has_gateway() {
        route.gateway.is_unspecified()
    } else {
        route.mask.is_broadcast()
    };
    route.is_usable() && !route.destination.is_link_local() && !is_to_host_or_by_ipv6
}

/// The name in `address index prefix scope flags name`, if the scope is global, 00
/// (net/ipv6/addrconf_core.c, `ipv6_addr_type`).
fn with_global_address(line: &str) -> Option<&str> {
    let mut columns = line.split_whitespace();
    columns.nth(3).filter(|scope| *scope == "00")?;
    columns.nth(1)
}

/// True for the states with IFF_RUNNING (net/core/dev.c `dev_get_flags`, `netif_oper_up`); `None`
/// without a readable state.
pub fn is_running(read: ReadFile, name: &str) -> Option<bool> {
    let state = read(&format!("{CLASS}/{name}/operstate"))?.text;
    match state.trim() {
        "" => None,
        state => Some(["up", "unknown"].contains(&state)),
    }
}

/// True for a bridge (net/bridge/br_device.c, `br_type`).
pub fn is_bridge(read: ReadFile, name: &str) -> bool {
    let facts = read(&format!("{CLASS}/{name}/uevent"));
    facts.is_some_and(|facts| facts.text.lines().any(|line| line == "DEVTYPE=bridge"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::tests::{cells, file_text};

    /// The interfaces of a node with these files; `unknown` where some may be missing.
    fn known(files: &[(&str, &str)]) -> String {
        let reader = |path: &str| {
            let (_, text) = files.iter().find(|(name, _)| *name == path)?;
            Some(file_text(text))
        };
        read(&reader).map_or("unknown".to_string(), |names| names.join(" "))
    }

    fn routed(lines: &[&str], more: &[(&str, &str)]) -> String {
        let table = format!("Iface\tDestination\tGateway\n{}\n", lines.join("\n"));
        let mut files = vec![(ROUTES, table.as_str())];
        files.extend(more);
        known(&files)
    }

    const DEFAULT: &str = "eth0 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0";
    const CONNECTED: &str = "ib0\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0";

    #[test]
    fn interfaces_are_those_with_an_address_that_are_up_and_no_bridge() {
        // each route with `;` behind it, a file below the interface's folder, and the names
        let bridge = "uevent=DEVTYPE=bridge";
        for row in [
            &format!("{CONNECTED}; {DEFAULT}; {CONNECTED}; odd; |  | eth0 ib0"),
            "old0 0000A8C0 00000000 0000 0 0 0 00FFFFFF |  | ",
            "eth0 0 0 0001 0 0 0 0 |  | eth0",
            // link-local
            "usb0 0000FEA9 00000000 0001 0 0 0 0000FFFF 0 0 0 |  | ",
            // a container's
            "cali7 0500F40A 00000000 0005 0 0 0 FFFFFFFF 0 0 0 |  | ",
            // `default via inet6 fe80::1 dev ens1`
            "ens1 00000000 00000000 0003 0 0 0 00000000 0 0 0 |  | ",
            // a list cannot hold these names
            &format!("{} |  | ", CONNECTED.replace("ib0", "lo")),
            &format!("{} |  | ", CONNECTED.replace("ib0", "a,b")),
            &format!("{} |  | ", CONNECTED.replace("ib0", "^a")),
            "docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0 |  | docker0",
            &format!("docker0 000011AC 00000000 0001 0 0 0 0000FFFF 0 0 0 | {bridge} | "),
            // the node's own network
            &format!("{DEFAULT} | {bridge} | eth0"),
            &format!("{CONNECTED} | uevent=INTERFACE=ib0\nIFINDEX=4\n | ib0"),
            &format!("{CONNECTED} | operstate=up\n | ib0"),
            &format!("{CONNECTED} | operstate=unknown\n | ib0"),
            &format!("{CONNECTED} | operstate=down\n | "),
            &format!("{CONNECTED} | operstate=lowerlayerdown\n | "),
        ] {
            let [lines, file, expected] = cells(row);
            let lines: Vec<&str> = lines.split("; ").collect();
            let (name, text) = file.split_once('=').unwrap_or(("none", ""));
            let (interface, _) = lines[0].split_once([' ', '\t']).unwrap();
            let path = format!("{CLASS}/{interface}/{name}");
            assert_eq!(routed(&lines, &[(&path, text)]), expected, "{row}");
        }
        assert_eq!(known(&[(ROUTES, "")]), "");
    }

    #[test]
    fn an_interface_may_have_ipv6_alone_and_the_loopback_is_one() {
        let addresses = "fd000000000000000000000000000002 04 40 00 82     eth1\n\
                         fe8000000000000000fc00fffe000001 04 40 20 80     eth2\n\
                         00000000000000000000000000000001 01 80 10 80       lo\n";
        let loopback = ("/sys/class/net/lo/operstate", "unknown\n");
        let found = routed(&[DEFAULT], &[(ADDRESSES, addresses), loopback]);
        assert_eq!(found, "eth0 eth1 lo");
    }

    #[test]
    fn a_table_that_is_cut_missing_or_too_long_tells_no_interfaces() {
        assert_eq!(known(&[]), "unknown");
        // a line end is behind it
        assert_eq!(routed(&[DEFAULT, "eth1…"], &[]), "eth0");
        assert_eq!(known(&[(ROUTES, &format!("{DEFAULT}\neth1…"))]), "unknown");
        assert_eq!(routed(&[DEFAULT], &[(ADDRESSES, "…")]), "unknown");
        for (count, is_known) in [(MOST, true), (MOST + 1, false), (60_000, false)] {
            let line = |nth| format!("pod{nth} 0000000A 00000000 0001 0 0 0 0000FFFF\n");
            let table: String = (0..count).map(line).collect();
            let found = known(&[(ROUTES, &table)]);
            assert_eq!(found.split(' ').count() == count, is_known, "{count}");
            assert_eq!(found == "unknown", !is_known, "{count}");
        }
    }
}

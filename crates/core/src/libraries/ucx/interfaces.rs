//! The IP interfaces that UCX's tcp transport uses.
//!
//! UCX uses interfaces that are up, running and have an address, `lo` too (UCX 1.11 to 1.22:
//! src/uct/tcp/tcp_iface.c `uct_tcp_query_devices`, src/ucs/sys/sock.c `ucs_netif_get_addr`); since
//! 1.16 no bridges (`uct_tcp_is_bridge`), since 1.22 no IPv4 link-local addresses. UCX warns in
//! every process of other names in a list.
//!
//! The kernel prints /proc/net's tables without a lock. getifaddrs(3) waits for the lock of all
//! interfaces, which a driver may hold while its firmware works.

use super::super::ReadFile;
use crate::order::Order;
use crate::topology::network::Ipv4Route;
use std::collections::BTreeMap;

/// The main table of IPv4 (the kernel's net/ipv4/fib_trie.c, `fib_route_seq_show`).
pub const ROUTES: &str = "/proc/net/route";
/// IPv6 addresses (the kernel's net/ipv6/addrconf.c, `if6_seq_show`).
const ADDRESSES: &str = "/proc/net/if_inet6";
const CLASS: &str = "/sys/class/net";
pub const LOOPBACK: &str = "lo";

/// Each interface costs two files to read, and execve(2) fails if a variable exceeds 128 KiB.
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
    // a bridge to a gateway is the node's own network
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
/// A host route is no proof: container networks have host routes to interfaces without addresses.
/// An IPv6 next hop, printed as gateway 0, is no proof: with BGP unnumbered the node's address is
/// on `lo`. Link-local networks (169.254.0.0/16), such as a BMC's, do not count.
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

/// True in the two states with IFF_RUNNING (net/core/dev.c `dev_get_flags`, `netif_oper_up`);
/// `None` if the state is unknown.
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
    use super::super::super::FileText;
    use super::*;

    const HEAD: &str =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

    fn known(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let reader = |path: &str| {
            let (_, text) = files.iter().find(|(name, _)| *name == path)?;
            Some(FileText {
                text: text.to_string(),
                is_cut: text.ends_with('…'),
                unanswered: None,
            })
        };
        read(&reader)
    }

    fn routed(lines: &[&str], more: &[(&str, &str)]) -> Vec<String> {
        let table = format!("{HEAD}{}\n", lines.join("\n"));
        let mut files = vec![(ROUTES, table.as_str())];
        files.extend(more);
        known(&files).expect("they are known")
    }

    const DEFAULT: &str = "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0";
    const CONNECTED: &str = "ib0\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0";

    #[test]
    fn interfaces_are_those_with_a_route_that_is_up() {
        assert_eq!(
            routed(&[CONNECTED, DEFAULT, CONNECTED, "odd", ""], &[]),
            ["eth0", "ib0"]
        );
        assert_eq!(
            routed(&["old0\t0000A8C0\t00000000\t0000\t0\t0\t0\t00FFFFFF"], &[]),
            [""; 0]
        );
        assert_eq!(known(&[(ROUTES, "")]), Some(Vec::new()));
        assert_eq!(
            known(&[(ROUTES, "Iface\neth0 0 0 0001 0 0 0 0\n")]),
            Some(vec!["eth0".to_string()])
        );
    }

    #[test]
    fn what_ucx_would_not_know_is_not_named_since_it_would_warn_of_it() {
        let link_local = "usb0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0";
        let container = "cali7\t0500F40A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0";
        assert_eq!(routed(&[DEFAULT, link_local, container], &[]), ["eth0"]);
        let unnumbered = "ens1\t00000000\t00000000\t0003\t0\t0\t0\t00000000\t0\t0\t0";
        assert_eq!(
            routed(&[DEFAULT, unnumbered], &[]),
            ["eth0"],
            "`default via inet6 fe80::1 dev ens1`"
        );
        let docker = "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0";
        let bridge = |name: &str| {
            [(
                format!("{CLASS}/{name}/uevent"),
                "DEVTYPE=bridge\nINTERFACE=x\n",
            )]
        };
        let [(path, text)] = &bridge("docker0");
        assert_eq!(routed(&[DEFAULT, docker], &[(path, text)]), ["eth0"]);
        let [(path, text)] = &bridge("eth0");
        assert_eq!(
            routed(&[DEFAULT], &[(path, text)]),
            ["eth0"],
            "the node's own network"
        );
        let plain = [("/sys/class/net/ib0/uevent", "INTERFACE=ib0\nIFINDEX=4\n")];
        assert_eq!(routed(&[CONNECTED], &plain), ["ib0"], "no bridge");
        for name in ["lo", "a,b", "^a"] {
            let line = CONNECTED.replace("ib0", name);
            assert_eq!(
                routed(&[DEFAULT, &line], &[]),
                ["eth0"],
                "`{name}` has no place in a list"
            );
        }
        for (state, expected) in [
            ("up", true),
            ("unknown", true),
            ("down", false),
            ("lowerlayerdown", false),
        ] {
            let state = format!("{state}\n");
            let found = routed(&[CONNECTED], &[("/sys/class/net/ib0/operstate", &state)]);
            assert_eq!(!found.is_empty(), expected, "{state}");
        }
    }

    #[test]
    fn more_interfaces_than_a_variable_can_name_are_not_known() {
        let table = |count: usize| -> Vec<String> {
            (0..count)
                .map(|nth| format!("pod{nth}\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF"))
                .collect()
        };
        let found =
            |count: usize| known(&[(ROUTES, &format!("{HEAD}{}", table(count).join("\n")))]);
        assert_eq!(found(MOST).map(|names| names.len()), Some(MOST));
        assert_eq!(found(MOST + 1), None);
        assert_eq!(found(60_000), None);
    }

    #[test]
    fn an_interface_may_have_ipv6_alone_and_the_loopback_is_one() {
        let addresses = "fd000000000000000000000000000002 04 40 00 82     eth1\n\
                         fe8000000000000000fc00fffe000001 04 40 20 80     eth2\n\
                         00000000000000000000000000000001 01 80 10 80       lo\n";
        let more = [
            (ADDRESSES, addresses),
            ("/sys/class/net/lo/operstate", "unknown\n"),
        ];
        assert_eq!(routed(&[DEFAULT], &more), ["eth0", "eth1", "lo"]);
    }

    #[test]
    fn a_table_that_is_cut_or_missing_tells_no_interfaces() {
        assert_eq!(known(&[]), None);
        assert_eq!(known(&[(ROUTES, &format!("{HEAD}{DEFAULT}\neth1…"))]), None);
        assert_eq!(
            known(&[(ROUTES, &format!("{HEAD}{DEFAULT}\n")), (ADDRESSES, "…")]),
            None
        );
    }
}

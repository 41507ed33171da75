//! UCX: `UCX_NET_DEVICES`, the network devices that a process may use.
//!
//! Items are exact and always `name:port`; UCX reads a bare name only from 1.21 on.  An unknown item causes a
//! warning; a list without a known item fails at the first remote peer.  The list filters TCP interfaces too,
//! and not every release knows `^`, so a program that asked for the tcp transport gets its interfaces named
//! beside its NIC.  Peers may use different devices if the fabric connects them.  (UCX:
//! src/ucs/config/parser.c, src/ucp/core/ucp_context.c; its FAQ, "selecting networks and transports".)
//!
//! Open MPI, MPICH and NIXL read it if they run on UCX, and need no variable of their own.
#![forbid(unsafe_code)]

use super::wanted::Fabric;
use super::{Answer, Asked, ReadFile, nccl};
use crate::placement::{RailIndex, TaskPlacement};
use std::borrow::Cow;

pub(super) const NET_DEVICES: &str = "UCX_NET_DEVICES";
pub(super) const TLS: &str = "UCX_TLS";

/// The site's configuration; UCX prefers the environment (src/ucs/config/parser.c).
const SITE: &str = "/etc/ucx/ucx.conf";

/// Interfaces with IPv4 routes: the tcp transport reaches peers through these (the kernel's
/// net/ipv4/fib_trie.c, `fib_route_seq_show`).
const ROUTES: &str = "/proc/net/route";

/// Items of a list, at most (`UCS_CONFIG_ARRAY_MAX` of src/ucs/config/parser.h: 64, in newer releases 128).
const MAX_ITEMS: usize = 64;

/// Why the site's file keeps us from setting the variable; `None` if it does not.
pub(super) fn site(read: ReadFile) -> Option<String> {
    nccl::claimed(read, SITE, NET_DEVICES)
}

/// The value or none, and why.
pub(super) fn net_devices<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let (node, task) = (asked.node, asked.task);
    let no = |why: &'static str| Some(Answer::no(why));
    if task.gpus.is_empty() {
        return no("a task without GPUs is left to UCX, which uses two NICs itself");
    }
    if task.rails.is_empty() {
        return no("no NIC of this node may be chosen");
    }
    if let Some(why) = &asked.prepared.ucx_site {
        return Some(Answer::no(why.as_str()));
    }
    let isolated = asked.prepared.wanted.fabric == Fabric::IsolatedRails;
    let rails: Vec<RailIndex> = match isolated {
        true => node.rail_indices().collect(),
        false => task.rails.iter().map(|&(rail, _)| rail).collect(),
    };
    let anything_left_out = rails.len() < node.rails.len() || !node.excluded.is_empty();
    if rails.len() > 1 && !anything_left_out {
        return no(match isolated {
            true => "the fabric's rails are isolated, so it may use every NIC of the node",
            false => "it may use every NIC of the node",
        });
    }
    let mut list: Vec<String> = rails.iter().map(|&rail| node.rail(rail).to_string()).collect();
    let mut why = if isolated {
        Cow::from("the fabric's rails are isolated, so all good NICs of the node")
    } else {
        reason(task)
    };
    if asked.evidence.present.get(TLS).is_some_and(|transports| names_tcp(transports)) {
        // a cut table may lack interfaces
        let routes = (asked.evidence.read)(ROUTES).filter(|routes| !routes.is_cut);
        let interfaces = routes.map(|routes| interfaces(&routes.text)).unwrap_or_default();
        if interfaces.is_empty() || list.len() + interfaces.len() > MAX_ITEMS {
            return no("`UCX_TLS` asks for tcp, and the list would hide its interfaces, which are not known");
        }
        list.extend(interfaces);
        why = Cow::from(format!("{why}, and the interfaces with routes for the tcp that `UCX_TLS` asks for"));
    }
    Some(Answer::yes(list.join(","), why))
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

/// Does `UCX_TLS` ask for tcp by its name?  `^` before the list means all but these, `\` before an item means
/// no alias.
fn names_tcp(transports: &str) -> bool {
    let mut items = transports.split(',').map(|item| item.trim().trim_start_matches('\\'));
    !transports.trim_start().starts_with('^') && items.any(|item| item == "tcp")
}

/// The interfaces of a routing table whose routes are up, sorted: `Iface Destination Gateway Flags …` in columns.
fn interfaces(routes: &str) -> Vec<String> {
    /// include/uapi/linux/route.h
    const RTF_UP: u32 = 1;
    let mut names: Vec<String> = Vec::new();
    for line in routes.lines().skip(1) {
        let mut columns = line.split_whitespace();
        let (Some(name), Some(flags)) = (columns.next(), columns.nth(2)) else { continue };
        let up = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & RTF_UP != 0);
        if up && !name.contains([',', '^']) && !names.iter().any(|known| known == name) {
            names.push(name.to_string());
        }
    }
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_is_asked_for_by_its_name_and_not_where_it_is_ruled_out() {
        for (transports, asked) in [
            ("tcp", true),
            ("rc, tcp,cuda", true),
            (r"\tcp,rc", true),
            ("^tcp", false),
            ("^rc,tcp", false),
            ("all", false),
            ("tcpx", false),
        ] {
            assert_eq!(names_tcp(transports), asked, "`{transports}`");
        }
    }

    #[test]
    fn interfaces_are_those_with_a_route_that_is_up() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\n\
                     eth0\t00000000\t0100A8C0\t0003\t0\t0\n\
                     ib0\t0000000A\t00000000\t0001\t0\t0\n\
                     eth0\t0000A8C0\t00000000\t0001\t0\t0\n\
                     old0\t0000A8C0\t00000000\t0000\t0\t0\nodd\n";
        assert_eq!(interfaces(table), ["eth0", "ib0"]);
        assert_eq!(interfaces(""), Vec::<String>::new());
    }
}

//! `UCX_SOCKADDR_TLS_PRIORITY`: the managers of connections by IP address.
//!
//! UCX listens by each manager that it has, `rdmacm,tcp,sockcm` by default, and a client tries them in this order.
//! rdmacm takes the RDMA device that has the address.  A listener without that device in its `UCX_NET_DEVICES` rejects,
//! and the client gives up: it tries the next manager only where none answers (UCX 1.10 to 1.22:
//! src/ucp/wireup/wireup_cm.c `ucp_ep_cm_server_create_connected`, `ucp_cm_client_connect_cb`).  tcp takes the
//! interface, and messages then go by all devices that both sides have, the NICs too.  So our list goes with UCX's
//! default without rdmacm.  A release ignores names that it does not have (src/ucp/core/ucp_context.c
//! `ucp_fill_sockaddr_cms_prio_list`).
//!
//! With `UCX_CM_USE_ALL_DEVICES=n` messages have the device of the address alone, so by tcp they would never go by a NIC.
#![forbid(unsafe_code)]

use super::super::works;
use super::super::{Answer, Query};
use super::{FILES, NET_DEVICES};
use crate::topology::{NicKind, Port, Topology};

/// The connection managers, in the order of their use.
pub(super) const PRIORITY: &str = "UCX_SOCKADDR_TLS_PRIORITY";
/// Do messages use other devices than that of the address?
pub(super) const ALL_DEVICES: &str = "UCX_CM_USE_ALL_DEVICES";

/// UCX's default without rdmacm.
const WITHOUT_RDMACM: &str = "tcp,sockcm";

/// The reason for no list if connections by address need devices that it leaves out.
pub(super) fn needs_all(query: &Query, list: &[String]) -> Option<&'static str> {
    if !leaves_ports_out(query.topology, list) {
        return None;
    }
    let value = |name: &str| match query.users(name) {
        Some(value) => Some(value.clone()),
        None => query.claimed(&FILES, name)?.value,
    };
    if value(PRIORITY).is_some_and(|value| is_rdmacm_alone(&value)) {
        return Some(
            "`UCX_SOCKADDR_TLS_PRIORITY` has no `tcp`: connections by address may need any NIC",
        );
    }
    let is_off = value(ALL_DEVICES).is_some_and(|value| is_no(&value));
    is_off.then_some(
        "`UCX_CM_USE_ALL_DEVICES` gives messages the NIC of the address, which may be any",
    )
}

/// The managers for our list; no answer if UCX's default suits it.
pub(super) fn priority(query: &Query) -> Option<Answer> {
    let interfaces = query.prepared.ucx.as_ref()?.interfaces.as_ref()?;
    let list: Vec<&str> = query.ours(NET_DEVICES)?.split(',').collect();
    let has_interface = interfaces.iter().any(|name| list.contains(&name.as_str()));
    if !has_interface || !leaves_ports_out(query.topology, &list) {
        return None;
    }
    let why = "connections by address go by the IP interfaces of `UCX_NET_DEVICES`, not by NICs that are not in it";
    let claim = query.claimed(&FILES, PRIORITY);
    Some(claim.map_or_else(|| Answer::yes(WITHOUT_RDMACM, why), Answer::left_to))
}

/// Will our managers go with this list once it has IP interfaces?
pub(super) fn goes_with_interfaces(query: &Query, list: &[String]) -> bool {
    let is_ours = query.prepared.is_librarys(PRIORITY) && query.users(PRIORITY).is_none();
    is_ours && leaves_ports_out(query.topology, list)
}

/// Has the node a working port that rdmacm knows and the list does not?
fn leaves_ports_out<T: AsRef<str>>(topology: &Topology, list: &[T]) -> bool {
    topology
        .nics
        .iter()
        .filter(|nic| nic.kind == NicKind::Verbs)
        .any(|nic| {
            let is_port = |item: &str, port: &Port| {
                let number = item
                    .strip_prefix(&*nic.name)
                    .and_then(|rest| rest.strip_prefix(':'));
                number.is_some_and(|number| number.parse() == Ok(port.number))
            };
            let is_listed = |port: &Port| list.iter().any(|item| is_port(item.as_ref(), port));
            nic.ports.iter().any(|port| works(port) && !is_listed(port))
        })
}

/// Does this list of managers have rdmacm and not tcp?  No component has been called sockcm since 1.10.
fn is_rdmacm_alone(priority: &str) -> bool {
    let has = |name: &str| priority.split(',').any(|item| item.trim() == name);
    has("rdmacm") && !has("tcp") && !has("*")
}

/// As UCX reads it (src/ucs/config/parser.c `ucs_config_sscanf_bool`).
fn is_no(value: &str) -> bool {
    ["n", "no"].iter().any(|no| value.eq_ignore_ascii_case(no)) || ["off", "0"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_managers_without_tcp_leaves_rdmacm_alone_and_one_without_rdmacm_asks_for_no_nic() {
        for (priority, is_alone) in [
            ("rdmacm", true),
            ("rdmacm,sockcm", true),
            ("sockcm, rdmacm", true),
            ("rdmacm,tcp", false),
            ("rdmacm,*", false),
            ("*", false),
            ("tcp", false),
            ("sockcm", false),
            ("", false),
        ] {
            assert_eq!(is_rdmacm_alone(priority), is_alone, "`{priority}`");
        }
    }

    #[test]
    fn ucx_reads_four_words_as_no() {
        for (value, expected) in [
            ("n", true),
            ("No", true),
            ("off", true),
            ("0", true),
            ("OFF", false),
            ("y", false),
            ("", false),
        ] {
            assert_eq!(is_no(value), expected, "`{value}`");
        }
    }
}

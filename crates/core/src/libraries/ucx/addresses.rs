//! `UCX_SOCKADDR_TLS_PRIORITY`: UCX's connection managers for IP addresses, in order.
//!
//! A server listens with all managers, by default `rdmacm,tcp,sockcm`. A client tries the managers
//! in order, the next only if no server answers. rdmacm needs the RDMA device that owns the
//! address: if the server's `UCX_NET_DEVICES` lacks this device, the server rejects the client,
//! which gives up (UCX 1.10 to 1.22: src/ucp/wireup/wireup_cm.c
//! `ucp_ep_cm_server_create_connected`, `ucp_cm_client_connect_cb`). tcp needs only the interface;
//! messages then use all devices that both peers have, NICs too. So our list comes with
//! `tcp,sockcm`, the default without rdmacm. UCX ignores unknown managers
//! (src/ucp/core/ucp_context.c `ucp_fill_sockaddr_cms_prio_list`).
//!
//! With `UCX_CM_USE_ALL_DEVICES=n` messages use only the address's device: with tcp an interface.

use super::super::{Answer, Query, works};
use super::{FILES, NET_DEVICES};
use crate::topology::{NicKind, Port, Topology};

pub const PRIORITY: &str = "UCX_SOCKADDR_TLS_PRIORITY";
pub const ALL_DEVICES: &str = "UCX_CM_USE_ALL_DEVICES";

/// An error if the user's settings tie connections by address to ports that the list lacks.
pub fn check(query: &Query, list: &[String]) -> Result<(), &'static str> {
    if !leaves_ports_out(query.node, list) {
        return Ok(());
    }
    let value = |name: &str| match query.users(name) {
        Some(value) => Some(value.to_string()),
        None => query.claimed(&FILES, name)?.value,
    };
    if value(PRIORITY).is_some_and(|value| is_rdmacm_alone(&value)) {
        Err("`UCX_SOCKADDR_TLS_PRIORITY` has no `tcp`: connections by address may need any NIC")
    } else if value(ALL_DEVICES).is_some_and(|value| is_no(&value)) {
        Err("`UCX_CM_USE_ALL_DEVICES` gives messages the NIC of the address, which may be any")
    } else {
        Ok(())
    }
}

/// `None` if UCX's default works with our list.
pub fn priority(query: &Query) -> Option<Answer> {
    let interfaces = query.prepared.ucx.as_ref()?.interfaces.as_ref()?;
    let list: Vec<&str> = query.ours(NET_DEVICES)?.split(',').collect();
    let has_interface = interfaces.iter().any(|name| list.contains(&name.as_str()));
    if !has_interface || !leaves_ports_out(query.node, &list) {
        return None;
    }
    let why = "connections by address go by the IP interfaces of `UCX_NET_DEVICES`, not by NICs that are not in it";
    Some(query.unless_in_files(&FILES, PRIORITY, Answer::yes("tcp,sockcm", why)))
}

/// True if [`priority`] will set the variable once the list has IP interfaces.
pub fn goes_with_interfaces(query: &Query, list: &[String]) -> bool {
    query.prepared.is_librarys(PRIORITY)
        && query.users(PRIORITY).is_none()
        && leaves_ports_out(query.node, list)
}

/// True if the list lacks a working port of a verbs NIC, which rdmacm could use.
fn leaves_ports_out<T: AsRef<str>>(node: &Topology, list: &[T]) -> bool {
    let mut verbs = node.nics.iter().filter(|nic| nic.kind == NicKind::Verbs);
    verbs.any(|nic| {
        let number = |item: &T| {
            let port = item.as_ref().strip_prefix(&*nic.name)?.strip_prefix(':')?;
            port.parse().ok()
        };
        let is_listed = |port: &Port| list.iter().any(|item| number(item) == Some(port.number));
        nic.ports.iter().any(|port| works(port) && !is_listed(port))
    })
}

/// True for rdmacm without tcp: UCX since 1.10 has no sockcm, so no other manager is left.
fn is_rdmacm_alone(priority: &str) -> bool {
    let has = |name: &str| priority.split(',').any(|item| item.trim() == name);
    has("rdmacm") && !has("tcp") && !has("*")
}

/// UCX's words for no (src/ucs/config/parser.c `ucs_config_sscanf_bool`).
fn is_no(value: &str) -> bool {
    ["n", "no"].iter().any(|no| value.eq_ignore_ascii_case(no)) || ["off", "0"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_managers_without_tcp_leaves_rdmacm_alone_and_one_without_rdmacm_asks_for_no_nic() {
        for (is_alone, priorities) in [
            (true, "rdmacm|rdmacm,sockcm|sockcm, rdmacm"),
            (false, "rdmacm,tcp|rdmacm,*|*|tcp|sockcm|"),
        ] {
            for priority in priorities.split('|') {
                assert_eq!(is_rdmacm_alone(priority), is_alone, "`{priority}`");
            }
        }
    }

    #[test]
    fn ucx_reads_four_words_as_no() {
        let found = ["n", "No", "off", "0", "OFF", "y", ""].map(is_no);
        assert_eq!(found, [true, true, true, true, false, false, false]);
    }
}

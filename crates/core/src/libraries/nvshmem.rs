//! NVSHMEM: `NVSHMEM_HCA_LIST`, one list for a node's tasks, set only to leave NICs out.
//!
//! Items are exact names with a port; `^` inverts the list. Processing elements (PEs) of a node
//! choose NICs together, so their lists must be equal (3.5: src/modules/transport/ibrc,
//! `parse_hca_list`; src/host/transport/transport.cpp; src/host/topo/topo.cpp).
//!
//! NVSHMEM 3.4 to 3.7 always reads the list, 3.8 only with `NVSHMEM_ENABLE_NIC_PE_MAPPING`
//! (`nvshmemt_ib_common_parse_hca_filter`, in the wheels). With this switch PEs choose by number:
//! of N NICs and M PEs on a node, PE k gets N / M NICs from number k * N / M on; before 3.8 PE k
//! gets NIC k modulo N (`nvshmemi_setup_connections`). The NIC can be far if the step has only some
//! of the node's GPUs, or has them in another order. PEs without the switch wait for all other PEs
//! (`nvshmemi_get_devices_by_distance`), so the switch must be equal in all tasks. We set the
//! switch only on request (`env=nvshmem-pe`), beside a list of the task's one NIC.
//!
//! NVSHMEM skips a RoCE port without a RoCE v2 IPv4 address, but fails if the list names the port
//! (transport_ib_common.cpp `nvshmemt_ib_common_enumerate_devices`, `ib_get_gid_index`).
//!
//! `NVSHMEM_HCA_PREFIX` is a substring of the NIC names to use, or, after `^`, to leave out; before
//! 3.5.21 `^` excludes all NICs (`nvshmemt_check_hca_prefix`). So we set the list instead.

use super::files::{Files, before_comment, non_empty, pairs};
use super::nccl::HOME;
use super::uniform::{joined, names_of};
use super::{Answer, Library, Query, has_gpu_of, marked, ours};
use crate::diagnostic::Diagnostic;
use crate::placement::{Change, Rail, Variable};
use crate::topology::{GpuVendor, LinkLayer, Topology};

pub const LIBRARY: Library = Library {
    name: "NVSHMEM",
    word: "nvshmem",
    word_for_more: ONE_EACH,
    by_default: true,
    variables: &[(HCA_LIST, hca_list), (ENABLE_MAPPING, enable_mapping)],
    evidence: &[PE_MAPPING, PREFIX, CONF_FILE],
    files: Some(&FILES),
    caveat,
    ..Library::NONE
};

/// The word of `env=` for a list of the task's one NIC.
const ONE_EACH: &str = "nvshmem-pe";

const HCA_LIST: &str = "NVSHMEM_HCA_LIST";
const PE_MAPPING: &str = "NVSHMEM_HCA_PE_MAPPING";
const ENABLE_MAPPING: &str = "NVSHMEM_ENABLE_NIC_PE_MAPPING";
const PREFIX: &str = "NVSHMEM_HCA_PREFIX";
const CONF_FILE: &str = "NVSHMEM_CONF_FILE";

/// Bytes of NVSHMEM's buffer for a line and its NUL (`nvshmemi_conf_parse_file`).
const MAX_LINE: usize = 4096;

/// Lines `NAME=VALUE`, trimmed; `#` at the start or after white space begins a comment. A name's
/// last line in the last file (/etc, `HOME`, `CONF_FILE`) counts, even over the environment
/// (src/include/bootstrap_host_transport/env_defs_internal.h `nvshmemi_conf_parse_file`,
/// `nvshmemi_getenv_helper`). Our list would disable a file's `NVSHMEM_HCA_PE_MAPPING`.
pub const FILES: Files = Files {
    of_site: |_| &["/etc/nvshmem.conf"],
    of_user: |_, &super::Evidence { present, .. }| {
        let at_home = non_empty(present, HOME).map(|home| format!("{home}/.nvshmem.conf"));
        let mut files = Vec::from_iter(non_empty(present, CONF_FILE).cloned());
        files.extend(at_home);
        files
    },
    lines: |text, _| {
        pairs(text, MAX_LINE, |line| {
            let (name, value) = line.trim().split_once('=')?;
            Some((name.trim(), before_comment(value.trim(), '#').trim()))
        })
    },
    last_counts: true,
    beat_environment: true,
    variables: &[HCA_LIST],
    rivals: &[PE_MAPPING],
    matter: |node, wish, has_list| {
        has_gpu_of(node, GpuVendor::Nvidia)
            && (has_list || wish.has_word(ONE_EACH) || wish.judges_files())
    },
};

fn caveat(_: &Topology, variables: &[Variable]) -> Option<Diagnostic> {
    let is_on = |of: &Variable| match &of.change {
        Change::Set(value) | Change::KeepUsers(value) => of.name == ENABLE_MAPPING && is_on(value),
        _ => false,
    };
    ours(variables, HCA_LIST).filter(|_| !variables.iter().any(is_on))?;
    let text = "NVSHMEM 3.8 does not read it, and may use the NICs that it leaves out: `env=nvshmem-pe`, if each task has one NIC";
    Some(Diagnostic::new(HCA_LIST, text))
}

fn hca_list(query: &Query) -> Option<Answer> {
    query.has_gpu_of(GpuVendor::Nvidia).then_some(())?;
    let no = |why: &'static str| Some(Answer::no(why));
    if query.users(PE_MAPPING).is_some() {
        return no("the user's `NVSHMEM_HCA_PE_MAPPING` would be ignored beside it");
    }
    let own = own_nic(query);
    let admits = |prefix| {
        let (excludes, text) = marked(prefix, '^');
        let is_admitted = |rail: &Rail| excludes != rail.name.contains(text);
        own.map_or_else(|| query.map.rails.iter().any(is_admitted), is_admitted)
    };
    if !query.users(PREFIX).is_none_or(admits) {
        return no("the user's `NVSHMEM_HCA_PREFIX` admits none of these NICs");
    }
    let answer = match (own, &query.prepared.list) {
        (Some(rail), _) => Answer::yes(
            rail.to_string(),
            "its GPU's NIC: with `NVSHMEM_ENABLE_NIC_PE_MAPPING` others go by number",
        ),
        (None, Ok((list, why))) => node_list(query, list, why),
        (None, Err(why)) => Answer::no(*why),
    };
    Some(query.unless_in_files(&FILES, HCA_LIST, answer))
}

/// The node's list without RoCE rails that lack an IP address; the whole list if no rail is left.
fn node_list(query: &Query, list: &str, why: &str) -> Answer {
    let has_none = |rail: &&Rail| {
        query.node.port(rail.at()).is_some_and(|port| {
            port.link_layer == LinkLayer::Ethernet
                && port.networks.is_empty()
                && !port.routes_elsewhere
        })
    };
    let (without, with): (Vec<&Rail>, Vec<&Rail>) = query.map.rails.iter().partition(has_none);
    if with.is_empty() || without.is_empty() {
        return Answer::yes(list, why.to_string());
    }
    let names = names_of(without.iter().map(|rail| &rail.name)).replace(',', " ");
    Answer::yes(joined(with), format!("{why} and {names} (no address)"))
}

/// The one NIC of a task with GPUs, under `env=nvshmem-pe` or with the user's
/// `NVSHMEM_ENABLE_NIC_PE_MAPPING` on.
fn own_nic<'a>(query: &Query<'a>) -> Option<&'a Rail> {
    let is_asked = query.has_word(ONE_EACH) || query.users(ENABLE_MAPPING).is_some_and(is_on);
    match query.task.rails[..] {
        [(rail, _)] if is_asked && !query.task.gpus.is_empty() => Some(query.map.rail(rail)),
        _ => None,
    }
}

/// True if NVSHMEM reads the value as on (src/util/env_vars.cpp `nvshmemi_getenv_bool`).
fn is_on(value: &str) -> bool {
    !value.starts_with(['0', 'N', 'n', 'F', 'f'])
}

/// `1` if we set `NVSHMEM_HCA_LIST` to the task's one NIC.
fn enable_mapping(query: &Query) -> Option<Answer> {
    own_nic(query)?;
    if query.users(HCA_LIST).is_some() || !query.prepared.is_wanted(HCA_LIST) {
        return None;
    }
    hca_list(query)?.value?;
    let why = "NVSHMEM 3.8 reads `NVSHMEM_HCA_LIST` only beside it";
    Some(Answer::yes("1", why))
}

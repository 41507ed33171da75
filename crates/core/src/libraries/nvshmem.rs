//! NVSHMEM: `NVSHMEM_HCA_LIST`, one list for every task of the node, set only to exclude something.
//!
//! Items are exact names with a port; `^` inverts the list.  Elements work out together which NIC serves which (3.5:
//! src/modules/transport/ibrc, `parse_hca_list`; src/host/transport/transport.cpp; src/host/topo/topo.cpp), so lists must be
//! equal.
//!
//! 3.8 reads the list only beside `NVSHMEM_ENABLE_NIC_PE_MAPPING`, 3.4 to 3.7 always (`nvshmemt_ib_common_parse_hca_filter`, in
//! the wheels).  With that switch an element's number chooses: of N NICs and M elements of a node the k-th gets N / M from k * N
//! / M on, before 3.8 number k modulo N (`nvshmemi_setup_connections`), which is wrong where a step has a part of the GPUs or
//! another order. Without it all elements wait for each other (`nvshmemi_get_devices_by_distance`), so no task may choose the
//! switch alone. Therefore it goes only with lists of one NIC (`env=nvshmem-pe`), of which every element must have one.
//!
//! A port of RoCE without an IPv4 address of version 2 is passed over, but fails if the list names it (transport_ib_common.cpp
//! `nvshmemt_ib_common_enumerate_devices`, `ib_get_gid_index`).
//!
//! `NVSHMEM_HCA_PREFIX` is a text that names must contain, or may not with `^` before it; before 3.5.21 `^` admits none
//! (`nvshmemt_check_hca_prefix`).  So no value of it leaves out several NICs in all releases.
#![forbid(unsafe_code)]

use super::files::{Files, Line, before_comment, non_empty};
use super::nccl::HOME;
use super::uniform::names_of;
use super::{Answer, Library, Query, ReadFile, has_gpu_of, marked, ours};
use crate::diagnostic::Diagnostic;
use crate::placement::{Change, Rail, Variable};
use crate::topology::{GpuVendor, LinkLayer, Topology};

pub(super) const LIBRARY: Library = Library {
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

/// The word for one NIC in each task.
const ONE_EACH: &str = "nvshmem-pe";

const HCA_LIST: &str = "NVSHMEM_HCA_LIST";
const PE_MAPPING: &str = "NVSHMEM_HCA_PE_MAPPING";
const ENABLE_MAPPING: &str = "NVSHMEM_ENABLE_NIC_PE_MAPPING";
const PREFIX: &str = "NVSHMEM_HCA_PREFIX";
/// A configuration file of the user's.
const CONF_FILE: &str = "NVSHMEM_CONF_FILE";

/// Bytes of a line in one piece, and a NUL (the buffers of `nvshmemi_conf_parse_file`).
const MAX_LINE: usize = 4096;

/// `NAME=VALUE` with white space around both; a comment begins with `#`, behind a value with white space before it.  The last line
/// and the last file count, and a file wins over the environment (src/include/bootstrap_host_transport/env_defs_internal.h
/// `nvshmemi_conf_parse_file`, `nvshmemi_getenv_helper`).  A list would switch off a mapping of the file's.
pub(super) const FILES: Files = Files {
    of_site: |_| &["/etc/nvshmem.conf"],
    of_user: |_, present| {
        let at_home = non_empty(present, HOME).map(|home| format!("{home}/.nvshmem.conf"));
        non_empty(present, CONF_FILE)
            .cloned()
            .into_iter()
            .chain(at_home)
            .collect()
    },
    lines,
    last_counts: true,
    beat_environment: true,
    variables: &[HCA_LIST],
    rivals: &[PE_MAPPING],
    matter: |topology, wish, has_list| {
        has_gpu_of(topology, GpuVendor::Nvidia)
            && (has_list || wish.has_word(ONE_EACH) || wish.judges_files())
    },
};

fn lines<'t>(text: &'t str, _: ReadFile) -> Vec<Line<'t>> {
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once('=')?;
        let value = before_comment(value.trim(), '#').trim();
        Some(Line::new(
            name.trim(),
            value,
            line.len() < MAX_LINE,
            Some(true),
        ))
    });
    lines.collect()
}

/// Warns that NVSHMEM 3.8 does not read the node's list.
fn caveat(_: &Topology, variables: &[Variable]) -> Option<Diagnostic> {
    let is_on = |of: &Variable| match &of.change {
        Change::Set(value) | Change::KeepUsers(value) => of.name == ENABLE_MAPPING && is_on(value),
        _ => false,
    };
    ours(variables, HCA_LIST).filter(|_| !variables.iter().any(is_on))?;
    let text = "NVSHMEM 3.8 does not read it, and may use the NICs that it leaves out: `env=nvshmem-pe`, if each task has one NIC";
    Some(Diagnostic::new(HCA_LIST, text))
}

/// The node's list, or on request the task's one NIC.
fn hca_list(query: &Query) -> Option<Answer> {
    query.has_gpu_of(GpuVendor::Nvidia).then_some(())?;
    if query.users(PE_MAPPING).is_some() {
        return Some(Answer::no(
            "the user's `NVSHMEM_HCA_PE_MAPPING` would be ignored beside it",
        ));
    }
    let own = own_nic(query);
    let admits = |prefix: &String| {
        let (excludes, text) = marked(prefix, '^');
        let is_admitted = |rail: &Rail| excludes != rail.name.contains(text);
        own.map_or_else(|| query.node.rails.iter().any(is_admitted), is_admitted)
    };
    if !query.users(PREFIX).is_none_or(admits) {
        return Some(Answer::no(
            "the user's `NVSHMEM_HCA_PREFIX` admits none of these NICs",
        ));
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

/// The node's list without rails of RoCE whose interface has no address, if others have one.
fn node_list(query: &Query, list: &str, why: &str) -> Answer {
    let has_none = |rail: &&Rail| {
        query.topology.port(rail.at()).is_some_and(|port| {
            port.link_layer == LinkLayer::Ethernet
                && port.networks.is_empty()
                && !port.routes_elsewhere
        })
    };
    let (without, with): (Vec<&Rail>, Vec<&Rail>) = query.node.rails.iter().partition(has_none);
    if with.is_empty() || without.is_empty() {
        return Answer::yes(list, why.to_string());
    }
    let list: Vec<String> = with.iter().map(ToString::to_string).collect();
    let names = names_of(without.iter().map(|rail| &rail.name)).replace(',', " ");
    Answer::yes(list.join(","), format!("{why} and {names} (no address)"))
}

/// The task's one NIC, with `env=nvshmem-pe` or the user's own switch.
fn own_nic<'a>(query: &Query<'a>) -> Option<&'a Rail> {
    let is_asked = query.has_word(ONE_EACH)
        || query
            .users(ENABLE_MAPPING)
            .is_some_and(|value| is_on(value));
    let [(rail, _)] = query.task.rails.as_slice() else {
        return None;
    };
    (is_asked && !query.task.gpus.is_empty()).then(|| query.node.rail(*rail))
}

/// A switch is on unless its value begins like `0`, `no` or `false` (src/util/env_vars.cpp `nvshmemi_getenv_bool`).
fn is_on(value: &str) -> bool {
    !value.starts_with(['0', 'N', 'n', 'F', 'f'])
}

/// `NVSHMEM_ENABLE_NIC_PE_MAPPING`, with a list of the task's one NIC.
fn enable_mapping(query: &Query) -> Option<Answer> {
    own_nic(query)?;
    let has_one = query.users(HCA_LIST).is_none() && query.prepared.is_wanted(HCA_LIST);
    let list = hca_list(query).filter(|_| has_one)?;
    list.value
        .map(|_| Answer::yes("1", "NVSHMEM 3.8 reads `NVSHMEM_HCA_LIST` only beside it"))
}

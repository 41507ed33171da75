//! NVSHMEM: `NVSHMEM_HCA_LIST`, one list for every task of the node, set only to exclude something.
//!
//! Items are exact names with a port; `^` would invert the list.  NVSHMEM skips inactive ports.  Each processing
//! element computes by the same rule which NIC serves which element, so all lists must be equal (NVSHMEM 3.5:
//! src/modules/transport/ibrc, `parse_hca_list`; src/host/transport/transport.cpp; src/host/topo/topo.cpp).
//! The list would make NVSHMEM ignore `NVSHMEM_HCA_PE_MAPPING`, so we set none beside a user's own mapping.
//!
//! The newest source reads the list only beside `NVSHMEM_ENABLE_NIC_PE_MAPPING`
//! (src/modules/transport/common/transport_ib_common.cpp `nvshmemt_ib_common_parse_hca_filter`; 3.4.5 and 3.5.1 do
//! not ask).  With that switch NVSHMEM deals NICs out by number instead of by nearness (transport.cpp), so it does not
//! go with the node's list.  With one NIC in each element's list (`env=nvshmem-pe`) nothing is left to deal, and we set
//! both; that is right if every element has exactly one.
//!
//! A configuration file wins over the environment, and of several the later one: /etc/nvshmem.conf, `.nvshmem.conf` at home,
//! `NVSHMEM_CONF_FILE` (src/include/bootstrap_host_transport/env_defs_internal.h `nvshmemi_conf_get`,
//! `nvshmemi_getenv_helper`; its README, "Configuration file").  What it sets we leave alone, so that the report tells the
//! truth; and where it overrules the user's variable, the report says so.
//!
//! The newest source picks a GID for each port of RoCE, an IPv4 address of version 2 unless the user says otherwise.  It passes
//! a port without one over if no list names it, and fails if the list that it reads does (transport_ib_common.cpp
//! `nvshmemt_ib_common_enumerate_devices`, `ib_get_gid_index`).  So ports without an address are not in the node's list.
//!
//! We leave `NVSHMEM_HCA_PREFIX` alone: its default differs between releases (`mlx5`, later everything but
//! `smi`), so no value is right for all.  A user's own leaves of our list what contains it (3.4.5:
//! src/modules/transport/ibgda/ibgda.cpp `nvshmemt_init`, strstr), so where that is nothing we set no list.
#![forbid(unsafe_code)]

use super::files::{Files, Line, before_comment, non_empty};
use super::findings::{Checked, has_space, of_space, tell_entries, unknown_device, whole_names};
use super::lists::{List, entries, is_port_by_atoi, marked};
use super::nccl::HOME;
use super::template::names_of;
use super::uniform::NodeList;
use super::{Answer, Asked, Library};
use crate::diagnostic::Diagnostic;
use crate::placement::Rail;
use crate::topology::{GpuVendor, LinkLayer, Nic, Port, Topology};

pub(super) const LIBRARY: Library = Library {
    name: "NVSHMEM",
    word: "nvshmem",
    word_for_more: ONE_EACH,
    by_default: true,
    variables: &[(HCA_LIST, hca_list), (ENABLE_MAPPING, enable_mapping)],
    evidence: &[PE_MAPPING, PREFIX, CONF_FILE],
    files: Some(&FILES),
    // the nearest of them for each processing element (src/host/topo/topo.cpp)
    lists: &[List::nearest(HCA_LIST, admits)],
    doubts: (doubts, ""),
    ..Library::NONE
};

/// The word that gives each processing element one NIC.
const ONE_EACH: &str = "nvshmem-pe";

const HCA_LIST: &str = "NVSHMEM_HCA_LIST";
const PE_MAPPING: &str = "NVSHMEM_HCA_PE_MAPPING";
/// Is the list, or the mapping, read at all?
const ENABLE_MAPPING: &str = "NVSHMEM_ENABLE_NIC_PE_MAPPING";
/// A part of the names of NICs that GPU-initiated transports take.
const PREFIX: &str = "NVSHMEM_HCA_PREFIX";
/// Names a configuration file of the user's.
const CONF_FILE: &str = "NVSHMEM_CONF_FILE";

/// `NAME=VALUE` with white space around both; a comment begins with `#`, behind a value with white space before it.  The last
/// line counts (src/include/bootstrap_host_transport/env_defs_internal.h `nvshmemi_conf_parse_file`, whose buffers have 4096
/// bytes; `nvshmemi_conf_set`).  A list would switch off a mapping of the file's.
pub(super) const FILES: Files = Files {
    of_site: |_| &["/etc/nvshmem.conf"],
    of_user: |_, present| {
        let at_home = non_empty(present, HOME).map(|home| format!("{home}/.nvshmem.conf"));
        non_empty(present, CONF_FILE).cloned().into_iter().chain(at_home).collect()
    },
    lines,
    longest_line: 4095,
    last_counts: true,
    skips_mark: false,
    beat_environment: true,
    variables: &[HCA_LIST],
    rivals: &[PE_MAPPING],
    matter: |step| {
        let is_set = matches!(step.list, NodeList::Needed(..)) || step.wanted.has_word(ONE_EACH);
        let is_judged = step.wanted.judges_files && !step.node.rails.is_empty();
        can_run(step.topology) && (is_set || is_judged)
    },
};

fn lines<'t>(text: &'t str) -> Vec<Line<'t>> {
    let said = text.lines().filter_map(|line| Some((line.len(), line.trim().split_once('=')?)));
    let line = |(length, (name, value)): (usize, (&'t str, &'t str))| {
        let value = before_comment(value.trim(), '#').trim();
        Line { name: name.trim(), value: Some(value), length }
    };
    said.map(line).collect()
}

/// `[^]name[:port],...`, whole names (src/modules/transport/ibrc/ibrc.cpp).
fn admits(list: &str, nic: &Nic, port: &Port) -> bool {
    let (excludes, rest) = marked(list, '^');
    excludes != entries(rest).any(|entry| is_port_by_atoi(entry, port, |name| nic.name == name))
}

/// What is wrong with the entries of the user's list.
fn doubts(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let Some(list) = checked.value(HCA_LIST).filter(|_| checked.verbs().next().is_some()) else { return };
    let wrong = |entry: &&str| {
        // the number of a port may have a space
        let device = entry.split(':').next().unwrap_or_default();
        if has_space(device) { Some(of_space(entry)) } else { unknown_device(checked, entry, device) }
    };
    tell_entries((HCA_LIST, list), whole_names(list), wrong, found);
}

fn can_run(topology: &Topology) -> bool {
    topology.gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Nvidia)
}

/// The node's list, or on request the task's one NIC; no answer if no GPU of the node can run NVSHMEM.
fn hca_list<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    if !can_run(asked.topology) {
        return None;
    }
    if asked.users(PE_MAPPING).is_some() {
        return Some(Answer::no("the user's `NVSHMEM_HCA_PE_MAPPING` would be ignored beside it"));
    }
    let own = own_nic(asked);
    // a list of what is left out, in the newest source, begins with `^`
    let admits = |prefix: &String| {
        let is_in_name = |rail: &Rail| rail.name.contains(prefix);
        prefix.starts_with('^') || own.map_or_else(|| asked.node.rails.iter().any(is_in_name), is_in_name)
    };
    if !asked.users(PREFIX).is_none_or(admits) {
        return Some(Answer::no("the user's `NVSHMEM_HCA_PREFIX` is in no name of these NICs"));
    }
    let answer = match (own, &asked.prepared.list) {
        (Some(rail), _) => Answer::yes(rail.to_string(), "its GPU's NIC, as `env=nvshmem-pe` asks"),
        (None, NodeList::Needed(list, why)) => node_list(asked, list, why),
        (None, NodeList::Not(why)) => Answer::no(*why),
    };
    Some(asked.unless_in_files(&FILES, HCA_LIST, answer))
}

/// The node's list without rails of RoCE whose interface has no address, if others have one.
fn node_list<'p>(asked: &Asked<'p, '_>, list: &'p str, why: &'p str) -> Answer<'p> {
    let has_none = |rail: &&Rail| {
        asked.topology.port(rail.at()).is_some_and(|port| {
            port.link_layer == LinkLayer::Ethernet && port.networks.is_empty() && !port.routes_elsewhere
        })
    };
    let (without, with): (Vec<&Rail>, Vec<&Rail>) = asked.node.rails.iter().partition(has_none);
    if with.is_empty() || without.is_empty() {
        return Answer::yes(list, why);
    }
    let list: Vec<String> = with.iter().map(ToString::to_string).collect();
    let names = names_of(without.iter().map(|rail| rail.name.as_str())).replace(',', " ");
    Answer::yes(list.join(","), format!("{why} and {names} (no address)"))
}

/// The task's one NIC, if that is asked for.
fn own_nic<'e>(asked: &Asked<'_, 'e>) -> Option<&'e Rail> {
    match asked.task.rails.as_slice() {
        [(rail, _)] if asked.has_word(ONE_EACH) && !asked.task.gpus.is_empty() => {
            Some(asked.node.rail(*rail))
        }
        _ => None,
    }
}

/// The switch without which the newest releases do not read the task's one NIC.
fn enable_mapping<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    own_nic(asked)?;
    let has_one = asked.users(HCA_LIST).is_none() && asked.prepared.is_wanted(HCA_LIST);
    let list = hca_list(asked).filter(|_| has_one)?;
    list.value.map(|_| Answer::yes("1", "the newest releases read `NVSHMEM_HCA_LIST` only beside it"))
}

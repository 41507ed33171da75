//! Mooncake's transfer engine, on demand (`env=default+mooncake`): `MC_TE_FILTERS`, one list for every task of the node.
//!
//! Exact device names without ports.  The engine uses only named devices, those of the memory's NUMA node
//! first (mooncake-transfer-engine/src/topology.cpp `getIbvDeviceWhitelist`, `listInfiniBandDevices`).  It reads the
//! variable since 0.3.12.  Of the devices that a program names itself only those in the list are left, which is why
//! it is set only where the user or the admin asks for it.
//!
//! The newer engine (`MC_USE_TENT`) reads it too, and then passes over what the user says by other ways: the list of names to
//! leave out, and those of its configuration (mooncake-transfer-engine/tent/src/platform/cpu_probe.cpp
//! `filterInfiniBandDevices`; tent/src/common/config.cpp `ConfigHelper::loadFromEnv`).  The older one uses what is in both
//! lists, the store's and this (mooncake-store/src/client_service.cpp `get_auto_discover_filters`; topology.cpp).  So it is
//! not set beside any of them.
#![forbid(unsafe_code)]

use super::findings::{Checked, tell_entries, unknown_device, whole_names};
use super::lists::{List, entries};
use super::{Answer, Asked, Library, uniform};
use crate::diagnostic::Diagnostic;
use crate::topology::{Nic, Port};

pub(super) const LIBRARY: Library = Library {
    name: "Mooncake",
    word: "mooncake",
    variables: &[(FILTERS, filters)],
    evidence: &[EXCLUDED, OF_STORE, CONFIGURATION],
    lists: &[List::nearest(FILTERS, admits)],
    doubts: (doubts, ""),
    uniform: FILTERS,
    ..Library::NONE
};

const FILTERS: &str = "MC_TE_FILTERS";
/// Names that the newer engine leaves out, unless it has the other list.
const EXCLUDED: &str = "MC_TE_FILTERS_EXCLUDE";
/// The store's own list.
const OF_STORE: &str = "MC_MS_FILTERS";
/// The newer engine's configuration: JSON, or the path of a file with it.
const CONFIGURATION: &str = "MC_TENT_CONF";

fn admits(list: &str, nic: &Nic, _: &Port) -> bool {
    entries(list).any(|entry| nic.name == entry.trim())
}

/// What is wrong with the entries of the user's list.
fn doubts(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let Some(list) = checked.value(FILTERS).filter(|_| checked.verbs().next().is_some()) else { return };
    // whether spaces are taken away is not known
    let names = whole_names(list).map(str::trim).filter(|name| !name.is_empty());
    let wrong = |name: &&str| unknown_device(checked, name, name.split(':').next().unwrap_or_default());
    tell_entries((FILTERS, list), names, wrong, found);
}

/// The same for every task, unless the user chooses by another variable.
fn filters<'p>(asked: &Asked<'p, '_>) -> Option<Answer<'p>> {
    let is_said = |name: &&str| asked.users(name).is_some_and(|value| !value.is_empty());
    let lists = asked.users(CONFIGURATION).is_some_and(|text| may_list(text));
    let theirs = [EXCLUDED, OF_STORE].into_iter().find(is_said).or(lists.then_some(CONFIGURATION));
    Some(match theirs {
        Some(name) => Answer::no(format!("the user's `{name}` chooses the devices")),
        None => uniform::names(asked),
    })
}

/// May this configuration have a list?  What a file says is not asked.
fn may_list(configuration: &str) -> bool {
    let is_text = configuration.trim_start().starts_with('{');
    let has_one = ["rdma_whitelist", "rdma_blacklist"].iter().any(|key| configuration.contains(key));
    !configuration.is_empty() && (has_one || !is_text)
}

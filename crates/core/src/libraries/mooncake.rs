//! Mooncake's transfer engine, on demand (`env=default+mooncake`): `MC_TE_FILTERS`, one list for every task of the node.
//!
//! Exact device names without ports (mooncake-transfer-engine/src/topology.cpp `getIbvDeviceWhitelist`,
//! `listInfiniBandDevices`).  The engine uses only these, those of the memory's NUMA node first.
//!
//! The newer engine (`MC_USE_TENT`) passes over other lists of the user's beside it (tent/src/platform/cpu_probe.cpp
//! `filterInfiniBandDevices`; tent/src/common/config.cpp `ConfigHelper::loadFromEnv`).  The older one uses what is in both lists, the
//! store's and this (mooncake-store/src/client_service.cpp `get_auto_discover_filters`).
#![forbid(unsafe_code)]

use super::{Answer, Library, Query, uniform};

pub(super) const LIBRARY: Library = Library {
    name: "Mooncake",
    word: "mooncake",
    variables: &[(FILTERS, filters)],
    evidence: &[EXCLUDED, OF_STORE, CONFIGURATION],
    uniform: FILTERS,
    ..Library::NONE
};

const FILTERS: &str = "MC_TE_FILTERS";
const EXCLUDED: &str = "MC_TE_FILTERS_EXCLUDE";
const OF_STORE: &str = "MC_MS_FILTERS";
/// JSON, or the path of a file with it.
const CONFIGURATION: &str = "MC_TENT_CONF";

/// The same for every task, unless the user chooses by another variable.
fn filters(query: &Query) -> Option<Answer> {
    let chooses = |name: &&str| {
        let value = query.users(name).filter(|value| !value.is_empty());
        value.is_some_and(|value| *name != CONFIGURATION || may_list(value))
    };
    Some(match [EXCLUDED, OF_STORE, CONFIGURATION].into_iter().find(chooses) {
        Some(name) => Answer::no(format!("the user's `{name}` chooses the devices")),
        None => uniform::names(query),
    })
}

/// May this configuration have a list?  A file is not read.
fn may_list(configuration: &str) -> bool {
    let is_file = !configuration.trim_start().starts_with('{');
    is_file || ["rdma_whitelist", "rdma_blacklist"].iter().any(|key| configuration.contains(key))
}

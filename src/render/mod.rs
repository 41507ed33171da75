//! Turns a placement into what programs read: one file for each library, the marker, and the reports.
//!
//! The obvious value is often the wrong one (one NIC in each task's `NCCL_IB_HCA` would cost NCCL, by its own search, seven eighths of its
//! bandwidth), so each file states the library's own rule and its source.
#![forbid(unsafe_code)]

pub mod json;
pub mod marker;
pub mod nccl;
mod openmp;
pub mod text;
mod ucx;

use crate::placement::{Change, NodePlacement, TaskPlacement, Variable};
use crate::topology::Topology;
use marker::Marker;
use std::collections::BTreeMap;

/// Variables that we may set beside the marker, in the order of reports.
pub const VARIABLES: [&str; 5] =
    [ucx::NET_DEVICES, nccl::IB_HCA, openmp::NUM_THREADS, openmp::PLACES, openmp::PROC_BIND];
/// Variables that are read: those above, the marker, and what changes our mind about one of them.
pub const READ: [&str; 9] = [
    ucx::NET_DEVICES,
    nccl::IB_HCA,
    openmp::NUM_THREADS,
    openmp::PLACES,
    openmp::PROC_BIND,
    marker::NAME,
    ucx::TLS,
    openmp::GOMP_CPU_AFFINITY,
    openmp::KMP_AFFINITY,
];

/// The values that a task has of [`READ`] before we touch it.
pub type Present = BTreeMap<&'static str, String>;

/// The changes to one task's environment, the marker last, each with its reason.
pub fn environment(
    topology: &Topology,
    node: &NodePlacement,
    task: &TaskPlacement,
    present: &Present,
) -> Vec<Variable> {
    let earlier = present.get(marker::NAME).map(|text| Marker::parse(text)).unwrap_or_default();
    let mut published = Marker::new(topology, node, task);
    let wanted = [
        (ucx::NET_DEVICES, ucx::net_devices(node, task, present)),
        (nccl::IB_HCA, nccl::ib_hca(topology, node)),
    ];
    let mut variables = Vec::new();
    for (name, (value, why)) in wanted.into_iter().chain(openmp::wanted(task, present, &earlier)) {
        let users = present.get(name).filter(|value| !earlier.is_ours(name, value));
        let (change, why) = match (value, users) {
            (_, Some(users)) => (Change::KeepUsers(users.clone()), "the user's own value stays".to_string()),
            (Some(value), None) => {
                published.add(name, &value);
                (Change::Set(value), why)
            }
            (None, None) if present.contains_key(name) => (Change::Remove, why),
            (None, None) => (Change::Leave, why),
        };
        variables.push(Variable { name: name.to_string(), change, why });
    }
    let why = "tells programs and nested steps what was decided".to_string();
    variables.push(Variable {
        name: marker::NAME.to_string(),
        change: Change::Set(published.to_string()),
        why,
    });
    variables
}

/// What undoes our earlier values where placement is off: an outer step's NIC is wrong for the tasks of an inner one.
pub fn withdrawal(present: &Present) -> Vec<Variable> {
    let Some(text) = present.get(marker::NAME) else { return Vec::new() };
    let earlier = Marker::parse(text);
    let ours = VARIABLES
        .into_iter()
        .filter(|name| present.get(name).is_some_and(|value| earlier.is_ours(name, value)));
    let why = "an outer step's value, which is wrong for the tasks of an inner one";
    ours.chain([marker::NAME])
        .map(|name| Variable { name: name.to_string(), change: Change::Remove, why: why.to_string() })
        .collect()
}

#[cfg(test)]
mod tests;

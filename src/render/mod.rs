//! Turns a placement into what programs read: one file for each library, the marker, and the reports.
//!
//! The obvious value is often the wrong one (one NIC in each task's `NCCL_IB_HCA` costs NCCL seven eighths of its
//! bandwidth), so each file states the library's own rule and its source.
#![forbid(unsafe_code)]

pub mod json;
pub mod marker;
mod nccl;
pub mod text;
mod ucx;

use crate::placement::{Change, NodePlacement, TaskPlacement, Variable};
use crate::topology::Topology;
use marker::Marker;
use std::collections::BTreeMap;

/// Variables that we may set beside the marker, in the order of reports.
pub const VARIABLES: [&str; 2] = [ucx::NET_DEVICES, nccl::IB_HCA];
/// Variables that are read: those above, the marker, and what changes our mind about one of them.
pub const READ: [&str; 4] = [ucx::NET_DEVICES, nccl::IB_HCA, marker::NAME, ucx::TLS];

/// The values that a task has of [`READ`] before we touch it.
pub type Present = BTreeMap<&'static str, String>;

/// The changes to one task's environment, and a sentence for each variable that a reader would look for.
pub fn environment(
    topology: &Topology,
    node: &NodePlacement,
    task: &TaskPlacement,
    present: &Present,
) -> (Vec<Variable>, Vec<String>) {
    let earlier = present.get(marker::NAME).map(|text| Marker::parse(text)).unwrap_or_default();
    let mut variables = Vec::new();
    let mut reasons = Vec::new();
    let mut published = Marker::new(topology, node, task);
    let wanted = [
        (ucx::NET_DEVICES, ucx::net_devices(node, task, present)),
        (nccl::IB_HCA, nccl::ib_hca(topology, node)),
    ];
    for (name, (value, reason)) in wanted {
        let users = present.get(name).filter(|value| !earlier.is_ours(name, value));
        let change = match (value, users) {
            (_, Some(users)) => {
                reasons.push(format!("{name}: the user's own value stays"));
                Some(Change::KeepUsers(users.clone()))
            }
            (Some(value), None) => {
                reasons.push(format!("{name}: {reason}"));
                published.add(name, &value);
                Some(Change::Set(value))
            }
            (None, None) => {
                reasons.push(format!("{name}: not set, {reason}"));
                present.contains_key(name).then_some(Change::Remove)
            }
        };
        variables.extend(change.map(|change| Variable { name: name.to_string(), change }));
    }
    variables.push(Variable { name: marker::NAME.to_string(), change: Change::Set(published.to_string()) });
    (variables, reasons)
}

/// What undoes our earlier values where placement is off: an outer step's NIC is wrong for the tasks of an inner one.
pub fn withdrawal(present: &Present) -> Vec<Variable> {
    let Some(text) = present.get(marker::NAME) else { return Vec::new() };
    let earlier = Marker::parse(text);
    let ours = VARIABLES
        .into_iter()
        .filter(|name| present.get(name).is_some_and(|value| earlier.is_ours(name, value)));
    ours.chain([marker::NAME])
        .map(|name| Variable { name: name.to_string(), change: Change::Remove })
        .collect()
}

#[cfg(test)]
mod tests;

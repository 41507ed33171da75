//! Shortfalls of tasks or GPUs, the failure by a strict word, and NICs that are left out.

use super::page::{Page, Text};
use super::{Failure, grouped};
use nic_placement_core::placement::{Excluded, NodePlacement};
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{Bitmap, Topology};

pub(super) type Shortfalls = Vec<(u32, Vec<String>)>;

pub(super) fn lines(kind: &str, shortfalls: &Shortfalls, page: &mut Page) {
    let lacks = shortfalls
        .iter()
        .flat_map(|(number, of)| of.iter().map(move |lack| (lack, *number)));
    for (lack, numbers) in grouped(lacks) {
        page.item("lacks: ", format_args!("{}: {lack}", named(kind, numbers)));
    }
}

pub(super) fn verdict(
    command: &str,
    kind: &str,
    plan: &Plan,
    shortfalls: &Shortfalls,
) -> Result<(), Failure> {
    let failing: Vec<u32> = shortfalls
        .iter()
        .filter(|(_, of)| !of.is_empty())
        .map(|(number, _)| *number)
        .collect();
    if failing.is_empty() || !plan.is_strict() {
        return Ok(());
    }
    let word = plan.wish.strictness;
    Err(format!(
        "{command}: {} would fail, as `{word}` asks",
        named(kind, failing)
    )
    .into())
}

/// `task 3`, `tasks 0-3`
pub(super) fn named(kind: &str, numbers: Vec<u32>) -> String {
    let plural = if numbers.len() == 1 { "" } else { "s" };
    format!("{kind}{plural} {}", numbers.into_iter().collect::<Bitmap>())
}

pub(super) fn no_nic(topology: &Topology) -> &'static str {
    if topology.is_left_to_libfabric() {
        "libfabric chooses"
    } else {
        "no NIC"
    }
}

/// A line for each reason.
pub(super) fn left_out(topology: &Topology, placement: &NodePlacement, page: &mut Page) {
    let excluded = placement.excluded.iter();
    for (reason, all) in grouped(excluded.map(|of| (&of.why, of))) {
        let names = all.iter().map(|of| {
            let port = of.port.map(|port| format!(":{port}"));
            Text::from(format_args!("{}{}", of.name, port.unwrap_or_default()))
        });
        let is_libfabrics = |of: &&Excluded| placement.is_left_to_libfabric(topology, &of.name);
        let word = match all.iter().any(is_libfabrics) {
            true => "left alone: ",
            false => "left out: ",
        };
        page.item(
            word,
            Text::joined(names, ", ").then(": ").then(reason.as_str()),
        );
    }
}

//! What looks wrong in the user's own variables as their libraries would read them on this node, and what to do.
//!
//! It changes nothing: the user's choice stays.  Each library says what it finds, with the rule that it rests on.
#![forbid(unsafe_code)]

use super::lists::{List, entries};
use super::uses::left_out;
use super::wanted::Fabric;
use super::{LIBRARIES, Present, ReadFile};
use crate::diagnostic::{Diagnostic, Shown};
use crate::placement::{NodePlacement, Rail};
use crate::step::Task;
use crate::topology::{Gpu, GpuVendor, Nic, NicKind, Topology};

/// The variables that we look at.
pub fn variables() -> impl Iterator<Item = &'static str> {
    let lists = LIBRARIES.iter().flat_map(|library| library.lists).map(|list| list.variable);
    let others = LIBRARIES.iter().flat_map(|library| library.doubts.1.split_whitespace());
    lists.chain(others).chain([DEVICE_ORDER, "CUDA_VISIBLE_DEVICES"])
}

const DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";

/// What the findings are about.
pub struct Checked<'a> {
    /// the task's environment, [`variables`] of it at least
    pub present: &'a Present,
    /// the node
    pub topology: &'a Topology,
    /// its map
    pub node: &'a NodePlacement,
    /// the task's grant
    pub task: &'a Task,
    /// tasks of the step on this node
    pub tasks: u32,
    /// which NICs reach which
    pub fabric: Fabric,
    /// the node's network interfaces; empty where they are not known
    pub interfaces: &'a [String],
    /// reads a file with the task's rights
    pub read: ReadFile<'a>,
}

impl<'a> Checked<'a> {
    /// A variable's value, if it is not empty.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.present.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The same as a number.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.value(name)?.trim().parse().ok()
    }

    /// The node's NICs that verbs libraries use.
    pub(super) fn verbs(&self) -> impl Iterator<Item = &'a Nic> {
        self.topology.nics.iter().filter(|nic| nic.kind == NicKind::Verbs)
    }
}

/// Everything that looks wrong.
pub fn lint(checked: &Checked) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for library in LIBRARIES {
        // the map leaves the NICs of other kinds to their own libraries
        for list in library.lists.iter().filter(|list| list.kind == NicKind::Verbs) {
            admitted_though_left_out(checked, list, &mut found);
        }
        (library.doubts.0)(checked, &mut found);
    }
    device_order(checked, &mut found);
    found
}

/// A finding about `NAME=VALUE`, with the value as a terminal may show it.
pub(super) fn finding(name: &str, value: &str, text: impl Into<String>) -> Diagnostic {
    Diagnostic::new(format!("{name}={}", Shown::word(value, 80)), text)
}

/// Entries of one list that are told, at most: each is a line on a terminal and in slurmd's log.
const MAX_TOLD: usize = 4;

/// Tells what is wrong with the entries of one list: the first few of them one by one, and how many more there are.
pub(super) fn tell_entries<E: PartialEq>(
    (name, list): (&str, &str),
    entries: impl Iterator<Item = E>,
    wrong: impl Fn(&E) -> Option<String>,
    found: &mut Vec<Diagnostic>,
) {
    let (mut count, mut last) = (0, None);
    for entry in entries {
        // an entry may stand there twice
        let Some(text) = wrong(&entry).filter(|_| last.as_ref() != Some(&entry)) else { continue };
        last = Some(entry);
        count += 1;
        if count <= MAX_TOLD {
            found.push(finding(name, list, text));
        }
    }
    if count > MAX_TOLD {
        found.push(finding(name, list, format!("{} more such entries", count - MAX_TOLD)));
    }
}

/// Has an entry a space before or after it?
pub(super) fn has_space(entry: &str) -> bool {
    entry.trim() != entry && !entry.trim().is_empty()
}

/// What is wrong with it then.
pub(super) fn of_space(entry: &str) -> String {
    let shown = Shown::word(entry.trim(), 64);
    format!("the space beside `{shown}` counts as a part of its name, which no device has: write none")
}

/// What is wrong with an entry that is the whole name of a device, with or without a port.
pub(super) fn unknown_device(checked: &Checked, entry: &str, device: &str) -> Option<String> {
    let port = entry.split_once(':').map(|(_, port)| port);
    let Some(nic) = checked.verbs().find(|nic| nic.name == device) else {
        let shown = Shown::word(entry, 64);
        return Some(format!("`{shown}` is no device of this node: `nic-placement show` lists them"));
    };
    let is_known = |number: u8| nic.ports.is_empty() || nic.ports.iter().any(|port| port.number == number);
    let lacks = port.and_then(|port| port.parse().ok()).is_some_and(|number| !is_known(number));
    lacks.then(|| format!("`{}` names a port that the device lacks", Shown::word(entry, 64)))
}

/// The entries of a list of whole names that may be looked at: not those with a range or a star.
pub(super) fn whole_names(list: &str) -> impl Iterator<Item = &str> {
    let entries = entries(list.strip_prefix('^').unwrap_or(list));
    entries.filter(|entry| !entry.contains(['[', '*']))
}

/// Ports that a list admits and that the map leaves out, as a storage NIC: NCCL may well prefer it to the compute NIC beside
/// it (src/graph/topo.cc, `ncclTopoGetLocal`).
fn admitted_though_left_out(checked: &Checked, list: &List, found: &mut Vec<Diagnostic>) {
    let Checked { topology, node, .. } = checked;
    let Some(text) = checked.value(list.variable) else { return };
    let admitted = list.admitted(text, topology);
    // UCX finds storage NICs without a list too, and what filters nothing is no choice of the user's
    if admitted.len() == list.found_without(topology) && text.trim() == "all" {
        return;
    }
    let why = |port: &&Rail| {
        let why = left_out(node, port)?;
        Some(format!("it admits `{port}`, which is left out here: {why}"))
    };
    tell_entries((list.variable, text), admitted.iter(), why, found);
}

/// CUDA's numbers of unequal GPUs are not those of the bus.
fn device_order(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let topology = checked.topology;
    let kind = |gpu: &Gpu| {
        let function = topology.pci.get(gpu.address);
        (gpu.model.clone(), function.and_then(|function| function.device))
    };
    let mut kinds = topology.gpus.iter().filter(|gpu| gpu.vendor == GpuVendor::Nvidia).map(kind);
    let first = kinds.next();
    let is_unequal = kinds.any(|kind| Some(kind) != first);
    if is_unequal && checked.value(DEVICE_ORDER) != Some("PCI_BUS_ID") {
        let text =
            "the node's GPUs are not equal, and CUDA numbers the fastest first: set it to `PCI_BUS_ID`";
        found.push(Diagnostic::new(DEVICE_ORDER, text));
    }
}

#[cfg(test)]
mod tests;

//! Reads a node from `/sys` and `/proc`: GPUs, RDMA devices, the PCI tree above them, NUMA nodes and CPUs.
//!
//! Discovery never fails: what is not there is a fact, and what is odd becomes a [`Diagnostic`].
#![forbid(unsafe_code)]

mod cpu;
pub mod described;
mod ethernet;
mod gpu;
mod kfd;
pub mod manifest;
mod nic;
mod pci;
pub mod registered;
pub mod root;
mod route;
#[cfg(test)]
#[path = "../../../formats/src/synthesise.rs"]
pub(crate) mod synthesise;
#[cfg(test)]
mod tests;

pub use manifest::Manifest;
pub use root::Root;

use crate::diagnostic::{Diagnostic, line};
use crate::order;
use crate::topology::file::MAX_TEXT;
use crate::topology::{PciFunction, Provenance, Topology};

/// How much of the node is read, each more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// what a decision needs: this runs in every step, so each file read is one that changes an answer
    Placement,
    /// that, and the names by which an admin may mean a NIC
    Selection,
    /// that, and which CPUs are threads of one core
    Cores,
    /// all that [`Topology`] can hold, for people, snapshots and files
    Full,
}

/// GPUs and NICs of one node, at most.  The largest node known has 64 GPUs (8 x MI300X in CPX mode); a virtual
/// machine monitor can show thousands of functions.
pub const MAX_DEVICES: usize = 256;

/// Reads the node below `root`.  `name` is what it is called where the machine does not say.
pub fn discover(root: &Root, scope: Scope, provenance: Provenance) -> (Topology, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    // the link in /sys/class/dmi/id leads here (the kernel's drivers/firmware/dmi-id.c)
    let name = root.read("sys/devices/virtual/dmi/id/product_name").map(|name| plain(&name));
    let name = name.filter(|name| !name.is_empty());
    let mut topology = Topology::empty(name.as_deref().unwrap_or("this node"), provenance);
    cpu::numa_nodes(root, &mut topology, &mut diagnostics);
    if scope >= Scope::Cores {
        cpu::pus(root, scope, &mut topology);
    } else {
        cpu::packages(root, &mut topology);
    }
    gpu::gpus(root, scope, &mut topology, &mut diagnostics);
    let found = nic::nics(root, scope, &mut topology, &mut diagnostics);
    route::routes(root, &mut topology, &found, &mut diagnostics);
    ethernet::slingshot(root, scope, &mut topology, &mut diagnostics);
    if scope == Scope::Full {
        cpu::processor(root, &mut topology);
        ethernet::plain(root, scope, &mut topology, &mut diagnostics);
    }
    diagnostics.extend(root.notes());
    unlisted_numa_nodes(&mut topology, &mut diagnostics);
    topology.sort();
    (topology, diagnostics)
}

/// The name that a firmware gives its machine, as a line and the node file can hold it.
fn plain(name: &str) -> String {
    name.chars().filter(|letter| !line::disturbs(*letter)).take(MAX_TEXT).collect()
}

/// What a function says of a NUMA node that is not there: a file could not hold it.
fn unlisted_numa_nodes(topology: &mut Topology, diagnostics: &mut Vec<Diagnostic>) {
    let mut unlisted = order::set(topology.pci.iter().filter_map(|function| function.numa_node));
    unlisted.retain(|&node| topology.numa_node(node).is_none());
    // a capture may lack the nodes altogether
    if unlisted.is_empty() || topology.numa_nodes.is_empty() {
        return;
    }
    let odd = |function: &&PciFunction| function.numa_node.is_some_and(|node| unlisted.contains(&node));
    let functions: Vec<PciFunction> = topology.pci.iter().filter(odd).cloned().collect();
    let first = &functions[0];
    let place = format!("/sys/bus/pci/devices/{}/numa_node", first.address);
    let finding = format!("no such NUMA node: not used, here and at {} other functions", functions.len() - 1);
    diagnostics.push(Diagnostic::new(place, finding));
    for function in functions {
        topology.pci.insert(PciFunction { numa_node: None, ..function });
    }
}

/// `text` as a number, where it is one.
fn number<T: std::str::FromStr>(text: Option<String>) -> Option<T> {
    text?.trim().parse().ok()
}

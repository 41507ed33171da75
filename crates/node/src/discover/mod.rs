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
pub use nic_placement_topology::Scope;
pub use root::Root;

use nic_placement_topology::diagnostic::{Diagnostic, line};
use nic_placement_topology::file::MAX_TEXT;
use nic_placement_topology::order;
use nic_placement_topology::{PciFunction, Provenance, Topology};

/// GPUs and NICs of one node, at most.  The largest known has 64 GPUs (8 x MI300X in CPX mode); a virtual machine
/// monitor can show thousands of functions.
pub(crate) const MAX_DEVICES: usize = 256;

pub fn discover(root: &Root, scope: Scope, provenance: Provenance) -> (Topology, Vec<Diagnostic>) {
    // the link in /sys/class/dmi/id leads here (the kernel's drivers/firmware/dmi-id.c)
    let name = root
        .read("sys/devices/virtual/dmi/id/product_name")
        .map(|name| plain(&name));
    let name = name.filter(|name| !name.is_empty());
    let topology = Topology::empty(name.as_deref().unwrap_or("this node"), provenance);
    let mut discovery = Discovery {
        root,
        scope,
        topology,
        diagnostics: Vec::new(),
    };
    discovery.numa_nodes();
    if scope >= Scope::Cores {
        discovery.pus();
    } else {
        discovery.packages();
    }
    discovery.gpus();
    let devices = discovery.rdma_devices();
    discovery.routes(&devices);
    discovery.slingshot();
    if scope == Scope::Full {
        discovery.processor();
        discovery.ethernet();
    }
    discovery.diagnostics.extend(root.notes());
    discovery.forget_unlisted_numa_nodes();
    let Discovery {
        mut topology,
        diagnostics,
        ..
    } = discovery;
    topology.sort();
    (topology, diagnostics)
}

/// A node that is being read.
struct Discovery<'r> {
    root: &'r Root,
    scope: Scope,
    topology: Topology,
    diagnostics: Vec<Diagnostic>,
}

impl Discovery<'_> {
    fn report(&mut self, path: &str, finding: impl Into<String>) {
        self.diagnostics
            .push(Diagnostic::new(format!("/{path}"), finding));
    }

    /// Leaves out devices beyond the first `most`.
    fn cut<T>(&mut self, found: &mut Vec<T>, most: usize, what: &str, path: &str) {
        if found.len() > most {
            self.report(
                path,
                format!("{} {what}: only the first {most} are used", found.len()),
            );
            found.truncate(most);
        }
    }

    /// Drops the NUMA nodes that functions name and the system does not have: a file could not hold them.
    fn forget_unlisted_numa_nodes(&mut self) {
        let mut unlisted = order::set(
            self.topology
                .pci
                .iter()
                .filter_map(|function| function.numa_node),
        );
        unlisted.retain(|&node| self.topology.numa_node(node).is_none());
        // a capture may lack the nodes altogether
        if unlisted.is_empty() || self.topology.numa_nodes.is_empty() {
            return;
        }
        let odd = |function: &&PciFunction| {
            function
                .numa_node
                .is_some_and(|node| unlisted.contains(&node))
        };
        let functions: Vec<PciFunction> = self.topology.pci.iter().filter(odd).cloned().collect();
        let place = format!("sys/bus/pci/devices/{}/numa_node", functions[0].address);
        let others = functions.len() - 1;
        self.report(
            &place,
            format!("no such NUMA node: not used, here and at {others} other functions"),
        );
        for function in functions {
            self.topology.pci.insert(PciFunction {
                numa_node: None,
                ..function
            });
        }
    }
}

/// The name that a firmware gives its machine, as a line and the node file can hold it.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|letter| !line::disturbs(*letter))
        .take(MAX_TEXT)
        .collect()
}

fn number<T: std::str::FromStr>(text: Option<String>) -> Option<T> {
    text?.trim().parse().ok()
}

/// `0x030200`, where it fits into the type.
fn hex<T: TryFrom<u32>>(text: Option<String>) -> Option<T> {
    T::try_from(u32::from_str_radix(text?.trim().strip_prefix("0x")?, 16).ok()?).ok()
}

/// `32.0 GT/s PCIe`, `400 Gb/sec (4X NDR)` -> 320, 4000
fn tenths(text: &str) -> Option<u64> {
    let number = text.split_whitespace().next()?;
    let (ones, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let ones = ones.parse::<u64>().ok().filter(|&ones| ones < 1_000_000)?;
    Some(ones * 10 + u64::from(fraction.chars().next()?.to_digit(10)?))
}

/// The last part of the path to which a link leads: a driver's name, a function's address.
fn target_name(root: &Root, link: &str) -> Option<String> {
    root.follow(link)?.rsplit('/').next().map(str::to_string)
}

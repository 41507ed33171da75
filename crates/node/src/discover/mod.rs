//! Reads a node from `/sys` and `/proc`: GPUs, RDMA devices, the PCI tree above them, NUMA nodes
//! and CPUs.
//!
//! Discovery never fails: a missing file leaves a field empty, an odd one adds a [`Diagnostic`].

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
#[path = "../../../../testing/src/synthesise.rs"]
pub(crate) mod synthesise;
#[cfg(test)]
mod tests;

pub use manifest::Manifest;
pub use nic_placement_topology::Scope;
pub use root::Root;

use nic_placement_topology::diagnostic::{Diagnostic, line};
use nic_placement_topology::file::MAX_TEXT;
use nic_placement_topology::{PciAddress, PciFunction, Provenance, Topology};
use std::str::FromStr;

/// Most GPUs, and most NICs. The largest known node has 64 GPUs (8 MI300X in CPX mode); a
/// hypervisor can show thousands of PCI functions.
pub(crate) const MAX_DEVICES: usize = 256;

pub fn discover(root: &Root, scope: Scope, provenance: Provenance) -> (Topology, Vec<Diagnostic>) {
    // the target of the link /sys/class/dmi/id (drivers/firmware/dmi-id.c)
    let name = root.read("sys/devices/virtual/dmi/id/product_name");
    let name = name.unwrap_or_default();
    let name = name.chars().filter(|letter| !line::disturbs(*letter));
    let mut name: String = name.take(MAX_TEXT).collect();
    if name.is_empty() {
        name.push_str("this node");
    }
    let mut discovery = Discovery {
        root,
        scope,
        node: Topology::empty(&name, provenance),
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
    discovery.node.sort();
    (discovery.node, discovery.diagnostics)
}

struct Discovery<'r> {
    root: &'r Root,
    scope: Scope,
    node: Topology,
    diagnostics: Vec<Diagnostic>,
}

impl Discovery<'_> {
    fn is_full(&self) -> bool {
        self.scope == Scope::Full
    }

    fn report(&mut self, path: &str, finding: impl Into<String>) {
        let diagnostic = Diagnostic::new(format!("/{path}"), finding);
        self.diagnostics.push(diagnostic);
    }

    fn cut<T>(&mut self, found: &mut Vec<T>, most: usize, what: &str, path: &str) {
        let count = found.len();
        if count > most {
            self.report(
                path,
                format!("{count} {what}: only the first {most} are used"),
            );
            found.truncate(most);
        }
    }

    /// Clears each PCI function's `numa_node` that `Topology::numa_nodes` lacks: a topology file
    /// with such a number is refused. A capture that lists no NUMA node keeps the numbers.
    fn forget_unlisted_numa_nodes(&mut self) {
        let is_unlisted = |function: &&PciFunction| {
            let node = function.numa_node;
            node.is_some_and(|node| self.node.numa_node(node).is_none())
        };
        let odd: Vec<PciFunction> = self.node.pci.iter().filter(is_unlisted).cloned().collect();
        if odd.is_empty() || self.node.numa_nodes.is_empty() {
            return;
        }
        let place = format!("sys/bus/pci/devices/{}/numa_node", odd[0].address);
        let others = odd.len() - 1;
        self.report(
            &place,
            format!("no such NUMA node: not used, here and at {others} other functions"),
        );
        for function in odd {
            self.change(function.address, |function| function.numa_node = None);
        }
    }

    fn change(&mut self, address: PciAddress, change: impl FnOnce(&mut PciFunction)) {
        if let Some(mut function) = self.node.pci.get(address).cloned() {
            change(&mut function);
            self.node.pci.insert(function);
        }
    }
}

fn number<T: FromStr>(text: Option<String>) -> Option<T> {
    text?.trim().parse().ok()
}

fn is_number(name: &str) -> bool {
    name.parse::<u32>().is_ok()
}

fn is_address(name: &str) -> bool {
    name.parse::<PciAddress>().is_ok()
}

/// Parses `0x030200`.
fn hex<T: TryFrom<u32>>(text: Option<String>) -> Option<T> {
    T::try_from(u32::from_str_radix(text?.trim().strip_prefix("0x")?, 16).ok()?).ok()
}

/// 320 for `32.0 GT/s PCIe`, 4000 for `400 Gb/sec (4X NDR)`.
fn tenths(text: &str) -> Option<u64> {
    let number = text.split_whitespace().next()?;
    let (ones, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let ones = ones.parse::<u64>().ok().filter(|&ones| ones < 1_000_000)?;
    Some(ones * 10 + u64::from(fraction.chars().next()?.to_digit(10)?))
}

/// The last part of a link's target, such as a driver's name or a PCI address.
fn target_name(root: &Root, link: &str) -> Option<String> {
    root.follow(link)?.rsplit('/').next().map(str::to_string)
}

//! Reads the matrix that `nvidia-smi topo -m` prints: kinds of paths between GPUs and NICs, and the GPUs' CPUs.  What AMD's tools
//! print instead is read by [`amd`].
//!
//! The matrix names no PCI address.  Every device gets an invented one, alone under its own host bridge, so no devices look
//! related by accident.  The matrix's path of a GPU and a NIC is in [`Topology::stated_paths`].
#![forbid(unsafe_code)]

mod affinity;
pub(crate) mod amd;
mod header;
mod legend;
mod matrix;
mod paths;
#[cfg(test)]
mod tests;
mod text;
mod word;

use super::{BadText, Imported, Result};
use affinity::Affinity;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{
    DeviceName, Gpu, GpuVendor, HostBridge, Nic, NicKind, PciAddress, PciFunction, PciParent, Port,
    PortState, Provenance, Topology,
};
use paths::MatrixPaths;

/// The PCI domain of invented addresses: the largest, which no kernel uses.
const INVENTED_DOMAIN: u32 = u32::MAX;
/// The bus of the first invented NIC; GPUs have the buses below.
const FIRST_NIC_BUS: u8 = 0x80;
/// The most GPUs, and the most NICs, of one matrix: one bus each.
const MAX_DEVICES: usize = 128;

/// Reads the output of `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology`, with or without text around it: a
/// prompt, quotes, fences, timestamps.
///
/// It repairs unambiguous faults, and a diagnostic reports each.  A GPU's own row counts: a NIC's row may
/// differ or be missing without loss.
pub fn read(text: &str, provenance: Provenance) -> Result<(Topology, Vec<Diagnostic>)> {
    if amd::is_one(text) {
        let read = amd::read(text, provenance)?;
        return Ok((read.topology, read.diagnostics));
    }
    let lines = text::lines(text)?;
    let matrix = matrix::find(&lines)?;
    let topology = Topology::empty("nvidia-smi-topo", provenance);
    let mut to = Imported {
        topology,
        diagnostics: matrix.notes(),
    };
    let ends_here = lines
        .last()
        .is_some_and(|line| line.number == matrix.last_line);
    let links = paths::read(&matrix, ends_here, &mut to)?;
    let names = legend::read(&lines, &matrix, &links.nics, &mut to)?;
    let affinities = affinity::read(&matrix, &links, &mut to);
    fill(&links, names, &affinities, &mut to);
    Ok((to.topology, to.diagnostics))
}

fn fill(links: &MatrixPaths, names: Vec<DeviceName>, affinities: &[Affinity], to: &mut Imported) {
    to.topology.numa_nodes = affinity::numa_nodes(affinities, to);
    let gpu_nodes: Vec<Option<u32>> = affinities.iter().map(Affinity::node).collect();
    for (&number, affinity) in links.gpus.iter().zip(affinities) {
        let address = invented(number);
        let (vendor, local_cpus) = (Some(0x10de), affinity.cpus.clone());
        let numa_node = affinity.node();
        to.topology.pci.insert(PciFunction {
            vendor,
            numa_node,
            local_cpus,
            ..alone(address)
        });
        to.topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
    }
    let layers = legend::link_layers(&names);
    for (position, (name, layer)) in names.into_iter().zip(layers).enumerate() {
        let address = invented(FIRST_NIC_BUS + position as u8);
        let numa_node = paths::nic_node(links, position, &gpu_nodes, &name, to);
        let topology = &mut to.topology;
        topology.pci.insert(PciFunction {
            numa_node,
            ..alone(address)
        });
        for (gpu, row) in topology.gpus.iter().zip(&links.kinds) {
            topology
                .stated_paths
                .extend(row[position].map(|kind| ((gpu.address, address), kind)));
        }
        // placement chooses active ports only, so any other state would make the matrix useless
        let ports = vec![Port::new(1, PortState::Active, layer, None)];
        topology.nics.push(Nic {
            address: Some(address),
            ports,
            ..Nic::new(name, NicKind::Verbs)
        });
    }
    if !to.topology.nics.is_empty() {
        let finding = "the matrix lists NICs, not the states, rates and numbers of their ports: each counts as one \
                       active port of unknown rate";
        to.note("nvidia-smi topo -m", finding);
    }
    to.topology.sort();
}

fn invented(bus: u8) -> PciAddress {
    PciAddress {
        domain: INVENTED_DOMAIN,
        bus,
        device: 0,
        function: 0,
    }
}

fn alone(address: PciAddress) -> PciFunction {
    PciFunction::new(
        address,
        PciParent::Host(HostBridge {
            domain: address.domain,
            bus: address.bus,
        }),
    )
}

/// The number of a label such as `GPU3`.
fn gpu_number(label: &str) -> Option<u32> {
    label.strip_prefix("GPU")?.parse().ok()
}

/// Is this the matrix's own word for a NIC, such as `NIC3`, which the legend explains?
fn is_nic_number(label: &str) -> bool {
    label
        .strip_prefix("NIC")
        .is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// Labels for a message: all if there are few, else the first ones.
fn listed(labels: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = labels
        .iter()
        .take(SHOWN)
        .map(|label| format!("`{}`", label.as_ref()))
        .collect();
    match labels.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

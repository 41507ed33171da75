//! Reads the matrix of `nvidia-smi topo -m` and of tools that print the same, as Moore Threads' `mthreads-gmi topo -m`: kinds of
//! paths between GPUs and NICs, and the GPUs' CPUs.  [`amd`] reads the output of AMD's tools.
//!
//! The matrix names no PCI address.  Every device gets an invented one below its own host bridge, so that no two devices look
//! related by accident.  [`Topology::stated_paths`] holds the matrix's path of a GPU and a NIC.
//!
//! Nothing is guessed: line ends, blanks, colours and quotes are normalised, and a matrix is refused unless each row of a GPU has
//! one known word below each NIC.

mod affinity;
pub(crate) mod amd;
mod links;
mod matrix;
mod names;
#[cfg(test)]
mod tests;
mod text;

use super::{BadText, GpuLinks, Imported, Result, host_of, nth_bus, number};
use affinity::Affinity;
use matrix::Matrix;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{
    Gpu, GpuVendor, Nic, NicKind, PathType, PciAddress, PciFunction, PciParent, Port, PortState,
    Provenance, Topology,
};
use std::collections::BTreeSet;

/// The PCI domain of invented addresses: the largest, which no kernel uses.
const INVENTED_DOMAIN: u32 = u32::MAX;
/// The bus of the first invented NIC; GPUs have the buses below.
const FIRST_NIC_BUS: u8 = 0x80;
/// The most GPUs, and the most NICs, of one text: one bus each.
const MAX_DEVICES: usize = 128;

/// With or without text around it: a prompt, quotes, fences, timestamps.
pub fn read(text: &str, provenance: Provenance) -> Result<(Topology, Vec<Diagnostic>)> {
    read_with_links(text, "", provenance)
}

/// The words between GPUs in NVIDIA's matrix, which no topology has.
pub(crate) fn between_gpus(text: &str) -> GpuLinks {
    let matrix = text::lines(text).and_then(|lines| matrix::find(&lines));
    matrix.map_or(GpuLinks::new(), |matrix| matrix.between_gpus())
}

/// As [`read`], with the output of `rdma link` or `ibdev2netdev` beside that of AMD's tools.
pub fn read_with_links(
    text: &str,
    links: &str,
    provenance: Provenance,
) -> Result<(Topology, Vec<Diagnostic>)> {
    let read = if amd::is_one(text) {
        amd::read(text, links, provenance)?
    } else if links.is_empty() {
        let lines = text::lines(text)?;
        let mut to = Imported {
            topology: Topology::empty("nvidia-smi-topo", provenance),
            diagnostics: Vec::new(),
        };
        fill(&matrix::find(&lines)?, &lines, &mut to)?;
        to
    } else {
        return Err(BadText::new(
            0,
            "a second file is read beside the output of `rocm-smi` or `amd-smi`, which the first is not",
        ));
    };
    Ok((read.topology, read.diagnostics))
}

fn fill(matrix: &Matrix, lines: &[text::TextLine], to: &mut Imported) -> Result<()> {
    let (gpus, nics) = matrix.devices(to)?;
    let kinds = matrix.paths(&gpus, &nics, lines)?;
    let names = names::read(matrix, &nics, lines, to)?;
    let affinities = affinity::read(matrix, &gpus, to);
    to.topology.numa_nodes = affinity::numa_nodes(&affinities, to);
    let foreign = matrix.foreign_words();
    if !foreign.is_empty() {
        to.note("rows", format!(
            "kinds of path that nvidia-smi does not have: {}: another vendor's GPUs, taken for used like NVIDIA's",
            listed(&foreign)
        ));
    }
    let vendor = foreign.is_empty().then_some(0x10de);
    for (&number, affinity) in gpus.iter().zip(&affinities) {
        to.topology.pci.insert(PciFunction {
            vendor,
            numa_node: affinity.node(),
            local_cpus: affinity.cpus.clone(),
            ..alone(invented(number))
        });
        to.topology
            .gpus
            .push(Gpu::new(invented(number), GpuVendor::Nvidia));
    }
    let layers = names::link_layers(&names);
    for (at, (name, layer)) in names.into_iter().zip(layers).enumerate() {
        let address = invented(FIRST_NIC_BUS + at as u8);
        let column: Vec<PathType> = kinds.iter().map(|row| row[at]).collect();
        let numa_node = nic_node(&column, &affinities, &name, to);
        to.topology.pci.insert(PciFunction {
            numa_node,
            ..alone(address)
        });
        let gpus = gpus.iter().map(|&gpu| (invented(gpu), address));
        to.topology.stated_paths.extend(gpus.zip(column));
        // placement chooses active ports only, so any other state would make the matrix useless
        let ports = vec![Port::new(1, PortState::Active, layer, None)];
        to.topology.nics.push(Nic {
            address: Some(address),
            ports,
            ..Nic::new(name, NicKind::Verbs)
        });
    }
    if !nics.is_empty() {
        to.note(
            "nvidia-smi topo -m",
            "the matrix lists NICs, not the states, rates and numbers of their ports: each counts as one active port of \
             unknown rate",
        );
    }
    to.topology.sort();
    Ok(())
}

/// That of the nearest GPUs whose node is known, unless they are at SYS.
fn nic_node(column: &[PathType], gpus: &[Affinity], name: &str, to: &mut Imported) -> Option<u32> {
    let known = column
        .iter()
        .zip(gpus)
        .filter_map(|(&kind, gpu)| Some((kind, gpu.node()?)));
    let nearest = known.clone().map(|(kind, _)| kind).min()?;
    let nodes: BTreeSet<u32> = known
        .filter(|(kind, _)| *kind == nearest && nearest != PathType::Sys)
        .map(|(_, node)| node)
        .collect();
    if nodes.len() > 1 {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let nodes = nodes.join(", ");
        to.note(
            name,
            format!("is at {nearest} of GPUs of NUMA nodes {nodes}: its own is not known"),
        );
        return None;
    }
    nodes.first().copied()
}

fn invented(bus: u8) -> PciAddress {
    nth_bus(INVENTED_DOMAIN, bus.into())
}

fn alone(address: PciAddress) -> PciFunction {
    PciFunction::new(address, PciParent::Host(host_of(address)))
}

fn gpu_number(label: &str) -> Option<u32> {
    number(label.strip_prefix("GPU")?)
}

fn is_nic_number(label: &str) -> bool {
    label.strip_prefix("NIC").and_then(number).is_some()
}

/// Labels for a message: all if there are few, else the first ones.
fn listed(labels: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 8;
    let shown = labels
        .iter()
        .map(|label| format!("`{}`", label.as_ref()))
        .take(SHOWN)
        .collect::<Vec<_>>()
        .join(", ");
    match labels.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

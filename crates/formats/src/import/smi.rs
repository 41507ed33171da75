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
#[cfg(test)]
mod tests;
mod text;

use super::{BadText, Imported, Result, host_of, nth_bus, number};
use affinity::Affinity;
use matrix::Matrix;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{
    DeviceName, Gpu, GpuVendor, LinkLayer, Nic, NicKind, PathType, PciAddress, PciFunction,
    PciParent, Port, PortState, Provenance, Topology,
};

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

/// As [`read`], with the output of `rdma link` or `ibdev2netdev` beside that of AMD's tools.
pub fn read_with_links(
    text: &str,
    links: &str,
    provenance: Provenance,
) -> Result<(Topology, Vec<Diagnostic>)> {
    if amd::is_one(text) {
        return amd::read(text, links, provenance);
    }
    if !links.is_empty() {
        return Err(BadText::new(
            0,
            "a second file is read beside the output of `rocm-smi` or `amd-smi`, which the first is not",
        ));
    }
    let lines = text::lines(text)?;
    let mut to = Imported::new("nvidia-smi-topo", provenance);
    fill(&Matrix::find(&lines)?, &lines, &mut to)?;
    to.finish()
}

fn fill(matrix: &Matrix, lines: &[text::TextLine], to: &mut Imported) -> Result<()> {
    let (gpus, nics) = matrix.devices(to)?;
    let kinds = matrix.paths(&gpus, &nics, lines)?;
    let names = matrix.names(&nics, lines, to)?;
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
    let layers = link_layers(&names);
    for (at, (name, layer)) in names.into_iter().zip(layers).enumerate() {
        let address = invented(FIRST_NIC_BUS + at as u8);
        let column: Vec<PathType> = kinds.iter().map(|row| row[at]).collect();
        let numa_node = nic_node(&column, &affinities);
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
    Ok(())
}

/// That of the nearest GPUs whose node is known, if they have one, and are not at SYS.
fn nic_node(column: &[PathType], gpus: &[Affinity]) -> Option<u32> {
    let known = column.iter().zip(gpus);
    let known = known.filter_map(|(&kind, gpu)| Some((kind, gpu.node()?)));
    let (nearest, node) = known.clone().min()?;
    let mut at = known.filter(|(kind, _)| *kind == nearest);
    (nearest != PathType::Sys && at.all(|(_, other)| other == node)).then_some(node)
}

/// The link layer of each NIC, if all names are udev's: the protocol, then an onboard index, a
/// place on the bus or a GUID (rdma-core, kernel-boot/rdma_rename.c; the kernel's
/// drivers/infiniband/core/nldev.c).
///
/// Else all are unknown: placement would take an unknown one among them for one more layer.
pub fn link_layers(names: &[DeviceName]) -> Vec<LinkLayer> {
    let known: Option<Vec<LinkLayer>> = names
        .iter()
        .map(|name| {
            [
                ("ib", LinkLayer::InfiniBand),
                ("roce", LinkLayer::Ethernet),
                ("iw", LinkLayer::Ethernet),
            ]
            .into_iter()
            .find_map(|(protocol, layer)| {
                let mut place = name.as_str().strip_prefix(protocol)?.chars();
                let starts_well = matches!(place.next()?, 'o' | 's' | 'p' | 'P' | 'x');
                (starts_well && place.next()?.is_ascii_hexdigit()).then_some(layer)
            })
        })
        .collect();
    known.unwrap_or_else(|| vec![LinkLayer::Unknown; names.len()])
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
    let shown = labels.iter().take(SHOWN);
    let shown: Vec<String> = shown.map(|label| format!("`{}`", label.as_ref())).collect();
    match labels.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

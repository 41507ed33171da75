//! Reads hwloc's XML (`lstopo machine.xml`), versions 1 to 3: NUMA nodes, CPUs, GPUs, NICs and the PCI
//! bridges above them, each where hwloc has it.
//!
//! What the file does not say stays unknown.  A contradiction (a number or an address twice, a device inside
//! a device) is an error with its line.  What we can leave out or repair is a diagnostic.

mod cpu;
mod gpu;
mod nic;
mod object;
mod pci;
#[cfg(test)]
mod tests;

use super::{BadText, Imported, Result, xml};
use nic_placement_core::diagnostic::{Diagnostic, counted};
use nic_placement_core::topology::file::{MAX_PCI, MAX_TEXT};
use nic_placement_core::topology::{DeviceName, Provenance, Topology};
use object::Objects;

/// The most findings about one file: a broken file can have one for each of its objects.
const MAX_DIAGNOSTICS: usize = 100;

pub fn read(text: &str, provenance: Provenance) -> Result<(Topology, Vec<Diagnostic>)> {
    let document = xml::parse(text)?;
    let file = Objects::new(&document)?;
    let mut to = Imported {
        topology: Topology::empty(&machine_name(&file), provenance),
        diagnostics: Vec::new(),
    };
    to.topology.processor = cpu::processor(&file);
    cpu::numa_nodes(&file, &mut to)?;
    cpu::pus(&file, &mut to)?;
    cpu::distances(&file, &mut to);
    let bus = pci::Bus::new(&file, &mut to)?;
    gpu::gpus(&bus, &mut to)?;
    nic::nics(&bus, &mut to)?;
    let Imported {
        mut topology,
        mut diagnostics,
    } = to;
    let functions = topology.pci.iter().count();
    if functions > MAX_PCI {
        return Err(BadText::new(
            0,
            format!("`{functions}` PCI functions that matter: expected at most {MAX_PCI}"),
        ));
    }
    topology.sort();
    if diagnostics.len() > MAX_DIAGNOSTICS {
        let more = diagnostics.len() - MAX_DIAGNOSTICS;
        diagnostics.truncate(MAX_DIAGNOSTICS);
        diagnostics.push(Diagnostic::new(
            "hwloc",
            format!("{} about this file", counted(more, "more finding")),
        ));
    }
    Ok((topology, diagnostics))
}

/// The host's name, else the product's, in a topology name's characters.
fn machine_name(file: &Objects) -> String {
    let said = ["HostName", "DMIProductName"]
        .into_iter()
        .find_map(|key| file.machine_info(key));
    let name: String = said
        .unwrap_or_default()
        .trim()
        .chars()
        .take(DeviceName::MAX)
        .map(|c: char| if DeviceName::may_hold(c) { c } else { '-' })
        .collect();
    if DeviceName::is_one(&name) {
        name
    } else {
        "hwloc-machine".to_string()
    }
}

/// Free text as a topology may hold it; `None` if nothing is left.
fn free_text(text: &str) -> Option<String> {
    let kept = text.trim().chars().filter(|c| !c.is_control());
    Some(kept.take(MAX_TEXT).collect()).filter(|kept: &String| !kept.is_empty())
}

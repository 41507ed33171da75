//! The node, from wherever the admin wants it read: this system, a directory, a built-in machine, a topology file.
#![forbid(unsafe_code)]

// the unit tests share `synthesise` with crates/formats, which names this crate as others do
#[cfg(test)]
extern crate self as nic_placement_node;

pub mod cache;
pub mod discover;
pub mod kept;
pub mod platform;

use crate::discover::root::{self, Author, Unreadable};
use crate::discover::{Root, Scope, described, discover};
use crate::platform::recognise::{Dmi, recognise, supply};
use nic_placement_topology::NodeSource;
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::{Gpu, Provenance, Topology, file};
use std::fmt;
use std::path::Path;

#[derive(Debug)]
pub enum NoTopology {
    /// the file or directory cannot be read, or is not trusted
    Unreadable(Unreadable),
    /// the file (path) is no topology (why)
    Bad(String, String),
    NoModel(String),
}

impl fmt::Display for NoTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTopology::Unreadable(unreadable) => write!(f, "{unreadable}"),
            NoTopology::Bad(path, problem) => write!(f, "`{path}` is no topology: {problem}"),
            NoTopology::NoModel(name) => {
                let known: Vec<&str> = platform::names().collect();
                write!(
                    f,
                    "no built-in machine is called `{name}`; known: {}",
                    known.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for NoTopology {}

/// Bytes of a topology file, at most: slurmstepd holds it in memory, as root.  The largest built-in machine has 9 kB.
const MAX_FILE: usize = 16 * 1024 * 1024;

/// Reads the node, with findings.  `author` limits whose files may describe it: in a process of root's only root's.
pub fn read(
    source: &NodeSource,
    scope: Scope,
    author: Author,
) -> Result<(Topology, Vec<Diagnostic>), NoTopology> {
    match source {
        NodeSource::Live => Ok(read_root(&Root::live(), scope, Provenance::ThisSystem)),
        NodeSource::Sysfs(path) => {
            let root = Root::directory(Path::new(path), author).map_err(NoTopology::Unreadable)?;
            Ok(read_root(&root, scope, Provenance::Captured(path.clone())))
        }
        NodeSource::Machine(name) => platform::model(name)
            .map(|topology| (topology, Vec::new()))
            .ok_or(NoTopology::NoModel(name.clone())),
        NodeSource::Topology(path) => {
            let bytes = root::read_file(Path::new(path), MAX_FILE, author)
                .map_err(NoTopology::Unreadable)?;
            let topology = from_json(path, &bytes)
                .map_err(|problem| NoTopology::Bad(path.clone(), problem))?;
            Ok((topology, Vec::new()))
        }
    }
}

/// The project's own format, and nothing else: this runs as root, which parses no other program's files.
fn from_json(path: &str, bytes: &[u8]) -> Result<Topology, String> {
    let text =
        std::str::from_utf8(bytes).map(|text| text.trim_start_matches('\u{feff}').trim_start());
    match text {
        Ok(text) if text.starts_with('{') => {
            file::from_json(text, Provenance::File(path.to_string())).map_err(|bad| bad.to_string())
        }
        _ => Err(format!(
            "line 1 does not begin the project's own JSON, which is expected: `nic-placement import {path} -o FILE` makes it \
             of a snapshot, a tar, XML of hwloc or NCCL, and the text of `nvidia-smi topo -m`"
        )),
    }
}

/// Reads the node from `/sys`.  If DMI and PCI addresses match a built-in model, adds the paths that the hypervisor
/// hides.
pub fn read_root(root: &Root, scope: Scope, provenance: Provenance) -> (Topology, Vec<Diagnostic>) {
    let is_live = provenance.is_this_system();
    let (mut topology, mut diagnostics) = discover(root, scope, provenance);
    // a described machine has all that its description says: a known machine adds nothing to it
    if !is_live && described::read(root, &mut topology, &mut diagnostics) {
        diagnostics.extend(root.notes());
        return (topology, diagnostics);
    }
    if let Some(model) = recognise(&dmi(root), &topology) {
        let supplied = supply(&mut topology, model);
        topology.supplied_by = (!supplied.is_empty()).then(|| model.name.to_string());
        diagnostics.extend(supplied);
    }
    diagnostics.extend(root.notes());
    (topology, diagnostics)
}

/// The node's identity by its firmware (the kernel's drivers/firmware/dmi-id.c; AWS names its instance types there).
pub fn dmi(root: &Root) -> Dmi {
    let read = |name: &str| {
        root.read(&format!("sys/devices/virtual/dmi/id/{name}"))
            .filter(|text| !text.is_empty())
    };
    Dmi {
        product: read("product_name"),
        vendor: read("sys_vendor"),
        board: read("board_name"),
        chassis_asset_tag: read("chassis_asset_tag"),
    }
}

/// Removes from a described node the devices that this one lacks: a library that is told of a missing NIC has none.
/// The live node gives ports their state and rate, NICs and GPUs their device nodes, and GPUs the UUIDs, order and MIG
/// instances, of which a task's evidence speaks.
pub fn confirm(topology: &mut Topology, live: &Topology) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    topology.nics.retain_mut(|nic| {
        let Some(here) = live.nics.iter().find(|here| here.name == nic.name) else {
            diagnostics.push(Diagnostic::new(
                &nic.name,
                "described, but not on this node: left out",
            ));
            return false;
        };
        nic.ports = here.ports.clone();
        nic.uverbs = here.uverbs.clone();
        true
    });
    for gpu in &mut topology.gpus {
        let is_it = |here: &&Gpu| {
            (here.address, here.partition, here.vendor) == (gpu.address, gpu.partition, gpu.vendor)
        };
        if let Some(here) = live.gpus.iter().find(is_it) {
            *gpu = Gpu {
                model: gpu.model.take().or_else(|| here.model.clone()),
                ..here.clone()
            };
        }
    }
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_topology::GpuVendor;

    #[test]
    fn a_described_gpu_has_the_device_node_and_the_order_that_it_has_on_this_node() {
        let gpu = |bus: u32| Gpu::new(format!("{bus:02x}:00.0").parse().unwrap(), GpuVendor::Amd);
        let mut described =
            Topology::empty("described", Provenance::Model("described".to_string()));
        described.gpus = vec![
            Gpu {
                model: Some("Model".to_string()),
                minor: Some(128),
                ..gpu(1)
            },
            gpu(2),
        ];
        let mut live = Topology::empty("live", Provenance::ThisSystem);
        live.gpus = vec![Gpu {
            minor: Some(131),
            runtime_index: Some(7),
            ..gpu(1)
        }];
        confirm(&mut described, &live);
        let here = Gpu {
            model: Some("Model".to_string()),
            ..live.gpus[0].clone()
        };
        assert_eq!(described.gpus, [here, gpu(2)]);
    }
}

//! Reads the node: this system, a captured tree, a built-in machine, or a topology file.
#![forbid(unsafe_code)]

// files of crates/formats, included in unit tests, use this crate's name
#[cfg(test)]
extern crate self as nic_placement_node;

#[cfg(test)]
#[macro_use]
#[path = "../../../testing/rows.rs"]
mod rows;

pub mod cache;
pub mod discover;
#[cfg(test)]
#[path = "../../formats/src/file.rs"]
mod file;
pub mod kept;
#[cfg(test)]
#[path = "../../formats/src/node_file.rs"]
mod node_file;
pub mod platform;
#[cfg(test)]
#[path = "../../topology/src/path/tests/way.rs"]
mod way;

use crate::discover::root::{self, Author, Unreadable};
use crate::discover::{Root, Scope, described, discover};
use crate::platform::recognise::{Dmi, recognise, supply};
use nic_placement_topology::NodeSource;
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::{Gpu, Provenance, Topology};
use std::fmt;
use std::path::Path;

#[derive(Debug)]
pub enum NoTopology {
    Unreadable(Unreadable),
    /// path and error of a file that is no topology
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
                let known = known.join(", ");
                write!(f, "no built-in machine is called `{name}`; known: {known}")
            }
        }
    }
}

impl std::error::Error for NoTopology {}

/// Most bytes of a topology file: slurmstepd reads the file into memory as root. Built-in machines
/// have up to 19 kB.
const MAX_FILE: usize = 16 * 1024 * 1024;

/// Reads the node of `source`, with findings; `author` is the required owner of files.
pub fn read(
    source: &NodeSource,
    scope: Scope,
    author: Author,
) -> Result<(Topology, Vec<Diagnostic>), NoTopology> {
    let node = match source {
        NodeSource::Live => return Ok(read_root(&Root::live(), scope, Provenance::ThisSystem)),
        NodeSource::Sysfs(path) => {
            let root = Root::directory(Path::new(path), author).map_err(NoTopology::Unreadable)?;
            return Ok(read_root(&root, scope, Provenance::Captured(path.clone())));
        }
        NodeSource::Machine(name) => {
            platform::model(name).ok_or_else(|| NoTopology::NoModel(name.clone()))?
        }
        NodeSource::Topology(path) => {
            let bytes = root::read_file(Path::new(path), MAX_FILE, author)
                .map_err(NoTopology::Unreadable)?;
            from_json(path, &bytes).map_err(|problem| NoTopology::Bad(path.clone(), problem))?
        }
    };
    Ok((node, Vec::new()))
}

/// Parses the project's format alone: slurmstepd, as root, runs no other format's parser.
fn from_json(path: &str, bytes: &[u8]) -> Result<Topology, String> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with('{') {
        return Err(format!(
            "line 1 does not begin the project's own JSON, which is expected: `nic-placement import {path} -o FILE` makes it \
             of a snapshot, a tar, XML of hwloc or NCCL, and the text of `nvidia-smi topo -m`"
        ));
    }
    nic_placement_topology::file::from_json(text, Provenance::File(path.to_string()))
        .map_err(|bad| bad.to_string())
}

/// Reads a node below `root`. For a node recognised as a built-in machine, adds paths that a
/// hypervisor hides, and roles of NICs.
pub fn read_root(root: &Root, scope: Scope, provenance: Provenance) -> (Topology, Vec<Diagnostic>) {
    let is_live = provenance.is_this_system();
    let (mut node, mut diagnostics) = discover(root, scope, provenance);
    // [`described`] files state all paths and roles, so no built-in model adds any
    let is_described = !is_live && described::read(root, &mut node, &mut diagnostics);
    if !is_described {
        if let Some(model) = recognise(&dmi(root), &node) {
            let supplied = supply(&mut node, model);
            node.supplied_by = (!supplied.is_empty()).then(|| model.name.to_string());
            diagnostics.extend(supplied);
        }
    }
    diagnostics.extend(root.notes());
    (node, diagnostics)
}

/// DMI's strings (drivers/firmware/dmi-id.c).
pub fn dmi(root: &Root) -> Dmi {
    let read = |name: &str| {
        let text = root.read(&format!("sys/devices/virtual/dmi/id/{name}"));
        text.filter(|text| !text.is_empty())
    };
    Dmi {
        product: read("product_name"),
        vendor: read("sys_vendor"),
        board: read("board_name"),
        chassis_asset_tag: read("chassis_asset_tag"),
    }
}

/// Fits the `node` of a file or built-in machine to the `live` one. Removes NICs that `live` lacks,
/// because a library fails on their names. Takes NICs' ports and device files from `live`, and
/// GPUs, except a `model` that `node` states.
pub fn confirm(node: &mut Topology, live: &Topology) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    node.nics.retain_mut(|nic| {
        let Some(here) = live.nics.iter().find(|here| here.name == nic.name) else {
            let finding = "described, but not on this node: left out";
            diagnostics.push(Diagnostic::new(&nic.name, finding));
            return false;
        };
        nic.ports = here.ports.clone();
        nic.uverbs = here.uverbs.clone();
        true
    });
    for gpu in &mut node.gpus {
        let key = |gpu: &Gpu| (gpu.address, gpu.partition, gpu.vendor);
        if let Some(here) = live.gpus.iter().find(|here| key(here) == key(gpu)) {
            let model = gpu.model.take().or_else(|| here.model.clone());
            *gpu = Gpu {
                model,
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
        let gpu = |bus: u32, model: Option<&str>, minor, runtime_index| Gpu {
            model: model.map(str::to_string),
            minor,
            runtime_index,
            ..Gpu::new(format!("{bus:02x}:00.0").parse().unwrap(), GpuVendor::Amd)
        };
        let mut described = Topology::empty("x", Provenance::Model("x".to_string()));
        let second = gpu(2, None, None, None);
        described.gpus = vec![gpu(1, Some("Model"), Some(128), None), second.clone()];
        let mut live = Topology::empty("live", Provenance::ThisSystem);
        live.gpus = vec![gpu(1, None, Some(131), Some(7))];
        confirm(&mut described, &live);
        let here = gpu(1, Some("Model"), Some(131), Some(7));
        assert_eq!(described.gpus, [here, second]);
    }
}

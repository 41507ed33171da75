//! The map from GPUs to NICs, in the formats of inference engines that drive all GPUs of a node.
//!
//! [`Format`] names the source file and release of each engine. A GPU without a NIC is an error,
//! except in JSON.

use crate::placement::{NodePlacement, Rail, RailUse};
use crate::topology::{GpuIndex, GpuVendor, PciAddress, Topology};
pub use crate::wish::Format;
use serde::Serialize;
use std::fmt;
use std::ops::Deref;

/// Version of the JSON format: a removed or redefined field increases it, a new field does not.
pub const VERSION: u32 = 1;

/// Extensions of the map files that `nic-placement refresh` writes, as in `node.map-sglang.json`.
pub const KEPT: [(Format, &str); 3] = [
    (Format::Json, "map-json.json"),
    (Format::Sglang, "map-sglang.json"),
    (Format::Mooncake, "map-mooncake.json"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoMap(pub String);

impl fmt::Display for NoMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoMap {}

#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub topology: &'a Topology,
    pub node: &'a NodePlacement,
    /// the GPUs visible to the program, in the program's order
    pub gpus: &'a [GpuIndex],
}

pub fn write(format: Format, subject: Subject) -> Result<String, NoMap> {
    match format {
        Format::Json => json(subject),
        Format::Sglang => sglang(subject),
        Format::Mooncake => mooncake(subject),
    }
}

#[derive(Serialize)]
struct Map<'a> {
    format: &'static str,
    version: u32,
    machine: &'a str,
    gpus: Vec<Gpu<'a>>,
}

#[derive(Serialize)]
struct Gpu<'a> {
    index: usize,
    uuid: Option<&'a str>,
    address: Option<String>,
    numa_node: Option<u32>,
    nics: Vec<Nic<'a>>,
}

#[derive(Serialize)]
struct Nic<'a> {
    name: &'a str,
    port: u8,
    address: Option<String>,
    path: String,
}

pub fn json(subject: Subject) -> Result<String, NoMap> {
    let Subject { topology, node, .. } = subject;
    let nic = |choice: &RailUse| {
        let rail = node.rail(choice.rail);
        let address = topology.nic(rail.nic).address;
        Nic {
            name: &rail.name,
            port: rail.port,
            address: address.and_then(PciAddress::described),
            path: choice.path.to_string(),
        }
    };
    let gpu = |(index, &of): (usize, &GpuIndex)| {
        let (gpu, map) = (topology.gpu(of), node.gpu(of));
        Gpu {
            index,
            uuid: gpu.uuid.as_deref(),
            address: gpu.address.described(),
            numa_node: map.numa_node,
            nics: map.choices.iter().map(nic).collect(),
        }
    };
    let map = Map {
        format: "nic-placement map",
        version: VERSION,
        machine: &topology.name,
        gpus: subject.gpus.iter().enumerate().map(gpu).collect(),
    };
    // JSON can hold every field
    Ok(serde_json::to_string_pretty(&map).unwrap_or_default() + "\n")
}

/// `{"0":"mlx5_0,mlx5_1","1":"mlx5_2"}`: the names of each GPU's NICs, without ports.
pub fn sglang(subject: Subject) -> Result<String, NoMap> {
    let mut entries = Vec::with_capacity(subject.gpus.len());
    for index in 0..subject.gpus.len() {
        let names = names(subject.rails_of(index)?);
        entries.push(format!("\"{index}\":{}", quoted(&names.join(","))));
    }
    Ok(format!("{{{}}}\n", entries.join(",")))
}

/// `{"cpu:0":[[near],[others]],"cuda:0":[[near],[others]]}`: both lists in each entry, even if
/// empty.
///
/// Mooncake's builds call AMD's GPU memory `hip` or `rocm`
/// (mooncake-transfer-engine/include/gpu_vendor/hip.h `GPU_PREFIX`;
/// tent/src/platform/rocm/rocm_probe.cpp). The map has both names, since a build takes any NIC for
/// memory that the map lacks.
pub fn mooncake(subject: Subject) -> Result<String, NoMap> {
    let Subject { topology, node, .. } = subject;
    let mut lines = Vec::new();
    let mut add = |name: String, near: Vec<&str>| {
        let mut others = names(node.rails.iter());
        others.retain(|name| !near.contains(name));
        let list = |names: Vec<&str>| names.into_iter().map(quoted).collect::<Vec<_>>().join(",");
        lines.push(format!(
            "  \"{name}\": [[{}], [{}]]",
            list(near),
            list(others)
        ));
    };
    for numa_node in topology.numa_nodes.iter().filter(|of| !of.cpus.is_empty()) {
        let os_index = numa_node.os_index;
        let is_near = |rail: &&Rail| {
            let address = topology.nic(rail.nic).address;
            address.and_then(|at| topology.numa_node_of(at)) == Some(os_index)
        };
        let near = node.rails.iter().filter(is_near);
        add(format!("cpu:{os_index}"), names(near));
    }
    for (index, &gpu) in subject.gpus.iter().enumerate() {
        let words = match topology.gpu(gpu).vendor {
            GpuVendor::Amd => &["hip", "rocm"][..],
            _ => &["cuda"],
        };
        for word in words {
            add(format!("{word}:{index}"), names(subject.rails_of(index)?));
        }
    }
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

/// `GPU_BDF=NIC_BDF,...`: one NIC for each GPU, for vLLM.
pub fn pairs(subject: Subject) -> Result<String, NoMap> {
    let topology = subject.topology;
    let mut pairs = Vec::with_capacity(subject.gpus.len());
    for (index, &gpu) in subject.gpus.iter().enumerate() {
        let first = subject.rails_of(index)?.next();
        let nic = first.and_then(|rail| topology.nic(rail.nic).address?.described());
        let (Some(gpu), Some(nic)) = (topology.gpu(gpu).address.described(), nic) else {
            return Err(NoMap(format!(
                "the PCI addresses of GPU {index} and its NIC are not both known"
            )));
        };
        pairs.push(format!("{gpu}={nic}"));
    }
    Ok(pairs.join(","))
}

impl<'a> Subject<'a> {
    /// The rails of the program's GPU `index`, best first; an error without rails.
    fn rails_of(self, index: usize) -> Result<impl Iterator<Item = &'a Rail>, NoMap> {
        let node = self.node;
        let gpu = self.gpus.get(index).and_then(|gpu| node.gpus.get(gpu.0));
        let choices = gpu.map_or(&[][..], |gpu| &gpu.choices);
        if choices.is_empty() {
            return Err(NoMap(if self.topology.is_left_to_libfabric() {
                "libfabric chooses among the NICs of this node: a map would name none".into()
            } else {
                format!("GPU {index} has no NIC, and a map without one of the GPUs is refused")
            }));
        }
        Ok(choices.iter().map(|choice| node.rail(choice.rail)))
    }
}

fn names<'a>(rails: impl Iterator<Item = &'a Rail>) -> Vec<&'a str> {
    distinct(rails.map(|rail| &rail.name))
}

/// The names without repeats, in order: ports of one NIC share a name.
pub(crate) fn distinct<'a, N: Deref<Target = str> + 'a>(
    names: impl Iterator<Item = &'a N>,
) -> Vec<&'a str> {
    let mut list: Vec<&str> = Vec::new();
    for name in names.map(Deref::deref) {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    list
}

fn quoted(text: &str) -> String {
    // a string always serializes
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;

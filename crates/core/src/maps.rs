//! The map from GPUs to NICs, in the formats of engines that drive all GPUs of a node.
//!
//! Each format names the program that reads it, the file of that program's source in which it is read, and the release
//! that was read.  A format that could not say the truth about this node is refused: half a map is wrong.
#![forbid(unsafe_code)]

use crate::placement::{NodePlacement, Rail, RailUse};
use crate::topology::{GpuIndex, GpuVendor, PciAddress, Topology};
pub use crate::wish::Format;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// Grows by one when a field of the project's own format changes its meaning or is removed, not with new fields.
pub const VERSION: u32 = 1;

/// `(word, format, what it is)`, in the order of help texts.
pub const FORMATS: [(&str, Format, &str); 4] = [
    (
        "json",
        Format::Json,
        "the project's own, by index, UUID and PCI address",
    ),
    (
        "sglang",
        Format::Sglang,
        "SGLang's --disaggregation-ib-device",
    ),
    (
        "mooncake",
        Format::Mooncake,
        "a file for Mooncake's MC_CUSTOM_TOPO_JSON",
    ),
    ("vllm", Format::Vllm, "the two variables of vLLM"),
];

impl Format {
    /// The format that a word names.
    pub fn named(word: &str) -> Option<Format> {
        FORMATS
            .iter()
            .find(|known| known.0 == word)
            .map(|known| known.1)
    }
}

/// The formats that a program reads from a file, `(format, extension)`: `nic-placement refresh` keeps them beside the node
/// file, as `node.map-sglang.json`.
pub const KEPT: [(Format, &str); 3] = [
    (Format::Json, "map-json.json"),
    (Format::Sglang, "map-sglang.json"),
    (Format::Mooncake, "map-mooncake.json"),
];

/// Why there is no map in this format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoMap(String);

impl fmt::Display for NoMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoMap {}

/// What a map is made from.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// the node
    pub topology: &'a Topology,
    /// its map
    pub node: &'a NodePlacement,
    /// the GPUs that the program sees, in its own order: its first one has the number 0
    pub gpus: &'a [GpuIndex],
}

/// The map, with a line feed at its end.
pub fn write(format: Format, subject: Subject) -> Result<String, NoMap> {
    match format {
        Format::Json => Ok(json(subject)),
        Format::Sglang => sglang(subject),
        Format::Mooncake => mooncake(subject),
        Format::Vllm => {
            let (pairs, suffix) = (pairs(subject)?, suffix(subject)?);
            Ok(format!(
                "VLLM_GPU_NIC_PCIE_MAPPING={pairs}\nVLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:{suffix}\n"
            ))
        }
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
    /// as the program counts it
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

fn json(
    Subject {
        topology,
        node,
        gpus,
    }: Subject,
) -> String {
    let nic = |choice: &RailUse| {
        let rail = node.rail(choice.rail);
        let address = topology
            .nic(rail.nic)
            .address
            .and_then(PciAddress::described);
        let (port, path) = (rail.port, choice.path.to_string());
        Nic {
            name: node.rail(choice.rail).name.as_str(),
            port,
            address,
            path,
        }
    };
    let gpu = |(index, &gpu): (usize, &GpuIndex)| Gpu {
        index,
        uuid: topology.gpu(gpu).uuid.as_deref(),
        address: topology.gpu(gpu).address.described(),
        numa_node: node.gpu(gpu).numa_node,
        nics: node.gpu(gpu).choices.iter().map(nic).collect(),
    };
    let map = Map {
        format: "nic-placement map",
        version: VERSION,
        machine: &topology.name,
        gpus: gpus.iter().enumerate().map(gpu).collect(),
    };
    // JSON can hold all of these structures
    serde_json::to_string_pretty(&map).unwrap_or_default() + "\n"
}

/// `{"0":"mlx5_0,mlx5_1","1":"mlx5_2"}`: names without ports, each once, and every GPU has some.
fn sglang(subject: Subject) -> Result<String, NoMap> {
    let mut entries = Vec::with_capacity(subject.gpus.len());
    for (index, _) in subject.gpus.iter().enumerate() {
        let names = names(subject.rails_of(index)?);
        entries.push(format!(
            "{}:{}",
            quoted(&index.to_string()),
            quoted(&names.join(","))
        ));
    }
    Ok(format!("{{{}}}\n", entries.join(",")))
}

/// `{"cpu:0":[[near],[others]],"cuda:0":[[near],[others]]}`: exactly two lists for each.
///
/// What it calls a GPU's memory is the build's own word (mooncake-transfer-engine/include/gpu_vendor/hip.h `GPU_PREFIX`;
/// tent/src/platform/rocm/rocm_probe.cpp), and for a word that is not there it takes any NIC.
fn mooncake(subject: Subject) -> Result<String, NoMap> {
    let Subject {
        topology,
        node,
        gpus,
    } = subject;
    let entry = |name: String, near: Vec<&str>| {
        let others = names(node.rails.iter())
            .into_iter()
            .filter(|name| !near.contains(name));
        let list = |names: Vec<&str>| names.into_iter().map(quoted).collect::<Vec<_>>().join(",");
        format!(
            "  {}: [[{}], [{}]]",
            quoted(&name),
            list(near.clone()),
            list(others.collect())
        )
    };
    let numa_node_of = |rail: &&Rail| {
        topology
            .nic(rail.nic)
            .address
            .and_then(|at| topology.numa_node_of(at))
    };
    let mut lines: Vec<String> = Vec::new();
    for os_index in topology
        .numa_nodes
        .iter()
        .filter(|of| !of.cpus.is_empty())
        .map(|of| of.os_index)
    {
        let near = node
            .rails
            .iter()
            .filter(|rail| numa_node_of(rail) == Some(os_index));
        lines.push(entry(format!("cpu:{os_index}"), names(near)));
    }
    for (index, &gpu) in gpus.iter().enumerate() {
        let words = match topology.gpu(gpu).vendor {
            GpuVendor::Amd => &["hip", "rocm"][..],
            _ => &["cuda"],
        };
        for word in words {
            lines.push(entry(
                format!("{word}:{index}"),
                names(subject.rails_of(index)?),
            ));
        }
    }
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

/// `GPU_BDF=NIC_BDF,...`: one NIC for each GPU, and no GPU may be missing.
pub fn pairs(subject: Subject) -> Result<String, NoMap> {
    let Subject { topology, gpus, .. } = subject;
    let mut pairs = Vec::with_capacity(gpus.len());
    for (index, &gpu) in gpus.iter().enumerate() {
        let first = subject.rails_of(index)?.next();
        let nic = first
            .and_then(|rail| topology.nic(rail.nic).address)
            .and_then(PciAddress::described);
        let (Some(gpu), Some(nic)) = (topology.gpu(gpu).address.described(), nic) else {
            return Err(NoMap(format!(
                "the PCI addresses of GPU {index} and its NIC are not both known"
            )));
        };
        pairs.push(format!("{gpu}={nic}"));
    }
    Ok(pairs.join(","))
}

/// vLLM finds a NIC by its function and adds one port's number to all names.
fn suffix(subject: Subject) -> Result<u8, NoMap> {
    let mut ports: BTreeSet<u8> = BTreeSet::new();
    for index in 0..subject.gpus.len() {
        ports.extend(subject.rails_of(index)?.next().map(|rail| rail.port));
    }
    match ports.into_iter().collect::<Vec<u8>>().as_slice() {
        [port] => Ok(*port),
        _ => Err(NoMap(
            "the GPUs' NICs do not all have the same port number, and vLLM knows one for all"
                .to_string(),
        )),
    }
}

impl<'a> Subject<'a> {
    /// The rails of the GPU that the program counts by this number, best first.
    fn rails_of(self, index: usize) -> Result<impl Iterator<Item = &'a Rail>, NoMap> {
        let Subject {
            topology,
            node,
            gpus,
        } = self;
        let placement = gpus.get(index).and_then(|gpu| node.gpus.get(gpu.0));
        let choices = placement
            .map(|of| &of.choices)
            .filter(|choices| !choices.is_empty());
        let lacks = || match topology.is_left_to_libfabric() {
            true => NoMap(
                "libfabric chooses among the NICs of this node: a map would name none".to_string(),
            ),
            false => NoMap(format!(
                "GPU {index} has no NIC, and a map without one of the GPUs is refused"
            )),
        };
        let choices = choices.ok_or_else(lacks)?;
        Ok(choices.iter().map(|choice| node.rail(choice.rail)))
    }
}

/// Each name once, in order: ports of one NIC share it.
fn names<'a>(rails: impl Iterator<Item = &'a Rail>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for rail in rails {
        if !names.contains(&rail.name.as_str()) {
            names.push(&rail.name);
        }
    }
    names
}

fn quoted(text: &str) -> String {
    // JSON can hold any text
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;

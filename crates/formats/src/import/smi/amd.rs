//! What AMD's tools print in place of the matrix: `rocm-smi --showtopo` and `amd-smi topology`, as text or as JSON.
//!
//! They name GPUs and the links between them, no NICs, and no CPUs.  rocm-smi counts GPUs and tells their NUMA nodes; amd-smi
//! tells their addresses.  Both count GPUs alike (amdsmi, src/amd_smi/amd_smi_system.cc, goes through rocm-smi's indices), so one
//! text may hold both outputs.
#![forbid(unsafe_code)]

use super::affinity::MAX_NODE;
use super::{BadText, MAX_DEVICES, alone, gpu_number, invented, listed, text};
use crate::import::{Imported, Result, shown};
use nic_placement_core::topology::{
    CpuSet, Gpu, GpuVendor, NumaNode, PciAddress, PciFunction, Provenance, Topology,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of JSON: amd-smi writes 300 for each pair of GPUs.
const MAX_JSON: usize = 4 * 1024 * 1024;
/// The subject of a line about a GPU's NUMA node (rocm_smi_lib, python_smi_tools/rocm_smi.py, `showNumaTopology`).
const NUMA: &str = "(Topology) Numa ";

/// The GPUs of an output.
#[derive(Default)]
struct AmdGpus {
    is_amd_smi: bool,
    /// in the order of their indices, where amd-smi tells them
    addresses: Vec<PciAddress>,
    indices: BTreeSet<u32>,
    /// by index: the NUMA node that the kernel states for the device
    affinity: BTreeMap<u32, u32>,
    /// by index: the nearest CPU node of the compute driver, which counts NUMA nodes alike
    node: BTreeMap<u32, u32>,
}

/// Is this the output of one of AMD's tools?  The first 4 KiB are enough.
pub(crate) fn is_one(text: &str) -> bool {
    let words: &[&str] = match text.trim_start().chars().next() {
        Some('{') => &["\"(Topology) "],
        Some('[') => &["\"links\":", "\"link_accessibility\":"],
        _ => &[
            NUMA,
            " between two GPUs ",
            "ACCESS TABLE:",
            "WEIGHT TABLE:",
            "HOPS TABLE:",
            "LINK TYPE TABLE:",
        ],
    };
    words.iter().any(|word| text.contains(word))
}

pub(super) fn read(text: &str, provenance: Provenance) -> Result<Imported> {
    let is_json = text.trim_start().starts_with(['{', '[']);
    let gpus = if is_json {
        of_json(text)?
    } else {
        of_text(text)?
    };
    let tool = if gpus.is_amd_smi {
        "amd-smi topology"
    } else {
        "rocm-smi --showtopo"
    };
    let topology = Topology::empty(tool.split(' ').next().unwrap_or_default(), provenance);
    let mut to = Imported {
        topology,
        diagnostics: Vec::new(),
    };
    fill(&gpus, tool, &mut to)?;
    Ok(to)
}

fn fill(gpus: &AmdGpus, tool: &str, to: &mut Imported) -> Result<()> {
    let bad = |problem: String| Err(BadText::new(0, problem));
    let highest = gpus.indices.last().map_or(0, |&last| last as usize + 1);
    if gpus.addresses.len().max(highest) > MAX_DEVICES {
        return bad(format!("more than {MAX_DEVICES} GPUs"));
    }
    let all: Vec<(u32, PciAddress)> = if gpus.addresses.is_empty() {
        gpus.indices
            .iter()
            .map(|&index| (index, invented(index as u8)))
            .collect()
    } else {
        (0..).zip(gpus.addresses.iter().copied()).collect()
    };
    if all.is_empty() {
        return bad(format!(
            "no GPU in the output of {tool}: expected its whole text, or that of `--json`"
        ));
    }
    // where amd-smi was asked for some GPUs, rocm-smi's indices are not theirs
    let alike = gpus.addresses.is_empty() || highest <= gpus.addresses.len();
    let mut homeless = Vec::new();
    let mut nodes = BTreeSet::new();
    for &(index, address) in &all {
        // partitions of a GPU share its address but for the last digit, which may be the partition's (rocm_smi_lib,
        // src/rocm_smi.cc, `rsmi_dev_pci_id_get`)
        let is_part = |(_, other): &&(u32, PciAddress)| other.card() == address.card();
        let before = all
            .iter()
            .take_while(|(other, _)| *other != index)
            .filter(is_part)
            .count() as u32;
        let partition = (all.iter().filter(is_part).count() > 1).then_some(before);
        let node = gpus
            .affinity
            .get(&index)
            .or(gpus.node.get(&index))
            .copied()
            .filter(|_| alike);
        match node {
            Some(node) => drop(nodes.insert(node)),
            None => homeless.push(format!("GPU{index}")),
        }
        let function = PciFunction {
            vendor: Some(0x1002),
            numa_node: node,
            ..alone(address.card())
        };
        let gpu = Gpu {
            partition,
            ..Gpu::new(address.card(), GpuVendor::Amd)
        };
        to.topology.pci.insert(function);
        to.topology.gpus.push(gpu);
    }
    let empty = |os_index| NumaNode {
        os_index,
        cpus: CpuSet::new(),
        distances: Vec::new(),
        package: None,
    };
    to.topology.numa_nodes = nodes.into_iter().map(empty).collect();
    to.topology.sort();
    let finding = "names no NICs and no CPUs: `nic-placement snapshot`, a tar of /sys or `lstopo node.xml` from that node has them";
    to.note(tool, finding);
    if !homeless.is_empty() {
        let command = match gpus.is_amd_smi {
            true => "(amd-smi topology; rocm-smi --showtoponuma) > FILE",
            false => "rocm-smi --showtoponuma",
        };
        let finding = format!(
            "no NUMA node of {}: `{command}` tells it",
            listed(&homeless)
        );
        to.note(tool, finding);
    }
    Ok(())
}

fn of_text(text: &str) -> Result<AmdGpus> {
    let mut gpus = AmdGpus::default();
    let mut in_header = false;
    for line in text::lines(text)? {
        if line.text.ends_with("TABLE:") {
            in_header = gpus.addresses.is_empty();
            gpus.is_amd_smi = true;
            continue;
        }
        let words = line.words();
        let addresses: Option<Vec<PciAddress>> =
            words.iter().map(|word| word.parse().ok()).collect();
        in_header &= addresses.is_some();
        if let (true, Some(mut addresses)) = (in_header, addresses) {
            gpus.addresses.append(&mut addresses);
        } else if let Some((label, rest)) = line.text.split_once(NUMA) {
            // `GPU[0]`, and `GPU 0` in older releases
            let index = label
                .split_once("GPU")
                .and_then(|(_, rest)| first_number(rest));
            if let (Some(index), Some((title, value))) = (index, rest.split_once(':')) {
                gpus.add_node(index, title, value);
            }
        } else if let Some(labels) = words
            .iter()
            .map(|word| gpu_number(word))
            .collect::<Option<Vec<u32>>>()
        {
            gpus.indices.extend(labels);
        }
    }
    Ok(gpus)
}

fn of_json(text: &str) -> Result<AmdGpus> {
    if text.len() > MAX_JSON {
        return Err(BadText::new(
            0,
            format!("JSON of more than {MAX_JSON} bytes"),
        ));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        BadText::new(
            error.line() as u32,
            format!("not well-formed JSON: {}", shown(&error.to_string())),
        )
    })?;
    let mut gpus = AmdGpus {
        is_amd_smi: value.is_array(),
        ..AmdGpus::default()
    };
    for gpu in value.as_array().into_iter().flatten() {
        let index = gpu["gpu"]
            .as_u64()
            .and_then(|index| u32::try_from(index).ok());
        // releases before ROCm 6.1.1 write no address
        gpus.addresses.extend(
            gpu["bdf"]
                .as_str()
                .and_then(|bdf| bdf.parse::<PciAddress>().ok()),
        );
        gpus.indices.extend(index);
    }
    for (name, facts) in value.as_object().into_iter().flatten() {
        let index = name.strip_prefix("card").and_then(first_number);
        gpus.indices.extend(index);
        for (key, fact) in facts.as_object().into_iter().flatten() {
            // `(Topology) Link type between DRM devices 0 and 1`, under `system`
            if let Some((a, b)) = key
                .split_once("DRM devices ")
                .and_then(|(_, pair)| pair.split_once(" and "))
            {
                gpus.indices.extend(
                    [a.parse::<u32>().ok(), b.parse().ok()]
                        .into_iter()
                        .flatten(),
                );
            }
            if let (Some(index), Some(title), Some(value)) =
                (index, key.strip_prefix(NUMA), fact.as_str())
            {
                gpus.add_node(index, title, value);
            }
        }
    }
    Ok(gpus)
}

impl AmdGpus {
    fn add_node(&mut self, index: u32, title: &str, value: &str) {
        self.indices.insert(index);
        let node = value
            .trim()
            .parse::<u32>()
            .ok()
            .filter(|&node| node < MAX_NODE);
        let kept = if title == "Affinity" {
            &mut self.affinity
        } else {
            &mut self.node
        };
        kept.extend(node.map(|node| (index, node)));
    }
}

/// The number at the start of `text`, behind a bracket or blanks.
fn first_number(text: &str) -> Option<u32> {
    let digits = text.trim_start_matches(['[', ' ', '\t']);
    digits
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

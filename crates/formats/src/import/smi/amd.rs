//! Reads the output of `rocm-smi --showtopo` and `amd-smi topology`.
//!
//! They name GPUs and the links between them, no NICs, and no CPUs.  rocm-smi counts GPUs and tells their NUMA nodes; amd-smi
//! tells their addresses.  Both count GPUs alike (amdsmi, src/amd_smi/amd_smi_system.cc, goes through rocm-smi's indices), so one
//! text may hold both outputs.  [`links`] has the NICs of a text of `rdma link` or `ibdev2netdev` below them, or beside them.

use super::affinity::MAX_NODE;
use super::{BadText, MAX_DEVICES, alone, gpu_number, invented, links, listed, text};
use crate::import::{Imported, Result, numa_node};
use nic_placement_core::topology::{CpuSet, Gpu, GpuVendor, PciAddress, PciFunction, Provenance};
use std::collections::{BTreeMap, BTreeSet};

/// The subject of a line about a GPU's NUMA node (rocm_smi_lib, python_smi_tools/rocm_smi.py, `showNumaTopology`).
const NUMA: &str = "(Topology) Numa ";

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

/// True for the output of one of AMD's tools.  The first 4 KiB are enough.
pub(crate) fn is_one(text: &str) -> bool {
    [
        NUMA,
        " between two GPUs ",
        "ACCESS TABLE:",
        "WEIGHT TABLE:",
        "HOPS TABLE:",
        "LINK TYPE TABLE:",
    ]
    .iter()
    .any(|word| text.contains(word))
}

pub(super) fn read(text: &str, beside: &str, provenance: Provenance) -> Result<Imported> {
    let mut nics = links::read(&text::lines(beside)?)?;
    if nics.is_empty() && !beside.is_empty() {
        return Err(BadText::new(
            0,
            "no NIC in the second file: expected the output of `rdma link` or `ibdev2netdev`",
        ));
    }
    let lines = text::lines(text)?;
    if nics.is_empty() {
        nics = links::read(&lines)?;
    }
    let gpus = of_text(&lines);
    let tool = if gpus.is_amd_smi {
        "amd-smi topology"
    } else {
        "rocm-smi --showtopo"
    };
    let mut to = Imported::new(tool.split(' ').next().unwrap_or_default(), provenance);
    to.topology.nics = nics;
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
            "no GPU in the output of {tool}: expected its whole text"
        ));
    }
    // where amd-smi was asked for some GPUs, rocm-smi's indices are not theirs
    let alike = gpus.addresses.is_empty() || highest <= gpus.addresses.len();
    let mut homeless = Vec::new();
    let mut nodes = BTreeSet::new();
    for &(index, address) in &all {
        // partitions share a GPU's address but for the last digit, which may be the partition's
        // (rocm_smi_lib, src/rocm_smi.cc, `rsmi_dev_pci_id_get`)
        let address = address.card();
        let parts = all.iter().filter(|(_, other)| other.card() == address);
        let before = parts.clone().take_while(|(other, _)| *other != index);
        let partition = (parts.count() > 1).then_some(before.count() as u32);
        let node = gpus.affinity.get(&index).or(gpus.node.get(&index));
        let numa_node = node.copied().filter(|_| alike);
        match numa_node {
            Some(node) => drop(nodes.insert(node)),
            None => homeless.push(format!("GPU{index}")),
        }
        to.topology.pci.insert(PciFunction {
            vendor: Some(0x1002),
            numa_node,
            ..alone(address)
        });
        to.topology.gpus.push(Gpu {
            partition,
            ..Gpu::new(address, GpuVendor::Amd)
        });
    }
    let nodes = nodes.into_iter().map(|node| numa_node(node, CpuSet::new()));
    to.topology.numa_nodes = nodes.collect();
    let lacks = if to.topology.nics.is_empty() {
        "no NICs and no CPUs"
    } else {
        "no CPUs, and not where the NICs stand, so no GPU gets one"
    };
    to.note(tool, format!(
        "names {lacks}: `nic-placement snapshot`, a tar of /sys or `lstopo node.xml` from that node has them"
    ));
    if !homeless.is_empty() {
        let command = if gpus.is_amd_smi {
            "(amd-smi topology; rocm-smi --showtoponuma) > FILE"
        } else {
            "rocm-smi --showtoponuma"
        };
        let homeless = listed(&homeless);
        to.note(
            tool,
            format!("no NUMA node of {homeless}: `{command}` tells it"),
        );
    }
    Ok(())
}

fn of_text(lines: &[text::TextLine]) -> AmdGpus {
    let mut gpus = AmdGpus::default();
    let mut in_header = false;
    for line in lines {
        if line.text.ends_with("TABLE:") {
            in_header = gpus.addresses.is_empty();
            gpus.is_amd_smi = true;
            continue;
        }
        let words = line.words();
        let addresses: Option<Vec<PciAddress>> =
            words.iter().map(|word| word.parse().ok()).collect();
        let labels: Option<Vec<u32>> = words.iter().map(|word| gpu_number(word)).collect();
        in_header &= addresses.is_some();
        if let (true, Some(mut addresses)) = (in_header, addresses) {
            gpus.addresses.append(&mut addresses);
        } else if let Some((label, rest)) = line.text.split_once(NUMA) {
            // `GPU[0]`, and `GPU 0` in older releases
            let index = label
                .split_once("GPU")
                .and_then(|(_, rest)| first_number(rest));
            if let (Some(index), Some((title, value))) = (index, rest.split_once(':')) {
                // the last number of a text without a line's end may be cut
                gpus.add_node(index, title, if line.is_open { "" } else { value });
            }
        } else if let Some(labels) = labels {
            gpus.indices.extend(labels);
        }
    }
    gpus
}

impl AmdGpus {
    fn add_node(&mut self, index: u32, title: &str, value: &str) {
        self.indices.insert(index);
        let node = value.trim().parse::<u32>().ok();
        let kept = match title {
            "Affinity" => &mut self.affinity,
            _ => &mut self.node,
        };
        kept.extend(
            node.filter(|&node| node < MAX_NODE)
                .map(|node| (index, node)),
        );
    }
}

/// The number at the start of `text`, behind a bracket or blanks.
fn first_number(text: &str) -> Option<u32> {
    text.trim_start_matches(['[', ' ', '\t'])
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

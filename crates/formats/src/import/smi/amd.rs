//! Reads the output of `rocm-smi --showtopo` and `amd-smi topology`.
//!
//! They name GPUs and the links between them, no NICs, and no CPUs.  rocm-smi counts GPUs and tells their NUMA nodes; amd-smi
//! tells their addresses.  Both count GPUs alike (amdsmi, src/amd_smi/amd_smi_system.cc, goes through rocm-smi's indices), so one
//! text may hold both outputs.  [`links`] has the NICs of a text of `rdma link` or `ibdev2netdev` below them, or beside them.

use super::{BadText, MAX_DEVICES, alone, gpu_number, invented, links, listed, text};
use crate::import::{Imported, Result, numa_node};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::file::MAX_NUMA_NODES;
use nic_placement_core::topology::{
    CpuSet, Gpu, GpuVendor, PciAddress, PciFunction, Provenance, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

/// The subject of a line about a GPU's NUMA node (rocm_smi_lib, python_smi_tools/rocm_smi.py, `showNumaTopology`).
const NUMA: &str = "(Topology) Numa ";

/// True for the output of one of AMD's tools.  The first 4 KiB are enough.
pub(crate) fn is_one(text: &str) -> bool {
    let tables = [
        "ACCESS TABLE:",
        "WEIGHT TABLE:",
        "HOPS TABLE:",
        "LINK TYPE TABLE:",
    ];
    let mut words = [NUMA, " between two GPUs "].into_iter().chain(tables);
    words.any(|word| text.contains(word))
}

/// The GPUs, by the lines.
#[derive(Default)]
struct Said {
    /// in the order of their indices, where amd-smi tells them
    addresses: Vec<PciAddress>,
    /// indices, and the NUMA node that the kernel states for the device; else the nearest CPU node of the compute driver, which
    /// counts NUMA nodes alike
    nodes: BTreeMap<u32, Option<u32>>,
}

pub(super) fn read(
    text: &str,
    beside: &str,
    provenance: Provenance,
) -> Result<(Topology, Vec<Diagnostic>)> {
    let lines = text::lines(text)?;
    let nics = match beside {
        "" => links::read(&lines)?,
        beside => links::read(&text::lines(beside)?)?,
    };
    if nics.is_empty() && !beside.is_empty() {
        return Err(BadText::new(
            0,
            "no NIC in the second file: expected the output of `rdma link` or `ibdev2netdev`",
        ));
    }
    let Said { addresses, nodes } = said(&lines);
    let highest = nodes.keys().last().map_or(0, |&last| last as usize + 1);
    let most = addresses.len().max(highest);
    if most == 0 || most > MAX_DEVICES {
        let problem = format!("{most} GPUs in the output: expected 1 to {MAX_DEVICES}");
        return Err(BadText::new(0, problem));
    }
    let (name, tell, all): (_, _, Vec<(u32, PciAddress)>) = if addresses.is_empty() {
        let all = nodes.keys().map(|&index| (index, invented(index as u8)));
        ("rocm-smi", "rocm-smi --showtoponuma", all.collect())
    } else {
        let all = (0..).zip(addresses.iter().copied());
        (
            "amd-smi",
            "(amd-smi topology; rocm-smi --showtoponuma) > FILE",
            all.collect(),
        )
    };
    let mut to = Imported::new(name, provenance);
    // where amd-smi was asked for some GPUs, rocm-smi's indices are not theirs
    let alike = addresses.is_empty() || highest <= addresses.len();
    let mut homeless = Vec::new();
    let mut known = BTreeSet::new();
    for &(index, address) in &all {
        // partitions share a GPU's address but for the last digit, which may be the partition's
        // (rocm_smi_lib, src/rocm_smi.cc, `rsmi_dev_pci_id_get`)
        let address = address.card();
        let parts = all.iter().filter(|(_, other)| other.card() == address);
        let before = parts.clone().take_while(|(other, _)| *other != index);
        let partition = (parts.count() > 1).then_some(before.count() as u32);
        let numa_node = nodes.get(&index).copied().flatten().filter(|_| alike);
        known.extend(numa_node);
        if numa_node.is_none() {
            homeless.push(format!("GPU{index}"));
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
    let known = known.into_iter().map(|node| numa_node(node, CpuSet::new()));
    to.topology.numa_nodes = known.collect();
    let lacks = if nics.is_empty() {
        "no NICs and no CPUs"
    } else {
        "no CPUs, and not where the NICs stand, so no GPU gets one"
    };
    to.topology.nics = nics;
    to.note(name, format!(
        "names {lacks}: `nic-placement snapshot`, a tar of /sys or `lstopo node.xml` from that node has them"
    ));
    if !homeless.is_empty() {
        let homeless = listed(&homeless);
        to.note(
            name,
            format!("no NUMA node of {homeless}: `{tell}` tells it"),
        );
    }
    to.finish()
}

fn said(lines: &[text::TextLine]) -> Said {
    let mut said = Said::default();
    let mut in_header = false;
    for line in lines {
        if line.text.ends_with("TABLE:") {
            in_header = said.addresses.is_empty();
            continue;
        }
        let words = line.words();
        let addresses: Option<Vec<PciAddress>> =
            words.iter().map(|word| word.parse().ok()).collect();
        let labels: Option<Vec<u32>> = words.iter().map(|word| gpu_number(word)).collect();
        in_header &= addresses.is_some();
        if let (true, Some(addresses)) = (in_header, addresses) {
            said.addresses.extend(addresses);
        } else if let Some((label, rest)) = line.text.split_once(NUMA) {
            // `GPU[0]`, and `GPU 0` in older releases
            let index = label.split_once("GPU").map(|(_, index)| index);
            let index = index.and_then(|index| {
                let index = index.trim_start_matches(['[', ' ']);
                index.split([']', ' ', ':']).next()?.parse().ok()
            });
            if let (Some(index), Some((title, value))) = (index, rest.split_once(':')) {
                let node = value.trim().parse::<u32>().ok();
                // the last number of a text without a line's end may be cut
                let is_one = |node: &u32| (*node as usize) < MAX_NUMA_NODES && !line.is_open;
                let node = node.filter(is_one);
                let kept = said.nodes.entry(index).or_default();
                *kept = if title == "Affinity" {
                    node.or(*kept)
                } else {
                    kept.or(node)
                };
            }
        } else {
            for index in labels.into_iter().flatten() {
                said.nodes.entry(index).or_default();
            }
        }
    }
    said
}

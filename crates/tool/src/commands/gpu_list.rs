//! GPUs as the command line names them: by position in PCI order, or by PCI address.
#![forbid(unsafe_code)]

use super::Failure;
use super::misunderstood::misunderstood;
use nic_placement_core::topology::{GpuIndex, PciAddress, Topology};

/// `1 GPU`, `8 GPUs`
pub(super) fn counted(gpus: usize) -> String {
    if gpus == 1 { "1 GPU".to_string() } else { format!("{gpus} GPUs") }
}

/// `0-3,5`, or PCI addresses; in the order given.  All of the node where there is no list.
pub(super) fn several(
    option: &str,
    list: Option<&str>,
    topology: &Topology,
) -> Result<Vec<GpuIndex>, Failure> {
    let Some(list) = list else { return Ok(topology.gpu_indices().collect()) };
    Ok(topology.gpus_named(list).map_err(|bad| format!("`{option}`: {bad}"))?)
}

pub(super) fn one(option: &str, word: &str, topology: &Topology) -> Result<GpuIndex, Failure> {
    let found = match (word.parse::<usize>(), word.parse::<PciAddress>()) {
        (Ok(index), _) => (index < topology.gpus.len()).then_some(GpuIndex(index)),
        (_, Ok(address)) => topology.gpu_index(address),
        _ => return Err(misunderstood(format!("`{option} {word}`: expected an index or a PCI address"))),
    };
    let count = counted(topology.gpus.len());
    found.ok_or_else(|| format!("`{option} {word}`: no such GPU, `{}` has {count}", topology.name).into())
}

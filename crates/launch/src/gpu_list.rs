//! GPUs as people and programs name them: by position in PCI order, or by PCI address.

use nic_placement_core::diagnostic::Shown;
use nic_placement_core::topology::{Bitmap, GpuIndex, PciAddress, Topology};

/// GPUs of a list such as `0-3,5` or PCI addresses, in the order given.
pub fn gpus_named(node: &Topology, list: &str) -> Result<Vec<GpuIndex>, String> {
    let (name, count) = (&node.name, node.gpus.len());
    let mut gpus: Vec<GpuIndex> = Vec::new();
    for word in list.split(',').map(str::trim) {
        if word.is_empty() {
            let list = Shown::word(list, 40);
            return Err(format!(
                "the list `{list}` has an empty word: expected a list such as `0-3,5`, or PCI addresses"
            ));
        }
        let found: Vec<GpuIndex> = if let Ok(address) = word.parse::<PciAddress>() {
            let gpu = node.gpu_index(address);
            vec![gpu.ok_or_else(|| format!("no GPU of `{name}` has the address `{word}`"))?]
        } else {
            Bitmap::from_list(word)
                .map_err(|bad| format!("{bad}, or PCI addresses"))?
                .iter()
                .map(|index| GpuIndex(index as usize))
                .collect()
        };
        for gpu in found {
            if gpu.0 >= count {
                return Err(format!("no GPU {gpu}, `{name}` has {count}"));
            }
            if gpus.contains(&gpu) {
                return Err(format!("GPU {gpu} is named twice"));
            }
            gpus.push(gpu);
        }
    }
    Ok(gpus)
}

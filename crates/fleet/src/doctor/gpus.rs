//! GPUs whose numbers may mean others.

use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::gpus::{positions, unequal};
use nic_placement_core::topology::{GpuVendor, Topology};

/// A warning if the NVIDIA GPUs differ: CUDA's numbers may not be Slurm's.
pub fn lint(node: &Topology) -> Option<Diagnostic> {
    let kinds = unequal(node, &positions(node, GpuVendor::Nvidia))?;
    Some(Diagnostic::new(
        "CUDA_DEVICE_ORDER",
        format!(
            "the GPUs differ ({kinds}), and unless it is `PCI_BUS_ID` CUDA numbers the fastest first: which GPU a number means \
             is then a guess; set it for all jobs, or let Slurm list UUIDs"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_node::platform;

    #[test]
    fn gpus_that_differ_are_named_and_equal_ones_are_not() {
        let mut node = platform::model("dgx-h100").unwrap();
        assert_eq!(lint(&node), None);
        let mut first = node.pci.get(node.gpus[0].address).unwrap().clone();
        first.device = Some(0x20b0);
        node.pci.insert(first);
        node.gpus.iter_mut().for_each(|gpu| gpu.model = None);
        let said = lint(&node).unwrap().to_string();
        let kinds = "(PCI device `0x20b0`, PCI device `0x2330`)";
        let begins = format!("`CUDA_DEVICE_ORDER`: the GPUs differ {kinds}");
        assert!(said.starts_with(&begins), "{said}");
    }
}

//! Names of NICs, and of GPUs other than NVIDIA's, by their PCI ids.

use nic_placement_core::topology::{Gpu, PciAddress, Topology};

/// `15b3 1021 ConnectX-7`: vendor, device and name, of pci.ids of 2026-08-22 (github.com/pciutils/pciids).
const NAMES: &str = include_str!("devices.txt");

pub(super) fn device_name(vendor: u16, device: u16) -> Option<&'static str> {
    let ids = format!("{vendor:04x} {device:04x} ");
    NAMES.lines().find_map(|line| line.strip_prefix(&*ids))
}

pub(super) fn name_at(topology: &Topology, address: PciAddress) -> Option<&'static str> {
    let function = topology.pci.get(address)?;
    device_name(function.vendor?, function.device?)
}

/// A GPU's model as the driver tells it, else by its PCI id.
pub(super) fn gpu_model<'a>(topology: &'a Topology, gpu: &'a Gpu) -> Option<&'a str> {
    let by_id = || name_at(topology, gpu.address);
    gpu.model.as_deref().or_else(by_id)
}

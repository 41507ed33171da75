//! Names of NICs, and of GPUs other than NVIDIA's, by their PCI ids.
//!
//! Source: pci.ids of 2026-08-22 (github.com/pciutils/pciids).

use nic_placement_core::topology::{Gpu, PciAddress, Topology};

const AMAZON: u16 = 0x1d0f;
const AMD: u16 = 0x1002;
const BROADCOM: u16 = 0x14e4;
const CRAY: u16 = 0x17db;
const INTEL: u16 = 0x8086;
const MELLANOX: u16 = 0x15b3;

const NAMES: &[(u16, &[u16], &str)] = &[
    (AMAZON, &[0xefa0, 0xefa1, 0xefa2, 0xefa3, 0xefa4], "EFA"),
    (AMD, &[0x738c, 0x738e], "AMD Instinct MI100"),
    (AMD, &[0x7408], "AMD Instinct MI250X"),
    (AMD, &[0x740c], "AMD Instinct MI250X/MI250"),
    (AMD, &[0x740f], "AMD Instinct MI210"),
    (AMD, &[0x74a0], "AMD Instinct MI300A"),
    (AMD, &[0x74a1], "AMD Instinct MI300X"),
    (AMD, &[0x74b5], "AMD Instinct MI300X VF"),
    (AMD, &[0x74a5], "AMD Instinct MI325X"),
    (AMD, &[0x75a0], "AMD Instinct MI350X"),
    (AMD, &[0x75a3], "AMD Instinct MI355X"),
    (BROADCOM, &[0x1750], "BCM57508"),
    (BROADCOM, &[0x1760], "BCM57608"),
    (CRAY, &[0x0501], "Slingshot 200Gb"),
    (INTEL, &[0x0bd5, 0x0bd6], "Data Center GPU Max 1550"),
    (INTEL, &[0x0bd9, 0x0bda, 0x0bdb], "Data Center GPU Max 1100"),
    (INTEL, &[0x1592, 0x1593], "E810-C"),
    (INTEL, &[0x24f0, 0x24f1], "Omni-Path HFI 100"),
    (MELLANOX, &[0x1013], "ConnectX-4"),
    (MELLANOX, &[0x1015], "ConnectX-4 Lx"),
    (MELLANOX, &[0x1017], "ConnectX-5"),
    (MELLANOX, &[0x1019], "ConnectX-5 Ex"),
    (MELLANOX, &[0x101b], "ConnectX-6"),
    (MELLANOX, &[0x101d], "ConnectX-6 Dx"),
    (MELLANOX, &[0x101e], "ConnectX VF"),
    (MELLANOX, &[0x101f], "ConnectX-6 Lx"),
    (MELLANOX, &[0x1021], "ConnectX-7"),
    (MELLANOX, &[0x1023], "ConnectX-8"),
    (MELLANOX, &[0x1025], "ConnectX-9"),
    (MELLANOX, &[0xa2d2], "BlueField ConnectX-5"),
    (MELLANOX, &[0xa2d6], "BlueField-2 ConnectX-6 Dx"),
    (MELLANOX, &[0xa2dc], "BlueField-3 ConnectX-7"),
];

pub(super) fn device_name(vendor: u16, device: u16) -> Option<&'static str> {
    let of_it =
        |(maker, devices, _): &&(u16, &[u16], &str)| *maker == vendor && devices.contains(&device);
    NAMES.iter().find(of_it).map(|(.., name)| *name)
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

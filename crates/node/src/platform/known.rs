//! The built-in machines and the marks that identify each.
#![forbid(unsafe_code)]

use super::Model;
use nic_placement_topology::GpuVendor::{self, Amd, Intel, Nvidia};

#[derive(Debug)]
pub(super) struct GpuKind {
    pub(super) vendor: GpuVendor,
    /// PCI device id
    pub(super) id: u16,
    /// names in NVIDIA's driver; other drivers give none
    pub(super) names: &'static [&'static str],
}

/// DMI fields that all virtual machines of a cloud share.
#[derive(Debug)]
pub(super) struct Cloud {
    /// `sys_vendor`; `None` if it varies
    pub(super) vendor: Option<&'static str>,
    /// `chassis_asset_tag`; `None` if it varies
    pub(super) asset_tag: Option<&'static str>,
}

/// The tag is "MSFT AZURE VM" in ASCII; cloud-init and WALinuxAgent recognise Azure by it.
const AZURE: Option<Cloud> = cloud(
    Some("Microsoft Corporation"),
    Some("7783-7084-3265-9085-8269-3286-77"),
);
const AWS: Option<Cloud> = cloud(Some("Amazon EC2"), None);
/// cloud-init recognises Oracle's cloud by this tag, on bare metal too.
const ORACLE: Option<Cloud> = cloud(None, Some("OracleCloud.com"));
const GOOGLE: Option<Cloud> = cloud(Some("Google"), None);

const fn cloud(vendor: Option<&'static str>, asset_tag: Option<&'static str>) -> Option<Cloud> {
    Some(Cloud { vendor, asset_tag })
}

const fn gpu(vendor: GpuVendor, id: u16, names: &'static [&'static str]) -> GpuKind {
    GpuKind { vendor, id, names }
}

// PCI device ids and names of GPUs: NVIDIA's list of supported GPUs (open GPU kernel modules), and pci.ids
const A10G: &[GpuKind] = &[gpu(Nvidia, 0x2237, &["NVIDIA A10G", "A10G"])];
const A100: &[GpuKind] = &[
    gpu(Nvidia, 0x20b0, &["NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"]),
    gpu(
        Nvidia,
        0x20b2,
        &["NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "A100-SXM-80GB"],
    ),
];
const H100: &[GpuKind] = &[gpu(Nvidia, 0x2330, &["NVIDIA H100 80GB HBM3"])];
const H200: &[GpuKind] = &[gpu(Nvidia, 0x2335, &["NVIDIA H200"])];
/// EC2's p5 has H100, its p5e H200.
const P5: &[GpuKind] = &[
    gpu(Nvidia, 0x2330, &["NVIDIA H100 80GB HBM3"]),
    gpu(Nvidia, 0x2335, &["NVIDIA H200"]),
];
const B200: &[GpuKind] = &[gpu(Nvidia, 0x2901, &["NVIDIA B200"])];
const B300: &[GpuKind] = &[gpu(Nvidia, 0x3182, &["NVIDIA B300 SXM6 AC"])];
const GB200: &[GpuKind] = &[gpu(Nvidia, 0x2941, &["NVIDIA GB200"])];
const GB300: &[GpuKind] = &[gpu(Nvidia, 0x31c2, &["NVIDIA GB300"])];
const GH200: &[GpuKind] = &[gpu(
    Nvidia,
    0x2342,
    &["NVIDIA GH200 480GB", "NVIDIA GH200 120GB", "GH200 120GB"],
)];
const GB10: &[GpuKind] = &[gpu(Nvidia, 0x2e12, &["NVIDIA GB10"])];
const MI250X: &[GpuKind] = &[gpu(Amd, 0x7408, &[])];
const MI300A: &[GpuKind] = &[gpu(Amd, 0x74a0, &[])];
const MI300X: &[GpuKind] = &[gpu(Amd, 0x74a1, &[])];
const MI325X: &[GpuKind] = &[gpu(Amd, 0x74a5, &[])];
const MI355X: &[GpuKind] = &[gpu(Amd, 0x75a3, &[]), gpu(Amd, 0x75a0, &[])];
const MAX_1550: &[GpuKind] = &[gpu(Intel, 0x0bd5, &[]), gpu(Intel, 0x0bd6, &[])];
const V100: &[GpuKind] = &[
    gpu(Nvidia, 0x1db1, &["Tesla V100-SXM2-16GB"]),
    gpu(Nvidia, 0x1db5, &["Tesla V100-SXM2-32GB"]),
];

const UNMARKED: Model = Model {
    name: "",
    title: "",
    packed: &[],
    products: &[],
    cloud: None,
    kinds: &[],
    gpus: 0,
    addresses: false,
    assumed: &[],
};

/// In order of name; build.rs makes the table of known.json and the models.
pub const MODELS: &[Model] = &include!(concat!(env!("OUT_DIR"), "/known.rs"));

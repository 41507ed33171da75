//! The built-in machines and the facts that identify each.

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

/// Sorted by name; build.rs makes the list from known.json and models/*.json.
pub const MODELS: &[Model] = &include!(concat!(env!("OUT_DIR"), "/known.rs"));

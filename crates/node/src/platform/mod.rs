//! Built-in models of known machines, in the node file's binary form.
//!
//! A model has no broken device. Commands show it, plan for it and compare it with a live node, but
//! bind no process to its CPUs.

mod known;
pub mod recognise;
#[cfg(test)]
mod tests;

pub use known::MODELS;
use known::{Cloud, GpuKind};
use nic_placement_topology::Topology;

#[derive(Debug)]
pub struct Model {
    /// the name of the model's file below `models`
    pub name: &'static str,
    pub title: &'static str,
    /// the topology, as build.rs writes it
    packed: &'static [u8],
    /// beginnings of DMI product or board names; on EC2 the product name is the instance type
    products: &'static [&'static str],
    /// DMI fields of a cloud's virtual machine
    cloud: Option<Cloud>,
    kinds: &'static [GpuKind],
    /// number of PCI functions that are GPUs
    pub gpus: usize,
    /// true if the model's sources state the PCI addresses; assumed addresses identify no live
    /// machine
    pub addresses: bool,
    /// NICs with an assumed address, although `addresses` is true
    assumed: &'static [&'static str],
}

impl Model {
    /// Always `Some`: a test reads every model.
    pub fn topology(&self) -> Option<Topology> {
        postcard::from_bytes(self.packed).ok()
    }

    pub fn is_a_clouds(&self) -> bool {
        self.cloud.is_some()
    }
}

pub fn model(name: &str) -> Option<Topology> {
    MODELS.iter().find(|model| model.name == name)?.topology()
}

pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

//! Built-in models of known machines: topologies inside the program, in the node file's binary form.
//!
//! A model is a machine of its kind with nothing broken.  It can be shown, planned for and compared with a
//! live node.  Nothing is ever bound by it, since its [`Provenance`] is not this system.
#![forbid(unsafe_code)]

mod known;
pub mod recognise;
#[cfg(test)]
mod tests;

pub use known::MODELS;
use known::{Cloud, GpuKind};
use nic_placement_topology::Topology;

/// A known machine.
#[derive(Debug)]
pub struct Model {
    /// in commands
    pub name: &'static str,
    /// for people
    pub title: &'static str,
    /// written by build.rs, from the JSON file below `models`
    packed: &'static [u8],
    /// beginnings of such machines' DMI product or board names
    products: &'static [&'static str],
    /// for a guest of a cloud
    cloud: Option<Cloud>,
    /// kinds of GPU that it may have
    kinds: &'static [GpuKind],
    /// GPUs, as PCI functions
    pub gpus: usize,
    /// true if its sources state the PCI addresses; assumed ones identify no live machine
    pub addresses: bool,
    /// NICs whose addresses are assumed although the others are stated
    assumed: &'static [&'static str],
}

impl Model {
    /// Always there: a test below reads every model.
    pub fn topology(&self) -> Option<Topology> {
        postcard::from_bytes(self.packed).ok()
    }

    pub fn is_a_clouds(&self) -> bool {
        self.cloud.is_some()
    }
}

/// `None` if no model has this name.
pub fn model(name: &str) -> Option<Topology> {
    MODELS.iter().find(|model| model.name == name)?.topology()
}

/// The names that [`model`] knows, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

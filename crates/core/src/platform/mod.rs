//! Built-in models of known machines: topology files inside the program.
//!
//! A model is a machine of its kind with nothing broken.  It can be shown, planned for and compared with a
//! live node.  Nothing is ever bound by it, since its [`Provenance`] is not this system.
#![forbid(unsafe_code)]

pub mod devices;
mod known;
pub mod recognise;
pub mod shortfall;
#[cfg(test)]
mod tests;

use crate::topology::file::{self, BadTopology};
use crate::topology::{Provenance, Topology};
pub use known::MODELS;
use known::{Cloud, GpuKind};

/// A known machine.
#[derive(Debug)]
pub struct Model {
    /// in commands
    pub name: &'static str,
    /// for people
    pub title: &'static str,
    json: &'static str,
    /// beginnings of such machines' DMI product or board names
    products: &'static [&'static str],
    /// for a guest of a cloud
    cloud: Option<Cloud>,
    /// kinds of GPU that it may have
    kinds: &'static [GpuKind],
    /// GPUs, as PCI functions
    gpus: usize,
    /// true if its sources state the PCI addresses; assumed ones identify no live machine
    addresses: bool,
    /// NICs whose addresses are assumed although the others are stated
    assumed: &'static [&'static str],
}

impl Model {
    pub fn topology(&self) -> Result<Topology, BadTopology> {
        file::from_json(self.json, Provenance::Model(self.name.to_string()))
    }

    pub fn is_a_clouds(&self) -> bool {
        self.cloud.is_some()
    }
}

pub fn model(name: &str) -> Option<Topology> {
    // a test below parses every model, so `None` means an unknown name
    MODELS.iter().find(|model| model.name == name)?.topology().ok()
}

/// The names that [`model`] knows, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

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
    /// its name in commands
    pub name: &'static str,
    /// its description, for people
    pub title: &'static str,
    json: &'static str,
    /// beginnings of such machines' DMI product or board names
    products: &'static [&'static str],
    /// where it is a guest of a cloud
    cloud: Option<Cloud>,
    /// the kinds of GPU that it may have
    kinds: &'static [GpuKind],
    /// GPUs, as PCI functions
    gpus: usize,
    /// do its sources state the PCI addresses?  Assumed ones identify no live machine.
    addresses: bool,
    /// NICs whose addresses are assumed although the others are stated
    assumed: &'static [&'static str],
}

impl Model {
    /// The machine's topology.
    pub fn topology(&self) -> Result<Topology, BadTopology> {
        file::from_json(self.json, Provenance::Model(self.name.to_string()))
    }

    /// Is it a guest of a cloud?
    pub fn is_a_clouds(&self) -> bool {
        self.cloud.is_some()
    }
}

/// The topology of the machine called `name`.
pub fn model(name: &str) -> Option<Topology> {
    // a test below parses every model, so `None` means an unknown name
    MODELS.iter().find(|model| model.name == name)?.topology().ok()
}

/// The names that [`model`] knows, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}

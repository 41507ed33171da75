//! Draws a node: its GPUs and NICs in their places, and a line from each GPU to its NICs.

mod card;
mod layout;
pub mod outline;
mod svg;
#[cfg(test)]
mod tests;
mod width;

use nic_placement_core::placement::NodePlacement;
use nic_placement_core::topology::{GpuIndex, NicIndex, PathType, Topology};
use std::collections::BTreeMap;

pub struct Scene<'a> {
    pub topology: &'a Topology,
    pub subtitle: String,
    pub pairs: Vec<DrawnPair>,
    pub models: Vec<Option<&'a str>>,
    pub placement: &'a NodePlacement,
    /// for each GPU a line of its own, such as its task; with any of them a GPU without one is grey
    pub notes: BTreeMap<GpuIndex, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DrawnPair {
    pub gpu: GpuIndex,
    pub nic: NicIndex,
    pub path: PathType,
}

impl Scene<'_> {
    /// The model that all GPUs have: the headline says it once, and no box again.
    pub fn common_model<'a>(models: &[Option<&'a str>]) -> Option<&'a str> {
        let model = *models.first()?;
        model.filter(|_| models.iter().all(|other| *other == model))
    }
}

/// The same bytes for the same scene.
pub fn svg(scene: &Scene) -> String {
    layout::picture(scene)
}

//! What tests share, and no program of the project.
#![forbid(unsafe_code)]

pub mod synthesise;

use nic_placement_formats::manifest;
use nic_placement_node::platform;

/// A built-in machine as the text of a snapshot.
pub fn snapshot_of(machine: &str) -> String {
    let model = platform::model(machine).expect("it is built in");
    manifest::text(&synthesise::synthesise(&model))
}

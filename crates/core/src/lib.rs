//! The decisions of nic-placement: pure functions of the node, the wish and the step.
//!
//! Read [`plan`] first: it calls the other modules, here in the order of the data.
//!
//! * [`topology`] describes the node.
//! * [`config`] parses the admin's arguments and the user's option into a [`wish`]; [`step`] is
//!   Slurm's grant.
//! * [`policy`] maps GPUs to NICs, [`gpus`] tasks to GPUs, [`bind`] tasks to CPUs and memory; the
//!   result is a [`placement`].
//! * [`maps`] writes the map for programs that drive all GPUs of a node.
//! * [`libraries`] computes the variables of communication libraries.
//!
//! ARCHITECTURE.md has the reasons for this division.
#![forbid(unsafe_code)]

// tests include files of other crates, which import from `nic_placement_core`
#[cfg(test)]
extern crate self as nic_placement_core;

#[cfg(test)]
#[macro_use]
#[path = "../../../testing/rows.rs"]
mod rows;

pub mod bind;
pub mod config;
pub mod gpus;
pub mod libraries;
pub mod maps;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod step;
pub mod wish;

pub use nic_placement_topology as topology;
pub use nic_placement_topology::{diagnostic, order};

//! What nic-placement knows and decides, without a word of Slurm's.
//!
//! Read [`plan`] first: it is the story in one type.  Then in the order of the data:
//!
//! * [`discover`] reads `/sys` and `/proc`, [`platform`] holds built-in machines, [`topology`] is what either yields;
//!   [`node`] picks one of them.
//! * [`config`] reads what the admin and the user want, a [`wish`]; [`step`] is what Slurm granted.
//! * [`policy`] decides which GPU uses which NIC, [`gpus`] which task has which GPUs, [`bind`] where a task runs: a [`placement`].
//! * [`maps`] writes the map for programs that drive all GPUs of a node.
//! * [`libraries`] turns all of it into what the communication libraries and people read.
//!
//! ARCHITECTURE.md tells why it is cut this way.
#![forbid(unsafe_code)]

// the files that other crates' unit tests share name this crate
#[cfg(test)]
extern crate self as nic_placement_core;

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

//! A node in other shapes than `/sys` shows it, which only the tool and the tests need.
//!
//! * [`describe`] reads a node from a file of any format: [`import`] holds the readers of other programs' files,
//!   [`archive`] that of tars.
//! * [`file`] writes the topology file, [`node_file`] makes the node file.
//! * [`links`] reads what connects GPUs.
//! * [`manifest`] is the text of a snapshot.
//! * [`synthesise`] writes the `/sys` and `/proc` that would show a topology.
//! * [`picture`] orders a node's devices and draws them.
#![forbid(unsafe_code)]

pub mod archive;
pub mod describe;
pub mod file;
pub mod import;
pub mod links;
pub mod manifest;
pub mod node_file;
pub mod picture;
pub mod synthesise;
#[cfg(test)]
#[path = "../../topology/src/path/tests/way.rs"]
mod way;

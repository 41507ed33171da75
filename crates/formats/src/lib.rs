//! A node in other shapes than `/sys` shows it, which only the tool and the tests need.
#![forbid(unsafe_code)]

pub mod archive;
pub mod describe;
pub mod file;
pub mod import;
pub mod links;
pub mod manifest;
pub mod node_file;
pub mod picture;
#[cfg(test)]
#[path = "../../topology/src/path/tests/way.rs"]
mod way;

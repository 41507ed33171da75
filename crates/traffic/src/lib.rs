//! A node's tasks against their plan, and the bytes of its NICs.  Pure: the tool reads the files.
#![forbid(unsafe_code)]

pub mod bytes;
pub mod counters;
pub mod exposition;
pub mod report;
pub mod resources;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod verify;

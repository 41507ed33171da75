//! Places a process: the plugin's task, or a program of `nic-placement exec`.
//!
//! Start reading at [`session`].
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
#[path = "../../../testing/rows.rs"]
mod rows;

pub mod admin;
mod bind;
pub mod devices;
pub mod files;
pub mod gpus;
pub mod maps;
pub mod node;
pub mod session;

pub use bind::memory;

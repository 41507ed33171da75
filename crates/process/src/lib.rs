//! What a process was given of its node, and how a decision about it is carried out: for the plugin's tasks, and for
//! `nic-placement exec` where there is no plugin.
//!
//! [`session`] is the story; start reading there.  [`admin`] says what the admin and the user want here.
#![forbid(unsafe_code)]

pub mod admin;
mod bind;
pub mod devices;
pub mod files;
pub mod gpus;
pub mod maps;
pub mod node;
pub mod session;

pub use bind::memory;

//! Gives every task of a Slurm step its nearest RDMA NIC, CPUs and memory.
//!
//! The map of the crate, in the order of the data:
//!
//! * [`discover`] reads `/sys` and `/proc`, [`import`] other programs' files, [`platform`] holds built-in
//!   machines: each yields a [`topology`].
//! * [`config`] says what the admin and the user want, [`step`] what Slurm granted.
//! * [`policy`] decides: a [`placement`].
//! * [`render`] turns it into what the communication libraries and people read.
//! * [`pipeline`] is all of that as one story.
//! * `spank` is the plugin around it, [`cli`] the command-line tool, [`sys`] the system calls.
//!
//! ARCHITECTURE.md tells why it is cut this way.

pub mod cli;
pub mod config;
pub mod diagnostic;
pub mod discover;
pub mod import;
pub mod pipeline;
pub mod placement;
pub mod platform;
pub mod policy;
pub mod render;
pub mod spank;
pub mod step;
pub mod sys;
pub mod topology;

//! The tool `nic-placement`: shows, explains, plans and checks without Slurm what the plugin does with it, and does it for processes of launchers.
//!
//! * [`commands`] is the command line, a file for each command.
//! * [`describe`] reads a node from a file of any format: [`import`] holds the readers of other programs' files,
//!   [`archive`] that of tars.
//! * [`audit`] compares the reports of many nodes.
//! * [`doctor`] judges what `check` reads.
//! * [`traffic`] knows the bytes of NICs, and what they say.
//! * [`picture`] orders a node's devices and draws them.
#![forbid(unsafe_code)]

pub mod archive;
pub mod audit;
pub mod commands;
pub mod describe;
pub mod doctor;
pub mod import;
pub mod picture;
pub mod traffic;

//! The tool `nic-placement`: shows, explains, plans and checks without Slurm what the plugin does with it, and does it for processes of launchers.
//!
//! [`commands`] is the command line, a file for each command.
#![forbid(unsafe_code)]

pub mod commands;

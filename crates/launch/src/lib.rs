//! Plans without Slurm, for launchers and the tool's command line.
//!
//! * [`step`] is a step as they describe it, in Slurm's place.
//! * [`launched`] is this process, as a task of a step that its launcher started.
//! * [`gpu_list`] is GPUs as they name them.
//! * [`answers`] is the plan as versioned JSON.
#![forbid(unsafe_code)]

pub mod answers;
pub mod gpu_list;
pub mod launched;
pub mod step;
#[cfg(test)]
mod tests;

//! Plans without Slurm, for launchers and the tool's command line.
//!
//! * [`step`] is a step as they describe it, in Slurm's place.
//! * [`answers`] is the plan as versioned JSON.
#![forbid(unsafe_code)]

pub mod answers;
pub mod step;
#[cfg(test)]
mod tests;

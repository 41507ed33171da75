//! Plans without Slurm, for launchers and the tool's command line.
//!
//! * [`step`] is a step as they describe it, in Slurm's place.
//! * [`launched`] is this process, as a task of a step that its launcher started.
//! * [`plugstack`] is plugstack.conf, by which an admin's arguments hold for such a process too.
//! * [`caller`] is whose files such a process trusts.
//! * [`gpu_list`] is GPUs as they name them.
//! * [`answers`] is the plan as versioned JSON.
//! * [`judge`] is what looks wrong in users' variables.
#![forbid(unsafe_code)]

pub mod answers;
pub mod caller;
pub mod gpu_list;
pub mod judge;
pub mod launched;
pub mod plugstack;
pub mod step;
#[cfg(test)]
mod tests;

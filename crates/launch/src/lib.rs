//! Plans without Slurm, for launchers and the tool's command line.
//!
//! * [`step`] is a step as they describe it, in Slurm's place.
//! * [`launched`] is this process, as a task of a step that its launcher started.
//! * [`plugstack`] is plugstack.conf, by which an admin's arguments hold for such a process too.
//! * [`caller`] is whose files such a process trusts.
//! * [`explain`] is why each GPU has its NICs.
//! * [`formats`] is the words for the formats of a node's map.
//! * [`gpus`] is which GPUs a process has, with or without Slurm.
//! * [`gpu_list`] is GPUs as they name them.
//! * [`machine_name`] is built-in machines as people name them.
//! * [`srun`] is a line of srun.
//! * [`answers`] is the plan as versioned JSON.
//! * [`judge`] is what looks wrong in users' variables.
#![forbid(unsafe_code)]

pub mod answers;
pub mod caller;
pub mod explain;
pub mod formats;
pub mod gpu_list;
pub mod gpus;
pub mod judge;
pub mod launched;
pub mod machine_name;
pub mod plugstack;
pub mod srun;
pub mod step;
#[cfg(test)]
mod tests;

//! Plans without Slurm, for launchers and the tool's command line.
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
pub mod step;
#[cfg(test)]
mod tests;

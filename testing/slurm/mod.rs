//! A private Slurm whose nodes play others (`tests/slurm/cluster.sh`), for the programs that start tasks on it.
#![allow(dead_code, unused_imports, unused_macros)] // each program uses a part

pub mod bed;
#[path = "../cases.rs"]
pub mod cases;
pub mod machines;
pub mod plugins;
pub mod site;
#[path = "../task.rs"]
pub mod task;

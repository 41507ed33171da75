//! `nic-placement exec`: on a played DGX H100 below real launchers (Open MPI, MPICH, torchrun), and by itself.
//!
//! The node is played as for the tests on a real Slurm: tests/slurm/machine.sh is its `/sys` and `/dev` in a mount namespace,
//! tests/slurm/fakecpu.c its CPUs and memory, tests/slurm/report.c the program.  That needs root and a C compiler.  The
//! launchers come from tests/exec/install.sh.  What is missing is said, and its tests pass.

#[path = "exec/alone.rs"]
mod alone;
#[path = "host/harness.rs"]
mod harness;
#[path = "exec/launchers.rs"]
mod launchers;
#[path = "exec/played.rs"]
mod played;
#[path = "exec/rules.rs"]
mod rules;
#[path = "exec/steps.rs"]
mod steps;
#[path = "../testing/task.rs"]
mod task;

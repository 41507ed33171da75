//! The plugin on a real Slurm: real `srun`, slurmctld, slurmd and slurmstepd, on nodes that play a DGX H100.
//!
//! ```text
//! cargo build --release && cargo test --test end_to_end
//! cargo test --test end_to_end -- nested          only the cases with that word in their name
//! NICP_ROOT=FOLDER cargo test --test end_to_end   on the Slurm of another distribution (tests/slurm/releases.sh)
//! ```
//!
//! Needs root and Debian's Slurm packages (`tests/slurm/install.sh`); without them it says so and passes.  The cluster is
//! `tests/slurm/cluster.sh`.  The task is `tests/slurm/report.c`, which prints its own binding and environment.  A case is
//! a function or a row of a table, and its name is the sentence that it proves.  A case that proves an effect also runs
//! the command without the flag.

#[path = "end_to_end/mod.rs"]
mod end_to_end;
#[path = "../testing/slurm/mod.rs"]
mod slurm;

fn main() -> std::process::ExitCode {
    end_to_end::run()
}

//! Unmodified clients on a wire: UCX, Open MPI, MPICH and libfabric between two guests under qemu, started by a real `srun`
//! with and without the plugin.  The kernel's counters say by which NIC the bytes left.
//!
//! ```text
//! make test-clients                       all
//! CLIENTS=mpi,measure cargo test --test clients    these groups
//! cargo test --test clients               UCX alone, in three minutes
//! cargo test --test clients -- storage    of it the cases with that word in their name; the same is run
//! ```
//!
//! Needs what tests/vm_slurm.rs needs, tests/clients/install.sh, and Debian's source of the guests' kernel: soft RoCE is made
//! from it, so that four NICs of each guest move data and look like a ConnectX.  Without them, or with
//! NIC_PLACEMENT_SKIP=vm, it says so and passes.  Both guests are booted once, and run all commands; the cases then read the
//! answers.  It prints what each command sent, by NIC.
//!
//! The groups are the files of tests/clients; torchrun takes minutes under emulation, and `versions` are other releases of UCX,
//! from Debian's archive.

#[path = "clients/mod.rs"]
mod clients;
#[path = "../testing/guest/mod.rs"]
mod guest;

fn main() -> std::process::ExitCode {
    clients::run()
}

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
//! The groups are ucx, address, measure, verify, mpi, fabric, faults, lost, launchers, trial, torch (torchrun takes minutes under emulation)
//! and versions (other releases of UCX, from Debian's archive).

#[path = "vm/boot.rs"]
mod boot;
#[path = "clients/cases_address.rs"]
mod cases_address;
#[path = "clients/cases_fabric.rs"]
mod cases_fabric;
#[path = "clients/cases_faults.rs"]
mod cases_faults;
#[path = "clients/cases_launchers.rs"]
mod cases_launchers;
#[path = "clients/cases_lost.rs"]
mod cases_lost;
#[path = "clients/cases_measure.rs"]
mod cases_measure;
#[path = "clients/cases_mpi.rs"]
mod cases_mpi;
#[path = "clients/cases_torch.rs"]
mod cases_torch;
#[path = "clients/cases_trial.rs"]
mod cases_trial;
#[path = "clients/cases_ucx.rs"]
mod cases_ucx;
#[path = "clients/cases_verify.rs"]
mod cases_verify;
#[path = "clients/cases_versions.rs"]
mod cases_versions;
#[path = "clients/nodes.rs"]
mod nodes;

use nodes::{Nodes, Unfit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A case: its name is the sentence that it proves.
pub type Case = (&'static str, fn(&Nodes));

/// `cases![a_first_case, a_second]` as a table.
macro_rules! cases {
    ($($case:ident),* $(,)?) => { &[$((stringify!($case), $case)),*] };
}
pub(crate) use cases;

/// What is run, by its name.
pub type Command = (&'static str, &'static str);

/// A file of cases: its name in CLIENTS, what is run, and what that proves.
struct Group {
    name: &'static str,
    commands: &'static [Command],
    cases: &'static [Case],
}

/// What is run where CLIENTS does not say.
const USUAL: &str = "ucx,address";

const GROUPS: [Group; 12] = [
    Group {
        name: "ucx",
        commands: cases_ucx::COMMANDS,
        cases: cases_ucx::CASES,
    },
    Group {
        name: "address",
        commands: cases_address::COMMANDS,
        cases: cases_address::CASES,
    },
    Group {
        name: "measure",
        commands: cases_measure::COMMANDS,
        cases: cases_measure::CASES,
    },
    Group {
        name: "mpi",
        commands: cases_mpi::COMMANDS,
        cases: cases_mpi::CASES,
    },
    Group {
        name: "fabric",
        commands: cases_fabric::COMMANDS,
        cases: cases_fabric::CASES,
    },
    Group {
        name: "faults",
        commands: cases_faults::COMMANDS,
        cases: cases_faults::CASES,
    },
    Group {
        name: "lost",
        commands: cases_lost::COMMANDS,
        cases: cases_lost::CASES,
    },
    Group {
        name: "launchers",
        commands: cases_launchers::COMMANDS,
        cases: cases_launchers::CASES,
    },
    Group {
        name: "verify",
        commands: cases_verify::COMMANDS,
        cases: cases_verify::CASES,
    },
    Group {
        name: "trial",
        commands: cases_trial::COMMANDS,
        cases: cases_trial::CASES,
    },
    Group {
        name: "torch",
        commands: cases_torch::COMMANDS,
        cases: cases_torch::CASES,
    },
    Group {
        name: "versions",
        commands: cases_versions::COMMANDS,
        cases: cases_versions::CASES,
    },
];

/// Those that are asked for.
fn groups() -> impl Iterator<Item = &'static Group> {
    let asked = std::env::var("CLIENTS").unwrap_or_else(|_| USUAL.to_string());
    let is_asked = move |group: &&Group| {
        asked
            .split(',')
            .any(|word| word == "all" || word == group.name)
    };
    GROUPS.iter().filter(is_asked)
}

fn boot() -> Result<Nodes, Unfit> {
    match boot::unwanted() {
        Some(reason) => Err(Unfit::Skip(reason)),
        None => Nodes::boot(groups().flat_map(|group| group.commands).copied().collect()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let nodes = match boot() {
        Ok(nodes) => nodes,
        Err(Unfit::Skip(reason)) => {
            println!("skipped: {reason}");
            return ExitCode::SUCCESS;
        }
        Err(Unfit::Broken(reason)) => {
            eprintln!("clients: {reason}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", nodes.table());
    let (mut passed, mut failed) = (0, 0);
    for (name, prove) in groups().flat_map(|group| group.cases) {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            let ok = catch_unwind(AssertUnwindSafe(|| prove(&nodes))).is_ok();
            println!("{} {name}", if ok { "ok     " } else { "FAILED " });
            if ok { passed += 1 } else { failed += 1 }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

//! The plugin on a real Slurm: real `srun`, slurmctld, slurmd and slurmstepd, on nodes that play a DGX H100.
//!
//! ```text
//! cargo build --release && cargo test --test end_to_end
//! cargo test --test end_to_end -- nested          only the cases with that word in their name
//! NICP_ROOT=FOLDER cargo test --test end_to_end   on the Slurm of another distribution (tests/slurm/releases.sh)
//! ```
//!
//! Needs root and Debian's Slurm packages (`tests/slurm/install.sh`); without them it says so and passes.  The cluster is
//! `tests/slurm/cluster.sh`.  The task is `tests/slurm/report.c`, which prints its own binding and environment.  A case is a
//! function, and its name is the sentence that it proves.  A case that proves an effect also runs the command without the
//! flag.

#[path = "end_to_end/bed.rs"]
mod bed;
#[path = "end_to_end/cases_agree.rs"]
mod cases_agree;
#[path = "end_to_end/cases_bind.rs"]
mod cases_bind;
#[path = "end_to_end/cases_components.rs"]
mod cases_components;
#[path = "end_to_end/cases_conf.rs"]
mod cases_conf;
#[path = "end_to_end/cases_contained.rs"]
mod cases_contained;
#[path = "end_to_end/cases_containers.rs"]
mod cases_containers;
#[path = "end_to_end/cases_core.rs"]
mod cases_core;
#[path = "end_to_end/cases_ends.rs"]
mod cases_ends;
#[path = "end_to_end/cases_environment.rs"]
mod cases_environment;
#[path = "end_to_end/cases_failure.rs"]
mod cases_failure;
#[path = "end_to_end/cases_faults.rs"]
mod cases_faults;
#[path = "end_to_end/cases_gpu.rs"]
mod cases_gpu;
#[path = "end_to_end/cases_hint.rs"]
mod cases_hint;
#[path = "end_to_end/cases_home.rs"]
mod cases_home;
#[path = "end_to_end/cases_identity.rs"]
mod cases_identity;
#[path = "end_to_end/cases_ladder.rs"]
mod cases_ladder;
#[path = "end_to_end/cases_launchers.rs"]
mod cases_launchers;
#[path = "end_to_end/cases_libraries.rs"]
mod cases_libraries;
#[path = "end_to_end/cases_local_id.rs"]
mod cases_local_id;
#[path = "end_to_end/cases_machine.rs"]
mod cases_machine;
#[path = "end_to_end/cases_mounts.rs"]
mod cases_mounts;
#[path = "end_to_end/cases_nics.rs"]
mod cases_nics;
#[path = "end_to_end/cases_option.rs"]
mod cases_option;
#[path = "end_to_end/cases_order.rs"]
mod cases_order;
#[path = "end_to_end/cases_plan.rs"]
mod cases_plan;
#[path = "end_to_end/cases_policy.rs"]
mod cases_policy;
#[path = "end_to_end/cases_programs.rs"]
mod cases_programs;
#[path = "end_to_end/cases_release.rs"]
mod cases_release;
#[path = "end_to_end/cases_shapes.rs"]
mod cases_shapes;
#[path = "end_to_end/cases_steps.rs"]
mod cases_steps;
#[path = "end_to_end/faults.rs"]
mod faults;
#[path = "end_to_end/harness.rs"]
mod harness;
#[path = "end_to_end/machines.rs"]
mod machines;
#[path = "end_to_end/plugins.rs"]
mod plugins;
#[path = "end_to_end/report.rs"]
mod report;
#[path = "end_to_end/site.rs"]
mod site;

use harness::Suite;
use site::{Site, Unfit};

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let site = match Site::new() {
        Ok(site) => site,
        Err(Unfit::Skip(reason)) => {
            println!("skipped: {reason}");
            return std::process::ExitCode::SUCCESS;
        }
        Err(Unfit::Broken(reason)) => {
            eprintln!("end_to_end: {reason}");
            return std::process::ExitCode::FAILURE;
        }
    };
    let mut suite = Suite::new(site, words);
    suite.on(
        machines::plain(),
        &[
            cases_gpu::CASES,
            cases_identity::CASES,
            cases_local_id::CASES,
            cases_bind::CASES,
            cases_hint::CASES,
            cases_core::CASES,
            cases_environment::CASES,
            cases_libraries::CASES,
            cases_option::CASES,
            cases_policy::CASES,
            cases_machine::CASES,
            cases_nics::CASES,
            cases_mounts::CASES,
            cases_failure::CASES,
            cases_faults::CASES,
            cases_ends::CASES,
            cases_order::CASES,
            cases_release::CASES,
            cases_steps::CASES,
            cases_programs::CASES,
            cases_launchers::CASES,
            cases_shapes::CASES,
            cases_plan::CASES,
            cases_components::CASES,
            cases_conf::CASES,
            cases_home::CASES,
            cases_agree::CASES,
        ],
    );
    suite.on(
        machines::with_cgroups(),
        &[
            cases_home::CASES,
            cases_machine::CASES_WITH_CGROUPS,
            cases_identity::CASES_WITH_CGROUPS,
            cases_local_id::CASES_WITH_CGROUPS,
            cases_nics::CASES_WITH_CGROUPS,
            cases_launchers::CASES_WITH_CGROUPS,
        ],
    );
    suite.on(
        machines::with_four_numa_nodes_to_a_socket(),
        &[cases_ladder::CASES],
    );
    suite.on(
        machines::configless(),
        &[cases_conf::CASES_OF_CONFIGLESS_NODES],
    );
    suite.on(machines::with_contained_jobs(), &[cases_contained::CASES]);
    suite.on(
        machines::with_a_step_of_slurms_own(),
        &[
            cases_shapes::CASES_OF_SLURMS_OWN_STEP,
            cases_containers::CASES,
        ],
    );
    suite.on(
        machines::with_little_memory(),
        &[cases_ends::CASES_WITH_LITTLE_MEMORY],
    );
    suite.on(
        machines::whose_gpus_slurm_finds(),
        &[cases_shapes::CASES_THAT_FIND_THEIR_GPUS],
    );
    suite.on(
        machines::with_a_prolog_plugin(),
        &[cases_failure::CASES_WITH_A_PROLOG_PLUGIN],
    );
    suite.on(
        machines::of_an_unknown_release(),
        &[cases_release::CASES_UNKNOWN_ON_THE_NODE],
    );
    suite.finish()
}

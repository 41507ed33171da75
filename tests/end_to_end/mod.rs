//! The cases, and the clusters that they need.

mod beside;
mod bind;
mod conf;
mod ends;
mod environment;
mod faults;
mod gpus;
mod home;
mod kinds;
mod launchers;
mod libraries;
mod machine;
mod nics;
mod plan;
mod policy;
mod programs;
mod release;
mod suite;
mod words;

use crate::slurm::machines::{self, plain, with_cgroups};
use crate::slurm::site::Site;
use suite::Suite;

pub fn run() -> std::process::ExitCode {
    let site = match Site::new() {
        Ok(site) => site,
        Err(unfit) => return unfit.end("end_to_end"),
    };
    let mut suite = Suite::new(&site);
    suite.on(
        plain(),
        &[
            gpus::ROWS,
            gpus::CASES,
            bind::ROWS,
            bind::CASES,
            environment::ROWS,
            environment::CASES,
            libraries::ROWS,
            libraries::CASES,
            words::ROWS,
            words::CASES,
            policy::CASES,
            machine::CASES,
            nics::CASES,
            faults::CASES,
            ends::CASES,
            beside::CASES,
            release::CASES,
            kinds::ROWS,
            kinds::CASES,
            programs::CASES,
            launchers::CASES,
            plan::CASES,
            conf::CASES,
            home::CASES,
        ],
    );
    suite.on(
        with_cgroups(),
        &[
            home::CASES,
            gpus::ROWS_WITH_CGROUPS,
            gpus::CASES_WITH_CGROUPS,
            nics::CASES_WITH_CGROUPS,
            launchers::CASES_WITH_CGROUPS,
        ],
    );
    let nps4 = machines::with_four_numa_nodes_to_a_socket();
    suite.on(nps4, &[bind::CASES_OF_FOUR_NODES]);
    suite.on(machines::configless(), &[conf::CASES_OF_CONFIGLESS_NODES]);
    suite.on(machines::with_contained_jobs(), &[beside::CASES_CONTAINED]);
    let own_step = machines::with_a_step_of_slurms_own();
    suite.on(
        own_step,
        &[kinds::CASES_OF_SLURMS_OWN_STEP, beside::CASES_OF_CONTAINERS],
    );
    suite.on(
        machines::with_little_memory(),
        &[ends::CASES_WITH_LITTLE_MEMORY],
    );
    suite.on(
        machines::whose_gpus_slurm_finds(),
        &[kinds::CASES_THAT_FIND_THEIR_GPUS],
    );
    suite.on(
        machines::with_a_prolog_plugin(),
        &[faults::CASES_WITH_A_PROLOG_PLUGIN],
    );
    suite.on(
        machines::of_an_unknown_release(),
        &[release::CASES_UNKNOWN_ON_THE_NODE],
    );
    suite.end()
}

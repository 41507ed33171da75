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

use crate::slurm::machines::*;
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
            gpus::WITH_CGROUPS,
            nics::WITH_CGROUPS,
            launchers::WITH_CGROUPS,
        ],
    );
    suite.on(with_four_numa_nodes_to_a_socket(), &[bind::OF_FOUR_NODES]);
    suite.on(configless(), &[conf::OF_CONFIGLESS_NODES]);
    suite.on(with_contained_jobs(), &[beside::CONTAINED]);
    let own_step = with_a_step_of_slurms_own();
    suite.on(
        own_step,
        &[kinds::OF_SLURMS_OWN_STEP, beside::OF_CONTAINERS],
    );
    suite.on(with_little_memory(), &[ends::WITH_LITTLE_MEMORY]);
    suite.on(whose_gpus_slurm_finds(), &[kinds::THAT_FIND_THEIR_GPUS]);
    suite.on(with_a_prolog_plugin(), &[faults::WITH_A_PROLOG_PLUGIN]);
    suite.on(of_an_unknown_release(), &[release::UNKNOWN_ON_THE_NODE]);
    suite.end()
}

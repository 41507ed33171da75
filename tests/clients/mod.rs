//! The groups of cases, and the commands that are run for them.

mod cases_address;
mod cases_engines;
mod cases_fabric;
mod cases_faults;
mod cases_launchers;
mod cases_lost;
mod cases_measure;
mod cases_mpi;
mod cases_torch;
mod cases_trial;
mod cases_ucx;
mod cases_verify;
mod cases_versions;
mod nodes;

use crate::guest::boot::unwanted;
use crate::guest::cases::{Tally, Unfit};
use nodes::Nodes;
use std::process::ExitCode;

/// A case: its name is the sentence that it proves.
type Case = (&'static str, fn(&Nodes));

/// A file of cases: its name in CLIENTS, the lines that are run, each behind its name, and what they prove.
struct Group {
    name: &'static str,
    commands: &'static str,
    cases: &'static [Case],
}

macro_rules! groups {
    ($($name:literal $file:ident),* $(,)?) => {
        &[$(Group { name: $name, commands: $file::COMMANDS, cases: $file::CASES }),*]
    };
}

const GROUPS: &[Group] = groups! {
    "ucx" cases_ucx,
    "address" cases_address,
    "measure" cases_measure,
    "mpi" cases_mpi,
    "fabric" cases_fabric,
    "faults" cases_faults,
    "lost" cases_lost,
    "launchers" cases_launchers,
    "verify" cases_verify,
    "trial" cases_trial,
    "torch" cases_torch,
    "engines" cases_engines,
    "versions" cases_versions,
};

/// Those that are asked for.
fn groups() -> impl Iterator<Item = &'static Group> {
    let asked = std::env::var("CLIENTS").unwrap_or_else(|_| "ucx,address".to_string());
    let is = |word: &str, group: &Group| word == "all" || word == group.name;
    let is_asked = move |group: &&Group| asked.split(',').any(|word| is(word, group));
    GROUPS.iter().filter(is_asked)
}

fn boot() -> Result<Nodes, Unfit> {
    match unwanted() {
        Some(reason) => Err(Unfit::Skip(reason)),
        None => Nodes::boot(
            groups()
                .map(|group| cases_versions::each(group.commands))
                .collect(),
        ),
    }
}

pub fn run() -> ExitCode {
    let nodes = match boot() {
        Ok(nodes) => nodes,
        Err(unfit) => return unfit.end("clients"),
    };
    println!("{}", nodes.table());
    let mut tally = Tally::new();
    for (name, prove) in groups().flat_map(|group| group.cases) {
        tally.run(name, || prove(&nodes), String::new);
    }
    ExitCode::from(u8::from(tally.end() > 0))
}

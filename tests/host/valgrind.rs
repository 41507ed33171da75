//! A step of the fake Slurm under valgrind.

use super::harness::{self, Step};
use std::process::{Command, Output};

/// Is there a valgrind?  Says so where there is none.
pub(super) fn is_there() -> bool {
    let is_there = Command::new("valgrind").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: there is no `valgrind`");
    }
    is_there
}

/// Plays the step, in its environment alone.
pub(super) fn ran(step: &Step, arguments: &[&str]) -> Output {
    let played = step.command(harness::host().expect("asked for before"));
    let mut command = Command::new("valgrind");
    let variables = played.get_envs();
    let variables = variables.filter_map(|(name, value)| Some((name, value?)));
    command.args(arguments).env_clear().envs(variables);
    command.arg(played.get_program()).args(played.get_args());
    command.output().expect("valgrind starts")
}

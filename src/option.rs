//! `--nic-placement`'s value, plugstack.conf's arguments, and faults that test builds provoke.
#![forbid(unsafe_code)]

use crate::environment::variable;
use nic_placement_core::config::{ENVIRONMENT, OPTION, Words, components, options};
use nic_placement_core::step::program::program_name;
use slurm_spank::SpankHandle;
use std::io::{self, ErrorKind, Write};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The words of the last `option_callback`: Slurm's last call counts.
static VALUE: Mutex<Option<Words>> = Mutex::new(None);

/// Stores the option's value. Returns false in scrontab, and for a bad value in srun, sbatch and
/// salloc, which then end and queue no job.
///
/// On a node, returns true for a bad value: after false slurmstepd would log the raw value, line
/// ends included (src/common/spank.c, `_spank_stack_get_remote_options`), and later releases may
/// take it for a node failure.
pub(crate) fn take(text: &str, remote: bool) -> bool {
    if !remote && is_scrontab() {
        log::error!(
            "--{OPTION}: scrontab does not hand this to the job: give it to the script's srun, or export {ENVIRONMENT} in the \
             script"
        );
        return false;
    }
    match Words::parse(text) {
        // `help` runs no job
        Ok(words) if words.help && !remote => exit(print_help()),
        Ok(words) => {
            *locked(&VALUE) = Some(words);
            true
        }
        Err(bad) => {
            log::error!("--{OPTION}: {bad}");
            remote
        }
    }
}

/// True in scrontab, which reads `#SCRON --nic-placement` as sbatch does, but passes no plugin's
/// option to the job (src/scrontab/scrontab.c, `_entry_to_job`). There `help` must not exit: the
/// edit would be lost.
fn is_scrontab() -> bool {
    let program = std::env::args_os().next();
    program.is_some_and(|path| program_name(&path.to_string_lossy()) == "scrontab")
}

fn print_help() -> i32 {
    let mut terminal = io::stdout().lock();
    let printed = terminal
        .write_all(options::help().as_bytes())
        .and_then(|()| terminal.flush());
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            log::error!("--{OPTION}=help: cannot be printed: {error}");
            1
        }
        // a closed pipe is no error (`| head`)
        _ => 0,
    }
}

pub(crate) fn value() -> Option<Words> {
    locked(&VALUE).clone()
}

pub(crate) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On a node: the option's words, or `off` if any component of a heterogeneous job has `off`.
pub(crate) fn of_job(spank: &SpankHandle) -> Option<Words> {
    match variable(spank, components::OFF).as_deref() {
        Some("1") => Words::parse("off").ok(),
        _ => value(),
    }
}

/// The arguments of each plugstack.conf line that loads this library. Slurm calls `init` for each
/// line, before any other hook (src/common/spank.c, `spank_stack_load`).
static ARGUMENTS: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());

/// Adds one plugstack.conf line's arguments, except those that ask test builds for faults.
pub(crate) fn note_arguments(spank: &SpankHandle) {
    // an error counts as an unknown argument, so no step is placed
    let said = spank
        .plugin_argv()
        .map(|all| all.into_iter().map(str::to_string).collect());
    let mut said: Vec<String> = said.unwrap_or_else(|error| vec![error.to_string()]);
    said.retain(|argument| !faults::is_asked_by(argument));
    let mut lines = locked(&ARGUMENTS);
    if !lines.contains(&said) {
        lines.push(said);
    }
}

pub(crate) fn arguments() -> Vec<String> {
    locked(&ARGUMENTS).concat()
}

#[cfg(not(feature = "panic-in-hooks"))]
mod faults {
    use crate::SpankHandle;
    pub(crate) fn is_asked_by(_: &str) -> bool {
        false
    }
    pub(crate) fn provoke(_: &SpankHandle, _: &str) {}
    pub(crate) fn provoke_by(_: &str) {}
    pub(crate) fn answer(_: &str, answer: i32) -> i32 {
        answer
    }
}

#[cfg(feature = "panic-in-hooks")]
#[path = "../tests/host/faults.rs"]
mod faults;

pub(crate) use faults::{answer, provoke, provoke_by};

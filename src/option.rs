//! The option's value in this process, and in test builds the faults that it asks for.
#![forbid(unsafe_code)]

use crate::environment::variable;
use nic_placement_core::config::{ENVIRONMENT, OPTION, Words, components, options};
use nic_placement_core::step::program::program_name;
use slurm_spank::SpankHandle;
use std::io::{self, ErrorKind, Write};
use std::process::exit;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The option's words by the last call of its callback.
static VALUE: Mutex<Option<Words>> = Mutex::new(None);

/// Takes a value from Slurm; `false` refuses it, which ends srun, sbatch and salloc before anything is queued.
///
/// Nothing is refused on a node: Slurm then writes the value into slurmd's log as it came, line ends and all
/// (src/common/spank.c, `_spank_stack_get_remote_options`), and a later release may count the answer as the node's failure.
pub(crate) fn take(text: &str, remote: bool) -> bool {
    if !remote && is_scrontab() {
        log::error!(
            "--{OPTION}: scrontab does not hand this to the job: give it to the script's srun, or export {ENVIRONMENT} in the \
             script"
        );
        return false;
    }
    match Words::parse(text) {
        // the user asked for the help and not for the job
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

/// True for scrontab, which reads `#SCRON --nic-placement` as sbatch would, and drops what plugins were told
/// (src/scrontab/scrontab.c, `_entry_to_job`): the word would be lost in silence, and `help` would end the edit.
fn is_scrontab() -> bool {
    let program = std::env::args_os().next();
    program.is_some_and(|path| program_name(&path.to_string_lossy()) == "scrontab")
}

/// Prints the help; the answer is the exit status.
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
        // also a reader that has read enough
        _ => 0,
    }
}

/// The words of the user's option.
pub(crate) fn value() -> Option<Words> {
    locked(&VALUE).clone()
}

pub(crate) fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On a node: the option's words, for all components of the job.
pub(crate) fn of_job(spank: &SpankHandle) -> Option<Words> {
    match variable(spank, components::OFF).as_deref() {
        Some("1") => Words::parse("off").ok(),
        _ => value(),
    }
}

/// The arguments of all lines of plugstack.conf that load this library: Slurm calls `init` for each of them, before any other
/// hook (src/common/spank.c, `spank_stack_load`).
static ARGUMENTS: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());

/// Notes the arguments of one line, but for those that test builds add.
pub(crate) fn note_arguments(spank: &SpankHandle) {
    // an unreadable line is an unknown argument, which places no step
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

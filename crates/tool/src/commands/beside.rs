//! Runs a program and does something beside it.

use super::exec::{become_as_it_is, not_started};
use super::{Failure, ending, tell};
use nic_placement_program::Signals;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitStatus;
use std::thread;

/// Runs the program: `before` first, `started` with its result while the program runs, and `ended` with the program's status. The
/// tool ends as the program, whatever of its own work fails.
pub(super) fn run<B, W>(
    command: &str,
    program: &[OsString],
    before: impl FnOnce() -> B,
    started: impl FnOnce(B, u32) -> W,
    ended: impl FnOnce(W, u8),
) -> Result<(), Failure> {
    // on a small stack (`ulimit -s`) another thread runs the tool, and the first one's signals are not held back
    let is_first_thread = thread::current().name() == Some("main");
    let Some(signals) = Signals::hold().ok().filter(|_| is_first_thread) else {
        tell(&format!(
            "{command}: signals cannot be held back, or the stack is too small: CMD runs alone"
        ));
        return Err(become_as_it_is(program));
    };
    let name = command.to_string();
    panic::set_hook(Box::new(move |panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        tell(&format!(
            "{name}: bug at {place}: {panic}; please report this"
        ));
    }));
    let before = guarded(before);
    let child = match signals.start(program) {
        Ok(child) => child,
        Err(error) if is_shortage(&error) => {
            tell(&format!(
                "{command}: no process can be started ({error}): CMD runs alone"
            ));
            signals.give_back();
            return Err(become_as_it_is(program));
        }
        Err(error) => return Err(not_started(program, &error)),
    };
    let watched = before.and_then(|before| guarded(|| started(before, child.id())));
    let status = signals
        .wait(child)
        .map_err(|error| format!("{command}: cannot wait for CMD: {error}"))?;
    let status = status_of(status);
    watched.and_then(|watched| guarded(|| ended(watched, status)));
    match status {
        0 => Ok(()),
        status => Err(ending(status, "")),
    }
}

/// A bug of the tool's costs the report alone; the panic hook has said it.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

/// True if the kernel grants no further process, or no descriptor to learn of its start.
fn is_shortage(error: &io::Error) -> bool {
    /// `EAGAIN`, `ENOMEM`, `ENFILE` and `EMFILE` of include/uapi/asm-generic/errno-base.h.
    const SHORTAGES: [i32; 4] = [11, 12, 23, 24];
    error
        .raw_os_error()
        .is_some_and(|number| SHORTAGES.contains(&number))
}

/// As in shells: 128 and more for a signal.
fn status_of(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map(|signal| 128 + signal);
    status
        .code()
        .or_else(by_signal)
        .and_then(|status| u8::try_from(status).ok())
        .unwrap_or(u8::MAX)
}

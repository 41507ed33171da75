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

/// Runs the program: `before` first, and `ended` with its result and the program's status. The tool ends as the program,
/// whatever of its own work fails.
pub(super) fn run<B>(
    program: &[OsString],
    before: impl FnOnce() -> B,
    ended: impl FnOnce(B, u8),
) -> Result<(), Failure> {
    let alone = |why: &str| {
        tell(&format!("verify: {why}: CMD runs alone"));
        Err(become_as_it_is(program))
    };
    // on a small stack (`ulimit -s`) another thread runs the tool, and the first one's signals are not held back
    let is_first_thread = thread::current().name() == Some("main");
    let Some(signals) = Signals::hold().ok().filter(|_| is_first_thread) else {
        return alone("signals cannot be held back, or the stack is too small");
    };
    panic::set_hook(Box::new(|panic| {
        tell(&format!("verify: a bug, please report it: {panic}"));
    }));
    let before = guarded(before);
    let child = match signals.start(program) {
        Ok(child) => child,
        Err(error) if is_shortage(&error) => {
            signals.give_back();
            return alone(&format!("no process can be started ({error})"));
        }
        Err(error) => return Err(not_started(program, &error)),
    };
    let status = signals
        .wait(child)
        .map_err(|error| format!("verify: cannot wait for CMD: {error}"))?;
    let status = status_of(status);
    before.and_then(|before| guarded(|| ended(before, status)));
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
    let number = error.raw_os_error();
    number.is_some_and(|number| SHORTAGES.contains(&number))
}

/// As in shells: 128 and more for a signal.
fn status_of(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    let status = status.code().or(signal);
    status.and_then(|of| of.try_into().ok()).unwrap_or(u8::MAX)
}

//! Threads for what may wait for hardware, where the machine or a limit lets this user have them.
#![forbid(unsafe_code)]

use super::tell;
use std::io;
use std::sync::Once;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// Starts a thread without joining it.  The kernel may refuse: the user's processes count as threads (`RLIMIT_NPROC`),
/// and so do a container's.
pub(super) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().spawn(work).map(drop)
}

/// As [`start`]; `false` without a thread, which is said once.
pub(super) fn started(work: impl FnOnce() + Send + 'static) -> bool {
    /// said once: one limit refuses all threads
    static SAID: Once = Once::new();
    match start(work) {
        Ok(()) => true,
        Err(error) => {
            SAID.call_once(|| {
                tell(&format!(
                    "note: no thread can be started ({error}): what one would read is left out"
                ));
            });
            false
        }
    }
}

/// The thread's answer, if one could be started.
pub(super) fn answer_of<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, answer) = channel();
    started(move || {
        // this fails where nothing waits for the answer any more
        let _ = sender.send(work());
    });
    answer
}

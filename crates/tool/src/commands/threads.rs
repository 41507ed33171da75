//! Threads that may wait for hardware.

use super::tell;
use std::io;
use std::sync::Once;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// The kernel may refuse: `RLIMIT_NPROC` bounds a user's processes and threads, and so does a container.
pub(super) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().spawn(work).map(drop)
}

/// As [`start`]; `false` without a thread, which is said once.
pub(super) fn started(work: impl FnOnce() + Send + 'static) -> bool {
    /// one limit refuses all threads
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

pub(super) fn answer_of<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, answer) = channel();
    started(move || {
        let _ = sender.send(work());
    });
    answer
}

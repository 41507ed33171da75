//! Threads that may wait for hardware.

use super::tell;
use std::sync::Once;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// `false` without a thread, said once: `RLIMIT_NPROC` and cgroups (`pids.max`) bound threads.
pub(super) fn started(work: impl FnOnce() + Send + 'static) -> bool {
    static SAID: Once = Once::new();
    let refused = thread::Builder::new().spawn(work).err();
    if let Some(error) = &refused {
        SAID.call_once(|| {
            tell(&format!(
                "note: no thread can be started ({error}): what one would read is left out"
            ));
        });
    }
    refused.is_none()
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

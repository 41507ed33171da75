//! Looks at the node again and again while a program runs: launchers start tasks late, and they end with it.

use super::look::Looks;
use crate::commands::threads;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks: often at first, when tasks start; later seldom, to take little of the tasks' CPU time.
pub(super) const PAUSES: [Duration; 4] = [
    Duration::from_millis(300),
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(60),
];
/// Time that the end waits for the last look.
const LAST_LOOK: Duration = Duration::from_secs(2);

type Look = Arc<dyn Fn() -> Looks + Send + Sync>;

pub(super) struct Watch {
    seen: Arc<Mutex<Looks>>,
    look: Look,
    /// the thread ends when this does
    _stop: Sender<()>,
}

impl Watch {
    pub(super) fn begin(look: Look) -> Watch {
        let (stop, stopped) = channel();
        let watch = Watch {
            seen: Arc::default(),
            look,
            _stop: stop,
        };
        let (seen, look) = (Arc::clone(&watch.seen), Arc::clone(&watch.look));
        threads::started(move || look_on(&seen, &look, &stopped));
        watch
    }

    /// All that was seen, also after the program's end: other tasks of the node may still be there.
    pub(super) fn end(self) -> Looks {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = std::mem::take(&mut *seen);
        let look = self.look;
        // by a thread: the memory of one of the processes may be locked
        let answer = threads::answer_of(move || look());
        if let Ok(now) = answer.recv_timeout(LAST_LOOK) {
            all.add(now);
        }
        all
    }
}

fn look_on(seen: &Mutex<Looks>, look: &Look, stopped: &Receiver<()>) {
    let last = PAUSES[PAUSES.len() - 1];
    for pause in PAUSES.into_iter().chain(std::iter::repeat(last)) {
        // outside of the lock, for which the end waits
        let now = look();
        seen.lock().unwrap_or_else(PoisonError::into_inner).add(now);
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

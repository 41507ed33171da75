//! Looks for placed tasks while the program runs: launchers start them late, and they end with it.
#![forbid(unsafe_code)]

use crate::commands::counters::Open;
use crate::commands::processes::Processes;
use crate::commands::threads;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks: often at first, when tasks start; later seldom, so that the looks take little of the tasks' CPU time.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];
/// How long the end waits for the last look.
const LAST_LOOK: Duration = Duration::from_secs(2);
pub(super) struct Watch {
    seen: Arc<Mutex<Processes>>,
    open: Open,
    /// the thread ends when this does
    _stop: Sender<()>,
}

impl Watch {
    pub(super) fn begin(open: &Open) -> Watch {
        let (stop, stopped) = channel();
        let seen = Arc::new(Mutex::new(Processes::default()));
        let watch = Watch { seen: Arc::clone(&seen), open: Arc::clone(open), _stop: stop };
        let open = Arc::clone(open);
        threads::started(move || look_on(&seen, &open, &stopped));
        watch
    }

    /// All that was seen, also now that the program has ended: other tasks of the node may still be there.
    pub(super) fn end(self) -> Processes {
        let mut all = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let open = self.open;
        // by a thread: the memory of one of the processes may be locked
        let answer = threads::answer_of(move || look(&open));
        answer.recv_timeout(LAST_LOOK).into_iter().for_each(|now| all.add(now));
        all
    }
}

fn look(open: &Open) -> Processes {
    open().map(|root| Processes::of(&root)).unwrap_or_default()
}

fn look_on(seen: &Mutex<Processes>, open: &Open, stopped: &Receiver<()>) {
    let last = PAUSES[PAUSES.len() - 1];
    for pause in PAUSES.into_iter().chain(std::iter::repeat(last)) {
        // not while others wait for what is known
        let now = look(open);
        seen.lock().unwrap_or_else(PoisonError::into_inner).add(now);
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

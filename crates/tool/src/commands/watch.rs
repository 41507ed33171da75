//! Looks at the node again and again while a program runs: launchers start tasks late, and they end with it.
#![forbid(unsafe_code)]

use super::threads;
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

/// What is seen at one look, and of several.
pub(super) trait Seen: Default + Send + 'static {
    fn add(&mut self, later: Self);
}

impl<A: Seen, B: Seen> Seen for (A, B) {
    fn add(&mut self, later: Self) {
        self.0.add(later.0);
        self.1.add(later.1);
    }
}

pub(super) type Look<S> = Arc<dyn Fn() -> S + Send + Sync>;

pub(super) struct Watch<S> {
    seen: Arc<Mutex<S>>,
    look: Look<S>,
    /// the thread ends when this does
    _stop: Sender<()>,
}

impl<S: Seen> Watch<S> {
    pub(super) fn begin(look: Look<S>) -> Watch<S> {
        let (stop, stopped) = channel();
        let seen = Arc::new(Mutex::new(S::default()));
        let watch = Watch {
            seen: Arc::clone(&seen),
            look: Arc::clone(&look),
            _stop: stop,
        };
        threads::started(move || look_on(&seen, &look, &stopped));
        watch
    }

    /// All that was seen, also after the program's end: other tasks of the node may still be there.
    pub(super) fn end(self) -> S {
        let mut all =
            std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let look = self.look;
        // by a thread: the memory of one of the processes may be locked
        let answer = threads::answer_of(move || look());
        answer
            .recv_timeout(LAST_LOOK)
            .into_iter()
            .for_each(|now| all.add(now));
        all
    }
}

fn look_on<S: Seen>(seen: &Mutex<S>, look: &Look<S>, stopped: &Receiver<()>) {
    let last = PAUSES[PAUSES.len() - 1];
    for pause in PAUSES.into_iter().chain(std::iter::repeat(last)) {
        // not while others wait for what is known
        let now = look();
        seen.lock().unwrap_or_else(PoisonError::into_inner).add(now);
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

//! Looks for placed tasks while the program runs: launchers start them late, and they end with it.
#![forbid(unsafe_code)]

use crate::commands::counters::Open;
use crate::commands::processes::walk;
use crate::commands::threads;
use nic_placement_traffic::tasks::{Marked, PlacedTask};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks: often at first, when tasks start; later seldom, so that the looks take little of the tasks' CPU time.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(60)];
/// How long the end waits for the last look.
const LAST_LOOK: Duration = Duration::from_secs(2);
/// Processes that are kept, at most.
const MAX_KEPT: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct Seen {
    processes: BTreeMap<(u32, Marked), Option<u32>>,
    /// users whose processes cannot be looked at
    pub(super) hidden: BTreeSet<u32>,
}

impl Seen {
    fn look(&mut self, open: &Open) {
        let Some(root) = open() else { return };
        let walked = walk(&root);
        self.hidden.extend(walked.hidden);
        for process in walked.placed {
            if self.processes.len() < MAX_KEPT {
                self.processes.insert((process.pid, process.marked), process.user);
            }
        }
    }

    pub(super) fn processes(&self) -> Vec<PlacedTask> {
        let process = |((pid, marked), user): (&(u32, Marked), &Option<u32>)| PlacedTask {
            pid: *pid,
            user: *user,
            processes: 1,
            marked: marked.clone(),
        };
        self.processes.iter().map(process).collect()
    }
}

pub(super) struct Watch {
    seen: Arc<Mutex<Seen>>,
    open: Open,
    /// the thread ends when this does
    _stop: Sender<()>,
}

impl Watch {
    pub(super) fn begin(open: &Open) -> Watch {
        let (stop, stopped) = channel();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let watch = Watch { seen: Arc::clone(&seen), open: Arc::clone(open), _stop: stop };
        let open = Arc::clone(open);
        threads::started(move || look_on(&seen, &open, &stopped));
        watch
    }

    /// All that was seen, also now that the program has ended: other tasks of the node may still be there.
    pub(super) fn end(self) -> Seen {
        let mut all = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let (told, answer) = channel();
        let open = self.open;
        // by a thread: the memory of one of the processes may be locked
        threads::started(move || {
            let mut now = Seen::default();
            now.look(&open);
            let _ = told.send(now);
        });
        if let Ok(now) = answer.recv_timeout(LAST_LOOK) {
            all.hidden.extend(now.hidden);
            all.processes.extend(now.processes);
        }
        all
    }
}

fn look_on(seen: &Mutex<Seen>, open: &Open, stopped: &Receiver<()>) {
    let last = PAUSES[PAUSES.len() - 1];
    for pause in PAUSES.into_iter().chain(std::iter::repeat(last)) {
        // not while others wait for what is known
        let mut now = Seen::default();
        now.look(open);
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.hidden.extend(now.hidden);
            seen.processes.extend(now.processes);
        }
        if stopped.recv_timeout(pause) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            return;
        }
    }
}

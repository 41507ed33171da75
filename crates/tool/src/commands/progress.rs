//! How far long work is, as one line on a terminal; nothing in a pipe.
#![forbid(unsafe_code)]

use super::page::shown;
use nic_placement_program::terminal_columns;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Shorter work shows nothing.
const FIRST: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_millis(200);

pub(super) struct Progress {
    next: Option<Instant>,
    is_shown: bool,
}

impl Default for Progress {
    fn default() -> Progress {
        let next = io::stderr().is_terminal().then(|| Instant::now() + FIRST);
        let is_shown = false;
        Progress { next, is_shown }
    }
}

impl Progress {
    /// Replaces the line, if it is time for it.
    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            self.next = Some(now + BETWEEN);
            self.is_shown = true;
            let columns = terminal_columns(io::stderr().as_fd()).unwrap_or(80);
            let line = shown(&line());
            write(
                &line
                    .chars()
                    .take(usize::from(columns) - 1)
                    .collect::<String>(),
            );
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            write("");
        }
    }
}

/// ECMA-48: to the first column, and erase to the end of the line.
fn write(line: &str) {
    let _ = write!(io::stderr(), "\r\x1b[K{line}");
}

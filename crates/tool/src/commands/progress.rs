//! Progress of long work, as one line on a terminal; nothing in a pipe.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter work shows nothing.
const FIRST: Duration = Duration::from_millis(500);
const BETWEEN: Duration = Duration::from_millis(200);

pub(super) struct Progress {
    /// `None` in a pipe
    next: Option<Instant>,
    is_shown: bool,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            next: io::stderr().is_terminal().then(|| Instant::now() + FIRST),
            is_shown: false,
        }
    }
}

impl Progress {
    /// Replaces the line by a short one of our own words, if it is time for it.
    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            (self.next, self.is_shown) = (Some(now + BETWEEN), true);
            replace_line(&line());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            replace_line("");
        }
    }
}

/// ECMA-48: to the first column, and erase to the end of the line.
fn replace_line(line: &str) {
    let _ = write!(io::stderr(), "\r\x1b[K{line}");
}

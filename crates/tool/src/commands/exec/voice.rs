//! What `exec` says: lines on stderr, since stdout is the program's.
#![forbid(unsafe_code)]

use log::{Level, LevelFilter, Log, Metadata, Record};
use nic_placement_core::diagnostic::line::one_line;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does this process tell what every process of its node would?
static TELLS: AtomicBool = AtomicBool::new(false);

struct ToStderr;

impl Log for ToStderr {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= Level::Warn && TELLS.load(Ordering::Relaxed)
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            say(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// A line, in one piece: several processes write to one terminal.
pub(super) fn say(text: &str) {
    let line = one_line(&format!("nic-placement: {text}")).into_owned() + "\n";
    // where stderr is closed the line is lost: there is no other place for it
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Lets warnings be heard, if `tells`.
pub(super) fn listen(tells: bool) {
    TELLS.store(tells, Ordering::Relaxed);
    if log::set_logger(&ToStderr).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

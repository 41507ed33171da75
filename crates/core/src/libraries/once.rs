//! A library's configuration file says several things that matter: it is opened once for all of them.
#![forbid(unsafe_code)]

use super::{FileText, ReadFile};
use std::cell::RefCell;

/// A reader that remembers what it has read.
pub(super) struct Once<'r> {
    read: ReadFile<'r>,
    /// the configuration files, by their paths
    known: RefCell<Vec<(String, Option<FileText>)>>,
}

impl<'r> Once<'r> {
    pub(super) fn new(read: ReadFile<'r>) -> Once<'r> {
        Once { read, known: RefCell::default() }
    }

    pub(super) fn read(&self, path: &str) -> Option<FileText> {
        // what the kernel tells is asked for once anyway, and there may be much of it
        if path.starts_with("/proc/") || path.starts_with("/sys/") {
            return (self.read)(path);
        }
        let known = self.known.borrow().iter().find(|(known, _)| known == path).map(|(_, text)| text.clone());
        known.unwrap_or_else(|| {
            let text = (self.read)(path);
            self.known.borrow_mut().push((path.to_string(), text.clone()));
            text
        })
    }
}

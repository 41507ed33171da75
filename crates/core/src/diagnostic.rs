//! What went wrong but did not stop us.
#![forbid(unsafe_code)]

pub mod line;

use std::fmt;

/// One finding: what, where, and what to do about it, in one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// the file, device or word that it is about
    pub place: String,
    /// what was found there
    pub finding: String,
}

impl Diagnostic {
    /// A finding about `place`.
    pub fn new(place: impl Into<String>, finding: impl Into<String>) -> Diagnostic {
        Diagnostic { place: place.into(), finding: finding.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.place, self.finding)
    }
}

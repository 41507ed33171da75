//! Reads other programs' descriptions of a node: hwloc's XML, NCCL's XML, and the matrix of `nvidia-smi topo
//! -m`.
//!
//! Pure: text in, topology out.  Every reader is bounded, returns one located error for a text it cannot
//! read, and reports in a diagnostic what it left out or repaired.
#![forbid(unsafe_code)]

pub mod hwloc;
pub mod nccl;
pub mod smi;
mod xml;

use nic_placement_core::diagnostic::Shown;
use std::fmt;

/// The most bytes of one file: the largest hwloc XML known, of a 1,792-CPU machine, has 2.5 MB.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Why we cannot read a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadImport {
    /// line, from 1; 0 for the text as a whole
    pub line: u32,
    /// what is wrong there, and what was expected
    pub problem: String,
}

impl BadImport {
    /// An error at a line; 0 for the text as a whole.
    pub fn new(line: u32, problem: impl Into<String>) -> BadImport {
        BadImport { line, problem: problem.into() }
    }
}

impl fmt::Display for BadImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.problem),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

impl std::error::Error for BadImport {}

/// Text from a file as a message may show it: short, and without characters that move a terminal's cursor.
fn shown(text: &str) -> Shown<'_> {
    Shown::word(text, 60)
}

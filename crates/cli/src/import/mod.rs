//! Reads what other programs write about a node: hwloc's XML, NCCL's XML, and the matrix of `nvidia-smi topo -m`.
//!
//! Pure: text in, topology out.  Every reader is bounded, answers what it cannot read with one located error, and names in
//! a diagnostic what it had to leave out or repair.
#![forbid(unsafe_code)]

pub mod hwloc;
pub mod nccl;
pub mod smi;
mod xml;

use nic_placement_core::diagnostic::Shown;
use std::fmt;

/// Bytes of one file, at most: the largest hwloc XML known, of a 1,792-CPU machine, has 2.5 MB.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Why a text is not what it should be.
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

/// A foreign text as a message may show it: short, and without what would move a terminal's cursor.
fn shown(text: &str) -> Shown<'_> {
    Shown::word(text, 60)
}

//! The answer of an audit as versioned JSON, for programs.
#![forbid(unsafe_code)]

use super::kinds::Audited;
use serde::Serialize;

/// Grows by one when a field changes its meaning or is removed, not with new fields.
const VERSION: u32 = 1;

/// A piece of the input that is no report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bad {
    /// the file's name, `-` for standard input
    pub input: String,
    /// the line where it begins, from 1; `null` where the file cannot be read
    pub line: Option<u64>,
    pub why: String,
}

#[derive(Serialize)]
struct File<'a> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    audited: &'a Audited,
    /// how many pieces of the input are no reports; `bad` has the first of them
    bad_count: usize,
    bad: &'a [Bad],
}

pub fn write(audited: &Audited, bad_count: usize, bad: &[Bad]) -> String {
    let file = File { format: "nic-placement audit", version: VERSION, audited, bad_count, bad };
    // JSON can hold all of these structures
    serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
}

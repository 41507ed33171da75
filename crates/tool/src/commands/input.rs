//! Files that a command line names, of any length, or standard input.
#![forbid(unsafe_code)]

use super::Failure;
use nic_placement_core::discover::root;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

/// The files that the command line names, or standard input.
pub(super) fn or_stdin(files: &[PathBuf]) -> Vec<&Path> {
    if files.is_empty() { vec![Path::new("-")] } else { files.iter().map(PathBuf::as_path).collect() }
}

/// A file, or standard input for `-`.
pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    Ok(match path == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(io::BufReader::new(root::open_long(path)?)),
    })
}

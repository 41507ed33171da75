//! Files that a command line names, of any length, or standard input.

use super::{Failure, tell};
use nic_placement_fleet::audit::stream::{self, StreamPiece};
use nic_placement_node::discover::root;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};

pub(super) fn or_stdin(files: &[PathBuf]) -> Vec<&Path> {
    if files.is_empty() {
        vec![Path::new("-")]
    } else {
        files.iter().map(PathBuf::as_path).collect()
    }
}

pub(super) fn open(path: &Path) -> Result<Box<dyn BufRead>, Failure> {
    Ok(match path == Path::new("-") {
        true => {
            if io::stdin().is_terminal() {
                tell("reads what you type or paste here, until Ctrl-D");
            }
            Box::new(io::stdin().lock())
        }
        false => Box::new(io::BufReader::new(root::open_long(path)?)),
    })
}

/// Each JSON document of a file, with its first line.
pub(super) fn documents(path: &Path, take: &mut dyn FnMut(StreamPiece<'_>)) -> Result<(), Failure> {
    let read = stream::read(open(path)?, take);
    Ok(read.map_err(|error| format!("`{}`: cannot be read: {error}", path.display()))?)
}

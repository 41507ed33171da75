//! Where `-o` puts a report: a file, or a folder with a file for each node.
#![forbid(unsafe_code)]

use super::output;
use nic_placement_core::discover::root;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Asks before CMD starts, while there is time to say it and nothing to lose.
pub(super) fn check(output: &Path, json: bool) -> Result<(), String> {
    output::could_write(&file(output, "", json)?)
}

/// In a folder a file for each node.
pub(super) fn file(output: &Path, node: &str, json: bool) -> Result<PathBuf, String> {
    if output.as_os_str().as_bytes().ends_with(b"/") {
        make(output)?;
    }
    if !output.is_dir() {
        return Ok(output.to_path_buf());
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let name: String = node.chars().map(|letter| if is_part(letter) { letter } else { '_' }).collect();
    let name = name.trim_start_matches('.');
    Ok(output.join(format!(
        "{}.{}",
        if name.is_empty() { "node" } else { name },
        if json { "json" } else { "txt" }
    )))
}

/// All nodes of a step make it at once: that another node has made it already is no error.
fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| {
        let shown = folder.display();
        // without the slash at its end, by which a link would be followed
        let there = fs::symlink_metadata(folder.components().as_path());
        match there {
            Ok(there) if error.kind() == io::ErrorKind::AlreadyExists => {
                format!("cannot make the folder `{shown}`: {} is there", root::kind(there.file_type()))
            }
            _ => format!("cannot make the folder `{shown}`: {error}"),
        }
    })
}

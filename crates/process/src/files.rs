//! Reads the files that libraries read, for what decides about their variables: a site's as root, a user's in the task.
#![forbid(unsafe_code)]

use nic_placement_core::discover::root::{Beginning, Root, read_configuration};
use nic_placement_core::render::FileText;
use std::path::Path;

/// Tables of the kernel's, which grow with the node.
const TABLES: &str = "/proc/net/";
/// What the kernel tells of interfaces.
const INTERFACES: &str = "/sys/class/net/";

/// A file's text, or the beginning of it, with the rights that this process has.
pub fn read(path: &str) -> Option<FileText> {
    let limit = if path.starts_with(TABLES) { Root::MAX_TABLE } else { Root::MAX_FILE };
    let Beginning { text, is_cut } = read_configuration(Path::new(path), limit)?;
    Some(FileText { text, is_cut })
}

/// Is it what the kernel tells of interfaces, which no user and no site writes?
pub fn is_kernels(path: &str) -> bool {
    [TABLES, INTERFACES].iter().any(|top| path.starts_with(top))
}

//! Reads the node file if it is current.

use super::cache::{self, NodeFile};
use crate::discover::registered::{complete, difference, follow_links, links, registered};
use crate::discover::root::{Author, Root, Unreadable, read_unlinked};
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::{Provenance, Topology};
use std::fmt;
use std::path::Path;

#[derive(Debug)]
pub struct Kept {
    /// the file's topology with current links, MIG instances and UUIDs
    pub topology: Topology,
    /// seconds since the file was written
    pub age: u64,
    /// links lost since the file was written
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Debug)]
pub enum NotUsed {
    /// path of the missing file
    Absent(String),
    Unreadable(Unreadable),
    Bad(cache::BadNodeFile),
    /// another `boot_id`
    OtherBoot,
    /// age in seconds, and the allowed age
    TooOld(u64, u64),
    /// seconds by which the file's time is ahead
    Early(u64),
    /// the first device or link that differs
    Changed(String),
}

impl NotUsed {
    /// True if no file exists, as on nodes without `refresh`: no reason to warn.
    pub fn is_absent(&self) -> bool {
        matches!(self, NotUsed::Absent(_))
    }
}

impl fmt::Display for NotUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotUsed::Absent(path) => write!(f, "there is no node file `{path}`"),
            NotUsed::Unreadable(unreadable) => write!(f, "the node file: {unreadable}"),
            NotUsed::Bad(bad) => write!(f, "the node file cannot be read: {bad}"),
            NotUsed::OtherBoot => f.write_str(
                "the node file was written before this system was started, or by another",
            ),
            NotUsed::TooOld(age, most) => write!(
                f,
                "the node file is {age} s old, and {most} s may be: a refresh that hangs?"
            ),
            NotUsed::Early(ahead) => {
                write!(
                    f,
                    "the node file says that it was written {ahead} s from now"
                )
            }
            NotUsed::Changed(what) => write!(f, "the node is not as the node file says: {what}"),
        }
    }
}

impl std::error::Error for NotUsed {}

pub const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// Reads the node file at `path`. The file must be of this boot, at most `max_age` seconds old at
/// `boottime`, and list the devices that are registered now.
///
/// No read waits for a device: the kernel answers from memory. No file below
/// `/sys/class/infiniband/*/ports` is read.
pub fn read(path: &Path, max_age: u64, author: Author, boottime: u64) -> Result<Kept, NotUsed> {
    let bytes = read_unlinked(path, cache::MAX_BYTES, author).map_err(|bad| {
        match bad.problem.is_absent() {
            true => NotUsed::Absent(bad.path),
            false => NotUsed::Unreadable(bad),
        }
    })?;
    let node = cache::from_bytes(&bytes, Provenance::ThisSystem).map_err(NotUsed::Bad)?;
    settle(&Root::live(), node, max_age, boottime)
}

/// Checks that a node file is current; updates links, MIG instances and UUIDs.
pub fn settle(root: &Root, node: NodeFile, max_age: u64, boottime: u64) -> Result<Kept, NotUsed> {
    let NodeFile {
        stamp,
        registered: then,
        links: links_then,
        mut topology,
    } = node;
    if root.read(BOOT_ID).as_ref() != Some(&stamp.boot_id) {
        return Err(NotUsed::OtherBoot);
    }
    let Some(age) = boottime.checked_sub(stamp.boottime) else {
        return Err(NotUsed::Early(stamp.boottime - boottime));
    };
    if age > max_age {
        return Err(NotUsed::TooOld(age, max_age));
    }
    if let Some(what) = difference(&then, &registered(root)) {
        return Err(NotUsed::Changed(what));
    }
    let links_now = links(root, &topology);
    let lost = follow_links(&mut topology, &links_then, &links_now).map_err(NotUsed::Changed)?;
    complete(root, &mut topology);
    let since = |what| Diagnostic::new(&*stamp.time, format!("since then: {what}"));
    Ok(Kept {
        topology,
        age,
        diagnostics: lost.into_iter().map(since).collect(),
    })
}

#[cfg(test)]
mod tests;

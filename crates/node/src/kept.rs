//! Decides whether the node file tells this node as it is now, and makes one.
#![forbid(unsafe_code)]

use super::cache::{self, NodeFile, Stamp};
use super::read_root;
use crate::discover::Scope;
use crate::discover::registered::{complete, difference, follow_links, links, registered};
use crate::discover::root::{Author, Obstacle, Root, Unreadable, read_unlinked};
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::{Provenance, Topology, file};
use std::fmt;
use std::path::Path;

#[derive(Debug)]
pub struct Kept {
    /// with changes since then that are known without asking hardware
    pub topology: Topology,
    /// seconds since it was read
    pub age: u64,
    /// links that were lost since
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Debug)]
pub enum NotUsed {
    Absent(String),
    /// the file is not trusted, or cannot be read
    Unreadable(Unreadable),
    Bad(cache::BadNodeFile),
    /// written before this system was started
    OtherBoot,
    /// age in seconds, and the most that is allowed
    TooOld(u64, u64),
    /// seconds by which its time of writing is in the future
    Early(u64),
    /// a device came or went
    Changed(String),
}

impl NotUsed {
    /// True without a file: an admin that never had one written needs no message.
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
            NotUsed::OtherBoot => {
                write!(
                    f,
                    "the node file was written before this system was started, or by another"
                )
            }
            NotUsed::TooOld(age, most) => {
                write!(
                    f,
                    "the node file is {age} s old, and {most} s may be: a refresh that hangs?"
                )
            }
            NotUsed::Early(ahead) => write!(
                f,
                "the node file says that it was written {ahead} s from now"
            ),
            NotUsed::Changed(what) => write!(f, "the node is not as the node file says: {what}"),
        }
    }
}

impl std::error::Error for NotUsed {}

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// Reads the node file at `path`, and uses it if it is of this boot, of these devices and no older than `max_age`
/// seconds by the clock `boottime`.
///
/// Of the node it reads only facts that the kernel has in memory, so it never waits for a device: no file below
/// `/sys/class/infiniband/*/ports`.
pub fn read(path: &Path, max_age: u64, author: Author, boottime: u64) -> Result<Kept, NotUsed> {
    let bytes =
        read_unlinked(path, cache::MAX_BYTES, author).map_err(|unreadable| {
            match unreadable.problem {
                Obstacle::System(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    NotUsed::Absent(unreadable.path)
                }
                problem => NotUsed::Unreadable(Unreadable {
                    problem,
                    ..unreadable
                }),
            }
        })?;
    let node = cache::from_bytes(&bytes, Provenance::ThisSystem).map_err(NotUsed::Bad)?;
    settle(&Root::live(), node, max_age, boottime)
}

/// The node of a file, brought up to date.
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
    let since = |what| Diagnostic::new(stamp.time.clone(), format!("since then: {what}"));
    Ok(Kept {
        topology,
        age,
        diagnostics: lost.into_iter().map(since).collect(),
    })
}

/// Reads all of the node for a node file, with findings.  It is an error if devices came or went meanwhile, or if the
/// file would be read as another topology.
pub fn make(
    root: &Root,
    boottime: u64,
    time: String,
) -> Result<(NodeFile, Vec<Diagnostic>), String> {
    let boot_id = root
        .read(BOOT_ID)
        .ok_or_else(|| format!("cannot read `/{BOOT_ID}`"))?;
    let before = registered(root);
    let (topology, diagnostics) = read_root(root, Scope::Full, Provenance::ThisSystem);
    let links = links(root, &topology);
    if let Some(what) = difference(&before, &registered(root)) {
        return Err(format!("the node changed while it was read: {what}"));
    }
    let stamp = Stamp {
        boot_id,
        boottime,
        time,
    };
    let again = file::from_json(&file::to_json(&topology), Provenance::ThisSystem);
    // a topology file does not say which model supplied what
    match again.map(|again| Topology {
        supplied_by: topology.supplied_by.clone(),
        ..again
    }) {
        Ok(again) if again == topology => Ok((
            NodeFile {
                stamp,
                registered: before,
                links,
                topology,
            },
            diagnostics,
        )),
        Ok(_) => {
            Err("the node's topology is not consistent: a file would not give it back".to_string())
        }
        Err(bad) => Err(format!("the node's topology is not consistent: {bad}")),
    }
}

#[cfg(test)]
mod tests;

//! Reads a tar of another machine's `/sys` and `/proc`, from `hwloc-gather-topology` or plain tar(1), into a manifest.

use crate::manifest::BadText;
use nic_placement_core::diagnostic::Shown;
use nic_placement_node::discover::Root;
use nic_placement_node::discover::manifest::{Entry, Manifest, normalise};
use std::io::Read;
use tar::{Archive, EntryType};

/// The most entries: a full `/sys` of a large node has some 300,000.
const MAX_ENTRIES: usize = 1_000_000;

/// True for POSIX and GNU archives, which are marked at byte 257.
pub(crate) fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// Without devices, binary and long files, links that leave the tree, and names that are not
/// UTF-8.
pub fn read(bytes: &[u8]) -> Result<Manifest, BadText> {
    // the problem may quote the archive
    let bad = |problem: String| BadText::new(0, Shown::message(&problem, 400).to_string());
    let mut manifest = Manifest::default();
    let mut archive = Archive::new(bytes);
    let entries = archive
        .entries()
        .map_err(|error| bad(format!("not a tar: {error}")))?;
    for (count, entry) in entries.enumerate() {
        if count >= MAX_ENTRIES {
            return Err(bad(format!("more than {MAX_ENTRIES} entries")));
        }
        let mut entry = entry.map_err(|error| bad(format!("entry {}: {error}", count + 1)))?;
        let Some(path) = entry
            .path()
            .ok()
            .and_then(|path| below_root(path.to_str()?))
        else {
            continue;
        };
        let found = match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => {
                let mut text = Vec::new();
                let limit = Root::MAX_FILE as u64 + 1;
                entry
                    .by_ref()
                    .take(limit)
                    .read_to_end(&mut text)
                    .map_err(|error| bad(format!("`{path}`: {error}")))?;
                match String::from_utf8(text) {
                    Ok(text) if text.len() <= Root::MAX_FILE && !text.contains('\0') => {
                        Entry::File(text.trim_end().to_string())
                    }
                    _ => continue,
                }
            }
            EntryType::Symlink => {
                let target = entry.link_name().ok().flatten();
                match target.and_then(|target| target.to_str().map(str::to_string)) {
                    Some(target) if normalise(&path, &target).is_some() => Entry::Link(target),
                    _ => continue,
                }
            }
            EntryType::Directory => Entry::Directory,
            _ => continue,
        };
        manifest.insert(&path, found);
    }
    if manifest.iter().next().is_none() {
        return Err(bad("a tar without `sys/` and `proc/`".to_string()));
    }
    Ok(manifest)
}

/// `some-machine/sys/class/net` -> `sys/class/net`; `None` for a path outside a captured tree.
fn below_root(path: &str) -> Option<String> {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return None;
    }
    let parts: Vec<&str> = path.split('/').collect();
    let root = parts
        .iter()
        .position(|part| matches!(*part, "sys" | "proc"))?;
    (parts.len() > root + 1).then(|| parts[root..].join("/"))
}

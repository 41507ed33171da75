//! A captured machine in memory.

use nic_placement_topology::order::Order;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// text without white space at its end
    File(String),
    Link(String),
    /// a directory, or a listed name of unknown kind
    Directory,
}

/// Files, links and directories below `/sys` and `/proc`, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    pub entries: BTreeMap<String, Entry>,
}

impl Manifest {
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// True if `path` is a link or below one.
    pub(crate) fn is_over_link(&self, path: &str) -> bool {
        let mut above = path
            .match_indices('/')
            .map(|(at, _)| &path[..at])
            .chain([path]);
        above.any(|path| matches!(self.get(path), Some(Entry::Link(_))))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        let entries = self.entries.iter();
        entries.map(|(path, entry)| (path.as_str(), entry))
    }

    pub fn insert(&mut self, path: &str, entry: Entry) {
        if entry != Entry::Directory || !self.entries.contains_key(path) {
            self.entries.insert(path.to_string(), entry);
        }
    }

    pub fn list(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        let mut names: Vec<String> = Vec::new();
        for (path, _) in self.entries.range(prefix.clone()..) {
            let Some(rest) = path.strip_prefix(&prefix) else {
                break;
            };
            let name = rest.split('/').next().unwrap_or_default();
            if names.last().map(String::as_str) != Some(name) {
                names.push(name.to_string());
            }
        }
        // in path order `a-b` comes between `a` and `a/c`
        names.order();
        names.dedup();
        names
    }
}

/// The target of the link at `path`, as a path below the root; `None` if `..` leaves the root.
pub fn normalise(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts = path.split('/').collect();
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Unit tests use crates/formats' code for a manifest's text.
#[cfg(test)]
#[path = "../../../formats/src/manifest.rs"]
mod text;
#[cfg(test)]
impl Manifest {
    pub(crate) fn parse(text: &str) -> Result<Manifest, text::BadText> {
        text::parse(text)
    }
}
#[cfg(test)]
impl std::fmt::Display for Manifest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text::text(self))
    }
}

//! A captured machine in memory: what was read below `/sys` and `/proc`.
#![forbid(unsafe_code)]

use nic_placement_topology::order::Order;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// without the white space at its end
    File(String),
    /// the target
    Link(String),
    /// a directory of which only the name is known
    Directory,
}

/// A captured machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    pub entries: BTreeMap<String, Entry>,
}

impl Manifest {
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// True for a link, and for a path below one.
    pub(crate) fn is_over_link(&self, path: &str) -> bool {
        let above = path.match_indices('/').map(|(at, _)| &path[..at]);
        above
            .chain([path])
            .any(|path| matches!(self.get(path), Some(Entry::Link(_))))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries
            .iter()
            .map(|(path, entry)| (path.as_str(), entry))
    }

    /// Adds an entry; a directory's bare name never replaces what is known better.
    pub fn insert(&mut self, path: &str, entry: Entry) {
        match entry {
            Entry::Directory => {
                self.entries
                    .entry(path.to_string())
                    .or_insert(Entry::Directory);
            }
            known => {
                self.entries.insert(path.to_string(), known);
            }
        }
    }

    pub fn list(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        let mut names: Vec<String> = Vec::new();
        let below = self
            .entries
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix));
        for (path, _) in below {
            let name = path[prefix.len()..].split('/').next().unwrap_or_default();
            if names.last().map(String::as_str) != Some(name) {
                names.push(name.to_string());
            }
        }
        // `a`, `a-b`, `a/c` is path order, so one name can come twice
        names.order();
        names.dedup();
        names
    }

    /// The first path below a folder, however far.
    pub fn first_below(&self, path: &str) -> Option<&str> {
        let prefix = format!("{path}/");
        let (first, _) = self.entries.range(prefix.clone()..).next()?;
        first.starts_with(&prefix).then_some(first.as_str())
    }
}

/// The path below the root to which a link at `path` with this target leads; `None` if it leaves the root.
pub fn normalise(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => path.split('/').collect::<Vec<_>>()[..]
            .split_last()?
            .1
            .to_vec(),
    };
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

/// The unit tests share the text of a manifest with crates/formats.
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

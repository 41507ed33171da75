//! The source files of the workspace: the crate and module of each, and whether only tests see it.

use crate::source::{tokens, without_tests};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// `(crate, its source folder, how other crates call it)`
pub const CRATES: [(&str, &str, &str); 13] = [
    ("plugin", "src", "nic_placement"),
    ("topology", "crates/topology/src", "nic_placement_topology"),
    ("node", "crates/node/src", "nic_placement_node"),
    ("core", "crates/core/src", "nic_placement_core"),
    ("sys", "crates/sys/src", "nic_placement_sys"),
    ("process", "crates/process/src", "nic_placement_process"),
    ("program", "crates/sys/program/src", "nic_placement_program"),
    ("launch", "crates/launch/src", "nic_placement_launch"),
    ("formats", "crates/formats/src", "nic_placement_formats"),
    ("fleet", "crates/fleet/src", "nic_placement_fleet"),
    ("traffic", "crates/traffic/src", "nic_placement_traffic"),
    ("tool", "crates/tool/src", "nic_placement_cli"),
    ("capi", "crates/capi/src", "nic_placement_capi"),
];

/// A source file.
pub struct Source {
    /// its path from the repository
    pub file: String,
    /// the source folder of its crate, written likewise
    pub folder: String,
    pub text: String,
}

impl Source {
    pub fn new(file: &str, text: &str) -> Source {
        let folder = CRATES.iter().map(|(_, folder, _)| *folder);
        let folder = folder
            .filter(|folder| file.starts_with(&format!("{folder}/")))
            .max_by_key(|f| f.len());
        Source {
            file: file.into(),
            folder: folder.expect("a file of one of the crates").into(),
            text: text.into(),
        }
    }

    /// `["topology", "file"]` for `…/topology/file.rs` and `…/topology/file/mod.rs`; empty for the crate's root.
    pub fn module(&self) -> Vec<&str> {
        let path = self.file[self.folder.len()..]
            .trim_start_matches('/')
            .trim_end_matches(".rs");
        let mut segments: Vec<_> = path.split('/').collect();
        if segments.last() == Some(&"mod") || ["lib", "main"].contains(&path) {
            segments.pop();
        }
        segments
    }

    /// The crate's name in `CRATES`.
    pub fn crate_name(&self) -> &'static str {
        CRATES
            .iter()
            .find(|(_, folder, _)| *folder == self.folder)
            .map_or("", |(name, _, _)| name)
    }
}

/// All files of a crate whose source folder is `root/folder`.
pub fn read(root: &Path, folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    read_below(&root.join(folder), folder, folder, &mut found);
    found
}

fn read_below(path: &Path, name: &str, folder: &str, found: &mut Vec<Source>) {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut entries: Vec<_> = entries
        .map(|entry| entry.expect("a folder's entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let file = format!(
            "{name}/{}",
            path.file_name().unwrap_or_default().to_string_lossy()
        );
        if path.is_dir() {
            read_below(&path, &file, folder, found);
        } else if file.ends_with(".rs") {
            let text = fs::read_to_string(&path).expect("source is UTF-8");
            found.push(Source {
                file,
                folder: folder.to_string(),
                text,
            });
        }
    }
}

/// The files of modules that are declared under `#[cfg(test)]`, and those below them.
pub fn test_files(sources: &[Source]) -> BTreeSet<String> {
    let mut modules: BTreeSet<(&str, Vec<&str>)> = BTreeSet::new();
    for source in sources {
        let declared = without_tests(&tokens(&source.text)).1;
        modules.extend(
            declared
                .into_iter()
                .map(|name| (&*source.folder, [&source.module()[..], &[name]].concat())),
        );
    }
    let is_test = |source: &&Source| {
        let module = source.module();
        (0..=module.len())
            .any(|length| modules.contains(&(&*source.folder, module[..length].to_vec())))
    };
    sources
        .iter()
        .filter(is_test)
        .map(|source| source.file.clone())
        .collect()
}

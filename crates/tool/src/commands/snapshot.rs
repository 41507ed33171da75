//! `nic-placement snapshot`: records exactly what discovery read, and unpacks such a record.

use super::Failure;
use super::page::Page;
use clap::ValueHint;
use nic_placement_core::config::NodeSource;
use nic_placement_core::topology::Provenance;
use nic_placement_fleet::gather;
use nic_placement_formats::{describe, manifest};
use nic_placement_node::discover::manifest::Entry;
use nic_placement_node::discover::root::{self, Author};
use nic_placement_node::discover::{Manifest, Scope, described, discover};
use nic_placement_node::dmi;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// record the node as a text that tests and other machines can read
///
/// It holds all that was read of the node, also the GPUs' UUIDs and the names and addresses of devices.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement snapshot > node.machine
  nic-placement snapshot --unpack node.machine directory")]
pub(super) struct SnapshotOptions {
    /// a directory or tar with sys/ and proc/ in it, or a snapshot, instead of this node
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    topology: Option<String>,
    /// write a snapshot's files below DIR, which must not hold sys or proc yet
    #[arg(long, num_args = 2, value_names = ["FILE", "DIR"], value_hint = ValueHint::AnyPath)]
    #[arg(conflicts_with = "topology", help_heading = "Instead of recording")]
    unpack: Option<Vec<PathBuf>>,
}

pub(super) fn run(options: &SnapshotOptions, page: &mut Page) -> Result<(), Failure> {
    match options.unpack.as_deref() {
        Some([file, directory]) => unpack(file, directory),
        _ => {
            page.exact(&manifest::text(&recorded(options.topology.as_deref())?));
            Ok(())
        }
    }
}

fn recorded(file: Option<&str>) -> Result<Manifest, Failure> {
    let source = file.map_or(NodeSource::Live, |file| NodeSource::Topology(file.into()));
    // an unreadable file has its own error
    describe::read_node(&source, Scope::Full)?;
    let mut root = describe::root_of(&source).ok_or_else(|| {
        let file = file.unwrap_or_default();
        format!("`{file}`: expected a directory or tar with sys/ and proc/ in it, or a snapshot")
    })?;
    root.record();
    let (mut topology, mut diagnostics) = discover(&root, Scope::Full, Provenance::ThisSystem);
    dmi(&root);
    described::read(&root, &mut topology, &mut diagnostics);
    // what `check` judges, so that it says of the snapshot what it says of the node
    gather::facts(&root, &topology);
    Ok(root.recorded())
}

fn unpack(file: &Path, directory: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let bytes = root::read_file(file, manifest::MAX_BYTES, Author::Anyone);
    let bytes = bytes.map_err(|unreadable| unreadable.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not UTF-8"))?;
    let manifest = manifest::parse(&text).map_err(|bad| format!("`{shown}`: {bad}"))?;
    Ok(lay_out(&manifest, directory)?)
}

/// Writes every entry below `directory`, which must not hold one of them: nothing is overwritten or followed.
pub fn lay_out(manifest: &Manifest, directory: &Path) -> Result<(), String> {
    for top in ["sys", "proc"] {
        let top = directory.join(top);
        if top.symlink_metadata().is_ok() {
            let top = top.display();
            return Err(format!(
                "`{top}` is there already: unpack into an empty directory"
            ));
        }
    }
    for (path, entry) in manifest.iter() {
        let at = directory.join(path);
        let folder = match entry {
            Entry::Directory => at.as_path(),
            _ => at.parent().unwrap_or(directory),
        };
        let written = fs::create_dir_all(folder).and_then(|()| match entry {
            Entry::Directory => Ok(()),
            Entry::File(text) => fs::write(&at, format!("{text}\n")),
            Entry::Link(target) => symlink(target, &at),
        });
        written.map_err(|error| {
            let (at, below) = (at.display(), directory.display());
            format!("cannot write `{at}`: {error}; what is left of `sys` and `proc` in `{below}` is not whole: remove it")
        })?;
    }
    Ok(())
}

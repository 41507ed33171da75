//! `nic-placement snapshot`: records exactly what discovery read, and unpacks such a record.
#![forbid(unsafe_code)]

use super::{Failure, Node};
use nic_placement_core::config::NodeSource;
use nic_placement_core::discover::manifest::Entry;
use nic_placement_core::discover::synthesise::synthesise;
use nic_placement_core::discover::{Manifest, Root, Scope, discover, root};
use nic_placement_core::node::dmi;
use nic_placement_core::topology::Provenance;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) fn run(mut arguments: lexopt::Parser, output: &mut Vec<u8>) -> Result<(), Failure> {
    use lexopt::prelude::*;
    let mut node = Node::default();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("machine") => node.take("machine", arguments.value()?.string()?)?,
            Long("topology") => node.take("topology", arguments.value()?.string()?)?,
            Long("unpack") => {
                let file = PathBuf::from(arguments.value()?);
                let directory = PathBuf::from(arguments.value()?);
                return unpack(&file, &directory);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(write!(output, "{}", manifest(&node)?)?)
}

/// A live node or a captured tree is recorded as it is; a model or a topology file is written as the tree that would show
/// it.
fn manifest(node: &Node) -> Result<Manifest, Failure> {
    let mut root = match &node.source {
        NodeSource::Live => Root::live(),
        NodeSource::Topology(path) if Path::new(path).is_dir() => {
            Root::directory(Path::new(path)).map_err(|error| format!("cannot read `{path}`: {error}"))?
        }
        NodeSource::Machine(_) | NodeSource::Topology(_) | NodeSource::Sysfs(_) => {
            return Ok(synthesise(&node.read()?.0));
        }
    };
    root.record();
    discover(&root, Scope::Full, Provenance::ThisSystem);
    dmi(&root);
    Ok(root.recorded())
}

fn unpack(file: &Path, directory: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let bytes = root::read_file(file, Manifest::MAX_BYTES);
    let bytes = bytes.map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("`{shown}` is not UTF-8"))?;
    let manifest = Manifest::parse(&text).map_err(|bad| format!("`{shown}`: {bad}"))?;
    Ok(lay_out(&manifest, directory)?)
}

/// Writes every entry below `directory`, which must not hold one of them yet: nothing is overwritten or followed.
pub fn lay_out(manifest: &Manifest, directory: &Path) -> Result<(), String> {
    for top in ["sys", "proc"] {
        if directory.join(top).symlink_metadata().is_ok() {
            return Err(format!(
                "`{}` is there already: unpack into an empty directory",
                directory.join(top).display()
            ));
        }
    }
    for (path, entry) in manifest.iter() {
        let at = directory.join(path);
        let written = match entry {
            Entry::Directory => fs::create_dir_all(&at),
            Entry::File(text) => create_parent(&at).and_then(|()| fs::write(&at, format!("{text}\n"))),
            Entry::Link(target) => create_parent(&at).and_then(|()| std::os::unix::fs::symlink(target, &at)),
        };
        written.map_err(|error| format!("cannot write `{}`: {error}", at.display()))?;
    }
    Ok(())
}

fn create_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

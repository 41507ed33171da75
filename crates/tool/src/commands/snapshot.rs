//! `nic-placement snapshot`: records exactly what discovery read, and unpacks such a record.

use super::page::Page;
use super::request::NodeOptions;
use super::{Failure, tell};
use clap::ValueHint;
use nic_placement_core::config::NodeSource;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{Nic, NicKind, PortState, Provenance, Topology};
use nic_placement_fleet::gather;
use nic_placement_formats::manifest;
use nic_placement_formats::synthesise::synthesise;
use nic_placement_node::discover::manifest::Entry;
use nic_placement_node::discover::root::{self, Author};
use nic_placement_node::discover::{Manifest, Root, Scope, described, discover};
use nic_placement_node::{dmi, read_root};
use std::fs;
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
    #[command(flatten)]
    node: NodeOptions,
    /// write a snapshot's files below DIR, which must not hold sys or proc yet
    #[arg(long, num_args = 2, value_names = ["FILE", "DIR"], value_hint = ValueHint::AnyPath)]
    #[arg(conflicts_with_all = ["machine", "topology"], help_heading = "Instead of recording")]
    unpack: Option<Vec<PathBuf>>,
}

pub(super) fn run(options: &SnapshotOptions, page: &mut Page) -> Result<(), Failure> {
    match options.unpack.as_deref() {
        Some([file, directory]) => unpack(file, directory),
        _ => {
            page.exact(&manifest::text(&recorded(&options.node)?));
            Ok(())
        }
    }
}

/// Records a live node or a captured tree as it is; a model or a topology file as the tree that would show it.
fn recorded(node: &NodeOptions) -> Result<Manifest, Failure> {
    let mut root = match &node.source() {
        NodeSource::Live => Root::live(),
        NodeSource::Topology(path) if Path::new(path).is_dir() => {
            Root::directory(Path::new(path), Author::Anyone)
                .map_err(|unreadable| unreadable.to_string())?
        }
        NodeSource::Machine(_) | NodeSource::Topology(_) | NodeSource::Sysfs(_) => {
            let (topology, _) = node.read()?;
            let manifest = synthesise(&topology);
            lost(&topology, &manifest)
                .iter()
                .for_each(|lost| tell(&format!("note: {lost}")));
            return Ok(manifest);
        }
    };
    root.record();
    let (mut topology, mut diagnostics) = discover(&root, Scope::Full, Provenance::ThisSystem);
    dmi(&root);
    described::read(&root, &mut topology, &mut diagnostics);
    // what `check` judges, so that it says of the snapshot what it says of the node
    gather::facts(&root, &topology);
    Ok(root.recorded())
}

/// Facts of a described node that a snapshot lacks: found by reading it.
fn lost(topology: &Topology, manifest: &Manifest) -> Vec<Diagnostic> {
    let root = Root::manifest(manifest.clone());
    let (again, _) = read_root(&root, Scope::Full, Provenance::Captured(String::new()));
    let said = |nic: &Nic| {
        // an interface is a port, of which nothing else may be known
        let ports = nic
            .ports
            .iter()
            .filter(|port| port.state != PortState::Unknown || port.rate_mbps.is_some());
        let netdevs = if nic.kind == NicKind::Ethernet {
            Vec::new()
        } else {
            nic.netdevs.clone()
        };
        Nic {
            ports: ports.cloned().collect(),
            netdevs,
            ..nic.clone()
        }
    };
    let is_kept = |nic: &Nic| again.nics.iter().any(|kept| said(kept) == said(nic));
    let finding = "not all that is known of it is in the snapshot";
    let nics = topology
        .nics
        .iter()
        .filter(|nic| !is_kept(nic))
        .map(|nic| nic.name.to_string());
    let gpus = topology
        .gpus
        .iter()
        .filter(|gpu| !again.gpus.contains(gpu))
        .map(|gpu| gpu.address.to_string());
    nics.chain(gpus)
        .map(|device| Diagnostic::new(device, finding))
        .collect()
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
            Entry::File(text) => {
                create_parent(&at).and_then(|()| fs::write(&at, format!("{text}\n")))
            }
            Entry::Link(target) => {
                create_parent(&at).and_then(|()| std::os::unix::fs::symlink(target, &at))
            }
        };
        written.map_err(|error| {
            let (at, below) = (at.display(), directory.display());
            format!("cannot write `{at}`: {error}; what is left of `sys` and `proc` in `{below}` is not whole: remove it")
        })?;
    }
    Ok(())
}

fn create_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

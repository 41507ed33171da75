//! The topology of this process's node, from the admin's source.

use nic_placement_core::config::{Admin, NodeFileUse, NodeSource};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{Provenance, Topology};
use nic_placement_node::discover::root::{Author, is_there};
use nic_placement_node::discover::{Root, Scope};
use nic_placement_node::{self as node, NoTopology, kept};
use nic_placement_sys as sys;
use std::path::Path;

/// The topology and findings; [`confirmed`] fits a model or topology file to this node.
pub fn read(
    admin: &Admin,
    scope: Scope,
    author: Author,
) -> Result<(Topology, Vec<Diagnostic>), NoTopology> {
    match &admin.source {
        NodeSource::Live => Ok(this_node(&admin.node_file, scope, author)),
        NodeSource::Sysfs(_) => node::read(&admin.source, scope, author),
        NodeSource::Machine(_) | NodeSource::Topology(_) => {
            let (described, diagnostics) = node::read(&admin.source, scope, author)?;
            Ok(confirmed(described, diagnostics, &admin.node_file, author))
        }
    }
}

/// The required owner of an admin's files: root for a root process, else any user.
pub fn author() -> Author {
    if sys::is_root() {
        Author::Root
    } else {
        Author::Anyone
    }
}

/// Fits a model or topology file to this node: for example, removes absent NICs
/// ([`node::confirm`]).
pub fn confirmed(
    mut described: Topology,
    mut diagnostics: Vec<Diagnostic>,
    node_file: &NodeFileUse,
    author: Author,
) -> (Topology, Vec<Diagnostic>) {
    let (here, _) = this_node(node_file, Scope::Placement, author);
    diagnostics.extend(node::confirm(&mut described, &here));
    (described, diagnostics)
}

/// Reads the node file if it is current, since hardware can be slow; else reads the hardware.
fn this_node(
    NodeFileUse { path, max_age }: &NodeFileUse,
    scope: Scope,
    author: Author,
) -> (Topology, Vec<Diagnostic>) {
    if *max_age > 0 {
        match kept::read(Path::new(path), *max_age, author, sys::seconds_since_boot()) {
            Ok(kept) => {
                log::debug!("the node from `{path}`, which is {} s old", kept.age);
                return (kept.topology, kept.diagnostics);
            }
            Err(why) if why.is_absent() => log::debug!("{why}: the node is read"),
            Err(why) => log::warn!("{why}; the node is read instead"),
        }
    }
    node::read_root(&Root::live(), scope, Provenance::ThisSystem)
}

/// slurmd's warning if the node has RDMA devices but no node file for its steps. `None` with
/// `conf=`: a read of the configuration file could hang, and slurmd must start.
pub fn without_file<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let (admin, _) = Admin::parse(arguments);
    let NodeFileUse { path, max_age } = &admin.node_file;
    let is_this_node = !matches!(admin.source, NodeSource::Sysfs(_));
    let is_wanted = admin.conf.is_none() && !admin.disabled && *max_age > 0 && is_this_node;
    let waits = is_wanted
        && !is_there(Path::new(path))
        && !Root::live()
            .list("sys/class/infiniband", |_| true)
            .is_empty();
    waits.then(|| format!(
        "no node file `{path}` yet: until `nic-placement refresh` has written it, each step asks the NICs' firmware, which may wait"
    ))
}

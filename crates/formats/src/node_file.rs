//! Makes the node file, which the node's crate reads.

use crate::file;
use nic_placement_node::cache::{MAGIC, NodeFile, Stamp, VERSION};
use nic_placement_node::discover::registered::{difference, links, registered};
use nic_placement_node::discover::{Root, Scope};
use nic_placement_node::kept::BOOT_ID;
use nic_placement_node::read_root;
use nic_placement_topology::Provenance;
use nic_placement_topology::diagnostic::Diagnostic;

/// An error if devices come or go meanwhile, or if the topology is inconsistent.
pub fn make(
    root: &Root,
    boottime: u64,
    time: String,
) -> Result<(NodeFile, Vec<Diagnostic>), String> {
    let boot_id = root
        .read(BOOT_ID)
        .ok_or_else(|| format!("cannot read `/{BOOT_ID}`"))?;
    let registered_before = registered(root);
    let (topology, diagnostics) = read_root(root, Scope::Full, Provenance::ThisSystem);
    let links = links(root, &topology);
    if let Some(what) = difference(&registered_before, &registered(root)) {
        return Err(format!("the node changed while it was read: {what}"));
    }
    let bad = |why: &str| format!("the node's topology is not consistent: {why}");
    let mut again = file::from_json(&file::to_json(&topology), Provenance::ThisSystem)
        .map_err(|error| bad(&error.to_string()))?;
    // a topology file has no such field
    again.supplied_by.clone_from(&topology.supplied_by);
    if again != topology {
        return Err(bad("a file would not give it back"));
    }
    let file = NodeFile {
        stamp: Stamp {
            boot_id,
            boottime,
            time,
        },
        registered: registered_before,
        links,
        topology,
    };
    Ok((file, diagnostics))
}

/// The same bytes for the same node.
pub fn to_bytes(node: &NodeFile) -> Vec<u8> {
    // this cannot fail: each list's length is known, and a Vec takes all bytes
    sealed(&postcard::to_allocvec(node).expect("a node can always be written"))
}

pub fn sealed(content: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(content).to_le_bytes();
    [MAGIC, VERSION.as_bytes(), b"\n", &checksum, content].concat()
}

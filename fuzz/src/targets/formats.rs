//! Descriptions of a node: the project's own JSON, snapshots, tars, and other programs' files.
#![forbid(unsafe_code)]

use super::{held, plans, tree};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{Provenance, Topology};
use nic_placement_formats::import::{self, BadText};
use nic_placement_formats::{archive as tar, file, manifest, node_file as written};
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::{cache, read_root};

type Found = (Topology, Vec<Diagnostic>);

fn from() -> Provenance {
    Provenance::File("made".to_string())
}

/// A topology of a file is planned with, and is the same one when it is written and read.
fn comes_back(topology: &Topology) {
    plans::of(topology);
    let written = file::to_json(topology);
    let again = file::from_json(&written, topology.provenance.clone());
    let again = again.unwrap_or_else(|bad| panic!("it cannot be written and read: {bad}"));
    // `supplied_by` stands in the node file alone
    let same = Topology {
        supplied_by: topology.supplied_by.clone(),
        ..again
    };
    assert_eq!(&same, topology);
}

fn imported(data: &[u8], read: impl Fn(&str, Provenance) -> Result<Found, BadText>) {
    let text = std::str::from_utf8(data);
    let Ok(text) = text else { return };
    match read(text, from()) {
        Ok((topology, diagnostics)) => {
            assert!(diagnostics.len() < 1000, "{} findings", diagnostics.len());
            let told = diagnostics.iter().map(ToString::to_string);
            told.for_each(|text| held::message(&text));
            comes_back(&topology);
        }
        Err(bad) => held::message(&bad.to_string()),
    }
}

pub fn topology(data: &[u8]) {
    match std::str::from_utf8(data).map(|text| file::from_json(text, from())) {
        Ok(Ok(topology)) => comes_back(&topology),
        Ok(Err(bad)) => held::message(&bad.to_string()),
        Err(_) => {}
    }
}

pub fn hwloc(data: &[u8]) {
    imported(data, import::hwloc::read);
}

pub fn nccl(data: &[u8]) {
    imported(data, import::nccl::read);
}

/// A text of `nvidia-smi topo -m`, rocm-smi or amd-smi.
pub fn matrix(data: &[u8]) {
    imported(data, import::smi::read);
}

/// The bytes as they are, behind a checksum that fits, and as changes to the file of a known machine.
pub fn node_file(data: &[u8]) {
    kept_bytes(data);
    kept_bytes(&written::sealed(data));
    let Some((&machine, changes)) = data.split_first() else {
        return;
    };
    let whole = written::to_bytes(&tree::node_file(machine));
    let version = whole.iter().position(|&byte| byte == b'\n');
    let mut content = whole[version.expect("a version") + 5..].to_vec();
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % content.len();
        content[place] = change[2];
    }
    kept_bytes(&written::sealed(&content));
}

fn kept_bytes(bytes: &[u8]) {
    match cache::from_bytes(bytes, from()) {
        Ok(read) => {
            assert!(bytes.starts_with(cache::MAGIC));
            let again = cache::from_bytes(&written::to_bytes(&read), from());
            assert_eq!(again.as_ref(), Ok(&read));
            // `refresh` writes none that is not consistent
            let of_json = file::from_json(&file::to_json(&read.topology), from());
            if of_json.is_ok_and(|again| again.name == read.topology.name) {
                plans::of(&read.topology);
            }
        }
        Err(bad) => held::message(&bad.to_string()),
    }
}

fn node(manifest: &Manifest) -> Found {
    let from = Provenance::Captured("made".to_string());
    let found = read_root(&Root::manifest(manifest.clone()), Scope::Full, from);
    held::findings(&found.1);
    plans::of(&found.0);
    found
}

pub fn snapshot(data: &[u8]) {
    match std::str::from_utf8(data).map(manifest::parse) {
        Ok(Ok(manifest)) => {
            let written = manifest::text(&manifest);
            let again = manifest::parse(&written).expect("it is read again");
            assert_eq!(manifest::text(&again), written, "the same bytes");
            assert_eq!(node(&manifest), node(&again), "another node");
        }
        Ok(Err(bad)) => held::message(&bad.to_string()),
        Err(_) => {}
    }
}

/// A tar of /sys.
pub fn archive(data: &[u8]) {
    match tar::read(data) {
        Ok(manifest) => drop(node(&manifest)),
        Err(bad) => held::message(&bad.to_string()),
    }
}

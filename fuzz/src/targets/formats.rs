//! Descriptions of a node: the project's own JSON, snapshots, tars, and other programs' files.
#![forbid(unsafe_code)]

use super::{held, kept, machines};
use nic_placement_core::config::Admin;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{Provenance, Topology};
use nic_placement_formats::import::{self, BadText};
use nic_placement_formats::{archive, manifest};
use nic_placement_formats::{file, node_file};
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::{cache, read_root};

fn from() -> Provenance {
    Provenance::File("made".to_string())
}

/// A topology that a file holds, and what is planned with it.
fn comes_back(data: &[u8], topology: &Topology) {
    if held::has_turn(data, 0, 2) {
        plans(data, topology);
    }
    if !held::has_turn(data, 1, 2) {
        return;
    }
    let written = file::to_json(topology);
    let again = file::from_json(&written, topology.provenance.clone());
    let again =
        again.unwrap_or_else(|bad| panic!("what was read cannot be written and read: {bad}"));
    // `supplied_by` stands in the node file alone
    let same = Topology {
        supplied_by: topology.supplied_by.clone(),
        ..again
    };
    assert_eq!(&same, topology);
    assert_eq!(file::to_json(&same), written, "the same bytes");
}

pub fn plans(data: &[u8], topology: &Topology) {
    let choice = topology.gpus.len() + topology.nics.len();
    let words = ["closest", "spread,bind=core", "rail", "numa", "all"][choice % 5];
    let wish = machines::wish(words, Admin::default());
    machines::each_task(topology.clone(), wish, data.len() / 4, &mut |plan, task| {
        task.lines(&plan.node.name, "")
            .iter()
            .for_each(|line| held::tidy(line));
    });
}

pub fn topology(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match file::from_json(text, from()) {
        Ok(topology) => comes_back(data, &topology),
        Err(bad) => held::message(&bad.to_string()),
    }
}

/// The bytes as they are, behind a checksum that fits, and as changes to the file of a known machine.
pub fn node_file(data: &[u8]) {
    kept_bytes(data, data);
    kept_bytes(data, &node_file::sealed(data));
    let Some((&machine, changes)) = data.split_first() else {
        return;
    };
    let whole = node_file::to_bytes(&kept::node_file(machine));
    let head = whole
        .iter()
        .position(|&byte| byte == b'\n')
        .expect("a version")
        + 5;
    let mut content = whole[head..].to_vec();
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % content.len();
        content[place] = change[2];
    }
    kept_bytes(data, &node_file::sealed(&content));
}

fn kept_bytes(data: &[u8], bytes: &[u8]) {
    match cache::from_bytes(bytes, from()) {
        Ok(read) => {
            assert!(bytes.starts_with(cache::MAGIC));
            let again = cache::from_bytes(&node_file::to_bytes(&read), from());
            assert_eq!(again.as_ref(), Ok(&read));
            // `refresh` writes none that is not consistent
            let of_json = file::from_json(&file::to_json(&read.topology), from());
            if of_json.is_ok_and(|again| again.name == read.topology.name) {
                plans(data, &read.topology);
            }
        }
        Err(bad) => held::message(&bad.to_string()),
    }
}

pub fn snapshot(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let manifest = match manifest::parse(text) {
        Ok(manifest) => manifest,
        Err(bad) => return held::message(&bad.to_string()),
    };
    let found = node(&manifest, Scope::Full);
    held::findings(&found.1);
    if held::has_turn(data, 0, 4) {
        plans(data, &found.0);
    }
    if !held::has_turn(data, 1, 4) && !held::has_turn(data, 2, 4) {
        return;
    }
    let written = manifest::text(&manifest);
    let again = manifest::parse(&written).expect("what was written is read");
    if held::has_turn(data, 1, 4) {
        assert_eq!(manifest::text(&again), written, "the same bytes");
    }
    if held::has_turn(data, 2, 4) {
        assert_eq!(
            found,
            node(&again, Scope::Full),
            "a snapshot that was written again is another node"
        );
    }
}

pub fn archive(data: &[u8]) {
    match archive::read(data) {
        Ok(manifest) => {
            let found = node(&manifest, Scope::Full);
            held::findings(&found.1);
        }
        Err(bad) => held::message(&bad.to_string()),
    }
}

fn node(manifest: &Manifest, scope: Scope) -> (Topology, Vec<Diagnostic>) {
    read_root(
        &Root::manifest(manifest.clone()),
        scope,
        Provenance::Captured("made".to_string()),
    )
}

type Read = Result<(Topology, Vec<Diagnostic>), BadText>;

fn imported(data: &[u8], read: fn(&str, Provenance) -> Read) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match read(text, from()) {
        Ok((topology, diagnostics)) => {
            assert!(diagnostics.len() < 1000, "{} findings", diagnostics.len());
            diagnostics
                .iter()
                .for_each(|diagnostic| held::message(&diagnostic.to_string()));
            comes_back(data, &topology);
        }
        Err(bad) => held::message(&bad.to_string()),
    }
}

pub fn hwloc(data: &[u8]) {
    imported(data, import::hwloc::read);
}

pub fn nccl(data: &[u8]) {
    imported(data, import::nccl::read);
}

pub fn matrix(data: &[u8]) {
    imported(data, import::smi::read);
}

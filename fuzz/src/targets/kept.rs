//! A node that was kept and has changed since, and a described one on a node that is another.
#![forbid(unsafe_code)]

use super::work::Work;
use super::{formats, held, tree};
use nic_placement_core::topology::{Provenance, Topology};
use nic_placement_formats::node_file;
use nic_placement_node::cache::NodeFile;
use nic_placement_node::discover::manifest::Entry;
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::kept::{self, Kept};
use nic_placement_node::platform;
use nic_placement_node::{confirm, read_root};
use std::hint::black_box;

/// Seconds since boot at which each node was kept.
const THEN: u64 = 1000;
const MAX_AGE: u64 = 900;

thread_local! {
    static KEPT: Vec<NodeFile> = tree::MODELS.iter().map(|name| made(name)).collect();
    static DESCRIBED: Vec<Topology> =
        tree::MODELS.iter().map(|name| platform::model(name).expect("a model")).collect();
}

fn booted(mut manifest: Manifest) -> Root {
    let boot_id = Entry::File("3f0ba4b5-0000-4000-8000-000000000000".to_string());
    manifest.insert("proc/sys/kernel/random/boot_id", boot_id);
    Root::manifest(manifest)
}

fn made(model: &str) -> NodeFile {
    let manifest = tree::manifest(tree::entries(model));
    node_file::make(&booted(manifest), THEN, "then".to_string())
        .expect("a node")
        .0
}

/// The node file of one of the machines.
pub(super) fn node_file(choice: u8) -> NodeFile {
    KEPT.with(|kept| kept[tree::chosen(choice)].clone())
}

/// The node that an input changes, as it was kept, and as it is now.
fn given(data: &[u8]) -> (NodeFile, Manifest) {
    let model = tree::chosen(data.first().copied().unwrap_or_default());
    (KEPT.with(|kept| kept[model].clone()), tree::hostile(data).0)
}

pub fn run(data: &[u8]) {
    let (then, now) = given(data);
    let live = booted(now);
    let later = THEN + data.len() as u64 * 37 % 1024;
    let settled = kept::settle(&live, then.clone(), MAX_AGE, later);
    if later > THEN + MAX_AGE || held::has_turn(data, 0, 4) {
        let again = kept::settle(&live, then.clone(), MAX_AGE, later);
        assert_eq!(
            format!("{settled:?}"),
            format!("{again:?}"),
            "the same answer twice"
        );
    }
    match settled {
        Ok(Kept {
            topology,
            age,
            diagnostics,
        }) => {
            assert!(age == later - THEN && age <= MAX_AGE);
            held::findings(&diagnostics);
            assert!(
                data.len() > 1 || topology == then.topology,
                "nothing changed"
            );
            are_its_devices(&topology, &then.topology);
            if held::has_turn(data, 1, 4) {
                formats::plans(data, &topology);
            }
        }
        Err(why) => {
            assert!(data.len() > 1, "nothing changed: {why}");
            // the log escapes what the tree's names hold, and cuts it
            assert!(!why.is_absent() && !why.to_string().is_empty());
        }
    }
    if !held::has_turn(data, 2, 4) && !held::has_turn(data, 3, 4) {
        return;
    }
    let (here, _) = read_root(&live, Scope::Placement, Provenance::ThisSystem);
    if held::has_turn(data, 2, 4) {
        confirmed(data, &then.topology, &here);
    }
    if held::has_turn(data, 3, 4) {
        DESCRIBED.with(|known| confirmed(data, &known[data.len() / 4 % known.len()], &here));
    }
}

/// Which devices there are only the node itself says.
fn are_its_devices(now: &Topology, then: &Topology) {
    assert!(
        now.gpus
            .iter()
            .map(|gpu| gpu.address)
            .eq(then.gpus.iter().map(|gpu| gpu.address))
    );
    assert!(
        now.nics
            .iter()
            .map(|nic| &nic.name)
            .eq(then.nics.iter().map(|nic| &nic.name))
    );
}

/// What is described has the NICs that are here alone, and their ports.
fn confirmed(data: &[u8], described: &Topology, here: &Topology) {
    let mut topology = described.clone();
    let diagnostics = confirm(&mut topology, here);
    held::findings(&diagnostics);
    assert_eq!(
        topology.nics.len() + diagnostics.len(),
        described.nics.len(),
        "each that is left out is told"
    );
    for nic in &topology.nics {
        let same = here
            .nics
            .iter()
            .find(|other| other.name == nic.name)
            .expect("it is here");
        assert_eq!((&nic.ports, &nic.uverbs), (&same.ports, &same.uverbs));
    }
    assert_eq!(topology.gpus.len(), described.gpus.len());
    formats::plans(data, &topology);
}

/// What a step asks of a node that was kept.
pub fn work(data: &[u8]) -> Work<'_> {
    let (then, now) = given(data);
    let live = booted(now);
    Box::new(move || drop(black_box(kept::settle(&live, then.clone(), MAX_AGE, THEN))))
}

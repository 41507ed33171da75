//! Hostile trees: the trees of known machines, and changes to them that the bytes say; a node file that was kept before.
#![forbid(unsafe_code)]

use super::{held, plans};
use nic_placement_core::topology::{Provenance, Topology};
use nic_placement_formats::node_file as written;
use nic_placement_node::cache::NodeFile;
use nic_placement_node::discover::manifest::{Entry, normalise};
use nic_placement_node::discover::registered::{difference, links, registered};
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::kept::{self, Kept};
use nic_placement_node::{confirm, platform, read_root};
use nic_placement_testing::synthesise::synthesise;

const MODELS: &str = "dgx-spark gh200 aws-g5 aws-p4d frontier dgx-h100";

/// The model of each first byte: one with hundreds of entries costs as much as several small ones.
const CHOSEN: [usize; 16] = [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2];

pub(super) const SCOPES: [Scope; 4] = [
    Scope::Full,
    Scope::Placement,
    Scope::Selection,
    Scope::Cores,
];

/// Texts that no kernel writes there, between bars.
const TEXTS: &str = "|0|-1|65535|4294967295|18446744073709551616|0-8191|0-4000000000|1,3,5,7-|0x|0x10de|0x15b3|\
    0x020700|0x030200|ACTIVE|4: ACTIVE|4: ACTIVE\n5: x|400 Gb/sec (4X NDR)|99999999999 Gb/sec|InfiniBand|\
    ../../../..|mlx5_0\u{1b}[2J|a\n\nb\n|nan";

/// Entries at which no folder is copied any more.
const MOST: usize = 1_000;

/// CPUs that keep their folders: hundreds that are alike would be half of the work.
const CPUS: u32 = 8;

/// Seconds since boot at which each node was kept, and for how long that counts.
const THEN: u64 = 1000;
const MAX_AGE: u64 = 900;

thread_local! {
    static TREES: Vec<Vec<(String, Entry)>> = MODELS.split(' ').map(entries).collect();
    static KEPT: Vec<NodeFile> = MODELS.split(' ').map(made).collect();
}

pub(super) fn entries(model: &str) -> Vec<(String, Entry)> {
    let manifest = synthesise(&platform::model(model).expect("a model"));
    let is_kept = |path: &str| {
        let cpu = path.strip_prefix("sys/devices/system/cpu/cpu");
        let number = cpu.and_then(|rest| rest.split('/').next());
        let number = number.and_then(|number| number.parse::<u32>().ok());
        number.is_none_or(|number| number < CPUS)
    };
    let kept = manifest.iter().filter(|(path, _)| is_kept(path));
    kept.map(|(path, entry)| (path.to_string(), entry.clone()))
        .collect()
}

fn booted(mut manifest: Manifest) -> Manifest {
    let boot_id = Entry::File("3f0ba4b5-0000-4000-8000-000000000000".to_string());
    manifest.insert("proc/sys/kernel/random/boot_id", boot_id);
    manifest
}

fn made(model: &str) -> NodeFile {
    let live = Root::manifest(booted(manifest(entries(model))));
    let made = written::make(&live, THEN, "then".to_string());
    made.expect("a node").0
}

fn chosen(head: u8) -> usize {
    CHOSEN[usize::from(head) % CHOSEN.len()]
}

/// The node file of one of the machines.
pub(super) fn node_file(choice: u8) -> NodeFile {
    KEPT.with(|kept| kept[chosen(choice)].clone())
}

pub fn run(data: &[u8]) {
    let (&head, mut changes) = data.split_first().unwrap_or((&0, &[]));
    let tree = TREES.with(|trees| changed(&trees[chosen(head)], &mut changes));
    let tree = booted(tree);
    let scope = SCOPES[usize::from(head >> 6)];
    let from = || Provenance::Captured("made".to_string());
    let mut root = Root::manifest(tree.clone());
    root.record();
    let found = read_root(&root, scope, from());
    let (topology, diagnostics) = &found;
    assert!(topology.gpus.len() <= 256 && topology.nics.len() <= 256);
    held::findings(diagnostics);
    plans::of(topology);
    let recorded = Root::manifest(root.recorded());
    let again = read_root(&recorded, scope, from());
    assert_eq!(again.0, found.0, "more was read than was recorded");
    let live = Root::manifest(tree);
    let now = registered(&live);
    assert_eq!(difference(&now, &registered(&live)), None);
    let _ = links(&live, topology);
    was_kept(data, node_file(head), &live);
}

/// The node file of the machine before its changes, and a description of another on it.
fn was_kept(data: &[u8], then: NodeFile, live: &Root) {
    let later = THEN + data.len() as u64 * 37 % 1024;
    match kept::settle(live, then.clone(), MAX_AGE, later) {
        Ok(Kept {
            topology,
            age,
            diagnostics,
        }) => {
            assert!(age == later - THEN && age <= MAX_AGE);
            held::findings(&diagnostics);
            assert!(data.len() > 1 || topology == then.topology);
            // the devices that there are only the node itself says
            let names = |of: &Topology| of.nics.iter().map(|nic| nic.name.clone()).collect();
            let names: [Vec<_>; 2] = [names(&topology), names(&then.topology)];
            assert_eq!(names[0], names[1]);
            assert_eq!(topology.gpus.len(), then.topology.gpus.len());
            plans::of(&topology);
        }
        Err(why) => assert!(data.len() > 1 && !why.is_absent(), "{why}"),
    }
    let (here, _) = read_root(live, Scope::Placement, Provenance::ThisSystem);
    let described = node_file(data.len() as u8).topology;
    let mut topology = described.clone();
    let diagnostics = confirm(&mut topology, &here);
    held::findings(&diagnostics);
    let told = topology.nics.len() + diagnostics.len();
    assert_eq!(told, described.nics.len(), "each that is left out is told");
    for nic in &topology.nics {
        let same = here.nics.iter().find(|other| other.name == nic.name);
        let same = same.expect("it is here");
        assert_eq!((&nic.ports, &nic.uverbs), (&same.ports, &same.uverbs));
    }
    plans::of(&topology);
}

fn next(bytes: &mut &[u8]) -> u8 {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    *bytes = rest;
    *first
}

fn wide(bytes: &mut &[u8]) -> usize {
    usize::from(next(bytes)) << 8 | usize::from(next(bytes))
}

/// The tree with the bytes' changes: texts, links, copies of folders, missing ones.
fn changed(tree: &[(String, Entry)], bytes: &mut &[u8]) -> Manifest {
    let mut entries = tree.to_vec();
    for _ in 0..64 {
        if bytes.is_empty() {
            break;
        }
        let kind = next(bytes);
        let place = wide(bytes) % entries.len();
        match kind % 8 {
            0 => {
                let mut texts = TEXTS.split('|').cycle().skip(usize::from(next(bytes)));
                let text = texts.next().unwrap_or_default();
                entries[place].1 = Entry::File(text.trim_end().to_string());
            }
            1 => {
                let length = usize::from(next(bytes) % 32).min(bytes.len());
                let (text, rest) = bytes.split_at(length);
                *bytes = rest;
                let text = held::text(text).replace('\0', "");
                entries[place].1 = Entry::File(text.trim_end().to_string());
            }
            2 => {
                let target = entries[wide(bytes) % entries.len()].0.clone();
                let path = entries[place].0.clone();
                let target = format!("{}{target}", "../".repeat(path.matches('/').count()));
                if normalise(&path, &target).is_some() {
                    entries[place].1 = Entry::Link(target);
                }
            }
            3 => entries[place].1 = Entry::Directory,
            4 => copied(&mut entries, place, next(bytes)),
            5 if entries.len() > 1 => drop(entries.swap_remove(place)),
            6 => missing(&mut entries, place),
            _ => entries[place].1 = entries[wide(bytes) % entries.len()].1.clone(),
        }
    }
    manifest(entries)
}

pub(super) fn manifest(entries: Vec<(String, Entry)>) -> Manifest {
    let mut manifest = Manifest::default();
    for (path, entry) in entries {
        manifest.insert(&path, entry);
    }
    manifest
}

fn folder(path: &str) -> Option<String> {
    Some(path.rsplit_once('/')?.0.to_string())
}

/// The folder of an entry once more, or many times, under other names.
fn copied(entries: &mut Vec<(String, Entry)>, place: usize, how: u8) {
    let folder = folder(&entries[place].0);
    let Some(folder) = folder else { return };
    let prefix = format!("{folder}/");
    let below = entries.iter().filter(|(path, _)| path.starts_with(&prefix));
    let below: Vec<(String, Entry)> = below.take(64).cloned().collect();
    for nth in 0..usize::from(how % 16 + 1) {
        if entries.len() + below.len() > MOST {
            return;
        }
        let copy = match how >> 6 {
            0 => format!("{folder}{nth}"),
            1 => format!("{folder}/{}", folder.rsplit('/').next().unwrap_or_default()),
            2 => folder.replacen("0000:", &format!("{nth:04x}:"), 1),
            _ => format!("{folder}_{}", "x".repeat(nth * 8)),
        };
        for (path, entry) in &below {
            let path = format!("{copy}/{}", &path[prefix.len()..]);
            entries.push((path, entry.clone()));
        }
    }
}

/// All of a folder is gone.
fn missing(entries: &mut Vec<(String, Entry)>, place: usize) {
    if let Some(folder) = folder(&entries[place].0) {
        let prefix = format!("{folder}/");
        if entries.iter().any(|(path, _)| !path.starts_with(&prefix)) {
            entries.retain(|(path, _)| !path.starts_with(&prefix));
        }
    }
}

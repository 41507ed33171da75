//! Hostile trees: the trees of known machines, and changes to them that the bytes say.
#![forbid(unsafe_code)]

use super::built::Bytes;
use super::{formats, held};
use nic_placement_core::topology::Provenance;
use nic_placement_formats::file;
use nic_placement_node::discover::manifest::{Entry, normalise};
use nic_placement_node::discover::registered::{difference, links, registered};
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::platform;
use nic_placement_node::read_root;
use nic_placement_testing::synthesise::synthesise;

pub(super) const MODELS: [&str; 6] = [
    "dgx-spark",
    "gh200",
    "aws-g5",
    "aws-p4d",
    "frontier",
    "dgx-h100",
];

/// Which of them each first byte names: one with hundreds of entries costs as much as several small ones.
const CHOSEN: [usize; 16] = [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 0, 1, 2, 0, 1, 2];

/// What a kernel would not write there.
const TEXTS: [&str; 24] = [
    "",
    "0",
    "-1",
    "65535",
    "4294967295",
    "18446744073709551616",
    "0-8191",
    "0-4000000000",
    "1,3,5,7-",
    "0x",
    "0x10de",
    "0x15b3",
    "0x020700",
    "0x030200",
    "ACTIVE",
    "4: ACTIVE",
    "4: ACTIVE\n5: x",
    "400 Gb/sec (4X NDR)",
    "99999999999 Gb/sec",
    "InfiniBand",
    "../../../..",
    "mlx5_0\u{1b}[2J",
    "a\n\nb\n",
    "nan",
];

thread_local! {
    static TREES: Vec<Vec<(String, Entry)>> = MODELS.iter().map(|name| entries(name)).collect();
}

/// Entries at which no folder is copied any more.
const MOST: usize = if cfg!(lean) { 1_000 } else { 20_000 };

/// CPUs that keep their folders: hundreds that are alike would be half of the work.
const CPUS: u32 = 8;

pub(super) fn entries(model: &str) -> Vec<(String, Entry)> {
    let manifest = synthesise(&platform::model(model).expect("a model"));
    let is_one_more_cpu = |path: &str| {
        let number = path
            .strip_prefix("sys/devices/system/cpu/cpu")
            .and_then(|rest| rest.split('/').next());
        number
            .and_then(|number| number.parse::<u32>().ok())
            .is_some_and(|number| number >= CPUS)
    };
    let kept = manifest.iter().filter(|(path, _)| !is_one_more_cpu(path));
    kept.map(|(path, entry)| (path.to_string(), entry.clone()))
        .collect()
}

/// Which of `MODELS` an input changes.
pub(super) fn chosen(head: u8) -> usize {
    CHOSEN[usize::from(head) % CHOSEN.len()]
}

/// The tree that the bytes say, and what is read of it.
pub fn hostile(data: &[u8]) -> (Manifest, Scope) {
    let mut bytes = Bytes::new(data);
    let head = bytes.next();
    let manifest = TREES.with(|trees| changed(&trees[chosen(head)], &mut bytes));
    (
        manifest,
        [
            Scope::Full,
            Scope::Placement,
            Scope::Selection,
            Scope::Cores,
        ][usize::from(head >> 6)],
    )
}

pub fn run(data: &[u8]) {
    let (manifest, scope) = hostile(data);
    let from = Provenance::Captured("made".to_string());
    let mut root = Root::manifest(manifest);
    let is_recorded = held::has_turn(data, 3, 4);
    if is_recorded {
        root.record();
    }
    let found = read_root(&root, scope, from.clone());
    let (topology, diagnostics) = &found;
    assert!(topology.gpus.len() <= 256 && topology.nics.len() <= 256);
    held::findings(diagnostics);
    if held::has_turn(data, 0, 4) {
        let now = registered(&root);
        assert_eq!(difference(&now, &registered(&root)), None);
        let _ = links(&root, topology);
    }
    // a machine whose tree contradicts itself cannot be written; what can be is read back
    if held::has_turn(data, 1, 4) {
        let written = file::to_json(topology);
        if let Ok(again) = file::from_json(&written, from.clone()) {
            assert_eq!(file::to_json(&again), written);
        }
    }
    if held::has_turn(data, 2, 4) {
        formats::plans(data, topology);
    }
    // what was read is all that it takes
    if is_recorded {
        let again = read_root(&Root::manifest(root.recorded()), scope, from);
        assert_eq!(again.0, found.0, "what was recorded is another node");
    }
}

/// The tree with the bytes' changes: texts, links, copies of folders, what is missing.
fn changed(tree: &[(String, Entry)], bytes: &mut Bytes) -> Manifest {
    let mut entries: Vec<(String, Entry)> = tree.to_vec();
    let mut changes = 0;
    while !bytes.is_empty() && changes < 64 {
        changes += 1;
        let kind = bytes.next();
        let place = bytes.wide() % entries.len();
        match kind % 8 {
            0 => {
                let text = TEXTS[usize::from(bytes.next()) % TEXTS.len()];
                entries[place].1 = Entry::File(text.trim_end().to_string());
            }
            1 => {
                let length = usize::from(bytes.next() % 32);
                let text = held::text(bytes.take(length)).replace('\0', "");
                entries[place].1 = Entry::File(text.trim_end().to_string());
            }
            2 => {
                let target = entries[bytes.wide() % entries.len()].0.clone();
                let path = entries[place].0.clone();
                let target = format!("{}{target}", "../".repeat(path.matches('/').count()));
                if normalise(&path, &target).is_some() {
                    entries[place].1 = Entry::Link(target);
                }
            }
            3 => entries[place].1 = Entry::Directory,
            4 => copied(&mut entries, place, bytes.next()),
            5 if entries.len() > 1 => drop(entries.swap_remove(place)),
            6 => missing(&mut entries, place),
            _ => {
                let from = bytes.wide() % entries.len();
                entries[place].1 = entries[from].1.clone();
            }
        }
    }
    manifest(entries)
}

pub(super) fn manifest(entries: Vec<(String, Entry)>) -> Manifest {
    let mut manifest = Manifest::default();
    entries
        .into_iter()
        .for_each(|(path, entry)| manifest.insert(&path, entry));
    manifest
}

/// The folder of an entry once more, or many times, under other names.
fn copied(entries: &mut Vec<(String, Entry)>, place: usize, how: u8) {
    let Some((folder, _)) = entries[place]
        .0
        .clone()
        .rsplit_once('/')
        .map(|(a, b)| (a.to_string(), b.to_string()))
    else {
        return;
    };
    let prefix = format!("{folder}/");
    let below: Vec<(String, Entry)> = entries
        .iter()
        .filter(|(path, _)| path.starts_with(&prefix))
        .take(64)
        .cloned()
        .collect();
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
        entries.extend(
            below
                .iter()
                .map(|(path, entry)| (format!("{copy}/{}", &path[prefix.len()..]), entry.clone())),
        );
    }
}

/// All of a folder is gone.
fn missing(entries: &mut Vec<(String, Entry)>, place: usize) {
    let Some((folder, _)) = entries[place].0.rsplit_once('/') else {
        return;
    };
    let prefix = format!("{folder}/");
    let kept: Vec<(String, Entry)> = entries
        .iter()
        .filter(|(path, _)| !path.starts_with(&prefix))
        .cloned()
        .collect();
    if !kept.is_empty() {
        *entries = kept;
    }
}

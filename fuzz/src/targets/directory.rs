//! A captured tree on disk as root reads one, with names, links and lengths that no kernel makes.
#![forbid(unsafe_code)]

use super::built::Bytes;
use super::place::{Place, Thing};
use super::work::Work;
use super::{formats, held, tree};
use nic_placement_core::topology::Provenance;
use nic_placement_formats::manifest;
use nic_placement_node::discover::manifest::Entry;
use nic_placement_node::discover::root::Author;
use nic_placement_node::discover::{Root, Scope};
use nic_placement_node::read_root;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What stands beside the tree, and is none of it.
const SECRET: &str = "the-secret-beside-the-tree";
const MODELS: [&str; 2] = ["dgx-spark", "aws-g5"];
/// Two ports, two GPUs and two CPUs are enough: most of an input's time goes to reading what it did not change.
const ALIKE: [&str; 14] = [
    "0002:",
    "roceP2p",
    "0000:00:18",
    "0000:00:19",
    "0000:00:1a",
    "0000:00:1b",
    "0000:00:1c",
    "0000:00:1d",
    "/cpu2/",
    "/cpu3/",
    "/cpu4/",
    "/cpu5/",
    "/cpu6/",
    "/cpu7/",
];

/// Where hostile links lead; `OUTSIDE` is the folder beside the tree.
const OUTSIDE: &str = "OUTSIDE";
const TARGETS: [&str; 16] = [
    "..",
    ".",
    "/",
    "../../../../../../../../../../../../../../../../../../outside",
    "../../../../outside/secret",
    "../../../../../outside/sys/class/infiniband",
    "OUTSIDE",
    "OUTSIDE/secret",
    "OUTSIDE/sys/class/infiniband",
    "/dev/zero",
    "/proc/self/mem",
    "/nowhere",
    "mlx5_0",
    "../mlx5_0/../mlx5_1",
    "a//b/./c",
    "device/../device/../device",
];

struct Trees {
    place: Place,
    /// paths of each tree's entries, below the place
    entries: Vec<Vec<String>>,
}

/// Long files, and folders of many names, in one input.
const MOST_LONG: usize = 2;
/// Names that one change adds to a folder, at most.
const MOST_NAMES: usize = if cfg!(lean) { 32 } else { 510 };

thread_local! {
    static LONG: Vec<Vec<u8>> = long();
    static TREES: RefCell<Trees> = RefCell::new(trees());
}

/// Texts of one kind of line each, as long as may be, and longer.
fn long() -> Vec<Vec<u8>> {
    let lines = [b"0000:01:00.0 PIX\n".as_slice(), b"x", b"1,"];
    let lengths = [Root::MAX_FILE, Root::MAX_FILE + 1, Root::MAX_TABLE + 1];
    let of =
        |length: usize| lines.map(|line| line.repeat(length / line.len() + 1)[..length].to_vec());
    lengths.into_iter().flat_map(of).collect()
}

fn trees() -> Trees {
    let place = Place::new("directory");
    place.lay("outside/secret", SECRET.as_bytes());
    place.lay(
        &format!("outside/sys/class/infiniband/{SECRET}/node_guid"),
        SECRET.as_bytes(),
    );
    let entries = MODELS.into_iter().enumerate().map(|(nth, model)| {
        let mut paths = Vec::new();
        let is_one_more = |path: &str| ALIKE.iter().any(|part| path.contains(part));
        for (path, entry) in tree::entries(model)
            .into_iter()
            .filter(|(path, _)| !is_one_more(path))
        {
            let path = format!("{nth}/{path}");
            let real = place.path().join(&path);
            fs::create_dir_all(real.parent().expect("below")).expect("a folder");
            match entry {
                Entry::File(text) => place.lay(&path, text.as_bytes()),
                Entry::Link(target) => symlink(target, real).expect("a link"),
                Entry::Directory => fs::create_dir_all(real).expect("a folder"),
            }
            paths.push(path);
        }
        paths
    });
    let entries = entries.collect();
    Trees { place, entries }
}

/// A tree as the bytes change it; the next one undoes that.
struct Laid {
    path: PathBuf,
    scope: Scope,
    /// what was changed, below the tree
    changed: Vec<String>,
}

fn lay(data: &[u8]) -> Laid {
    TREES.with_borrow_mut(|Trees { place, entries }| {
        place.undo();
        let mut bytes = Bytes::new(data);
        let head = bytes.next();
        let nth = usize::from(head) % MODELS.len();
        let scope = [
            Scope::Full,
            Scope::Placement,
            Scope::Selection,
            Scope::Cores,
        ][usize::from(head >> 6)];
        let mut changed = Vec::new();
        let mut long = 0;
        while !bytes.is_empty() && changed.len() < 24 {
            let path = &entries[nth][bytes.wide() % entries[nth].len()];
            changed.push(path.split_once('/').expect("below").1.to_string());
            change(place, path, &entries[nth], &mut bytes, &mut long);
        }
        Laid {
            path: place.path().join(nth.to_string()),
            scope,
            changed,
        }
    })
}

fn change(place: &mut Place, path: &str, entries: &[String], bytes: &mut Bytes, long: &mut usize) {
    let kind = bytes.next();
    let path = Path::new(path);
    match kind % 12 {
        0..=2 => {
            let length = usize::from(bytes.next());
            place.put(path, Thing::File(bytes.take(length)));
        }
        // to write one costs more than all the rest
        3 if *long < MOST_LONG => {
            *long += 1;
            let text = usize::from(kind / 12) % 9;
            LONG.with(|texts| place.put(path, Thing::File(&texts[text])));
        }
        4 => {
            place.put(path, Thing::Link(&inside(path, entries, bytes)));
        }
        5 => {
            let target = TARGETS[usize::from(bytes.next()) % TARGETS.len()];
            let outside = place.path().join("outside");
            let target = target.replace(OUTSIDE, outside.to_str().expect("UTF-8"));
            place.put(path, Thing::Link(Path::new(&target)));
        }
        6 => {
            let length = usize::from(bytes.next());
            place.put(
                path,
                Thing::Link(Path::new(OsStr::from_bytes(bytes.take(length)))),
            );
        }
        7 => drop(place.put(path, Thing::Folder)),
        8 => drop(place.put(path, Thing::Nothing)),
        9 => drop(place.put(path, Thing::Socket)),
        10 => {
            let length = usize::from(bytes.next() % 64);
            let name: Vec<u8> = bytes
                .take(length)
                .iter()
                .copied()
                .filter(|byte| !b"/\0".contains(byte))
                .collect();
            if !matches!(name.as_slice(), b"" | b"." | b"..") {
                beside(
                    place,
                    path,
                    &path.with_file_name(OsStr::from_bytes(&name)),
                    kind,
                );
            }
        }
        // more names than a folder has
        11 if *long < MOST_LONG => {
            *long += 1;
            let parent = path.parent().expect("below");
            let stem = path
                .file_name()
                .and_then(OsStr::to_str)
                .unwrap_or_default()
                .trim_end_matches(char::is_numeric);
            for number in 0..usize::from(bytes.next()) * MOST_NAMES / 255 {
                beside(place, path, &parent.join(format!("{stem}{number}")), kind);
            }
        }
        _ => {}
    }
}

/// One more entry in a folder: another name of one that is there, or nothing that a kernel puts there.
fn beside(place: &mut Place, path: &Path, name: &Path, kind: u8) {
    let there = path.file_name().map(Path::new).expect("a name");
    let target = fs::read_link(place.path().join(path)).unwrap_or_else(|_| there.to_path_buf());
    match kind / 12 % 4 {
        0 | 1 => drop(place.put(name, Thing::Link(&target))),
        2 => drop(place.put(name, Thing::File(b"1"))),
        _ => drop(place.put(name, Thing::Folder)),
    }
}

/// A link from one entry to another.
fn inside(path: &Path, entries: &[String], bytes: &mut Bytes) -> PathBuf {
    let target = &entries[bytes.wide() % entries.len()];
    let target = target.split_once('/').expect("below").1;
    // the first part of the path names the tree
    let above = path.components().count().saturating_sub(2);
    PathBuf::from(format!("{}{target}", "../".repeat(above)))
}

fn root(path: &Path) -> Root {
    Root::directory(path, Author::Anyone).expect("the tree is there")
}

pub fn run(data: &[u8]) {
    let Laid {
        path,
        scope,
        changed,
    } = &lay(data);
    let from = || Provenance::Captured("made".to_string());
    let mut recorded = root(path);
    let is_recorded = held::has_turn(data, 2, 4) || held::has_turn(data, 3, 4);
    if is_recorded {
        recorded.record();
    }
    let found = read_root(&recorded, *scope, from());
    held::findings(&found.1);
    assert!(found.0.gpus.len() <= 256 && found.0.nics.len() <= 256);
    let text = manifest::text(&recorded.recorded());
    assert!(!text.contains(SECRET), "it left the tree");
    let asked = root(path);
    for (nth, path) in changed.iter().enumerate() {
        // each costs as much as a quarter of the tree
        if held::has_turn(data, nth, changed.len()) {
            stays_inside(&asked, path);
        }
    }
    if held::has_turn(data, 0, 4) {
        assert_eq!(
            found,
            read_root(&root(path), *scope, from()),
            "the same node twice"
        );
    }
    if held::has_turn(data, 1, 4) {
        formats::plans(data, &found.0);
    }
    // what was read is all that it takes, and a snapshot of it says the same
    if held::has_turn(data, 2, 4) {
        let again = manifest::parse(&text)
            .unwrap_or_else(|bad| panic!("a snapshot that nobody reads: {bad}"));
        assert_eq!(manifest::text(&again), text);
        let again = read_root(&Root::manifest(again), *scope, from());
        assert_eq!(again.0, found.0, "the snapshot is another node");
    }
}

/// No way of reading leads out of the tree.
fn stays_inside(root: &Root, path: &str) {
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    for path in [path, above] {
        let texts = [root.read(path), root.follow(path)];
        assert!(
            texts
                .into_iter()
                .flatten()
                .all(|text| !text.contains(SECRET))
        );
        let bytes = root.beginning(path, 64);
        assert!(bytes.is_none_or(|bytes| bytes.len() <= 64 && bytes != SECRET.as_bytes()));
        let names = root.list(path, |_| true);
        assert!(names.len() <= Root::MAX_ENTRIES && names.iter().all(|name| name != SECRET));
        let numbered = root.numbered(path, |_| true);
        assert!(
            numbered.is_sorted_by_key(|(_, inode)| *inode),
            "by their inodes"
        );
        let mut same: Vec<&String> = numbered.iter().map(|(name, _)| name).collect();
        same.sort();
        assert!(same.into_iter().eq(&names), "the same names");
        let mut length = 0;
        root.lines(path, |line| {
            length += line.len();
            assert!(!line.contains(SECRET));
        });
        assert!(length <= Root::MAX_TABLE);
        root.owner(path);
    }
    assert!(root.notes().len() <= 32);
}

/// The reading of a tree that lies on disk.
pub fn work(data: &[u8]) -> Work<'_> {
    let Laid { path, scope, .. } = lay(data);
    let from = || Provenance::Captured("made".to_string());
    Box::new(move || drop(black_box(read_root(&root(&path), scope, from()))))
}

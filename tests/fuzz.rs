//! Every fuzz target on its corpus, and on changes to it that are the same in each run: seconds of what fuzz/run.sh does for hours.
//!
//! `FUZZ_REPEAT=100 cargo test --test fuzz` changes a hundred times as much.
#![forbid(unsafe_code)]

#[path = "../fuzz/src/changes.rs"]
mod changes;
#[path = "../fuzz/src/targets/mod.rs"]
mod targets;

use changes::{Numbers, changed, dictionary};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use targets::{TARGETS, Target, work};

/// `(target, changed inputs)`: as many as take a second or two in a build for tests.
const CHANGES: [(&str, usize); 24] = [
    ("words", 2000),
    ("plugstack", 400),
    ("conf", 60),
    ("environment", 400),
    ("sysfs", 40),
    ("tables", 150),
    ("node_file", 200),
    ("topology", 300),
    ("snapshot", 150),
    ("archive", 300),
    ("hwloc", 300),
    ("nccl", 300),
    ("matrix", 300),
    ("audit", 300),
    ("template", 300),
    ("maps", 60),
    ("solver", 60),
    ("lists", 1500),
    ("request", 100),
    ("layers", 200),
    ("kept", 60),
    ("directory", 60),
    ("ranks", 2000),
    ("fabric", 1500),
];

/// Bytes of a changed input, at most.
const MOST: usize = 32 * 1024;

fn folder() -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join("fuzz")
}

/// The inputs of a target in the order of their names.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder().join("corpus").join(target);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("`{}`: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// The words of a target's dictionary; none where it has none.
fn words(target: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(folder().join(format!("dictionaries/{target}.dict")));
    dictionary(&text.unwrap_or_default())
}

/// Runs the target, and tells what the input was where it breaks it.
fn run(name: &str, target: Target, what: &str, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        let text = String::from_utf8_lossy(input);
        panic!("{name}: {what}: broken by {input:?}\n{text}");
    }
}

fn replay(name: &str) {
    let target = targets::named(name).expect("a target");
    let (corpus, words) = (corpus(name), words(name));
    assert!(
        !corpus.is_empty(),
        "{name} has no corpus: fuzz/corpus.py makes it"
    );
    run(name, target, "nothing", b"");
    for (path, input) in &corpus {
        run(name, target, &path.display().to_string(), input);
    }
    // what fuzz/run.sh slow measures
    let (_, _, work) = work::WORKS
        .into_iter()
        .find(|(known, ..)| *known == name)
        .expect("its work");
    for (_, input) in &corpus {
        work(input)();
    }
    let repeat = std::env::var("FUZZ_REPEAT")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let changes = CHANGES
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a number")
        .1
        * repeat;
    let mut numbers = Numbers::default();
    for nth in 0..changes {
        let input = &corpus[nth % corpus.len()].1;
        let other = &corpus[numbers.below(corpus.len())].1;
        run(
            name,
            target,
            &format!("change {nth}"),
            &changed(input, other, &words, MOST, &mut numbers),
        );
    }
}

macro_rules! replayed {
    ($($name:ident)*) => {
        mod each_target_holds_on_its_corpus_and_on_changes_to_it {
            $(#[test] fn $name() { super::replay(stringify!($name)); })*
        }

        #[test]
        fn every_target_is_replayed_and_has_a_corpus() {
            let replayed = [$(stringify!($name)),*];
            let known = TARGETS.map(|(name, ..)| name);
            assert_eq!(replayed, known);
            assert_eq!(CHANGES.map(|(name, _)| name), known);
        }
    };
}

replayed! {
    words plugstack conf environment sysfs tables node_file topology snapshot archive hwloc nccl matrix audit template
    maps solver lists request layers kept directory ranks fabric
}

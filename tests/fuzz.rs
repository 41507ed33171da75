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
use targets::TARGETS;

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
fn run(name: &str, what: &str, input: &[u8]) {
    let target = targets::named(name).expect("a target");
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        let text = String::from_utf8_lossy(input);
        panic!("{name}: {what}: broken by {input:?}\n{text}");
    }
}

fn replay(name: &str) {
    let (corpus, words) = (corpus(name), words(name));
    assert!(
        !corpus.is_empty(),
        "{name} has no corpus: fuzz/corpus.py makes it"
    );
    run(name, "nothing", b"");
    for (path, input) in &corpus {
        run(name, &path.display().to_string(), input);
    }
    let repeat = std::env::var("FUZZ_REPEAT").ok();
    let repeat: usize = repeat.and_then(|text| text.parse().ok()).unwrap_or(1);
    let known = TARGETS.iter().find(|(known, ..)| *known == name);
    let (_, _, changes, _) = known.expect("a target");
    let mut numbers = Numbers::default();
    for nth in 0..changes * repeat {
        let input = &corpus[nth % corpus.len()].1;
        let other = &corpus[numbers.below(corpus.len())].1;
        let input = changed(input, other, &words, MOST, &mut numbers);
        run(name, &format!("change {nth}"), &input);
    }
}

macro_rules! replayed {
    ($($name:ident)*) => {
        mod each_target_holds_on_its_corpus_and_on_changes_to_it {
            $(#[test] fn $name() { super::replay(stringify!($name)); })*
        }

        #[test]
        fn every_target_is_replayed() {
            assert_eq!([$(stringify!($name)),*], TARGETS.map(|(name, ..)| name));
        }
    };
}

replayed! {
    words plugstack conf environment sysfs tables node_file topology snapshot archive hwloc nccl matrix audit fabric
    lists ranks request
}

//! Every fuzz target on its corpus, and on changes to it that are the same in each run: seconds of what fuzz/run.sh does for hours.
//!
//! `FUZZ_REPEAT=100 cargo test --test fuzz` changes a hundred times as much.
#![forbid(unsafe_code)]

#[path = "../fuzz/src/targets/mod.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use targets::{TARGETS, Target};

/// `(target, changed inputs)`: as many as take a second or two in a build for tests.
const CHANGES: [(&str, usize); 18] = [
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
];

/// Bytes of a changed input, at most.
const MOST: usize = 32 * 1024;

fn folder() -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join("fuzz")
}

/// The inputs of a target in the order of their names.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder().join("corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("`{}`: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The words of a target's dictionary, as libFuzzer reads it; none where it has none.
fn dictionary(target: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(folder().join(format!("dictionaries/{target}.dict"))).unwrap_or_default();
    text.lines().map(|line| unescaped(line.trim_matches('"'))).collect()
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'\\', [b'x', high, low, end @ ..]) => {
                let digits = [*high, *low];
                let hex = std::str::from_utf8(&digits).unwrap();
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = end;
            }
            (byte, after) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    bytes
}

/// Numbers that only look random (Marsaglia's xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// An input with a few changes: bytes, words of the dictionary, pieces of itself and of another one.
fn changed(input: &[u8], other: &[u8], words: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut changed = input.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(changed.len() + 1);
        let end = (at + numbers.below(32)).min(changed.len());
        match numbers.below(6) {
            0 if at < changed.len() => changed[at] ^= 1 << numbers.below(8),
            1 => drop(changed.drain(at..end)),
            2 if !words.is_empty() => {
                let word = &words[numbers.below(words.len())];
                drop(changed.splice(at..end.min(at + word.len()), word.iter().copied()));
            }
            3 => {
                let piece = changed[at..end].repeat(1 + numbers.below(20));
                drop(changed.splice(at..at, piece));
            }
            4 => {
                let from = numbers.below(other.len() + 1);
                let piece = other[from..(from + numbers.below(200)).min(other.len())].to_vec();
                drop(changed.splice(at..at, piece));
            }
            _ => changed.insert(at, [0, b'\n', b',', b'=', 0xff, b'9', b'"', b' '][numbers.below(8)]),
        }
    }
    changed.truncate(MOST);
    changed
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
    let (corpus, words) = (corpus(name), dictionary(name));
    assert!(!corpus.is_empty(), "{name} has no corpus: fuzz/corpus.py makes it");
    run(name, target, "nothing", b"");
    for (path, input) in &corpus {
        run(name, target, &path.display().to_string(), input);
    }
    let repeat = std::env::var("FUZZ_REPEAT").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let changes = CHANGES.iter().find(|(known, _)| *known == name).expect("a number").1 * repeat;
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for nth in 0..changes {
        let input = &corpus[nth % corpus.len()].1;
        let other = &corpus[numbers.below(corpus.len())].1;
        run(name, target, &format!("change {nth}"), &changed(input, other, &words, &mut numbers));
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
    maps solver lists
}

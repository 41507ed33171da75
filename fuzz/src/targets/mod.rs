//! A function for each kind of input that root reads or that a stranger sends: it panics where an input breaks an answer's rules.
//!
//! libFuzzer calls them with inputs of its own, and the project's tests with the corpus and with changes to it.
#![forbid(unsafe_code)]

mod admin;
mod environment;
mod fleet;
mod formats;
mod held;
mod lists;
mod plans;
mod request;
mod tables;
mod tree;
mod words;

/// An input's consequences.
pub type Target = fn(&[u8]);

const KIB: usize = 1024;

/// `(name, KiB that the project reads of such an input or that can be searched, changed inputs of a test, the function)`.
pub const TARGETS: [(&str, usize, usize, Target); 18] = [
    ("words", KIB, 2000, words::run),
    ("plugstack", 64 * KIB, 150, admin::plugstack),
    ("conf", 64 * KIB, 60, admin::conf),
    ("environment", 128 * KIB, 400, environment::run),
    ("sysfs", KIB, 40, tree::run),
    ("tables", 64 * KIB, 150, tables::run),
    ("node_file", 1024 * KIB, 200, formats::node_file),
    ("topology", 1024 * KIB, 300, formats::topology),
    ("snapshot", 1024 * KIB, 150, formats::snapshot),
    ("archive", 1024 * KIB, 300, formats::archive),
    ("hwloc", 1024 * KIB, 300, formats::hwloc),
    ("nccl", 1024 * KIB, 300, formats::nccl),
    ("matrix", 1024 * KIB, 300, formats::matrix),
    ("audit", 1024 * KIB, 300, fleet::audit),
    ("fabric", 1024 * KIB, 1500, fleet::fabric),
    ("lists", 128 * KIB, 1500, lists::run),
    ("ranks", 4096 * KIB, 2000, lists::ranks),
    ("request", 1024 * KIB, 100, request::run),
];

/// A target by its name.
pub fn named(name: &str) -> Option<Target> {
    let found = TARGETS.iter().find(|(known, ..)| *known == name)?;
    Some(found.3)
}

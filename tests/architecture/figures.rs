//! Figures of the source, for a person to compare: `cargo bench --bench figures` prints them and checks nothing.
//!
//! Lines count with blank lines and comments, and without tests: files that are compiled only for tests, and a `mod tests {`
//! at the end of a file.  Public items are functions, methods, types and constants with `pub`, without a restriction.
// the walls use more of these files than the figures do
#![allow(dead_code)]

mod circles;
mod functions;
mod source;
mod sums;
mod tree;

use crate::circles::{Step, Use, between_siblings, circles, uses};
use crate::functions::{Function, functions};
use crate::tree::{CRATES, Source, read};
use std::path::Path;

/// A function that should be cut where that is easy.
const LONG: usize = 60;

/// `FIGURES_OF` may name other source folders, separated by blanks, one for each crate.
fn main() {
    let folders = std::env::var("FIGURES_OF")
        .unwrap_or_else(|_| CRATES.map(|(_, folder, _)| folder).join(" "));
    let mut sources: Vec<Source> = Vec::new();
    for folder in folders.split_whitespace() {
        let of_crate = read(Path::new(env!("NIC_PLACEMENT_ROOT")), folder);
        let lines: usize = of_crate
            .iter()
            .map(|source| source.text.lines().count())
            .sum();
        println!("{folder}: {} files, {lines} lines", of_crate.len());
        sources.extend(of_crate);
    }
    let lines = |folders: &[&str]| -> usize {
        let product = sums::without_tests(&sources).into_iter();
        let of_folders =
            product.filter(|(source, _)| folders.is_empty() || folders.contains(&&*source.folder));
        of_folders.map(|(_, lines)| lines.len()).sum()
    };
    let nameless: usize = sources
        .iter()
        .map(|source| sums::nameless_comments(&source.text).len())
        .sum();
    println!(
        "{:>6} lines without tests in what slurmstepd maps",
        lines(&sums::ROOTS)
    );
    println!("{:>6} lines without tests", lines(&[]));
    println!("{:>6} public items", sums::public_items(&sources));
    println!("{nameless:>6} comments without a subject");
    println!(
        "{:>6} public types of one name in several modules",
        sums::types_of_one_name(&sources).len()
    );
    let mut long: Vec<Function> = sources
        .iter()
        .flat_map(functions)
        .filter(|f| f.lines > LONG)
        .collect();
    long.sort_by_key(|function| std::cmp::Reverse(function.lines));
    println!("{} functions have more than {LONG} lines", long.len());
    long.iter()
        .take(5)
        .for_each(|function| println!("  {function}"));
    let uses = uses(&sources);
    print_circles(
        "circles between siblings",
        &between_siblings(&sources, uses.clone()),
    );
    print_circles(
        "circles between files, with those of a parent and its child",
        &between_files(uses),
    );
}

/// Each use between its two files.
fn between_files(uses: Vec<Use>) -> Vec<Step> {
    uses.into_iter()
        .map(|by| Step {
            from: by.from.clone(),
            to: by.to.clone(),
            by,
        })
        .collect()
}

fn print_circles(of_what: &str, steps: &[Step]) {
    let found = circles(steps);
    println!("{of_what}: {}", found.len());
    for circle in found {
        circle.iter().for_each(|one| println!("  {one}"));
        println!();
    }
}

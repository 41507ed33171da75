//! The importers against a collection of real files, where one lies beside the checkout; none of it is part of the
//! project.
#![forbid(unsafe_code)]

#[path = "corpus/hwloc.rs"]
mod hwloc;

use std::path::{Path, PathBuf};

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("shared/corpus");
    beside.is_dir().then_some(beside)
}

#[test]
fn hwloc_files_are_read_as_hwloc_reads_them() {
    match corpus() {
        None => println!("skipped: no corpus beside the checkout"),
        Some(corpus) => match hwloc::run(&corpus) {
            Ok(summary) => println!("{summary}"),
            Err(problem) => panic!("{problem}"),
        },
    }
}

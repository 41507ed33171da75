//! Tests every reader on a collection of real files, if one lies beside the checkout.  The collection is not part of the
//! project.
//!
//! Prints what was read and compared, by kind.  Without the collection it says that it was skipped.
#![forbid(unsafe_code)]

#[path = "corpus/hwloc.rs"]
mod hwloc;
#[path = "corpus/nccl.rs"]
mod nccl;
#[path = "corpus/optimum.rs"]
mod optimum;
#[path = "corpus/plans.rs"]
mod plans;
#[path = "corpus/smi.rs"]
mod smi;
#[path = "corpus/sysfs.rs"]
mod sysfs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Reads the collection.  Returns a summary, or what is wrong.
type Check = fn(&Path) -> Result<String, String>;

const CHECKS: [(&str, Check); 5] = [
    ("hwloc_files_are_read_as_hwloc_reads_them", hwloc::run),
    (
        "nccl_files_are_read_as_a_naive_reader_reads_them",
        nccl::run,
    ),
    ("every_matrix_is_read_or_refused_with_a_reason", smi::run),
    ("no_plan_of_a_matrix_can_be_bettered", plans::run),
    ("captured_trees_are_read_as_hwloc_reads_them", sysfs::run),
];

fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("NIC_PLACEMENT_ROOT"))
        .parent()?
        .join("shared/corpus");
    beside.is_dir().then_some(beside)
}

fn main() -> ExitCode {
    let Some(corpus) = corpus() else {
        println!("skipped: no collection of real topologies beside the checkout");
        println!("0 passed, 0 failed, {} skipped", CHECKS.len());
        return ExitCode::SUCCESS;
    };
    let mut failed = 0;
    for (name, check) in CHECKS {
        match check(&corpus) {
            Ok(summary) => println!("ok {name}\n    {}", summary.replace('\n', "\n    ")),
            Err(problem) => {
                failed += 1;
                println!("FAILED {name}\n    {}", problem.replace('\n', "\n    "));
            }
        }
    }
    println!(
        "{} passed, {failed} failed, 0 skipped",
        CHECKS.len() - failed
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

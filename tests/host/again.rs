//! What is left of a step in the process that played it: no memory, no open file, and under valgrind no lost byte.
//!
//! In Slurm a process plays one step, so these play what Slurm does not: the same hooks many times in one process.

use super::*;

/// Steps that are placed, observed, switched off, refused, and prepared by srun.
fn steps() -> Vec<(&'static str, Step)> {
    let on = |context| Step::in_context(context).arg("machine=dgx-h100");
    vec![
        (
            "placed",
            on("remote")
                .option("closest,verbose")
                .task("CUDA_VISIBLE_DEVICES=3"),
        ),
        (
            "strict",
            on("remote")
                .option("rail,restricted,dry-run")
                .task("CUDA_VISIBLE_DEVICES=0,1"),
        ),
        (
            "observed",
            on("remote")
                .arg("default=observe")
                .task("CUDA_VISIBLE_DEVICES=0"),
        ),
        (
            "off",
            on("remote")
                .option("off")
                .task("NIC_PLACEMENT=v1 policy=x gpus= nics= set:A=b"),
        ),
        (
            "mistaken",
            on("remote")
                .arg("exclud=a")
                .option("closest,unknown")
                .task("A=1"),
        ),
        (
            "no machine",
            Step::in_context("remote")
                .arg("machine=none")
                .option("closest")
                .task("A=1"),
        ),
        ("slurmd", on("slurmd")),
    ]
}

/// Bytes and open files after a tenth of the calls and after all of them.
fn held(step: &Step, times: u32) -> Option<[u64; 4]> {
    // without its caches malloc counts what is in use, and no more
    let step = step
        .clone()
        .daemon_env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    let played = step.word("--again", times.to_string()).play()?;
    let text = played.to_string();
    let line = text
        .lines()
        .find(|line| line.starts_with("again "))
        .unwrap_or_else(|| panic!("{played}"));
    let numbers: Vec<u64> = line
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    Some(numbers.try_into().expect("four numbers"))
}

/// malloc gives a block 16 bytes more where the rest of a free one is too small to stand alone (glibc, malloc/malloc.c,
/// `MINSIZE`), so the sum depends on the order of blocks by a few of these.  What 45 or more steps leave each is more.
const ROUNDING: u64 = 256;

fn is_left(before: u64, after: u64) -> bool {
    after > before + ROUNDING
}

#[test]
fn a_thousand_steps_leave_neither_memory_nor_open_files() {
    for (name, step) in steps() {
        let Some([before, after, files_before, files_after]) = held(&step, 1000) else {
            return;
        };
        assert!(!is_left(before, after), "{name}: {before} {after}");
        assert_eq!(files_before, files_after, "{name}");
    }
}

#[test]
fn reading_a_node_leaves_neither_memory_nor_open_files() {
    let observed = Step::on_dgx_h100()
        .arg("default=observe")
        .task("CUDA_VISIBLE_DEVICES=0");
    let Some([before, after, files_before, files_after]) = held(&observed, 50) else {
        return;
    };
    assert!(!is_left(before, after), "{before} {after}");
    assert_eq!(files_before, files_after);
}

#[test]
fn valgrind_finds_no_byte_of_a_step_that_is_lost_or_not_its_own() {
    if harness::host().is_none() || !valgrind::is_there() {
        return;
    }
    let read = (
        "read",
        Step::on_dgx_h100()
            .option("closest,bind=core")
            .task("CUDA_VISIBLE_DEVICES=0"),
    );
    let srun = ("srun", Step::in_context("local").option("closest,strict"));
    for (name, step) in steps().into_iter().chain([read, srun]) {
        let leaks = [
            "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect",
            "--error-exitcode=9",
        ];
        let arguments = [&leaks[..], &["--quiet", "--trace-children=no"]].concat();
        let output = valgrind::ran(&step.word("--again", "2"), &arguments);
        let text = harness::stderr(&output);
        assert!(output.status.success() && text.is_empty(), "{name}: {text}");
    }
}

//! What is left of a step in the process that played it: no memory, no open file, and under valgrind no lost byte.
//!
//! In Slurm a process plays one step, so these play what Slurm does not: the same hooks many times in one process.

use super::*;

/// Steps that are placed, observed, switched off, refused, and prepared by srun.
fn steps() -> Vec<(&'static str, Step)> {
    let remote = |words: &str| Step::in_context("remote").with(words);
    let on = |words: &str| remote(&format!("--arg machine=dgx-h100 {words}"));
    let off = on("--option off").task("NIC_PLACEMENT=v1 policy=x gpus= nics= set:A=b");
    let mistaken = on("--arg exclud=a --option closest,unknown --task A=1");
    let nowhere = remote("--arg machine=none --option closest --task A=1");
    vec![
        ("placed", on("--option closest,verbose --gpu 3")),
        ("strict", on("--option rail,restricted,dry-run --gpu 0,1")),
        ("observed", on("--arg default=observe --gpu 0")),
        ("off", off),
        ("mistaken", mistaken),
        ("no machine", nowhere),
        ("slurmd", Step::in_context("slurmd").arg("machine=dgx-h100")),
    ]
}

/// Bytes and open files after a tenth of the calls and after all of them.
fn held(step: &Step, times: u32) -> [u64; 4] {
    // without its caches malloc counts no more than is in use
    let step = step.clone();
    let step = step.daemon_env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    let played = step.word("--again", times.to_string()).play();
    let line = played.text.lines().find(|line| line.starts_with("again "));
    let line = line.expect("its figures");
    let numbers = line.split(' ');
    let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().expect("four numbers")
}

/// malloc gives a block 16 bytes more where the rest of a free one is too small to stand alone (glibc, malloc/malloc.c,
/// `MINSIZE`), so the sum depends on the order of blocks by a few of these.  What 45 or more steps leave each is more.
const ROUNDING: u64 = 256;

fn is_left(before: u64, after: u64) -> bool {
    after > before + ROUNDING
}

#[test]
fn steps_and_readings_of_a_node_leave_neither_memory_nor_open_files() {
    let read = dgx("--arg default=observe --gpu 0");
    let all = steps().into_iter().map(|(name, step)| (name, step, 1000));
    for (name, step, times) in all.chain([("read", read, 50)]) {
        let [before, after, files_before, files_after] = held(&step, times);
        assert!(!is_left(before, after), "{name}: {before} {after}");
        assert_eq!(files_before, files_after, "{name}");
    }
}

#[test]
fn valgrind_finds_no_byte_of_a_step_that_is_lost_or_not_its_own() {
    if !valgrind::is_there() {
        return;
    }
    let read = ("read", dgx("--option closest,bind=core --gpu 0"));
    let srun = ("srun", Step::in_context("local").option("closest,strict"));
    let arguments = "--leak-check=full --errors-for-leak-kinds=definite,indirect --error-exitcode=9 --quiet --trace-children=no";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    for (name, step) in steps().into_iter().chain([read, srun]) {
        let output = valgrind::ran(&step.word("--again", "2"), &arguments);
        let text = harness::stderr(&output);
        assert!(output.status.success() && text.is_empty(), "{name}: {text}");
    }
}

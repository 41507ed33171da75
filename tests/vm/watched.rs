//! The watch over guests, with played.sh in place of boot.sh, so that it needs no emulator; and one guest under qemu that
//! really says nothing.

use super::boot::{Boot, CANNOT, Ran, Watch, unwanted};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn tests() -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/vm")
}

/// What has been told on the terminal, of all tests: each looks for its guests' names.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn told(guest: &str) -> String {
    TOLD.lock()
        .unwrap()
        .iter()
        .filter(|line| line.contains(guest))
        .cloned()
        .collect::<Vec<_>>()
        .join("\n")
}

fn watch(boot: &str, silent: Duration) -> Watch {
    let tell = |line: &str| TOLD.lock().unwrap().push(line.to_string());
    Watch {
        boot: tests().join(boot),
        silent,
        told: Duration::from_millis(500),
        tell,
    }
}

fn guest(name: &str, more: (&'static str, &str)) -> Boot {
    Boot {
        machine: "four-nodes",
        program: "busybox".into(),
        arguments: vec!["true".to_string()],
        also: String::new(),
        out: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name),
        more: vec![(more.0, more.1.to_string())],
    }
}

/// Guests that are played: their names, and what becomes of each with each start (played.sh).
fn played(guests: &[(&str, &str)]) -> Ran {
    let boots: Vec<Boot> = guests
        .iter()
        .map(|(name, plays)| guest(name, ("PLAYS", plays)))
        .collect();
    for boot in &boots {
        let _ = std::fs::remove_file(boot.out.with_extension("starts"));
    }
    watch("played.sh", Duration::from_secs(2)).run(&boots)
}

/// The status of each, and how often they were started.
fn ends(ran: &Ran) -> (Vec<Option<i32>>, u32) {
    (
        ran.outputs
            .iter()
            .map(|output| output.status.code())
            .collect(),
        ran.starts,
    )
}

#[test]
fn a_guest_that_says_nothing_is_ended_and_started_anew_and_one_that_says_something_is_not() {
    let ran = played(&[("played-once", "silent works")]);
    assert_eq!(ends(&ran), (vec![Some(0)], 2));
    let said = told("played-once");
    assert!(
        said.contains("played-once says nothing, and is ended"),
        "{said}"
    );
    assert!(
        said.contains("started anew: played-once: the last line"),
        "{said}"
    );
    // longer than a guest may be silent
    assert_eq!(
        ends(&played(&[("played-works", "works")])),
        (vec![Some(0)], 1)
    );
    assert!(!told("played-works").contains("ended"));
}

#[test]
fn a_guest_that_says_nothing_twice_has_failed_with_its_last_lines() {
    let begun = Instant::now();
    let ran = played(&[("played-silent", "silent silent works")]);
    assert_eq!(ends(&ran), (vec![Some(125)], 2));
    let last = String::from_utf8_lossy(&ran.outputs[0].stderr).into_owned();
    assert!(last.contains("the last line"), "{last}");
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_pair_of_which_one_dies_is_ended_and_started_anew_together() {
    let ran = played(&[("played-n0", "waits works"), ("played-n1", "dies works")]);
    assert_eq!(ends(&ran), (vec![Some(0), Some(0)], 2));
    let said = told("played-n0");
    assert!(
        said.contains("played-n0 has no pair, and is ended"),
        "{said}"
    );
    assert!(
        told("played-n1").contains("started anew: played-n1: the last line"),
        "{}",
        told("played-n1")
    );
}

#[test]
fn a_program_that_fails_ends_its_guests_pair_and_nothing_is_started_anew() {
    let ran = played(&[
        ("played-good", "waits works"),
        ("played-bad", "fails works"),
    ]);
    assert_eq!(ends(&ran), (vec![Some(125), Some(3)], 1));
    assert_eq!(ran.failed, Some(1));
}

#[test]
fn a_guest_whose_pair_has_ended_well_has_time_to_end_too_and_no_more() {
    assert_eq!(
        ends(&played(&[
            ("played-first", "ends"),
            ("played-last", "works")
        ])),
        (vec![Some(0), Some(0)], 1)
    );
    let begun = Instant::now();
    let ran = played(&[
        ("played-gone", "ends ends"),
        ("played-stays", "waits waits"),
    ]);
    assert_eq!(ends(&ran), (vec![Some(0), Some(125)], 2));
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn it_is_told_what_is_awaited_since_when_and_how_long_it_may_take() {
    played(&[("played-awaited", "works")]);
    let said = told("played-awaited");
    assert!(
        said.contains("s of 900: a command, 120 s at most; since "),
        "{said}"
    );
}

#[test]
fn a_guest_under_qemu_whose_cpus_stand_still_is_ended() {
    let skipped = |reason: &str| println!("skipped: no guest under qemu: {reason}");
    if let Some(reason) = unwanted() {
        return skipped(&reason);
    }
    let ran = watch("boot.sh", Duration::from_secs(2)).run(&[guest("vm-still", ("VM_QEMU", "-S"))]);
    let said = String::from_utf8_lossy(&ran.outputs[0].stderr).into_owned();
    if ran.outputs[0].status.code() == Some(CANNOT) {
        return skipped(said.trim_end());
    }
    assert_eq!(ends(&ran), (vec![Some(125)], 2), "{said}");
    assert!(
        told("vm-still").contains("vm-still says nothing, and is ended"),
        "{}",
        told("vm-still")
    );
}

//! The watch over guests, with played.sh in place of boot.sh, so that it needs no emulator; and one guest under qemu that
//! really says nothing.

use super::guest::{cannot, skipped};
use super::testing::boot::{Boot, here, unwanted};
use super::testing::watch::{Ran, Watch};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// All that has been told on the terminal, of all tests: each looks for its guests' names.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Was this told of a guest?
#[track_caller]
fn assert_told(guest: &str, text: &str, is_told: bool) {
    let told = TOLD.lock().unwrap();
    let mut of = told.iter().filter(|line| line.contains(guest));
    let found = of.any(|line| line.contains(text));
    assert_eq!(found, is_told, "{guest}: {told:#?}");
}

fn watch(boot: &str, silent: Duration) -> Watch {
    Watch {
        boot: here().join("tests/vm").join(boot),
        silent,
        told: Duration::from_millis(500),
        tell: |line| TOLD.lock().unwrap().push(line.to_string()),
    }
}

fn guest(name: &str, more: (&'static str, &str)) -> Boot {
    Boot {
        arguments: vec!["true".to_string()],
        more: vec![(more.0, more.1.to_string())],
        ..Boot::of("four-nodes", "busybox", name)
    }
}

/// Guests that are played: their names, and the fate of each with each start (played.sh).
fn played(guests: &[(&str, &str)]) -> Ran {
    let boots = guests
        .iter()
        .map(|(name, plays)| guest(name, ("PLAYS", plays)));
    let boots: Vec<Boot> = boots.collect();
    for boot in &boots {
        let _ = std::fs::remove_file(boot.out.with_extension("starts"));
    }
    watch("played.sh", Duration::from_secs(2)).run(&boots)
}

/// They ended so, and were started so often.
#[track_caller]
fn assert_ended(ran: &Ran, codes: &[i32], starts: u32) {
    let found: Vec<_> = ran
        .outputs
        .iter()
        .flat_map(|output| output.status.code())
        .collect();
    assert_eq!((&*found, ran.starts), (codes, starts), "{:?}", ran.outputs);
}

#[test]
fn a_guest_that_says_nothing_is_ended_and_started_anew_and_one_that_says_something_is_not() {
    assert_ended(&played(&[("played-once", "silent works")]), &[0], 2);
    assert_told("played-once", "once says nothing, and is ended", true);
    assert_told("played-once", "anew: played-once: the last line", true);
    // longer than a guest may be silent
    assert_ended(&played(&[("played-works", "works")]), &[0], 1);
    assert_told("played-works", "ended", false);
}

#[test]
fn a_guest_that_says_nothing_twice_has_failed_with_its_last_lines() {
    let begun = Instant::now();
    let ran = played(&[("played-silent", "silent silent works")]);
    assert_ended(&ran, &[125], 2);
    let last = String::from_utf8_lossy(&ran.outputs[0].stderr);
    assert!(last.contains("the last line"), "{last}");
    let is_so = begun.elapsed() < Duration::from_secs(30);
    assert!(is_so, "{:?}", begun.elapsed());
}

#[test]
fn a_pair_of_which_one_dies_is_ended_and_started_anew_together() {
    let ran = played(&[("played-n0", "waits works"), ("played-n1", "dies works")]);
    assert_ended(&ran, &[0, 0], 2);
    assert_told("played-n0", "n0 has no pair, and is ended", true);
    assert_told("played-n1", "anew: played-n1: the last line", true);
}

#[test]
fn a_program_that_fails_ends_its_guests_pair_and_nothing_is_started_anew() {
    let ran = played(&[
        ("played-good", "waits works"),
        ("played-bad", "fails works"),
    ]);
    assert_ended(&ran, &[125, 3], 1);
    assert_eq!(ran.failed, Some(1));
}

#[test]
fn a_guest_whose_pair_has_ended_well_has_time_to_end_too_and_no_more() {
    let ran = played(&[("played-first", "ends"), ("played-last", "works")]);
    assert_ended(&ran, &[0, 0], 1);
    let begun = Instant::now();
    let ran = played(&[
        ("played-gone", "ends ends"),
        ("played-stays", "waits waits"),
    ]);
    assert_ended(&ran, &[0, 125], 2);
    let is_so = begun.elapsed() < Duration::from_secs(30);
    assert!(is_so, "{:?}", begun.elapsed());
}

#[test]
fn it_is_told_what_is_awaited_since_when_and_how_long_it_may_take() {
    played(&[("played-awaited", "works")]);
    let awaited = "s of 900: a command, 120 s at most; since ";
    assert_told("played-awaited", awaited, true);
}

#[test]
fn a_guest_under_qemu_whose_cpus_stand_still_is_ended() {
    if let Some(reason) = unwanted() {
        return skipped(&reason);
    }
    let ran = watch("boot.sh", Duration::from_secs(2)).run(&[guest("vm-still", ("VM_QEMU", "-S"))]);
    if let Some(reason) = cannot(&ran.outputs[0]) {
        return skipped(&reason);
    }
    assert_ended(&ran, &[125], 2);
    assert_told("vm-still", "still says nothing, and is ended", true);
}

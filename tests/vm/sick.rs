//! A card whose firmware does not answer, on a real kernel: a process that reads the node waits for it and cannot be ended;
//! a step with the node file does not notice.

use super::guest::{cannot, skipped, tool};
use super::harness;
use super::testing::boot::{Boot, here, unwanted};
use nic_placement_core::topology::{PortState, Provenance};
use nic_placement_node::cache;
use std::fs;
use std::path::PathBuf;

/// The output of sick.sh, and its folder; `None` where there can be no guest.
fn played() -> Option<(String, PathBuf)> {
    if let Some(reason) = unwanted() {
        skipped(&reason);
        return None;
    }
    let also = [harness::host()?, &tool(), &harness::plugin()];
    let also = also.map(|file| file.to_str().expect("a path in UTF-8").to_string());
    let boot = Boot {
        also: also.join(":"),
        ..Boot::of("four-nodes", here().join("tests/vm/sick.sh"), "vm-sick")
    };
    let ran = boot.run();
    if let Some(reason) = cannot(&ran) {
        skipped(&reason);
        return None;
    }
    let [said, errors] = [&ran.stdout, &ran.stderr].map(|said| String::from_utf8_lossy(said));
    println!("{said}");
    assert!(ran.status.success(), "{}\n{said}{errors}", ran.status);
    Some((said.into_owned(), boot.out))
}

/// What one answer of a sick card takes, as sick.sh makes it.
const ONE_ANSWER_MS: u64 = 60_000;

/// The milliseconds of `WHAT: status 0 after N ms`.
fn took(said: &str, what: &str) -> u64 {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix(what)?.strip_prefix(": status 0 after "));
    let ms = line.and_then(|rest| rest.strip_suffix(" ms")?.parse().ok());
    ms.unwrap_or_else(|| panic!("`{what}` did not end well:\n{said}"))
}

#[test]
fn a_card_that_does_not_answer_holds_up_who_reads_the_node_and_no_step_with_the_node_file() {
    let Some((said, out)) = played() else { return };
    let bytes = |name: &str| fs::read(out.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let file = |name: &str| String::from_utf8(bytes(name)).expect("text");
    let node = |name: &str| cache::from_bytes(&bytes(name), Provenance::ThisSystem).unwrap();
    let has = |name: &str, text: &str| {
        let found = file(name);
        assert!(found.contains(text), "{name}: {text}\n{found}");
    };
    println!(
        "the step on the sick node:\n{}",
        file("step-sick-times.out")
    );

    // a reader of the node waits, uninterruptibly, and a second refresh does not join it
    for waits in [
        "show and refresh: waits\n",
        "killed, after another second: waits\n",
        "second-refresh: status 1 after",
    ] {
        assert!(said.contains(waits), "{waits}\n{said}");
    }
    has("second-refresh.out", "another refresh writes");
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}\n{said}"));
    for waited in ["step-sick-live: status", "\nlive-sick: status"] {
        // not before the card was well
        assert!(at(waited) > at("step-sick-file"), "{waited}\n{said}");
    }

    // with the file a step asks no card, each of whose answers takes a minute, and gets the same
    let (well, sick) = (took(&said, "step-well-file"), took(&said, "step-sick-file"));
    assert!(sick < ONE_ANSWER_MS, "{sick} ms, else {well}\n{said}");
    let environment = |name: &str| -> Vec<String> {
        let lines = file(name);
        let is_task = |line: &&str| line.starts_with("task ") && line.contains(": env ");
        lines.lines().filter(is_task).map(str::to_string).collect()
    };
    let live = environment("step-well-live.out");
    assert!(!live.is_empty());
    for name in ["step-well-file.out", "step-sick-file.out"] {
        assert_eq!(environment(name), live, "{name}");
        has(name, "the node from `/run/nic-placement/node.cache`");
    }

    // the watcher, on real rtnetlink
    assert!(said.contains("link: in the file after "), "{said}");
    assert_eq!(node("before-link.cache").links["eth0"], "unknown");
    let after = node("after-link.cache");
    let found = &after.links["eth0"];
    assert_eq!(found, "down", "{}", file("watch.out"));
    let told = "port 1: the link of `eth0` is down";
    has("step-link-lost.out", told);
    assert!(!file("step-after-link.out").contains(told));
    let nics = node("node.cache").topology.nics.into_iter();
    let ports = nics.flat_map(|nic| nic.ports);
    assert!(ports.filter(|port| port.state == PortState::Active).count() > 3);
}

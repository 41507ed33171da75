//! A card whose firmware does not answer, on a real kernel: a process that reads the node waits for it and cannot be ended;
//! a step with the node file does not notice.

use super::boot::{Boot, CANNOT, unwanted};
use super::harness;
use nic_placement_core::topology::{PortState, Provenance};
use nic_placement_node::cache;
use std::fs;
use std::path::{Path, PathBuf};

/// What sick.sh said, and its folder; `None` where there can be no guest.
fn played() -> Option<(String, PathBuf)> {
    let skipped = |reason: &str| println!("skipped: no guest under qemu: {reason}");
    if let Some(reason) = unwanted() {
        skipped(&reason);
        return None;
    }
    let host = harness::host()?;
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("vm-sick");
    let tests = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests");
    let also = [
        Path::new(env!("CARGO_BIN_EXE_nic-placement")),
        host,
        &harness::plugin(),
    ];
    let also = also
        .map(|file| file.to_str().expect("a path in UTF-8").to_string())
        .join(":");
    let program = tests.join("vm/sick.sh");
    let boot = Boot {
        machine: "four-nodes",
        program,
        arguments: Vec::new(),
        also,
        out: out.clone(),
        more: Vec::new(),
    };
    let ran = boot.run();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ran.stderr);
    if ran.status.code() == Some(CANNOT) {
        skipped(errors.trim_end());
        return None;
    }
    println!("{said}");
    assert!(ran.status.success(), "{}\n{said}{errors}", ran.status);
    Some((said, out))
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
    let file = |name: &str| {
        fs::read_to_string(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let node = |name: &str| {
        let bytes = fs::read(out.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        cache::from_bytes(&bytes, Provenance::ThisSystem).unwrap()
    };
    println!(
        "with the file, on the sick node, emulated:\n{}",
        file("step-sick-times.out")
    );

    // a reader of the node waits, uninterruptibly, and a second refresh does not join it
    for waits in [
        "show and refresh: waits\n",
        "killed, after another second: waits\n",
    ] {
        assert!(said.contains(waits), "{waits}\n{said}");
    }
    assert!(said.contains("second-refresh: status 1 after"), "{said}");
    assert!(
        file("second-refresh.out").contains("another refresh writes"),
        "{}",
        file("second-refresh.out")
    );
    for waited in ["step-sick-live", "live-sick"] {
        let line = said
            .lines()
            .find(|line| line.starts_with(&format!("{waited}: status")))
            .unwrap();
        let at = |what: &str| said.find(what).unwrap();
        assert!(
            at(line) > at("step-sick-file"),
            "`{waited}` ended before the card was well\n{said}"
        );
    }

    // with the file a step asks no card, each of whose answers takes a minute, and gets the same
    let (well, sick) = (took(&said, "step-well-file"), took(&said, "step-sick-file"));
    assert!(
        sick < ONE_ANSWER_MS,
        "{sick} ms, and {well} ms on the node that is well\n{said}"
    );
    let environment = |name: &str| {
        let lines = file(name);
        let task = |line: &&str| line.starts_with("task ") && line.contains(": env ");
        lines
            .lines()
            .filter(task)
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert!(!environment("step-well-live.out").is_empty());
    for name in ["step-well-file.out", "step-sick-file.out"] {
        assert_eq!(
            environment(name),
            environment("step-well-live.out"),
            "{name}"
        );
        assert!(
            file(name).contains("the node from `/run/nic-placement/node.cache`"),
            "{}",
            file(name)
        );
    }

    // the watcher, on real rtnetlink
    assert!(said.contains("link: in the file after "), "{said}");
    assert_eq!(node("before-link.cache").links["eth0"], "unknown");
    assert_eq!(
        node("after-link.cache").links["eth0"],
        "down",
        "{said}{}",
        file("watch.out")
    );
    let (after, lost) = (file("step-after-link.out"), file("step-link-lost.out"));
    let told = "port 1: the link of `eth0` is down";
    assert!(
        lost.contains(told) && !after.contains(told),
        "{after}{lost}"
    );
    let ports = node("node.cache")
        .topology
        .nics
        .into_iter()
        .flat_map(|nic| nic.ports);
    assert!(ports.filter(|port| port.state == PortState::Active).count() > 3);
}

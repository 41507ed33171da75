//! `check` for scripts: its statuses, and `--health`, which prints one line or nothing and ends whatever it waits for.

use super::{Place, run};
use nic_placement_cli::audit::report::{Level, Report};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn machine(name: &str) -> String {
    let place = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/machines/check").join(name);
    place.to_str().unwrap().to_string()
}

fn said(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_status_tells_the_worst_and_a_check_that_is_left_out_does_not_count() {
    let (healthy, sick) = (machine("healthy.machine"), machine("sick.machine"));
    let status = |arguments: &[&str]| run(&[&["check"], arguments].concat()).status.code();
    assert_eq!(status(&["--topology", &healthy]), Some(0));
    assert_eq!(status(&["--topology", &sick]), Some(4));
    assert_eq!(status(&["--topology", &sick, "--json"]), Some(4));
    assert_eq!(status(&["--topology", &sick, "--off", "pcie-link"]), Some(3));
    assert_eq!(status(&["--topology", &sick, "--off", "pcie-link,gpudirect,acs,port-range"]), Some(0));
    assert_eq!(status(&["--topology", &sick, "--only", "read-request"]), Some(0));
    assert_eq!(status(&["--topology", "/nowhere"]), Some(1));
    assert_eq!(status(&["--off", "nothing"]), Some(2));
}

#[test]
fn health_prints_one_plain_line_for_what_fails_and_nothing_else() {
    let (healthy, sick) = (machine("healthy.machine"), machine("sick.machine"));
    let health = |of: &str, more: &[&str]| run(&[&["check", "--health", "--topology", of], more].concat());
    assert_eq!(said(&health(&healthy, &[])), (Some(0), "", ""));
    assert_eq!(said(&health(&sick, &[])), (Some(4), "nic-placement: pcie-link 0000:85:00.0\n", ""));
    // a warn drains no node
    assert_eq!(said(&health(&sick, &["--off", "pcie-link"])), (Some(0), "", ""));
    assert_eq!(said(&health(&sick, &["--only", "acs"])), (Some(0), "", ""));
    let absent = health("/nowhere", &[]);
    assert_eq!((absent.status.code(), absent.stdout.len()), (Some(1), 0), "no verdict is no reason to drain");
}

/// A program that a check asks and that never answers stands for hardware that does not.
#[test]
fn health_ends_though_what_it_asks_never_answers() {
    let place = Place::new("health");
    let told = place.0.join("pid");
    let srun = place.file("srun", &format!("#!/bin/sh\necho $$ > '{}'\nexec sleep 100000\n", told.display()));
    std::fs::set_permissions(&srun, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.0.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    let output = command.args(["check", "--health", "--within", "3"]).env("PATH", path).output().unwrap();
    let expected = "nic-placement: no answer within 3 s, hardware that does not answer?\n";
    let waited = std::fs::read_to_string(&told);
    if let Ok(process) = &waited {
        let _ = Command::new("kill").args(["-KILL", process.trim()]).status();
    }
    assert!(waited.is_ok(), "it was never asked: {output:?}");
    assert_eq!(said(&output), (Some(4), expected, ""));
}

#[test]
fn a_report_of_version_1_is_read_and_its_wrong_is_a_fail() {
    let text = run(&["check", "--json", "--topology", &machine("sick.machine")]).stdout;
    let text = String::from_utf8(text).unwrap();
    let report = Report::from_json(text.as_bytes()).unwrap();
    assert_eq!((report.fail, report.warn), (1, 3));
    let first = r#"{"format":"nic-placement check","version":1,"host":"n1","machine":"m","source":"s","wrong":1,
        "findings":[{"level":"wrong","code":"nic-broken","text":"x"}],"processor":null,"numa_nodes":[],"gpus":[],"nics":[]}"#;
    let old = Report::from_json(first.as_bytes()).unwrap();
    assert_eq!((old.fail, old.warn, old.findings[0].level), (1, 0, Level::Fail));
}

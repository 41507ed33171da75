//! The units of systemd, held to systemd and to the tool.

use super::{path, read, tool};
use std::fs;
use std::process::Command;

const UNITS: [&str; 3] = [
    "nic-placement-refresh.service",
    "nic-placement-refresh.timer",
    "nic-placement-watch.service",
];

fn unit(name: &str) -> String {
    read(&format!("packaging/systemd/{name}"))
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let is_there = Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok();
    if !is_there {
        return println!("skipped: there is no `systemd-analyze`");
    }
    let folder = path(env!("CARGO_TARGET_TMPDIR")).join(format!("units-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for name in UNITS {
        // as `make install` does: systemd asks whether the program is there
        let text = unit(name).replace(
            "/usr/local/bin/nic-placement",
            env!("CARGO_BIN_EXE_nic-placement"),
        );
        fs::write(folder.join(name), text).unwrap();
    }
    let files = UNITS.map(|name| folder.join(name));
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(files)
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // other units of this machine's are no business of ours
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("nic-placement"))
        .collect();
    assert!(ours.is_empty() && output.status.success(), "{said}");
}

// the units may write to one folder, and to no other without a word
#[test]
fn the_drop_in_for_metrics_replaces_the_units_command_and_opens_the_folder_that_it_writes_to() {
    let page = read("docs/measure.md");
    let drop_in = page
        .split("```ini\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("a drop-in");
    let line = |of: &str, name: &str| {
        of.lines()
            .filter_map(|line| line.strip_prefix(name))
            .next_back()
            .map(str::to_string)
    };
    assert!(
        drop_in.contains("\n[Service]\nExecStart=\nExecStart=/"),
        "{drop_in}"
    );
    let command = line(drop_in, "ExecStart=").unwrap();
    let (same, file) = command.split_once(" --textfile ").unwrap();
    for name in [
        "nic-placement-refresh.service",
        "nic-placement-watch.service",
    ] {
        let unit = unit(name);
        assert!(
            unit.contains("\nProtectSystem=strict\n")
                && unit.contains("\nCapabilityBoundingSet=\n")
        );
    }
    assert_eq!(
        line(&unit("nic-placement-refresh.service"), "ExecStart=").as_deref(),
        Some(same)
    );
    assert_eq!(
        file.rsplit_once('/').unwrap().0,
        line(drop_in, "ReadWritePaths=").unwrap()
    );
    assert!(tool(&["refresh", "-h"]).contains("--textfile") && file.ends_with(".prom"));
}

#[test]
fn the_units_run_what_the_tool_knows() {
    let help = tool(&["refresh", "-h"]);
    let mut run = 0;
    for name in UNITS {
        for line in unit(name)
            .lines()
            .filter_map(|line| line.strip_prefix("ExecStart="))
        {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(
                words[..2],
                ["/usr/local/bin/nic-placement", "refresh"],
                "{name}"
            );
            assert!(
                words[2..].iter().all(|word| help.contains(word)),
                "{name}: {line}\n{help}"
            );
            run += 1;
        }
    }
    assert_eq!(run, 2);
}

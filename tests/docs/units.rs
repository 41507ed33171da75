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
    let mut analyze = Command::new("systemd-analyze");
    if analyze.arg("--version").output().is_err() {
        return println!("skipped: there is no `systemd-analyze`");
    }
    let folder = path(env!("CARGO_TARGET_TMPDIR")).join(format!("units-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for name in UNITS {
        // as `make install` does: systemd asks whether the program is there
        let tool = env!("CARGO_BIN_EXE_nic-placement");
        let text = unit(name).replace("/usr/local/bin/nic-placement", tool);
        fs::write(folder.join(name), text).unwrap();
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["verify", "--man=no"]);
    analyze.args(UNITS.map(|name| folder.join(name)));
    let output = analyze.output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // other units of this machine's are no business of ours
    let is_so = !said.contains("nic-placement") && output.status.success();
    assert!(is_so, "{said}");
}

// the units may write to one folder, and to no other without a word
#[test]
fn the_drop_in_for_metrics_replaces_the_units_command_and_opens_the_folder_that_it_writes_to() {
    let page = read("docs/measure.md");
    let mut drop_in = page.split("```ini\n");
    let drop_in = drop_in.nth(1).and_then(|rest| rest.split("```").next());
    let drop_in = drop_in.expect("a drop-in");
    let line = |of: &str, name: &str| {
        let mut lines = of.lines().filter_map(|line| line.strip_prefix(name));
        lines.next_back().map(str::to_string)
    };
    let is_so = drop_in.contains("\n[Service]\nExecStart=\nExecStart=/");
    assert!(is_so, "{drop_in}");
    let command = line(drop_in, "ExecStart=").unwrap();
    let (same, file) = command.split_once(" --textfile ").unwrap();
    for name in "nic-placement-refresh.service nic-placement-watch.service".split(' ') {
        for wall in ["\nProtectSystem=strict\n", "\nCapabilityBoundingSet=\n"] {
            assert!(unit(name).contains(wall), "{name}: {wall}");
        }
    }
    let own = line(&unit("nic-placement-refresh.service"), "ExecStart=");
    assert_eq!(own.as_deref(), Some(same));
    let folder = line(drop_in, "ReadWritePaths=").unwrap();
    assert_eq!(file.rsplit_once('/').unwrap().0, folder);
    assert!(tool("refresh -h").contains("--textfile") && file.ends_with(".prom"));
}

#[test]
fn the_units_run_what_the_tool_knows() {
    let help = tool("refresh -h");
    let units = UNITS.map(unit).concat();
    let starts = units.lines();
    let starts = starts.filter_map(|line| line.strip_prefix("ExecStart="));
    let starts: Vec<Vec<&str>> = starts.map(|line| line.split(' ').collect()).collect();
    assert_eq!(starts.len(), 2);
    for words in starts {
        assert_eq!(words[..2], ["/usr/local/bin/nic-placement", "refresh"]);
        let unknown = words[2..].iter().find(|word| !help.contains(*word));
        assert_eq!(unknown, None, "{help}");
    }
}

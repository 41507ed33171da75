//! What a command does not understand: one line says so, and nothing is printed.

use crate::{Place, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn refused(arguments: &[&str], status: i32, problem: &str) {
    let arguments = [&["map", "--machine", "dgx-h100"][..], arguments].concat();
    let output = run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(said.contains(problem) && said.lines().count() == 1, "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

fn printed(arguments: &[&str]) -> String {
    let output = run(&[&["map", "--machine", "dgx-h100"][..], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_map_gives_each_process_cores_of_its_own_and_takes_no_other_binding() {
    for words in ["bind=numa", "bind=none", "rail,bind=auto"] {
        for format in ["openmpi", "json"] {
            let problem = format!("`--words {words}`: `map` knows `bind=core` alone");
            refused(&["--format", format, "--words", words], 2, &problem);
        }
    }
    let openmpi = ["--format", "openmpi"];
    assert_eq!(printed(&[&openmpi[..], &["--words", "bind=core"]].concat()), printed(&openmpi));
}

#[test]
fn a_host_s_name_is_one_word() {
    for name in ["", " ", "n1 slots=8", "n1\nrank 9=n2 slots=0", "n1\t", "n1\u{a0}", "n1\x1b[2J"] {
        refused(&["--format", "openmpi", "--host", name], 2, "--host");
    }
    for name in ["n1", "node-17.example.org", "10.0.0.7", "fe80::1", "+n0"] {
        assert!(printed(&["--format", "openmpi", "--host", name]).contains(&format!("={name} ")), "{name}");
    }
}

#[test]
fn a_list_of_gpus_has_no_empty_word() {
    for list in ["", ",", "0,,1", "0,", " "] {
        refused(&["--gpus", list], 1, "`--gpus`: ");
    }
}

#[test]
fn check_says_how_a_switch_is_written_that_is_read_as_off() {
    let place = Place::new("odd-switch");
    let conf =
        place.file("c", "\u{feff}default=closest\nNodeName=ALL Disabled\nPartitionName=p default = off\n");
    fs::set_permissions(&conf, Permissions::from_mode(0o644)).unwrap();
    if fs::metadata(&conf).unwrap().uid() != 0 {
        return println!("skipped: the plugin takes root's file alone");
    }
    let line = place.file("plugstack.conf", &format!("optional libnic_placement.so conf={conf}\n"));
    let output = run(&["check", "--json", "--machine", "dgx-h100", "--plugstack", &line]);
    let said = String::from_utf8(output.stdout).unwrap();
    for words in [
        "c:2`: `NodeName=ALL` is no node's name: for all nodes leave it out; for all nodes it is read as off: write `disable`",
        "c:3: default = off`: is read as off: write `default=off`",
        "disabled by `disable` in",
    ] {
        assert!(said.contains(words), "no `{words}`: {said}");
    }
}

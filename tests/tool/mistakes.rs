//! What a command does not understand: one line says so, and nothing is printed.

use crate::run;

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

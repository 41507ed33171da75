//! What a release consists of is the same bytes wherever and whenever a commit is made into one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn printed(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Clones of this checkout in two folders, whose names differ in length; none where it is no checkout.
pub fn clones(name: &str) -> Option<[PathBuf; 2]> {
    let root = Path::new(env!("NIC_PLACEMENT_ROOT"));
    if !root.join(".git").exists() {
        println!("skipped: this is no checkout of git");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    Some(["a", "a-longer-name/of-another-folder"].map(|below| {
        let clone = folder.join(below);
        printed(
            Command::new("git")
                .args(["clone", "-q", "--shared"])
                .arg(root)
                .arg(&clone),
        );
        clone
    }))
}

/// `make dist` by that command line: the files' names and bytes.
pub fn made(clone: &Path, line: &str, variables: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(clone)
        .envs(variables.iter().copied());
    // the tests' own make would hand down its words
    printed(command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL"));
    let dist = clone.join("target/dist");
    printed(
        Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(&dist),
    );
    let files = fs::read_dir(&dist).unwrap().map(|entry| entry.unwrap());
    files
        .map(|file| {
            (
                file.file_name().into_string().unwrap(),
                fs::read(file.path()).unwrap(),
            )
        })
        .collect()
}

/// Names the files that differ, not their bytes.
pub fn assert_same(first: &BTreeMap<String, Vec<u8>>, second: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        second.keys().collect::<Vec<_>>()
    );
    let differ: Vec<_> = first
        .keys()
        .filter(|name| first[*name] != second[*name])
        .collect();
    assert!(differ.is_empty(), "{differ:?} differ");
}

//! What a release consists of is the same bytes wherever and whenever a commit is made into one.

use super::answer::{Answer, checkout};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Clones of this checkout in two folders, whose names differ in length; none where it is no checkout.
pub fn clones(name: &str) -> Option<[PathBuf; 2]> {
    let root = checkout("");
    if !root.join(".git").exists() {
        println!("skipped: no checkout of git");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    Some(["a", "a-longer-name/of-another-folder"].map(|below| {
        let clone = folder.join(below);
        let mut git = Command::new("git");
        Answer::of(git.args(["clone", "-q", "--shared"]).arg(&root).arg(&clone)).ends(0);
        clone
    }))
}

/// `make dist` by that command line: the files' names and bytes.
pub fn made(clone: &Path, line: &str, variables: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(clone);
    command.envs(variables.iter().copied());
    // the tests' own make would hand down its words
    Answer::of(command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL")).ends(0);
    let dist = clone.join("target/dist");
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"]);
    Answer::of(sums.current_dir(&dist)).ends(0);
    let files = fs::read_dir(&dist).unwrap().map(|entry| entry.unwrap());
    let named = files.map(|file| {
        let name = file.file_name().into_string().unwrap();
        (name, fs::read(file.path()).unwrap())
    });
    named.collect()
}

/// Names the files that differ, not their bytes.
pub fn assert_same(first: &BTreeMap<String, Vec<u8>>, second: &BTreeMap<String, Vec<u8>>) {
    let names = |of: &BTreeMap<String, Vec<u8>>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(first), names(second));
    let differs = first.keys().find(|name| first[*name] != second[*name]);
    assert_eq!(differs, None);
}

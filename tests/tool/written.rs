//! Where a command writes its file, and what it leaves alone.

use super::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};

/// Each command that writes a file, without the file's name.
const WRITERS: [&str; 3] = [
    "import --live -o",
    "refresh -o",
    "map --machine dgx-h100 -o",
];

fn writer(words: &str, file: impl AsRef<OsStr>) -> Answer {
    Answer::of(tool().args(words.split(' ')).arg(file))
}

#[track_caller]
fn refused(words: &str, place: &str, why: &str) {
    let answer = writer(words, place);
    let last = answer.ends(1).err.lines().last().unwrap_or_default();
    assert!(last.contains(&format!("`{place}` is {why}")), "{answer}");
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn mode(file: &str) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_is_no_regular_file_is_not_replaced_and_a_folder_that_does_not_exist_is_not_made() {
    let place = Place::new("odd");
    place.file("folder/target", "kept");
    let at = |name: &str| place.at(&format!("folder/{name}"));
    let made = Command::new("mkfifo").arg(at("pipe")).status();
    assert!(made.unwrap().success());
    symlink(at("target"), at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    // one that others made: a test that fails must not cost the machine its own
    let mut command = Command::new("mknod");
    let device = command.args([&at("null"), "c", "1", "3"]).output();
    let has_device = device.is_ok_and(|made| made.status.success());
    let folder = place.at("folder");
    let before = names(&folder);
    for words in WRITERS {
        refused(words, &at("pipe"), "a named pipe");
        refused(words, &at("link"), "a symbolic link");
        refused(words, &at("dangling"), "a symbolic link");
        refused(words, &folder, "a directory");
        if has_device {
            refused(words, &at("null"), "a character device");
        }
        // nothing is left beside it
        assert_eq!(names(&folder), before, "{words}");
        let nowhere = place.at("nonexistent");
        let answer = writer(words, format!("{nowhere}/x"));
        let why = format!("the folder `{nowhere}` does not");
        let is_so = !words.starts_with("refresh") || answer.err.contains(&why);
        assert!(is_so, "{answer}");
        assert!(!fs::exists(&nowhere).unwrap(), "{}", answer.ends(1));
    }
    let kind = |name: &str| fs::symlink_metadata(at(name)).unwrap().file_type();
    assert!(kind("pipe").is_fifo() && kind("link").is_symlink());
    assert!(!has_device || kind("null").is_char_device());
    assert_eq!(place.read("folder/target"), "kept");
}

#[test]
fn a_file_is_written_whole_beside_a_link_with_the_name_of_the_new_one() {
    let place = Place::new("whole");
    symlink(place.file("other", "other"), place.at("m.new")).unwrap();
    for _ in 0..2 {
        let file = place.at("m.json");
        run(&format!(
            "map --machine dgx-h100 --format mooncake -o {file}"
        ))
        .ends(0);
        let text = place.read("m.json");
        let map = r#""cuda:1": [["mlx5_3"], ["mlx5_0","#;
        assert!(text.contains(map) && text.ends_with("\n}\n"), "{text}");
        assert_eq!(place.read("m.new"), "other");
        assert!(fs::symlink_metadata(place.at("m.json")).unwrap().is_file());
    }
}

#[test]
fn a_regular_file_is_replaced_and_its_readers_stay_but_those_of_the_node_file_are_all() {
    let place = Place::new("regular");
    for words in WRITERS {
        let is_node_file = words.starts_with("refresh");
        for old in [0o600, 0o664] {
            let file = place.file("file", "old");
            Place::mode(&file, old);
            // only root may
            let is_another_s = chown(&file, Some(61234), Some(61234)).is_ok() && !is_node_file;
            writer(words, &file).ends(0);
            let head = "nic-placement node file ";
            let begins = if is_node_file { head } else { "{" };
            let is_so = fs::read(&file).unwrap().starts_with(begins.as_bytes());
            assert!(is_so, "{words}");
            let found = mode(&file);
            assert_eq!(found, if is_node_file { 0o644 } else { old }, "{words}");
            let facts = fs::metadata(&file).unwrap();
            let owner = (facts.uid(), facts.gid());
            let is_so = !is_another_s || owner == (61234, 61234);
            assert!(is_so, "{words}: {owner:?}");
        }
        // a new file has the readers that the umask leaves
        let new = place.at(words.split(' ').next().unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 027; exec \"$@\"", "sh", TOOL]);
        Answer::of(shell.args(words.split(' ')).arg(&new)).ends(0);
        let found = mode(&new);
        assert_eq!(found, if is_node_file { 0o644 } else { 0o640 }, "{words}");
    }
}

#[test]
fn a_file_may_have_a_name_that_is_not_utf_8() {
    let place = Place::new("odd-name");
    let file = place.0.join(OsStr::from_bytes(b"bad\xffname.json"));
    for (words, status) in [(WRITERS[0], 0), (WRITERS[2], 0), (WRITERS[1], 1)] {
        writer(words, &file).ends(status);
    }
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 1);
    // as `reports/*` names it
    fs::write(&file, run("check --json").out).unwrap();
    assert!(writer("audit", &file).out.starts_with("1 node "));
    fs::write(&file, run("verify --json -- true").err).unwrap();
    assert!(writer("verify --merge", &file).out.starts_with("1 node"));
}

#[test]
fn a_folder_or_file_that_shows_nothing_of_a_node_replaces_no_description() {
    let place = Place::new("nothing");
    let (empty, kept) = (place.at("empty"), place.file("node.json", "kept"));
    fs::create_dir(&empty).unwrap();
    let nothing = r#"{"format": "nic-placement topology", "version": 1, "name": "n"}"#;
    let nothing = place.file("nothing.json", nothing);
    for from in [&empty, &nothing] {
        for format in ["json", "nccl"] {
            let import = run(&format!("import {from} --to {format} -o {kept}"));
            import.ends(1).says(&[&format!("`{from}` shows nothing")]);
            assert_eq!(place.read("node.json"), "kept");
        }
    }
    // a node without devices is one
    place.file("empty/sys/devices/system/node/node0/cpulist", "0-3\n");
    place.file("empty/sys/devices/system/node/online", "0\n");
    run(&format!("import {empty} -o {kept}")).ends(0);
    assert!(place.read("node.json").contains("0-3"));
}

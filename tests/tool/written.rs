//! Where a command writes its file, and what it leaves alone.

use crate::{Place, run};
use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::Command;

/// Each command that writes a file, without the file's name.
const WRITERS: [&[&str]; 3] =
    [&["import", "--live", "-o"], &["refresh", "-o"], &["map", "--machine", "dgx-h100", "-o"]];

fn refused(writer: &[&str], place: &Path, why: &str) {
    let output = run(&[writer, &[place.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{writer:?} {}: {said}", place.display());
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains(&format!("`{}` is {why}", place.display())), "{writer:?}: {said}");
}

#[test]
fn what_is_no_regular_file_is_not_replaced() {
    let place = Place::new("odd");
    let folder = place.0.join("folder");
    fs::create_dir(&folder).unwrap();
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (target, link, dangling) = (folder.join("target"), folder.join("link"), folder.join("dangling"));
    fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    symlink("nowhere", &dangling).unwrap();
    let before = names(&folder);
    for writer in WRITERS {
        refused(writer, &pipe, "a named pipe");
        refused(writer, &link, "a symbolic link");
        refused(writer, &dangling, "a symbolic link");
        refused(writer, &folder, "a directory");
        assert_eq!(names(&folder), before, "{writer:?}: nothing is left beside it");
    }
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
}

/// One that others made: a test that fails must not cost the machine its own.
#[test]
fn a_device_is_not_replaced() {
    let place = Place::new("device");
    let device = place.0.join("null");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return println!("skipped: no right to make a device");
    }
    for writer in WRITERS {
        refused(writer, &device, "a character device");
        assert!(fs::symlink_metadata(&device).unwrap().file_type().is_char_device());
    }
}

#[test]
fn a_regular_file_is_replaced_and_readable_for_all() {
    let place = Place::new("regular");
    for writer in WRITERS {
        let file = place.file("file", "old");
        let output = run(&[writer, &[&file]].concat());
        assert_eq!(output.status.code(), Some(0), "{writer:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::read_to_string(&file).unwrap().starts_with('{'), "{writer:?}");
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o644, "{writer:?}");
    }
}

#[test]
fn a_folder_or_file_that_shows_nothing_of_a_node_replaces_no_description() {
    let place = Place::new("nothing");
    let (empty, kept) = (place.0.join("empty"), place.file("node.json", "kept"));
    fs::create_dir(&empty).unwrap();
    let nothing =
        place.file("nothing.json", r#"{"format": "nic-placement topology", "version": 1, "name": "n"}"#);
    for from in [empty.to_str().unwrap(), &nothing] {
        for format in ["json", "nccl"] {
            let output = run(&["import", from, "--to", format, "-o", &kept]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{from}: {said}");
            assert!(said.contains(&format!("`{from}` shows nothing of a node")), "{said}");
            assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
        }
    }
    fs::create_dir_all(empty.join("sys/devices/system/node/node0")).unwrap();
    fs::write(empty.join("sys/devices/system/node/node0/cpulist"), "0-3\n").unwrap();
    fs::write(empty.join("sys/devices/system/node/online"), "0\n").unwrap();
    let output = run(&["import", empty.to_str().unwrap(), "-o", &kept]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read_to_string(&kept).unwrap().contains("0-3"), "a node without devices is one");
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

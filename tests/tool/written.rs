//! Where a command writes its file, and what it leaves alone.

use crate::{Place, run, tool};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

/// Each command that writes a file, without the file's name.
const WRITERS: [&[&str]; 3] = [
    &["import", "--live", "-o"],
    &["refresh", "-o"],
    &["map", "--machine", "dgx-h100", "-o"],
];

fn refused(writer: &[&str], place: &Path, why: &str) {
    let output = run(&[writer, &[place.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(1),
        "{writer:?} {}: {said}",
        place.display()
    );
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.contains(&format!("`{}` is {why}", place.display())),
        "{writer:?}: {said}"
    );
}

#[test]
fn what_is_no_regular_file_is_not_replaced() {
    let place = Place::new("odd");
    let folder = place.0.join("folder");
    fs::create_dir(&folder).unwrap();
    let pipe = folder.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let (target, link, dangling) = (
        folder.join("target"),
        folder.join("link"),
        folder.join("dangling"),
    );
    fs::write(&target, "kept").unwrap();
    symlink(&target, &link).unwrap();
    symlink("nowhere", &dangling).unwrap();
    let before = names(&folder);
    for writer in WRITERS {
        refused(writer, &pipe, "a named pipe");
        refused(writer, &link, "a symbolic link");
        refused(writer, &dangling, "a symbolic link");
        refused(writer, &folder, "a directory");
        assert_eq!(
            names(&folder),
            before,
            "{writer:?}: nothing is left beside it"
        );
    }
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
}

#[test]
fn a_folder_that_does_not_exist_is_not_made() {
    let place = Place::new("no-folder");
    let folder = place.0.join("nonexistent");
    for writer in WRITERS {
        let output = run(&[writer, &[folder.join("x").to_str().unwrap()]].concat());
        assert_eq!(
            (output.status.code(), folder.exists()),
            (Some(1), false),
            "{writer:?}: {output:?}"
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            writer[0] != "refresh"
                || said.contains(&format!("the folder `{}` does not exist", folder.display())),
            "{said}"
        );
    }
}

#[test]
fn a_file_is_written_whole_beside_a_link_with_the_name_of_the_new_one() {
    let place = Place::new("whole");
    let (file, other, link) = (
        place.0.join("m.json"),
        place.file("other", "other"),
        place.0.join("m.new"),
    );
    symlink(&other, &link).unwrap();
    let written = || {
        run(&[
            "map",
            "--machine",
            "dgx-h100",
            "--format",
            "mooncake",
            "-o",
            file.to_str().unwrap(),
        ])
    };
    for _ in 0..2 {
        assert_eq!(written().status.code(), Some(0));
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.contains(r#""cuda:1": [["mlx5_3"], ["mlx5_0","#) && text.ends_with("\n}\n"),
            "{text}"
        );
        assert_eq!(fs::read_to_string(&link).unwrap(), "other");
        assert!(file.symlink_metadata().unwrap().is_file());
    }
}

/// One that others made: a test that fails must not cost the machine its own.
#[test]
fn a_device_is_not_replaced() {
    let place = Place::new("device");
    let device = place.0.join("null");
    let made = Command::new("mknod")
        .arg(&device)
        .args(["c", "1", "3"])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return println!("skipped: no right to make a device");
    }
    for writer in WRITERS {
        refused(writer, &device, "a character device");
        assert!(
            fs::symlink_metadata(&device)
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }
}

fn text(tool: &mut Command) -> String {
    let output = tool.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_regular_file_is_replaced_and_its_readers_stay_but_those_of_the_node_file_are_all() {
    let place = Place::new("regular");
    for writer in WRITERS {
        for old in [0o600, 0o664] {
            let file = place.file("file", "old");
            fs::set_permissions(&file, Permissions::from_mode(old)).unwrap();
            // only root may
            let is_another_s =
                chown(&file, Some(61234), Some(61234)).is_ok() && writer[0] != "refresh";
            let output = run(&[writer, &[&file]].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{writer:?}: {said}");
            let begins = if writer[0] == "refresh" {
                "nic-placement node file "
            } else {
                "{"
            };
            assert!(
                fs::read(&file).unwrap().starts_with(begins.as_bytes()),
                "{writer:?}"
            );
            let new = if writer[0] == "refresh" { 0o644 } else { old };
            assert_eq!(mode(Path::new(&file)), new, "{writer:?}");
            let facts = fs::metadata(&file).unwrap();
            let owner = if is_another_s {
                (61234, 61234)
            } else {
                (facts.uid(), facts.gid())
            };
            assert_eq!((facts.uid(), facts.gid()), owner, "{writer:?}");
        }
    }
}

#[test]
fn a_new_file_has_the_readers_that_the_umask_leaves_but_the_node_file_has_all() {
    let place = Place::new("umask");
    for writer in WRITERS {
        let file = place.0.join(writer[0]);
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "umask 027; exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_nic-placement"),
        ]);
        let output = shell.args(writer).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{writer:?}: {output:?}");
        let new = if writer[0] == "refresh" { 0o644 } else { 0o640 };
        assert_eq!(mode(&file), new, "{writer:?}");
    }
}

#[test]
fn a_file_may_have_a_name_that_is_not_utf_8() {
    let place = Place::new("odd-name");
    let file = place.0.join(OsStr::from_bytes(b"bad\xffname.json"));
    for (writer, status) in [(WRITERS[0], 0), (WRITERS[2], 0), (WRITERS[1], 1)] {
        let output = tool().args(writer).arg(&file).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{writer:?}: {output:?}");
    }
    assert_eq!(
        fs::read_dir(&place.0).unwrap().count(),
        1,
        "nothing is left beside it"
    );
    let measured = tool()
        .args(["verify", "--bytes", "-o"])
        .arg(&file)
        .args(["--", "true"])
        .output()
        .unwrap();
    assert!(
        measured.status.success() && measured.stderr.is_empty(),
        "{measured:?}"
    );
    // as `reports/*` names it
    let check = place.file("check.json", &text(tool().args(["check", "--json"])));
    fs::rename(&check, &file).unwrap();
    assert!(text(tool().arg("audit").arg(&file)).starts_with("1 node "));
    let mut verify = tool();
    let measured = verify
        .args(["verify", "--json", "--", "true"])
        .output()
        .unwrap();
    fs::write(&file, measured.stderr).unwrap();
    assert!(text(tool().args(["verify", "--merge"]).arg(&file)).starts_with("1 node"));
}

#[test]
fn a_folder_or_file_that_shows_nothing_of_a_node_replaces_no_description() {
    let place = Place::new("nothing");
    let (empty, kept) = (place.0.join("empty"), place.file("node.json", "kept"));
    fs::create_dir(&empty).unwrap();
    let nothing = place.file(
        "nothing.json",
        r#"{"format": "nic-placement topology", "version": 1, "name": "n"}"#,
    );
    for from in [empty.to_str().unwrap(), &nothing] {
        for format in ["json", "nccl"] {
            let output = run(&["import", from, "--to", format, "-o", &kept]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{from}: {said}");
            assert!(
                said.contains(&format!("`{from}` shows nothing of a node")),
                "{said}"
            );
            assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
        }
    }
    fs::create_dir_all(empty.join("sys/devices/system/node/node0")).unwrap();
    fs::write(empty.join("sys/devices/system/node/node0/cpulist"), "0-3\n").unwrap();
    fs::write(empty.join("sys/devices/system/node/online"), "0\n").unwrap();
    let output = run(&["import", empty.to_str().unwrap(), "-o", &kept]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        fs::read_to_string(&kept).unwrap().contains("0-3"),
        "a node without devices is one"
    );
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

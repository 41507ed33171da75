//! Machines that were captured as a directory or a tar; some of the captures are spoiled on purpose.

use nic_placement_testing::snapshot_of;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory that is removed with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!(
            "nic-placement-captured-{}-{name}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tool(arguments: &[&str]) -> (String, String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.success(),
    )
}

/// A DGX H100's tree below `place`/machine.
fn unpacked(place: &Place) -> PathBuf {
    let file = place.0.join("dgx.machine");
    fs::write(&file, snapshot_of("dgx-h100")).unwrap();
    let machine = place.0.join("machine");
    let (_, errors, done) = tool(&[
        "snapshot",
        "--unpack",
        file.to_str().unwrap(),
        machine.to_str().unwrap(),
    ]);
    assert!(done, "{errors}");
    machine
}

/// A tar of `place`/machine.
fn tarred(place: &Place) -> PathBuf {
    let tar = place.0.join("machine.tar");
    let made = Command::new("tar")
        .arg("-C")
        .arg(&place.0)
        .arg("-cf")
        .arg(&tar)
        .arg("machine")
        .status();
    assert!(made.unwrap().success());
    tar
}

/// What `plan` says of a captured machine, without the line that names its source.
fn plan(path: &Path) -> String {
    let (text, errors, done) = tool(&[
        "plan",
        "--gpus-per-task",
        "1",
        "--topology",
        path.to_str().unwrap(),
    ]);
    assert!(done, "{errors}");
    text.split_once('\n').unwrap().1.to_string()
}

#[test]
fn a_snapshot_a_directory_the_directory_above_it_and_a_tar_of_it_give_the_same_plan() {
    let place = Place::new("same");
    let machine = unpacked(&place);
    let tar = tarred(&place);
    let expected = plan(&place.0.join("dgx.machine"));
    assert!(expected.contains("mlx5_11:1 PIX"));
    assert_eq!(plan(&machine), expected);
    assert_eq!(plan(&tar), expected);
    let above = Place::new("above");
    fs::rename(&machine, above.0.join("some-machine")).unwrap();
    assert_eq!(plan(&above.0), expected);
}

#[test]
fn a_packed_tar_names_the_program_that_unpacks_it_and_is_read_from_that() {
    let place = Place::new("packed");
    let machine = unpacked(&place);
    let tar = tarred(&place);
    let expected = plan(&machine);
    for (program, unpack) in [("gzip", "zcat"), ("bzip2", "bzcat"), ("xz", "xzcat")] {
        let output = Command::new(program).arg("-c").arg(&tar).output();
        let Some(bytes) = output.ok().filter(|output| output.status.success()) else {
            println!("skipped: no {program}");
            continue;
        };
        let file = place.0.join("packed");
        fs::write(&file, bytes.stdout).unwrap();
        let (_, errors, done) = tool(&["show", "--topology", file.to_str().unwrap()]);
        let said = format!("`{unpack} FILE | nic-placement show --topology -` reads it");
        assert!(!done && errors.contains(&said), "{program}: {errors}");
        let line = format!("{unpack} < \"$1\" | \"$0\" plan --gpus-per-task 1 --topology -");
        let output = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_nic-placement")])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.split_once('\n').unwrap().1, expected, "{program}");
    }
}

#[test]
fn standard_input_without_end_is_refused_before_it_fills_the_memory() {
    // 256 MB are read
    let line = "ulimit -v 800000; exec \"$0\" show --topology - < /dev/zero";
    let output = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_nic-placement")])
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let refused = "longer than 268435456 bytes";
    assert!(
        output.status.code() == Some(1) && errors.contains(refused),
        "{errors}"
    );
}

#[test]
fn links_that_leave_the_captured_tree_or_run_in_circles_are_not_followed() {
    let place = Place::new("links");
    let machine = unpacked(&place);
    let secret = place
        .0
        .join("outside/0000:18:00.0/infiniband/mlx5_0/ports/1");
    fs::create_dir_all(&secret).unwrap();
    for (name, text) in [
        ("state", "4: ACTIVE"),
        ("rate", "800 Gb/sec"),
        ("link_layer", "InfiniBand"),
    ] {
        fs::write(secret.join(name), text).unwrap();
    }
    // a link to a better-looking directory outside replaces the NIC's directory
    let ports = machine
        .join("sys/class/infiniband/mlx5_0")
        .canonicalize()
        .unwrap()
        .join("ports");
    fs::remove_dir_all(&ports).unwrap();
    symlink(
        place.0.join("outside/0000:18:00.0/infiniband/mlx5_0/ports"),
        &ports,
    )
    .unwrap();
    // and a link to itself replaces another NIC's directory
    let ports = machine
        .join("sys/class/infiniband/mlx5_3")
        .canonicalize()
        .unwrap()
        .join("ports");
    fs::remove_dir_all(&ports).unwrap();
    symlink("ports", &ports).unwrap();
    let (shown, errors, done) = tool(&["show", "--topology", machine.to_str().unwrap()]);
    assert!(done, "{errors}");
    assert!(!shown.contains("800 Gb/s"), "{shown}");
    assert!(
        shown.contains("left out: mlx5_0, mlx5_3: it has no port"),
        "{shown}"
    );
}

#[test]
fn unpacking_writes_nothing_where_something_is() {
    let place = Place::new("twice");
    let machine = unpacked(&place);
    let file = place.0.join("dgx.machine");
    let (_, errors, done) = tool(&[
        "snapshot",
        "--unpack",
        file.to_str().unwrap(),
        machine.to_str().unwrap(),
    ]);
    assert!(
        !done && errors.contains("is there already: unpack into an empty directory"),
        "{errors}"
    );
}

#[test]
fn who_unpacks_a_part_is_told_to_remove_it() {
    let place = Place::new("part");
    let file = place.0.join("long.machine");
    // as on a full file system: the first entry is written and the second cannot be
    let text = format!(
        "# nic-placement machine 1\nsys/a = 1\nsys/b{} = 2\n",
        "b".repeat(300)
    );
    fs::write(&file, text).unwrap();
    let machine = place.0.join("machine");
    let (_, errors, done) = tool(&[
        "snapshot",
        "--unpack",
        file.to_str().unwrap(),
        machine.to_str().unwrap(),
    ]);
    let cure = format!(
        "what is left of `sys` and `proc` in `{}` is not whole: remove it",
        machine.display()
    );
    assert!(
        !done && errors.contains(&cure) && errors.lines().count() == 1,
        "{errors}"
    );
    assert!(machine.join("sys/a").exists());
}

#[test]
fn a_topology_file_that_show_writes_gives_the_same_plan_as_the_machine() {
    let place = Place::new("json");
    let machine = unpacked(&place);
    let (json, _, _) = tool(&["show", "--json", "--topology", machine.to_str().unwrap()]);
    let file = place.0.join("node.json");
    fs::write(&file, json).unwrap();
    assert_eq!(plan(&file), plan(&machine));
    let again = place.0.join("again.json");
    let arguments = [
        "import",
        "--from",
        "json",
        file.to_str().unwrap(),
        "-o",
        again.to_str().unwrap(),
    ];
    let (_, errors, done) = tool(&arguments);
    assert!(done, "{errors}");
    assert_eq!(fs::read(&file).unwrap(), fs::read(&again).unwrap());
}

#[test]
fn what_is_no_file_is_named_and_not_waited_for() {
    let place = Place::new("no-file");
    let pipe = place.0.join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let below = unpacked(&place);
    let link = below.join("sys/devices/system/node/node0/distance");
    fs::remove_file(&link).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&link)
            .status()
            .unwrap()
            .success()
    );
    let tool = |arguments: &[&str]| {
        let mut within = Command::new("timeout");
        within
            .args(["30", env!("CARGO_BIN_EXE_nic-placement")])
            .args(arguments);
        let output = within.output().unwrap();
        (
            String::from_utf8(output.stderr).unwrap(),
            output.status.code(),
        )
    };
    let (pipe, below) = (pipe.to_str().unwrap(), below.to_str().unwrap());
    for arguments in [
        vec!["show", "--topology", pipe],
        vec!["import", pipe],
        vec!["import", "--from", "hwloc", pipe],
        vec!["snapshot", "--unpack", pipe, "/nowhere"],
        vec!["snapshot", "--topology", pipe],
    ] {
        let (said, code) = tool(&arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        let expected = format!("`{pipe}` is a named pipe: expected a regular file");
        assert!(said.contains(&expected), "{arguments:?}: {said}");
    }
    let (said, _) = tool(&["show", "--topology", "/dev/zero"]);
    assert!(
        said.contains("`/dev/zero` is a character device: expected a regular file"),
        "{said}"
    );
    let (said, code) = tool(&["plan", "--gpus-per-task", "1", "--topology", below]);
    assert_eq!(code, Some(0), "{said}");
}

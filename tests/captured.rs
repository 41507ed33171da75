//! Machines that were captured as a directory or a tar; some of the captures are spoiled on purpose.

#[path = "tool/answer.rs"]
mod answer;

use answer::{Answer, Place, TOOL, run};
use nic_placement_testing::snapshot_of;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A DGX H100's tree below `place`/machine.
fn unpacked(place: &Place) -> String {
    let file = place.file("dgx.machine", snapshot_of("dgx-h100"));
    let machine = place.at("machine");
    run(&format!("snapshot --unpack {file} {machine}")).ends(0);
    machine
}

/// A tar of `place`/machine.
fn tarred(place: &Place) -> String {
    let tar = place.at("machine.tar");
    let mut command = Command::new("tar");
    Answer::of(command.args(["-C", &place.at(""), "-cf", &tar, "machine"])).ends(0);
    tar
}

/// Without the line that names its source.
fn without_source(text: &str) -> &str {
    text.split_once('\n').unwrap().1
}

/// The plan for a captured machine.
fn plan(path: &str) -> String {
    let answer = run(&format!("plan --gpus-per-task 1 --topology {path}"));
    without_source(&answer.ends(0).out).to_string()
}

fn pipe(path: &str) {
    let _ = fs::remove_file(path);
    Answer::of(Command::new("mkfifo").arg(path)).ends(0);
}

#[test]
fn a_snapshot_a_directory_the_directory_above_it_and_a_tar_of_it_give_the_same_plan() {
    let place = Place::new("same");
    let machine = unpacked(&place);
    let tar = tarred(&place);
    let expected = plan(&place.at("dgx.machine"));
    assert!(expected.contains("mlx5_11:1 PIX"));
    assert_eq!(plan(&machine), expected);
    assert_eq!(plan(&tar), expected);
    let above = Place::new("above");
    fs::rename(&machine, above.at("some-machine")).unwrap();
    assert_eq!(plan(&above.at("")), expected);
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
        let file = place.file("packed", bytes.stdout);
        let said = format!("`{unpack} FILE | nic-placement show --topology -`");
        run(&format!("show --topology {file}")).refuses(1, &[&said]);
        let line = format!("{unpack} < \"$1\" | \"$0\" plan --gpus-per-task 1 --topology -");
        let answer = Answer::of(Command::new("sh").args(["-c", &line, TOOL, &file]));
        assert_eq!(without_source(&answer.out), expected, "{program}");
    }
}

#[test]
fn a_tar_or_a_directory_without_sys_and_proc_is_refused() {
    let place = Place::new("without");
    fs::create_dir(place.at("machine")).unwrap();
    place.file("machine/nodes", "0");
    for node in [tarred(&place), place.at("machine")] {
        run(&format!("show --topology {node}")).refuses(1, &["sys/"]);
    }
}

#[test]
fn standard_input_without_end_is_refused_before_it_fills_the_memory() {
    // 256 MB are read
    let line = "ulimit -v 800000; exec \"$0\" show --topology - < /dev/zero";
    let answer = Answer::of(Command::new("sh").args(["-c", line, TOOL]));
    answer.ends(1).says(&["longer than 268435456 bytes"]);
}

#[test]
fn links_that_leave_the_captured_tree_or_run_in_circles_are_not_followed() {
    let place = Place::new("links");
    let machine = unpacked(&place);
    let ports_of = |nic: &str| -> PathBuf {
        let link = Path::new(&machine).join("sys/class/infiniband").join(nic);
        link.canonicalize().unwrap().join("ports")
    };
    let outside = "outside/0000:18:00.0/infiniband/mlx5_0/ports";
    let better = [
        ("state", "4: ACTIVE"),
        ("rate", "800 Gb/sec"),
        ("link_layer", "InfiniBand"),
    ];
    for (name, text) in better {
        place.file(&format!("{outside}/1/{name}"), text);
    }
    // a link to a better-looking directory outside replaces the NIC's directory, and one to itself
    // another's
    for (nic, target) in [
        ("mlx5_0", place.at(outside)),
        ("mlx5_3", "ports".to_string()),
    ] {
        let ports = ports_of(nic);
        fs::remove_dir_all(&ports).unwrap();
        symlink(target, &ports).unwrap();
    }
    let shown = run(&format!("show --topology {machine}"));
    shown
        .ends(0)
        .says(&["left out: mlx5_0, mlx5_3: it has no"])
        .lacks(&["800 Gb/s"]);
}

#[test]
fn unpacking_writes_nothing_where_something_is_and_a_part_is_to_be_removed() {
    let place = Place::new("twice");
    let (machine, file) = (unpacked(&place), place.at("dgx.machine"));
    let twice = run(&format!("snapshot --unpack {file} {machine}"));
    twice.ends(1).says(&["is there already: unpack into"]);
    // as on a full file system: the first entry is written and the second cannot be
    let text = format!(
        "# nic-placement machine 1\nsys/a = 1\nsys/b{} = 2\n",
        "b".repeat(300)
    );
    let (file, part) = (place.file("long.machine", text), place.at("part"));
    let answer = run(&format!("snapshot --unpack {file} {part}"));
    answer.ends(1).says(&[&format!(
        "`sys` and `proc` in `{part}` is not whole: remove it"
    )]);
    assert_eq!(answer.err.lines().count(), 1, "{answer}");
    assert!(Path::new(&part).join("sys/a").exists());
}

#[test]
fn a_topology_file_that_show_writes_gives_the_same_plan_as_the_machine() {
    let place = Place::new("json");
    let machine = unpacked(&place);
    let json = run(&format!("show --json --topology {machine}")).out;
    let (file, again) = (place.file("node.json", json), place.at("again.json"));
    assert_eq!(plan(&file), plan(&machine));
    run(&format!("import {file} -o {again}")).ends(0);
    assert_eq!(fs::read(&file).unwrap(), fs::read(&again).unwrap());
}

#[test]
fn what_is_no_file_is_named_and_not_waited_for() {
    let place = Place::new("no-file");
    let (fifo, below) = (place.at("pipe"), unpacked(&place));
    pipe(&fifo);
    pipe(&format!("{below}/sys/devices/system/node/node0/distance"));
    let is_pipe = format!("`{fifo}` is a named pipe: expected");
    for (words, status, said) in [
        (format!("show --topology {fifo}"), 1, &*is_pipe),
        (format!("import {fifo}"), 1, &is_pipe),
        (format!("snapshot --unpack {fifo} /nowhere"), 1, &is_pipe),
        (format!("snapshot --topology {fifo}"), 1, &is_pipe),
        (
            "show --topology /dev/zero".to_string(),
            1,
            "`/dev/zero` is a character device: expected",
        ),
        (format!("plan --gpus-per-task 1 --topology {below}"), 0, ""),
    ] {
        let mut within = Command::new("timeout");
        Answer::of(within.args(["30", TOOL]).args(words.split(' ')))
            .ends(status)
            .says(&[said]);
    }
}

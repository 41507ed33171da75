//! `verify -o`: the folder of many nodes' reports, and a place that cannot be written.

use super::{Tree, report};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Measures a line of shell in the tree's folder, with that `-o`.
fn measured(tree: &Tree, output: &str, line: &str) -> Command {
    let mut tool = tree.tool(
        "verify",
        &["--bytes", "--json", "-o", output, "--", "sh", "-c", line],
    );
    tool.current_dir(&tree.0);
    tool
}

fn names(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Runs it with stderr in a file `said`, which the command sees.
fn with_stderr_in_a_file(tree: &Tree, mut tool: Command) -> (Output, Output) {
    let said = tree.0.join("said");
    tool.stderr(fs::File::create(&said).unwrap());
    let output = tool.output().unwrap();
    let stderr = fs::read(said).unwrap();
    (output.clone(), Output { stderr, ..output })
}

#[test]
fn a_path_that_ends_with_a_slash_is_a_folder_which_the_nodes_make_for_their_reports() {
    for (made, output) in [("reports", "reports/"), ("of/a/week", "of/a/week//")] {
        let nodes: Vec<_> = (0..8)
            .map(|node| {
                let tree = Tree::new(&format!("folder-{}-{node}", made.len()));
                tree.write("proc/sys/kernel/hostname", format!("n{node}"));
                tree
            })
            .collect();
        // all at once, and all in the first one's folder, as on a file system that they share
        let running: Vec<_> = nodes
            .iter()
            .map(|tree| {
                let mut tool = measured(tree, output, "exit 7");
                tool.current_dir(&nodes[0].0)
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for running in running {
            let output = running.wait_with_output().unwrap();
            assert_eq!(
                (output.status.code(), &*output.stderr),
                (Some(7), &b""[..]),
                "{output:?}"
            );
        }
        let wanted: Vec<_> = (0..8).map(|node| format!("n{node}.json")).collect();
        assert_eq!(names(&nodes[0].0.join(made)), wanted);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_said_before_the_command_starts_and_the_report_goes_to_stderr()
{
    let tree = Tree::new("place");
    tree.write("a-file", "another's");
    std::os::unix::fs::symlink("a-file", tree.0.join("a-link")).unwrap();
    for (place, why) in [
        (
            "no/such/report.json",
            "cannot write `no/such/report.json`: No such file or directory",
        ),
        (
            "a-file/",
            "cannot make the folder `a-file/`: a regular file is there",
        ),
        (
            "a-file/below/",
            "cannot make the folder `a-file/below/`: Not a directory",
        ),
        ("a-link", "`a-link` is a symbolic link"),
    ] {
        let tool = measured(&tree, place, "cat said; exit 7");
        let (seen, output) = with_stderr_in_a_file(&tree, tool);
        let seen = String::from_utf8(seen.stdout).unwrap();
        assert!(
            seen.contains(why) && seen.lines().count() == 1,
            "{place}: {seen}"
        );
        assert_eq!(
            (output.status.code(), report(&output).status),
            (Some(7), Some(7)),
            "{place}"
        );
    }
    assert_eq!(fs::read(tree.0.join("a-file")).unwrap(), b"another's");
    // what the command itself makes is there when the report is
    let tool = measured(&tree, "made/report.json", "mkdir made");
    let (_, output) = with_stderr_in_a_file(&tree, tool);
    assert!(
        output.status.success() && tree.0.join("made/report.json").exists(),
        "{output:?}"
    );
    assert!(
        !String::from_utf8_lossy(&output.stderr).contains('{'),
        "{output:?}"
    );
}

#[test]
fn a_report_that_cannot_be_written_in_the_end_is_printed_on_stderr() {
    let tree = Tree::new("end");
    for line in [
        "rm -r reports && touch reports && exit 7",
        "mkdir reports/node-17.json && exit 7",
    ] {
        let _ = fs::remove_file(tree.0.join("reports"));
        let output = measured(&tree, "reports/", line).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), report(&output).status),
            (Some(7), Some(7)),
            "{said}"
        );
        assert!(
            said.starts_with("nic-placement: verify: ") && said.lines().count() == 2,
            "{said}"
        );
    }
    assert_eq!(
        names(&tree.0.join("reports")),
        ["node-17.json"],
        "nothing of ours is left"
    );
}

/// As where a file system is full.
#[test]
fn a_report_for_which_there_is_no_room_is_printed_on_stderr_and_leaves_no_part() {
    let tree = Tree::new("room");
    fs::create_dir(tree.0.join("full")).unwrap();
    let mut tool = Command::new("unshare");
    let script = r#"mount -t tmpfs -o size=4k,nr_inodes=8 tmpfs full || exit 99
        "$@" -- sh -c 'dd if=/dev/zero of=full/rest bs=4k 2> /dev/null; exit 7'; status=$?; ls -A full; exit $status"#;
    tool.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
    ]);
    tool.args([
        env!("CARGO_BIN_EXE_nic-placement"),
        "verify",
        "--bytes",
        "--json",
        "-o",
        "full/",
        "--topology",
        ".",
    ]);
    let output = tool.current_dir(&tree.0).output().unwrap();
    let is_refused = output.status.code() == Some(99)
        || String::from_utf8_lossy(&output.stderr).starts_with("unshare: ");
    if is_refused {
        return println!("skipped: nothing can be mounted here: {output:?}");
    }
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(
        (report(&output).status, &*output.stdout),
        (Some(7), &b"rest\n"[..]),
        "{output:?}"
    );
}

#[test]
fn a_merged_report_is_written_to_no_folder() {
    let tree = Tree::new("merged");
    let output = tree.measure(&[], "true");
    tree.write("one.json", &output.stderr);
    let mut tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    let output = tool
        .args(["verify", "--merge", "-o", "sum/", "one.json"])
        .current_dir(&tree.0)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("`sum/` is no file's path"),
        "{said}"
    );
    assert!(!tree.0.join("sum").exists());
}

#[test]
fn a_place_that_never_answers_holds_no_program_up() {
    let tree = Tree::new("silent");
    fs::write(tree.0.join("silent.c"), include_str!("../silent.c")).unwrap();
    let mut compiler = Command::new("cc");
    let built = compiler
        .args(["-shared", "-fPIC", "-o", "silent.so", "silent.c"])
        .current_dir(&tree.0)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return println!("skipped: there is no C compiler");
    }
    let mut tool = measured(&tree, "reports/", "touch ran");
    let mut tool = tool
        .env("LD_PRELOAD", tree.0.join("silent.so"))
        .env("SILENT", "reports")
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !tree.0.join("ran").exists() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    // it waits for the place of its report by then
    tool.kill().unwrap();
    tool.wait().unwrap();
    assert!(tree.0.join("ran").exists(), "the program never ran");
}

//! `verify -o`: the folder of many nodes' reports, and a place that cannot be written.

use super::answer::silent;
use super::{Answer, TOOL, Tree, report, tool};
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Measures a line of shell in the tree's folder, with that `-o`.
fn measures(tree: &Tree, output: &str, line: &str) -> Command {
    let mut tool = tree.command(&format!("--bytes --json -o {output} -- sh -c"));
    tool.arg(line).current_dir(&tree.0.0);
    tool
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// With stderr in a file `said`, which the command sees.
fn with_stderr_in_a_file(tree: &Tree, mut tool: Command) -> Answer {
    tool.stderr(fs::File::create(tree.at("said")).unwrap());
    let mut answer = Answer::of(&mut tool);
    answer.err = tree.read("said");
    answer
}

#[test]
fn a_path_that_ends_with_a_slash_is_a_folder_which_the_nodes_make_for_their_reports() {
    for (made, output) in [("reports", "reports/"), ("of/a/week", "of/a/week//")] {
        let node = |node| {
            let tree = Tree::new(&format!("folder-{}-{node}", made.len()));
            tree.file("proc/sys/kernel/hostname", format!("n{node}"));
            tree
        };
        let nodes: Vec<_> = (0..8).map(node).collect();
        // all at once, and all in the first one's folder, as on a file system that they share
        let start = |tree: &Tree| {
            let mut tool = measures(tree, output, "exit 7");
            let tool = tool.current_dir(&nodes[0].0.0).stdout(Stdio::piped());
            tool.stderr(Stdio::piped()).spawn().unwrap()
        };
        let running: Vec<_> = nodes.iter().map(start).collect();
        for running in running {
            Answer::new("", running.wait_with_output().unwrap()).is(7, "", "");
        }
        let wanted: Vec<_> = (0..8).map(|node| format!("n{node}.json")).collect();
        assert_eq!(names(&nodes[0].at(made)), wanted);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_said_before_the_command_starts_and_the_report_goes_to_stderr()
{
    let tree = Tree::new("place");
    tree.file("a-file", "another's");
    std::os::unix::fs::symlink("a-file", tree.at("a-link")).unwrap();
    for (place, why) in [
        (
            "no/such/report.json",
            "cannot write `no/such/report.json`: No such file",
        ),
        ("a-file/", "the folder `a-file/`: a regular file"),
        (
            "a-file/below/",
            "the folder `a-file/below/`: Not a directory",
        ),
        ("a-link", "`a-link` is a symbolic link"),
    ] {
        let answer = with_stderr_in_a_file(&tree, measures(&tree, place, "cat said; exit 7"));
        // seen by the command
        assert!(
            answer.out.contains(why) && answer.out.lines().count() == 1,
            "{answer}"
        );
        assert_eq!(report(answer.ends(7)).status, Some(7), "{place}");
    }
    assert_eq!(tree.read("a-file"), "another's");
    // what the command itself makes is there when the report is
    let answer = with_stderr_in_a_file(&tree, measures(&tree, "made/report.json", "mkdir made"));
    answer.ends(0);
    assert!(
        !answer.err.contains('{') && !tree.read("made/report.json").is_empty(),
        "{answer}"
    );
}

#[test]
fn a_report_that_cannot_be_written_in_the_end_is_printed_on_stderr() {
    let tree = Tree::new("end");
    for line in [
        "rm -r reports && touch reports && exit 7",
        "mkdir reports/node-17.json && exit 7",
    ] {
        let _ = fs::remove_file(tree.at("reports"));
        let answer = Answer::of(&mut measures(&tree, "reports/", line));
        assert_eq!(report(answer.ends(7)).status, Some(7), "{answer}");
        assert!(
            answer.err.starts_with("nic-placement: verify: "),
            "{answer}"
        );
        assert_eq!(answer.err.lines().count(), 2, "{answer}");
    }
    // nothing of ours is left
    assert_eq!(names(&tree.at("reports")), ["node-17.json"]);
}

/// As where a file system is full.
#[test]
fn a_report_for_which_there_is_no_room_is_printed_on_stderr_and_leaves_no_part() {
    let tree = Tree::new("room");
    fs::create_dir(tree.at("full")).unwrap();
    let script = r#"mount -t tmpfs -o size=4k,nr_inodes=8 tmpfs full || exit 99
        "$@" -- sh -c 'dd if=/dev/zero of=full/rest bs=4k 2> /dev/null; exit 7'; status=$?; ls -A full; exit $status"#;
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        script,
        "sh",
        TOOL,
    ]);
    unshare.args("verify --bytes --json -o full/ --topology .".split(' '));
    let answer = Answer::of(unshare.current_dir(&tree.0.0));
    if answer.status == Some(99) || answer.err.starts_with("unshare: ") {
        return println!("skipped: nothing can be mounted here: {answer}");
    }
    assert_eq!(answer.ends(7).out, "rest\n", "{answer}");
    assert_eq!(report(&answer).status, Some(7), "{answer}");
}

#[test]
fn a_merged_report_is_written_to_no_folder() {
    let tree = Tree::new("merged");
    tree.file("one.json", tree.measure(&[], "true").err);
    let mut tool = tool();
    tool.args("verify --merge -o sum/ one.json".split(' '))
        .current_dir(&tree.0.0);
    let answer = Answer::of(&mut tool);
    assert_ne!(
        answer.says(&["`sum/` is no file's path"]).status,
        Some(0),
        "{answer}"
    );
    assert!(!fs::exists(tree.at("sum")).unwrap());
}

#[test]
fn a_place_that_never_answers_holds_no_program_up() {
    let tree = Tree::new("silent");
    let Some(library) = silent(&tree) else { return };
    let mut tool = measures(&tree, "reports/", "touch ran");
    tool.env("LD_PRELOAD", library).env("SILENT", "reports");
    let mut running = tool.spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let has_run = || fs::exists(tree.at("ran")).unwrap();
    while !has_run() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    // it waits for the place of its report by then
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(has_run(), "the program never ran");
}

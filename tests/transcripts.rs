//! Golden transcripts: every `*.transcript` below tests/machines is a session of the tool.  It is run again and compared.
//!
//! `# text` and empty lines are for the reader.  `$ nic-placement …` is a command, run in the transcript's folder.  Its output
//! follows: stdout, then stderr with `! ` before each line, then `? status` unless that is 0.
//! One has at most 200 lines.  `BLESS=1 cargo test --test transcripts` writes the present output;
//! review the difference as you would review code.

#[path = "tool/answer.rs"]
mod answer;

use answer::{Answer, checkout, tool};
use std::fs;
use std::path::{Path, PathBuf};

const MOST_LINES: usize = 200;

fn transcripts() -> Vec<PathBuf> {
    let folders = fs::read_dir(checkout("tests/machines")).unwrap();
    let files = folders.flat_map(|machine| fs::read_dir(machine.unwrap().path()).unwrap());
    let mut found: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "transcript"));
    found.sort();
    found
}

/// The transcript with the output that its commands print now.
fn replay(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') || line.is_empty() {
            lines.push(line.to_string());
        } else if let Some(command) = line.strip_prefix("$ nic-placement") {
            let mut tool = tool();
            tool.args(command.split_whitespace())
                .current_dir(path.parent().unwrap());
            let answer = Answer::of(&mut tool);
            lines.push(line.to_string());
            // an empty line would end the block for a reader
            let shown = |line: &str| if line.is_empty() { "." } else { line }.to_string();
            lines.extend(answer.out.lines().map(shown));
            lines.extend(answer.err.lines().map(|line| format!("! {line}")));
            let status = answer.status.expect("it is not killed");
            lines.extend((status != 0).then(|| format!("? {status}")));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_transcript_is_what_the_tool_prints_and_no_longer_than_a_reader_can_see() {
    let transcripts = transcripts();
    assert!(!transcripts.is_empty());
    let mut differing = Vec::new();
    for path in transcripts {
        let (now, name) = (replay(&path), path.display());
        assert!(now.contains("$ nic-placement"), "{name} runs nothing");
        let lines = now.lines().count();
        assert!(lines <= MOST_LINES, "{name}: {lines} lines: split it");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &now).unwrap();
        } else if fs::read_to_string(&path).unwrap() != now {
            differing.push(format!("--- {name} should be ---\n{now}"));
        }
    }
    assert!(
        differing.is_empty(),
        "{}\nBLESS=1 writes them",
        differing.join("\n")
    );
}

//! Golden transcripts: every `*.transcript` below tests/machines is a session of the tool.  It is run again and compared.
//!
//! `# text` and empty lines are for the reader.  `$ nic-placement …` is a command, run in the transcript's folder.  Its output
//! follows: stdout, then stderr with `! ` before each line, then `? status` unless that is 0.
//! `BLESS=1 cargo test --test transcripts` writes the present output; review the difference as you would review code.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

fn transcripts() -> Vec<PathBuf> {
    let machines = Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/machines");
    let mut found: Vec<PathBuf> = std::fs::read_dir(machines)
        .unwrap()
        .flat_map(|machine| std::fs::read_dir(machine.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "transcript")
        })
        .collect();
    found.sort();
    found
}

/// The transcript with the output that its commands print now.
fn replay(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let mut replayed = String::new();
    for line in text.lines() {
        if line.starts_with('#') || line.is_empty() {
            replayed.push_str(line);
            replayed.push('\n');
        } else if let Some(command) = line.strip_prefix("$ nic-placement") {
            let output = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
                .args(command.split_whitespace())
                .current_dir(path.parent().unwrap())
                .output()
                .unwrap();
            writeln!(replayed, "{line}").unwrap();
            for printed in String::from_utf8(output.stdout).unwrap().lines() {
                // an empty line would end the block for a reader
                writeln!(
                    replayed,
                    "{}",
                    if printed.is_empty() { "." } else { printed }
                )
                .unwrap();
            }
            for printed in String::from_utf8(output.stderr).unwrap().lines() {
                writeln!(replayed, "! {printed}").unwrap();
            }
            match output.status.code() {
                Some(0) => {}
                status => writeln!(
                    replayed,
                    "? {}",
                    status.map_or("killed".into(), |code| code.to_string())
                )
                .unwrap(),
            }
        }
    }
    replayed
}

#[test]
fn every_transcript_is_what_the_tool_prints() {
    let transcripts = transcripts();
    assert!(!transcripts.is_empty());
    let mut differing = Vec::new();
    for path in transcripts {
        let now = replay(&path);
        assert!(
            now.contains("$ nic-placement"),
            "{} runs nothing",
            path.display()
        );
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &now).unwrap();
        } else if std::fs::read_to_string(&path).unwrap() != now {
            differing.push(format!("--- {} should be ---\n{now}", path.display()));
        }
    }
    assert!(
        differing.is_empty(),
        "{}\nBLESS=1 writes them",
        differing.join("\n")
    );
}

//! Lines of Slurm's log and of srun that the documents quote: their words are the source's, and their devices the plan's.

use crate::{documents, path, read, tool};
use std::fs;
use std::path::Path;

/// The lines between ```` ```KIND ```` and its end.
fn quoted(text: &str, kind: &str) -> Vec<String> {
    let (mut lines, mut inside) = (Vec::new(), false);
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(rest) => inside = !inside && rest == kind,
            None if inside => lines.push(line.to_string()),
            None => {}
        }
    }
    lines
}

/// The source below a folder, without tests, comments, and the backslashes that go on in the next line.
pub fn source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() && name != "tests" && name != "target" {
            source(&entry, text);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let whole = fs::read_to_string(&entry).unwrap();
            let mut code = whole.split("#[cfg(test)]\nmod tests {");
            let code = code.next().unwrap_or_default();
            let code = code.replace("\\\n", "\u{1}");
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            code.lines()
                .filter(is_code)
                .for_each(|line| *text += &format!("{line}\n"));
        }
    }
}

/// What the program can write, cut where a value goes in.
fn fragments(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, literal) in source.split('"').enumerate() {
        if number % 2 == 0 && !literal.contains(' ') {
            continue;
        }
        let parts = literal.split('\u{1}').enumerate();
        let parts = parts.map(|(number, part)| if number == 0 { part } else { part.trim_start() });
        let literal: String = parts.collect();
        for fragment in literal.split('{').flat_map(|part| part.rsplit('}').take(1)) {
            if fragment.len() >= 4 && !fragment.contains('\n') {
                found.push(fragment.to_string());
            }
        }
    }
    found.sort_by_key(|fragment| std::cmp::Reverse(fragment.len()));
    found
}

/// The words of a line that no text of the program accounts for.  What stands in backquotes is a value, and so is a word
/// with a digit or a capital letter.
fn unaccounted(line: &str, fragments: &[String]) -> Vec<String> {
    let rest = line.strip_prefix("nic-placement: ");
    let mut rest = rest.unwrap_or(line).to_string();
    for fragment in fragments {
        rest = rest.replace(fragment.as_str(), " | ");
    }
    let outside: String = rest.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words = outside.split([' ', '|', ';', ':', ',', '(', ')']);
    let is_word =
        |word: &&str| word.len() > 3 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    words.filter(is_word).map(str::to_string).collect()
}

fn all_fragments() -> Vec<String> {
    let mut text = String::new();
    for folder in "src crates/topology crates/node crates/core crates/process".split(' ') {
        source(&path(folder), &mut text);
    }
    fragments(&text)
}

#[test]
fn the_log_lines_that_a_document_quotes_are_what_the_program_writes() {
    let fragments = all_fragments();
    let mut lines = 0;
    for name in documents() {
        for line in quoted(&read(&name), "log") {
            assert!(line.starts_with("nic-placement: "), "{name}: {line}");
            assert_eq!(unaccounted(&line, &fragments), [""; 0], "{name}: {line}");
            lines += 1;
        }
    }
    assert!(lines >= 8, "only {lines} were found");
}

/// The first cells below `| the reason says |`.
fn reasons(text: &str) -> Vec<&str> {
    let tables = text.split("| the reason says |").skip(1);
    let is_row = |line: &&str| line.starts_with("| ");
    let rows = tables.flat_map(|table| table.lines().skip(2).take_while(is_row));
    rows.filter_map(|row| row.strip_prefix("| `")?.split("` |").next())
        .collect()
}

#[test]
fn the_reasons_that_a_document_explains_are_the_program_s() {
    let fragments = all_fragments();
    let texts = documents();
    let texts = texts.iter().map(|name| read(name)).collect::<String>();
    let explained = reasons(&texts);
    assert!(explained.len() >= 8, "only {explained:?} were found");
    for reason in explained {
        let is_so = fragments.iter().any(|fragment| fragment.contains(reason));
        assert!(is_so, "`{reason}`");
    }
}

#[test]
fn a_word_that_the_program_does_not_write_is_seen() {
    let fragments = all_fragments();
    let right =
        "nic-placement: the node file is 3600 s old, and 900 s may be: a refresh that hangs?";
    assert_eq!(unaccounted(right, &fragments), [""; 0]);
    let wrong = right.replace("hangs", "sleeps");
    let wrong = wrong.replace("node file", "cache");
    let found = unaccounted(&wrong, &fragments);
    assert!(found.len() >= 2, "{found:?}");
}

/// `make demo` prints these tables on a real Slurm; the pairs of GPU and NIC are those of the plan.
#[test]
fn the_readme_s_demo_has_the_nics_of_the_plan() {
    let plan = tool("plan --machine dgx-h100 --gpus-per-task 1");
    let rows = plan.lines();
    let rows: Vec<Vec<&str>> = rows.map(|line| line.split_whitespace().collect()).collect();
    let nic_of = |gpu: &str| rows.iter().find(|row| row.first() == Some(&gpu)).unwrap()[3];
    let (mut placed, mut lists) = (0, 0);
    for line in quoted(&read("README.md"), "text") {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if let [_, "n0", gpu, devices, ..] = cells[..]
            && devices != "-"
        {
            assert_eq!(devices.split(',').next(), Some(nic_of(gpu)), "{line}");
            placed += 1;
        }
        if let Some((_, list)) = line.split_once("NCCL_IB_HCA of 16 tasks: =") {
            let is_so = plan.contains(&format!("NCCL_IB_HCA=={list}\n"));
            assert!(is_so, "{line}\n{plan}");
            lists += 1;
        }
    }
    assert_eq!((placed, lists), (4, 1));
}

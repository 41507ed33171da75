//! The files, tests and modules that the documents name, and those that they must name.

use super::{documents, path, read};
use std::fs;
use std::path::Path;

/// The words between backquotes in running text, and the targets of links.
fn named(text: &str) -> (Vec<String>, Vec<String>) {
    let mut running = String::new();
    let mut inside = false;
    for line in text.lines() {
        inside ^= line.starts_with("```");
        if !inside && !line.starts_with("```") {
            running.push_str(line);
            running.push('\n');
        }
    }
    let quoted = running
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_string)
        .collect();
    let links = running
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next().map(str::to_string));
    (quoted, links.collect())
}

fn markdown() -> Vec<String> {
    documents()
        .into_iter()
        .filter(|name| name.ends_with(".md"))
        .collect()
}

#[test]
fn every_file_that_a_document_names_exists() {
    let mut files = 0;
    for name in &markdown() {
        let (quoted, links) = named(&read(name));
        let folders = [
            "src/",
            "crates/",
            "tests/",
            "include/",
            "benches/",
            "packaging/",
            "docs/",
            "examples/",
            ".cargo/",
            ".ci/",
        ];
        let quoted = quoted
            .iter()
            .filter(|word| folders.iter().any(|folder| word.starts_with(folder)));
        let links = links
            .iter()
            .filter(|link| !link.contains("://") && !link.starts_with('#'));
        // a link counts from its document's folder
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        let links = links.map(|link| folder.join(link).display().to_string());
        for file in quoted.cloned().chain(links) {
            let file = file.split(['#', ' ']).next().unwrap_or_default();
            assert!(
                path(file).exists(),
                "{name} names `{file}`, which does not exist"
            );
            files += 1;
        }
    }
    assert!(files >= 10, "only {files} were found");
}

/// The name by which a link finds a heading, as GitHub makes it: small letters, digits, `-` and `_`, and `-` for a space.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> Vec<String> {
    let mut inside = false;
    let headings = text.lines().filter(|line| {
        inside ^= line.starts_with("```");
        !inside && line.starts_with('#')
    });
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn every_heading_that_a_link_leads_to_exists_once() {
    let mut found = 0;
    for name in &markdown() {
        let text = read(name);
        for link in named(&text).1 {
            let Some((file, place)) = link.split_once('#').filter(|_| !link.contains("://")) else {
                continue;
            };
            let folder = Path::new(name).parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() {
                name.clone()
            } else {
                folder.join(file).display().to_string()
            };
            let count = anchors(&read(&target))
                .iter()
                .filter(|anchor| *anchor == place)
                .count();
            assert_eq!(count, 1, "{name} links to `{link}`");
            found += 1;
        }
    }
    assert!(found >= 5, "only {found} were found");
}

#[test]
fn a_heading_s_anchor_has_no_quotes_and_no_dots() {
    assert_eq!(
        anchor(" Variables of a site's own"),
        "variables-of-a-sites-own"
    );
    assert_eq!(
        anchor(" `--gpu-bind=closest`, and _why_ not…"),
        "--gpu-bindclosest-and-_why_-not"
    );
    assert_eq!(anchors("# A\n```\n# no\n```\n## B c\n"), ["a", "b-c"]);
}

/// The text of all Rust files below a folder.
fn all_source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            all_source(&entry, text);
        } else if entry
            .extension()
            .is_some_and(|kind| kind == "rs" || kind == "sh")
        {
            text.push_str(&fs::read_to_string(entry).unwrap());
        }
    }
}

#[test]
fn every_test_that_a_document_names_exists() {
    let mut source = String::new();
    ["src", "crates", "tests"]
        .iter()
        .for_each(|folder| all_source(&path(folder), &mut source));
    for name in &markdown() {
        for word in named(&read(name)).0 {
            let sentence = word
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
            if sentence && word.matches('_').count() >= 4 {
                assert!(
                    source.contains(&format!("fn {word}("))
                        || source.contains(&format!("\n{word}() {{")),
                    "{name} names the test `{word}`"
                );
            }
        }
    }
}

/// The table of inputs: what no test proves is a claim.
#[test]
fn each_input_of_a_user_names_the_tests_that_prove_its_fate() {
    let mut source = String::new();
    ["src", "crates", "tests"]
        .iter()
        .for_each(|folder| all_source(&path(folder), &mut source));
    let security = read("SECURITY.md");
    let rows = security
        .lines()
        .skip_while(|line| !line.starts_with("| input |"))
        .skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 20, "only {} rows were found", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 5, "{row}");
        let tests = named(cells[4]).0;
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            assert!(
                source.contains(&format!("fn {test}(")),
                "SECURITY.md names the test `{test}`"
            );
        }
    }
}

#[test]
fn every_module_stands_in_the_tree_of_the_architecture() {
    let text = read("ARCHITECTURE.md");
    for folder in [
        "src",
        "crates/topology/src",
        "crates/node/src",
        "crates/core/src",
        "crates/sys/src",
        "crates/process/src",
        "crates/sys/program/src",
        "crates/launch/src",
        "crates/formats/src",
        "crates/fleet/src",
        "crates/traffic/src",
        "crates/tool/src",
        "crates/capi/src",
    ] {
        for entry in fs::read_dir(path(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let name = if entry.path().is_dir() {
                format!("{name}/")
            } else {
                name
            };
            // a module with children has a file and a folder
            let beside = format!("{}/", name.trim_end_matches(".rs"));
            let stands = |name: &str| {
                text.lines()
                    .any(|line| line.split_whitespace().next() == Some(name))
            };
            let is_known = name == "tests.rs" || stands(&name) || stands(&beside);
            assert!(
                is_known,
                "ARCHITECTURE.md has no line for `{folder}/{name}`"
            );
        }
    }
}

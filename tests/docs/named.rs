//! The files, tests and modules that the documents name, and those that they must name.

use super::support::sources;
use super::{documents, path, read};
use std::fs;
use std::path::Path;

/// The lines of a text that stand in no block.
fn running(text: &str) -> Vec<&str> {
    let mut inside = false;
    let is_running = |line: &&str| {
        let is_fence = line.starts_with("```");
        inside ^= is_fence;
        !inside && !is_fence
    };
    text.lines().filter(is_running).collect()
}

/// The words between backquotes in running text, and the targets of links.
fn named(text: &str) -> (Vec<String>, Vec<String>) {
    let text = running(text).join("\n");
    let quoted = text.split('`').skip(1).step_by(2).map(str::to_string);
    let links = text.split("](");
    let links = links.skip(1).filter_map(|rest| rest.split(')').next());
    (quoted.collect(), links.map(str::to_string).collect())
}

fn markdown() -> impl Iterator<Item = (String, String)> {
    let names = documents().into_iter().filter(|name| name.ends_with(".md"));
    names.map(|name| {
        let text = read(&name);
        (name, text)
    })
}

/// The name by which a link finds a heading, as GitHub makes it: small letters, digits, `-` and `_`, and `-` for a space.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    let kept: String = heading.trim().chars().filter(is_kept).collect();
    kept.to_lowercase().replace(' ', "-")
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = running(text);
    let headings = headings.into_iter().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn every_file_and_heading_that_a_document_names_exists() {
    let folders = "src/ crates/ tests/ include/ benches/ packaging/ docs/ examples/ .cargo/ .ci/";
    let (mut files, mut headings) = (0, 0);
    for (name, text) in markdown() {
        let (quoted, links) = named(&text);
        let is_path = |word: &&String| folders.split(' ').any(|folder| word.starts_with(folder));
        // a link counts from its document's folder
        let folder = Path::new(&name).parent().unwrap_or(Path::new(""));
        let links = links.iter().filter(|link| !link.contains("://"));
        let links = links.map(|link| match link.strip_prefix('#') {
            Some(_) => format!("{name}{link}"),
            None => folder.join(link).display().to_string(),
        });
        for target in quoted.iter().filter(is_path).cloned().chain(links) {
            let file = target.split(['#', ' ']).next().unwrap_or_default();
            assert!(path(file).exists(), "{name} names `{target}`");
            files += 1;
            if let Some((_, place)) = target.split_once('#') {
                let anchors = anchors(&read(file));
                let count = anchors.iter().filter(|anchor| *anchor == place).count();
                assert_eq!(count, 1, "{name} links to `{target}`");
                headings += 1;
            }
        }
    }
    let is_so = files >= 10 && headings >= 5;
    assert!(is_so, "only {files} and {headings} were found");
}

#[test]
fn a_heading_s_anchor_has_no_quotes_and_no_dots() {
    let found = anchor(" Variables of a site's own");
    assert_eq!(found, "variables-of-a-sites-own");
    let odd = anchor(" `--gpu-bind=closest`, and _why_ not…");
    assert_eq!(odd, "--gpu-bindclosest-and-_why_-not");
    assert_eq!(anchors("# A\n```\n# no\n```\n## B c\n"), ["a", "b-c"]);
}

/// True for a test's function, a case of a table (`cases!`), and a shell's function (what the newest
/// releases are asked).
pub fn has_test(source: &str, name: &str) -> bool {
    let forms = [
        format!("fn {name}("),
        format!("    {name}:"),
        format!("\n{name}() {{"),
    ];
    forms.iter().any(|form| source.contains(form))
}

/// SECURITY.md's table of inputs too: what no test proves is a claim.
#[test]
fn every_test_that_a_document_names_exists_and_each_input_of_a_user_names_one() {
    let source = ["src", "crates", "tests"].map(sources).concat();
    let security = read("SECURITY.md");
    let rows = security
        .lines()
        .skip_while(|line| !line.starts_with("| input |"))
        .skip(2);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 20, "only {} rows were found", rows.len());
    let mut tests: Vec<(String, String)> = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 5, "{row}");
        let of_row = named(cells[4]).0;
        assert!(!of_row.is_empty(), "no test: {row}");
        let of_row = of_row.into_iter();
        tests.extend(of_row.map(|test| ("SECURITY.md".to_string(), test)));
    }
    for (name, text) in markdown() {
        let is_letter = |b: u8| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit();
        let is_test = |word: &String| word.bytes().all(is_letter) && word.matches('_').count() >= 4;
        let words = named(&text).0.into_iter().filter(is_test);
        tests.extend(words.map(|word| (name.clone(), word)));
    }
    tests.retain(|(_, test)| !has_test(&source, test));
    assert_eq!(tests, []);
}

#[test]
fn every_module_stands_in_the_tree_of_the_architecture() {
    let text = read("ARCHITECTURE.md");
    let first_words: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let crates =
        "topology node core sys process sys/program launch formats fleet traffic tool capi";
    let folders = crates.split(' ').map(|name| format!("crates/{name}/src"));
    for folder in folders.chain(["src".to_string()]) {
        for entry in fs::read_dir(path(&folder)).unwrap() {
            let entry = entry.unwrap();
            let end = if entry.path().is_dir() { "/" } else { "" };
            let name = format!("{}{end}", entry.file_name().to_string_lossy());
            // a module with children has a file and a folder
            let beside = format!("{}/", name.trim_end_matches(".rs"));
            let stands = [&*name, &beside];
            let stands = stands.iter().any(|name| first_words.contains(name));
            let is_so = name == "tests.rs" || stands;
            assert!(is_so, "no line for `{folder}/{name}`");
        }
    }
}

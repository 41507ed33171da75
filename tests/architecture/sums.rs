//! Sums over the source: lines, public items, comments without a subject, and types that share a name.

use crate::tree::{Source, test_files};
use std::collections::{BTreeMap, BTreeSet};

/// The source folders of what slurmstepd maps.
pub const ROOTS: [&str; 6] = [
    "src",
    "crates/topology/src",
    "crates/node/src",
    "crates/core/src",
    "crates/sys/src",
    "crates/process/src",
];

/// The files that are compiled without tests, each with its lines up to a `mod tests {` at its end.
pub fn without_tests(sources: &[Source]) -> Vec<(&Source, Vec<&str>)> {
    let test_files = test_files(sources);
    let product = sources
        .iter()
        .filter(|source| !test_files.contains(&source.file));
    product
        .map(|source| {
            let lines: Vec<&str> = source.text.lines().collect();
            let is_test =
                |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests {");
            let end = lines.windows(2).position(is_test).unwrap_or(lines.len());
            (source, lines[..end].to_vec())
        })
        .collect()
}

/// The name of the item that a line declares with `pub`, and its keyword; not `pub mod`, which declares no more than a place.
fn public_item(line: &str) -> Option<(&str, &str)> {
    let mut words = line
        .trim_start()
        .strip_prefix("pub ")?
        .split_whitespace()
        .peekable();
    while words
        .next_if(|word| ["unsafe", "async", "extern", "\"C\""].contains(word))
        .is_some()
    {}
    let mut keyword = words.next()?;
    if keyword == "const" && words.peek() == Some(&"fn") {
        keyword = words.next()?;
    }
    let is_item = [
        "fn", "struct", "enum", "trait", "type", "const", "static", "union",
    ]
    .contains(&keyword);
    let name = words.next()?;
    let end = name
        .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .unwrap_or(name.len());
    is_item.then_some((keyword, &name[..end]))
}

/// How many items are public, methods included.
pub fn public_items(sources: &[Source]) -> usize {
    let lines = without_tests(sources)
        .into_iter()
        .flat_map(|(_, lines)| lines);
    lines.filter(|line| public_item(line).is_some()).count()
}

/// Public types of one name in several modules, each with its files.
pub fn types_of_one_name(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (source, lines) in without_tests(sources) {
        for (keyword, name) in lines.into_iter().filter_map(public_item) {
            if ["struct", "enum", "trait", "union"].contains(&keyword) {
                types
                    .entry(name.to_string())
                    .or_default()
                    .insert(source.file.clone());
            }
        }
    }
    types.retain(|_, files| files.len() > 1);
    types
}

/// The comments of a file that speak of an unnamed subject, as `line: word`.
pub fn nameless_comments(text: &str) -> Vec<String> {
    const NAMELESS: [&str; 6] = [
        "who",
        "whoever",
        "nobody",
        "somebody",
        "everybody",
        "anybody",
    ];
    let nameless = |line: &str| -> Option<String> {
        let (_, comment) = line.split_once("//")?;
        let mut words = comment
            .split(|letter: char| !letter.is_alphanumeric())
            .map(str::to_lowercase);
        words.find(|word| NAMELESS.contains(&word.as_str()))
    };
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(at, line)| Some(format!("{}: `{}`", at + 1, nameless(line)?)))
        .collect()
}

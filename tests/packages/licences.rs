//! The licences of what is linked in: that each is one which the packages may go out under, and their texts in one file.

use super::parts::{FILES, Part, parts};
use super::{is_as_made, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Those that ask for no more than that their text goes along.
const ALLOWED: &str =
    "Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,Unicode-3.0,Unlicense,Zlib,bzip2-1.0.6";

/// May the packages go out under this expression of SPDX?
fn is_allowed(expression: &str) -> bool {
    let expression = expression.trim();
    let split = |word: &str| {
        let (mut depth, mut from, mut sides) = (0, 0, Vec::new());
        for (at, letter) in expression.char_indices() {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            if depth == 0 && expression[at..].starts_with(word) {
                sides.push(&expression[from..at]);
                from = at + word.len();
            }
        }
        sides.push(&expression[from..]);
        sides
    };
    match (split(" AND "), split(" OR ")) {
        (all, _) if all.len() > 1 => all.into_iter().all(is_allowed),
        (_, any) if any.len() > 1 => any.into_iter().any(is_allowed),
        _ => match expression
            .strip_prefix('(')
            .and_then(|inner| inner.strip_suffix(')'))
        {
            Some(inner) => is_allowed(inner),
            None => ALLOWED.split(',').any(|allowed| allowed == expression),
        },
    }
}

/// The parts of all files, and into which files each is linked.
fn all() -> BTreeMap<Part, Vec<&'static str>> {
    let mut all = BTreeMap::<Part, Vec<&str>>::new();
    for (file, package, _) in FILES {
        for part in parts(package, "x86_64-unknown-linux-gnu").0 {
            all.entry(part).or_default().push(file);
        }
    }
    all
}

#[test]
fn each_licence_is_one_that_the_packages_may_go_out_under() {
    for (part, files) in all() {
        assert!(is_allowed(&part.licence), "{part:?} of {files:?}");
    }
    for (expression, is) in [
        ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
        ("GPL-2.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("GPL-2.0", false),
        ("", false),
        ("MIT)", false),
    ] {
        assert_eq!(is_allowed(expression), is, "{expression}");
    }
}

/// A crate's folder, as cargo unpacked it.
fn folder(part: &Part) -> PathBuf {
    let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
    let home = std::env::var_os("CARGO_HOME")
        .map_or_else(|| Path::new(&home).join(".cargo"), PathBuf::from);
    let name = format!("{}-{}", part.name, part.version);
    let sources = fs::read_dir(home.join("registry/src")).expect("cargo has unpacked its crates");
    let mut folders = sources.map(|source| source.unwrap().path().join(&name));
    folders.find(|folder| folder.is_dir()).expect(&name)
}

/// The texts that go along with a crate: MIT's where it offers that, else all.
fn texts(part: &Part) -> Vec<String> {
    let begins = "LICENSE LICENCE COPYING NOTICE COPYRIGHT UNLICENSE";
    let capitals = |file: &Path| file.file_name().unwrap().to_string_lossy().to_uppercase();
    let is_text = |file: &PathBuf| {
        let mut begins = begins.split(' ');
        file.is_file() && begins.any(|begin| capitals(file).starts_with(begin))
    };
    let entries = fs::read_dir(folder(part));
    let entries = entries.unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.filter(is_text).collect();
    files.sort();
    let is_mit = |file: &PathBuf| capitals(file).ends_with("-MIT");
    if files.iter().any(is_mit) && !part.licence.contains(" AND ") {
        files.retain(is_mit);
    }
    let text = |file: &PathBuf| {
        String::from_utf8_lossy(&fs::read(file).unwrap())
            .replace('\r', "")
            .trim_end()
            .to_string()
    };
    files.iter().map(text).collect()
}

const HEAD: &str =
    "What is linked into nic-placement's libraries and its tool, and under which licences.

nic-placement itself: Apache-2.0 OR MIT; both texts stand below.
The standard library of Rust: MIT OR Apache-2.0, Copyright (c) The Rust Project Contributors.
LLVM's libunwind: Apache-2.0 WITH LLVM-exception, Copyright (c) the LLVM Project.

";

#[test]
fn the_texts_of_all_licences_go_along() {
    let mut made = HEAD.to_string();
    let mut by_text = BTreeMap::<String, BTreeSet<String>>::new();
    let of_others = |(part, _): &(Part, _)| !part.own && !part.compiling;
    for (part, files) in all().into_iter().filter(of_others) {
        let name = format!("{} {}", part.name, part.version);
        made += &format!("{name}: {}; in {}\n", part.licence, files.join(", "));
        let mut texts = texts(&part);
        // postcard's package has none: it may be had under Apache-2.0, whose text is the same for all
        if texts.is_empty() && part.licence.contains("Apache-2.0") {
            texts.push(read("LICENSE-APACHE").trim_end().to_string());
        }
        assert!(!texts.is_empty(), "{name} has no text");
        for text in texts {
            by_text.entry(text).or_default().insert(name.clone());
        }
    }
    for own in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = read(own).trim_end().to_string();
        let names = by_text.entry(text).or_default();
        names.insert("nic-placement".to_string());
    }
    let texts = by_text.into_iter();
    let mut texts: Vec<_> = texts.map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        let names: Vec<String> = names.into_iter().collect();
        made += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    is_as_made("packaging/licenses.txt", &made);
}

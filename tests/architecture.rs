//! The walls of ARCHITECTURE.md as a test: which module may use which, who may hold `unsafe`, who may touch the world.
//!
//! Rust keeps none of these inside one crate.  The check reads the source as tokens; it knows no types, so it sees a
//! path only where it is written.

#[path = "architecture/samples.rs"]
mod samples;
#[path = "architecture/source.rs"]
mod source;

use source::{Token, WrittenPath, paths, starts, tokens, without_tests};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// `(module, what it may use)`; a module may always use itself.  `lib.rs` is the map and `main.rs` a line: neither is
/// held to an arrow.
const ARROWS: [(&str, &str); 14] = [
    ("diagnostic", ""),
    ("topology", "diagnostic"),
    ("sys", "diagnostic topology"),
    ("step", "topology diagnostic"),
    ("placement", "step topology diagnostic"),
    ("discover", "topology diagnostic"),
    ("import", "topology diagnostic"),
    ("platform", "topology diagnostic"),
    ("policy", "placement step topology diagnostic"),
    ("render", "placement step topology diagnostic"),
    ("config", "policy placement render topology diagnostic"),
    ("pipeline", "config discover import platform policy render placement step topology diagnostic"),
    (
        "spank",
        "pipeline sys config discover import platform policy render placement step topology diagnostic",
    ),
    ("cli", "pipeline sys config discover import platform policy render placement step topology diagnostic"),
];

/// `(user, used, what of it)`: arrows that reach a part of a module only, the items with one of these words in their
/// path.
const NARROW_ARROWS: [(&str, &str, &[&str]); 3] = [
    // the system calls speak in sets of CPUs and nodes, and know nothing of the machine
    ("sys", "topology", &["bitmap", "cpuset", "nodeset"]),
    // the grammar must know what a renderer can be told, and not how it renders
    ("config", "render", &["setting"]),
    // a word of the user's stands for a policy or a strictness; what was decided by it is no business of the grammar
    ("config", "placement", &["policy", "strictness", "bind", "mem"]),
];

/// A path that only some files may name.
struct Reserved {
    /// is it named by these segments?
    named: fn(&[&str]) -> bool,
    /// may this file name it?
    allowed: fn(&str) -> bool,
    rule: &'static str,
}

const RESERVED: [Reserved; 6] = [
    Reserved {
        named: |path| path[0] == "slurm_spank",
        allowed: |file| file.starts_with("src/spank/"),
        rule: "only `spank` names `slurm_spank`",
    },
    Reserved {
        named: |path| path[0] == "libc",
        allowed: |file| is_sys(file) || file == "src/spank/mod.rs",
        rule: "only `sys` and `spank/mod.rs` name `libc`",
    },
    Reserved {
        // holding an open file is not opening one: the type may be named, its functions may not
        named: |path| {
            (path.starts_with(&["std", "fs"]) && path != ["std", "fs", "File"])
                || (path.contains(&"File") && path.last() != Some(&"File"))
        },
        allowed: |file| file == "src/discover/root.rs" || is_in(file, "cli"),
        rule: "only `discover::root` and `cli` open files",
    },
    Reserved {
        named: |path| path.starts_with(&["std", "env"]),
        allowed: |file| is_in(file, "spank") || is_in(file, "cli") || file == "src/main.rs",
        rule: "only `spank` and `cli` see the environment and the command line",
    },
    Reserved {
        named: |path| {
            path.starts_with(&["std", "time"])
                || path.iter().any(|segment| ["Instant", "SystemTime"].contains(segment))
                || path.ends_with(&["thread", "spawn"])
                || path.ends_with(&["thread", "scope"])
                || path.ends_with(&["thread", "Builder"])
        },
        allowed: |file| is_in(file, "cli"),
        rule: "no clock and no thread outside `cli`",
    },
    Reserved {
        named: |path| path.iter().any(|segment| ["HashMap", "HashSet"].contains(segment)),
        allowed: |_| false,
        rule: "`BTreeMap` and `BTreeSet`, so that the same input gives the same output",
    },
];

const MAX_LINES: usize = 450;

/// The file of module `name` or one below it.
fn is_in(file: &str, name: &str) -> bool {
    file == format!("src/{name}.rs") || file.starts_with(&format!("src/{name}/"))
}

fn is_sys(file: &str) -> bool {
    is_in(file, "sys")
}

/// Files that may hold `unsafe`: the system calls, the hooks, and the crate root above them, where `forbid` would
/// reach down to both.
fn may_hold_unsafe(file: &str) -> bool {
    is_sys(file) || file == "src/spank/mod.rs" || file == "src/lib.rs"
}

// ---- the rules ----

/// A source file, its path relative to the package.
struct Source {
    file: String,
    text: String,
}

impl Source {
    fn new(file: &str, text: &str) -> Source {
        Source { file: file.into(), text: text.into() }
    }

    /// `["topology", "file"]` for `src/topology/file.rs` and `src/topology/file/mod.rs`.
    fn module(&self) -> Vec<&str> {
        let path = self.file.trim_start_matches("src/").trim_end_matches(".rs");
        let mut segments: Vec<_> = path.split('/').collect();
        if ["mod", "lib", "main"].contains(segments.last().unwrap_or(&"")) {
            segments.pop();
        }
        segments
    }
}

/// Every breach of every rule, as `file:line: rule`.
fn breaches(sources: &[Source]) -> Vec<String> {
    let tests = test_files(sources);
    sources.iter().flat_map(|source| breaches_of(source, tests.contains(&source.file))).collect()
}

/// The files of modules that are declared under `#[cfg(test)]`.
fn test_files(sources: &[Source]) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for source in sources {
        let (_, modules) = without_tests(&tokens(&source.text));
        let folder: String = source.module().iter().map(|segment| format!("{segment}/")).collect();
        for module in modules {
            files.extend([format!("src/{folder}{module}.rs"), format!("src/{folder}{module}/mod.rs")]);
        }
    }
    files
}

fn breaches_of(source: &Source, is_test: bool) -> Vec<String> {
    let all = tokens(&source.text);
    let (of_production, _) = without_tests(&all);
    let of_production = if is_test { Vec::new() } else { of_production };
    let mut found = Vec::new();
    found.extend(head_breaches(source));
    found.extend(unsafe_breaches(source, &all));
    found.extend(macro_breaches(&all));
    for path in paths(&all) {
        // an order that changes from run to run is no better in a test
        found.extend(reserved_breach(source, &path, &RESERVED[5..]));
    }
    for path in paths(&of_production) {
        found.extend(arrow_breach(source, &path));
        found.extend(reserved_breach(source, &path, &RESERVED[..5]));
    }
    found.sort();
    found.into_iter().map(|(line, rule)| format!("{}:{line}: {rule}", source.file)).collect()
}

type Breach = (usize, String);

fn head_breaches(source: &Source) -> Vec<Breach> {
    let mut found = Vec::new();
    if !source.text.starts_with("//! ") {
        found.push((1, "a file opens with a `//!` sentence that says what it is for".to_string()));
    }
    let head = source
        .text
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("//") || line.starts_with("#!["));
    let forbids = head.into_iter().any(|line| line == "#![forbid(unsafe_code)]");
    if !forbids && !may_hold_unsafe(&source.file) {
        found.push((
            1,
            "`#![forbid(unsafe_code)]` heads every file outside `sys` and `spank/mod.rs`".to_string(),
        ));
    }
    let lines = source.text.lines().count();
    if lines > MAX_LINES {
        found.push((lines, format!("a file has no more than {MAX_LINES} lines")));
    }
    found
}

fn unsafe_breaches(source: &Source, tokens: &[Token]) -> Vec<Breach> {
    let lines: Vec<_> = source.text.lines().map(str::trim).collect();
    let is_remark = |line: &str| line.starts_with("//") || line.starts_with("#[");
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if !starts(&tokens[at..], &["unsafe", "{"]) && !starts(&tokens[at..], &["unsafe", "impl"]) {
            continue;
        }
        let line = tokens[at].line;
        // a long statement begins on a line above: `let code =`
        let begins_above =
            |line: &&&str| !is_remark(line) && !line.is_empty() && !line.ends_with([';', '{', '}', ',']);
        let statement = lines[..line - 1].iter().rev().take_while(begins_above).count();
        let above = lines[..line - 1 - statement].iter().rev().take_while(|line| is_remark(line));
        if !above.into_iter().any(|line| line.starts_with("// SAFETY:")) {
            found.push((line, "a `// SAFETY:` comment stands right above every `unsafe`".to_string()));
        }
    }
    found
}

fn macro_breaches(tokens: &[Token]) -> Vec<Breach> {
    let unfinished = ["dbg", "todo", "unimplemented"];
    let calls = tokens.windows(2).filter(|two| unfinished.contains(&two[0].text) && two[1].text == "!");
    calls.map(|two| (two[0].line, format!("no `{}!` is left behind", two[0].text))).collect()
}

fn reserved_breach(source: &Source, path: &WrittenPath, rules: &[Reserved]) -> Option<Breach> {
    let broken = rules.iter().find(|rule| (rule.named)(&path.segments) && !(rule.allowed)(&source.file))?;
    Some((path.line, format!("`{}`: {}", path.segments.join("::"), broken.rule)))
}

fn arrow_breach(source: &Source, path: &WrittenPath) -> Option<Breach> {
    let module = source.module();
    let user = *module.first()?;
    let from_root = path_from_root(&module, &path.segments)?;
    let used = *from_root.first()?;
    if used == user || !ARROWS.iter().any(|(name, _)| *name == used) {
        return None;
    }
    let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == user) else {
        return Some((path.line, format!("`{user}` is in no arrow of tests/architecture.rs")));
    };
    if !allowed.split(' ').any(|name| name == used) {
        return Some((path.line, format!("`{user}` must not use `{used}`")));
    }
    let (_, _, part) = NARROW_ARROWS.iter().find(|(from, to, _)| *from == user && *to == used)?;
    let is_of_the_part = |segment: &&str| part.iter().any(|word| segment.to_lowercase().contains(word));
    let within = from_root[1..].iter().any(is_of_the_part);
    let rule = format!("`{user}` may use of `{used}` only what is named `{}`", part.join("`, `"));
    (!within).then_some((path.line, rule))
}

/// The path without its `crate::` or `super::`s, if it leads to the crate's root.
fn path_from_root<'a>(module: &[&str], segments: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let supers = segments.iter().take_while(|segment| **segment == "super").count();
    match segments[0] {
        "crate" => Some(&segments[1..]),
        // more of them than the file is deep: from a module inside the file
        "super" if supers >= module.len() => Some(&segments[supers..]),
        _ => None,
    }
}

// ---- the tests ----

fn read_sources(folder: &Path, name: &str, found: &mut Vec<Source>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("src can be read").map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let file = format!("{name}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            read_sources(&path, &file, found);
        } else if file.ends_with(".rs") {
            found.push(Source { text: fs::read_to_string(&path).expect("source is UTF-8"), file });
        }
    }
}

#[test]
fn the_source_keeps_to_its_walls() {
    let mut sources = Vec::new();
    read_sources(&Path::new(env!("NIC_PLACEMENT_ROOT")).join("src"), "src", &mut sources);
    assert!(sources.len() > 20, "only {} files were found", sources.len());
    let found = breaches(&sources);
    assert!(found.is_empty(), "{} breaches:\n{}", found.len(), found.join("\n"));
}

#[test]
fn no_arrow_leads_back() {
    fn reach<'a>(from: &'a str, seen: &mut BTreeSet<&'a str>) {
        let (_, used) = ARROWS.iter().find(|(name, _)| *name == from).expect("every module has a line");
        for used in used.split_whitespace() {
            if seen.insert(used) {
                reach(used, seen);
            }
        }
    }
    for (module, _) in ARROWS {
        let mut seen = BTreeSet::new();
        reach(module, &mut seen);
        assert!(!seen.contains(module), "`{module}` uses itself through {seen:?}");
    }
}

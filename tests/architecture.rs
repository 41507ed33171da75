//! The walls of ARCHITECTURE.md as a test.
//!
//! It checks which module may use which, which files may hold `unsafe`, which may use files and the environment, that no
//! files use one another in a circle, and that no function is too long to read.  Cargo keeps the packages apart; this test
//! keeps the modules of a package apart.  The check reads the source as tokens.  It knows no types, so it sees a path only
//! where it is written.

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/functions.rs"]
mod functions;
#[path = "architecture/samples.rs"]
mod samples;
#[path = "architecture/source.rs"]
mod source;
#[path = "architecture/sums.rs"]
#[allow(dead_code, reason = "the figures' own part")]
mod sums;
#[path = "architecture/tree.rs"]
mod tree;

use circles::Use;
use source::{Token, WrittenPath, paths, starts, tokens, without_tests};
use std::collections::BTreeSet;
use std::path::Path;
use tree::{CRATES, Source, test_files};

/// `(module, what it may use)`; a module may always use itself.  A bare name is a module of `core`, and `core` stands for all
/// of them, but `topology` and `node` are crates.  Each other crate counts as one module, but the pure `judge` of `launch`, `manifest`, `import` and `picture` of `formats`, and `agree`, `audit`,
/// `doctor`, `fabric` and `trial` of `fleet`, count separately.  `core`'s lib.rs
/// is only the map of the crate, and no arrow applies to it.
const ARROWS: [(&str, &str); 32] = [
    ("topology", ""),
    ("node", "topology"),
    ("step", "topology"),
    ("wish", "topology"),
    ("placement", "wish step topology"),
    ("gpus", "step topology"),
    ("policy", "placement wish topology"),
    ("bind", "gpus policy placement wish step topology"),
    ("maps", "placement wish topology"),
    ("libraries", "policy maps placement wish step topology"),
    ("config", "libraries wish topology"),
    (
        "plan",
        "bind gpus policy libraries placement wish step topology",
    ),
    ("sys", "topology"),
    ("process", "sys core node topology"),
    ("program", ""),
    ("plugin", "process sys core node topology"),
    (
        "launch",
        "launch::judge process sys config node gpus libraries maps placement plan policy step topology wish",
    ),
    (
        "launch::judge",
        "gpus libraries placement plan policy step topology",
    ),
    ("formats::manifest", "node topology"),
    ("formats::import", "formats::manifest topology"),
    ("formats::picture", "policy placement topology"),
    (
        "formats",
        "formats::manifest formats::import config node topology",
    ),
    ("fleet::agree", "fleet::audit placement topology"),
    ("fleet::audit", "placement topology"),
    (
        "fleet::doctor",
        "fleet::audit plan config gpus node policy placement topology",
    ),
    ("fleet::fabric", "fleet::audit topology"),
    ("fleet::trial", "topology"),
    ("fleet", "fleet::doctor sys node topology"),
    ("traffic", "libraries placement topology"),
    (
        "tool",
        "launch launch::judge formats formats::manifest formats::import formats::picture fleet fleet::agree fleet::audit fleet::doctor fleet::fabric fleet::trial traffic process program sys core node topology",
    ),
    (
        "capi",
        "launch launch::judge process sys core node topology",
    ),
    ("core", "topology"),
];

/// `(user, used, words)`: arrows that reach only a part of a module: the items with one of these words in their path.
const NARROW_ARROWS: [(&str, &str, &[&str]); 2] = [
    // the system calls take sets of CPUs and nodes; they know nothing of the machine
    ("sys", "topology", &["bitmap", "cpuset", "nodeset"]),
    // the grammar must know a renderer's options, but not how it renders
    ("config", "libraries", &["wanted"]),
];

/// A path that only some files may name.
struct Reserved {
    /// is it named by these segments?
    named: fn(&[&str]) -> bool,
    /// may this file name it?
    allowed: fn(&str) -> bool,
    rule: &'static str,
}

const RESERVED: [Reserved; 7] = [
    Reserved {
        named: |path| path[0] == "slurm_spank",
        allowed: |file| is_plugin(file),
        rule: "only the plugin names `slurm_spank`",
    },
    Reserved {
        // a constant is a number; using one makes no system call
        named: |path| path[0] == "libc" && !(path.len() == 2 && is_constant(path[1])),
        allowed: may_hold_unsafe,
        rule: "only `sys` and the lib.rs of the plugin and of `capi` call `libc`",
    },
    Reserved {
        // a module may hold an open file but not open one: it may name the type, but not its functions
        named: |path| {
            (path.starts_with(&["std", "fs"]) && path != ["std", "fs", "File"])
                || (path.contains(&"File") && path.last() != Some(&"File"))
        },
        allowed: |file| is_root(file) || is_tool(file),
        rule: "only `discover::root` and the tool open files",
    },
    Reserved {
        // the tool writes files of its own, and reads none as it likes: what stands there may be a pipe, or have no end
        named: |path| {
            let reads = [["File", "open"], ["fs", "read"], ["fs", "read_to_string"]];
            reads.iter().any(|read| path.ends_with(read))
        },
        allowed: is_root,
        rule: "only `discover::root` opens files to read them",
    },
    Reserved {
        named: |path| path.starts_with(&["std", "env"]),
        allowed: |file| is_plugin(file) || is_tool(file),
        rule: "only the plugin and the tool see the environment and the command line",
    },
    Reserved {
        named: |path| {
            path.starts_with(&["std", "time"])
                || path
                    .iter()
                    .any(|segment| ["Instant", "SystemTime"].contains(segment))
                || path.ends_with(&["thread", "spawn"])
                || path.ends_with(&["thread", "scope"])
                || path.ends_with(&["thread", "Builder"])
        },
        allowed: is_tool,
        rule: "no clock and no thread outside the tool",
    },
    Reserved {
        named: |path| {
            path.iter()
                .any(|segment| ["HashMap", "HashSet"].contains(segment))
        },
        allowed: |_| false,
        rule: "`BTreeMap` and `BTreeSet`, so that the same input gives the same output",
    },
];

const MAX_LINES: usize = 640;

/// The longest function is a table of a test; the longest of the product has half of it.
const MAX_FUNCTION_LINES: usize = 180;

fn is_plugin(file: &str) -> bool {
    file.starts_with("src/")
}

/// What reads the node.
fn is_root(file: &str) -> bool {
    file == "crates/node/src/discover/root.rs" || file.starts_with("crates/node/src/discover/root/")
}

/// The commands: what they use of other programs' files, pictures, judgements and bytes of NICs is pure.
fn is_tool(file: &str) -> bool {
    file.starts_with("crates/tool/src/")
}

fn is_constant(name: &str) -> bool {
    name.chars()
        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Files that may hold `unsafe`: the system calls, the hooks, and the functions that C calls.
fn may_hold_unsafe(file: &str) -> bool {
    file.starts_with("crates/sys/") || ["src/lib.rs", "crates/capi/src/lib.rs"].contains(&file)
}

// ---- the rules ----

/// Every breach of every rule, as `file:line: rule`.
fn breaches(sources: &[Source]) -> Vec<String> {
    let tests = test_files(sources);
    sources
        .iter()
        .flat_map(|source| breaches_of(source, tests.contains(&source.file)))
        .collect()
}

fn breaches_of(source: &Source, is_test: bool) -> Vec<String> {
    let all = tokens(&source.text);
    let (of_production, _) = without_tests(&all);
    let of_production = if is_test { Vec::new() } else { of_production };
    let mut found = Vec::new();
    found.extend(head_breaches(source));
    found.extend(missing_arrow(source));
    found.extend(unsafe_breaches(source, &all));
    found.extend(macro_breaches(&all));
    for path in paths(&all) {
        // tests too must not depend on an order that changes from run to run
        found.extend(reserved_breach(source, &path, &RESERVED[6..]));
    }
    for path in paths(&of_production) {
        found.extend(arrow_breach(source, &path));
        found.extend(reserved_breach(source, &path, &RESERVED[..6]));
    }
    found.sort();
    found
        .into_iter()
        .map(|(line, rule)| format!("{}:{line}: {rule}", source.file))
        .collect()
}

type Breach = (usize, String);

fn head_breaches(source: &Source) -> Vec<Breach> {
    let mut found = Vec::new();
    if !source.text.starts_with("//! ") {
        found.push((
            1,
            "a file opens with a `//!` sentence that says what it is for".to_string(),
        ));
    }
    let head = source
        .text
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("//") || line.starts_with("#!["));
    let forbids = head
        .into_iter()
        .any(|line| line == "#![forbid(unsafe_code)]");
    if !forbids && !may_hold_unsafe(&source.file) {
        found.push((
            1,
            "`#![forbid(unsafe_code)]` heads every file outside `sys` and the lib.rs of the plugin and of `capi`".to_string(),
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
        let begins_above = |line: &&&str| {
            !is_remark(line) && !line.is_empty() && !line.ends_with([';', '{', '}', ','])
        };
        let statement = lines[..line - 1]
            .iter()
            .rev()
            .take_while(begins_above)
            .count();
        let above = lines[..line - 1 - statement]
            .iter()
            .rev()
            .take_while(|line| is_remark(line));
        if !above.into_iter().any(|line| line.starts_with("// SAFETY:")) {
            found.push((
                line,
                "a `// SAFETY:` comment stands right above every `unsafe`".to_string(),
            ));
        }
    }
    found
}

fn macro_breaches(tokens: &[Token]) -> Vec<Breach> {
    let unfinished = ["dbg", "todo", "unimplemented"];
    let calls = tokens
        .windows(2)
        .filter(|two| unfinished.contains(&two[0].text) && two[1].text == "!");
    calls
        .map(|two| (two[0].line, format!("no `{}!` is left behind", two[0].text)))
        .collect()
}

fn reserved_breach(source: &Source, path: &WrittenPath, rules: &[Reserved]) -> Option<Breach> {
    let broken = rules
        .iter()
        .find(|rule| (rule.named)(&path.segments) && !(rule.allowed)(&source.file))?;
    Some((
        path.line,
        format!("`{}`: {}", path.segments.join("::"), broken.rule),
    ))
}

/// The name of a crate's module in `ARROWS`; there is no arrow for `core` itself.
fn in_arrows<'a>(crate_name: &'a str, module: &[&'a str]) -> &'a str {
    match (crate_name, module.first()) {
        // core's lib.rs hands these on
        ("core", Some(&("topology" | "diagnostic" | "order"))) => "topology",
        ("core", Some(module)) => module,
        ("launch", Some(&"judge")) => "launch::judge",
        ("formats", Some(&"manifest")) => "formats::manifest",
        ("formats", Some(&"import")) => "formats::import",
        ("formats", Some(&"picture")) => "formats::picture",
        ("fleet", Some(&"agree")) => "fleet::agree",
        ("fleet", Some(&"audit")) => "fleet::audit",
        ("fleet", Some(&"doctor")) => "fleet::doctor",
        ("fleet", Some(&"fabric")) => "fleet::fabric",
        ("fleet", Some(&"trial")) => "fleet::trial",
        _ => crate_name,
    }
}

/// What the module may use.
fn arrows_of(user: &str) -> Option<Vec<&'static str>> {
    let (_, used) = ARROWS.iter().find(|(name, _)| *name == user)?;
    Some(used.split_whitespace().collect())
}

fn is_of_core(name: &str) -> bool {
    name == "core"
        || !(CRATES.iter().any(|(crate_name, ..)| *crate_name == name) || name.contains("::"))
}

fn missing_arrow(source: &Source) -> Option<Breach> {
    let user = in_arrows(source.crate_name(), &source.module());
    let is_known = user == "core" || arrows_of(user).is_some();
    (!is_known).then(|| {
        (
            1,
            format!("`{user}` is in no arrow of tests/architecture.rs"),
        )
    })
}

fn arrow_breach(source: &Source, path: &WrittenPath) -> Option<Breach> {
    let module = source.module();
    let user = in_arrows(source.crate_name(), &module);
    let others = CRATES
        .iter()
        .find(|(_, _, written)| *written == path.segments[0]);
    let (crate_name, within) = match others {
        Some((crate_name, ..)) => (*crate_name, &path.segments[1..]),
        None => (
            source.crate_name(),
            path_from_root(&module, &path.segments)?,
        ),
    };
    let mut used = in_arrows(crate_name, within);
    if arrows_of(used).is_none() {
        used = crate_name;
    }
    // items of core's lib.rs itself belong to no module
    let allowed =
        arrows_of(user).filter(|_| used != user && !(used == "core" && is_of_core(user)))?;
    let is_allowed = allowed.contains(&used) || allowed.contains(&"core") && is_of_core(used);
    if !is_allowed {
        return Some((path.line, format!("`{user}` must not use `{used}`")));
    }
    let (_, _, part) = NARROW_ARROWS
        .iter()
        .find(|(from, to, _)| *from == user && *to == used)?;
    let is_of_the_part = |segment: &&str| {
        part.iter()
            .any(|word| segment.to_lowercase().contains(word))
    };
    let rule = format!(
        "`{user}` may use of `{used}` only what is named `{}`",
        part.join("`, `")
    );
    // the name of core's module itself says nothing
    let skipped = usize::from(is_of_core(used));
    (!within.iter().skip(skipped).any(is_of_the_part)).then_some((path.line, rule))
}

/// The path without its `crate::` or `super::`s, if it leads to the crate's root.
fn path_from_root<'a>(module: &[&str], segments: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let supers = segments
        .iter()
        .take_while(|segment| **segment == "super")
        .count();
    match segments[0] {
        "crate" => Some(&segments[1..]),
        // there are more `super::`s than the file is deep: the path is in a module inside the file
        "super" if supers >= module.len() => Some(&segments[supers..]),
        _ => None,
    }
}

// ---- the tests ----

/// All files of all crates.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("NIC_PLACEMENT_ROOT"));
    CRATES
        .iter()
        .flat_map(|(_, folder, _)| tree::read(root, folder))
        .collect()
}

#[test]
fn the_source_keeps_to_its_walls() {
    let sources = sources();
    assert!(
        sources.len() > 100,
        "only {} files were found",
        sources.len()
    );
    let found = breaches(&sources);
    assert!(
        found.is_empty(),
        "{} breaches:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn no_arrow_leads_back() {
    fn reach<'a>(from: &'a str, seen: &mut BTreeSet<&'a str>) {
        for used in arrows_of(from).expect("every module has a line") {
            let all = ARROWS
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| is_of_core(name));
            let used = if used == "core" {
                all.collect()
            } else {
                vec![used]
            };
            for used in used {
                if seen.insert(used) {
                    reach(used, seen);
                }
            }
        }
    }
    for (module, _) in ARROWS {
        let mut seen = BTreeSet::new();
        reach(module, &mut seen);
        assert!(
            !seen.contains(module),
            "`{module}` uses itself through {seen:?}"
        );
    }
}

/// Looks at siblings; each counts with everything below it.  A parent and its children may use each other: as is usual in
/// Rust, a parent holds what its children share, and calls them (`cargo bench --bench figures` lists each that does).
#[test]
fn no_two_modules_use_one_another_in_a_circle() {
    let sources = sources();
    let found = circles::circles(&circles::between_siblings(
        &sources,
        circles::uses(&sources),
    ));
    let shown = |circle: &Vec<Use>| {
        circle
            .iter()
            .map(|one| format!("  {one}\n"))
            .collect::<String>()
    };
    let shown: Vec<String> = found.iter().map(shown).collect();
    assert!(
        found.is_empty(),
        "{} circles:\n{}",
        found.len(),
        shown.join("\n")
    );
}

#[test]
fn no_function_is_too_long_to_read() {
    let functions = sources()
        .iter()
        .flat_map(functions::functions)
        .collect::<Vec<_>>();
    let long: Vec<String> = functions
        .iter()
        .filter(|f| f.lines > MAX_FUNCTION_LINES)
        .map(|f| f.to_string())
        .collect();
    assert!(
        long.is_empty(),
        "more than {MAX_FUNCTION_LINES} lines:\n{}",
        long.join("\n")
    );
}

/// The build script of `node` writes the machines by the types and crates that read them in slurmstepd.
#[test]
fn the_machines_bring_no_format_and_no_crate_of_their_own() {
    let folder = Path::new(env!("NIC_PLACEMENT_ROOT")).join("crates/node");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("node's manifest");
    let crates_of = |section: &str| -> BTreeSet<&str> {
        let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        lines
            .filter_map(|line| line.split_once(".workspace").map(|(name, _)| name))
            .collect()
    };
    let (script, library) = (
        crates_of("[build-dependencies]"),
        crates_of("[dependencies]"),
    );
    assert!(
        script.contains("postcard") && script.is_subset(&library),
        "{script:?} of {library:?}"
    );
}

/// A type's name means one thing in all crates.
#[test]
fn no_two_public_types_share_a_name() {
    let found = sums::types_of_one_name(&sources());
    assert!(
        found.is_empty(),
        "one of them gets another name: {found:#?}"
    );
}

/// A comment names the user, the admin, the task, the GPU or the file that it speaks of.
#[test]
fn every_comment_names_its_subject() {
    let root = Path::new(env!("NIC_PLACEMENT_ROOT"));
    let others = ["tests", "benches", "fuzz/src", "fuzz/fuzz_targets"]
        .map(|folder| tree::read(root, folder));
    assert_eq!(
        sums::nameless_comments(&["let x = 1; /", "/ nobody's"].concat()),
        ["1: `nobody`"]
    );
    let of_file = |source: Source| -> Vec<String> {
        let found = sums::nameless_comments(&source.text);
        found
            .into_iter()
            .map(|at| format!("{}:{at}", source.file))
            .collect()
    };
    let found: Vec<String> = sources()
        .into_iter()
        .chain(others.into_iter().flatten())
        .flat_map(of_file)
        .collect();
    assert!(
        found.is_empty(),
        "name the user, admin, task, GPU or file:\n{}",
        found.join("\n")
    );
}

//! The walls of ARCHITECTURE.md as a test.
//!
//! Cargo keeps the packages apart, and clippy finds an `unsafe` without its reason, debugging macros and a function that is
//! too long (clippy.toml).  This test keeps the modules of a package apart: which may use which, which files may hold
//! `unsafe`, files, the environment and the clock, and that no modules use one another in a circle.  It knows no types, so it
//! sees a path only where it is written.

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/samples.rs"]
mod samples;
#[path = "architecture/source.rs"]
mod source;

use circles::circles;
use source::{CRATES, Module, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

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

const RESERVED: [Reserved; 6] = [
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
];

const MAX_LINES: usize = 640;

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

/// The root of a crate forbids it for all of its files; of the plugin and of `capi` each file does.
fn must_forbid_unsafe(file: &str) -> bool {
    let is_root = file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    let beside = is_plugin(file) || file.starts_with("crates/capi/src/");
    (is_root || beside) && !may_hold_unsafe(file)
}

// ---- the rules ----

/// Every breach of every rule, as `file:line: rule`.
fn breaches(sources: &[Source], modules: &[Module]) -> Vec<String> {
    let mut found: Vec<String> = sources.iter().flat_map(head_breaches).collect();
    for module in modules {
        let user = in_arrows(module.crate_name, &module.path);
        if user != "core" && arrows_of(user).is_none() {
            found.push(format!(
                "{}:1: `{user}` is in no arrow of tests/architecture.rs",
                module.file
            ));
        }
        let imported = module.imports.iter().map(|import| &import.path);
        for written in imported.chain(&module.names) {
            let rule = arrow_breach(module, &written.segments);
            let rule = rule.or_else(|| reserved_breach(&module.file, &written.segments));
            found.extend(rule.map(|rule| format!("{}:{}: {rule}", module.file, written.line)));
        }
    }
    found.sort();
    found
}

fn head_breaches(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let head = source
        .text
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with(['/', '#']));
    let forbids = head
        .into_iter()
        .any(|line| line == "#![forbid(unsafe_code)]");
    let rules = [
        (
            1,
            !source.text.starts_with("//! "),
            "a file opens with a `//!` sentence that says what it is for",
        ),
        (
            1,
            !forbids && must_forbid_unsafe(&source.file),
            "`#![forbid(unsafe_code)]` heads the root of every crate but `sys`, and of the plugin and `capi` every file but lib.rs",
        ),
        (
            lines,
            lines > MAX_LINES,
            "a file has no more than 640 lines",
        ),
    ];
    let broken = rules.into_iter().filter(|rule| rule.1);
    broken
        .map(|(line, _, rule)| format!("{}:{line}: {rule}", source.file))
        .collect()
}

fn reserved_breach(file: &str, path: &[String]) -> Option<String> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let broken = RESERVED
        .iter()
        .find(|rule| (rule.named)(&path) && !(rule.allowed)(file))?;
    Some(format!("`{}`: {}", path.join("::"), broken.rule))
}

/// The name of a crate's module in `ARROWS`; there is no arrow for `core` itself.
fn in_arrows<'a>(crate_name: &'a str, module: &'a [String]) -> &'a str {
    let first = module.first().map_or("", String::as_str);
    match (crate_name, first) {
        // core's lib.rs hands these on
        ("core", "topology" | "diagnostic" | "order") => "topology",
        ("core", module) if !module.is_empty() => module,
        _ => {
            let of_its_own = |name: &&str| name.split_once("::") == Some((crate_name, first));
            ARROWS
                .iter()
                .map(|arrow| arrow.0)
                .find(of_its_own)
                .unwrap_or(crate_name)
        }
    }
}

/// What the module may use.
fn arrows_of(user: &str) -> Option<Vec<&'static str>> {
    let (_, used) = ARROWS.iter().find(|(name, _)| *name == user)?;
    Some(used.split_whitespace().collect())
}

fn is_of_core(name: &str) -> bool {
    name == "core" || !(CRATES.iter().any(|of_crate| of_crate.0 == name) || name.contains("::"))
}

fn arrow_breach(module: &Module, path: &[String]) -> Option<String> {
    let user = in_arrows(module.crate_name, &module.path);
    let (crate_name, within) = match CRATES.iter().find(|(_, _, written)| *written == path[0]) {
        Some((crate_name, ..)) => (*crate_name, path[1..].to_vec()),
        None => (module.crate_name, from_root(&module.path, path)?),
    };
    let mut used = in_arrows(crate_name, &within);
    if arrows_of(used).is_none() {
        used = crate_name;
    }
    // items of core's lib.rs itself belong to no module
    let allowed =
        arrows_of(user).filter(|_| used != user && !(used == "core" && is_of_core(user)))?;
    if !(allowed.contains(&used) || allowed.contains(&"core") && is_of_core(used)) {
        return Some(format!("`{user}` must not use `{used}`"));
    }
    let (_, _, part) = NARROW_ARROWS
        .iter()
        .find(|(from, to, _)| *from == user && *to == used)?;
    let is_of_the_part = |segment: &String| {
        part.iter()
            .any(|word| segment.to_lowercase().contains(word))
    };
    // the name of core's module itself says nothing
    let mut named = within.iter().skip(usize::from(is_of_core(used)));
    let rule = format!(
        "`{user}` may use of `{used}` only what is named `{}`",
        part.join("`, `")
    );
    (!named.any(is_of_the_part)).then_some(rule)
}

/// The path from its crate's root, if it leads there.
fn from_root(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let supers = path
        .iter()
        .take_while(|segment| *segment == "super")
        .count();
    match path[0].as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" if supers >= module.len() => Some(path[supers..].to_vec()),
        _ => None,
    }
}

/// The comments that speak of an unnamed subject, as `line: word`.
fn nameless_comments(text: &str) -> Vec<String> {
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
        let words = comment
            .split(|letter: char| !letter.is_alphanumeric())
            .map(str::to_lowercase);
        words
            .into_iter()
            .find(|word| NAMELESS.contains(&word.as_str()))
    };
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(at, line)| Some(format!("{}: `{}`", at + 1, nameless(line)?)))
        .collect()
}

// ---- the tests ----

fn root() -> &'static Path {
    Path::new(env!("NIC_PLACEMENT_ROOT"))
}

/// All modules of all crates, without those of tests.
static MODULES: LazyLock<Vec<Module>> = LazyLock::new(|| source::modules(&sources()));

/// All files of all crates.
fn sources() -> Vec<Source> {
    let mut all: Vec<Source> = CRATES
        .iter()
        .flat_map(|of_crate| source::files(root(), of_crate.1))
        .collect();
    all.sort_by(|one, other| one.file.cmp(&other.file));
    // a crate may stand inside another's folder
    all.dedup_by(|one, other| one.file == other.file);
    assert!(all.len() > 100, "only {} files were found", all.len());
    all
}

#[test]
fn the_source_keeps_to_its_walls() {
    let found = breaches(&sources(), &MODULES);
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
            let is_meant = |name: &&str| *name == used || used == "core" && is_of_core(name);
            for used in ARROWS.iter().map(|arrow| arrow.0).filter(is_meant) {
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

#[test]
fn no_two_modules_use_one_another_in_a_circle() {
    let found = circles(&MODULES);
    assert!(
        found.is_empty(),
        "{} circles:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// The build script of `node` writes the machines by the types and crates that read them in slurmstepd.
#[test]
fn the_machines_bring_no_format_and_no_crate_of_their_own() {
    let manifest =
        std::fs::read_to_string(root().join("crates/node/Cargo.toml")).expect("node's manifest");
    let crates_of = |section: &str| -> BTreeSet<&str> {
        let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        lines
            .filter_map(|line| Some(line.split_once(".workspace")?.0))
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
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for module in MODULES.iter() {
        for name in &module.public_types {
            types
                .entry(name.clone())
                .or_default()
                .push(module.file.clone());
        }
    }
    types.retain(|_, files| files.len() > 1);
    assert!(
        types.is_empty(),
        "one of them gets another name: {types:#?}"
    );
}

/// A comment names the user, the admin, the task, the GPU or the file that it speaks of.
#[test]
fn every_comment_names_its_subject() {
    assert_eq!(
        nameless_comments(&["let x = 1; /", "/ nobody's"].concat()),
        ["1: `nobody`"]
    );
    let others = ["tests", "benches", "fuzz/src", "fuzz/fuzz_targets"];
    let others = others
        .into_iter()
        .flat_map(|folder| source::files(root(), folder));
    let mut found = Vec::new();
    for source in sources().into_iter().chain(others) {
        found.extend(
            nameless_comments(&source.text)
                .into_iter()
                .map(|at| format!("{}:{at}", source.file)),
        );
    }
    assert!(
        found.is_empty(),
        "name the user, admin, task, GPU or file:\n{}",
        found.join("\n")
    );
}

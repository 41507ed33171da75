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

/// A module, and what it may use; it may always use itself.  A bare name is a module of `core`, and
/// `core` stands for all of them, but `topology` and `node` are crates.  Each other crate counts as
/// one module, but the pure `judge` of `launch`, `manifest`, `import` and `picture` of `formats`,
/// and `agree`, `audit`, `doctor`, `fabric` and `trial` of `fleet`, count separately.  `core`'s
/// lib.rs is only the map of the crate, and no arrow applies to it.
const ARROWS: &str = "
topology
node topology
step topology
wish topology
placement wish step topology
gpus step topology
policy placement wish topology
bind gpus policy placement wish step topology
maps placement wish topology
libraries policy maps placement wish step topology
config libraries wish topology
plan bind gpus policy libraries placement wish step topology
sys topology
process sys core node topology
program
plugin process sys core node topology
launch launch::judge process sys config node gpus libraries maps placement plan policy step topology wish
launch::judge gpus libraries placement plan policy step topology
formats::manifest node topology
formats::file topology
formats::import formats::file formats::manifest topology
formats::picture policy placement topology
formats formats::file formats::manifest formats::import config node topology
fleet::agree fleet::audit placement topology
fleet::audit placement topology
fleet::doctor fleet::audit plan config gpus node policy placement topology
fleet::fabric fleet::audit topology
fleet::trial topology
fleet fleet::doctor sys node topology
traffic gpus libraries placement step topology
tool launch launch::judge formats formats::manifest formats::import formats::picture fleet fleet::agree fleet::audit
tool fleet::doctor fleet::fabric fleet::trial traffic process program sys core node topology
capi launch launch::judge process sys core node topology
core topology
";

/// `(user, used, words)`: arrows that reach only a part of a module: the items with one of these words in their path.
const NARROW_ARROWS: [(&str, &str, &[&str]); 2] = [
    // the system calls take sets of CPUs and nodes; they know nothing of the machine
    ("sys", "topology", &["bitmap", "cpuset", "nodeset"]),
    // the grammar must know a renderer's options, but not how it renders
    ("config", "libraries", &["wanted"]),
];

/// Files that may hold `unsafe`: the system calls, the hooks, and the functions that C calls.
const UNSAFE: &str = "crates/sys/ src/lib.rs crates/capi/src/lib.rs";

/// Parts of paths, the files that alone may name them, and the rule: a path as `::std::fs::read::`,
/// a file by its beginning.  Free for all are a type that holds an open file but opens none, and a
/// constant, which makes no system call.
const RESERVED: &str = "
^::slurm_spank:: | src/ | only the plugin names `slurm_spank`
^::libc:: | crates/sys/ src/lib.rs crates/capi/src/lib.rs | only `sys` and two lib.rs call `libc`
^::std::fs:: ::File:: | crates/node/src/discover/root crates/tool/src/ | only `discover::root` and the tool open files
::File::open::$ ::fs::read::$ ::fs::read_to_string::$ | crates/node/src/discover/root | only `discover::root` reads files
^::std::env:: | src/ crates/tool/src/ | only the plugin and the tool see the environment
^::std::time:: ::Instant:: ::SystemTime:: ::thread::spawn::$ ::thread::scope::$ ::thread::Builder::$ | crates/tool/src/ | no clock and no thread outside the tool
";

const MAX_LINES: usize = 640;

fn is_in(file: &str, files: &str) -> bool {
    files.split(' ').any(|begin| file.starts_with(begin))
}

/// The root of a crate forbids it for all of its files; of the plugin and of `capi` each file does.
fn must_forbid_unsafe(file: &str) -> bool {
    let is_root = file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    (is_root || is_in(file, "src/ crates/capi/src/")) && !is_in(file, UNSAFE)
}

// ---- the rules ----

/// Every breach of every rule, as `file:line: rule`.
fn breaches(sources: &[Source], modules: &[Module]) -> Vec<String> {
    let mut found: Vec<String> = sources.iter().flat_map(head_breaches).collect();
    for module in modules {
        let user = in_arrows(module.crate_name, &module.path);
        if user != "core" && arrows_of(user).is_none() {
            found.push(format!("{}:1: `{user}` is in no arrow", module.file));
        }
        for written in module
            .imports
            .iter()
            .map(|import| &import.path)
            .chain(&module.names)
        {
            let rule = arrow_breach(module, &written.segments);
            let rule = rule.or_else(|| reserved_breach(&module.file, &written.segments));
            found.extend(rule.map(|rule| format!("{}:{}: {rule}", module.file, written.line)));
        }
    }
    found.sort();
    found
}

fn head_breaches(source: &Source) -> Vec<String> {
    let Source { file, text } = source;
    let lines = text.lines().count();
    let mut head = text
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with(['/', '#']));
    let forbids = head.any(|line| line == "#![forbid(unsafe_code)]");
    let rules = [
        (
            1,
            !text.starts_with("//! "),
            "a file opens with a `//!` sentence",
        ),
        (
            1,
            !forbids && must_forbid_unsafe(file),
            "`#![forbid(unsafe_code)]` is missing",
        ),
        (lines, lines > MAX_LINES, "a file has at most 640 lines"),
    ];
    let broken = rules.into_iter().filter(|rule| rule.1);
    broken
        .map(|(line, _, rule)| format!("{file}:{line}: {rule}"))
        .collect()
}

fn reserved_breach(file: &str, path: &[String]) -> Option<String> {
    let written = format!("::{}::", path.join("::"));
    let is_capital =
        |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_';
    let is_constant = path.len() == 2 && path[1].chars().all(is_capital);
    if is_constant || written.ends_with("::File::") {
        return None;
    }
    let names = |part: &str| match (part.strip_prefix('^'), part.strip_suffix('$')) {
        (Some(begin), _) => written.starts_with(begin),
        (_, Some(end)) => written.ends_with(end),
        _ => written.contains(part),
    };
    let mut rules = RESERVED
        .trim()
        .lines()
        .map(|row| row.split(" | ").collect::<Vec<_>>());
    let broken = rules.find(|rule| rule[0].split(' ').any(names) && !is_in(file, rule[1]))?;
    Some(format!("`{}`: {}", path.join("::"), broken[2]))
}

/// The name of a crate's module in `ARROWS`; there is no arrow for `core` itself.
fn in_arrows<'a>(crate_name: &'a str, module: &'a [String]) -> &'a str {
    let first = module.first().map_or("", String::as_str);
    match (crate_name, first) {
        // core's lib.rs hands these on
        ("core", "topology" | "diagnostic" | "order") => "topology",
        ("core", module) if !module.is_empty() => module,
        _ => {
            let is_its_own = |name: &&str| name.split_once("::") == Some((crate_name, first));
            users().find(is_its_own).unwrap_or(crate_name)
        }
    }
}

/// The words of each arrow.
fn arrows() -> impl Iterator<Item = Vec<&'static str>> {
    ARROWS.trim().lines().map(|line| line.split(' ').collect())
}

fn users() -> impl Iterator<Item = &'static str> {
    arrows().map(|arrow| arrow[0])
}

/// The modules that it may use.
fn arrows_of(user: &str) -> Option<Vec<&'static str>> {
    let of_user = arrows().filter(|arrow| arrow[0] == user);
    let used: Vec<Vec<&str>> = of_user.map(|arrow| arrow[1..].to_vec()).collect();
    (!used.is_empty()).then(|| used.concat())
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
    let is_own = used == user || used == "core" && is_of_core(user);
    let allowed = arrows_of(user).filter(|_| !is_own)?;
    if !(allowed.contains(&used) || allowed.contains(&"core") && is_of_core(used)) {
        return Some(format!("`{user}` must not use `{used}`"));
    }
    let narrow = |arrow: &&(&str, &str, &[&str])| (arrow.0, arrow.1) == (user, used);
    let part = NARROW_ARROWS.iter().find(narrow)?.2;
    let is_of_it = |segment: &String| {
        part.iter()
            .any(|word| segment.to_lowercase().contains(word))
    };
    // the name of core's module itself says nothing
    let mut named = within.iter().skip(usize::from(is_of_core(used)));
    let part = part.join("`, `");
    (!named.any(is_of_it)).then(|| format!("`{user}` may use of `{used}` only `{part}`"))
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

/// The comments that speak of an unnamed subject, as `file:line: word`.
fn nameless_comments(source: &Source) -> Vec<String> {
    const NAMELESS: &str = "who,whoever,nobody,somebody,everybody,anybody";
    let nameless = |(at, line): (usize, &str)| {
        let comment = line.split_once("//")?.1.to_lowercase();
        let mut words = comment.split(|letter: char| !letter.is_alphanumeric());
        let word = words.find(|word| NAMELESS.split(',').any(|each| each == *word))?;
        Some(format!("{}:{}: `{word}`", source.file, at + 1))
    };
    source
        .text
        .lines()
        .enumerate()
        .filter_map(nameless)
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
    let of_crates = CRATES
        .iter()
        .flat_map(|of_crate| source::files(root(), of_crate.1));
    let mut all: Vec<Source> = of_crates.collect();
    all.sort_by(|one, other| one.file.cmp(&other.file));
    // a crate may stand inside another's folder
    all.dedup_by(|one, other| one.file == other.file);
    assert!(all.len() > 100, "only {} files were found", all.len());
    all
}

#[track_caller]
fn none(found: Vec<String>) {
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_source_keeps_to_its_walls_and_no_two_modules_use_one_another_in_a_circle() {
    none(breaches(&sources(), &MODULES));
    none(circles(&MODULES));
}

#[test]
fn no_arrow_leads_back() {
    fn reach(from: &str, seen: &mut BTreeSet<&str>) {
        for used in arrows_of(from).expect("every module has a line") {
            let is_meant = |name: &&str| *name == used || used == "core" && is_of_core(name);
            for used in users().filter(is_meant) {
                if seen.insert(used) {
                    reach(used, seen);
                }
            }
        }
    }
    for module in users() {
        let mut seen = BTreeSet::new();
        reach(module, &mut seen);
        assert!(
            !seen.contains(module),
            "`{module}` uses itself through {seen:?}"
        );
    }
}

/// The build script of `node` writes the machines by the types and crates that read them in slurmstepd.
#[test]
fn the_machines_bring_no_format_and_no_crate_of_their_own() {
    let manifest = std::fs::read_to_string(root().join("crates/node/Cargo.toml")).unwrap();
    let crates_of = |section: &str| -> BTreeSet<&str> {
        let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        lines
            .filter_map(|line| Some(line.split_once(".workspace")?.0))
            .collect()
    };
    let [script, library] = ["[build-dependencies]", "[dependencies]"].map(crates_of);
    let is_kept = script.contains("postcard") && script.is_subset(&library);
    assert!(is_kept, "{script:?} of {library:?}");
}

/// A type's name means one thing in all crates.
#[test]
fn no_two_public_types_share_a_name() {
    let mut types: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for module in MODULES.iter() {
        for name in &module.public_types {
            types.entry(name).or_default().push(&module.file);
        }
    }
    types.retain(|_, files| files.len() > 1);
    assert!(types.is_empty(), "one name for: {types:#?}");
}

/// A comment names the user, the admin, the task, the GPU or the file that it speaks of.
#[test]
fn every_comment_names_its_subject() {
    let others = ["tests", "benches", "fuzz/src", "fuzz/fuzz_targets"];
    let others = others
        .into_iter()
        .flat_map(|folder| source::files(root(), folder));
    none(
        sources()
            .into_iter()
            .chain(others)
            .flat_map(|source| nameless_comments(&source))
            .collect(),
    );
}

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

use circles::{circles, knots};
use source::{Module, Source};
use std::collections::BTreeMap;

/// Modules, and what each may use besides itself.  A bare name is a crate or a module of `core`; `core` is all its modules.  A
/// name with `::` is a module of its own if it has a row, else a part of its module: `sys` may use sets of CPUs and nothing of
/// the machine, `config` a library's names and not how it renders.
const ARROWS: &str = "
topology program >
core > bind config gpus libraries maps placement plan policy step wish
node step wish formats::file fleet::trial > topology
gpus > step topology
placement > wish step topology
policy maps > placement wish topology
bind > gpus policy placement wish step topology
libraries > policy maps placement wish step topology
config > libraries::wanted wish topology
plan > bind gpus policy libraries placement wish step topology
sys > topology::bitmap topology::Bitmap topology::CpuSet topology::NodeSet
plugin process > sys core node topology
plugin launch capi > process
launch > launch::judge sys config node gpus libraries maps placement plan policy step topology wish
launch::judge > gpus libraries placement plan policy step topology
formats::manifest > node topology
formats::import > formats::file formats::manifest topology
formats::picture > policy placement topology
formats > formats::file formats::manifest formats::import config node topology
fleet::audit > placement topology
fleet::agree > fleet::audit placement topology
fleet::doctor > fleet::audit plan config gpus node policy placement topology
fleet::fabric > fleet::audit topology
fleet > fleet::doctor sys node topology
traffic > gpus libraries placement step topology
tool > formats formats::file formats::manifest formats::import formats::picture traffic process program
tool > fleet fleet::agree fleet::audit fleet::doctor fleet::fabric fleet::trial
tool capi > launch launch::judge sys core node topology
";

/// Files that may hold `unsafe`: the system calls, the hooks, and the functions that C calls.
const UNSAFE: &str = "crates/sys/ src/lib.rs crates/capi/src/lib.rs";

/// Parts of paths, the files that alone may name them, and the rule: a path as `^::std::fs::read::$`, a file by its beginning.
/// Free for all are a type that holds an open file but opens none, and a constant, which makes no system call.
const RESERVED: &str = "
^::slurm_spank:: | src/ | only the plugin names `slurm_spank`
^::libc:: | crates/sys/ src/lib.rs crates/capi/src/lib.rs | only `sys` and two lib.rs call `libc`
^::std::fs:: ::File:: | crates/node/src/discover/root crates/tool/src/ | only `discover::root` and the tool open files
::File::open::$ ::fs::read::$ ::fs::read_to_string::$ | crates/node/src/discover/root | only `discover::root` reads files
^::std::env:: | src/ crates/tool/src/ | only the plugin and the tool see the environment
::Instant:: ::SystemTime:: ::thread::spawn::$ ::thread::scope::$ ::thread::Builder::$ | crates/tool/src/ | no clock and no thread outside the tool
^::std::time:: | crates/tool/src/ crates/launch/src/launched/launcher.rs | no clock outside the tool
";

const PRODUCT: &str = "src/ crates/";
const NAMELESS: &str = " who whoever nobody somebody everybody anybody ";

fn is_in(file: &str, files: &str) -> bool {
    files.split(' ').any(|begin| file.starts_with(begin))
}

/// Every breach of every rule, as `file:line: rule`.
fn breaches(sources: &[Source]) -> Vec<String> {
    let is_of_crate = |(file, _): &&Source| is_in(file, PRODUCT) && file.contains("src/");
    let modules = source::modules(sources.iter().filter(is_of_crate));
    let mut found: Vec<String> = sources.iter().flat_map(of_text).collect();
    let mut types = BTreeMap::new();
    for module in &modules {
        let (file, path) = (&module.file, in_arrows(&module.path));
        let is_meant = |user| module.path[0] != "core" || path == "core" || is_of_core(user);
        let is_known = user_of(&path).is_some_and(is_meant);
        found.extend((!is_known).then(|| format!("{file}:1: `{path}` is in no arrow")));
        for (path, line, _) in &module.written {
            let rule = arrow_breach(module, path).or_else(|| reserved_breach(file, path));
            found.extend(rule.map(|rule| format!("{file}:{line}: {rule}")));
        }
        // a type's name means one thing in all crates
        for name in &module.public_types {
            let other = types.insert(name, file);
            found.extend(other.map(|other| format!("{file}:1: `{name}` is a type of {other} too")));
        }
    }
    [found, circles(&modules)].concat()
}

/// The breaches of the rules of a file's text: its length, its head, and comments with an unnamed subject.
fn of_text((file, text): &Source) -> Vec<String> {
    let is_head = |line: &&str| line.is_empty() || line.starts_with(['/', '#']);
    let mut head = text.lines().take_while(is_head);
    let forbids = head.any(|line| line == "#![forbid(unsafe_code)]");
    // the root of a crate forbids it for all of its files; of the plugin and of `capi` each file does
    let is_root = file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    let must_forbid = (is_root || is_in(file, "src/ crates/capi/src/")) && !is_in(file, UNSAFE);
    let (is_product, is_opened) = (is_in(file, PRODUCT), text.starts_with("//! "));
    let is_long = text.lines().count() > 640;
    let of_file = [
        (is_product && !is_opened, 1, "a `//!` sentence opens a file"),
        (is_product && is_long, 1, "a file has at most 640 lines"),
        (must_forbid && !forbids, 1, "`unsafe` is not forbidden"),
    ];
    let of_comments = text.lines().enumerate().map(|(at, line)| {
        let comment = line.split_once("//").map_or("", |of| of.1).to_lowercase();
        let mut words = comment.split(|letter: char| !letter.is_alphanumeric());
        let is_nameless = words.any(|word| NAMELESS.contains(&format!(" {word} ")));
        (is_nameless, at + 1, "a comment names its subject")
    });
    let broken = of_file.into_iter().chain(of_comments).filter(|of| of.0);
    let told = broken.map(|(_, line, rule)| format!("{file}:{line}: {rule}"));
    told.collect()
}

fn reserved_breach(file: &str, path: &[String]) -> Option<String> {
    let is_capital = |letter: char| !(letter.is_ascii_lowercase() || letter == '*');
    let is_constant = path.len() == 2 && path[1].chars().all(is_capital);
    let is_free = is_constant || path[path.len() - 1] == "File";
    let written = path.join("::");
    let whole = format!("^::{written}::$");
    let broken = RESERVED.trim().lines().find_map(|row| {
        let row: Vec<&str> = row.split(" | ").collect();
        let is_named = row[0].split(' ').any(|part| whole.contains(part));
        let is_broken = is_named && !is_in(file, row[1]);
        is_broken.then(|| format!("`{written}`: {}", row[2]))
    });
    broken.filter(|_| !is_free)
}

/// Each module of `ARROWS` with each name that it may use.
fn arrows() -> Vec<(&'static str, &'static str)> {
    let mut arrows = Vec::new();
    for (users, names) in ARROWS.lines().filter_map(|row| row.split_once(" >")) {
        for user in users.split(' ') {
            arrows.extend(names.split(' ').map(|name| (user, name)));
        }
    }
    arrows
}

fn is_below(path: &str, module: &str) -> bool {
    format!("{path}::").starts_with(&format!("{module}::"))
}

fn is_of_core(name: &str) -> bool {
    arrows().contains(&("core", name))
}

/// The module of `ARROWS` to which a path of its names belongs.
fn user_of(path: &str) -> Option<&'static str> {
    let users = arrows().into_iter().map(|arrow| arrow.0);
    let of_path = users.filter(|user| is_below(path, user));
    of_path.max_by_key(|user| user.len())
}

/// A path from its crate by the names of `ARROWS`.
fn in_arrows(path: &[String]) -> String {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    match names[..] {
        // core's lib.rs hands these on
        ["core", "diagnostic" | "order", ..] => format!("topology::{}", names[1..].join("::")),
        ["core", name, ..] if user_of(name).is_some() => names[1..].join("::"),
        _ => names.join("::"),
    }
}

fn arrow_breach(module: &Module, path: &[String]) -> Option<String> {
    let of_crate = match &*path[0] {
        "nic_placement" => Some("plugin"),
        "nic_placement_cli" => Some("tool"),
        name => name.strip_prefix("nic_placement_"),
    };
    let of_crate = of_crate.filter(|name| !is_of_core(name));
    let whole = match of_crate.and_then(user_of) {
        Some(name) => [&[name.to_string()], &path[1..]].concat(),
        None => module.absolute(path)?,
    };
    let (own, path) = (in_arrows(&module.path), in_arrows(&whole));
    let (user, used) = (user_of(&own)?, user_of(&path)?);
    // core's lib.rs is only the map of the crate: no arrow applies to it, and its items belong to no module
    let is_free = used == user || user == "core" || used == "core" && module.path[0] == "core";
    let is_meant = |name| is_below(&path, name) && is_below(name, used);
    let is_named = |name| is_meant(name) || name == "core" && whole[0] == "core";
    let mut names = arrows().into_iter().filter(|arrow| arrow.0 == user);
    let is_broken = !is_free && !names.any(|(_, name)| is_named(name));
    is_broken.then(|| format!("`{user}` must not use `{used}`"))
}

#[test]
fn the_source_keeps_to_its_walls_and_no_two_modules_use_one_another_in_a_circle() {
    let crates = ["src", "crates"].map(source::files).concat();
    assert!(crates.len() > 100, "{} files", crates.len());
    let others = ["tests", "benches", "fuzz/src", "fuzz/fuzz_targets"].map(source::files);
    let found = breaches(&[crates, others.concat()].concat());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn no_arrow_leads_back() {
    let meant = |(user, name)| Some(((user, user_of(name)?), ()));
    let back = knots(arrows().into_iter().filter_map(meant).collect());
    assert!(back.is_empty(), "{back:?}");
}

/// The build script of `node` writes the machines by the types and crates that read them in slurmstepd.
#[test]
fn the_machines_bring_no_format_and_no_crate_of_their_own() {
    let manifest = include_str!("../crates/node/Cargo.toml");
    let (library, rest) = manifest.split_once("[build-dependencies]").unwrap();
    let (script, _) = rest.split_once("\n[").unwrap();
    assert!(script.contains("\npostcard.workspace = true\n"));
    for line in script.lines().filter(|line| line.contains('=')) {
        assert!(library.contains(&format!("\n{line}\n")), "{line}");
    }
}

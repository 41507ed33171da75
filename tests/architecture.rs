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
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const CRATES: &str =
    "plugin topology node core sys process program launch formats fleet traffic tool capi";

/// A module, and what it may use; it may always use itself.  A bare name is a module of `core`, and
/// `core` stands for all of them, but `topology` and `node` are crates.  Each other crate counts as
/// one module, but the pure `judge` of `launch`, `manifest`, `import` and `picture` of `formats`,
/// and `agree`, `audit`, `doctor`, `fabric` and `trial` of `fleet`, count separately.  `core`'s
/// lib.rs is only the map of the crate, and no arrow applies to it.  After `/`: one of these words
/// is in the path.  The system calls take sets of CPUs and nodes and know nothing of the machine;
/// the grammar knows a renderer's options and not how it renders.
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
config libraries/wanted wish topology
plan bind gpus policy libraries placement wish step topology
sys topology/bitmap/cpuset/nodeset
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
tool launch launch::judge formats formats::file formats::manifest formats::import formats::picture fleet fleet::agree fleet::audit
tool fleet::doctor fleet::fabric fleet::trial traffic process program sys core node topology
capi launch launch::judge process sys core node topology
core topology
";

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

/// Every breach of every rule, as `file:line: rule`.
fn breaches(sources: &[Source], modules: &[Module]) -> Vec<String> {
    let mut found: Vec<String> = sources.iter().flat_map(of_text).collect();
    for module in modules {
        let (file, user) = (&module.file, in_arrows(&module.path));
        if user != "core" && arrows_of(user).is_empty() {
            found.push(format!("{file}:1: `{user}` is in no arrow"));
        }
        for of in &module.written {
            let rule = arrow_breach(module, &of.path).or_else(|| reserved_breach(file, &of.path));
            found.extend(rule.map(|rule| format!("{file}:{}: {rule}", of.line)));
        }
    }
    found
}

/// The breaches of the rules of a file's text: its length, its head, and comments with an unnamed subject.
fn of_text(Source { file, text }: &Source) -> Vec<String> {
    const NAMELESS: &str = "who,whoever,nobody,somebody,everybody,anybody";
    let is_head = |line: &&str| line.is_empty() || line.starts_with(['/', '#']);
    let mut head = text.lines().take_while(is_head);
    let forbids = head.any(|line| line == "#![forbid(unsafe_code)]");
    // the root of a crate forbids it for all of its files; of the plugin and of `capi` each file does
    let is_root = file.ends_with("src/lib.rs") || file.ends_with("src/main.rs");
    let must_forbid = (is_root || is_in(file, "src/ crates/capi/src/")) && !is_in(file, UNSAFE);
    let is_product = is_in(file, "src/ crates/");
    let lines = text.lines().count();
    let mut found = Vec::new();
    let mut breach = |is: bool, line: usize, rule: &str| {
        found.extend(is.then(|| format!("{file}:{line}: {rule}")));
    };
    let is_opened = !is_product || text.starts_with("//! ");
    breach(!is_opened, 1, "a `//!` sentence opens a file");
    breach(must_forbid && !forbids, 1, "`unsafe` is not forbidden");
    let is_long = is_product && lines > MAX_LINES;
    breach(is_long, lines, "a file has at most 640 lines");
    for (at, line) in text.lines().enumerate() {
        let comment = line.split_once("//").map_or("", |of| of.1).to_lowercase();
        let mut words = comment.split(|letter: char| !letter.is_alphanumeric());
        let nameless = words.find(|word| NAMELESS.split(',').any(|each| each == *word));
        breach(nameless.is_some(), at + 1, nameless.unwrap_or_default());
    }
    found
}

fn reserved_breach(file: &str, path: &[String]) -> Option<String> {
    let written = format!("::{}::", path.join("::"));
    let is_capital = |letter: char| !(letter.is_ascii_lowercase() || letter == '*');
    let is_constant = path.len() == 2 && path[1].chars().all(is_capital);
    if is_constant || written.ends_with("::File::") {
        return None;
    }
    let names = |part: &str| match (part.strip_prefix('^'), part.strip_suffix('$')) {
        (Some(begin), _) => written.starts_with(begin),
        (_, Some(end)) => written.ends_with(end),
        _ => written.contains(part),
    };
    let rows = RESERVED.trim().lines();
    let mut rules = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    let broken = rules.find(|rule| rule[0].split(' ').any(names) && !is_in(file, rule[1]))?;
    Some(format!("`{}`: {}", path.join("::"), broken[2]))
}

/// The name in `ARROWS` of what has this path from its crate; there is no arrow for `core` itself.
fn in_arrows(path: &[String]) -> &str {
    match (&*path[0], path.get(1).map_or("", String::as_str)) {
        // core's lib.rs hands these on
        ("core", "topology" | "diagnostic" | "order") => "topology",
        ("core", module) if !module.is_empty() => module,
        own => {
            let is_its_own = |name: &&str| name.split_once("::") == Some(own);
            users().find(is_its_own).unwrap_or(own.0)
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

/// The module and those that it may use; nothing for an unknown one.
fn arrows_of(user: &str) -> Vec<&'static str> {
    let of_user = arrows().filter(|arrow| arrow[0] == user);
    of_user.flatten().collect()
}

fn is_crate(name: &str) -> bool {
    CRATES.split(' ').any(|of_crate| of_crate == name)
}

/// True if a word of an arrow allows this module.
fn is_meant(word: &str, module: &str) -> bool {
    let of_core = module == "core" || !(is_crate(module) || module.contains("::"));
    word == module || word == "core" && of_core
}

fn arrow_breach(module: &Module, path: &[String]) -> Option<String> {
    let of_crate = match path[0].strip_prefix("nic_placement") {
        Some("") => Some("plugin"),
        Some("_cli") => Some("tool"),
        other => other.map(|name| &name[1..]).filter(|name| is_crate(name)),
    };
    let path = match of_crate {
        Some(name) => [&[name.to_string()], &path[1..]].concat(),
        None => module.absolute(path)?,
    };
    let (user, mut used) = (in_arrows(&module.path), in_arrows(&path));
    if arrows_of(used).is_empty() {
        used = &path[0];
    }
    // items of core's lib.rs itself belong to no module
    if arrows_of(user).is_empty() || used == "core" && is_meant("core", user) {
        return None;
    }
    let allowed = |arrow: &&str| is_meant(arrow.split('/').next().unwrap_or_default(), used);
    let Some(arrow) = arrows_of(user).into_iter().find(allowed) else {
        return Some(format!("`{user}` must not use `{used}`"));
    };
    let (_, words) = arrow.split_once('/')?;
    // the name of core's module itself says nothing
    let begin = if path[0] == "core" { 2 } else { 1 };
    let named = path[begin..].join(" ").to_lowercase();
    let is_of_it = words.split('/').any(|word| named.contains(word));
    (!is_of_it).then(|| format!("`{user}` may use of `{used}` only `{words}`"))
}

fn root() -> &'static Path {
    Path::new(env!("NIC_PLACEMENT_ROOT"))
}

/// All files of all crates.
fn sources() -> Vec<Source> {
    let of = |folder| source::files(root(), folder);
    let mut all = ["src", "crates"].map(of).concat();
    all.retain(|source| source.file.contains("src/"));
    assert!(all.len() > 100, "only {} files were found", all.len());
    all
}

#[test]
fn the_source_keeps_to_its_walls_and_no_two_modules_use_one_another_in_a_circle() {
    let (sources, mut types) = (sources(), BTreeMap::<&str, Vec<&str>>::new());
    let modules = source::modules(&sources);
    let found = [breaches(&sources, &modules), circles(&modules)].concat();
    assert!(found.is_empty(), "{found:#?}");
    // a type's name means one thing in all crates
    for module in &modules {
        for name in &module.public_types {
            types.entry(name).or_default().push(&module.file);
        }
    }
    types.retain(|_, files| files.len() > 1);
    assert!(types.is_empty(), "one name for: {types:#?}");
}

#[test]
fn no_arrow_leads_back() {
    let of_user = |arrow: Vec<&'static str>| {
        let (user, used) = (arrow[0], arrow.into_iter().skip(1));
        used.map(move |word| (user, word.split('/').next().unwrap_or_default()))
    };
    let meant = |(user, word)| {
        let meant = users().filter(move |name| is_meant(word, name));
        meant.map(move |used| ((user, used), ()))
    };
    let back = knots(arrows().flat_map(of_user).flat_map(meant).collect());
    assert!(back.is_empty(), "{back:?}");
}

/// The build script of `node` writes the machines by the types and crates that read them in slurmstepd.
#[test]
fn the_machines_bring_no_format_and_no_crate_of_their_own() {
    let manifest = std::fs::read_to_string(root().join("crates/node/Cargo.toml")).unwrap();
    let crates_of = |section: &str| -> BTreeSet<&str> {
        let lines = manifest.lines().skip_while(|line| *line != section).skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| Some(line.split_once(".workspace")?.0));
        names.collect()
    };
    let [script, library] = ["[build-dependencies]", "[dependencies]"].map(crates_of);
    let is_kept = script.contains("postcard") && script.is_subset(&library);
    assert!(is_kept, "{script:?} of {library:?}");
}

/// A comment names the user, the admin, the task, the GPU or the file that it speaks of.
#[test]
fn every_comment_names_its_subject() {
    let others = ["tests", "benches", "fuzz/src", "fuzz/fuzz_targets"];
    let texts = others.map(|folder| source::files(root(), folder)).concat();
    let found: Vec<String> = texts.iter().flat_map(of_text).collect();
    assert!(found.is_empty(), "{found:#?}");
}

//! Finds which module names an item of which other module of its crate, and the circles among siblings.
//!
//! An item is its module's that defines it, through all re-exports.  `mod child;` and `pub use child::Item` are no uses: they
//! only show where something is.  A module counts with all below it.  A parent and its children may use each other: as is
//! usual in Rust, a parent holds what its children share, and calls them.

use crate::source::Module;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Path = Vec<String>;

/// The longest chain of re-exports that is followed: one that leads to itself ends there.
const MAX_HOPS: usize = 16;

/// A module, and its item's name there; none where the module itself is named.
type Item = (Path, Option<String>);

/// The modules of one crate by their paths.
struct Crate<'a>(BTreeMap<&'a [String], &'a Module>);

impl Crate<'_> {
    /// The module that defines an item; `None` where it is another crate's, or of `from` itself.
    fn resolve(&self, from: &[String], path: &[String], hops: usize) -> Option<Item> {
        let supers = path
            .iter()
            .take_while(|segment| *segment == "super")
            .count();
        let (begin, names) = match path.first()?.as_str() {
            "crate" => (0, 1),
            "self" => (from.len(), 1),
            "super" => (from.len().saturating_sub(supers), supers),
            first => {
                let module = self.0.get(from)?;
                let is_child = self.0.contains_key(&*[from, &path[..1]].concat());
                let is_known = is_child || module.imports.iter().any(|import| import.name == first);
                is_known.then_some((from.len(), 0))?
            }
        };
        self.walk(from[..begin].to_vec(), &path[names..], hops)
    }

    fn walk(&self, module: Path, rest: &[String], hops: usize) -> Option<Item> {
        let Some((name, after)) = rest.split_first() else {
            return Some((module, None));
        };
        let child = [&module[..], std::slice::from_ref(name)].concat();
        let is_module = self.0.contains_key(&*child);
        let imports = &self.0.get(&*module)?.imports;
        match imports.iter().find(|import| import.name == *name) {
            // a function may have the name of its module
            Some(import) if name != "*" && (after.is_empty() || !is_module) => {
                let through = [&import.path.segments, after].concat();
                self.resolve(&module, &through, hops.checked_sub(1)?)
            }
            _ if is_module => self.walk(child, after, hops),
            _ => Some((module, Some(name.clone()))),
        }
    }

    /// Each use between two children of one module, and where it is written.
    fn uses(&self) -> BTreeMap<Path, BTreeMap<Path, String>> {
        let mut found: BTreeMap<Path, BTreeMap<Path, String>> = BTreeMap::new();
        for (from, module) in &self.0 {
            // the compiler warns of a private import without a use
            let imported = module.imports.iter().filter(|import| !import.public);
            let names = module.names.iter().filter(|name| name.of_module);
            for path in imported.map(|import| &import.path).chain(names) {
                let Some((to, Some(item))) = self.resolve(from, &path.segments, MAX_HOPS) else {
                    continue;
                };
                let shared = from
                    .iter()
                    .zip(&to)
                    .take_while(|(one, other)| one == other)
                    .count();
                let file = &self.0[&*to].file;
                if from.len() > shared && to.len() > shared && *file != module.file {
                    let written = format!("{}:{}: uses `{item}` of {file}", module.file, path.line);
                    let of_user = found.entry(from[..=shared].to_vec()).or_default();
                    of_user.entry(to[..=shared].to_vec()).or_insert(written);
                }
            }
        }
        found
    }
}

/// The shortest circles among siblings, each as its uses, from the first of them.
pub fn circles(modules: &[Module]) -> Vec<String> {
    let mut found = BTreeSet::new();
    let names: BTreeSet<&str> = modules.iter().map(|module| module.crate_name).collect();
    for name in names {
        let of_crate = modules.iter().filter(|module| module.crate_name == name);
        // a program beside a library is a crate of its own, which the library cannot use
        let of_crate = of_crate.filter(|module| !module.file.ends_with("/main.rs"));
        let uses = Crate(of_crate.map(|module| (&*module.path, module)).collect()).uses();
        found.extend(uses.keys().filter_map(|start| shortest(&uses, start)));
    }
    found.into_iter().collect()
}

/// The shortest way from a module back to itself, if none on it comes before it by name.
fn shortest(uses: &BTreeMap<Path, BTreeMap<Path, String>>, start: &Path) -> Option<String> {
    let mut open = VecDeque::from([(start, Vec::new())]);
    let mut seen = BTreeSet::new();
    while let Some((module, way)) = open.pop_front() {
        for (next, written) in uses.get(module).into_iter().flatten() {
            let way = [&way[..], &[written.as_str()]].concat();
            if next == start {
                return Some(way.join("; "));
            }
            if next > start && seen.insert(next) {
                open.push_back((next, way));
            }
        }
    }
    None
}

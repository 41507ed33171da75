//! Finds which file uses which other file of its crate, and the circles among them.
//!
//! A file uses another if it names an item that is defined there, even through re-exports.  `mod child;` and
//! `pub use child::Item` are no uses: they only show where something is.  Uses in tests do not count.

use crate::source::{Import, Token, body, imports, paths, starts, tokens, without_tests};
use crate::tree::{Source, test_files};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// That `from` names an item of `to`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub from: String,
    pub to: String,
    pub line: usize,
    pub item: String,
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{}: uses `{}` of {}",
            self.from, self.line, self.item, self.to
        )
    }
}

/// A name of another module, where a file writes it.
struct Name<'a> {
    segments: Vec<&'a str>,
    line: usize,
}

#[derive(Default)]
struct Module<'a> {
    file: &'a str,
    imports: Vec<Import<'a>>,
    /// what is written outside of `use`
    names: Vec<Name<'a>>,
}

/// The modules of one crate by their paths; one inside a file is a module of that file.
#[derive(Default)]
struct Modules<'a>(BTreeMap<Vec<&'a str>, Module<'a>>);

/// The longest chain of re-exports that is followed: one that leads to itself ends there.
const MAX_HOPS: usize = 16;

impl<'a> Modules<'a> {
    fn add(&mut self, file: &'a str, path: Vec<&'a str>, all: &[Token<'a>]) {
        let (mut own, mut at) = (Vec::new(), 0);
        while at < all.len() {
            let inside =
                all[at].text == "mod" && all.get(at + 2).is_some_and(|token| token.text == "{");
            if inside {
                let length = body(&all[at + 2..]);
                let inner = [path.as_slice(), &[all[at + 1].text]].concat();
                self.add(file, inner, &all[at + 3..at + 2 + length]);
                at += 2 + length;
            } else {
                own.push(all[at]);
                at += 1;
            }
        }
        let (imports, rest) = imports(&own);
        let module = self.0.entry(path).or_default();
        module.file = file;
        module.imports.extend(imports);
        module.names.extend(names(&rest));
    }

    /// The module that defines what `segments` names in `from`, and the item's name there.  The name is `None` if the segments
    /// name the module itself.  The answer is `None` if the item is of another crate, or is defined in `from` itself.
    fn resolve<'b>(
        &self,
        from: &[&'b str],
        segments: &[&'b str],
        hops: usize,
    ) -> Option<(Vec<&'b str>, Option<&'b str>)>
    where
        'a: 'b,
    {
        let supers = segments
            .iter()
            .take_while(|segment| **segment == "super")
            .count();
        match *segments.first()? {
            "crate" => self.walk(Vec::new(), &segments[1..], hops),
            "self" => self.walk(from.to_vec(), &segments[1..], hops),
            "super" => self.walk(
                from[..from.len().saturating_sub(supers)].to_vec(),
                &segments[supers..],
                hops,
            ),
            first if self.knows(from, first) => self.walk(from.to_vec(), segments, hops),
            _ => None,
        }
    }

    /// Does the module declare or import this name, so that a path may begin with it?
    fn knows(&self, module: &[&str], name: &str) -> bool {
        let imports = self.0.get(module).map_or(&[][..], |module| &module.imports);
        self.0.contains_key(&[module, &[name]].concat())
            || imports.iter().any(|import| import.name == name)
    }

    fn walk<'b>(
        &self,
        module: Vec<&'b str>,
        rest: &[&'b str],
        hops: usize,
    ) -> Option<(Vec<&'b str>, Option<&'b str>)>
    where
        'a: 'b,
    {
        let Some((&name, after)) = rest.split_first() else {
            return Some((module, None));
        };
        let child = [module.as_slice(), &[name]].concat();
        let import = self
            .0
            .get(&module)?
            .imports
            .iter()
            .find(|import| import.name == name);
        match import {
            // a function may have the same name as its module
            Some(import) if after.is_empty() || !self.0.contains_key(&child) => {
                let through = [import.segments.as_slice(), after].concat();
                self.resolve(&module, &through, hops.checked_sub(1)?)
            }
            _ if self.0.contains_key(&child) => self.walk(child, after, hops),
            _ => Some((module, Some(name))),
        }
    }

    /// Every use of one file by another, once each.
    fn uses(&self) -> Vec<Use> {
        let mut found: BTreeMap<(&str, &str), Use> = BTreeMap::new();
        for (path, module) in &self.0 {
            // the compiler warns of a private import without a use
            let imported = module.imports.iter().filter(|import| !import.public);
            let written = module.names.iter().map(|name| (&name.segments, name.line));
            for (segments, line) in imported
                .map(|import| (&import.segments, import.line))
                .chain(written)
            {
                let Some((target, Some(item))) = self.resolve(path, segments, MAX_HOPS) else {
                    continue;
                };
                let to = self.0[&target].file;
                if to != module.file {
                    found.entry((module.file, to)).or_insert_with(|| Use {
                        from: module.file.to_string(),
                        to: to.to_string(),
                        line,
                        item: item.to_string(),
                    });
                }
            }
        }
        found.into_values().collect()
    }
}

/// The paths of `tokens` that may name what a module declares or imports.
fn names<'a>(tokens: &[Token<'a>]) -> Vec<Name<'a>> {
    let mut found = Vec::new();
    for path in paths(tokens) {
        let before = |back: usize| path.at.checked_sub(back).map_or("", |at| tokens[at].text);
        let is_method_or_declared = [".", "fn"].contains(&before(1));
        let of_another_path = before(1) == ":" && before(2) == ":";
        let rest = &tokens[path.at + 3 * path.segments.len() - 2..];
        let is_macro = path.segments.len() == 1
            && ["(", "[", "{"]
                .iter()
                .any(|open| starts(rest, &["!", open]));
        if !(is_method_or_declared || of_another_path || is_macro) {
            found.push(Name {
                segments: path.segments,
                line: path.line,
            });
        }
    }
    found
}

/// Every use among the files of each crate.
pub fn uses(sources: &[Source]) -> Vec<Use> {
    let tests = test_files(sources);
    let folders: BTreeSet<&str> = sources
        .iter()
        .map(|source| source.folder.as_str())
        .collect();
    let mut found = Vec::new();
    for folder in folders {
        let of_crate = |name: &str| format!("{folder}/{name}");
        let has_library = sources
            .iter()
            .any(|source| source.file == of_crate("lib.rs"));
        let mut modules = Modules::default();
        for source in sources
            .iter()
            .filter(|source| source.folder == folder && !tests.contains(&source.file))
        {
            // a program beside a library is a crate of its own, and the library cannot use it
            if !(has_library && source.file == of_crate("main.rs")) {
                modules.add(
                    &source.file,
                    source.module(),
                    &without_tests(&tokens(&source.text)).0,
                );
            }
        }
        found.extend(modules.uses());
    }
    found
}

/// A use as a step from one node of a graph to another: between files, or between the modules that hold them.
#[derive(Clone)]
pub struct Step {
    pub from: String,
    pub to: String,
    pub by: Use,
}

/// Each use between two modules of one parent; a module counts with everything below it.  If one file's module is above the
/// other's, there is no such pair: a parent holds what its children share.
pub fn between_siblings(sources: &[Source], uses: Vec<Use>) -> Vec<Step> {
    let module = |source: &Source| {
        [&[&*source.folder], &source.module()[..]]
            .concat()
            .join("::")
    };
    let modules: BTreeMap<&str, String> = sources
        .iter()
        .map(|source| (&*source.file, module(source)))
        .collect();
    let step = |by: Use| {
        let (from, to): (Vec<&str>, Vec<&str>) = (
            modules[&*by.from].split("::").collect(),
            modules[&*by.to].split("::").collect(),
        );
        let shared = from
            .iter()
            .zip(&to)
            .take_while(|(from, to)| from == to)
            .count();
        let sibling = |module: &[&str]| Some(module.get(..=shared)?.join("::"));
        Some(Step {
            from: sibling(&from)?,
            to: sibling(&to)?,
            by,
        })
    };
    uses.into_iter().filter_map(step).collect()
}

/// A shortest circle for each group of nodes that use one another.
pub fn circles(steps: &[Step]) -> Vec<Vec<Use>> {
    let mut from: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
    for step in steps {
        from.entry(&step.from).or_default().push(step);
    }
    let reached: BTreeMap<&str, BTreeMap<&str, &Step>> = from
        .keys()
        .map(|node| (*node, last_steps(&from, node)))
        .collect();
    let uses = |one: &str, other: &str| {
        reached
            .get(one)
            .is_some_and(|there| there.contains_key(other))
    };
    let mut knotted: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for &node in from.keys().filter(|node| uses(node, node)) {
        let knot = from
            .keys()
            .copied()
            .filter(|other| uses(node, other) && uses(other, node));
        let knot: Vec<&str> = knot.collect();
        if knotted.insert(node) {
            found.extend(
                knot.iter()
                    .map(|node| way_back(&reached[node], node))
                    .min_by_key(Vec::len),
            );
        }
        knotted.extend(knot);
    }
    found
}

/// Every node that `start` leads to, with the last step of a shortest way there.  `start` is included if a way leads back.
fn last_steps<'a>(
    from: &BTreeMap<&'a str, Vec<&'a Step>>,
    start: &'a str,
) -> BTreeMap<&'a str, &'a Step> {
    let mut found: BTreeMap<&str, &Step> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for &step in from.get(node).into_iter().flatten() {
            if !found.contains_key(step.to.as_str()) {
                found.insert(&step.to, step);
                open.push_back(&step.to);
            }
        }
    }
    found
}

/// The shortest way from `start` to itself.
fn way_back(last_steps: &BTreeMap<&str, &Step>, start: &str) -> Vec<Use> {
    let mut way = vec![last_steps[start]];
    while way[way.len() - 1].from != start {
        way.push(last_steps[&*way[way.len() - 1].from]);
    }
    way.iter().rev().map(|step| step.by.clone()).collect()
}

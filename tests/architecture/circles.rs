//! Finds which module names an item of which other module of its crate, and the circles among siblings.
//!
//! An item is its module's that defines it, through all re-exports.  `mod child;` and `pub use child::Item` are no uses: they
//! only show where something is.  A module counts with all below it.  A parent and its children may use each other: as is
//! usual in Rust, a parent holds what its children share, and calls them.

use crate::source::Module;
use std::collections::{BTreeMap, BTreeSet};

type Modules<'a> = BTreeMap<&'a [String], &'a Module>;

/// An item's path by the module that defines it, through so many re-exports, since one may lead to itself; `None` for a module,
/// and for what another crate has.
fn resolve(all: &Modules, from: &Module, path: &[String], hops: usize) -> Option<Vec<String>> {
    let whole = from.absolute(path).or_else(|| {
        let whole = [&from.path[..], path].concat();
        let is_child = all.contains_key(&whole[..=from.path.len()]);
        (is_child || from.imports.contains_key(&path[0])).then_some(whole)
    })?;
    for end in 1..whole.len() {
        let (within, after) = (all.get(&whole[..end])?, &whole[end + 1..]);
        let is_module = all.contains_key(&whole[..=end]);
        // a function may have the name of its module
        let is_meant = after.is_empty() || !is_module;
        if let Some(import) = within.imports.get(&whole[end]).filter(|_| is_meant) {
            return resolve(all, within, &[import, after].concat(), hops.checked_sub(1)?);
        } else if !is_module {
            return Some(whole[..=end].to_vec());
        }
    }
    None
}

/// The uses among siblings of which each is part of a circle, or leads from one to another.
pub fn circles(modules: &[Module]) -> Vec<String> {
    let all: Modules = modules.iter().map(|of| (&*of.path, of)).collect();
    let mut uses = BTreeMap::new();
    for module in modules {
        for (path, line, _) in module.written.iter().filter(|written| written.2) {
            let used = resolve(&all, module, path, 16).unwrap_or_default();
            let [to @ .., item] = &used[..] else { continue };
            let (from, file) = (&module.path, &all[to].file);
            let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if from.len() > shared && to.len() > shared && *file != module.file {
                let told = format!("{}:{line}: uses `{item}` of {file}", module.file);
                let siblings = (from[..=shared].to_vec(), to[..=shared].to_vec());
                uses.entry(siblings).or_insert(told);
            }
        }
    }
    knots(uses).into_values().collect()
}

/// Without the arrows that begin where none ends, or end where none begins.
pub fn knots<N: Ord + Clone, T>(mut arrows: BTreeMap<(N, N), T>) -> BTreeMap<(N, N), T> {
    loop {
        let (users, used): (BTreeSet<N>, BTreeSet<N>) = arrows.keys().cloned().unzip();
        let before = arrows.len();
        arrows.retain(|(from, to), _| used.contains(from) && users.contains(to));
        if arrows.len() == before {
            return arrows;
        }
    }
}

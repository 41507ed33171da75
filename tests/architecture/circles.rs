//! Finds which module names an item of which other module of its crate, and the circles among siblings.
//!
//! An item is its module's that defines it, through all re-exports.  `mod child;` and `pub use child::Item` are no uses: they
//! only show where something is.  A module counts with all below it.  A parent and its children may use each other: as is
//! usual in Rust, a parent holds what its children share, and calls them.

use crate::source::Module;
use std::collections::{BTreeMap, BTreeSet};

/// The longest chain of re-exports that is followed: one that leads to itself ends there.
const MAX_HOPS: usize = 16;

struct Modules<'a>(BTreeMap<&'a [String], &'a Module>);

impl Modules<'_> {
    /// The module that defines an item, and its name there; `None` for a module, and for what another crate has.
    fn resolve(
        &self,
        from: &Module,
        path: &[String],
        hops: usize,
    ) -> Option<(Vec<String>, String)> {
        let whole = from.absolute(path).or_else(|| {
            let whole = [&from.path[..], path].concat();
            let is_child = self.0.contains_key(&whole[..=from.path.len()]);
            (is_child || imported(from, &path[0]).is_some()).then_some(whole)
        })?;
        for (end, name) in whole.iter().enumerate().skip(1) {
            let (within, after) = (self.0.get(&whole[..end])?, &whole[end + 1..]);
            let is_module = self.0.contains_key(&whole[..=end]);
            // a function may have the name of its module
            let import = imported(within, name).filter(|_| after.is_empty() || !is_module);
            if let Some(import) = import {
                let through = [import, after].concat();
                return self.resolve(within, &through, hops.checked_sub(1)?);
            } else if !is_module {
                return Some((whole[..end].to_vec(), name.clone()));
            }
        }
        None
    }
}

/// The path by which a module imports a name.
fn imported<'a>(module: &'a Module, name: &str) -> Option<&'a [String]> {
    let named = module.written.iter().find(|written| {
        let import = written.import.as_ref();
        name != "*" && import.is_some_and(|import| import.0 == name)
    });
    named.map(|written| &*written.path)
}

/// The uses among siblings of which each is part of a circle, or leads from one to another.
pub fn circles(modules: &[Module]) -> Vec<String> {
    let of_path = modules.iter().map(|module| (&*module.path, module));
    let all = Modules(of_path.collect());
    let mut uses = BTreeMap::new();
    for module in modules {
        for written in &module.written {
            // the compiler warns of a private import without a use
            let is_use = match &written.import {
                Some((_, public)) => !public,
                None => written.of_module,
            };
            let used = is_use.then(|| all.resolve(module, &written.path, MAX_HOPS));
            let Some((to, item)) = used.flatten() else {
                continue;
            };
            let from = &module.path;
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let file = &all.0[&*to].file;
            if from.len() > shared && to.len() > shared && *file != module.file {
                let told = format!("{}:{}: uses `{item}` of {file}", module.file, written.line);
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

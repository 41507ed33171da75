//! The source of the workspace, module by module: the paths that each writes, without what only tests see.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::path::Path;

/// `(crate, its source folder, its name in other crates)`
pub const CRATES: [(&str, &str, &str); 13] = [
    ("plugin", "src", "nic_placement"),
    ("topology", "crates/topology/src", "nic_placement_topology"),
    ("node", "crates/node/src", "nic_placement_node"),
    ("core", "crates/core/src", "nic_placement_core"),
    ("sys", "crates/sys/src", "nic_placement_sys"),
    ("process", "crates/process/src", "nic_placement_process"),
    ("program", "crates/sys/program/src", "nic_placement_program"),
    ("launch", "crates/launch/src", "nic_placement_launch"),
    ("formats", "crates/formats/src", "nic_placement_formats"),
    ("fleet", "crates/fleet/src", "nic_placement_fleet"),
    ("traffic", "crates/traffic/src", "nic_placement_traffic"),
    ("tool", "crates/tool/src", "nic_placement_cli"),
    ("capi", "crates/capi/src", "nic_placement_capi"),
];

/// A file: its path from the repository, and its text.
pub struct Source {
    pub file: String,
    pub text: String,
}

/// A path as it is written, `use` groups spelled out.
pub struct Written {
    pub segments: Vec<String>,
    pub line: usize,
    /// its first segment may be a name that its module declares or imports: it is no method, macro or path from `::`
    pub of_module: bool,
}

pub struct Import {
    /// its name in this module; `*` for all of another one
    pub name: String,
    pub public: bool,
    pub path: Written,
}

/// A module; one inside a file has that file.
#[derive(Default)]
pub struct Module {
    pub file: String,
    pub crate_name: &'static str,
    pub path: Vec<String>,
    pub imports: Vec<Import>,
    /// outside of `use`
    pub names: Vec<Written>,
    pub public_types: Vec<String>,
}

/// Every Rust file below the folder.
pub fn files(root: &Path, folder: &str) -> Vec<Source> {
    let entries = std::fs::read_dir(root.join(folder)).expect(folder);
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files_of: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    files_of.sort();
    let mut found = Vec::new();
    for file in files_of {
        if root.join(&file).is_dir() {
            found.extend(files(root, &file));
        } else if file.ends_with(".rs") {
            let text = std::fs::read_to_string(root.join(&file)).expect("source is UTF-8");
            found.push(Source { file, text });
        }
    }
    found
}

/// The modules of all crates, without those that only tests see.
pub fn modules(sources: &[Source]) -> Vec<Module> {
    let (mut found, mut of_tests) = (Vec::new(), BTreeSet::new());
    for source in sources {
        let (crate_name, path) = place(&source.file);
        let product =
            syn::parse_file(&source.text).unwrap_or_else(|e| panic!("{}: {e}", source.file));
        let module = Module {
            file: source.file.clone(),
            crate_name,
            path,
            ..Module::default()
        };
        read(module, product.items, &mut found, &mut of_tests);
    }
    let is_of_tests = |module: &Module| {
        (0..=module.path.len())
            .any(|end| of_tests.contains(&(module.crate_name, module.path[..end].to_vec())))
    };
    found.retain(|module| !is_of_tests(module));
    found
}

/// The crate of a file, and its module: `["topology", "file"]` for `…/topology/file.rs` and `…/topology/file/mod.rs`.
pub fn place(file: &str) -> (&'static str, Vec<String>) {
    let below = |(name, folder, _): &(&'static str, &str, &str)| {
        Some((
            folder.len(),
            *name,
            file.strip_prefix(folder)?.strip_prefix('/')?,
        ))
    };
    let (_, name, path) = CRATES
        .iter()
        .filter_map(below)
        .max()
        .expect("a crate's file");
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let is_root = ["lib", "main"].contains(&path);
    let segments = path.split('/').filter(|_| !is_root);
    (name, segments.map(str::to_string).collect())
}

/// Is the item under `#[cfg(test)]`?
fn is_of_tests(item: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = item.clone().into_iter().collect();
    let mut attributes = tokens.chunks(2).take_while(|pair| is_punct(&pair[0], '#'));
    attributes.any(|pair| pair[1].to_string() == "[cfg (test)]")
}

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn read(
    mut module: Module,
    items: Vec<syn::Item>,
    found: &mut Vec<Module>,
    of_tests: &mut BTreeSet<(&'static str, Vec<String>)>,
) {
    for item in items {
        let tokens = item.to_token_stream();
        let named = match &item {
            syn::Item::Struct(item) => Some((&item.vis, &item.ident)),
            syn::Item::Enum(item) => Some((&item.vis, &item.ident)),
            syn::Item::Trait(item) => Some((&item.vis, &item.ident)),
            syn::Item::Union(item) => Some((&item.vis, &item.ident)),
            _ => None,
        };
        let below = |name: &Ident| [&module.path[..], &[name.to_string()]].concat();
        match item {
            syn::Item::Mod(item) if is_of_tests(&tokens) => {
                of_tests.insert((module.crate_name, below(&item.ident)));
            }
            _ if is_of_tests(&tokens) => {}
            syn::Item::Use(item) if item.leading_colon.is_none() => {
                let public = !matches!(item.vis, syn::Visibility::Inherited);
                imports(&item.tree, &[], public, &mut module.imports);
            }
            syn::Item::Mod(item) => {
                let (file, path) = (module.file.clone(), below(&item.ident));
                let inner = Module {
                    file,
                    crate_name: module.crate_name,
                    path,
                    ..Module::default()
                };
                if let Some((_, items)) = item.content {
                    read(inner, items, found, of_tests);
                }
            }
            ref other => {
                if let Some((syn::Visibility::Public(_), name)) = named {
                    module.public_types.push(name.to_string());
                }
                module.names.extend(paths(other.to_token_stream()));
            }
        }
    }
    found.push(module);
}

fn imports(tree: &syn::UseTree, before: &[String], public: bool, found: &mut Vec<Import>) {
    let with = |name: &str| [before, &[name.to_string()]].concat();
    let (name, segments) = match tree {
        syn::UseTree::Path(path) => {
            return imports(&path.tree, &with(&path.ident.to_string()), public, found);
        }
        syn::UseTree::Group(group) => {
            return group
                .items
                .iter()
                .for_each(|tree| imports(tree, before, public, found));
        }
        syn::UseTree::Name(name) if name.ident == "self" => {
            (before[before.len() - 1].clone(), before.to_vec())
        }
        syn::UseTree::Name(name) => (name.ident.to_string(), with(&name.ident.to_string())),
        syn::UseTree::Rename(name) => (name.rename.to_string(), with(&name.ident.to_string())),
        syn::UseTree::Glob(_) => ("*".to_string(), with("*")),
    };
    let first = tree.to_token_stream().into_iter().next().expect("a name");
    let path = Written {
        segments,
        line: first.span().start().line,
        of_module: true,
    };
    found.push(Import { name, public, path });
}

/// Every path in the tokens, those of macros' arguments too.
pub fn paths(tokens: TokenStream) -> Vec<Written> {
    let mut found = Vec::new();
    paths_of(tokens, &[], &mut found);
    found
}

fn paths_of(tokens: TokenStream, before: &[String], found: &mut Vec<Written>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let last = at.checked_sub(1).map(|at| &tokens[at]);
        match &tokens[at] {
            TokenTree::Group(group) => {
                // `pub(crate)` uses nothing
                if last.is_none_or(|last| last.to_string() != "pub") {
                    paths_of(group.stream(), &[], found);
                }
            }
            // a lifetime; the alias of the name before it
            token if is_punct(token, '\'') || !before.is_empty() && token.to_string() == "as" => {
                at += 1
            }
            TokenTree::Ident(first) => {
                let follows = |mark| last.is_some_and(|last| is_punct(last, mark));
                let of_another = at > 1 && follows(':') && is_punct(&tokens[at - 2], ':');
                let is_declared = last.is_some_and(|last| last.to_string() == "fn");
                let mut segments = [before, &[first.to_string()]].concat();
                let mut of_group = None;
                while let Some([one, two, next]) = tokens.get(at + 1..at + 4) {
                    match next {
                        _ if !is_punct(one, ':') || !is_punct(two, ':') => break,
                        TokenTree::Ident(name) => segments.push(name.to_string()),
                        TokenTree::Group(group) => of_group = Some(group.stream()),
                        _ => break,
                    }
                    at += 3;
                }
                if let Some(group) = of_group {
                    paths_of(group, &segments, found);
                } else {
                    let next = (tokens.get(at + 1), tokens.get(at + 2));
                    let is_macro = segments.len() == 1
                        && matches!(next, (Some(mark), Some(TokenTree::Group(_))) if is_punct(mark, '!'));
                    let of_module = !(is_macro || is_declared || of_another || follows('.'));
                    let line = first.span().start().line;
                    found.push(Written {
                        segments,
                        line,
                        of_module,
                    });
                }
            }
            _ => {}
        }
        at += 1;
    }
}

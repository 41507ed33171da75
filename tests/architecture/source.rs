//! The source of the workspace, module by module: the paths that each writes, without what only tests see.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
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
    let mut found = Vec::new();
    let entries = std::fs::read_dir(root.join(folder)).expect(folder);
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect(folder)
                .file_name()
                .into_string()
                .expect(folder)
        })
        .collect();
    names.sort();
    for file in names.iter().map(|name| format!("{folder}/{name}")) {
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
        let tokens: TokenStream = source.text.parse().expect("source is Rust");
        let mut removed = Vec::new();
        let product = without_tests(tokens, &mut removed);
        let product =
            syn::parse2::<syn::File>(product).unwrap_or_else(|e| panic!("{}: {e}", source.file));
        of_tests.extend(
            removed
                .into_iter()
                .map(|name| (crate_name, [&path[..], &[name]].concat())),
        );
        read(&source.file, crate_name, path, product.items, &mut found);
    }
    found.retain(|module| {
        !(0..=module.path.len())
            .any(|end| of_tests.contains(&(module.crate_name, module.path[..end].to_vec())))
    });
    found
}

/// The crate of a file, and its module: `["topology", "file"]` for `…/topology/file.rs` and `…/topology/file/mod.rs`.
pub fn place(file: &str) -> (&'static str, Vec<String>) {
    let of_crate = CRATES.iter().filter_map(|(name, folder, _)| {
        Some((
            *name,
            file.strip_prefix(folder)?.strip_prefix('/')?,
            folder.len(),
        ))
    });
    let (name, path, _) = of_crate
        .max_by_key(|found| found.2)
        .expect("a crate's file");
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let is_root = ["lib", "main"].contains(&path);
    let segments = path.split('/').filter(|_| !is_root);
    (name, segments.map(str::to_string).collect())
}

/// Leaves out every item under `#[cfg(test)]`; `removed` gets the names of those modules that are files.
fn without_tests(tokens: TokenStream, removed: &mut Vec<String>) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut kept: Vec<TokenTree> = Vec::new();
    while let Some(token) = tokens.next() {
        let is_hash = is_punct(&token, '#');
        if is_hash
            && tokens
                .peek()
                .is_some_and(|next| next.to_string() == "[cfg (test)]")
        {
            // an attribute or a comment above it
            while let [.., hash, group] = &kept[..] {
                if !is_punct(hash, '#') || !is_group(group, Delimiter::Bracket) {
                    break;
                }
                kept.truncate(kept.len() - 2);
            }
            let mut before = String::new();
            for token in tokens.by_ref().skip(1) {
                let text = token.to_string();
                if before == "mod" {
                    removed.push(text.clone());
                }
                if is_punct(&token, ';') || is_group(&token, Delimiter::Brace) {
                    break;
                }
                before = text;
            }
            tokens.next_if(|token| is_punct(token, ';'));
            continue;
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let inner = without_tests(group.stream(), removed);
                let mut new = Group::new(group.delimiter(), inner);
                new.set_span(group.span());
                TokenTree::Group(new)
            }
            other => other,
        });
    }
    kept.into_iter().collect()
}

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}

fn read(
    file: &str,
    crate_name: &'static str,
    path: Vec<String>,
    items: Vec<syn::Item>,
    found: &mut Vec<Module>,
) {
    let mut module = Module {
        file: file.to_string(),
        crate_name,
        path,
        imports: Vec::new(),
        names: Vec::new(),
        public_types: Vec::new(),
    };
    for item in items {
        let named = match &item {
            syn::Item::Struct(item) => Some((&item.vis, &item.ident)),
            syn::Item::Enum(item) => Some((&item.vis, &item.ident)),
            syn::Item::Trait(item) => Some((&item.vis, &item.ident)),
            syn::Item::Union(item) => Some((&item.vis, &item.ident)),
            _ => None,
        };
        if let Some((syn::Visibility::Public(_), name)) = named {
            module.public_types.push(name.to_string());
        }
        match item {
            syn::Item::Use(item) if item.leading_colon.is_none() => {
                let public = !matches!(item.vis, syn::Visibility::Inherited);
                imports(&item.tree, &[], public, &mut module.imports);
            }
            syn::Item::Mod(item) => {
                if let Some((_, items)) = item.content {
                    let inner = [&module.path[..], &[item.ident.to_string()]].concat();
                    read(file, crate_name, inner, items, found);
                }
            }
            other => module.names.extend(paths(other.to_token_stream())),
        }
    }
    found.push(module);
}

fn imports(tree: &syn::UseTree, before: &[String], public: bool, found: &mut Vec<Import>) {
    let with = |name: &proc_macro2::Ident| [before, &[name.to_string()]].concat();
    let (name, segments, line) = match tree {
        syn::UseTree::Path(path) => return imports(&path.tree, &with(&path.ident), public, found),
        syn::UseTree::Group(group) => {
            return group
                .items
                .iter()
                .for_each(|tree| imports(tree, before, public, found));
        }
        syn::UseTree::Name(name) if name.ident == "self" => (
            before[before.len() - 1].clone(),
            before.to_vec(),
            line(&name.ident),
        ),
        syn::UseTree::Name(name) => (name.ident.to_string(), with(&name.ident), line(&name.ident)),
        syn::UseTree::Rename(name) => (
            name.rename.to_string(),
            with(&name.ident),
            line(&name.ident),
        ),
        syn::UseTree::Glob(glob) => {
            let all = [before, &["*".to_string()]].concat();
            ("*".to_string(), all, glob.star_token.spans[0].start().line)
        }
    };
    let path = Written {
        segments,
        line,
        of_module: true,
    };
    found.push(Import { name, public, path });
}

fn line(ident: &proc_macro2::Ident) -> usize {
    ident.span().start().line
}

/// Every path in the tokens, those of macros' arguments too.
pub fn paths(tokens: TokenStream) -> Vec<Written> {
    let mut found = Vec::new();
    paths_of(&tokens.into_iter().collect::<Vec<_>>(), &[], &mut found);
    found
}

fn paths_of(tokens: &[TokenTree], before: &[String], found: &mut Vec<Written>) {
    let mut at = 0;
    while at < tokens.len() {
        let last = at.checked_sub(1).map(|at| &tokens[at]);
        match &tokens[at] {
            TokenTree::Group(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                // `pub(crate)` uses nothing
                if last.is_none_or(|last| last.to_string() != "pub") {
                    paths_of(&inner, &[], found);
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
                    paths_of(&group.into_iter().collect::<Vec<_>>(), &segments, found);
                } else {
                    let is_macro = segments.len() == 1
                        && matches!(tokens.get(at + 1..), Some([mark, TokenTree::Group(_), ..]) if is_punct(mark, '!'));
                    let line = line(first);
                    let of_module = !(is_macro || is_declared || of_another || follows('.'));
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

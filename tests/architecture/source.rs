//! The source of the workspace, module by module: the paths that each writes, without those of tests.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::BTreeMap;

const ROOT: &str = env!("NIC_PLACEMENT_ROOT");

/// A file: its path from the repository, and its text.
pub type Source = (String, String);

/// A module; one inside a file has that file.
#[derive(Default)]
pub struct Module {
    pub file: String,
    /// its crate's name first
    pub path: Vec<String>,
    /// each path and its line; true if it may use an item of a module of this crate
    pub written: Vec<(Vec<String>, usize, bool)>,
    /// by their names here
    pub imports: BTreeMap<String, Vec<String>>,
    pub public_types: Vec<String>,
    inner: Vec<Module>,
    tests: Vec<Vec<String>>,
}

/// Every Rust file below the folder.
pub fn files(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("{ROOT}/{folder}")).expect(folder) {
        let entry = entry.unwrap();
        let file = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            found.extend(files(&file));
        } else if file.ends_with(".rs") {
            let text = std::fs::read_to_string(entry.path()).expect("source is UTF-8");
            found.push((file, text));
        }
    }
    found.sort();
    found
}

/// The modules of all crates, without those that only tests see.
pub fn modules<'a>(sources: impl Iterator<Item = &'a Source>) -> Vec<Module> {
    let mut found = Vec::new();
    for (file, text) in sources {
        let mut module = Module::new(file, place(file));
        module.read(text.parse().expect(file), &[], None);
        found.append(&mut module.inner);
        found.push(module);
    }
    let tests: Vec<_> = found.iter().flat_map(|of| of.tests.clone()).collect();
    found.retain(|module| !tests.iter().any(|tests| module.path.starts_with(tests)));
    found
}

/// The crate of a file and its module: `["core", "bind", "own"]` for `crates/core/src/bind/own.rs` and `…/own/mod.rs`.
fn place(file: &str) -> Vec<String> {
    let file = format!("plugin/{}", file.trim_end_matches(".rs"));
    let mut names: Vec<String> = file.split('/').map(String::from).collect();
    let src = names.iter().position(|name| name == "src");
    names.drain(..src.expect("a crate's file") - 1);
    names.retain(|name| !["src", "lib", "mod"].contains(&name.as_str()));
    names
}

/// A token as text, a group as its bracket, the first colon of a path's two as both.
fn word(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(of) if of.delimiter() == Delimiter::Brace => "{".to_string(),
        TokenTree::Group(_) => "(".to_string(),
        TokenTree::Punct(of) if of.spacing() == Spacing::Joint => of.to_string().replace(':', "::"),
        token => token.to_string(),
    }
}

impl Module {
    fn new(file: &str, path: Vec<String>) -> Self {
        let mut module = Module::default();
        (module.file, module.path) = (file.to_string(), path);
        module
    }

    fn child(&self, name: &str) -> Self {
        Module::new(&self.file, [&self.path[..], &[name.to_string()]].concat())
    }

    /// The path from its crate, if it begins with `crate`, `self` or `super`.
    pub fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (kept, names) = match path[0].as_str() {
            "crate" => (1, 1),
            "self" => (self.path.len(), 1),
            "super" => (self.path.len().saturating_sub(supers).max(1), supers),
            _ => return None,
        };
        Some([&self.path[..kept], &path[names..]].concat())
    }

    /// Reads what is written in these tokens, macros' arguments too; in `use`, after `before`, public or not.
    fn read(&mut self, tokens: TokenStream, before: &[String], mut import: Option<bool>) {
        let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
        tokens.dedup_by(|next, last| word(last) == "::" && word(next).starts_with(':'));
        let words: Vec<String> = tokens.iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["", ""]).collect();
        let group = |at: usize| match &tokens[at] {
            TokenTree::Group(group) => group.stream(),
            _ => TokenStream::new(),
        };
        let is_name = |at| matches!(tokens.get(at), Some(TokenTree::Ident(_)));
        let (mut at, mut is_of_tests) = (0, false);
        while at < tokens.len() {
            match words.split_at(at) {
                ([.., "#"], _) if group(at).to_string() == "cfg (test)" => is_of_tests = true,
                ([.., "mod"], [name, ..]) if is_of_tests => self.tests.push(self.child(name).path),
                (_, [word, ..]) if is_of_tests => is_of_tests = ![";", "{"].contains(word),
                (past, ["use", next, ..]) if *next != "<" => {
                    import = Some(matches!(past, [.., "pub"] | [.., "pub", "("]));
                }
                (_, [";", ..]) => import = None,
                ([.., "mod", name], ["{", ..]) => {
                    let mut inner = self.child(name);
                    inner.read(group(at), &[], None);
                    self.inner.append(&mut inner.inner);
                    self.inner.push(inner);
                }
                // `pub(crate)` uses nothing, nor does a lifetime, nor the new name of an import
                ([.., "pub"], ["(", ..]) | ([.., "'"], _) => {}
                ([.., "as"], _) | (_, ["as", ..]) if import.is_some() => {}
                ([.., "pub"], ["struct" | "enum" | "trait" | "union", name, ..]) => {
                    self.public_types.push(name.to_string());
                }
                (_, ["(" | "{", ..]) => self.read(group(at), &[], import),
                (past, next) if is_name(at) => {
                    let is_macro = matches!(next, [_, "!", "(" | "{", ..]);
                    let is_local = !is_macro && !matches!(past, [.., "::" | "." | "fn"]);
                    let is_own = before.is_empty() || next[0] != "self";
                    let own = is_own.then(|| next[0].to_string());
                    let mut path: Vec<String> = before.iter().cloned().chain(own).collect();
                    let is_part = |at| is_name(at) || import.is_some() && words[at] == "*";
                    while words[at + 1] == "::" && is_part(at + 2) {
                        at += 2;
                        path.push(words[at].to_string());
                    }
                    if words[at + 1..].starts_with(&["::", "{"]) {
                        at += 2;
                        self.read(group(at), &path, import);
                    } else {
                        // the compiler warns of a private import without a use
                        let is_use = import.map_or(is_local, |is_public| !is_public);
                        let new = (words[at + 1] == "as").then_some(words[at + 2]);
                        let name = new.unwrap_or(&path[path.len() - 1]).to_string();
                        if import.is_some() && name != "*" {
                            self.imports.entry(name).or_insert(path.clone());
                        }
                        let line = tokens[at].span().start().line;
                        self.written.push((path, line, is_use));
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

//! The source of the workspace, module by module: the paths that each writes, without those of tests.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::path::Path;

/// A file: its path from the repository, and its text.
#[derive(Clone)]
pub struct Source {
    pub file: String,
    pub text: String,
}

/// A path as it is written, the groups of `use` spelled out.
pub struct Written {
    pub path: Vec<String>,
    pub line: usize,
    /// its first name may be one of its module's: it is no method, macro or path from `::`
    pub of_module: bool,
    /// of an import: its name in this module, `*` for all of another one; true with `pub`
    pub import: Option<(String, bool)>,
}

/// A module; one inside a file has that file.
#[derive(Default)]
pub struct Module {
    pub file: String,
    /// its crate's name first
    pub path: Vec<String>,
    pub written: Vec<Written>,
    pub public_types: Vec<String>,
}

/// Every Rust file below the folder.
pub fn files(root: &Path, folder: &str) -> Vec<Source> {
    let entries = std::fs::read_dir(root.join(folder)).expect(folder);
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files_of: Vec<String> = names.map(|name| format!("{folder}/{name}")).collect();
    files_of.sort();
    let read = |file: String| match root.join(&file) {
        path if path.is_dir() => files(root, &file),
        _ if !file.ends_with(".rs") => Vec::new(),
        path => {
            let text = std::fs::read_to_string(path).expect("source is UTF-8");
            vec![Source { file, text }]
        }
    };
    files_of.into_iter().flat_map(read).collect()
}

/// The modules of all crates, without those that only tests see.
pub fn modules(sources: &[Source]) -> Vec<Module> {
    let (mut found, mut of_tests) = (Vec::new(), Vec::new());
    for Source { file, text } in sources {
        let tokens = text.parse().unwrap_or_else(|e| panic!("{file}: {e}"));
        let (file, path) = (file.clone(), place(file));
        let mut module = Module {
            file,
            path,
            ..Module::default()
        };
        module.read(tokens, &[], None, &mut found, &mut of_tests);
        found.push(module);
    }
    found.retain(|module| !of_tests.iter().any(|tests| module.path.starts_with(tests)));
    found
}

/// The crate of a file and its module: `["core", "bind", "own"]` for `crates/core/src/bind/own.rs` and `…/own/mod.rs`.
fn place(file: &str) -> Vec<String> {
    let file = format!("plugin/{file}");
    let (folder, path) = file.split_once("/src/").expect("a crate's file");
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let names = path.split('/').filter(|_| path != "lib");
    let names = folder.rsplit('/').take(1).chain(names);
    names.map(str::to_string).collect()
}

impl Module {
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

    fn child(&self, name: String) -> Vec<String> {
        [&self.path[..], &[name]].concat()
    }

    /// Reads what is written in these tokens, macros' arguments too; in `use`, after `before`, public or not.
    fn read(
        &mut self,
        tokens: TokenStream,
        before: &[String],
        mut import: Option<bool>,
        found: &mut Vec<Module>,
        of_tests: &mut Vec<Vec<String>>,
    ) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let word = |at: usize| match tokens.get(at) {
            None | Some(TokenTree::Group(_)) => String::new(),
            Some(token) => token.to_string(),
        };
        let group = |at: usize| match tokens.get(at) {
            Some(TokenTree::Group(group)) => Some(group),
            _ => None,
        };
        let mut at = 0;
        while at < tokens.len() {
            let last = |back: usize| at.checked_sub(back).map_or(String::new(), word);
            let is_after_path = last(1) == ":" && last(2) == ":";
            match (word(at).as_str(), &tokens[at]) {
                ("#", _) if group(at + 1).is_some_and(|of| of.to_string() == "[cfg (test)]") => {
                    let is_end = |at: usize| {
                        let is_body =
                            |group: &proc_macro2::Group| group.delimiter() == Delimiter::Brace;
                        at >= tokens.len() || word(at) == ";" || group(at).is_some_and(is_body)
                    };
                    while !is_end(at) {
                        if word(at) == "mod" {
                            of_tests.push(self.child(word(at + 1)));
                        }
                        at += 1;
                    }
                }
                ("use", _) if word(at + 1) != "<" && word(at + 1) != ":" => {
                    import = Some(last(1) == "pub" || last(2) == "pub");
                }
                (";", _) => import = None,
                // a lifetime
                ("'", _) => at += 1,
                ("mod", _) if group(at + 2).is_some() => {
                    let (file, path) = (self.file.clone(), self.child(word(at + 1)));
                    let mut inner = Module {
                        file,
                        path,
                        ..Module::default()
                    };
                    at += 2;
                    let body = group(at).expect("just seen").stream();
                    inner.read(body, &[], None, found, of_tests);
                    found.push(inner);
                }
                ("struct" | "enum" | "trait" | "union", _) if last(1) == "pub" => {
                    self.public_types.push(word(at + 1));
                }
                // `pub(crate)` uses nothing
                (_, TokenTree::Group(of)) if last(1) != "pub" => {
                    self.read(of.stream(), &[], import, found, of_tests);
                }
                (first, TokenTree::Ident(name)) => {
                    let is_macro = word(at + 1) == "!" && group(at + 2).is_some();
                    let of_module =
                        !(is_macro || is_after_path || [".", "fn"].contains(&last(1).as_str()));
                    let line = name.span().start().line;
                    let mut path = before.to_vec();
                    if before.is_empty() || first != "self" {
                        path.push(first.to_string());
                    }
                    let is_path = |at| word(at + 1) == ":" && word(at + 2) == ":";
                    while is_path(at)
                        && (matches!(tokens.get(at + 3), Some(TokenTree::Ident(_)))
                            || import.is_some() && word(at + 3) == "*")
                    {
                        at += 3;
                        path.push(word(at));
                    }
                    if let Some(of) = group(at + 3).filter(|_| is_path(at)) {
                        at += 3;
                        self.read(of.stream(), &path, import, found, of_tests);
                    } else {
                        let mut name = path[path.len() - 1].clone();
                        if import.is_some() && word(at + 1) == "as" {
                            at += 2;
                            name = word(at);
                        }
                        let import = import.map(|public| (name, public));
                        self.written.push(Written {
                            path,
                            line,
                            of_module,
                            import,
                        });
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }
}

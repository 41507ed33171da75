//! A captured machine as one reviewable text: what was read below `/sys` and `/proc`, a line or a block for each file.
//!
//! ```text
//! # nic-placement machine 1
//! proc/driver/nvidia/gpus/0000:1b:00.0/information
//! | Model:           NVIDIA H100 80GB HBM3
//! | Device Minor:    0
//! sys/bus/pci/devices/0000:1b:00.0 -> ../../../devices/pci0000:15/0000:15:01.0/0000:1b:00.0
//! sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0/numa_node = 0
//! sys/devices/pci0000:15/0000:15:01.0/0000:1b:00.0/net/
//! ```
//!
//! A letter that would end a path or a link's target in its line is written as in a literal of Rust: `\u{20}`.

use nic_placement_core::diagnostic::Shown;
use nic_placement_core::diagnostic::line::disturbs;
use nic_placement_node::discover::manifest::{Entry, Manifest, normalise};
use std::borrow::Cow;
use std::fmt::{self, Write};

/// The first line of every manifest.
pub(crate) const HEADER: &str = "# nic-placement machine 1";
/// Entries, at most: a node of 8192 CPUs makes 25,000.
const MAX_ENTRIES: usize = 100_000;
/// Bytes of a manifest's text, at most.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The reason why a text cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct BadText {
    /// line, from 1; 0 for the text as a whole
    pub line: u32,
    pub problem: String,
}

impl BadText {
    pub(crate) fn new(line: u32, problem: impl Into<String>) -> BadText {
        BadText {
            line,
            problem: problem.into(),
        }
    }
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.problem),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

pub fn text(manifest: &Manifest) -> String {
    let mut text = format!("{HEADER}\n");
    for (path, entry) in &manifest.entries {
        let shown = Escaped(path);
        // writing to a string cannot fail
        let _ = match entry {
            // a directory of which something below is known needs no line of its own
            Entry::Directory if first_below(manifest, path).is_some() => Ok(()),
            Entry::Directory => writeln!(text, "{shown}/"),
            Entry::Link(target) => writeln!(text, "{shown} -> {}", Escaped(target)),
            Entry::File(content) if content.is_empty() => writeln!(text, "{shown} ="),
            Entry::File(content) if !content.contains('\n') => {
                writeln!(text, "{shown} = {content}")
            }
            Entry::File(content) => {
                let lines = content
                    .trim_end()
                    .split('\n')
                    .map(|line| format!("| {line}\n"));
                writeln!(text, "{shown}").map(|()| text.extend(lines))
            }
        };
    }
    text
}

pub fn parse(text: &str) -> Result<Manifest, BadText> {
    if text.len() > MAX_BYTES {
        return Err(BadText::new(0, format!("longer than {MAX_BYTES} bytes")));
    }
    let first = text.lines().next().unwrap_or_default();
    if first != HEADER {
        return Err(BadText::new(
            1,
            format!("expected `{HEADER}`, found `{}`", cut(first)),
        ));
    }
    let mut manifest = Manifest::default();
    let mut open: Option<(String, Vec<&str>)> = None;
    let file = |lines: &[&str]| Entry::File(lines.join("\n").trim_end().to_string());
    // an editor's line ends; of any other text a carriage return is a part
    let end = if text[HEADER.len()..].starts_with('\r') {
        "\r"
    } else {
        ""
    };
    for (index, line) in text.split('\n').enumerate().skip(1) {
        let line = line.strip_suffix(end).unwrap_or(line);
        let bad = |problem: String| Err(BadText::new(index as u32 + 1, problem));
        if let Some(content) = line.strip_prefix("| ").or((line == "|").then_some("")) {
            let Some((_, lines)) = &mut open else {
                return bad("text that belongs to no file: a path must come before it".into());
            };
            lines.push(content);
            continue;
        }
        if let Some((path, lines)) = open.take() {
            manifest.insert(&path, file(&lines));
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (path, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (path, entry) = match (rest, rest.strip_prefix("= "), rest.strip_prefix("-> ")) {
            ("", ..) if path.ends_with('/') => (path.trim_end_matches('/'), Some(Entry::Directory)),
            ("", ..) => (path, None),
            ("=", ..) => (path, Some(Entry::File(String::new()))),
            (_, Some(text), _) => (path, Some(file(&[text]))),
            (.., Some(target)) => (path, Some(Entry::Link(unescaped(target).into_owned()))),
            _ => {
                return bad(format!(
                    "expected ` = text` or ` -> target` after `{}`",
                    cut(path)
                ));
            }
        };
        let path = &*unescaped(path);
        if !is_clean(path) {
            return bad(format!(
                "`{}` is not a path below `sys` or `proc` without `.` and `..`",
                cut(path)
            ));
        }
        if let Some(Entry::Link(target)) = &entry {
            if normalise(path, target).is_none() {
                return bad(format!(
                    "the link's target `{}` leaves the tree",
                    cut(target)
                ));
            }
        }
        if manifest.entries.len() >= MAX_ENTRIES {
            return bad(format!("more than {MAX_ENTRIES} entries"));
        }
        match entry {
            Some(entry) => manifest.insert(path, entry),
            None => open = Some((path.to_string(), Vec::new())),
        }
    }
    if let Some((path, lines)) = open {
        manifest.insert(&path, file(&lines));
    }
    check_nesting(&manifest)?;
    Ok(manifest)
}

/// The first path below a directory, at any depth.
fn first_below<'m>(manifest: &'m Manifest, path: &str) -> Option<&'m str> {
    let prefix = format!("{path}/");
    let (first, _) = manifest.entries.range(prefix.clone()..).next()?;
    first.starts_with(&prefix).then_some(first.as_str())
}

/// Nothing may lie below a file or a link: unpacking would write through it.
fn check_nesting(manifest: &Manifest) -> Result<(), BadText> {
    // a look for each file: one for each folder of each path takes seconds where paths are deep
    for (path, _) in manifest
        .entries
        .iter()
        .filter(|(_, entry)| !matches!(entry, Entry::Directory))
    {
        if let Some(below) = first_below(manifest, path) {
            return Err(BadText::new(
                0,
                format!(
                    "`{}` lies below `{}`, which is no directory",
                    cut(below),
                    cut(path)
                ),
            ));
        }
    }
    Ok(())
}

/// No kernel makes names that need escapes, but root may rename a device, and a captured tree has
/// any.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '\\' => f.write_str("\\u{5c}"),
            _ if letter.is_whitespace() || disturbs(letter) => {
                write!(f, "{}", letter.escape_unicode())
            }
            _ => f.write_char(letter),
        })
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    let mut pieces = text.split("\\u{");
    let first = pieces.next().unwrap_or_default();
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let mut plain = first.to_string();
    for piece in pieces {
        let escaped = piece.split_once('}').and_then(|(digits, rest)| {
            let letter = u32::from_str_radix(digits, 16)
                .ok()
                .and_then(char::from_u32)?;
            Some((letter, rest))
        });
        match escaped {
            Some((letter, rest)) => plain.extend([letter.to_string().as_str(), rest]),
            None => plain.extend(["\\u{", piece]),
        }
    }
    Cow::Owned(plain)
}

fn is_clean(path: &str) -> bool {
    let inside = path.starts_with("sys/") || path.starts_with("proc/");
    inside && path.len() < 4096 && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn cut(text: &str) -> String {
    Shown::message(text, 80).to_string()
}

#[cfg(test)]
#[path = "manifest/tests.rs"]
mod tests;

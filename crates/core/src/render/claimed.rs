//! Configuration files of libraries that keep us from setting a variable, since the library would prefer ours to them.
#![forbid(unsafe_code)]

use super::ReadFile;

/// What a file says of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claimed {
    /// why the variable is left to it
    pub(super) why: String,
    /// the value that it gives, if that holds on this machine as far as we know
    pub(super) value: Option<String>,
}

/// How a configuration file is written.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    /// what stands between a name and its value
    separators: &'static [char],
    /// what begins a comment within a line
    comment: char,
}

impl Grammar {
    /// NCCL's: `NAME=VALUE`, and `#` begins a comment.
    ///
    /// NCCL wants the name at the line's very beginning; we accept white space before it, since the user meant to
    /// set it.
    pub(super) const NCCL: Grammar = Grammar { separators: &['='], comment: '#' };
    /// UCX's, an INI file: `NAME=VALUE` or `NAME: VALUE`, and `;` begins a comment (src/ucs/config/ini.c).  What stands
    /// before a name in a line, as `#` does, makes another name of it.
    pub(super) const INI: Grammar = Grammar { separators: &['=', ':'], comment: ';' };
}

/// Why a configuration file in this grammar keeps us from setting the first of these variables: it sets one of them.
///
/// A section may be for other machines than this one.  It keeps us from setting the variable all the same, but its value is
/// not told.
pub(super) fn claimed_in(
    read: ReadFile,
    file: &str,
    variables: &[&str],
    grammar: Grammar,
) -> Option<Claimed> {
    let found = read(file)?;
    let lines = found.text.trim_start_matches('\u{feff}').lines();
    let file = file.escape_debug();
    let mut in_section = false;
    for line in lines {
        in_section |= line.trim_start().starts_with('[');
        let said = line.split(grammar.comment).next().and_then(|said| said.split_once(grammar.separators));
        let Some((name, value)) = said else { continue };
        match variables.iter().position(|variable| *variable == name.trim()) {
            Some(0) => {
                let value = Some(value.trim().to_string()).filter(|_| !in_section);
                return Some(Claimed { why: format!("`{file}` sets it"), value });
            }
            Some(other) => {
                return Some(Claimed { why: format!("`{file}` sets `{}`", variables[other]), value: None });
            }
            None => {}
        }
    }
    // the library reads the whole file
    let why = || format!("`{file}` is longer than what is read of it here, and may set it");
    found.is_cut.then(|| Claimed { why: why(), value: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::FileText;

    fn value(text: &str, grammar: Grammar) -> Option<Option<String>> {
        let read = |_: &str| Some(FileText { text: text.to_string(), is_cut: false });
        claimed_in(&read, "/etc/a.conf", &["LIST", "OTHER"], grammar).map(|claimed| claimed.value)
    }

    #[test]
    fn a_file_gives_its_value_unless_that_may_be_for_another_machine() {
        let some = |text: &str| Some(Some(text.to_string()));
        assert_eq!(value("# LIST=no\n LIST = =mlx5_0 # the first\n", Grammar::NCCL), some("=mlx5_0"));
        assert_eq!(value("LIST: mlx5_0:1 ; comment", Grammar::INI), some("mlx5_0:1"));
        assert_eq!(value("[Grace]\nLIST=mlx5_0:1", Grammar::INI), Some(None));
        assert_eq!(value("OTHER=1", Grammar::NCCL), Some(None));
        assert_eq!(value("LISTS=1", Grammar::NCCL), None);
    }
}

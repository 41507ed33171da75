//! Configuration files of libraries: which keep us from setting a variable, and what they give it.
#![forbid(unsafe_code)]

use super::{Answer, ReadFile};

/// What a file says of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claimed {
    /// why the variable is left to it
    pub(super) why: String,
    /// the value that it gives, if that holds on this machine as far as we know
    pub(super) value: Option<String>,
    /// does it rule out what files say that count less?  Not if it only keeps us from setting the variable
    decides: bool,
}

/// Of what several files say, strongest first, the one that counts.
///
/// A file that does not decide keeps us from setting the variable all the same.
pub(super) fn strongest(claims: impl IntoIterator<Item = Option<Claimed>>) -> Option<Claimed> {
    let mut kept: Option<Claimed> = None;
    for claim in claims.into_iter().flatten() {
        if claim.decides {
            return Some(claim);
        }
        kept = kept.or(Some(claim));
    }
    kept
}

/// The answer, unless a file takes its place: one that sets the variable over which we would set ours, or one whose value is
/// asked for.
pub(super) fn unless_claimed<'p>(
    answer: Answer<'p>,
    is_asked_for: bool,
    claim: impl FnOnce() -> Option<Claimed>,
) -> Answer<'p> {
    match answer.value {
        Some(_) => claim().map_or(answer, Answer::left_to),
        None if is_asked_for => claim().filter(|claim| claim.value.is_some()).map_or(answer, Answer::left_to),
        None => answer,
    }
}

/// How a configuration file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grammar {
    /// NCCL's and RCCL's: `NAME=VALUE`, both as they stand, without a comment behind; a line that begins with `#` is one
    /// (src/misc/param.cc `setEnvFile`).  It overwrites nothing, so the first line counts.
    Nccl,
    /// NVSHMEM's: `NAME=VALUE` with white space around both; a comment begins with `#`, behind a value with white space
    /// before it.  The last line counts (src/include/bootstrap_host_transport/env_defs_internal.h
    /// `nvshmemi_conf_parse_file`, `nvshmemi_conf_set`).
    Nvshmem,
    /// UCX's, an INI file: `NAME=VALUE` or `NAME: VALUE`, and white space and `;` begin a comment.  A line that is indented
    /// below another is one more value of that one's name.  The last line counts, but the lines of a section only where
    /// the machine is one of those that the section names (src/ucs/config/ini.c `ini_parse_stream`;
    /// src/ucs/config/parser.c `ucs_config_parse_config_file_line`).
    Ini,
}

/// One line that gives a name a value.
struct Line<'t> {
    name: &'t str,
    /// `None` if it holds on some machines only, or is not read to its end
    value: Option<&'t str>,
}

impl Grammar {
    /// Bytes of a line, at most, of which the library reads the value in one piece: `envValue` of NCCL's `setEnvFile`, the
    /// buffers of NVSHMEM's `nvshmemi_conf_parse_file` and of `INI_MAX_LINE` (src/ucs/config/ini.h), each without its NUL.
    fn longest_line(self) -> usize {
        match self {
            Grammar::Nccl => 1023,
            Grammar::Nvshmem => 4095,
            Grammar::Ini => 199,
        }
    }

    fn last_counts(self) -> bool {
        self != Grammar::Nccl
    }

    fn lines(self, text: &str) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        let (mut in_section, mut above) = (false, None);
        for line in text.lines() {
            let line_of = |name, value| {
                let is_whole = !in_section && line.len() <= self.longest_line();
                Line { name, value: Some(value).filter(|_| is_whole) }
            };
            let trimmed = line.trim();
            match self {
                // a comment gives its value to a name that begins with `#`, which no variable has
                Grammar::Nccl => lines.extend(line.split_once('=').map(|(name, value)| line_of(name, value))),
                Grammar::Nvshmem => lines.extend(
                    trimmed
                        .split_once('=')
                        .map(|(name, value)| line_of(name.trim(), before_comment(value.trim(), '#').trim())),
                ),
                Grammar::Ini if trimmed.is_empty() || trimmed.starts_with([';', '#']) => {}
                Grammar::Ini => match above.filter(|_| line.starts_with(char::is_whitespace)) {
                    Some(above) => lines.push(line_of(above, trimmed)),
                    None if trimmed.starts_with('[') => (in_section, above) = (true, None),
                    None => {
                        let said = before_comment(trimmed, ';').split_once(['=', ':']);
                        let Some((name, value)) = said else { continue };
                        above = Some(name.trim());
                        lines.push(line_of(name.trim(), value.trim()));
                    }
                },
            }
        }
        lines
    }
}

/// What stands before a comment, which begins with this character and has white space before it.
fn before_comment(text: &str, comment: char) -> &str {
    let is_comment =
        |(at, _): &(usize, &str)| text[..*at].chars().next_back().is_some_and(char::is_whitespace);
    let comment = text.match_indices(comment).find(is_comment);
    comment.map_or(text, |(at, _)| &text[..at])
}

/// Why a configuration file in this grammar keeps us from setting the first of these variables: it sets one of them, or
/// its user meant it to.
///
/// A section may be for other machines than this one.  It keeps us from setting the variable all the same, but then no
/// value is told.
pub(super) fn claimed_in(
    read: ReadFile,
    file: &str,
    variables: &[&str],
    grammar: Grammar,
) -> Option<Claimed> {
    let found = read(file)?;
    if let Some(why) = found.unanswered {
        // its value would count more than that of a weaker file, and is not known
        let why = format!("`{}` may set it: {why}", file.escape_debug());
        return Some(Claimed { why, value: None, decides: true });
    }
    // UCX passes over the mark; for the others it makes another name of the first one
    let text = match grammar {
        Grammar::Ini => found.text.trim_start_matches('\u{feff}'),
        Grammar::Nccl | Grammar::Nvshmem => found.text.as_str(),
    };
    let lines = grammar.lines(text);
    let file = file.escape_debug();
    let mut own = lines.iter().filter(|line| line.name == variables[0]);
    let counts = if grammar.last_counts() { own.next_back() } else { own.next() };
    if let Some(line) = counts {
        // what stands behind the part that was read may count more
        let is_known = !(found.is_cut && grammar.last_counts());
        let value = line.value.filter(|_| is_known).map(str::to_string);
        return Some(Claimed { why: format!("`{file}` sets it"), value, decides: true });
    }
    if found.is_cut {
        // the library reads the whole file
        let why = format!("`{file}` is longer than what is read of it here, and may set it");
        return Some(Claimed { why, value: None, decides: true });
    }
    let of_another = variables[1..].iter().find(|variable| lines.iter().any(|line| line.name == **variable));
    if let Some(other) = of_another {
        return Some(Claimed { why: format!("`{file}` sets `{other}`"), value: None, decides: false });
    }
    is_meant(text, variables[0]).then(|| {
        let why = format!("`{file}` seems to set it, in a line that its library reads otherwise");
        Claimed { why, value: None, decides: false }
    })
}

/// Does a line set the variable as a person reads it?
fn is_meant(text: &str, variable: &str) -> bool {
    let name = |line: &str| line.split_once('=').is_some_and(|(name, _)| name.trim() == variable);
    text.trim_start_matches('\u{feff}').lines().any(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::FileText;

    fn value(text: &str, grammar: Grammar) -> Option<Option<String>> {
        let read = |_: &str| {
            Some(FileText { text: text.to_string(), is_cut: text.ends_with('…'), unanswered: None })
        };
        claimed_in(&read, "/etc/a.conf", &["LIST", "OTHER"], grammar).map(|claimed| claimed.value)
    }

    fn some(text: &str) -> Option<Option<String>> {
        Some(Some(text.to_string()))
    }

    #[test]
    fn a_file_gives_its_value_unless_that_may_be_for_another_machine() {
        assert_eq!(value("LIST: mlx5_0:1 ; comment", Grammar::Ini), some("mlx5_0:1"));
        assert_eq!(value("[Grace]\nLIST=mlx5_0:1", Grammar::Ini), Some(None));
        assert_eq!(value("LIST=mlx5_0:1\n[Grace]\nLIST=mlx5_1:1", Grammar::Ini), Some(None));
        assert_eq!(value("OTHER=1", Grammar::Nvshmem), Some(None));
        assert_eq!(value("LISTS=1", Grammar::Nccl), None);
    }

    #[test]
    fn a_file_of_which_nothing_is_known_may_set_the_variable_whatever_weaker_files_say() {
        let read = |file: &str| match file {
            "/home/a" => Some(FileText { unanswered: Some("no answer"), ..FileText::default() }),
            _ => Some(FileText { text: "LIST=mlx5_0".to_string(), ..FileText::default() }),
        };
        let claims = ["/home/a", "/etc/a"].map(|file| claimed_in(&read, file, &["LIST"], Grammar::Nccl));
        let strongest = strongest(claims).unwrap();
        assert_eq!((strongest.why.as_str(), strongest.value), ("`/home/a` may set it: no answer", None));
    }

    #[test]
    fn of_several_lines_nccl_takes_the_first_and_the_others_take_the_last() {
        for (grammar, text) in [(Grammar::Nccl, "a"), (Grammar::Nvshmem, "b"), (Grammar::Ini, "b")] {
            assert_eq!(value("LIST=a\nLIST=b\n", grammar), some(text), "{grammar:?}");
        }
        assert_eq!(value("LIST=a\n…", Grammar::Nccl), some("a"));
        assert_eq!(value("LIST=a\n…", Grammar::Ini), Some(None), "it may be set once more");
    }

    #[test]
    fn a_comment_behind_a_value_is_each_librarys_own() {
        assert_eq!(value("LIST==mlx5_0 # the first", Grammar::Nccl), some("=mlx5_0 # the first"));
        assert_eq!(value("LIST = mlx5_0#1 # the first", Grammar::Nvshmem), some("mlx5_0#1"));
        assert_eq!(value("LIST = mlx5_0;1 ; the first", Grammar::Ini), some("mlx5_0;1"));
        for grammar in [Grammar::Nccl, Grammar::Nvshmem, Grammar::Ini] {
            assert_eq!(value("#LIST=no\n", grammar), None, "{grammar:?}");
        }
    }

    #[test]
    fn an_indented_line_without_a_value_gives_the_name_above_it_none() {
        for nothing in ["  ", "\t", "  # the first", "  ;mlx5_1"] {
            assert_eq!(
                value(&format!("LIST=mlx5_0\n{nothing}\n"), Grammar::Ini),
                some("mlx5_0"),
                "{nothing:?}"
            );
        }
        assert_eq!(
            value("LIST=mlx5_0\n#OTHER=1\n mlx5_1", Grammar::Ini),
            some("mlx5_1"),
            "a comment is no name"
        );
    }

    #[test]
    fn a_line_that_means_another_name_to_its_library_tells_no_value_but_stays_the_users_word() {
        assert_eq!(value(" LIST=mlx5_0", Grammar::Nccl), Some(None));
        assert_eq!(value(" LIST=mlx5_0", Grammar::Nvshmem), some("mlx5_0"));
        assert_eq!(value(" LIST=mlx5_0", Grammar::Ini), some("mlx5_0"), "there is no name above it");
        assert_eq!(value("TLS=rc\n LIST=mlx5_0", Grammar::Ini), Some(None), "the rest of `TLS`");
        assert_eq!(value("LIST=mlx5_0\n mlx5_1", Grammar::Ini), some("mlx5_1"), "its next value");
        assert_eq!(value("\u{feff}LIST=mlx5_0", Grammar::Nccl), Some(None));
        assert_eq!(
            value(&format!("LIST={}", "mlx5_0,".repeat(40)), Grammar::Ini),
            Some(None),
            "it is read in pieces"
        );
    }
}

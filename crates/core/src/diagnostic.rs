//! What went wrong but did not stop us, and how such messages show text from outside.
#![forbid(unsafe_code)]

pub mod line;

use std::fmt::{self, Write};

/// One finding: what, where, and what to do about it, in one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// the file, device or word that it is about
    pub place: String,
    /// what was found there
    pub finding: String,
}

impl Diagnostic {
    /// A finding about `place`.
    pub fn new(place: impl Into<String>, finding: impl Into<String>) -> Diagnostic {
        Diagnostic { place: place.into(), finding: finding.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.place, self.finding)
    }
}

/// Text from a file, a variable or a user, safe for a terminal and a log: cut to a length, and without
/// characters that move a cursor or end a line.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    text: &'a str,
    most: usize,
    is_message: bool,
}

impl<'a> Shown<'a> {
    /// A word: at most `most` characters, each as in a Rust literal (`char::escape_debug`).
    pub fn word(text: &'a str, most: usize) -> Shown<'a> {
        Shown { text, most, is_message: false }
    }

    /// A message that quotes such words: at most `most` characters, with only those escaped that would end a line, move a
    /// cursor or turn the writing direction.
    pub fn message(text: &'a str, most: usize) -> Shown<'a> {
        Shown { text, most, is_message: true }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.chars().take(self.most).try_for_each(|c| match self.is_message {
            false => write!(f, "{}", c.escape_debug()),
            true if line::disturbs(c) => write!(f, "{}", c.escape_default()),
            true => f.write_char(c),
        })
    }
}

impl From<Shown<'_>> for String {
    fn from(shown: Shown<'_>) -> String {
        shown.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_cut_and_moves_no_cursor() {
        assert_eq!(Shown::word("a\u{1b}[2J\n\"é\"", 40).to_string(), "a\\u{1b}[2J\\n\\\"é\\\"");
        assert_eq!(Shown::message("a\u{1b}[2J\n\"é\"", 40).to_string(), "a\\u{1b}[2J\\n\"é\"");
        for cut in [Shown::word("é\nb", 2), Shown::message("é\nb", 2)] {
            assert_eq!(cut.to_string(), "é\\n", "characters are counted before they are escaped");
        }
    }
}

//! Findings of one line each, and text from outside, escaped for a log.

pub mod line;

use std::fmt::{self, Write};

/// One line: a place, and a finding there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// a file, device or word
    pub place: String,
    pub finding: String,
    /// true for an admin's argument or line that is not understood: no step is placed
    pub refuses: bool,
}

impl Diagnostic {
    pub fn new(place: impl Into<String>, finding: impl Into<String>) -> Diagnostic {
        Diagnostic {
            place: place.into(),
            finding: finding.into(),
            refuses: false,
        }
    }

    pub fn refusal(place: impl Into<String>, finding: impl Into<String>) -> Diagnostic {
        Diagnostic {
            refuses: true,
            ..Diagnostic::new(place, finding)
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.place, self.finding)
    }
}

/// `1 GPU`, `8 GPUs`
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `1 more such entry`, for the end of a cut list
pub fn more_entries(count: usize) -> String {
    let end = if count == 1 { "y" } else { "ies" };
    format!("{count} more such entr{end}")
}

/// Each finding once, with its first place and the number of other places: a broken `/sys` gives
/// the same finding for each device. A last line counts findings not shown.
pub fn summary(diagnostics: &[Diagnostic]) -> Vec<String> {
    let mut found: Vec<(&Diagnostic, usize)> = Vec::new();
    for diagnostic in diagnostics {
        let same = |(first, _): &(&Diagnostic, _)| first.finding == diagnostic.finding;
        match found.iter().position(same) {
            Some(at) => found[at].1 += 1,
            None if found.len() > MOST_LINES => found[MOST_LINES].1 += 1,
            None => found.push((diagnostic, 0)),
        }
    }
    let line = |(at, (first, more)): (usize, &(&Diagnostic, usize))| match more {
        _ if at == MOST_LINES => {
            format!(
                "findings that are not shown: {}; SlurmdDebug=debug shows them",
                more + 1
            )
        }
        0 => first.to_string(),
        _ => format!("{first} (and at {})", counted(*more, "other place")),
    };
    found.iter().enumerate().map(line).collect()
}

/// Most different findings in a [`summary`].
const MOST_LINES: usize = 8;

/// Text of a file, variable or user: cut, and escaped so that no cursor moves and no line ends.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    text: &'a str,
    most: usize,
    is_message: bool,
}

impl<'a> Shown<'a> {
    /// At most `most` characters of a word, each escaped by `char::escape_debug`.
    pub fn word(text: &'a str, most: usize) -> Shown<'a> {
        let is_message = false;
        Shown {
            text,
            most,
            is_message,
        }
    }

    /// At most `most` characters of a message; escapes characters that [`line::disturbs`] finds.
    pub fn message(text: &'a str, most: usize) -> Shown<'a> {
        Shown {
            is_message: true,
            ..Shown::word(text, most)
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut characters = self.text.chars().take(self.most);
        characters.try_for_each(|c| match self.is_message {
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
    fn a_finding_at_many_places_is_one_line_and_the_ninth_finding_is_counted() {
        let found = |place: usize, finding: &str| Diagnostic::new(format!("p{place}"), finding);
        let alike: Vec<_> = (0..3).map(|place| found(place, "gone")).collect();
        assert_eq!(summary(&alike), ["`p0`: gone (and at 2 other places)"]);
        let two = summary(&[found(1, "a"), found(2, "b"), found(3, "a")]).join("; ");
        assert_eq!(two, "`p1`: a (and at 1 other place); `p2`: b");
        let many = (0..20).map(|place| found(place, &format!("finding {place}")));
        let lines = summary(&many.collect::<Vec<_>>());
        assert_eq!((lines.len(), lines[7].as_str()), (9, "`p7`: finding 7"));
        assert!(lines[8].contains("not shown: 12; SlurmdDebug=debug"));
        assert_eq!(summary(&[]), [""; 0]);
    }

    #[test]
    fn text_from_outside_is_cut_and_moves_no_cursor() {
        let text = "a\u{1b}[2J\n\"é\"";
        let word = Shown::word(text, 40).to_string();
        assert_eq!(word, "a\\u{1b}[2J\\n\\\"é\\\"");
        assert_eq!(Shown::message(text, 40).to_string(), "a\\u{1b}[2J\\n\"é\"");
        // characters are counted before the escapes
        for cut in [Shown::word("é\nb", 2), Shown::message("é\nb", 2)] {
            assert_eq!(cut.to_string(), "é\\n");
        }
    }
}

//! Text for people, without a character that a terminal would obey.
//!
//! Names from files, devices and arguments become text here alone: none can move a cursor, recolour a line or begin another.

use std::fmt::Display;

/// A space at which a line does not end.
const GLUE: char = '\u{a0}';

#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::commands) struct Text(String);

impl<T: Display> From<T> for Text {
    fn from(text: T) -> Text {
        Text(shown(&text.to_string()))
    }
}

impl Text {
    pub(in crate::commands) fn unbroken(self) -> Text {
        Text(self.0.replace(' ', &GLUE.to_string()))
    }

    pub(in crate::commands) fn then(self, more: impl Into<Text>) -> Text {
        Text(self.0 + &more.into().0)
    }

    pub(in crate::commands) fn joined(
        texts: impl IntoIterator<Item = impl Into<Text>>,
        between: &str,
    ) -> Text {
        let texts: Vec<String> = texts.into_iter().map(|text| text.into().0).collect();
        Text(texts.join(between))
    }

    pub(in crate::commands) fn or(self, otherwise: &str) -> Text {
        if self.0.is_empty() {
            otherwise.into()
        } else {
            self
        }
    }

    pub(in crate::commands) fn width(&self) -> usize {
        self.0.chars().count()
    }

    /// The longest part without an end of a line.
    pub(super) fn longest_part(&self) -> usize {
        let parts = self.0.split(' ').flat_map(|part| part.split_inclusive(','));
        parts.map(|part| part.chars().count()).max().unwrap_or(0)
    }

    /// Lines of at most `others` characters, the first of `first`, which end at a space or behind a comma, else where
    /// the width is used up.
    pub(super) fn lines(&self, first: usize, others: usize) -> Vec<String> {
        let mut rest: Vec<char> = self.0.chars().collect();
        let (mut lines, mut width) = (Vec::new(), first);
        let mut take = |part: &[char]| {
            let line = part.iter().collect::<String>();
            lines.push(line.trim_end_matches(' ').replace(GLUE, " "));
        };
        while rest.len() > width {
            let ends = |at: &usize| rest[*at] == ' ' || rest[at - 1] == ',';
            let after = rest.split_off((1..=width).rev().find(ends).unwrap_or(width));
            take(&rest);
            rest = after
                .into_iter()
                .skip_while(|letter| *letter == ' ')
                .collect();
            width = others;
        }
        take(&rest);
        lines
    }
}

/// `0,1,2`; `-` where there is none.
pub(in crate::commands) fn list<T: ToString>(of: &[T]) -> Text {
    Text::joined(of.iter().map(T::to_string), ",").or("-")
}

/// One line, with escapes such as `\u{1b}` for characters that do not print.
pub(in crate::commands) fn shown(text: &str) -> String {
    // `escape_debug` is for quoted strings
    escaped(text, "'\"\\")
}

/// As [`shown`], with lines and tabs.
pub(super) fn defused(text: &str) -> String {
    escaped(text, "'\"\\\n\t")
}

fn escaped(text: &str, but: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match but.contains(letter) {
            true => line.push(letter),
            false => line.extend(letter.escape_debug()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, width: usize) -> Vec<String> {
        Text::from(text).lines(width, width)
    }

    #[test]
    fn a_line_ends_at_a_space_or_behind_a_comma_and_else_where_it_must() {
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("0-55,112-167,200", 8), ["0-55,", "112-167,", "200"]);
        assert_eq!(lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(lines("exactly", 7), ["exactly"]);
        assert_eq!(lines("", 7), [""]);
        let item = |name: &str| Text::from(name).unbroken();
        let list = Text::joined([item("mlx5_0:1 PIX"), item("mlx5_1:1 PIX")], ", ");
        assert_eq!(list.lines(16, 16), ["mlx5_0:1 PIX,", "mlx5_1:1 PIX"]);
        assert_eq!(list.longest_part(), "mlx5_0:1 PIX,".len());
    }

    #[test]
    fn no_character_that_a_terminal_obeys_becomes_text() {
        let hostile = "a\x1b[2J\0\n\r\t\u{7f}\u{9b}31m\u{202e}b";
        let shown = r"a\u{1b}[2J\0\n\r\t\u{7f}\u{9b}31m\u{202e}b";
        assert_eq!(Text::from(hostile).0, shown);
        let tame = "it's \"C:\\\" … `x`";
        assert_eq!(Text::from(tame).0, tame);
        assert_eq!(defused("{\n\t\u{7f}}\n"), "{\n\t\\u{7f}}\n");
    }
}

//! Text for people: each character with its style, and none that a terminal would obey.
//!
//! Names from files, devices and arguments become text here alone: none can move a cursor, recolour a line or begin another.

use nic_placement_core::topology::PathType;
use std::fmt::{Display, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::commands) enum Style {
    #[default]
    Plain,
    Heading,
    Near,
    Far,
    Wrong,
    Faint,
}

impl Style {
    /// ECMA-48's "select graphic rendition"; empty where nothing is selected.
    fn selection(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Heading => "\x1b[1m",
            Style::Near => "\x1b[32m",
            Style::Far => "\x1b[33m",
            Style::Wrong => "\x1b[31m",
            Style::Faint => "\x1b[2m",
        }
    }
}

/// A space at which a line does not end.
const GLUE: char = '\u{a0}';

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::commands) struct Text(Vec<(char, Style)>);

impl<T: Display> From<T> for Text {
    fn from(text: T) -> Text {
        Text::styled(text, Style::Plain)
    }
}

impl Text {
    pub(in crate::commands) fn styled(text: impl Display, style: Style) -> Text {
        Text(
            shown(&text.to_string())
                .chars()
                .map(|letter| (letter, style))
                .collect(),
        )
    }

    pub(in crate::commands) fn of_path(path: PathType) -> Text {
        let style = match path {
            PathType::Pix | PathType::Pxb => Style::Near,
            PathType::Sys => Style::Far,
            _ => Style::Plain,
        };
        Text::styled(path, style)
    }

    pub(in crate::commands) fn unbroken(self) -> Text {
        Text(
            self.0
                .into_iter()
                .map(|(c, style)| (if c == ' ' { GLUE } else { c }, style))
                .collect(),
        )
    }

    pub(in crate::commands) fn then(mut self, more: impl Into<Text>) -> Text {
        self.0.extend(more.into().0);
        self
    }

    pub(in crate::commands) fn joined(
        texts: impl IntoIterator<Item = Text>,
        between: &str,
    ) -> Text {
        let mut all = Text::default();
        for text in texts {
            all = if all.0.is_empty() {
                text
            } else {
                all.then(between).then(text)
            };
        }
        all
    }

    pub(in crate::commands) fn or(self, otherwise: &str) -> Text {
        if self.0.is_empty() {
            otherwise.into()
        } else {
            self
        }
    }

    pub(in crate::commands) fn width(&self) -> usize {
        self.0.len()
    }

    /// The longest part without an end of a line.
    pub(super) fn longest_part(&self) -> usize {
        let parts = self
            .0
            .split_inclusive(|(letter, _)| matches!(letter, ' ' | ','));
        parts
            .map(|part| part.iter().filter(|(letter, _)| *letter != ' ').count())
            .max()
            .unwrap_or(0)
    }

    /// Lines of at most `others` characters, the first of `first`, which end at a space or behind a comma, else where
    /// the width is used up.
    pub(super) fn lines(&self, first: usize, others: usize) -> Vec<Text> {
        let (mut lines, mut rest, mut width) = (Vec::new(), self.0.as_slice(), first);
        let is_space = |at: &(char, Style)| at.0 == ' ';
        while rest.len() > width {
            let ends = |at: &usize| is_space(&rest[*at]) || rest[at - 1].0 == ',';
            let (line, after) = rest.split_at((1..=width).rev().find(ends).unwrap_or(width));
            lines.push(Text(line.to_vec()).without_trailing_spaces());
            rest = &after[after.iter().take_while(|at| is_space(at)).count()..];
            width = others;
        }
        lines.push(Text(rest.to_vec()));
        lines
    }

    pub(super) fn margin(columns: usize) -> Text {
        Text(vec![(' ', Style::Plain); columns])
    }

    pub(in crate::commands) fn padded(mut self, width: usize) -> Text {
        self.0.resize(self.0.len().max(width), (' ', Style::Plain));
        self
    }

    pub(in crate::commands) fn without_trailing_spaces(mut self) -> Text {
        while self.0.last().is_some_and(|(letter, _)| *letter == ' ') {
            self.0.pop();
        }
        self
    }

    pub(super) fn write(&self, colour: bool, out: &mut String) {
        let mut now = Style::Plain;
        for &(letter, style) in &self.0 {
            if colour && style != now {
                out.push_str(if now == Style::Plain { "" } else { RESET });
                out.push_str(style.selection());
                now = style;
            }
            out.push(if letter == GLUE { ' ' } else { letter });
        }
        if now != Style::Plain {
            out.push_str(RESET);
        }
    }
}

const RESET: &str = "\x1b[0m";

/// `0,1,2`; `-` where there is none.
pub(in crate::commands) fn list<T: ToString>(of: &[T]) -> Text {
    Text::joined(of.iter().map(|one| Text::from(one.to_string())), ",").or("-")
}

/// One line, with escapes such as `\u{1b}` for characters that do not print.
pub(in crate::commands) fn shown(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // `escape_debug` is for quoted strings
            '\'' | '"' | '\\' => line.push(letter),
            _ => {
                let _ = write!(line, "{}", letter.escape_debug());
            }
        }
    }
    line
}

/// As [`shown`], with lines and tabs.
pub(in crate::commands) fn defused(text: &str) -> String {
    let is_white = |letter| matches!(letter, '\n' | '\t');
    text.split_inclusive(is_white)
        .map(|part| match part.strip_suffix(is_white) {
            Some(before) => shown(before) + &part[before.len()..],
            None => shown(part),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &Text) -> String {
        let mut out = String::new();
        text.write(false, &mut out);
        out
    }

    fn lines(text: &str, width: usize) -> Vec<String> {
        let lines = Text::from(text).lines(width, width);
        lines.iter().map(plain).collect()
    }

    #[test]
    fn a_line_ends_at_a_space_or_behind_a_comma_and_else_where_it_must() {
        assert_eq!(lines("one two three", 8), ["one two", "three"]);
        assert_eq!(lines("0-55,112-167,200", 8), ["0-55,", "112-167,", "200"]);
        assert_eq!(lines("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(lines("exactly", 7), ["exactly"]);
        assert_eq!(lines("", 7), [""]);
    }

    #[test]
    fn what_is_unbroken_moves_to_the_next_line_as_a_whole() {
        let item = |name: &str| Text::from(name).unbroken();
        let list = Text::joined([item("mlx5_0:1 PIX"), item("mlx5_1:1 PIX")], ", ");
        let lines: Vec<String> = list.lines(16, 16).iter().map(plain).collect();
        assert_eq!(lines, ["mlx5_0:1 PIX,", "mlx5_1:1 PIX"]);
        assert_eq!(list.longest_part(), "mlx5_0:1 PIX,".len());
    }

    #[test]
    fn no_character_that_a_terminal_obeys_becomes_text() {
        let hostile = "a\x1b[2J\0\n\r\t\u{7f}\u{9b}31m\u{202e}b";
        let text = plain(&Text::from(hostile));
        assert_eq!(text, r"a\u{1b}[2J\0\n\r\t\u{7f}\u{9b}31m\u{202e}b");
        let tame = "it's \"C:\\\" … `x`";
        assert_eq!(plain(&Text::from(tame)), tame);
        assert_eq!(defused("{\n\t\u{7f}}\n"), "{\n\t\\u{7f}}\n");
    }

    #[test]
    fn colours_are_selected_where_they_change_and_never_left_on() {
        let text = Text::from("is ")
            .then(Text::styled("down", Style::Wrong))
            .then(".");
        let mut coloured = String::new();
        text.write(true, &mut coloured);
        assert_eq!(coloured, "is \x1b[31mdown\x1b[0m.");
        assert_eq!(plain(&text), "is down.");
    }
}

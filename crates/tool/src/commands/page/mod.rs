//! A command's output: lines of at most 100 columns for people, and exact bytes for programs.

mod table;
mod text;

pub(super) use table::Table;
pub(super) use text::{Text, list, shown};

use nic_placement_core::topology::PathType;
use nic_placement_program::terminal_columns;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Columns of a line in an editor, a ticket and a manual.
const WIDTH: usize = 100;
/// Columns for the longest names; a narrower terminal breaks lines itself.
const LEAST: usize = 40;

#[derive(Default)]
pub(super) struct Page {
    out: String,
    is_terminal: bool,
    /// the terminal's columns
    columns: Option<u16>,
}

impl Page {
    pub(super) fn of<T: IsTerminal + AsFd>(stream: &T) -> Page {
        Page {
            out: String::new(),
            is_terminal: stream.is_terminal(),
            columns: terminal_columns(stream.as_fd()),
        }
    }

    fn width(&self) -> usize {
        self.columns
            .map_or(WIDTH, |columns| usize::from(columns).clamp(LEAST, WIDTH))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.out.as_bytes()
    }

    /// For programs. A terminal would obey control characters.
    pub(super) fn exact(&mut self, text: &str) {
        if self.is_terminal {
            self.out.push_str(&text::defused(text))
        } else {
            self.out.push_str(text)
        }
    }

    pub(super) fn blank(&mut self) {
        self.out.push('\n');
    }

    /// Lines; all but the first are set in.
    pub(super) fn line(&mut self, text: impl Into<Text>) {
        self.behind("", "  ", text);
    }

    /// Lines that are set in, all but the first further.
    pub(super) fn indented(&mut self, text: impl Into<Text>) {
        self.behind("  ", "    ", text);
    }

    pub(super) fn item(&mut self, word: impl Into<Text>, text: impl Into<Text>) {
        let word = word.into();
        // a long word is text like any other
        let hanging = if word.width() <= self.width() / 2 {
            word.width()
        } else {
            2
        };
        self.behind("", &" ".repeat(hanging), word.unbroken().then(text));
    }

    pub(super) fn notes(&mut self, notes: impl IntoIterator<Item = impl Into<Text>>) {
        notes.into_iter().for_each(|note| self.item("note: ", note));
    }

    pub(super) fn legend(&mut self, paths: impl IntoIterator<Item = PathType>) {
        let paths: BTreeSet<PathType> = paths.into_iter().collect();
        let each = paths.iter().map(|path| {
            let meaning = match path {
                PathType::Pix => "at most one PCIe switch",
                PathType::Pxb => "several PCIe switches",
                PathType::Phb => "a host bridge",
                PathType::Node => "host bridges of one NUMA node",
                PathType::Sys => "different NUMA nodes",
            };
            format!("{path} {meaning}")
        });
        if !paths.is_empty() {
            self.item("between GPU and NIC: ", Text::joined(each, ", "));
        }
    }

    pub(super) fn table(&mut self, table: &Table) {
        self.out += &table.text(self.width());
    }

    /// Lines behind margins, of which the first has its own.
    pub(super) fn behind(&mut self, first: &str, others: &str, text: impl Into<Text>) {
        let room = |margin: &str| self.width().saturating_sub(margin.chars().count()).max(1);
        let lines = text.into().lines(room(first), room(others));
        for (number, line) in lines.iter().enumerate() {
            let margin = if number == 0 { first } else { others };
            self.out += format!("{margin}{line}").trim_end_matches(' ');
            self.blank();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_long_line_is_set_in() {
        let mut page = Page::default();
        page.item("note: ", "word ".repeat(30).trim_end());
        page.line("word ".repeat(30).trim_end());
        let text = String::from_utf8(page.as_bytes().to_vec()).unwrap();
        let margin = |line: &str| line.len() - line.trim_start().len();
        let margins = text.lines().map(margin);
        assert_eq!(margins.collect::<Vec<_>>(), [0, 6, 0, 2]);
        assert!(text.lines().all(|line| line.len() <= WIDTH) && text.matches("word").count() == 60);
    }

    #[test]
    fn what_programs_read_is_exact_in_a_pipe_and_harmless_on_a_terminal() {
        let printed = |is_terminal| {
            let mut page = Page {
                is_terminal,
                ..Page::default()
            };
            page.exact("a\x1b\n");
            page.as_bytes().to_vec()
        };
        assert_eq!(printed(false), b"a\x1b\n");
        assert_eq!(printed(true), b"a\\u{1b}\n");
    }
}

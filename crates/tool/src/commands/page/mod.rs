//! A command's output: lines of at most 100 columns for people, and exact bytes for programs.

mod table;
mod text;

pub(super) use table::Table;
pub(super) use text::{Style, Text, list, shown};

use nic_placement_core::topology::PathType;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Columns of a line in an editor, a ticket and a manual.
const WIDTH: usize = 100;
/// Columns for the longest names; a narrower terminal breaks lines itself.
const LEAST: usize = 40;
/// Columns by which the rest of a long line is set in.
const INDENT: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Colour {
    /// on a terminal, unless NO_COLOR is set
    Auto,
    /// always
    Always,
    /// never
    Never,
}

impl Colour {
    /// `NO_COLOR` counts where it is not empty (no-color.org), and an option of the command line beats it.
    pub(super) fn is_on(
        self,
        is_terminal: bool,
        no_color: Option<&OsStr>,
        terminal_type: Option<&OsStr>,
    ) -> bool {
        match self {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                is_terminal
                    && no_color.is_none_or(OsStr::is_empty)
                    && terminal_type.is_none_or(|name| name != "dumb")
            }
        }
    }
}

pub(super) struct Page {
    out: String,
    colour: bool,
    is_terminal: bool,
    width: usize,
}

impl Page {
    pub(super) fn new(colour: bool, is_terminal: bool) -> Page {
        Page {
            out: String::new(),
            colour,
            is_terminal,
            width: WIDTH,
        }
    }

    /// A page without colours for this stream.
    pub(super) fn of<T: IsTerminal + AsFd>(stream: &T) -> Page {
        let [columns, _] = nic_placement_program::terminal_size(stream.as_fd());
        Page::new(false, stream.is_terminal()).with_columns(columns)
    }

    pub(super) fn with_columns(self, columns: Option<u16>) -> Page {
        let width = columns.map_or(self.width, |columns| {
            usize::from(columns).clamp(LEAST, WIDTH)
        });
        Page { width, ..self }
    }

    pub(super) fn width(&self) -> usize {
        self.width
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
        self.paragraph(0, INDENT, text.into());
    }

    pub(super) fn block(&mut self, margin: usize, text: impl Into<Text>) {
        self.paragraph(margin, margin, text.into());
    }

    /// Lines that are set in, all but the first further.
    pub(super) fn indented(&mut self, text: impl Into<Text>) {
        self.paragraph(INDENT, 2 * INDENT, text.into());
    }

    pub(super) fn item(&mut self, word: impl Into<Text>, text: impl Into<Text>) {
        let word = word.into();
        // a long word is text like any other
        let hanging = if word.width() <= self.width / 2 {
            word.width()
        } else {
            INDENT
        };
        self.paragraph(0, hanging, word.unbroken().then(text));
    }

    pub(super) fn notes(&mut self, notes: impl IntoIterator<Item = impl Into<Text>>) {
        notes.into_iter().for_each(|note| self.item("note: ", note));
    }

    pub(super) fn legend(&mut self, paths: impl IntoIterator<Item = PathType>) {
        let paths: BTreeSet<PathType> = paths.into_iter().collect();
        let each = paths
            .into_iter()
            .map(|path| Text::of_path(path).then(format_args!(" {}", meaning(path))));
        let all = Text::joined(each, ", ");
        if all.width() > 0 {
            self.item("between GPU and NIC: ", all);
        }
    }

    pub(super) fn table(&mut self, table: &Table) {
        table
            .lines(self.width)
            .iter()
            .for_each(|line| self.write(line));
    }

    pub(super) fn guided(&mut self, guide: &str, below: &str, text: Text) {
        let room = |guide: &str| self.width.saturating_sub(guide.chars().count()).max(1);
        // set in under the name, where there is room for it
        let below = if room(below) > 2 * INDENT {
            format!("{below}  ")
        } else {
            below.to_string()
        };
        self.behind(guide, &below, text.lines(room(guide), room(&below)));
    }

    fn paragraph(&mut self, first: usize, others: usize, text: Text) {
        let lines = text.lines(self.width - first, self.width - others);
        self.behind(&" ".repeat(first), &" ".repeat(others), lines);
    }

    /// Lines behind margins, of which the first has its own.
    fn behind(&mut self, first: &str, others: &str, lines: Vec<Text>) {
        for (number, line) in lines.into_iter().enumerate() {
            self.write(&Text::from(if number == 0 { first } else { others }).then(line));
        }
    }

    fn write(&mut self, line: &Text) {
        line.write(self.colour, &mut self.out);
        self.out.push('\n');
    }
}

fn meaning(path: PathType) -> &'static str {
    match path {
        PathType::Pix => "at most one PCIe switch",
        PathType::Pxb => "several PCIe switches",
        PathType::Phb => "a host bridge",
        PathType::Node => "host bridges of one NUMA node",
        PathType::Sys => "different NUMA nodes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_and_no_color_turns_them_off_where_it_is_not_empty() {
        let on = |choice: Colour, is_terminal, no_color: Option<&str>, terminal: &str| {
            let no_color = no_color.map(OsStr::new);
            choice.is_on(is_terminal, no_color, Some(OsStr::new(terminal)))
        };
        for (choice, is_terminal, no_color, terminal, wanted) in [
            (Colour::Auto, true, None, "xterm", true),
            (Colour::Auto, true, Some(""), "xterm", true),
            (Colour::Auto, true, Some("0"), "xterm", false),
            (Colour::Auto, true, None, "dumb", false),
            (Colour::Auto, false, None, "xterm", false),
            (Colour::Always, false, Some("1"), "dumb", true),
            (Colour::Never, true, None, "xterm", false),
        ] {
            let found = on(choice, is_terminal, no_color, terminal);
            assert_eq!(found, wanted, "{no_color:?} {terminal}");
        }
    }

    #[test]
    fn the_rest_of_a_long_line_is_set_in() {
        let mut page = Page::new(false, false);
        page.item("note: ", "word ".repeat(30).trim_end());
        page.line("word ".repeat(30).trim_end());
        let text = String::from_utf8(page.as_bytes().to_vec()).unwrap();
        let margins = text
            .lines()
            .map(|line| line.len() - line.trim_start().len());
        assert_eq!(margins.collect::<Vec<_>>(), [0, 6, 0, 2]);
        assert!(text.lines().all(|line| line.len() <= WIDTH) && text.matches("word").count() == 60);
    }

    #[test]
    fn what_programs_read_is_exact_in_a_pipe_and_harmless_on_a_terminal() {
        let printed = |is_terminal| {
            let mut page = Page::new(false, is_terminal);
            page.exact("a\x1b\n");
            page.as_bytes().to_vec()
        };
        assert_eq!(printed(false), b"a\x1b\n");
        assert_eq!(printed(true), b"a\\u{1b}\n");
    }
}

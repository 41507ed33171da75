//! Columns, folded where they are wider than a page.

use super::text::Text;
use std::fmt::Display;

const GAP: usize = 2;

#[derive(Default)]
pub(in crate::commands) struct Table {
    rows: Vec<Vec<Text>>,
    indent: usize,
}

impl Table {
    pub(in crate::commands) fn headed(headings: impl IntoIterator<Item = impl Display>) -> Table {
        let mut table = Table::default();
        table.row(headings.into_iter().map(Text::from));
        table
    }

    pub(in crate::commands) fn indented(indent: usize) -> Table {
        Table {
            indent,
            ..Table::default()
        }
    }

    pub(in crate::commands) fn row(&mut self, cells: impl IntoIterator<Item = Text>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Its lines, each of at most `width` characters.
    pub(super) fn text(&self, width: usize) -> String {
        let mut widths = self.widths(width);
        let folded = |row: &Vec<Text>| -> Vec<Vec<String>> {
            let cells = row.iter().zip(&widths);
            cells
                .map(|(cell, &width)| cell.lines(width, width))
                .collect()
        };
        let rows: Vec<_> = self.rows.iter().map(folded).collect();
        for (at, width) in widths.iter_mut().enumerate() {
            let lines = rows.iter().filter_map(|row| row.get(at)).flatten();
            *width = lines.map(|line| line.chars().count()).max().unwrap_or(0);
        }
        let mut out = String::new();
        for cells in rows {
            for at in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = " ".repeat(self.indent);
                for (cell, width) in cells.iter().zip(&widths) {
                    let part = cell.get(at).map_or("", String::as_str);
                    line += &format!("{part:<0$}", width + GAP);
                }
                out += line.trim_end_matches(' ');
                out.push('\n');
            }
        }
        out
    }

    /// The widest column gives way first: down to its longest name, and then, as all are so narrow, further.
    fn widths(&self, width: usize) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |measure: fn(&Text) -> usize| -> Vec<usize> {
            let cells = |at: usize| self.rows.iter().filter_map(move |row| row.get(at));
            let widest = |at| cells(at).map(measure).max().unwrap_or(0).max(1);
            (0..columns).map(widest).collect()
        };
        let (mut widths, least) = (widest(Text::width), widest(Text::longest_part));
        let room = width.saturating_sub(self.indent + GAP * columns.saturating_sub(1));
        while widths.iter().sum::<usize>() > room.max(columns) {
            let by_width = |&at: &usize| (widths[at] > least[at], widths[at]);
            let at = (0..columns).max_by_key(by_width).unwrap_or_default();
            widths[at] -= 1;
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(table: &Table, width: usize) -> Vec<String> {
        table.text(width).lines().map(str::to_string).collect()
    }

    #[test]
    fn columns_stand_under_their_headings_and_the_widest_is_folded() {
        let mut table = Table::headed(["task", "NIC"]);
        table.row(["0".into(), "mlx5_0:1".into()]);
        table.row(["10".into(), "-".into()]);
        let lines = ["task  NIC", "0     mlx5_0:1", "10    -"];
        assert_eq!(printed(&table, 100), lines);
        let mut table = Table::indented(1);
        table.row(["mlx5_0:1".into(), "one two three four".into(), "end".into()]);
        let lines = [" mlx5_0:1  one two three  end", "           four"];
        assert_eq!(printed(&table, 30), lines);
        let mut table = Table::indented(0);
        table.row(["aaaa bbbb cccc dddd".into(), "ee ff gg hh ii jj".into()]);
        let lines = ["aaaa bbbb  ee ff gg", "cccc dddd  hh ii jj"];
        assert_eq!(printed(&table, 22), lines);
    }

    #[test]
    fn no_line_is_wider_than_the_page_whatever_the_cells_hold() {
        let mut table = Table::headed(["a", "b", "c"]);
        let [x, y, z] = [("x", 300), ("y,", 90), ("z ", 200)].map(|(text, of)| text.repeat(of));
        table.row([x.into(), y.into(), z.into()]);
        let lines = printed(&table, 100);
        let is_narrow = |line: &String| line.chars().count() <= 100;
        assert!(lines.iter().all(is_narrow), "{lines:#?}");
        // nothing is lost
        let counts = ['x', 'y', 'z'].map(|letter| lines.concat().matches(letter).count());
        assert_eq!(counts, [300, 90, 200]);
    }
}

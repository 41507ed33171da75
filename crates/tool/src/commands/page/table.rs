//! Columns, folded where they are wider than a page.

use super::text::{Style, Text};
use std::fmt::Display;

const GAP: usize = 2;

pub(in crate::commands) struct Table {
    rows: Vec<Vec<Text>>,
    indent: usize,
}

impl Table {
    pub(in crate::commands) fn headed(headings: impl IntoIterator<Item = impl Display>) -> Table {
        let headings = headings
            .into_iter()
            .map(|heading| Text::styled(heading, Style::Heading));
        Table {
            rows: vec![headings.collect()],
            indent: 0,
        }
    }

    pub(in crate::commands) fn indented(indent: usize) -> Table {
        Table {
            rows: Vec::new(),
            indent,
        }
    }

    pub(in crate::commands) fn row(&mut self, cells: impl IntoIterator<Item = Text>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Its lines, each of at most `width` characters.
    pub(super) fn lines(&self, width: usize) -> Vec<Text> {
        let widths = self.widths(width);
        self.rows
            .iter()
            .flat_map(|row| self.row_lines(row, &widths))
            .collect()
    }

    /// Columns whose rows take as few lines as they can without breaking a name.
    fn widths(&self, width: usize) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |column: usize| self.rows.iter().filter_map(move |row| row.get(column));
        let widest =
            |measure: fn(&Text) -> usize, column| cells(column).map(measure).max().unwrap_or(0);
        let full: Vec<usize> = (0..columns)
            .map(|column| widest(Text::width, column))
            .collect();
        let least: Vec<usize> = (0..columns)
            .map(|column| widest(Text::longest_part, column))
            .collect();
        let room = width.saturating_sub(self.indent + GAP * columns.saturating_sub(1));
        let fits = |widths: &[usize]| widths.iter().sum::<usize>() <= room;
        if fits(&full) {
            return full;
        }
        if !fits(&least) {
            return shared(full, room);
        }
        let enough = |column: usize, width: usize, most: usize| {
            cells(column).all(|cell| cell.lines(width.max(1), width.max(1)).len() <= most)
        };
        let at_most = |most: usize| -> Vec<usize> {
            let narrowest = |column: usize| {
                (least[column]..full[column])
                    .find(|&width| enough(column, width, most))
                    .unwrap_or(full[column])
            };
            (0..columns).map(narrowest).collect()
        };
        // with a line for each character every column is as narrow as it can be
        let longest = full.iter().copied().max().unwrap_or(1);
        let mut widths = (2..=longest)
            .map(at_most)
            .find(|widths| fits(widths))
            .unwrap_or(least);
        // the room left over goes to columns that need fewer lines with it, first to those that are nearly wide enough
        let mut lacking: Vec<usize> = (0..columns).collect();
        lacking.sort_by_key(|&column| full[column] - widths[column]);
        for column in lacking {
            let left = room - widths.iter().sum::<usize>();
            let mut wider = widths.clone();
            wider[column] = full[column].min(widths[column] + left);
            if wider[column] == full[column] || self.height(&wider) < self.height(&widths) {
                widths = wider;
            }
        }
        widths
    }

    fn height(&self, widths: &[usize]) -> usize {
        let lines = |(cell, &width): (&Text, &usize)| cell.lines(width.max(1), width.max(1)).len();
        let of_row = |row: &Vec<Text>| row.iter().zip(widths).map(lines).max().unwrap_or(0);
        self.rows.iter().map(of_row).sum()
    }

    fn row_lines(&self, row: &[Text], widths: &[usize]) -> Vec<Text> {
        let cells: Vec<Vec<Text>> = row
            .iter()
            .zip(widths)
            .map(|(cell, &width)| cell.lines(width.max(1), width.max(1)))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |at: usize| {
            let mut line = Text::margin(self.indent);
            for (cell, width) in cells.iter().zip(widths) {
                line = line.then(
                    cell.get(at)
                        .cloned()
                        .unwrap_or_default()
                        .padded(width + GAP),
                );
            }
            line.without_trailing_spaces()
        };
        (0..height).map(line).collect()
    }
}

/// Widths where not even the names fit: the widest column gives way first.
fn shared(mut widths: Vec<usize>, room: usize) -> Vec<usize> {
    while widths.iter().sum::<usize>() > room {
        let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > 1) else {
            break;
        };
        *widest -= 1;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(table: &Table, width: usize) -> Vec<String> {
        let plain = |text: &Text| {
            let mut out = String::new();
            text.write(false, &mut out);
            out
        };
        table.lines(width).iter().map(plain).collect()
    }

    #[test]
    fn columns_stand_under_their_headings() {
        let mut table = Table::headed(["task", "NIC"]);
        table.row(["0".into(), "mlx5_0:1".into()]);
        table.row(["10".into(), "-".into()]);
        let lines = ["task  NIC", "0     mlx5_0:1", "10    -"];
        assert_eq!(printed(&table, 100), lines);
    }

    #[test]
    fn a_table_that_is_too_wide_folds_its_widest_column() {
        let mut table = Table::indented(1);
        table.row(["mlx5_0:1".into(), "one two three four".into(), "end".into()]);
        let lines = [" mlx5_0:1  one two     end", "           three four"];
        assert_eq!(printed(&table, 30), lines);
        // and takes no more lines than it must
        let mut table = Table::indented(0);
        table.row(["aaaa bbbb cccc dddd".into(), "ee ff gg hh ii jj".into()]);
        let lines = ["aaaa bbbb  ee ff gg", "cccc dddd  hh ii jj"];
        assert_eq!(printed(&table, 22), lines);
    }

    #[test]
    fn no_line_is_wider_than_the_page_whatever_the_cells_hold() {
        let mut table = Table::headed(["a", "b", "c"]);
        table.row([
            "x".repeat(300).into(),
            "y,".repeat(90).into(),
            "z ".repeat(200).into(),
        ]);
        let lines = printed(&table, 100);
        let is_narrow = |line: &String| line.chars().count() <= 100;
        assert!(lines.iter().all(is_narrow), "{lines:#?}");
        // nothing is lost
        let counts = ['x', 'y', 'z'].map(|letter| lines.concat().matches(letter).count());
        assert_eq!(counts, [300, 90, 200]);
    }
}

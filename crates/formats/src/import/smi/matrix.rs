//! Finds the matrix in the text: its header, perhaps on several lines, and its rows.
#![forbid(unsafe_code)]

use super::header::{MAX_COLUMNS, MatrixHeader, Title};
use super::text::TextLine;
use super::word::{Cell, cells_of, is_affinity, is_label, is_unknown_path};
use super::{BadText, gpu_number, listed};
use crate::import::{Result, shown};
use nic_placement_core::diagnostic::Diagnostic;
use std::collections::BTreeSet;

/// The most words before a row's label, which a log or `srun --label` may add.
const MAX_PREFIX: usize = 8;
/// What nvidia-smi prints instead of a matrix.
const FAILURES: [(&str, &str); 3] = [
    (
        "Failed to run topology matrix",
        "it does so where a software RDMA device such as `siw_eth0` exists: capture the node's sysfs instead",
    ),
    (
        "NVIDIA-SMI has failed",
        "it needs the driver of the node whose matrix is wanted",
    ),
    ("No devices were found", "it needs a GPU that it may see"),
];

#[derive(Default)]
pub(super) struct MatrixRow {
    pub(super) label: String,
    pub(super) line: u32,
    pub(super) cells: Vec<Cell>,
    /// what follows the cells
    pub(super) rest: Vec<String>,
    /// kinds of path that nvidia-smi does not have
    unknown: Vec<String>,
    /// do cells touch each other (`SYSSYS`)?
    touching: bool,
    /// does the row continue on a second line?
    broken: bool,
}

/// The matrix as it is printed.
pub(super) struct Matrix {
    pub(super) line: u32,
    pub(super) last_line: u32,
    pub(super) columns: Vec<String>,
    /// the columns after the devices
    pub(super) titles: Vec<Title>,
    pub(super) rows: Vec<MatrixRow>,
    /// do labels of the header touch each other (`NIC8NIC9`)?
    touching: bool,
}

impl Matrix {
    pub(super) fn row(&self, label: &str) -> Option<&MatrixRow> {
        self.rows.iter().find(|row| row.label == label)
    }

    /// The misprints that we could read.
    pub(super) fn notes(&self) -> Vec<Diagnostic> {
        let mut notes = Vec::new();
        if self.touching {
            notes.push(Diagnostic::new(
                "header",
                "labels touch each other: read as one each",
            ));
        }
        let mut note = |which: fn(&MatrixRow) -> bool, finding: &str| {
            let labels: Vec<&String> = self
                .rows
                .iter()
                .filter(|row| which(row))
                .map(|row| &row.label)
                .collect();
            if !labels.is_empty() {
                let finding = format!("{finding} of {}: read as one each", listed(&labels));
                notes.push(Diagnostic::new("rows", finding));
            }
        };
        note(|row| row.touching, "cells touch each other in the rows");
        note(|row| row.broken, "two lines make up each of the rows");
        let unknown: BTreeSet<&String> = self.rows.iter().flat_map(|row| &row.unknown).collect();
        if !unknown.is_empty() {
            let words = listed(&Vec::from_iter(unknown));
            notes.push(Diagnostic::new(
                "rows",
                format!("kinds of path that nvidia-smi does not have: {words}"),
            ));
        }
        notes
    }
}

pub(super) fn find(lines: &[TextLine]) -> Result<Matrix> {
    let mut header: Option<MatrixHeader> = None;
    let mut stray = None;
    for (index, line) in lines.iter().enumerate() {
        let words = line.words();
        if let Some(at) = row_label(&words, header.as_ref().map_or(&[], |header| &header.labels)) {
            match header {
                Some(header) => return table(header, &lines[index..]),
                None => stray = stray.or(Some((line.number, words[at]))),
            }
        }
        header = match (header.take(), MatrixHeader::of(&words, line.number)) {
            (Some(begun), Some(more)) => begun.and(more),
            (None, more) => more.filter(|more| !more.labels.is_empty()),
            // in a log a blank line is not blank; after two other lines the header no longer counts
            (Some(begun), None) => begun.end(),
        };
    }
    for line in lines {
        if let Some((words, why)) = FAILURES.iter().find(|(words, _)| line.text.contains(words)) {
            return Err(BadText::new(
                line.number,
                format!("nvidia-smi says `{words}`: {why}"),
            ));
        }
    }
    Err(match (header, stray) {
        (_, Some((line, label))) => BadText::new(
            line,
            format!(
                "a row of `{}` without a header such as `GPU0 GPU1 NIC0 CPU Affinity` above it",
                shown(label)
            ),
        ),
        (Some(header), None) => {
            BadText::new(header.line, "the text ends after the header of a matrix")
        }
        (None, None) => BadText::new(
            0,
            "no matrix of `nvidia-smi topo -m`: expected a header such as `GPU0 GPU1 NIC0 CPU Affinity` and a row for \
             each GPU below it",
        ),
    })
}

/// The position of a row's label among the words of a line: before the first cell.
fn row_label(words: &[&str], columns: &[String]) -> Option<usize> {
    let is_column = |word: &str| columns.iter().any(|label| label == word);
    // a row of `PPU1` may begin with `ICN2`, which looks like a label itself
    let of_column = |at: usize, next: &str| {
        is_column(words[at])
            && is_unknown_path(next)
            && !is_column(next)
            && words[at + 1..].contains(&"X")
    };
    (0..words.len().min(MAX_PREFIX)).find(|&at| {
        let next = words.get(at + 1);
        next.is_some_and(|next| {
            is_label(words[at]) && cells_of(next).is_some() || of_column(at, next)
        })
    })
}

impl MatrixRow {
    fn add(&mut self, words: &[&str], line: u32) -> Result<()> {
        for word in words {
            match (cells_of(word), self.rest.first()) {
                (Some(_), Some(other)) => {
                    let problem = format!(
                        "`{}` in the row of `{}` is no kind of path: expected `X`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS` or \
                         `NV#`",
                        shown(other),
                        shown(&self.label)
                    );
                    return Err(BadText::new(line, problem));
                }
                (Some((mut cells, rest)), None) => {
                    self.touching |= cells.len() > 1 || !rest.is_empty();
                    self.cells.append(&mut cells);
                    if !rest.is_empty() {
                        self.rest.push(rest.to_string());
                    }
                }
                (None, None) if is_unknown_path(word) => {
                    self.cells.push(Cell::Unknown);
                    self.unknown.push((*word).to_string());
                }
                (None, _) => self.rest.push((*word).to_string()),
            }
        }
        Ok(())
    }
}

/// The matrix whose rows begin with the first of `lines`.
fn table(mut header: MatrixHeader, lines: &[TextLine]) -> Result<Matrix> {
    let titles = header.titles()?;
    let MatrixHeader {
        line,
        labels: columns,
        touching,
        ..
    } = header;
    if columns.len() > MAX_COLUMNS {
        return Err(BadText::new(
            line,
            format!("more than {MAX_COLUMNS} devices"),
        ));
    }
    let mut matrix = Matrix {
        line,
        last_line: line,
        columns,
        titles,
        rows: Vec::new(),
        touching,
    };
    for line in lines {
        let words = line.words();
        let alone = matches!(words.as_slice(), [only] if matrix.columns.iter().any(|label| label == only)
            && matrix.row(only).is_none());
        if let Some(at) = row_label(&words, &matrix.columns).or(alone.then_some(0)) {
            if let Some(first) = matrix.row(words[at]) {
                let problem = format!(
                    "a second row of `{}`: the first is in line {}",
                    words[at], first.line
                );
                return Err(BadText::new(line.number, problem));
            }
            let (label, line_number) = (words[at].to_string(), line.number);
            let mut row = MatrixRow {
                label,
                line: line_number,
                ..MatrixRow::default()
            };
            row.add(&words[at + 1..], line.number)?;
            matrix.rows.push(row);
            if matrix.rows.len() > MAX_COLUMNS {
                return Err(BadText::new(
                    line.number,
                    format!("more than {MAX_COLUMNS} rows"),
                ));
            }
        } else if let Some(row) = matrix
            .rows
            .last_mut()
            .filter(|row| goes_on(row, &words, matrix.columns.len()))
        {
            row.add(&words, line.number)?;
            row.broken = true;
        } else {
            break;
        }
        matrix.last_line = line.number;
    }
    Ok(matrix)
}

/// Does a line without a label continue the row above, which lacks these cells?
fn goes_on(row: &MatrixRow, words: &[&str], columns: usize) -> bool {
    let cells: usize = words
        .iter()
        .filter_map(|word| cells_of(word))
        .map(|(cells, _)| cells.len())
        .sum();
    let known = words
        .iter()
        .all(|word| cells_of(word).is_some() || is_affinity(word));
    let all = row.cells.len() + cells;
    known
        && row.rest.is_empty()
        && if cells > 0 {
            all <= columns
        } else {
            all == columns && !is_nic(&row.label)
        }
}

/// Is this line the header of another matrix with the same first column?
pub(super) fn is_header(words: &[&str], first: Option<&String>) -> bool {
    MatrixHeader::of(words, 0).is_some_and(|header| header.labels.first() == first)
}

pub(super) fn is_nic(label: &str) -> bool {
    gpu_number(label).is_none()
}

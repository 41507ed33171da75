//! Finds the matrix in the text: its header and its rows, each on one line.

use super::text::TextLine;
use super::{BadText, MAX_DEVICES, gpu_number, is_nic_number, listed};
use crate::import::{GpuLinks, Imported, Result, shown};
use nic_placement_core::topology::{DeviceName, PathType};
use std::collections::{BTreeMap, BTreeSet};

/// The most columns for devices.
const MAX_COLUMNS: usize = 2 * MAX_DEVICES;
/// The most words before a row's label, which a log or `srun --label` may add.
const MAX_PREFIX: usize = 8;
/// The lines that nvidia-smi prints if it has no matrix.
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

#[derive(Clone, Copy)]
pub enum Title {
    Cpu,
    Numa,
    GpuNuma,
}

const TITLES: [(Title, &str); 3] = [
    (Title::Cpu, "CPU Affinity"),
    (Title::Numa, "NUMA Affinity"),
    (Title::GpuNuma, "GPU NUMA ID"),
];

#[derive(Clone, PartialEq, Eq)]
enum Cell {
    /// `X`: the device itself
    Own,
    /// `NV4`, `NVB`, `LOC`: between GPUs, by NVLink or on one board
    Link,
    Path(PathType),
    /// a kind of path that nvidia-smi does not have, such as `SPB` of Moore Threads' `mthreads-gmi topo -m`
    Foreign(String),
}

/// `SOC` is between sockets, in versions before `NODE`.
const CELLS: [(&str, Cell); 9] = [
    ("X", Cell::Own),
    ("NVB", Cell::Link),
    ("LOC", Cell::Link),
    ("PIX", Cell::Path(PathType::Pix)),
    ("PXB", Cell::Path(PathType::Pxb)),
    ("PHB", Cell::Path(PathType::Phb)),
    ("NODE", Cell::Path(PathType::Node)),
    ("SYS", Cell::Path(PathType::Sys)),
    ("SOC", Cell::Path(PathType::Sys)),
];

pub struct MatrixRow {
    label: String,
    line: u32,
    cells: Vec<Cell>,
    words: Vec<String>,
    pub rest: Vec<String>,
    pub is_open: bool,
}

pub struct Matrix {
    pub line: u32,
    /// the line of the last row
    pub last_line: u32,
    pub columns: Vec<String>,
    pub titles: Vec<Title>,
    rows: Vec<MatrixRow>,
}

pub fn find(lines: &[TextLine]) -> Result<Matrix> {
    let mut header: Option<(u32, Vec<String>, String)> = None;
    let mut stray = None;
    for (index, line) in lines.iter().enumerate() {
        let words = line.words();
        let columns = header.as_ref().map_or(&[][..], |(_, columns, _)| columns);
        match (row_label(&words, columns), header.take()) {
            (Some(_), Some(header)) => return table(header, &lines[index..]),
            (Some(at), None) => stray = stray.or(Some((line.number, words[at]))),
            (None, before) => {
                let (labels, titles) = header_words(&words);
                let found = (!labels.is_empty()).then_some((line.number, labels, titles));
                header = found.or(before);
            }
        }
    }
    for line in lines {
        if let Some((words, why)) = FAILURES.iter().find(|(words, _)| line.text.contains(words)) {
            return Err(BadText::new(
                line.number,
                format!("nvidia-smi says `{words}`: {why}"),
            ));
        }
    }
    const WANTED: &str = "a header such as `GPU0 GPU1 NIC0 CPU Affinity` on one line";
    let (line, problem) = match (header, stray) {
        (_, Some((line, label))) => {
            let label = shown(label);
            (
                line,
                format!("a row of `{label}` without {WANTED} above it"),
            )
        }
        (Some((line, ..)), None) => (
            line,
            "the text ends after the header of a matrix".to_string(),
        ),
        (None, None) => {
            let rows = "and a row for each GPU below it";
            (
                0,
                format!("no matrix of `nvidia-smi topo -m`: expected {WANTED} {rows}"),
            )
        }
    };
    Err(BadText::new(line, problem))
}

/// The matrix whose rows begin with the first of `lines`.
fn table(
    (line, columns, titles): (u32, Vec<String>, String),
    lines: &[TextLine],
) -> Result<Matrix> {
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
        titles: titles_of(&titles, line)?,
        rows: Vec::new(),
    };
    for line in lines {
        let words = line.words();
        let Some(at) = row_label(&words, &matrix.columns) else {
            break;
        };
        if matrix.rows.len() == MAX_COLUMNS {
            return Err(BadText::new(
                line.number,
                format!("more than {MAX_COLUMNS} rows"),
            ));
        }
        let label = words[at].to_string();
        matrix.last_line = line.number;
        if let Some(MatrixRow { line: first, .. }) = matrix.row(&label) {
            return Err(BadText::new(
                line.number,
                format!("a second row of `{label}`: the first is in line {first}"),
            ));
        }
        let mut row = MatrixRow {
            label,
            line: line.number,
            cells: Vec::new(),
            words: Vec::new(),
            rest: Vec::new(),
            is_open: line.is_open,
        };
        row.read(&words[at + 1..])?;
        matrix.rows.push(row);
    }
    Ok(matrix)
}

fn titles_of(words: &str, line: u32) -> Result<Vec<Title>> {
    let (mut titles, mut rest) = (Vec::new(), words);
    for (title, text) in TITLES {
        if let Some(after) = rest.strip_prefix(text) {
            titles.push(title);
            rest = after.trim_start();
        }
    }
    if rest.is_empty() {
        return Ok(titles);
    }
    let words = shown(words);
    Err(BadText::new(
        line,
        format!(
            "`{words}` after the devices: expected `CPU Affinity`, `NUMA Affinity` and `GPU NUMA ID`"
        ),
    ))
}

impl MatrixRow {
    fn read(&mut self, words: &[&str]) -> Result<()> {
        for word in words {
            match (cell(word), self.rest.first()) {
                (Some(cell), None) => self.cells.push(cell),
                (None, None) if is_foreign(word) => {
                    self.cells.push(Cell::Foreign((*word).to_string()));
                }
                (Some(_), Some(other)) => {
                    let (other, label) = (shown(other), shown(&self.label));
                    return Err(BadText::new(
                        self.line,
                        format!(
                            "`{other}` in the row of `{label}` is no kind of path: expected `X`, `PIX`, `PXB`, `PHB`, `NODE`, \
                         `SYS` or `NV#`"
                        ),
                    ));
                }
                (None, _) => self.rest.push((*word).to_string()),
            }
            if self.rest.is_empty() {
                self.words.push((*word).to_string());
            }
        }
        Ok(())
    }
}

/// A row's label is before the first cell.
fn row_label(words: &[&str], columns: &[String]) -> Option<usize> {
    let is_column = |word: &str| columns.iter().any(|label| label == word);
    (0..words.len().saturating_sub(1).min(MAX_PREFIX)).find(|&at| {
        let (word, next) = (words[at], words[at + 1]);
        // a row of `PPU1` may begin with `ICN2`, which looks like a label itself
        is_label(word) && cell(next).is_some()
            || is_column(word) && is_foreign(next) && !is_column(next)
    })
}

fn header_words(words: &[&str]) -> (Vec<String>, String) {
    let is_title = |word: &str| ["Affinity", "NUMA", "CPU", "GPU", "ID"].contains(&word);
    let titles = words.iter().rev().take_while(|word| is_title(word)).count();
    let (before, titles) = words.split_at(words.len() - titles);
    let labels = before
        .iter()
        .rev()
        .take_while(|word| is_label(word))
        .count();
    let labels = &before[before.len() - labels.min(MAX_COLUMNS + 1)..];
    (
        labels.iter().map(|label| label.to_string()).collect(),
        titles.join(" "),
    )
}

fn begins_as_label(word: &str) -> bool {
    word.starts_with("GPU") || word.starts_with("NIC")
}

/// True for `GPU3`, `NIC12`, and for names that an RDMA device can have, such as `mlx5_0`, `ibp3s0`, `roceP6p3s0`.
fn is_label(word: &str) -> bool {
    let is_name = DeviceName::is_one(word)
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.contains(|c: char| c.is_ascii_digit() || c == '_');
    if begins_as_label(word) {
        gpu_number(word).is_some() || is_nic_number(word)
    } else {
        is_name && cell(word).is_none()
    }
}

/// True for an accelerator that CUDA does not know, such as `PPU0`: names of RDMA devices begin
/// with a small letter.
fn is_other(label: &str) -> bool {
    !is_nic_number(label) && label.starts_with(|first: char| first.is_ascii_uppercase())
}

fn is_foreign(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word
            .chars()
            .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        && !begins_as_label(word)
}

fn cell(word: &str) -> Option<Cell> {
    let links = word.strip_prefix("NV").unwrap_or_default();
    let is_links = !links.is_empty() && links.bytes().all(|digit| digit.is_ascii_digit());
    let mut known = CELLS.iter();
    let known = known
        .find(|(text, _)| *text == word)
        .map(|(_, cell)| cell.clone());
    known.or(is_links.then_some(Cell::Link))
}

/// True for the header of another matrix with the same first column.
pub fn is_header(words: &[&str], first: Option<&String>) -> bool {
    let (labels, _) = header_words(words);
    !labels.is_empty() && labels.first() == first
}

impl Matrix {
    pub fn row(&self, label: &str) -> Option<&MatrixRow> {
        self.rows.iter().find(|row| row.label == label)
    }

    fn column(&self, label: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == label)
    }

    /// The words between GPUs, by the positions of their numbers.
    pub fn between_gpus(&self) -> GpuLinks {
        let labels = self.columns.iter();
        let mut gpus: Vec<u32> = labels.filter_map(|label| gpu_number(label)).collect();
        gpus.sort_unstable();
        let word = |from: u32, to: u32| {
            let row = self.row(&format!("GPU{from}"))?;
            row.words.get(self.column(&format!("GPU{to}"))?).cloned()
        };
        let mut links = GpuLinks::new();
        for (a, from) in gpus.iter().enumerate() {
            let others = gpus.iter().enumerate();
            links.extend(others.filter_map(|(b, to)| Some(((a, b), word(*from, *to)?))));
        }
        links
    }

    pub fn foreign_words(&self) -> Vec<&str> {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        let words: BTreeSet<&str> = cells
            .filter_map(|cell| match cell {
                Cell::Foreign(word) => Some(word.as_str()),
                _ => None,
            })
            .collect();
        words.into_iter().collect()
    }

    /// The GPUs' numbers, ascending, and the NICs' labels in the order of the columns.
    pub fn devices(&self, to: &mut Imported) -> Result<(Vec<u8>, Vec<&str>)> {
        let bad = |problem: String| Err(BadText::new(self.line, problem));
        let (mut gpus, mut nics, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (at, label) in self.columns.iter().enumerate() {
            match gpu_number(label) {
                _ if self.column(label) != Some(at) => {
                    return bad(format!("two columns are called `{label}`"));
                }
                Some(number) if (number as usize) < MAX_DEVICES => gpus.push(number as u8),
                Some(_) => return bad(format!("`{label}`: expected a number below {MAX_DEVICES}")),
                None if is_other(label) => others.push(label),
                None => nics.push(label.as_str()),
            }
        }
        if let Some(row) = self
            .rows
            .iter()
            .find(|row| self.column(&row.label).is_none())
        {
            return Err(BadText::new(
                row.line,
                format!("no column is called `{}`", shown(&row.label)),
            ));
        }
        if nics.len() > MAX_DEVICES {
            let count = nics.len();
            return bad(format!("{count} NICs: expected at most {MAX_DEVICES}"));
        }
        if !others.is_empty() {
            let others = listed(&others);
            to.note(
                "header",
                format!("neither GPUs of NVIDIA nor NICs, so left out: {others}"),
            );
        }
        gpus.sort_unstable();
        if gpus
            .last()
            .is_some_and(|&last| usize::from(last) >= gpus.len())
        {
            let labels: Vec<String> = gpus.iter().map(|gpu| format!("GPU{gpu}")).collect();
            let labels = listed(&labels);
            to.note(
                "header",
                format!("shows only {labels}: a GPU's position among them is its index"),
            );
        }
        Ok((gpus, nics))
    }

    /// `[gpu][nic]`, from the GPUs' rows; a whole row of a NIC must say the same.
    pub fn paths(
        &self,
        gpus: &[u8],
        nics: &[&str],
        lines: &[TextLine],
    ) -> Result<Vec<Vec<PathType>>> {
        let legend = legend(lines, self.last_line);
        gpus.iter()
            .map(|gpu| {
                let gpu = format!("GPU{gpu}");
                let row = self.row(&gpu).ok_or_else(|| {
                    BadText::new(
                        self.last_line,
                        format!("the matrix ends before the row of `{gpu}`"),
                    )
                })?;
                self.check(row)?;
                nics.iter()
                    .map(|nic| self.path(row, nic, &legend))
                    .collect()
            })
            .collect()
    }

    /// Refuses a row that has not one cell for each column, and its `X` in its own.
    fn check(&self, row: &MatrixRow) -> Result<()> {
        let (label, count, columns) = (&row.label, row.cells.len(), self.columns.len());
        let own = self.column(label);
        let mut cells = row.cells.iter().enumerate();
        let problem = if count > columns {
            format!("{count} cells for {columns} columns in the row of `{label}`")
        } else if count < columns && row.rest.is_empty() {
            format!("the row of `{label}` ends after {count} of {columns} cells")
        } else if count < columns {
            format!("{count} cells for {columns} columns: cannot tell which is missing")
        } else if cells.all(|(at, cell)| (*cell == Cell::Own) == (Some(at) == own)) {
            return Ok(());
        } else if let Some(at) = row.cells.iter().position(|cell| *cell == Cell::Own) {
            let other = &self.columns[at];
            format!("the `X` of `{label}` stands in the column of `{other}`")
        } else {
            format!("no `X` in the row of `{label}`")
        };
        Err(BadText::new(row.line, problem))
    }

    fn path(
        &self,
        row: &MatrixRow,
        nic: &str,
        legend: &BTreeMap<&str, PathType>,
    ) -> Result<PathType> {
        let gpu = &row.label;
        let cell = |row: &MatrixRow, label: &str| row.cells.get(self.column(label)?).cloned();
        let own = cell(row, nic);
        let known = match &own {
            Some(Cell::Path(kind)) => Ok(*kind),
            Some(Cell::Foreign(word)) => {
                let unknown = || format!("`{}`, which no legend below explains,", shown(word));
                legend.get(word.as_str()).copied().ok_or_else(unknown)
            }
            Some(Cell::Link) => Err("an NVLink".to_string()),
            Some(Cell::Own) | None => Err("`X`".to_string()),
        };
        let kind = known.map_err(|word| {
            let expected = "expected `PIX`, `PXB`, `PHB`, `NODE` or `SYS`";
            BadText::new(
                row.line,
                format!("{word} between `{gpu}` and `{nic}`: {expected}"),
            )
        })?;
        let mirror = self.row(nic).filter(|row| self.check(row).is_ok());
        match mirror.filter(|mirror| cell(mirror, gpu) != own) {
            None => Ok(kind),
            Some(mirror) => {
                let line = row.line;
                Err(BadText::new(
                    mirror.line,
                    format!("the row of `{nic}` says otherwise of `{gpu}` than line {line}"),
                ))
            }
        }
    }
}

/// Kinds of path that a legend explains, as `SPB  = Connection traversing a single PCIe bridge`,
/// by NVIDIA's phrases, which other vendors keep.
fn legend(lines: &[TextLine], below: u32) -> BTreeMap<&str, PathType> {
    const PHRASES: [(&str, PathType); 5] = [
        ("between NUMA nodes", PathType::Sys),
        ("within a NUMA node", PathType::Node),
        ("multiple PCIe", PathType::Pxb),
        ("single PCIe", PathType::Pix),
        ("PCIe Host Bridge", PathType::Phb),
    ];
    lines
        .iter()
        .filter(|line| line.number > below && !line.is_open)
        .filter_map(|line| {
            let (word, meaning) = line.text.split_once('=')?;
            let mut known = PHRASES.iter();
            let (_, kind) = known.find(|(phrase, _)| meaning.contains(phrase))?;
            Some((word.split_whitespace().last()?, *kind))
        })
        .collect()
}

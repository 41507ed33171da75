//! Finds the matrix in the text: its header and its rows, each on one line.
#![forbid(unsafe_code)]

use super::text::TextLine;
use super::{BadText, MAX_DEVICES, gpu_number, is_nic_number, listed};
use crate::import::{Imported, Result, shown};
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

/// A column after the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Title {
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

pub(super) struct MatrixRow {
    label: String,
    line: u32,
    cells: Vec<Cell>,
    /// the words after the cells
    pub(super) rest: Vec<String>,
    /// true if the text ends in this row, without a line's end
    pub(super) is_open: bool,
}

pub(super) struct Matrix {
    pub(super) line: u32,
    /// the line of the last row
    pub(super) last_line: u32,
    pub(super) columns: Vec<String>,
    pub(super) titles: Vec<Title>,
    rows: Vec<MatrixRow>,
}

pub(super) fn find(lines: &[TextLine]) -> Result<Matrix> {
    let mut header: Option<(u32, Vec<String>, Vec<&str>)> = None;
    let mut stray = None;
    for (index, line) in lines.iter().enumerate() {
        let words = line.words();
        let columns = header.as_ref().map_or(&[][..], |(_, columns, _)| columns);
        match (row_label(&words, columns), header.take()) {
            (Some(_), Some((line, columns, titles))) => {
                return table(line, columns, titles, &lines[index..]);
            }
            (Some(at), None) => stray = stray.or(Some((line.number, words[at]))),
            (None, before) => {
                let (labels, titles) = header_words(&words);
                header = match labels.is_empty() {
                    true => before,
                    false => Some((line.number, labels, titles)),
                };
            }
        }
    }
    let failure = lines.iter().find_map(|line| {
        let (words, why) = FAILURES
            .iter()
            .find(|(words, _)| line.text.contains(words))?;
        let problem = format!("nvidia-smi says `{words}`: {why}");
        Some(BadText::new(line.number, problem))
    });
    Err(failure.unwrap_or_else(|| match (header, stray) {
        (_, Some((line, label))) => {
            let label = shown(label);
            let problem = format!(
                "a row of `{label}` without a header such as `GPU0 GPU1 NIC0 CPU Affinity` on one line above it"
            );
            BadText::new(line, problem)
        }
        (Some((line, ..)), None) => {
            BadText::new(line, "the text ends after the header of a matrix")
        }
        (None, None) => BadText::new(
            0,
            "no matrix of `nvidia-smi topo -m`: expected a header such as `GPU0 GPU1 NIC0 CPU Affinity` and a row for \
             each GPU below it",
        ),
    }))
}

/// The matrix whose rows begin with the first of `lines`.
fn table(line: u32, columns: Vec<String>, titles: Vec<&str>, lines: &[TextLine]) -> Result<Matrix> {
    if columns.len() > MAX_COLUMNS {
        let problem = format!("more than {MAX_COLUMNS} devices");
        return Err(BadText::new(line, problem));
    }
    let mut matrix = Matrix {
        line,
        last_line: line,
        titles: titles_of(&titles.join(" "), line)?,
        columns,
        rows: Vec::new(),
    };
    for line in lines {
        let (words, number) = (line.words(), line.number);
        let Some(at) = row_label(&words, &matrix.columns) else {
            break;
        };
        let label = words[at];
        if let Some(first) = matrix.row(label) {
            let problem = format!(
                "a second row of `{label}`: the first is in line {}",
                first.line
            );
            return Err(BadText::new(number, problem));
        }
        let (cells, rest) = split_row(&words[at..], number)?;
        let (label, is_open) = (label.to_string(), line.is_open);
        matrix.rows.push(MatrixRow {
            label,
            line: number,
            cells,
            rest,
            is_open,
        });
        matrix.last_line = number;
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
    let problem = format!(
        "`{words}` after the devices: expected `CPU Affinity`, `NUMA Affinity` and `GPU NUMA ID`"
    );
    Err(BadText::new(line, problem))
}

/// The cells of a row, and the words after them; the first of `words` is its label.
fn split_row(words: &[&str], line: u32) -> Result<(Vec<Cell>, Vec<String>)> {
    let (mut cells, mut rest) = (Vec::new(), Vec::<String>::new());
    for word in &words[1..] {
        match (cells_of(word), rest.first()) {
            (Some((mut found, after)), None) => {
                cells.append(&mut found);
                rest.extend((!after.is_empty()).then(|| after.to_string()));
            }
            (None, None) if is_foreign(word) => cells.push(Cell::Foreign((*word).to_string())),
            (Some(_), Some(other)) => {
                let (other, label) = (shown(other), shown(words[0]));
                let problem = format!(
                    "`{other}` in the row of `{label}` is no kind of path: expected `X`, `PIX`, `PXB`, `PHB`, `NODE`, \
                     `SYS` or `NV#`"
                );
                return Err(BadText::new(line, problem));
            }
            (None, _) => rest.push((*word).to_string()),
        }
    }
    Ok((cells, rest))
}

/// The position of a row's label among the words of a line: before the first cell.
fn row_label(words: &[&str], columns: &[String]) -> Option<usize> {
    let is_column = |word: &str| columns.iter().any(|label| label == word);
    (0..words.len().min(MAX_PREFIX)).find(|&at| {
        words.get(at + 1).is_some_and(|next| {
            let is_label = split_label(words[at]).is_some_and(|(_, after)| after.is_empty())
                || is_device_name(words[at]);
            // a row of `PPU1` may begin with `ICN2`, which looks like a label itself
            is_label && cells_of(next).is_some()
                || is_column(words[at]) && is_foreign(next) && !is_column(next)
        })
    })
}

/// The labels and the words of titles at the end of a line.
fn header_words<'a>(words: &[&'a str]) -> (Vec<String>, Vec<&'a str>) {
    let (mut labels, mut titles) = (Vec::new(), Vec::new());
    for word in words.iter().rev() {
        let Some((of_word, mut titles_of_word)) = header_word(word) else {
            break;
        };
        let out_of_order = !labels.is_empty() && !titles_of_word.is_empty();
        if out_of_order || labels.len() > MAX_COLUMNS {
            break;
        }
        labels.extend(of_word.into_iter().rev());
        titles_of_word.reverse();
        titles.append(&mut titles_of_word);
    }
    labels.reverse();
    titles.reverse();
    (labels, titles)
}

/// The labels and titles in one word of a header: nvidia-smi prints `NIC8NIC9`, `NIC11CPU` and `AffinityNUMA` where a column is
/// too narrow, and such a word has one reading.
fn header_word(word: &str) -> Option<(Vec<String>, Vec<&str>)> {
    let (mut labels, mut titles) = (Vec::new(), Vec::new());
    let mut rest = word;
    while !rest.is_empty() {
        if let Some((label, after)) = split_label(rest).filter(|_| titles.is_empty()) {
            labels.push(label.to_string());
            rest = after;
            continue;
        }
        let title = ["Affinity", "NUMA", "CPU", "GPU", "ID"]
            .into_iter()
            .find(|title| rest.starts_with(title));
        let Some(title) = title else {
            return is_device_name(word).then(|| (vec![word.to_string()], Vec::new()));
        };
        titles.push(title);
        rest = &rest[title.len()..];
    }
    Some((labels, titles))
}

/// `GPU3` or `NIC12` at the start of `text`, and the text after it.
fn split_label(text: &str) -> Option<(&str, &str)> {
    let digits = text
        .strip_prefix("GPU")
        .or_else(|| text.strip_prefix("NIC"))?;
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    // no tool writes `GPU007`, and two forms of one number would be two devices
    let plain = (1..=4).contains(&count) && (count == 1 || !digits.starts_with('0'));
    plain.then(|| text.split_at(3 + count))
}

fn is_label_of_nvidia(word: &str) -> bool {
    word.starts_with("GPU") || word.starts_with("NIC")
}

/// True for a name that an RDMA device can have, such as `mlx5_0`, `ibp3s0`, `roceP6p3s0`.
fn is_device_name(word: &str) -> bool {
    DeviceName::is_one(word)
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.contains(|c: char| c.is_ascii_digit() || c == '_')
        && !is_label_of_nvidia(word)
        && cells_of(word).is_none()
}

/// True for an accelerator that CUDA does not know, such as `PPU0`.  The kernel's and udev's names of RDMA devices begin with a
/// small letter.
fn is_other(label: &str) -> bool {
    let is_known = gpu_number(label).is_some() || is_nic_number(label);
    !is_known && label.starts_with(|first: char| first.is_ascii_uppercase())
}

/// True for a word that can be a kind of path of another vendor's tool.
fn is_foreign(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.chars().all(plain)
        && !is_label_of_nvidia(word)
}

/// The cells in a word, and the value of a later column that touches the last; `None` if it has neither.
fn cells_of(word: &str) -> Option<(Vec<Cell>, &str)> {
    const WORDS: [(&str, Cell); 9] = [
        ("X", Cell::Own),
        ("NVB", Cell::Link),
        ("LOC", Cell::Link),
        ("PIX", Cell::Path(PathType::Pix)),
        ("PXB", Cell::Path(PathType::Pxb)),
        ("PHB", Cell::Path(PathType::Phb)),
        ("NODE", Cell::Path(PathType::Node)),
        ("SYS", Cell::Path(PathType::Sys)),
        // between sockets, in versions before `NODE`
        ("SOC", Cell::Path(PathType::Sys)),
    ];
    let (mut cells, mut rest) = (Vec::new(), word);
    loop {
        let digits = rest.strip_prefix("NV").map_or(0, |rest| {
            rest.bytes().take_while(u8::is_ascii_digit).count()
        });
        if let Some((text, cell)) = WORDS.iter().find(|(text, _)| rest.starts_with(text)) {
            cells.push(cell.clone());
            rest = &rest[text.len()..];
        } else if digits > 0 {
            cells.push(Cell::Link);
            rest = &rest[2 + digits..];
        } else {
            let ends_well = rest.is_empty()
                || rest.starts_with("N/A")
                || rest.starts_with(|first: char| first.is_ascii_digit());
            return (!cells.is_empty() && ends_well).then_some((cells, rest));
        }
    }
}

/// True for the header of another matrix with the same first column.
pub(super) fn is_header(words: &[&str], first: Option<&String>) -> bool {
    header_words(words)
        .0
        .first()
        .is_some_and(|label| Some(label) == first)
}

impl Matrix {
    pub(super) fn row(&self, label: &str) -> Option<&MatrixRow> {
        self.rows.iter().find(|row| row.label == label)
    }

    fn column(&self, label: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == label)
    }

    /// Kinds of path that nvidia-smi does not have, in rows of its devices.
    pub(super) fn foreign_words(&self) -> Vec<&str> {
        let cells = self.rows.iter().flat_map(|row| &row.cells);
        let words: BTreeSet<&str> = cells
            .filter_map(|cell| match cell {
                Cell::Foreign(word) => Some(word.as_str()),
                _ => None,
            })
            .collect();
        words.into_iter().collect()
    }

    /// The numbers of the GPUs, ascending, and the labels of the NICs in the order of the columns.
    pub(super) fn devices(&self, to: &mut Imported) -> Result<(Vec<u8>, Vec<&str>)> {
        let bad = |problem: String| Err(BadText::new(self.line, problem));
        let (mut gpus, mut nics, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (at, label) in self.columns.iter().enumerate() {
            if self.column(label) != Some(at) {
                return bad(format!("two columns are called `{label}`"));
            }
            match gpu_number(label) {
                Some(number) if (number as usize) < MAX_DEVICES => gpus.push(number as u8),
                Some(_) => return bad(format!("`{label}`: expected a number below {MAX_DEVICES}")),
                None if is_other(label) => others.push(label),
                None => nics.push(label.as_str()),
            }
        }
        let stray = self
            .rows
            .iter()
            .find(|row| self.column(&row.label).is_none());
        if let Some(MatrixRow { label, line, .. }) = stray {
            let problem = format!("no column is called `{}`", shown(label));
            return Err(BadText::new(*line, problem));
        }
        if nics.len() > MAX_DEVICES {
            let count = nics.len();
            return bad(format!("{count} NICs: expected at most {MAX_DEVICES}"));
        }
        if !others.is_empty() {
            let others = listed(&others);
            let finding = format!("neither GPUs of NVIDIA nor NICs, so left out: {others}");
            to.note("header", finding);
        }
        gpus.sort_unstable();
        if gpus
            .iter()
            .enumerate()
            .any(|(at, &gpu)| at != usize::from(gpu))
        {
            let labels: Vec<String> = gpus.iter().map(|gpu| format!("GPU{gpu}")).collect();
            let labels = listed(&labels);
            let finding = format!("shows only {labels}: a GPU's position among them is its index");
            to.note("header", finding);
        }
        Ok((gpus, nics))
    }

    /// `[gpu][nic]`: the cells of the GPUs' rows.  A whole row of a NIC must say the same.
    pub(super) fn paths(
        &self,
        gpus: &[u8],
        nics: &[&str],
        lines: &[TextLine],
    ) -> Result<Vec<Vec<PathType>>> {
        let legend = legend(lines, self.last_line);
        let path = |gpu: &u8| {
            let gpu = format!("GPU{gpu}");
            let Some(row) = self.row(&gpu) else {
                let problem = format!("the matrix ends before the row of `{gpu}`");
                return Err(BadText::new(self.last_line, problem));
            };
            self.check(row)?;
            nics.iter()
                .map(|nic| self.path(row, nic, &legend))
                .collect()
        };
        gpus.iter().map(path).collect()
    }

    /// Refuses a row that has not one cell for each column, and its `X` in its own.
    fn check(&self, row: &MatrixRow) -> Result<()> {
        let (label, count, columns) = (&row.label, row.cells.len(), self.columns.len());
        let own = self.column(label);
        let is_own = |(at, cell): (usize, &Cell)| (*cell == Cell::Own) == (Some(at) == own);
        let problem = if count > columns {
            format!("{count} cells for {columns} columns in the row of `{label}`")
        } else if count < columns && row.rest.is_empty() {
            format!("the row of `{label}` ends after {count} of {columns} cells")
        } else if count < columns {
            format!("{count} cells for {columns} columns: cannot tell which is missing")
        } else if row.cells.iter().enumerate().all(is_own) {
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
        let cell = |row: &MatrixRow, label: &str| {
            self.column(label).and_then(|at| row.cells.get(at).cloned())
        };
        let own = cell(row, nic);
        let word = match &own {
            Some(Cell::Path(kind)) => Ok(*kind),
            Some(Cell::Foreign(word)) => legend
                .get(word.as_str())
                .copied()
                .ok_or_else(|| format!("`{}`, which no legend below explains,", shown(word))),
            Some(Cell::Link) => Err("an NVLink".to_string()),
            Some(Cell::Own) | None => Err("`X`".to_string()),
        };
        let kind = word.map_err(|word| {
            let problem = format!(
                "{word} between `{gpu}` and `{nic}`: expected `PIX`, `PXB`, `PHB`, `NODE` or `SYS`"
            );
            BadText::new(row.line, problem)
        })?;
        let mirror = self.row(nic).filter(|row| self.check(row).is_ok());
        match mirror.filter(|mirror| cell(mirror, gpu) != own) {
            None => Ok(kind),
            Some(mirror) => {
                let line = row.line;
                let problem =
                    format!("the row of `{nic}` says otherwise of `{gpu}` than line {line}");
                Err(BadText::new(mirror.line, problem))
            }
        }
    }
}

/// The kinds of path that a legend below the matrix explains: `SPB  = Connection traversing a single PCIe bridge`.  The phrases are
/// those of NVIDIA's legend, which other vendors' tools keep.
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
            let (_, kind) = PHRASES
                .iter()
                .find(|(phrase, _)| meaning.contains(phrase))?;
            Some((word.split_whitespace().last()?, *kind))
        })
        .collect()
}

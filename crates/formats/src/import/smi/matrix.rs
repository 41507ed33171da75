//! Finds the matrix in the text: its header, its rows, each on one line, and the names of NICs below.

use super::text::TextLine;
use super::{BadText, MAX_DEVICES, gpu_number, is_nic_number, listed};
use crate::import::{Imported, Result, shown};
use nic_placement_core::topology::{DeviceName, PathType};
use std::collections::{BTreeMap, BTreeSet};

/// The most columns for devices, and the most rows.
const MAX_COLUMNS: usize = 2 * MAX_DEVICES;
/// The most words before a row's label, which a log or `srun --label` may add.
const MAX_PREFIX: usize = 8;
/// The columns behind the devices, in their order: `Matrix::titles` has positions here.
pub const TITLES: [&str; 3] = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"];

/// `SOC` is between sockets, in versions before `NODE`.
const KINDS: [(&str, PathType); 6] = [
    ("PIX", PathType::Pix),
    ("PXB", PathType::Pxb),
    ("PHB", PathType::Phb),
    ("NODE", PathType::Node),
    ("SYS", PathType::Sys),
    ("SOC", PathType::Sys),
];

pub struct MatrixRow<'t> {
    label: &'t str,
    line: u32,
    cells: Vec<&'t str>,
    /// behind the cells
    pub rest: Vec<&'t str>,
    pub is_open: bool,
}

pub struct Matrix<'t> {
    line: u32,
    /// the line of the last row
    last_line: u32,
    columns: Vec<&'t str>,
    pub titles: Vec<usize>,
    rows: Vec<MatrixRow<'t>>,
}

/// The word of a path, between GPUs also `X` (the device itself), `NV4`, `NVB` and `LOC`.
fn is_cell(word: &str) -> bool {
    let links = word.strip_prefix("NV").unwrap_or_default();
    let is_links = !links.is_empty() && links.bytes().all(|digit| digit.is_ascii_digit());
    is_links || ["X", "NVB", "LOC"].contains(&word) || kind(word).is_some()
}

fn kind(word: &str) -> Option<PathType> {
    let (_, kind) = KINDS.iter().find(|(known, _)| *known == word)?;
    Some(*kind)
}

fn begins_as_label(word: &str) -> bool {
    word.starts_with("GPU") || word.starts_with("NIC")
}

/// A kind of path that nvidia-smi does not have, such as `SPB` of Moore Threads' `mthreads-gmi topo -m`.
fn is_foreign(word: &str) -> bool {
    let mut letters = word.chars();
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        && !begins_as_label(word)
        && !is_cell(word)
}

/// True for `GPU3`, `NIC12`, and for names that an RDMA device can have, such as `mlx5_0`, `ibp3s0`, `roceP6p3s0`.
fn is_label(word: &str) -> bool {
    if begins_as_label(word) {
        return gpu_number(word).is_some() || is_nic_number(word);
    }
    DeviceName::is_one(word)
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.contains(|c: char| c.is_ascii_digit() || c == '_')
        && !is_cell(word)
}

/// A row's label is before the first cell.
fn row_label(words: &[&str], columns: &[&str]) -> Option<usize> {
    let mut pairs = words.windows(2).take(MAX_PREFIX);
    pairs.position(|pair| {
        // a row of `PPU1` may begin with `ICN2`, which looks like a label itself
        is_label(pair[0]) && is_cell(pair[1])
            || columns.contains(&pair[0]) && is_foreign(pair[1]) && !columns.contains(&pair[1])
    })
}

/// The labels of a header, and the titles behind them.
fn header<'t>(words: &[&'t str]) -> (Vec<&'t str>, String) {
    let is_title = |word: &&&str| ["Affinity", "NUMA", "CPU", "GPU", "ID"].contains(*word);
    let titles = words.iter().rev().take_while(is_title).count();
    let (before, titles) = words.split_at(words.len() - titles);
    let labels = before.iter().rev().take_while(|word| is_label(word));
    let labels = labels.take(MAX_COLUMNS + 1).count();
    (before[before.len() - labels..].to_vec(), titles.join(" "))
}

impl<'t> Matrix<'t> {
    pub fn find(lines: &'t [TextLine]) -> Result<Matrix<'t>> {
        let mut found: Option<Matrix> = None;
        for line in lines {
            let words = line.words();
            let columns = found.as_ref().map_or(&[][..], |matrix| &matrix.columns);
            let at = row_label(&words, columns);
            match (&mut found, at) {
                (Some(matrix), Some(at)) => matrix.add(line, &words[at..])?,
                // below the last row
                (Some(matrix), None) if !matrix.rows.is_empty() => break,
                (None, Some(_)) => {}
                (_, None) => {
                    let (columns, titles) = header(&words);
                    if !columns.is_empty() {
                        found = Some(Matrix::new(line.number, columns, &titles)?);
                    }
                }
            }
        }
        found.filter(|matrix| !matrix.rows.is_empty()).ok_or_else(|| {
            BadText::new(
                0,
                "no matrix of `nvidia-smi topo -m`: expected a header such as `GPU0 GPU1 NIC0 CPU Affinity` on one line and a \
                 row for each GPU below it",
            )
        })
    }

    fn new(line: u32, columns: Vec<&'t str>, titles: &str) -> Result<Matrix<'t>> {
        let (mut known, mut rest) = (Vec::new(), titles);
        for (at, title) in TITLES.iter().enumerate() {
            if let Some(after) = rest.strip_prefix(title) {
                known.push(at);
                rest = after.trim_start();
            }
        }
        let problem = if !rest.is_empty() {
            let titles = shown(titles);
            format!(
                "`{titles}` after the devices: expected `CPU Affinity`, `NUMA Affinity` and `GPU NUMA ID`"
            )
        } else if columns.len() > MAX_COLUMNS {
            format!("more than {MAX_COLUMNS} devices")
        } else {
            return Ok(Matrix {
                line,
                last_line: line,
                columns,
                titles: known,
                rows: Vec::new(),
            });
        };
        Err(BadText::new(line, problem))
    }

    fn add(&mut self, line: &TextLine, words: &[&'t str]) -> Result<()> {
        let (label, words) = (words[0], &words[1..]);
        let is_value = |word: &&str| !is_cell(word) && !is_foreign(word);
        let end = words.iter().position(is_value).unwrap_or(words.len());
        let (cells, rest) = words.split_at(end);
        let problem = if let Some(first) = self.row(label) {
            format!(
                "a second row of `{label}`: the first is in line {}",
                first.line
            )
        } else if !self.columns.contains(&label) {
            format!("no column is called `{label}`")
        } else if let Some(other) = rest
            .first()
            .filter(|_| rest.iter().any(|word| is_cell(word)))
        {
            let other = shown(other);
            format!(
                "`{other}` in the row of `{label}` is no kind of path: expected `X`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS` or `NV#`"
            )
        } else {
            self.last_line = line.number;
            self.rows.push(MatrixRow {
                label,
                line: line.number,
                cells: cells.to_vec(),
                rest: rest.to_vec(),
                is_open: line.is_open,
            });
            return Ok(());
        };
        Err(BadText::new(line.number, problem))
    }

    pub fn row(&self, label: &str) -> Option<&MatrixRow<'t>> {
        self.rows.iter().find(|row| row.label == label)
    }

    pub fn foreign_words(&self) -> Vec<&'t str> {
        let cells = self.rows.iter().flat_map(|row| &row.cells).copied();
        let words: BTreeSet<&str> = cells.filter(|cell| is_foreign(cell)).collect();
        words.into_iter().collect()
    }

    /// The GPUs' numbers, ascending, and the NICs' labels in the order of the columns.
    pub fn devices(&self, to: &mut Imported) -> Result<(Vec<u8>, Vec<&'t str>)> {
        let bad = |problem: String| Err(BadText::new(self.line, problem));
        let (mut gpus, mut nics, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (at, &label) in self.columns.iter().enumerate() {
            match gpu_number(label) {
                _ if self.columns[..at].contains(&label) => {
                    return bad(format!("two columns are called `{label}`"));
                }
                Some(number) if (number as usize) < MAX_DEVICES => gpus.push(number as u8),
                Some(_) => return bad(format!("`{label}`: expected a number below {MAX_DEVICES}")),
                // an accelerator that CUDA does not know, such as `PPU0`: names of RDMA devices begin with a small letter
                None if !is_nic_number(label)
                    && label.starts_with(|c: char| c.is_ascii_uppercase()) =>
                {
                    others.push(label);
                }
                None => nics.push(label),
            }
        }
        if nics.len() > MAX_DEVICES {
            return bad(format!(
                "{} NICs: expected at most {MAX_DEVICES}",
                nics.len()
            ));
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
            let finding = "some GPUs only: a GPU's position among them is its index";
            to.note("header", finding);
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
        let legend = self.legend(lines);
        let of_gpu = |gpu: &u8| {
            let label = format!("GPU{gpu}");
            let Some(row) = self.row(&label) else {
                let problem = format!("the matrix ends before the row of `{label}`");
                return Err(BadText::new(self.last_line, problem));
            };
            if !self.is_whole(row) {
                let (cells, columns) = (row.cells.len(), self.columns.len());
                return Err(BadText::new(
                    row.line,
                    format!(
                        "the row of `{label}` has {cells} cells: expected {columns}, and `X` in its own column alone"
                    ),
                ));
            }
            nics.iter()
                .map(|nic| self.path(row, nic, &legend))
                .collect()
        };
        gpus.iter().map(of_gpu).collect()
    }

    /// One cell for each column, and `X` in its own alone.
    fn is_whole(&self, row: &MatrixRow) -> bool {
        let mut cells = row.cells.iter().zip(&self.columns);
        row.cells.len() == self.columns.len()
            && cells.all(|(cell, column)| (*cell == "X") == (*column == row.label))
    }

    fn path(
        &self,
        row: &MatrixRow<'t>,
        nic: &str,
        legend: &BTreeMap<&str, PathType>,
    ) -> Result<PathType> {
        let gpu = row.label;
        let cell = |row: &MatrixRow<'t>, label: &str| {
            let at = self.columns.iter().position(|column| *column == label);
            at.and_then(|at| row.cells.get(at).copied())
                .unwrap_or_default()
        };
        let word = cell(row, nic);
        let known = kind(word).or(legend.get(word).copied().filter(|_| is_foreign(word)));
        let known = known.ok_or_else(|| {
            BadText::new(row.line, format!(
                "`{word}`, which no legend below explains, between `{gpu}` and `{nic}`: expected `PIX`, `PXB`, `PHB`, `NODE` or `SYS`"
            ))
        })?;
        match self.row(nic).filter(|mirror| self.is_whole(mirror)) {
            Some(mirror) if cell(mirror, gpu) != word => {
                let line = row.line;
                let problem =
                    format!("the row of `{nic}` says otherwise of `{gpu}` than line {line}");
                Err(BadText::new(mirror.line, problem))
            }
            _ => Ok(known),
        }
    }

    /// Kinds of path that a legend explains, as `SPB  = Connection traversing a single PCIe bridge`, by NVIDIA's phrases, which
    /// other vendors keep.
    fn legend<'l>(&self, lines: &'l [TextLine]) -> BTreeMap<&'l str, PathType> {
        const PHRASES: [(&str, PathType); 5] = [
            ("between NUMA nodes", PathType::Sys),
            ("within a NUMA node", PathType::Node),
            ("multiple PCIe", PathType::Pxb),
            ("single PCIe", PathType::Pix),
            ("PCIe Host Bridge", PathType::Phb),
        ];
        let below = lines.iter().filter(|line| line.number > self.last_line);
        let explained = below.filter(|line| !line.is_open).filter_map(|line| {
            let (word, meaning) = line.text.split_once('=')?;
            let mut known = PHRASES.iter();
            let (_, kind) = known.find(|(phrase, _)| meaning.contains(phrase))?;
            Some((word.split_whitespace().last()?, *kind))
        });
        explained.collect()
    }

    /// The columns' own labels, or the names for `NIC0` and so on in the `NIC Legend:`.
    pub fn names(
        &self,
        nics: &[&str],
        lines: &[TextLine],
        to: &mut Imported,
    ) -> Result<Vec<DeviceName>> {
        let entries = self.entries(lines, to)?;
        let (mut names, mut nameless) = (Vec::new(), Vec::new());
        for &label in nics {
            let name = match entries.get(label) {
                Some((name, false)) => name,
                None if !is_nic_number(label) => label,
                _ => {
                    nameless.push(label);
                    label
                }
            };
            names.push(device_name(label, name, self.line)?);
        }
        if !nameless.is_empty() {
            to.note("NIC Legend", format!(
                "no whole name, so the matrix's own word is used, which no library knows, for {}",
                listed(&nameless)
            ));
        }
        Ok(names)
    }

    /// Every `NIC0: name` or `NIC0:name` below the matrix, up to another matrix; true with what may be no whole name.
    fn entries<'l>(
        &self,
        lines: &'l [TextLine],
        to: &mut Imported,
    ) -> Result<BTreeMap<&'l str, (&'l str, bool)>> {
        let mut entries: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
        for line in lines.iter().filter(|line| line.number > self.last_line) {
            let words = line.words();
            if header(&words)
                .0
                .first()
                .is_some_and(|first| Some(first) == self.columns.first())
            {
                let number = line.number;
                to.note(
                    "header",
                    format!("one more matrix begins in line {number}: only the first is read"),
                );
                break;
            }
            let mut words = words.into_iter();
            while let Some(word) = words.next() {
                let Some((label, touching)) = word
                    .split_once(':')
                    .filter(|(label, _)| is_nic_number(label))
                else {
                    continue;
                };
                let name = match touching {
                    "" => words.next().unwrap_or_default(),
                    name => name,
                };
                device_name(label, name, line.number)?;
                // with dozens of NICs nvidia-smi overruns its buffers and prints parts of its header for names (seen with 42 and
                // 62 NICs): a word without a digit is one.  The last name of a text without a line's end may be cut
                let is_part = is_nic_number(name) || !name.contains(|c: char| c.is_ascii_digit());
                let is_cut = line.is_open && words.len() == 0;
                match entries.insert(label, (name, is_part || is_cut)) {
                    Some((first, _)) if first != name => {
                        let (name, first) = (shown(name), shown(first));
                        let problem = format!("`{label}` is called `{name}`, and before `{first}`");
                        return Err(BadText::new(line.number, problem));
                    }
                    _ => {}
                }
            }
        }
        Ok(entries)
    }
}

fn device_name(label: &str, name: &str, line: u32) -> Result<DeviceName> {
    name.parse().map_err(|_| {
        let (name, most) = (shown(name), DeviceName::MAX);
        BadText::new(line, format!(
            "`{name}` as the name of `{label}`: expected 1 to {most} of the characters `A-Za-z0-9_.-`"
        ))
    })
}

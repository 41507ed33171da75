//! The kinds of paths between GPUs and NICs: from the GPUs' rows, or from the NICs' rows if a GPU's is cut.
#![forbid(unsafe_code)]

use super::matrix::{Matrix, MatrixRow, is_nic};
use super::word::{Cell, is_other};
use super::{BadText, MAX_DEVICES, gpu_number, listed};
use crate::import::{Imported, Result};
use nic_placement_core::topology::PathType;
use std::collections::BTreeSet;

pub(super) struct MatrixPaths {
    /// numbers of the GPUs, ascending
    pub(super) gpus: Vec<u8>,
    /// labels of the NICs in the order of the columns
    pub(super) nics: Vec<String>,
    /// `[gpu][nic]`; `None` for a kind that nvidia-smi does not have
    pub(super) kinds: Vec<Vec<Option<PathType>>>,
}

/// Reads every cell of a GPU and a NIC; `ends_here`: nothing follows the last row.
pub(super) fn read(matrix: &Matrix, ends_here: bool, to: &mut Imported) -> Result<MatrixPaths> {
    let (gpus, nics) = devices(matrix, to)?;
    let nic_rows: Vec<Option<&[Cell]>> = nics.iter().map(|nic| nic_row(matrix, nic, to)).collect();
    let mut kinds = Vec::new();
    // for each NIC, the GPUs for which its own row differs
    let mut otherwise: Vec<Vec<String>> = vec![Vec::new(); nics.len()];
    for number in &gpus {
        let label = format!("GPU{number}");
        let column = column(matrix, &label);
        let row = matrix.row(&label);
        let cells = row.map_or(Ok(&[][..]), |row| gpu_cells(matrix, row, column, ends_here))?;
        let mut completed = false;
        let mut of_gpu = Vec::new();
        let mut unknown: Vec<&String> = Vec::new();
        for (position, nic) in nics.iter().enumerate() {
            let own = self::column(matrix, nic).and_then(|at| cells.get(at));
            let other = nic_rows[position].and_then(|cells| cells.get(column?));
            let line = row.map_or(matrix.last_line, |row| row.line);
            let kind = match (own, other) {
                (Some(own), other) => {
                    if other.is_some_and(|other| other != own) {
                        otherwise[position].push(label.clone());
                    }
                    path(*own, &label, nic, line)?
                }
                (None, Some(other)) => {
                    completed = true;
                    path(
                        *other,
                        nic,
                        &label,
                        matrix.row(nic).map_or(line, |row| row.line),
                    )?
                }
                (None, None) => return Err(incomplete(matrix, &label, nic, cells.len())),
            };
            unknown.extend(kind.is_none().then_some(nic));
            of_gpu.push(kind);
        }
        if !unknown.is_empty() {
            let nics = listed(&unknown);
            to.note(
                &label,
                format!("its path to {nics} is of an unknown kind: it counts as NODE or SYS, by NUMA nodes"),
            );
        }
        if row.is_none() {
            to.note(
                &label,
                "has no row: its cells are taken from the rows of the NICs",
            );
        } else if completed {
            let count = cells.len();
            let finding =
                format!("ends after {count} cells: the rest is taken from the rows of the NICs");
            to.note(&label, finding);
        }
        kinds.push(of_gpu);
    }
    for (nic, gpus) in nics
        .iter()
        .zip(&otherwise)
        .filter(|(_, gpus)| !gpus.is_empty())
    {
        let gpus = listed(gpus);
        to.note(
            nic,
            format!("its row says otherwise than the rows of {gpus}: the GPUs' rows count"),
        );
    }
    Ok(MatrixPaths { gpus, nics, kinds })
}

/// The numbers of the GPUs and the labels of the NICs.
fn devices(matrix: &Matrix, to: &mut Imported) -> Result<(Vec<u8>, Vec<String>)> {
    let bad = |problem: String| Err(BadText::new(matrix.line, problem));
    let mut seen = BTreeSet::new();
    let mut gpus = Vec::new();
    let mut nics: Vec<String> = Vec::new();
    for label in &matrix.columns {
        if !seen.insert(label) {
            return bad(format!("two columns are called `{label}`"));
        }
        match gpu_number(label) {
            Some(number) if (number as usize) < MAX_DEVICES => gpus.push(number as u8),
            Some(_) => return bad(format!("`{label}`: expected a number below {MAX_DEVICES}")),
            None if is_other(label) => {}
            None => nics.push(label.clone()),
        }
    }
    let labels = matrix
        .columns
        .iter()
        .chain(matrix.rows.iter().map(|row| &row.label));
    let others: BTreeSet<&String> = labels.filter(|label| is_other(label)).collect();
    let is_missing = |row: &&MatrixRow| !seen.contains(&row.label) && !others.contains(&row.label);
    let missing: Vec<&MatrixRow> = matrix.rows.iter().filter(is_missing).collect();
    for row in &missing {
        if !is_nic(&row.label) {
            return Err(BadText::new(
                row.line,
                format!("no column is called `{}`", row.label),
            ));
        }
        // the header may be cut inside a name; that is no device
        let last = matrix
            .columns
            .last()
            .filter(|last| matrix.row(last).is_none());
        if let Some(last) = last.filter(|last| row.label.starts_with(last.as_str())) {
            return bad(format!(
                "the header ends in `{last}`, which may be the beginning of `{}`",
                row.label
            ));
        }
        nics.push(row.label.clone());
    }
    if !missing.is_empty() {
        let labels: Vec<&String> = missing.iter().map(|row| &row.label).collect();
        to.note(
            "header",
            format!("no columns for {}: their own rows count", listed(&labels)),
        );
    }
    if !others.is_empty() {
        let others = listed(&Vec::from_iter(others));
        to.note(
            "header",
            format!("neither GPUs of NVIDIA nor NICs, so left out: {others}"),
        );
    }
    if nics.len() > MAX_DEVICES {
        return bad(format!(
            "{} NICs: expected at most {MAX_DEVICES}",
            nics.len()
        ));
    }
    gpus.sort_unstable();
    if gpus
        .iter()
        .enumerate()
        .any(|(position, &number)| position != usize::from(number))
    {
        let labels: Vec<String> = gpus.iter().map(|number| format!("GPU{number}")).collect();
        let labels = listed(&labels);
        to.note(
            "header",
            format!("shows only {labels}: a GPU's position among them is its index"),
        );
    }
    Ok((gpus, nics))
}

fn column(matrix: &Matrix, label: &str) -> Option<usize> {
    matrix.columns.iter().position(|column| column == label)
}

/// The cells of a GPU's row from the left, as far as their columns are certain.
fn gpu_cells<'a>(
    matrix: &Matrix,
    row: &'a MatrixRow,
    column: Option<usize>,
    ends_here: bool,
) -> Result<&'a [Cell]> {
    let (label, count, columns) = (&row.label, row.cells.len(), matrix.columns.len());
    let bad = |problem: String| Err(BadText::new(row.line, problem));
    if count > columns {
        return bad(format!(
            "{count} cells for {columns} columns in the row of `{label}`"
        ));
    }
    if count < columns && !(is_cut(matrix, row, ends_here) && ends_well(row, column)) {
        return bad(format!(
            "{count} cells for {columns} columns: cannot tell which is missing"
        ));
    }
    if !ends_well(row, column) {
        return bad(match row.cells.iter().position(|&cell| cell == Cell::Own) {
            Some(own) => format!(
                "the `X` of `{label}` stands in the column of `{}`",
                matrix.columns[own]
            ),
            None => format!("no `X` in the row of `{label}`"),
        });
    }
    Ok(&row.cells)
}

/// Is a short row certainly cut at its end?  It is if the columns after the devices are missing too, or the text ends with it.
fn is_cut(matrix: &Matrix, row: &MatrixRow, ends_here: bool) -> bool {
    let last = ends_here && matrix.last_line == row.line;
    match row.rest.as_slice() {
        [] => last || !matrix.titles.is_empty(),
        // the last cell is cut too
        [part] => {
            last && ["PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "NV"]
                .iter()
                .any(|word| word.starts_with(part))
        }
        _ => false,
    }
}

/// As far as the row goes, is the device's own `X` in its own column, and no other?
fn ends_well(row: &MatrixRow, column: Option<usize>) -> bool {
    let own = |(at, cell): (usize, &Cell)| (*cell == Cell::Own) == (Some(at) == column);
    row.cells.iter().enumerate().all(own)
}

/// The cells of a NIC's row; `None` if there is none or it is unreliable.
fn nic_row<'a>(matrix: &'a Matrix, nic: &str, to: &mut Imported) -> Option<&'a [Cell]> {
    let row = matrix.row(nic)?;
    let (count, columns) = (row.cells.len(), matrix.columns.len());
    let finding = if count != columns {
        format!("{count} cells for {columns} columns: its row is left out")
    } else if !ends_well(row, column(matrix, nic)) {
        "the `X` of its row stands in another's column: its row is left out".to_string()
    } else {
        return Some(&row.cells);
    };
    to.note(nic, finding);
    None
}

fn path(cell: Cell, from: &str, to: &str, line: u32) -> Result<Option<PathType>> {
    let word = match cell {
        Cell::Path(kind) => return Ok(Some(kind)),
        Cell::Unknown => return Ok(None),
        Cell::Own => "`X`",
        Cell::Link => "an NVLink",
    };
    let problem = format!(
        "{word} between `{from}` and `{to}`: expected `PIX`, `PXB`, `PHB`, `NODE` or `SYS`"
    );
    Err(BadText::new(line, problem))
}

fn incomplete(matrix: &Matrix, gpu: &str, nic: &str, cells: usize) -> BadText {
    let columns = matrix.columns.len();
    match matrix.row(gpu) {
        Some(row) => BadText::new(
            row.line,
            format!(
                "the row of `{gpu}` ends after {cells} of {columns} cells, and no row of `{nic}` completes it"
            ),
        ),
        None => BadText::new(
            matrix.last_line,
            format!("the matrix ends before the row of `{gpu}`"),
        ),
    }
}

/// The NUMA node of a NIC: its nearest GPUs', if these are on its own node.
pub(super) fn nic_node(
    links: &MatrixPaths,
    nic: usize,
    gpu_nodes: &[Option<u32>],
    name: &str,
    to: &mut Imported,
) -> Option<u32> {
    for kind in [PathType::Pix, PathType::Pxb, PathType::Phb, PathType::Node] {
        let near = links
            .kinds
            .iter()
            .zip(gpu_nodes)
            .filter(|(row, _)| row[nic] == Some(kind));
        let nodes: BTreeSet<u32> = near.filter_map(|(_, node)| *node).collect();
        match Vec::from_iter(nodes).as_slice() {
            [] => {}
            [node] => return Some(*node),
            more => {
                let nodes: Vec<String> = more.iter().map(u32::to_string).collect();
                let finding = format!(
                    "is at {kind} of GPUs of NUMA nodes {}: its own is not known",
                    nodes.join(", ")
                );
                to.note(name, finding);
                return None;
            }
        }
    }
    None
}

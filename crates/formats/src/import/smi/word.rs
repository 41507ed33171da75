//! The words of the matrix: labels of devices, and cells.
#![forbid(unsafe_code)]

use super::{gpu_number, is_nic_number};
use nic_placement_core::topology::{DeviceName, PathType};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// `X`: the device itself
    Own,
    /// `NV4`, `NVB`, `LOC`: between GPUs, by NVLink or on one board
    Link,
    Path(PathType),
    /// a kind of path that nvidia-smi does not have, such as `ICN2` of Alibaba's `ppu-smi topo -m`
    Unknown,
}

pub(super) fn is_label(word: &str) -> bool {
    numbered(word).is_some_and(|(_, after)| after.is_empty()) || is_device_name(word)
}

/// `GPU3` or `NIC12` at the start of `text`, and what follows.
pub(super) fn numbered(text: &str) -> Option<(&str, &str)> {
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

/// Can this be an RDMA device's own name, such as `mlx5_0`, `ibp3s0`, `roceP6p3s0`?
pub(super) fn is_device_name(word: &str) -> bool {
    DeviceName::is_one(word)
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.contains(|c: char| c.is_ascii_digit() || c == '_')
        && !is_label_of_nvidia(word)
        && cells_of(word).is_none()
}

/// Is this an accelerator that CUDA does not know, such as `PPU0`?  The kernel's and udev's names of RDMA devices begin with a
/// small letter.
pub(super) fn is_other(label: &str) -> bool {
    gpu_number(label).is_none()
        && !is_nic_number(label)
        && label.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Can this be a kind of path that nvidia-smi does not have, and not the beginning of one that it has?
pub(super) fn is_unknown_path(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.chars().all(plain)
        && !is_label_of_nvidia(word)
        && !["PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "NV"]
            .iter()
            .any(|known| known.starts_with(word))
}

/// The cells in a word, and any text of later columns that touches them; `None` if it has neither.
pub(super) fn cells_of(word: &str) -> Option<(Vec<Cell>, &str)> {
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
    let mut cells = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        if let Some((text, cell)) = WORDS.iter().find(|(text, _)| rest.starts_with(text)) {
            cells.push(*cell);
            rest = &rest[text.len()..];
            continue;
        }
        let digits = rest.strip_prefix("NV").map_or(0, |rest| {
            rest.bytes().take_while(u8::is_ascii_digit).count()
        });
        if digits == 0 {
            break;
        }
        cells.push(Cell::Link);
        rest = &rest[2 + digits..];
    }
    (!cells.is_empty() && (rest.is_empty() || is_affinity(rest))).then_some((cells, rest))
}

/// Can this stand below `CPU Affinity` and its neighbours?
pub(super) fn is_affinity(word: &str) -> bool {
    let starts_well =
        word.starts_with("N/A") || word.starts_with(|first: char| first.is_ascii_digit());
    starts_well
        && word
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, ',' | '-' | 'N' | '/' | 'A'))
}

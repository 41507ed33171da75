//! The header of the matrix: labels of devices, then titles, on one or several lines.
#![forbid(unsafe_code)]

use super::word::{is_device_name, is_other, numbered};
use super::{BadText, gpu_number};
use crate::import::{Result, shown};

/// The most columns for devices.
pub(super) const MAX_COLUMNS: usize = 2 * super::MAX_DEVICES;

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

/// A header, or its part on the lines read so far.
pub(super) struct MatrixHeader {
    pub(super) line: u32,
    pub(super) labels: Vec<String>,
    titles: Vec<&'static str>,
    /// do labels touch each other (`NIC8NIC9`)?
    pub(super) touching: bool,
    /// did another line follow it?
    ended: bool,
}

impl MatrixHeader {
    /// The header at the end of a line: labels, GPUs first, then words of titles.
    pub(super) fn of(words: &[&str], line: u32) -> Option<MatrixHeader> {
        let mut header = MatrixHeader {
            line,
            labels: Vec::new(),
            titles: Vec::new(),
            touching: false,
            ended: false,
        };
        // the text may be cut in the middle of the last word
        let whole =
            &words[..words.len() - usize::from(words.last().is_some_and(|last| is_cut(last)))];
        for word in whole.iter().rev() {
            let Some((mut labels, mut titles)) = header_word(word) else {
                break;
            };
            let gpus_follow = header.labels.last().is_some_and(|label| !may_be_nic(label));
            let in_order = (titles.is_empty() || header.labels.is_empty())
                && (!gpus_follow || !labels.iter().any(|label| may_be_nic(label)));
            if !in_order || header.labels.len() > MAX_COLUMNS {
                break;
            }
            header.touching |= labels.len() + titles.len() > 1;
            // both were collected from the line's end
            labels.reverse();
            titles.reverse();
            header.labels.append(&mut labels);
            header.titles.append(&mut titles);
        }
        header.labels.reverse();
        header.titles.reverse();
        (!header.labels.is_empty() || !header.titles.is_empty()).then_some(header)
    }

    /// This part and the next line's; the next alone if the two cannot be one header.
    pub(super) fn and(mut self, mut next: MatrixHeader) -> Option<MatrixHeader> {
        let again = next
            .labels
            .first()
            .is_some_and(|first| self.labels.contains(first));
        let gpu = |label: &String| gpu_number(label).is_some();
        let in_order =
            !self.labels.iter().any(|label| may_be_nic(label)) || !next.labels.iter().any(gpu);
        let goes_on = next.labels.is_empty() || self.titles.is_empty() && !again && in_order;
        if self.ended
            || !goes_on
            || self.labels.len() > MAX_COLUMNS
            || self.titles.len() > MAX_COLUMNS
        {
            return (!next.labels.is_empty()).then_some(next);
        }
        self.labels.append(&mut next.labels);
        self.titles.append(&mut next.titles);
        self.touching |= next.touching;
        Some(self)
    }

    /// The header after another line; `None` after the second such line.
    pub(super) fn end(self) -> Option<MatrixHeader> {
        (!self.ended).then_some(MatrixHeader {
            ended: true,
            ..self
        })
    }

    /// The columns after the devices; the last may be cut.
    pub(super) fn titles(&mut self) -> Result<Vec<Title>> {
        let mut words = self.titles.join(" ");
        // a device's name touches the title: `mlx5_7CPU Affinity`
        if let (true, Some(last)) = (words.starts_with("Affinity"), self.labels.last_mut()) {
            if let Some(name) = last.strip_suffix("CPU") {
                *last = name.to_string();
                words.insert_str(0, "CPU ");
                self.touching = true;
            }
        }
        let mut rest = words.as_str();
        let mut titles = Vec::new();
        for (title, text) in TITLES {
            if rest.is_empty() {
                break;
            }
            let after = rest
                .strip_prefix(text)
                .or_else(|| text.starts_with(rest).then_some(""));
            if let Some(after) = after {
                titles.push(title);
                rest = after.trim_start();
            }
        }
        if !rest.is_empty() {
            let problem = format!(
                "`{}` after the devices: expected `CPU Affinity`, `NUMA Affinity` and `GPU NUMA ID`",
                shown(&words)
            );
            return Err(BadText::new(self.line, problem));
        }
        Ok(titles)
    }
}

fn may_be_nic(label: &str) -> bool {
    gpu_number(label).is_none() && !is_other(label)
}

/// Is this the beginning of a word that occurs only in a header?
fn is_cut(word: &str) -> bool {
    word.len() > 1
        && ("NIC".starts_with(word) || word != "Affinity" && "Affinity".starts_with(word))
}

/// The labels and words of titles in one word of a header: `GPU0`, `NIC8NIC9`, `NIC11CPU`, `AffinityNUMA`.
fn header_word(word: &str) -> Option<(Vec<String>, Vec<&'static str>)> {
    let (mut labels, mut titles) = (Vec::new(), Vec::new());
    let mut rest = word;
    while !rest.is_empty() {
        if let Some((label, after)) = numbered(rest).filter(|_| titles.is_empty()) {
            labels.push(label.to_string());
            rest = after;
            continue;
        }
        let title = ["Affinity", "NUMA", "CPU", "GPU", "ID"]
            .into_iter()
            .find(|title| rest.starts_with(title));
        match title {
            Some(title) => {
                titles.push(title);
                rest = &rest[title.len()..];
            }
            None => return is_device_name(word).then(|| (vec![word.to_string()], Vec::new())),
        }
    }
    Some((labels, titles))
}

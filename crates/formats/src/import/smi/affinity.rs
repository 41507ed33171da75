//! The columns after the devices: the CPUs and NUMA nodes near a GPU, and the node of its memory.
//!
//! nvidia-smi pads these columns by guess: values touch each other or are cut, and some machines leave
//! columns out.  An unclear value is unknown; the matrix before it is still good.
#![forbid(unsafe_code)]

use super::header::Title;
use super::listed;
use super::matrix::Matrix;
use super::paths::MatrixPaths;
use crate::import::{Imported, shown};
use nic_placement_core::topology::{Bitmap, CpuSet, NumaNode};
use std::collections::{BTreeMap, BTreeSet};

/// NUMA nodes have numbers below this (the kernel's largest `CONFIG_NODES_SHIFT` is 10).
pub(super) const MAX_NODE: u32 = 1024;
/// The most bytes of touching values to take apart: nvidia-smi prints no list that would need more.
const MAX_TOUCHING: usize = 64;

/// A GPU's surroundings in the matrix.
#[derive(Debug, Clone, Default)]
pub(super) struct Affinity {
    pub(super) cpus: Option<CpuSet>,
    /// the NUMA node of its CPUs, then memory-only nodes
    nodes: Vec<u32>,
    /// nodes that are its own memory
    memory: Vec<u32>,
}

impl Affinity {
    /// The NUMA node of its CPUs.
    pub(super) fn node(&self) -> Option<u32> {
        self.nodes.first().copied()
    }

    /// Can `word` stand below this title?  If so, its value is kept.
    fn set(&mut self, title: Title, word: &str) -> bool {
        if matches!(word, "N/A" | "-1") {
            return true;
        }
        let limit = if title == Title::Cpu {
            Bitmap::LIMIT
        } else {
            MAX_NODE
        };
        let Some(ranges) = ranges(word, limit) else {
            return false;
        };
        let members = ranges.into_iter().flat_map(|(low, high)| low..=high);
        match title {
            Title::Cpu => self.cpus = Some(members.collect()),
            Title::Numa => self.nodes = members.collect(),
            Title::GpuNuma => self.memory = members.collect(),
        }
        true
    }
}

pub(super) fn read(matrix: &Matrix, links: &MatrixPaths, to: &mut Imported) -> Vec<Affinity> {
    if matrix.titles.is_empty() && !links.gpus.is_empty() {
        let finding =
            "no column for CPU or NUMA affinity: which CPUs are near to the GPUs is not known";
        to.note("header", finding);
    }
    let mut affinities: Vec<Affinity> = Vec::new();
    // GPUs of one socket have the same values: report each oddity once
    let mut findings: Vec<(String, Vec<String>)> = Vec::new();
    for number in &links.gpus {
        let label = format!("GPU{number}");
        let rest = matrix.row(&label).map_or(&[][..], |row| &row.rest);
        let words: Vec<&str> = rest.iter().map(String::as_str).collect();
        affinities.push(of_gpu(&words, &matrix.titles, |finding| {
            match findings.iter_mut().find(|(known, _)| *known == finding) {
                Some((_, labels)) => labels.push(label.clone()),
                None => findings.push((finding, vec![label.clone()])),
            }
        }));
    }
    for (finding, labels) in findings {
        let labels = listed(&labels);
        to.note(
            "CPU Affinity",
            format!("{finding}, in the rows of {labels}"),
        );
    }
    // `0,2-17`: the first one is the CPUs' node, unless the others have CPUs too
    let first: BTreeSet<u32> = affinities.iter().filter_map(Affinity::node).collect();
    for (affinity, number) in affinities.iter_mut().zip(&links.gpus) {
        if affinity
            .nodes
            .iter()
            .skip(1)
            .any(|node| first.contains(node))
        {
            let finding = "is near to several NUMA nodes with CPUs: its own is not known";
            to.note(format!("GPU{number}"), finding);
            affinity.nodes.clear();
        }
    }
    affinities
}

fn of_gpu(words: &[&str], titles: &[Title], mut note: impl FnMut(String)) -> Affinity {
    if titles.is_empty() {
        return Affinity::default();
    }
    let (count, columns) = (words.len(), titles.len());
    let said = words.join(" ");
    let text = shown(&said);
    if words.is_empty() {
        note("nothing is said of CPUs and NUMA nodes".to_string());
        return Affinity::default();
    }
    let from_left = || -> Option<Affinity> {
        let mut affinity = Affinity::default();
        let all = titles
            .iter()
            .zip(words)
            .all(|(title, word)| affinity.set(*title, word));
        all.then_some(affinity)
    };
    let is_list = words[0].contains(['-', ',']);
    let affinity = match from_left().filter(|_| count == columns || count < columns && is_list) {
        Some(affinity) => {
            if count < columns {
                note(format!(
                    "`{text}` for {columns} columns: read from the left"
                ));
            }
            affinity
        }
        None => {
            let mut readings = Vec::new();
            if count < columns && words.iter().all(|word| word.len() <= MAX_TOUCHING) {
                take_apart(&said, titles, &mut Vec::new(), &mut readings);
            }
            let mut affinity = Affinity::default();
            match readings.as_slice() {
                [only] => {
                    note(format!(
                        "values touch each other in `{text}`: read as `{}`",
                        only.join("` `")
                    ));
                    titles.iter().zip(only).for_each(|(title, word)| {
                        affinity.set(*title, word);
                    });
                }
                _ => note(format!(
                    "`{text}` for {columns} columns: cannot tell what is what, so it is left out"
                )),
            }
            affinity
        }
    };
    // if one node has the even CPUs and the other the odd ones, nvidia-smi prints only 12 characters of `0,2,4,6,8,10,12,…`
    let singles = words[0].split(',').count() > 3 && !words[0].contains('-');
    if singles && affinity.cpus.is_some() {
        note(format!(
            "`{}` may be the beginning of a longer list, which nvidia-smi cuts",
            shown(words[0])
        ));
    }
    affinity
}

/// A list such as `0-3,8` as ranges.  They must ascend, as the kernel's and NVML's do: that bounds the work,
/// and reveals a cut number.
fn ranges(text: &str, limit: u32) -> Option<Vec<(u32, u32)>> {
    let number = |digits: &str| -> Option<u32> {
        let plain = digits.bytes().all(|b| b.is_ascii_digit())
            && (digits.len() == 1 || !digits.starts_with('0'));
        digits
            .parse()
            .ok()
            .filter(|&number| plain && number < limit)
    };
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for part in text.strip_suffix(',').unwrap_or(text).split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (number(low)?, number(high)?);
        if low > high || ranges.last().is_some_and(|(_, last)| *last >= low) {
            return None;
        }
        ranges.push((low, high));
    }
    Some(ranges)
}

/// The ways to read touching words as one value below each title; two ways already make it ambiguous.
fn take_apart<'a>(
    text: &'a str,
    titles: &[Title],
    read: &mut Vec<&'a str>,
    readings: &mut Vec<Vec<&'a str>>,
) {
    let Some((title, more_titles)) = titles.split_first() else {
        readings.extend(text.is_empty().then(|| read.clone()));
        return;
    };
    let word = text.split(' ').next().unwrap_or_default();
    for end in (1..=word.len()).filter(|&end| word.is_char_boundary(end)) {
        let value = &word[..end];
        let fits = match title {
            Title::Cpu => value == "N/A" || ranges(value, Bitmap::LIMIT).is_some(),
            // only Grace machines have lists of nodes, and there no values touch: without lists fewer cases are ambiguous
            Title::Numa | Title::GpuNuma => {
                value == "N/A" || !value.contains(['-', ',']) && ranges(value, MAX_NODE).is_some()
            }
        };
        if fits && readings.len() < 2 {
            read.push(value);
            take_apart(text[end..].trim_start(), more_titles, read, readings);
            read.pop();
        }
    }
}

/// The NUMA nodes that the GPUs name.  A node's CPUs are those near a GPU that is near the node; without a
/// GPU they are unknown.
pub(super) fn numa_nodes(affinities: &[Affinity], to: &mut Imported) -> Vec<NumaNode> {
    let mut nodes: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for affinity in affinities {
        if let Some(node) = affinity.node() {
            let cpus = nodes.entry(node).or_default();
            *cpus = cpus.union(affinity.cpus.as_ref().unwrap_or(&CpuSet::new()));
        }
        affinity
            .nodes
            .iter()
            .chain(&affinity.memory)
            .for_each(|&node| {
                nodes.entry(node).or_default();
            });
    }
    let (mut seen, mut twice) = (CpuSet::new(), CpuSet::new());
    for cpus in nodes.values() {
        twice = twice.union(&seen.intersection(cpus));
        seen = seen.union(cpus);
    }
    if !twice.is_empty() {
        let finding = format!(
            "CPUs {twice} are near to GPUs of several nodes: which node is theirs is not known"
        );
        to.note("NUMA Affinity", finding);
    }
    let only = |cpus: CpuSet| cpus.iter().filter(|&cpu| !twice.contains(cpu)).collect();
    nodes
        .into_iter()
        .map(|(os_index, cpus)| NumaNode {
            os_index,
            cpus: only(cpus),
            distances: Vec::new(),
            package: None,
        })
        .collect()
}

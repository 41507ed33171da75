//! The columns after the devices: the CPUs and NUMA nodes near a GPU, and the node of its memory.
//!
//! nvidia-smi and mthreads-gmi pad these columns by a fixed width: a longer value touches the next, and some machines leave columns
//! out.  A row that has not one value for each column is not known; the matrix before it is still good.

use super::matrix::{Matrix, MatrixRow, Title};
use super::{listed, number};
use crate::import::{Imported, numa_node, shown};
use nic_placement_core::topology::{Bitmap, CpuSet, NodeSet, NumaNode};
use std::collections::BTreeMap;

/// NUMA nodes have numbers below this (the kernel's largest `CONFIG_NODES_SHIFT` is 10).
pub const MAX_NODE: u32 = 1024;

#[derive(Default)]
pub struct Affinity {
    pub cpus: Option<CpuSet>,
    /// the NUMA node of its CPUs, then memory-only nodes
    nodes: NodeSet,
    memory: NodeSet,
}

impl Affinity {
    pub fn node(&self) -> Option<u32> {
        self.nodes.first()
    }

    /// Keeps the value below a title; `None` if it cannot stand there.
    fn set(&mut self, title: Title, word: &str) -> Option<()> {
        if matches!(word, "N/A" | "-1") {
            return Some(());
        }
        let limit = match title {
            Title::Cpu => Bitmap::LIMIT,
            Title::Numa | Title::GpuNuma => MAX_NODE,
        };
        let members = list(word, limit)?;
        match title {
            Title::Cpu => self.cpus = Some(members),
            Title::Numa => self.nodes = members,
            Title::GpuNuma => self.memory = members,
        }
        Some(())
    }
}

pub fn read(matrix: &Matrix, gpus: &[u8], to: &mut Imported) -> Vec<Affinity> {
    // GPUs of one socket have the same values: each finding is reported once
    let mut findings: Vec<(String, Vec<String>)> = Vec::new();
    let mut note = |finding: String, gpu: &u8| {
        let label = format!("GPU{gpu}");
        match findings.iter_mut().find(|(known, _)| *known == finding) {
            Some((_, labels)) => labels.push(label),
            None => findings.push((finding, vec![label])),
        }
    };
    let mut affinities: Vec<Affinity> = Vec::new();
    for gpu in gpus {
        let row = matrix.row(&format!("GPU{gpu}"));
        let affinity = match row.map(|row| of_row(row, &matrix.titles)) {
            Some(Ok(affinity)) => affinity,
            Some(Err(finding)) => {
                note(finding, gpu);
                Affinity::default()
            }
            None => Affinity::default(),
        };
        affinities.push(affinity);
        // of even or odd CPUs nvidia-smi prints only 12 characters of `0,2,4,6,8,10,12,…`
        let first = row.and_then(|row| row.rest.first()).map_or("", |word| word);
        if first.split(',').count() > 3 && !first.contains('-') {
            let finding = "may be the beginning of a longer list, which nvidia-smi cuts";
            note(format!("`{}` {finding}", shown(first)), gpu);
        }
    }
    // `0,2-17`: the first one is the CPUs' node, unless the others have CPUs too
    let first: NodeSet = affinities.iter().filter_map(Affinity::node).collect();
    for (affinity, gpu) in affinities.iter_mut().zip(gpus) {
        if affinity
            .nodes
            .iter()
            .skip(1)
            .any(|node| first.contains(node))
        {
            let finding = "near to several NUMA nodes with CPUs: its own is not known";
            note(finding.to_string(), gpu);
            affinity.nodes = NodeSet::new();
        } else if affinity.cpus.is_some() && affinity.node().is_none() {
            let finding = "no number of the CPUs' NUMA node: no task is bound by these CPUs";
            note(finding.to_string(), gpu);
        } else if affinity.node().is_none() && !first.is_empty() {
            note("its NUMA node is not known".to_string(), gpu);
        }
    }
    if matrix.titles.is_empty() && !gpus.is_empty() {
        to.note(
            "header",
            "no column for CPU or NUMA affinity: which CPUs are near to the GPUs is not known",
        );
    }
    for (finding, labels) in findings {
        to.note(
            "CPU Affinity",
            format!("{finding}, in the rows of {}", listed(&labels)),
        );
    }
    affinities
}

fn of_row(row: &MatrixRow, titles: &[Title]) -> Result<Affinity, String> {
    let said = row.rest.join(" ");
    // `0-55,112-167 0N/A`: no number ends in `N/A`
    let spaced = said.replace("N/A", " N/A");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (text, columns) = (shown(&said), titles.len());
    if titles.is_empty() {
        return Ok(Affinity::default());
    }
    if words.is_empty() {
        return Err("nothing is said of CPUs and NUMA nodes".to_string());
    }
    if row.is_open && words.last() != Some(&"N/A") {
        return Err(format!(
            "the text ends after `{text}` without a line's end, so that the last value may be cut: none is used"
        ));
    }
    let mut affinity = Affinity::default();
    let mut values = titles.iter().zip(&words);
    let all = values.all(|(title, word)| affinity.set(*title, word).is_some());
    (all && words.len() == columns)
        .then_some(affinity)
        .ok_or_else(|| {
            format!("`{text}` for {columns} columns: values touch or are missing, so none is used")
        })
}

/// A list such as `0-3,8`.  Its numbers must ascend, as the kernel's and NVML's do: that reveals a cut number.
fn list(text: &str, limit: u32) -> Option<Bitmap> {
    let text = text.strip_suffix(',').unwrap_or(text);
    let numbers: Option<Vec<u32>> = text.split([',', '-']).map(number).collect();
    let ascends = numbers?.is_sorted_by(|low, high| low < high);
    let list = Bitmap::from_list(text).ok().filter(|_| ascends);
    list.filter(|list| list.iter().all(|number| number < limit))
}

/// A node's CPUs are those of the GPUs that name it; without a GPU they are unknown.
pub fn numa_nodes(affinities: &[Affinity], to: &mut Imported) -> Vec<NumaNode> {
    let mut nodes: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for affinity in affinities {
        if let (Some(node), Some(of_gpu)) = (affinity.node(), &affinity.cpus) {
            nodes.entry(node).or_default().add(of_gpu);
        }
        for node in affinity.nodes.iter().chain(affinity.memory.iter()) {
            nodes.entry(node).or_default();
        }
    }
    let (mut seen, mut twice) = (CpuSet::new(), CpuSet::new());
    for cpus in nodes.values() {
        twice.add(&seen.intersection(cpus));
        seen.add(cpus);
    }
    if !twice.is_empty() {
        to.note(
            "NUMA Affinity",
            format!(
                "CPUs {twice} are near to GPUs of several nodes: which node is theirs is not known"
            ),
        );
    }
    let only = |cpus: CpuSet| cpus.iter().filter(|&cpu| !twice.contains(cpu)).collect();
    nodes
        .into_iter()
        .map(|(node, cpus)| numa_node(node, only(cpus)))
        .collect()
}

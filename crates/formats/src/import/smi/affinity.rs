//! The columns after the devices: the CPUs and NUMA nodes near a GPU, and the node of its memory.
//!
//! nvidia-smi and mthreads-gmi pad these columns by a fixed width: a longer value touches the next, and some machines leave columns
//! out.  A row that has not one value for each column is not known; the matrix before it is still good.

use super::matrix::{Matrix, MatrixRow, TITLES};
use super::{listed, number};
use crate::import::{Imported, numa_node, shown};
use nic_placement_core::topology::file::MAX_NUMA_NODES;
use nic_placement_core::topology::{Bitmap, CpuSet, NodeSet, NumaNode};
use std::collections::BTreeMap;

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
}

pub fn read(matrix: &Matrix, gpus: &[u8], to: &mut Imported) -> Vec<Affinity> {
    // GPUs of one socket have the same values: each finding is reported once
    let mut findings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut note = |finding: &str, gpu: &u8| {
        let labels = findings.entry(finding.to_string()).or_default();
        labels.push(format!("GPU{gpu}"));
    };
    let mut affinities: Vec<Affinity> = Vec::new();
    for gpu in gpus {
        let row = matrix.row(&format!("GPU{gpu}"));
        let row = row.filter(|_| !matrix.titles.is_empty());
        let affinity = row.map_or(Ok(Affinity::default()), |row| of_row(row, &matrix.titles));
        affinities.push(affinity.unwrap_or_else(|finding| {
            note(&finding, gpu);
            Affinity::default()
        }));
    }
    // of even or odd CPUs nvidia-smi prints only 12 characters of `0,2,4,6,8,10,12,…`
    for gpu in gpus {
        let row = matrix.row(&format!("GPU{gpu}"));
        let first = row.and_then(|row| row.rest.first()).map_or("", |word| word);
        if first.split(',').count() > 3 && !first.contains('-') {
            let first = shown(first);
            note(
                &format!("`{first}` may be the beginning of a longer list, which nvidia-smi cuts"),
                gpu,
            );
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
            note(
                "near to several NUMA nodes with CPUs: its own is not known",
                gpu,
            );
            affinity.nodes = NodeSet::new();
        } else if affinity.cpus.is_some() && affinity.node().is_none() {
            note(
                "no number of the CPUs' NUMA node: no task is bound by these CPUs",
                gpu,
            );
        } else if affinity.node().is_none() && !first.is_empty() {
            note("its NUMA node is not known", gpu);
        }
    }
    if matrix.titles.is_empty() && !gpus.is_empty() {
        let finding =
            "no column for CPU or NUMA affinity: which CPUs are near to the GPUs is not known";
        to.note("header", finding);
    }
    for (finding, labels) in findings {
        let labels = listed(&labels);
        to.note(
            "CPU Affinity",
            format!("{finding}, in the rows of {labels}"),
        );
    }
    affinities
}

fn of_row(row: &MatrixRow, titles: &[usize]) -> Result<Affinity, String> {
    let said = row.rest.join(" ");
    // `0-55,112-167 0N/A`: no number ends in `N/A`
    let spaced = said.replace("N/A", " N/A");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (text, columns) = (shown(&said), titles.len());
    if row.is_open && words.last().is_some_and(|last| *last != "N/A") {
        return Err(format!(
            "the text ends after `{text}` without a line's end, so that the last value may be cut: none is used"
        ));
    }
    let value = |(&title, &word): (&usize, &&str)| {
        let limit = if title == 0 {
            Bitmap::LIMIT
        } else {
            MAX_NUMA_NODES as u32
        };
        let is_said = !matches!(word, "N/A" | "-1");
        Some((
            title,
            if is_said {
                list(word, limit)?
            } else {
                Bitmap::new()
            },
        ))
    };
    let values: Option<BTreeMap<usize, Bitmap>> = titles.iter().zip(&words).map(value).collect();
    let mut values = values.filter(|_| words.len() == columns).ok_or_else(|| {
        format!("`{text}` for {columns} columns: values touch or are missing, so none is used")
    })?;
    let [cpus, nodes, memory] = [0, 1, 2].map(|title: usize| values.remove(&title));
    Ok(Affinity {
        cpus: cpus.filter(|cpus| !cpus.is_empty()),
        nodes: nodes.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
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
        for node in affinity.nodes.iter().chain(affinity.memory.iter()) {
            nodes.entry(node).or_default();
        }
        if let (Some(node), Some(of_gpu)) = (affinity.node(), &affinity.cpus) {
            nodes.entry(node).or_default().add(of_gpu);
        }
    }
    let (mut seen, mut twice) = (CpuSet::new(), CpuSet::new());
    for cpus in nodes.values() {
        twice.add(&seen.intersection(cpus));
        seen.add(cpus);
    }
    if !twice.is_empty() {
        let finding = format!(
            "CPUs {twice} are near to GPUs of several nodes: which node is theirs is not known"
        );
        to.note(TITLES[1], finding);
    }
    let only = |cpus: CpuSet| cpus.iter().filter(|&cpu| !twice.contains(cpu)).collect();
    nodes
        .into_iter()
        .map(|(node, cpus)| numa_node(node, only(cpus)))
        .collect()
}

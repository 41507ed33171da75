//! A task's threads and pages, against what was set.
#![forbid(unsafe_code)]

use nic_placement_core::topology::{CpuSet, GpuIndex, NodeSet, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A thread of a task.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    /// is it its process's first?
    pub is_first: bool,
    /// as the kernel has it: a program can choose any
    pub name: String,
    pub cpus: CpuSet,
}

/// Threads of one name that run elsewhere than on the CPUs that were set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OtherThreads {
    pub name: String,
    /// whose they are, where the name tells
    pub made_by: Option<String>,
    pub cpus: String,
    /// narrowed, widened or moved
    pub how: Against,
    pub count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// some of the CPUs that were set
    Narrowed,
    /// all of them, and others
    Widened,
    /// others
    Moved,
}

impl Against {
    pub fn word(self) -> &'static str {
        match self {
            Against::Narrowed => "narrowed",
            Against::Widened => "widened",
            Against::Moved => "moved",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuVerdict {
    /// the CPUs that were set; `None` where none were
    pub set: Option<String>,
    pub threads: usize,
    /// that run where they were put; where none were set, on the CPUs near the GPUs alone
    pub as_set: usize,
    /// that may run on no CPU near the task's GPUs
    pub far: usize,
    pub others: Vec<OtherThreads>,
    /// did a process's first thread leave the CPUs that were set?
    pub first_left: bool,
}

impl CpuVerdict {
    pub fn is_moved(&self) -> bool {
        self.first_left
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryVerdict {
    /// on the NUMA nodes of the task's GPUs; `None` where it has none that are known
    pub near_kib: Option<u64>,
    pub kib: BTreeMap<u32, u64>,
}

impl MemoryVerdict {
    /// In percent, rounded down; `None` where it is not known.
    pub fn near_share(&self) -> Option<u64> {
        let all: u64 = self
            .kib
            .values()
            .fold(0, |sum, kib| sum.saturating_add(*kib));
        (u128::from(self.near_kib?) * 100)
            .checked_div(u128::from(all))
            .map(|share| share as u64)
    }
}

/// Whose a thread is, by what its library calls it: NCCL with `NCCL_SET_THREAD_NAME=1` (src/proxy.cc), CUDA's driver, PyTorch
/// (`c10::setThreadName`).
const LIBRARIES: [(&str, &str); 3] = [("NCCL ", "NCCL"), ("cuda", "CUDA"), ("pt_", "PyTorch")];

/// The NUMA nodes of these GPUs.
pub(super) fn near(topology: &Topology, gpus: &[GpuIndex]) -> NodeSet {
    gpus.iter()
        .filter_map(|gpu| topology.numa_node_of(topology.gpu(*gpu).address))
        .collect()
}

/// `None`: as it was set.
fn against(set: &CpuSet, cpus: &CpuSet) -> Option<Against> {
    match (cpus.is_subset(set), set.is_subset(cpus)) {
        (true, true) => None,
        (true, false) => Some(Against::Narrowed),
        (false, true) => Some(Against::Widened),
        (false, false) => Some(Against::Moved),
    }
}

pub(super) fn cpus(
    topology: &Topology,
    bound: Option<&CpuSet>,
    near: &NodeSet,
    threads: &[Thread],
) -> CpuVerdict {
    let near = topology.cpus_of(near);
    let mut others: BTreeMap<(&str, &CpuSet, Against), usize> = BTreeMap::new();
    let mut said = CpuVerdict {
        set: bound.map(ToString::to_string),
        threads: threads.len(),
        far: threads
            .iter()
            .filter(|of| !near.is_empty() && !of.cpus.intersects(&near))
            .count(),
        ..CpuVerdict::default()
    };
    for thread in threads {
        let how = match bound {
            Some(bound) => against(bound, &thread.cpus),
            None if near.is_empty() || thread.cpus.is_subset(&near) => None,
            None => against(&near, &thread.cpus),
        };
        match how {
            None => said.as_set += 1,
            Some(how) => {
                said.first_left |= bound.is_some() && thread.is_first && how != Against::Narrowed;
                *others.entry((&thread.name, &thread.cpus, how)).or_default() += 1;
            }
        }
    }
    let library = |name: &str| LIBRARIES.iter().find(|(begin, _)| name.starts_with(begin));
    said.others = others
        .into_iter()
        .map(|((name, cpus, how), count)| OtherThreads {
            name: name.to_string(),
            made_by: library(name).map(|(_, library)| library.to_string()),
            cpus: cpus.to_string(),
            how,
            count,
        })
        .collect();
    said
}

pub(super) fn memory(near: &NodeSet, kib: &BTreeMap<u32, u64>) -> MemoryVerdict {
    let near_kib = kib.iter().filter(|(node, _)| near.contains(**node));
    MemoryVerdict {
        near_kib: (!near.is_empty())
            .then(|| near_kib.fold(0u64, |sum, (_, kib)| sum.saturating_add(*kib))),
        kib: kib.clone(),
    }
}

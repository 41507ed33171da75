//! A task's threads and pages, against what was set.

use nic_placement_core::topology::{CpuSet, GpuIndex, NodeSet, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    pub is_first: bool,
    /// as the kernel has it: a program can choose any
    pub name: String,
    pub cpus: CpuSet,
}

/// Threads of one name that run elsewhere than on the CPUs that were set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OtherThreads {
    pub name: String,
    /// the library, if the name tells it
    pub made_by: Option<String>,
    pub cpus: String,
    pub how: Against,
    pub count: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    Narrowed,
    Widened,
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
    /// the CPUs that were set, if any were
    pub set: Option<String>,
    pub threads: usize,
    /// threads on the CPUs that were set, else on those near the GPUs
    pub as_set: usize,
    pub far: usize,
    pub others: Vec<OtherThreads>,
    /// true if a process's first thread left the CPUs that were set
    pub first_left: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryVerdict {
    /// on the NUMA nodes of the task's GPUs, if those are known
    pub near_kib: Option<u64>,
    pub kib: BTreeMap<u32, u64>,
}

impl MemoryVerdict {
    /// In percent, rounded down.
    pub fn near_share(&self) -> Option<u64> {
        let all: u128 = self.kib.values().map(|kib| u128::from(*kib)).sum();
        let share = (u128::from(self.near_kib?) * 100).checked_div(all)?;
        Some(share as u64)
    }
}

/// Names of libraries' threads: NCCL's with `NCCL_SET_THREAD_NAME=1` (src/proxy.cc), CUDA's driver, PyTorch
/// (`c10::setThreadName`).
const LIBRARIES: [(&str, &str); 3] = [("NCCL ", "NCCL"), ("cuda", "CUDA"), ("pt_", "PyTorch")];

pub fn near(node: &Topology, gpus: &[GpuIndex]) -> NodeSet {
    gpus.iter()
        .filter_map(|gpu| node.numa_node_of(node.gpu(*gpu).address))
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

pub fn cpus(
    node: &Topology,
    bound: Option<&CpuSet>,
    near: &NodeSet,
    threads: &[Thread],
) -> CpuVerdict {
    let near = node.cpus_of(near);
    let mut others: BTreeMap<(&str, &CpuSet, Against), usize> = BTreeMap::new();
    let mut said = CpuVerdict {
        set: bound.map(ToString::to_string),
        threads: threads.len(),
        ..CpuVerdict::default()
    };
    for thread in threads {
        said.far += usize::from(!near.is_empty() && !thread.cpus.intersects(&near));
        let how = match bound {
            Some(bound) => against(bound, &thread.cpus),
            None if near.is_empty() || thread.cpus.is_subset(&near) => None,
            None => against(&near, &thread.cpus),
        };
        let Some(how) = how else {
            said.as_set += 1;
            continue;
        };
        said.first_left |= bound.is_some() && thread.is_first && how != Against::Narrowed;
        *others.entry((&thread.name, &thread.cpus, how)).or_default() += 1;
    }
    let others = others.into_iter().map(|((name, cpus, how), count)| {
        let library = LIBRARIES.iter().find(|(begin, _)| name.starts_with(begin));
        OtherThreads {
            name: name.to_string(),
            made_by: library.map(|(_, library)| library.to_string()),
            cpus: cpus.to_string(),
            how,
            count,
        }
    });
    said.others = others.collect();
    said
}

pub fn memory(near: &NodeSet, kib: &BTreeMap<u32, u64>) -> MemoryVerdict {
    let near_kib = kib
        .iter()
        .filter(|(node, _)| near.contains(**node))
        .fold(0u64, |sum, (_, kib)| sum.saturating_add(*kib));
    MemoryVerdict {
        near_kib: (!near.is_empty()).then_some(near_kib),
        kib: kib.clone(),
    }
}

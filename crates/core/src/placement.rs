//! What we decided, as data, with the reason for each answer.
#![forbid(unsafe_code)]

use crate::diagnostic::Diagnostic;
use crate::topology::{CpuSet, DeviceName, GpuIndex, NicIndex, NodeSet, PathType, PortRef, index::index};
use std::borrow::Cow;
use std::fmt;

/// Which NICs serve which GPU.  A closed set: each has a file of its own under `policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// each GPU the one NIC that gives it the most bandwidth, then the nearest, evenly
    #[default]
    Closest,
    /// GPU k the k-th NIC, on every node
    Rail,
    /// as `closest`, and the idle NICs too where the job has the node to itself
    Spread,
    /// each GPU all good NICs of its NUMA node
    Numa,
    /// each GPU all good NICs of the node
    All,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Closest => "closest",
            Policy::Rail => "rail",
            Policy::Spread => "spread",
            Policy::Numa => "numa",
            Policy::All => "all",
        })
    }
}

/// What a task fails without, each asking for more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Strictness {
    /// nothing: it runs whatever it got
    #[default]
    BestEffort,
    /// what was decided must be had
    Strict,
    /// NICs and CPUs on the NUMA nodes of its GPUs, where the node has such
    Restricted,
    /// GPUs, NICs and CPUs all on one NUMA node
    SingleNumaNode,
}

/// Which CPUs a task is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bind {
    /// those that Slurm gave it
    None,
    /// those near its GPUs, where they hold the parts of all tasks that will share them
    #[default]
    Auto,
    /// those of its GPUs' NUMA node, whatever it holds
    Numa,
    /// whole cores of that node, which no other task of the step gets
    Core,
}

/// What a task's memory policy becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mem {
    /// it stays as it is
    None,
    /// the near NUMA nodes first, then any other
    #[default]
    Prefer,
    /// the near NUMA nodes alone
    Strict,
}

/// What may be bound, and by whose wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Binding {
    /// CPUs
    pub bind: Bind,
    /// memory
    pub mem: Mem,
    /// are threads to be counted for OpenMP?
    pub count_threads: bool,
    /// did the user ask for placement, and not the admin's default alone?
    pub asked: bool,
    /// may facts that are not this system's bind (the admin's `trust-topology`)?
    pub trust: bool,
}

index! {
    /// Position in [`NodePlacement::rails`], from 0.
    RailIndex
}

/// A port of a NIC that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    /// its NIC
    pub nic: NicIndex,
    /// the NIC's name
    pub name: DeviceName,
    /// the port's number
    pub port: u8,
    /// the port's rate in Mbit/s
    pub rate_mbps: Option<u64>,
}

impl Rail {
    /// Where it is.
    pub fn at(&self) -> PortRef {
        PortRef { nic: self.nic, port: self.port }
    }
}

impl fmt::Display for Rail {
    /// `mlx5_0:1`, as UCX and NCCL spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// A port of a NIC that may not be chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    /// the NIC's name
    pub name: DeviceName,
    /// the port's number; `None` where the NIC as a whole is meant
    pub port: Option<u8>,
    /// why
    pub why: String,
}

/// One GPU's use of one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailUse {
    /// which
    pub rail: RailIndex,
    /// the path between them
    pub path: PathType,
    /// what the path lets through, shared with the rail's other users, in Mbit/s; `None` where no rate is known
    pub share_mbps: Option<u64>,
    /// GPUs that use the rail
    pub users: usize,
}

/// What one GPU gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPlacement {
    /// its rails, best first; empty where no rail may be chosen
    pub choices: Vec<RailUse>,
    /// its NUMA node
    pub numa_node: Option<u32>,
    /// why these
    pub reason: String,
    /// what the policy promises and this node cannot give
    pub shortfall: Option<String>,
}

/// A GPU and a NIC's port, or a NIC as a whole that may not be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// the GPU
    pub gpu: GpuIndex,
    /// the NIC's name
    pub nic: String,
    /// the port; `None` where the NIC as a whole may not be chosen
    pub port: Option<u8>,
    /// the path; `None` where the NIC has no PCI function
    pub path: Option<PathType>,
    /// what the path lets through when nobody shares it, in Mbit/s; `None` where no rate is known, or the NIC may not be
    /// chosen
    pub alone_mbps: Option<u64>,
    /// what the GPU gets there, in Mbit/s; `None` where it is not chosen
    pub share_mbps: Option<u64>,
    /// GPUs that the map gives it to
    pub users: usize,
    /// did this GPU get it?
    pub chosen: bool,
    /// why, or why not
    pub why: String,
}

/// The node-wide map: the same for every task, step and job, whatever they were granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlacement {
    /// the rule that made it
    pub policy: Policy,
    /// rails that may be chosen, in rail order
    pub rails: Vec<Rail>,
    /// rails that do not work just now, in rail order: a rail's number counts these too.  Their rate is what the others
    /// run at, or their own if that is higher; each stands in `excluded` with its reason.
    pub broken: Vec<Rail>,
    /// NICs and ports that may not
    pub excluded: Vec<Excluded>,
    /// for each GPU of the topology, in its order
    pub gpus: Vec<GpuPlacement>,
    /// what was odd
    pub diagnostics: Vec<Diagnostic>,
}

impl NodePlacement {
    /// The rail at a position of this map.
    pub fn rail(&self, rail: RailIndex) -> &Rail {
        &self.rails[rail.0]
    }

    /// What a GPU gets.
    pub fn gpu(&self, gpu: GpuIndex) -> &GpuPlacement {
        &self.gpus[gpu.0]
    }

    /// The positions of all rails.
    pub fn rail_indices(&self) -> impl DoubleEndedIterator<Item = RailIndex> + use<> {
        (0..self.rails.len()).map(RailIndex)
    }

    /// All rails with their positions.
    pub fn numbered_rails(&self) -> impl Iterator<Item = (RailIndex, &Rail)> {
        self.rail_indices().zip(&self.rails)
    }

    /// All GPUs' answers with the GPUs' positions.
    pub fn numbered_gpus(&self) -> impl Iterator<Item = (GpuIndex, &GpuPlacement)> {
        (0..).map(GpuIndex).zip(&self.gpus)
    }

    /// The position of the rail at this port.
    pub fn rail_at(&self, at: PortRef) -> Option<RailIndex> {
        self.rails.iter().position(|rail| rail.at() == at).map(RailIndex)
    }
}

/// What one task gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPlacement {
    /// number on this node
    pub local_id: u32,
    /// number in the step
    pub global_id: u32,
    /// its GPUs
    pub gpus: Vec<GpuIndex>,
    /// its rails, each with the nearest path from one of its GPUs (or CPUs)
    pub rails: Vec<(RailIndex, PathType)>,
    /// where it may run
    pub cpus: CpuDecision,
    /// where its memory comes from
    pub mems: MemDecision,
    /// cores for threads of its own, where somebody wants them counted
    pub threads: Option<usize>,
    /// what was wanted and cannot be had
    pub missed: Option<String>,
    /// one sentence for each answer
    pub reasons: Vec<String>,
}

impl TaskPlacement {
    /// The memory policy stays as it is after all.
    pub fn keep_memory(&mut self, why: String) {
        self.reasons.push(format!("memory: left alone, {why}"));
        self.mems = MemDecision::Keep { why };
    }
}

/// What happens to a task's CPU affinity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuDecision {
    /// it stays as it is
    Keep {
        /// what it is
        cpus: CpuSet,
        /// why
        why: String,
    },
    /// it stays as it is, though nearer would be better: what is near the GPU is not the step's, or too little
    OutOfReach {
        /// what it is
        cpus: CpuSet,
        /// why, and what may help
        why: String,
    },
    /// it becomes another
    Set {
        /// what it becomes
        cpus: CpuSet,
        /// why
        why: String,
    },
}

impl CpuDecision {
    /// Where the task may run when all is done.
    pub fn cpus(&self) -> &CpuSet {
        match self {
            CpuDecision::Keep { cpus, .. }
            | CpuDecision::OutOfReach { cpus, .. }
            | CpuDecision::Set { cpus, .. } => cpus,
        }
    }

    /// Why.
    pub fn why(&self) -> &str {
        match self {
            CpuDecision::Keep { why, .. }
            | CpuDecision::OutOfReach { why, .. }
            | CpuDecision::Set { why, .. } => why,
        }
    }
}

/// What happens to a task's memory policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemDecision {
    /// it stays as it is
    Keep {
        /// why
        why: String,
    },
    /// memory comes from these NUMA nodes first
    Prefer {
        /// os indices
        nodes: NodeSet,
        /// why
        why: String,
    },
    /// memory comes from these NUMA nodes alone
    Fence {
        /// os indices
        nodes: NodeSet,
        /// why
        why: String,
    },
}

impl MemDecision {
    /// Why.
    pub fn why(&self) -> &str {
        match self {
            MemDecision::Keep { why } | MemDecision::Prefer { why, .. } | MemDecision::Fence { why, .. } => {
                why
            }
        }
    }

    /// The NUMA nodes that the policy names; `None` where it stays as it is.
    pub fn nodes(&self) -> Option<&NodeSet> {
        match self {
            MemDecision::Keep { .. } => None,
            MemDecision::Prefer { nodes, .. } | MemDecision::Fence { nodes, .. } => Some(nodes),
        }
    }
}

/// One change of a task's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable<'a> {
    /// its name
    pub name: Cow<'a, str>,
    /// what becomes of it
    pub change: Change,
    /// why
    pub why: Cow<'a, str>,
}

/// What becomes of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// it gets this value; an earlier one was ours or there was none
    Set(String),
    /// it keeps the value that the user gave it
    KeepUsers(String),
    /// our own earlier value goes
    Remove,
    /// it has no value and gets none
    Leave,
}

//! Our decisions as data, each with its reason.

pub mod agreement;

pub use crate::wish::{Bind, GpuUse, Mem, NicsEach, Policy, Strictness};

use crate::diagnostic::Diagnostic;
use crate::topology::{
    CpuSet, DeviceName, GpuIndex, NicIndex, NodeSet, PathType, PortRef, Topology,
};
use std::borrow::Cow;
use std::fmt;

/// Position in [`NodePlacement::rails`], from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RailIndex(pub usize);

impl fmt::Display for RailIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A NIC port that a placement may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    pub nic: NicIndex,
    pub name: DeviceName,
    pub port: u8,
    pub rate_mbps: Option<u64>,
}

impl Rail {
    pub fn at(&self) -> PortRef {
        PortRef {
            nic: self.nic,
            port: self.port,
        }
    }
}

impl fmt::Display for Rail {
    /// `mlx5_0:1`, as UCX and NCCL spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// A NIC or port that no placement may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    pub name: DeviceName,
    /// `None` for the whole NIC
    pub port: Option<u8>,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailUse {
    pub rail: RailIndex,
    pub path: PathType,
    /// the GPU's Mbit/s on the rail while all GPUs send on their rails; `None` without known rates
    pub share_mbps: Option<u64>,
    pub users: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPlacement {
    /// best first; empty without usable rails, or, under `spread`, if the job is alone on the node
    /// and lacks the GPU
    pub choices: Vec<RailUse>,
    pub numa_node: Option<u32>,
    pub reason: String,
    /// under policy `rail`, such as `GPU 3: rail 3 (mlx5_3:1) is broken`
    pub shortfall: Option<String>,
}

/// The map from a node's GPUs to NICs, equal for a step's tasks. Only `spread` depends on the GPUs
/// that Slurm grants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePlacement {
    pub policy: Policy,
    /// ordered by [`Rail::at`]
    pub rails: Vec<Rail>,
    /// rails in the order of `rails=`, then all other rails; empty without `rails=`
    pub numbered_by_admin: Vec<RailIndex>,
    /// ports that would be rails if they worked or ran at the fabric's rate, ordered as `rails`;
    /// policy `rail` numbers them too. `rate_mbps` is the fabric's rate, or the port's if higher.
    /// `excluded` has the reasons
    pub broken: Vec<Rail>,
    /// rails slower than other rails of their device model; `NCCL_IB_HCA` may omit them
    pub degraded: Vec<Rail>,
    pub excluded: Vec<Excluded>,
    /// EFA and Slingshot NICs of `excluded`, among which libfabric chooses
    pub left_to_libfabric: Vec<NicIndex>,
    pub gpus: Vec<GpuPlacement>,
    pub diagnostics: Vec<Diagnostic>,
}

impl NodePlacement {
    pub fn rail(&self, rail: RailIndex) -> &Rail {
        &self.rails[rail.0]
    }

    pub fn gpu(&self, gpu: GpuIndex) -> &GpuPlacement {
        &self.gpus[gpu.0]
    }

    pub fn rail_indices(&self) -> impl DoubleEndedIterator<Item = RailIndex> + use<> {
        (0..self.rails.len()).map(RailIndex)
    }

    pub fn numbered_gpus(&self) -> impl Iterator<Item = (GpuIndex, &GpuPlacement)> {
        (0..).map(GpuIndex).zip(&self.gpus)
    }

    pub fn is_left_to_libfabric(&self, topology: &Topology, nic: &str) -> bool {
        topology
            .nic_index(nic)
            .is_some_and(|nic| self.left_to_libfabric.contains(&nic))
    }

    pub fn rail_at(&self, at: PortRef) -> Option<RailIndex> {
        self.rails
            .iter()
            .position(|rail| rail.at() == at)
            .map(RailIndex)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskPlacement {
    pub local_id: u32,
    pub global_id: u32,
    pub gpus: Vec<GpuIndex>,
    /// the GPUs visible to the program, in the program's order
    pub seen: Vec<GpuIndex>,
    /// each with the path from the nearest of `gpus`, or from `cpus` if there are no GPUs
    pub rails: Vec<(RailIndex, PathType)>,
    pub cpus: CpuSet,
    /// true if we bind the task to `cpus`; else it has them already
    pub moves: bool,
    /// NUMA nodes (OS indices) of the new memory policy; empty keeps the present policy
    pub mems: NodeSet,
    /// true under `mem=strict`: memory comes from `mems` only
    pub fences: bool,
    /// the task's number of cores, for `OMP_NUM_THREADS`; `None` if unknown, or without `omp=on`
    pub threads: Option<usize>,
    pub notes: Notes,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// for the user: on GPUs, NICs, CPUs and memory
    pub reasons: Vec<String>,
    /// for Slurm's log: rails that the task may not open; `reasons` has it too
    pub warning: Option<String>,
    /// the reason why the task's CPUs stay far from its GPU, such as too few near CPUs
    pub far: Option<String>,
    /// requests that cannot be met, such as `bind=core`
    pub missed: Vec<String>,
    /// unmet demands of the policy and of [`Strictness`]
    pub shortfalls: Vec<String>,
    /// decisions that could not be carried out
    pub failures: Vec<String>,
    /// true if the memory policy stays: Linux before 5.15 cannot prefer several NUMA nodes
    pub memory_stays: bool,
}

impl Notes {
    pub fn leave_memory(&mut self, why: impl fmt::Display) {
        self.reasons.push(format!("memory: left alone, {why}"));
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable<'a> {
    pub name: Cow<'a, str>,
    pub change: Change,
    /// the value that the library takes from its configuration file instead
    pub of_file: Option<String>,
    pub why: Cow<'a, str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// new, or in place of an outer step's value
    Set(String),
    KeepUsers(String),
    /// unset an outer step's value
    Remove,
    /// stays unset
    Leave,
}

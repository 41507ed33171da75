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

/// A port of a NIC that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rail {
    pub nic: NicIndex,
    pub name: DeviceName,
    pub port: u8,
    /// Mbit/s
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

/// A port of a NIC that may not be chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    pub name: DeviceName,
    /// `None` for the NIC as a whole
    pub port: Option<u8>,
    pub why: String,
}

/// One GPU's use of one rail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RailUse {
    pub rail: RailIndex,
    pub path: PathType,
    /// the GPU's bandwidth with the rail's other users, in Mbit/s; `None` if no rate is known
    pub share_mbps: Option<u64>,
    pub users: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPlacement {
    /// best first; empty if there is no rail to choose
    pub choices: Vec<RailUse>,
    pub numa_node: Option<u32>,
    pub reason: String,
    /// what the policy promises but this node lacks
    pub shortfall: Option<String>,
}

/// The node-wide map: the same for every task, step and job, whatever they were granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePlacement {
    pub policy: Policy,
    /// in rail order
    pub rails: Vec<Rail>,
    /// rails of `rails=` by their number, the others behind; empty without `rails=`
    pub numbered_by_admin: Vec<RailIndex>,
    /// Rails that do not work now, in rail order: a rail's number counts these too.  Their rate is the other rails', or
    /// their own if higher.  `excluded` has the reasons.
    pub broken: Vec<Rail>,
    /// rails that came up at less than others of their device: a list for all of NCCL's ranks may leave them out
    pub degraded: Vec<Rail>,
    pub excluded: Vec<Excluded>,
    /// NICs of EFA and Slingshot among `excluded` that may be used: libfabric chooses among them
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

    /// The GPUs' placements, with their positions.
    pub fn numbered_gpus(&self) -> impl Iterator<Item = (GpuIndex, &GpuPlacement)> {
        (0..).map(GpuIndex).zip(&self.gpus)
    }

    /// Does libfabric choose the NIC of this name, rather than we or a fault keep it out?
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
    /// the GPUs that its program counts, from 0 in this order
    pub seen: Vec<GpuIndex>,
    /// its rails, each with the nearest path from one of its GPUs (or CPUs)
    pub rails: Vec<(RailIndex, PathType)>,
    pub cpus: CpuSet,
    /// true if `cpus` are other than the task has
    pub moves: bool,
    /// memory comes from these nodes (os indices) first; empty if the policy stays
    pub mems: NodeSet,
    /// true if it comes from these nodes alone
    pub fences: bool,
    /// cores for the task's own threads, if counted
    pub threads: Option<usize>,
    pub notes: Notes,
}

/// Sentences on a task, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// for the user, one for each answer
    pub reasons: Vec<String>,
    /// for the admin; among the reasons too
    pub warning: Option<String>,
    /// the affinity stays, though nearer would be better: the step has no CPUs near the GPU, or too few
    pub far: Option<String>,
    /// what the task wanted and cannot have
    pub missed: Vec<String>,
    /// what the policy promised, or a strict word asked for, and the task lacks
    pub shortfalls: Vec<String>,
    /// what was decided and could not be carried out
    pub failures: Vec<String>,
    /// true if this kernel has no such memory policy
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
    /// the value that counts all the same, which a configuration file of its library's gives
    pub of_file: Option<String>,
    pub why: Cow<'a, str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// there was no value before, or one of ours
    Set(String),
    KeepUsers(String),
    /// our own earlier value goes
    Remove,
    /// it has no value and gets none
    Leave,
}

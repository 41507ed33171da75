//! Slurm's grant on this node, as data: one step, and each of its tasks.
#![forbid(unsafe_code)]

pub mod program;
pub mod rule;

use crate::topology::{CpuSet, GpuIndex, NicIndex, NodeSet};
use std::collections::BTreeMap;

/// The node's name as Slurm has it, in a task.
pub const NODE_NAME: &str = "SLURMD_NODENAME";
/// The step's GPUs on this node, as Slurm counts them.
pub const STEP_GPUS: &str = "SLURM_STEP_GPUS";
/// The address of the srun that started the step, which slurmd writes into it.
pub const SRUN: &str = "SLURM_SRUN_COMM_HOST";
/// How slurmd dealt these to its tasks, in a task.
pub const GPU_BIND: &str = "SLURMD_TRES_BIND";

/// What started the tasks of a step on this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Starter {
    /// Slurm
    #[default]
    Slurm,
    /// a launcher inside a task, or without Slurm: its processes are the step's tasks
    Launcher,
}

/// A step on this node, as known before its tasks start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// what started its tasks
    pub starter: Starter,
    /// tasks of the step on this node
    pub tasks: u32,
    /// may there be more tasks here than `tasks`, since neither Slurm nor the launcher says how many?  Then it is the least
    /// that there can be, and each of them may know another, so nothing may be divided by it
    pub uncounted: bool,
    /// tasks of the step on all its nodes
    pub total_tasks: u32,
    /// CPUs requested for each task (`-c`, `SLURM_CPUS_PER_TASK`); `None` if none were
    pub cpus_per_task: Option<u32>,
    /// what it has here by Slurm's own count, where that was asked
    pub counted: Option<Counted>,
    /// the user's way of binding (`--cpu-bind`, `SLURM_CPU_BIND`; see `config::cpu_bind`), or in words how a
    /// launcher bound the task; `None` if neither did
    pub cpu_bind: Option<String>,
    /// the user's `--mem-bind` (`SLURM_MEM_BIND_TYPE`); `None` without one
    pub mem_bind: Option<String>,
    /// the word or variable by which the program binds its processes itself ([`program::binder`]); `None` without one
    pub binder: Option<&'static str>,
    /// words of the program's command that matter ([`program::known`])
    pub words: Vec<&'static str>,
    /// [`STEP_GPUS`]
    pub gpus: Option<String>,
    /// [`SRUN`]
    pub srun: Option<String>,
    /// the cores that the job has on this node by Slurm's own count; `None` if that is not known
    pub job_cores: Option<usize>,
    /// is this node free of other jobs' tasks, now and later?
    pub alone_on_node: bool,
}

/// What Slurm gave a step on a node, as Slurm counts it: on a node with `CPUs=64` and 64 cores of two threads `-c 4` is four
/// cores, and a task gets both threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// CPUs, each a thread or a core
    pub cpus: u32,
    /// cores
    pub cores: u32,
}

/// A task, as known just before its program starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// number on this node, from 0
    pub local_id: u32,
    /// number in the step, from 0
    pub global_id: u32,
    /// the evidence about its GPUs
    pub gpus: GpuGrant,
    /// its GPUs, if the caller worked them out from more than that evidence
    pub claim: Option<Claim>,
    /// the GPUs that its program counts, in its order, where the claim is a choice among these; `None` if these are the
    /// claim's own, or the evidence's
    pub sees: Option<Vec<GpuIndex>>,
    /// NICs that it may not open though other tasks of its job may.  The node's map has no NICs that no task
    /// of the job may open.
    pub denied_nics: Vec<NicIndex>,
    /// CPUs that it may run on now
    pub cpus: CpuSet,
    /// CPUs of all tasks of the step on this node together: the most that we may give it
    pub step_cpus: CpuSet,
    /// slurmd's masks for the step's tasks on this node, in the order of their local ids; with fewer masks
    /// than tasks slurmd starts again at the first; empty if it bound no task
    pub masks: Vec<CpuSet>,
    /// the threads of a core of this node; `None` if that is not known
    pub threads_per_core: Option<usize>,
    /// [`GPU_BIND`], such as `gpu:per_task:1`
    pub gpu_bind: Option<String>,
    /// the GPU of each task of the step here, by local ids, where the user promised it (`gpu=local-id`)
    pub promised: Option<Vec<GpuIndex>>,
    /// its memory, as the kernel reports it
    pub memory: Memory,
}

/// A task's memory before we change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// why its policy must stay, if it must: one was set before, or it cannot be read
    pub taken: Option<String>,
    /// NUMA nodes that a placed step around it prefers: our own policy, which may become a part of itself
    pub ours: Option<NodeSet>,
    /// the NUMA nodes of its cpuset that have memory; `None` if unknown
    pub allowed: Option<NodeSet>,
}

impl Step {
    /// Tasks on this node, at least one.
    pub(crate) fn tasks_here(&self) -> usize {
        self.tasks.max(1) as usize
    }
}

/// The evidence about a task's GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuGrant {
    /// the task's variables that the vendors' runtimes read
    pub variables: BTreeMap<&'static str, String>,
    /// for each GPU of the topology, whether the task may open its device node
    pub access: Vec<Access>,
}

/// A task's GPUs in the program's order, and how we know them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// which
    pub gpus: Vec<GpuIndex>,
    /// how we know, in words
    pub reason: String,
}

/// Whether a task may open a device node (faccessat(2) with `R_OK | W_OK` and `AT_EACCESS`, which asks the device cgroup
/// too and opens nothing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// it may
    Allowed,
    /// it may not: the device belongs to another task or job
    Denied,
    /// there is no such node, or we did not look
    Unknown,
}

//! Slurm's grant on this node, as data: one step, and each of its tasks.
#![forbid(unsafe_code)]

pub mod program;
pub mod rule;

use crate::topology::{CpuSet, GpuIndex, NicIndex, NodeSet};
use std::collections::BTreeMap;

/// In a task: the node's name as Slurm has it.
pub const NODE_NAME: &str = "SLURMD_NODENAME";
/// The step's GPUs on this node, as Slurm counts them.
pub const STEP_GPUS: &str = "SLURM_STEP_GPUS";
/// The address of the srun that started the step, which slurmd writes into it.
pub const SRUN: &str = "SLURM_SRUN_COMM_HOST";
/// In a task: slurmd's rule for the GPUs of its tasks.
pub const GPU_BIND: &str = "SLURMD_TRES_BIND";

/// The program that started the tasks of a step on this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Starter {
    #[default]
    Slurm,
    /// a launcher inside a task, or without Slurm: its processes are the step's tasks
    Launcher,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    pub starter: Starter,
    /// on this node
    pub tasks: u32,
    /// `tasks` is only the least that there can be, since neither Slurm nor the launcher says how many: nothing is divided by
    /// it, because each task may know another number
    pub uncounted: bool,
    /// on all nodes
    pub total_tasks: u32,
    /// `-c`, `SLURM_CPUS_PER_TASK`; `None` without one
    pub cpus_per_task: Option<u32>,
    /// the step's CPUs and cores by Slurm's own count; `None` if Slurm was not asked
    pub counted: Option<Counted>,
    /// the user's way of binding (`--cpu-bind`, `SLURM_CPU_BIND`; see `config::cpu_bind`), or in words a launcher's;
    /// `None` if neither bound the task
    pub cpu_bind: Option<String>,
    /// the user's `--mem-bind` (`SLURM_MEM_BIND_TYPE`)
    pub mem_bind: Option<String>,
    /// the word or variable by which the program binds its processes itself ([`program::binder`]); `None` without one
    pub binder: Option<&'static str>,
    /// words of the program's command that matter ([`program::known`])
    pub words: Vec<&'static str>,
    /// [`STEP_GPUS`]
    pub gpus: Option<String>,
    /// [`SRUN`]
    pub srun: Option<String>,
    /// the job's cores on this node by Slurm's own count
    pub job_cores: Option<usize>,
    /// free of other jobs' tasks, now and later
    pub alone_on_node: bool,
}

/// Slurm's grant to a step on a node, in its count: on a node with `CPUs=64` and 64 cores of two threads `-c 4` is four
/// cores, and a task gets both threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// each a thread or a core
    pub cpus: u32,
    pub cores: u32,
}

/// A task, as known just before its program starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// on this node, from 0
    pub local_id: u32,
    /// in the step, from 0
    pub global_id: u32,
    pub gpus: GpuGrant,
    /// the task's GPUs, if the caller worked them out from more than the evidence in `gpus`
    pub claim: Option<Claim>,
    /// the GPUs that its program counts, in its order, if the claim is a choice among these
    pub sees: Option<Vec<GpuIndex>>,
    /// not to be opened by this task, though by others of its job; the map has no NICs that the whole job may not open
    pub denied_nics: Vec<NicIndex>,
    pub cpus: CpuSet,
    /// CPUs of all tasks of the step on this node together: the most that we may give the task
    pub step_cpus: CpuSet,
    /// slurmd's masks for the step's tasks here, by local ids; with fewer masks than tasks slurmd starts again at the
    /// first; empty if it bound no task
    pub masks: Vec<CpuSet>,
    /// the threads of a core of this node; `None` if that is not known
    pub threads_per_core: Option<usize>,
    /// [`GPU_BIND`], such as `gpu:per_task:1`
    pub gpu_bind: Option<String>,
    /// the GPU of each task of the step here, by local ids, where the user promised it (`gpu=local-id`)
    pub promised: Option<Vec<GpuIndex>>,
    pub memory: Memory,
    /// `None` if it is not to be looked at
    pub room: Option<Room>,
}

/// What execve(2) of a task's program can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// bytes of its arguments and of the variables that it has
    pub taken: usize,
    /// bytes of its stack, at most
    pub stack: u64,
}

impl Room {
    /// Bytes of one variable with its NUL, at most (`MAX_ARG_STRLEN`, linux/binfmts.h: 32 pages of 4 KiB).
    pub const LONGEST: usize = 128 * 1024;
    /// A string costs its NUL and a pointer besides.
    pub const EACH: usize = 9;
}

/// A task's memory before we change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// the reason why the policy must stay, if it must: one was set before, or it cannot be read
    pub taken: Option<String>,
    /// NUMA nodes that a placed step around it prefers: our own policy, which may become a part of itself
    pub ours: Option<NodeSet>,
    /// NUMA nodes of the cpuset that have memory
    pub allowed: Option<NodeSet>,
}

impl Step {
    /// At least one.
    pub(crate) fn tasks_here(&self) -> usize {
        self.tasks.max(1) as usize
    }
}

/// The evidence about a task's GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuGrant {
    pub variables: BTreeMap<&'static str, String>,
    /// `[GPU of the topology]`
    pub access: Vec<Access>,
}

/// A task's GPUs in the program's order, and how we know them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub gpus: Vec<GpuIndex>,
    pub reason: String,
}

/// A task's right to open a device node (faccessat(2) with `R_OK | W_OK` and `AT_EACCESS`, which asks the device cgroup
/// too and opens nothing).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Allowed,
    /// the device belongs to another task or job
    Denied,
    /// there is no such node, or we did not look
    Unknown,
}

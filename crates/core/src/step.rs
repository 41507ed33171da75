//! Slurm's grant on this node, as data: a step and its tasks.

pub mod program;
pub mod rule;

use crate::topology::{CpuSet, GpuIndex, NicIndex, NodeSet};
use std::collections::BTreeMap;

/// Variable of a task: the node's name in Slurm.
pub const NODE_NAME: &str = "SLURMD_NODENAME";
/// Variable: the step's GPUs on this node, by Slurm's numbers.
pub const STEP_GPUS: &str = "SLURM_STEP_GPUS";
/// Variable set by slurmd: the address of the step's srun.
pub const SRUN: &str = "SLURM_SRUN_COMM_HOST";
/// Variable set by slurmd for a task: the rules for devices ([`rule`]).
pub const GPU_BIND: &str = "SLURMD_TRES_BIND";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Starter {
    #[default]
    Slurm,
    /// a launcher inside a task, or without Slurm; the processes that it starts are the tasks
    Launcher,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    pub starter: Starter,
    /// on this node
    pub tasks: u32,
    /// true if `tasks` is only a lower bound: neither Slurm nor the launcher gives the number. CPUs
    /// are then not divided, since tasks may have different bounds
    pub uncounted: bool,
    /// on all nodes
    pub total_tasks: u32,
    /// `-c`, `SLURM_CPUS_PER_TASK`
    pub cpus_per_task: Option<u32>,
    pub counted: Option<Counted>,
    /// the user's `--cpu-bind` or `SLURM_CPU_BIND` (see `config::cpu_bind`), or a launcher's
    /// binding in words
    pub cpu_bind: Option<String>,
    /// the user's `--mem-bind` (`SLURM_MEM_BIND_TYPE`)
    pub mem_bind: Option<String>,
    /// the command's word, or the variable, by which processes are bound ([`program::binder`])
    pub binder: Option<&'static str>,
    /// [`program::known`] of the program's command
    pub words: Vec<&'static str>,
    pub gpus: Option<String>,
    pub srun: Option<String>,
    /// the job's cores on this node, by Slurm's count
    pub job_cores: Option<usize>,
    /// for `spread`: true if no other job has or can get a task on this node
    pub alone_on_node: bool,
}

/// A step's grant by Slurm's count. With slurm.conf's `CPUs=64` for 64 cores of two threads, `-c 4`
/// means four cores, with both threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// threads, or cores if slurm.conf counts cores
    pub cpus: u32,
    pub cores: u32,
}

/// A task just before its program starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Task {
    /// on this node, from 0
    pub local_id: u32,
    /// in the step, from 0
    pub global_id: u32,
    pub gpus: GpuGrant,
    /// the task's GPUs, if a launcher or `gpu=local-id` gives them; else they follow from `gpus`
    pub known: Option<TaskGpus>,
    /// NICs that this task's device cgroup denies; NICs denied to the whole job are no rails
    pub denied_nics: Vec<NicIndex>,
    pub cpus: CpuSet,
    /// CPUs of the step's tasks here together; no task may get others
    pub step_cpus: CpuSet,
    /// slurmd's masks by local id; if fewer than the tasks, they repeat. Empty if slurmd bound no
    /// task
    pub masks: Vec<CpuSet>,
    pub threads_per_core: Option<usize>,
    /// [`GPU_BIND`], such as `gpu:per_task:1`
    pub gpu_bind: Option<String>,
    pub memory: Memory,
    /// `None` if not checked
    pub room: Option<Room>,
}

/// Sizes that limit execve(2) of a task's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// bytes of the program's arguments and variables
    pub taken: usize,
    /// bytes of the stack limit
    pub stack: u64,
}

impl Room {
    /// execve(2)'s limit on one variable with its NUL (`MAX_ARG_STRLEN`, linux/binfmts.h: 32 pages
    /// of 4 KiB).
    pub const LONGEST: usize = 128 * 1024;
    /// Bytes of each string's NUL and pointer.
    pub const EACH: usize = 9;
}

/// A task's memory policy before we change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// the reason to keep the present policy: another program set it, or it cannot be read
    pub taken: Option<String>,
    /// NUMA nodes of the policy that we set for an outer step; this step may only narrow them
    pub ours: Option<NodeSet>,
    /// the cpuset's NUMA nodes for memory; `None` if unknown
    pub allowed: Option<NodeSet>,
}

impl Task {
    pub(crate) fn gpus_by_local_id(&self) -> Option<&[GpuIndex]> {
        self.known.as_ref()?.by_local_id.as_deref()
    }
}

impl Step {
    pub(crate) fn tasks_here(&self) -> usize {
        self.tasks.max(1) as usize
    }
}

/// Variables and permissions that show a task's GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuGrant {
    pub variables: BTreeMap<&'static str, String>,
    /// `[GpuIndex]`
    pub access: Vec<Access>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskGpus {
    /// in the order of the program's GPU numbers
    pub own: Vec<GpuIndex>,
    /// the GPUs visible to the program: `own`, or the list in which a rank or local id selects
    /// `own`
    pub seen: Vec<GpuIndex>,
    pub reason: String,
    /// `[local id]`: each task's GPU, if no two tasks share one (`gpu=local-id`, or a launcher's
    /// lists)
    pub by_local_id: Option<Vec<GpuIndex>>,
}

impl TaskGpus {
    pub fn new(gpus: Vec<GpuIndex>, reason: impl Into<String>) -> TaskGpus {
        TaskGpus {
            seen: gpus.clone(),
            own: gpus,
            reason: reason.into(),
            by_local_id: None,
        }
    }
}

/// A task's right to open a device file, by faccessat(2) with `R_OK | W_OK` and `AT_EACCESS`: the
/// kernel also checks the device cgroup, and opens nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Allowed,
    /// such as another task's or job's device
    Denied,
    /// no such file, or not checked
    Unknown,
}

//! The meaning of the option's words.
#![forbid(unsafe_code)]

use std::fmt;

/// The rule that gives NICs to GPUs; each has its own file under `policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// each GPU gets one NIC: the one with the most bandwidth for it, then the nearest, evenly
    #[default]
    Closest,
    /// GPU k gets the k-th NIC, on every node
    Rail,
    /// as `closest`, plus the idle NICs if the job is alone on the node
    Spread,
    /// each GPU gets all good NICs of its NUMA node
    Numa,
    /// each GPU gets all good NICs of the node
    All,
}

impl Policy {
    pub const ALL: [(&str, Policy); 5] = [
        ("closest", Policy::Closest),
        ("rail", Policy::Rail),
        ("spread", Policy::Spread),
        ("numa", Policy::Numa),
        ("all", Policy::All),
    ];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Policy::ALL[*self as usize].0)
    }
}

/// The demands without which a task fails, each stronger than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Strictness {
    /// no demand: the task runs with whatever it got
    #[default]
    BestEffort,
    /// the decision must be carried out
    Strict,
    /// NICs and CPUs on the NUMA nodes of its GPUs, if the node has any there
    Restricted,
    /// GPUs, NICs and CPUs all on one NUMA node
    SingleNumaNode,
}

impl Strictness {
    pub const ALL: [(&str, Strictness); 4] = [
        ("best-effort", Strictness::BestEffort),
        ("strict", Strictness::Strict),
        ("restricted", Strictness::Restricted),
        ("single-numa-node", Strictness::SingleNumaNode),
    ];
}

impl fmt::Display for Strictness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Strictness::ALL[*self as usize].0)
    }
}

/// The GPUs that a task uses of those that it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuUse {
    #[default]
    Visible,
    /// the GPU that the task's local id names, which the user promises
    LocalId,
}

/// How many NICs each GPU gets under `closest`, `rail` and `spread`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NicsEach {
    /// an even part of the GPU's nearest NICs, where these are more than the GPUs that share them; else one
    #[default]
    Auto,
    /// 0 is 1
    Number(u8),
}

impl NicsEach {
    /// NICs of a GPU at most: beyond four no library here gains (UCX uses 2 rails, NCCL merges 4).
    pub const MOST: u8 = 8;
}

/// The CPUs to bind a task to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bind {
    /// the CPUs that Slurm gave it
    None,
    /// the CPUs near its GPUs, if they hold the parts of all tasks that will share them
    #[default]
    Auto,
    /// the CPUs of its GPUs' NUMA node, even if it has few
    Numa,
    /// whole cores of its GPUs' NUMA node, which no other task of the step gets
    Core,
}

/// The memory policy for a task, by the NUMA nodes near its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mem {
    None,
    /// near nodes first, then any other
    #[default]
    Prefer,
    /// near nodes alone
    Strict,
}

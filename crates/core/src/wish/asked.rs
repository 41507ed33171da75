//! Values of the words of `--nic-placement=`.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// the NIC with the most bandwidth for the GPU; of equals the nearest, then the least used
    #[default]
    Closest,
    /// GPU k has the k-th NIC on every node
    Rail,
    /// as `closest`; a job alone on the node also gets the idle NICs
    Spread,
    /// all usable NICs of the GPU's NUMA node
    Numa,
    /// all usable NICs of the node
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

/// Demands on a task's placement; each level includes the earlier ones. A task with an unmet demand
/// fails, except under `BestEffort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Strictness {
    #[default]
    BestEffort,
    /// policy and requests must be met, and the placement applied
    Strict,
    /// also: NICs and CPUs on the NUMA nodes of the task's GPUs, if those nodes have any
    Restricted,
    /// also: GPUs, NICs and CPUs on one NUMA node
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

/// The GPUs that a task uses, of those visible to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuUse {
    #[default]
    Visible,
    /// the GPU at the position of the task's local id, as the user promises
    LocalId,
}

/// Number of NICs for each GPU under `closest`, `rail` and `spread`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NicsEach {
    /// one; if the nearest NICs outnumber the GPUs near them, an equal share of these NICs
    #[default]
    Auto,
    /// 0 counts as 1
    Number(u8),
}

impl NicsEach {
    /// The most NICs of a GPU. Libraries use fewer (UCX 2 rails, NCCL merges 4).
    pub const MOST: u8 = 8;
}

/// A task's CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bind {
    /// as Slurm gave them
    None,
    /// near the task's GPUs, if every task of the step keeps its share of CPUs
    #[default]
    Auto,
    /// on the NUMA node of the task's GPUs, even if these CPUs are few
    Numa,
    /// whole cores on the NUMA node of the task's GPUs, for this task alone
    Core,
}

/// A task's memory policy, for the NUMA nodes near its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mem {
    None,
    /// near nodes first
    #[default]
    Prefer,
    /// near nodes alone
    Strict,
}

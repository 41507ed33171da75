//! Facts of the node, of its installation and of the calling user, which checks judge.
//!
//! `None` is not known, and no check takes it for a fault.

use super::config_space::ConfigSpace;
use super::shortfall::Missing;
use nic_placement_core::config::PluginLine;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::PciAddress;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct HostFacts {
    pub(crate) is_live: bool,
    pub(crate) is_virtual: bool,
    pub(crate) kernel: Option<String>,
    pub(crate) numa_balancing: Option<String>,
    pub(crate) port_range: Option<String>,
    /// the loaded ones of `MODULES`; `None` if the tree has no list
    pub modules: Option<BTreeSet<String>>,
    pub(crate) memory_peers: BTreeSet<String>,
    pub(crate) nvidia: Option<String>,
    pub(crate) machine: Option<Machine>,
    pub(crate) functions: BTreeMap<PciAddress, Function>,
    pub(crate) nics: BTreeMap<String, NicFacts>,
    pub(crate) has_mads: bool,
    /// interfaces whose LLDP agent hears a switch; `None` where none was asked
    pub heard: Option<BTreeSet<String>>,
}

/// Modules of the kernel that decide how a NIC reaches a GPU's memory.
pub(crate) const MODULES: &str =
    "nvidia nvidia_peermem nv_peer_mem efa_nv_peermem amdgpu ib_uverbs ib_umad ib_peer_mem";

#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) name: Option<String>,
    pub(crate) is_a_clouds: bool,
    /// devices of the model that the node lacks; true: the bus has a function at that address
    pub(crate) missing: Vec<(Missing, bool)>,
    /// the number of GPUs in machines of this product
    pub(crate) gpus: Option<usize>,
}

#[derive(Default)]
pub(crate) struct Function {
    /// its registers; `None` where only root may read them
    pub(crate) config: Option<ConfigSpace>,
    pub(crate) iommu_group: Option<String>,
    /// bytes of a GPU's BAR 1, through which others reach its memory
    pub(crate) bar1: Option<u64>,
}

#[derive(Default)]
pub(crate) struct NicFacts {
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) mads: usize,
    /// the calling user's access to its device node, if it was tried
    pub(crate) access: Option<DeviceAccess>,
}

#[derive(Default)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) state: Option<String>,
    /// `carrier`; `None` while it is switched off
    pub(crate) carrier: Option<bool>,
    pub(crate) mtu: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceAccess {
    Open,
    /// the node's mode or owner forbids it
    Refused,
    /// the job's device cgroup forbids it
    Fenced,
    Absent,
}

#[derive(Default)]
pub struct Caller {
    pub is_root: bool,
    pub in_step: bool,
    /// bytes that it may lock: `u64::MAX` without a limit, `None` where that is not known
    pub memlock: Option<u64>,
    pub doubts: Vec<Diagnostic>,
    /// configuration files of NCCL's with the variables in them that we would set
    pub nccl: Vec<(String, Vec<String>)>,
}

#[derive(Default)]
pub struct Installation {
    /// the release that Slurm's programs print; the inner `None` if none prints one
    pub slurm: Option<Option<String>>,
    /// `None` where it was not looked for
    pub plugstack: Option<Plugstack>,
    pub words: Vec<Diagnostic>,
    /// why no step is placed here; `true` where the configuration file is refused, `false` where
    /// the admin disabled it
    pub off: Option<(String, bool)>,
    /// the placement of steps that do not ask; `None` if no line loads the plugin
    pub unasked: Option<Unasked>,
    pub no_node: Option<String>,
    /// the node file's use in a step; `None` if it was not looked for
    pub node_file: Option<(String, NodeFileState)>,
    pub owners: Vec<Owned>,
}

#[derive(Default)]
pub struct Unasked {
    /// `default=` and `rollout=` that hold on this node, the nearest last, with their places
    pub said: Vec<(String, String)>,
    /// true with lines for partitions, in which steps may be placed otherwise
    pub has_partitions: bool,
    /// the configuration file and this node's name, if its lines name other nodes alone
    pub unnamed: Option<(String, String)>,
}

impl Unasked {
    /// The words without their place, to be compared with other nodes.
    pub fn text(&self) -> String {
        let said: Vec<&str> = self
            .said
            .iter()
            .map(|(_, argument)| argument.as_str())
            .collect();
        if said.is_empty() {
            "no default=".to_string()
        } else {
            said.join(" ")
        }
    }
}

#[derive(Default)]
pub struct Plugstack {
    pub path: String,
    pub is_named: bool,
    pub is_there: bool,
    pub findings: Vec<Diagnostic>,
    pub lines: Vec<PluginLine>,
    /// the packaged line beside this program: its file, and the plugin that is there
    pub packaged: Option<(String, String)>,
    /// patterns of `include` that mean no file: where, and the pattern
    pub unmatched: Vec<(String, String)>,
    pub is_sent: bool,
    /// true if such a copy is not read, since /etc/slurm/slurm.conf is there
    pub is_shadowed: bool,
}

pub enum NodeFileState {
    /// seconds of its age
    Used(u64),
    Unwanted,
    Absent,
    Outdated(String),
    /// the reason: it is too old, or none, or not to be trusted
    Unusable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    pub path: String,
    pub user: u32,
    pub group: u32,
    pub mode: u32,
}

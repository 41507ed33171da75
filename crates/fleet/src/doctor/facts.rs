//! Facts of the node, of its installation and of the calling user, which checks judge.
//!
//! `None` is not known, and no check takes it for a fault.

use super::config_space::ConfigSpace;
use nic_placement_core::config::PluginLine;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::PciAddress;
use nic_placement_node::kept::NotUsed;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct HostFacts {
    pub(crate) is_live: bool,
    pub(crate) is_virtual: bool,
    pub(crate) kernel: Option<String>,
    pub(crate) numa_balancing: Option<String>,
    /// loaded ones that decide how a NIC reaches a GPU's memory; `None` if the tree has no list
    pub(crate) modules: Option<BTreeSet<String>>,
    pub(crate) memory_peers: BTreeSet<String>,
    pub(crate) nvidia: Option<String>,
    pub(crate) machine: Option<Machine>,
    /// registers of functions; without those that only root may read
    pub(crate) functions: BTreeMap<PciAddress, ConfigSpace>,
    pub(crate) nics: BTreeMap<String, NicFacts>,
}

pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) is_a_clouds: bool,
    pub(crate) missing: Vec<Missing>,
}

/// A device of the model that the node lacks.
#[derive(Debug, PartialEq)]
pub(crate) struct Missing {
    /// `GPU`, or the name that the NIC has in the model
    pub(crate) what: String,
    pub(crate) address: PciAddress,
    /// true: the bus has a function at that address
    pub(crate) is_on_the_bus: bool,
}

#[derive(Default)]
pub(crate) struct NicFacts {
    pub(crate) interfaces: Vec<Interface>,
    /// the calling user's access to its device node, if it was tried
    pub(crate) access: Option<DeviceAccess>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum DeviceAccess {
    Open,
    /// the node's mode or owner forbids it
    Refused,
    /// the job's device cgroup forbids it
    Fenced,
    Absent,
}

pub(crate) struct Interface {
    pub(crate) name: String,
    /// by `operstate`, or where drivers do not report that by `carrier`
    pub(crate) has_link: Option<bool>,
    pub(crate) mtu: Option<u32>,
}

#[derive(Default)]
pub struct Caller {
    pub is_root: bool,
    pub in_step: bool,
    /// bytes that it may lock: `u64::MAX` without a limit, `None` where that is not known
    pub memlock: Option<u64>,
    pub doubts: Vec<Diagnostic>,
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
    /// `default=` and `rollout=` for steps that do not ask, on this node, the nearest last, with their places; `None` if no
    /// line loads the plugin
    pub unasked: Option<Vec<(String, String)>>,
    /// true with such words for partitions, in which steps may be placed otherwise
    pub has_partitions: bool,
    pub no_node: Option<String>,
    /// the node file's age in seconds, `None` if the admin wants none; the outer one if it was not looked for
    pub node_file: Option<(String, Option<Result<u64, NotUsed>>)>,
    pub owners: Vec<Owned>,
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
}

pub struct Owned {
    pub path: String,
    pub user: u32,
    pub group: u32,
    pub mode: u32,
}

//! The user's and the admin's settings as data ([`Words`], [`Admin`]), and their combination
//! ([`Wish`]). `config` parses them.

mod asked;
pub mod pattern;
pub mod rollout;

pub use asked::{Bind, GpuUse, Mem, NicsEach, Policy, Strictness};
pub use pattern::Pattern;

pub use crate::topology::NodeSource;
use crate::topology::{NicIndex, PathType};
use rollout::Rollout;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    On(Policy),
    Off,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    pub policy: Option<Switch>,
    pub gpu: Option<GpuUse>,
    pub bind: Option<Bind>,
    pub mem: Option<Mem>,
    pub omp: Option<bool>,
    pub observe: bool,
    pub help: bool,
    pub verbose: bool,
    pub dry_run: bool,
    pub strictness: Option<Strictness>,
    pub nics_per_task: Option<NicsEach>,
    /// the last `env=`
    pub env: Option<Libraries>,
    pub env_names: Vec<String>,
    /// all `no-env=`: names, or prefixes that end in `*`
    pub no_env: Vec<String>,
    /// `no-env=none`: ignores any `no-env=` of lower precedence
    pub forgets_no_env: bool,
}

/// The cache of the node's topology, read by a step instead of /sys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFileUse {
    pub path: String,
    /// `cache=`: the cache's highest age in seconds; 0: no cache
    pub max_age: u64,
}

impl Default for NodeFileUse {
    fn default() -> NodeFileUse {
        NodeFileUse {
            path: "/run/nic-placement/node.cache".to_string(),
            max_age: 900,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admin {
    pub default: Words,
    pub rollout: Rollout,
    pub disabled: bool,
    pub conf: Option<String>,
    pub source: NodeSource,
    pub node_file: NodeFileUse,
    pub trust_topology: bool,
    pub none_is_unbound: bool,
    pub selection: Selection,
    pub rails: Vec<Pattern>,
    pub through: Through,
    pub fabric: Fabric,
    /// `set=`: one for each variable
    pub templates: Vec<Template>,
    /// the map files that `templates` name, if they exist; not set by an argument
    pub map_files: Vec<MapFile>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// if not empty, only these NICs may be rails; evidence against them does not count
    pub include: Vec<Pattern>,
    pub exclude: Vec<Pattern>,
    /// NICs that no task of the job may open, with the reason
    pub unopenable: Vec<(NicIndex, String)>,
}

/// The bandwidth of a flow on each path type, in thousandths of the rail's rate: weighs a far idle
/// NIC against a near shared one.
///
/// The defaults are estimates (benches/README.md); only their order is certain. PHB and NODE are
/// medians over CPU models; no measurement has NODE below PHB. SYS is the least of single flows;
/// concurrent flows got less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Through([u64; PathType::ALL.len()]);

impl Default for Through {
    fn default() -> Through {
        Through([1000, 1000, 900, 900, 450])
    }
}

impl Through {
    pub fn of(&self, path: PathType) -> u64 {
        self.0[path as usize]
    }

    pub fn set(&mut self, path: PathType, thousandths: u64) {
        self.0[path as usize] = thousandths.min(1000);
    }
}

/// Reachability between NICs (`fabric=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fabric {
    /// no `fabric=`: libraries compare subnets
    #[default]
    Unsaid,
    Routed,
    /// a NIC reaches only NICs of the same rail on other nodes
    IsolatedRails,
}

/// The libraries of `env=`, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries(pub(crate) u32);

/// A file with the node's map, for an inference engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapFile {
    pub format: Format,
    pub path: String,
    /// `None`: not read, since the plan may be for another node
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub(crate) name: String,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    /// for SGLang's `--disaggregation-ib-device` and `--mooncake-ib-device`: JSON, or the path of a
    /// JSON file (python/sglang/srt/distributed/device_communicators/mooncake_transfer_engine.py,
    /// `get_ib_devices_for_gpu`; 0.5.11)
    Sglang,
    /// a file for Mooncake's `MC_CUSTOM_TOPO_JSON` (mooncake-transfer-engine/src/topology.cpp,
    /// `Topology::parse`; 0.3.12)
    Mooncake,
}

/// The settings of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    pub admin: Admin,
    pub enabled: bool,
    pub policy: Policy,
    /// log the decision and change nothing
    pub observe: bool,
    pub verbose: bool,
    pub dry_run: bool,
    pub strictness: Strictness,
    pub nics_per_task: NicsEach,
    pub gpu: GpuUse,
    pub bind: Bind,
    pub mem: Mem,
    pub omp: bool,
    /// true if the user gives `bind=`: overrides `--cpu-bind=none`, which only turns Slurm's
    /// binding off
    pub bind_by_user: bool,
    pub by_user: bool,
    pub libraries: Libraries,
    pub env_names: Vec<String>,
    pub no_env: Vec<String>,
    /// omits the reasons for GPUs' NICs if no output or log shows them: with hundreds of GPUs and
    /// NICs this saves a third of a step's time
    pub wordless: bool,
}

impl Wish {
    /// True if tasks print their placement.
    pub fn reports(&self) -> bool {
        self.verbose || self.dry_run
    }

    /// True if steps are placed, unless [`Admin::disabled`].
    pub fn places(&self) -> bool {
        self.enabled && !self.observe
    }
}

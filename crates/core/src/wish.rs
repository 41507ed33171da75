//! What is said and what holds, as data: the user's words, the admin's arguments, and the wish that both make.
//!
//! `config` has their grammar.
#![forbid(unsafe_code)]

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

/// The words of one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// a policy, or `off`; `None` where the text names neither
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
    /// the last `env=` of the text
    pub env: Option<Libraries>,
    pub env_names: Vec<String>,
    /// all `no-env=` of the text, names and beginnings with a star
    pub no_env: Vec<String>,
    /// `no-env=none`: what stands before the text does not count
    pub forgets_no_env: bool,
}

/// The node file that a step may use instead of reading the live node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFileUse {
    /// `node-file=`
    pub path: String,
    /// `cache=`, in seconds; 0 for none
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

/// The admin's arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admin {
    pub default: Words,
    pub rollout: Rollout,
    pub disabled: bool,
    pub conf: Option<String>,
    /// `topology=`, `machine=` or `sysfs=`
    pub source: NodeSource,
    /// `cache=` and `node-file=`
    pub node_file: NodeFileUse,
    pub trust_topology: bool,
    pub none_is_unbound: bool,
    /// `include=` and `exclude=`
    pub selection: Selection,
    pub rails: Vec<Pattern>,
    /// `lets-through=`
    pub through: Through,
    pub fabric: Fabric,
    /// `set=`, one for each name
    pub templates: Vec<Template>,
    /// the maps that these templates name, as they are found on the node; not an argument
    pub map_files: Vec<MapFile>,
}

/// The NICs that the admin wants and does not want.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// if any, only these, whatever the evidence against them
    pub include: Vec<Pattern>,
    /// never these
    pub exclude: Vec<Pattern>,
    /// NICs that no task of the job may open, with the reason
    pub unopenable: Vec<(NicIndex, String)>,
}

/// The share of the narrowest rate that each kind of path lets through, in thousandths.
///
/// The order is certain, the figures are estimates (docs/figures.md has the measurements): they weigh a far idle NIC
/// against a near shared one.  PHB and NODE are the median of the kinds of CPUs, and no measurement has NODE below PHB.
/// The default for SYS is the least of one flow: several flows at once had less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Through([u64; PathType::ALL.len()]);

impl Default for Through {
    fn default() -> Through {
        Through([1000, 1000, 900, 900, 450])
    }
}

impl Through {
    /// The least and the most that was measured for one flow.
    pub const MEASURED: [(u64, u64); PathType::ALL.len()] = [
        (1000, 1000),
        (1000, 1000),
        (750, 1000),
        (750, 1000),
        (450, 850),
    ];

    pub fn of(&self, path: PathType) -> u64 {
        self.0[path as usize]
    }

    pub fn set(&mut self, path: PathType, thousandths: u64) {
        self.0[path as usize] = thousandths.min(1000);
    }
}

/// Which NICs can reach which (the admin's `fabric=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fabric {
    /// the admin does not say: the subnets tell what libraries take for reachable
    #[default]
    Unsaid,
    /// every NIC reaches every NIC
    Routed,
    /// a NIC reaches the NICs of its own rail alone
    IsolatedRails,
}

/// A set of words of `env=`: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries(pub(crate) u32);

/// A file with the map of the whole node, for an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapFile {
    pub format: Format,
    pub path: String,
    /// its text; `None` if that is not compared
    pub text: Option<String>,
}

/// A `set=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A format of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// the project's own JSON
    Json,
    /// SGLang's `--disaggregation-ib-device` and `--mooncake-ib-device`: a JSON text or the path of a file with it
    /// (python/sglang/srt/distributed/device_communicators/mooncake_transfer_engine.py, `get_ib_devices_for_gpu`; 0.5.11)
    Sglang,
    /// Mooncake's `MC_CUSTOM_TOPO_JSON`, the path of a file (mooncake-transfer-engine/src/topology.cpp, `Topology::parse`;
    /// 0.3.12)
    Mooncake,
    /// vLLM's `VLLM_GPU_NIC_PCIE_MAPPING` and `VLLM_NIC_SELECTION_VARS` (vllm/v1/executor/vllm_net_devices.py; the pull
    /// request 42083 of 2026)
    Vllm,
}

/// What holds for a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    pub admin: Admin,
    pub enabled: bool,
    pub policy: Policy,
    /// decides and logs, changes nothing: the admin sees what steps would get before their users ask
    pub observe: bool,
    pub verbose: bool,
    pub dry_run: bool,
    pub strictness: Strictness,
    pub nics_per_task: NicsEach,
    pub gpu: GpuUse,
    pub bind: Bind,
    pub mem: Mem,
    pub omp: bool,
    /// the user's `bind=` holds beside a `--cpu-bind=none`, which switches off Slurm's own binding
    pub bind_by_user: bool,
    /// false for the admin's default
    pub by_user: bool,
    pub libraries: Libraries,
    /// variables that `env=` names
    pub env_names: Vec<String>,
    /// names and beginnings with a star
    pub no_env: Vec<String>,
    /// leaves the reasons for each GPU's NICs empty, since they are not shown: a step with hundreds of GPUs and
    /// NICs saves a third of its time
    pub wordless: bool,
}

impl Wish {
    /// True if the user sees lines about each task.
    pub fn reports(&self) -> bool {
        self.verbose || self.dry_run
    }

    /// True if steps are placed, unless the admin has switched that off.
    pub fn places(&self) -> bool {
        self.enabled && !self.observe
    }
}

//! The map from GPUs to NICs, and the ports that it may use.
//!
//! Pure: the same node and the same request give the same map, in every task.
#![forbid(unsafe_code)]

mod all;
mod closest;
pub(crate) mod explain;
pub(crate) mod ladder;
mod links;
mod parts;
pub mod pattern;
pub(crate) mod ports;
mod rail;
mod solve;
pub(crate) mod strictness;
mod ways;

pub use pattern::Pattern;

use crate::placement::{GpuPlacement, NicsEach, NodePlacement, Policy, Rail, RailUse};
use crate::topology::{GpuIndex, NicIndex, PathType, Topology};
use solve::{Answer, RailSet};
pub use ways::Ways;

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
/// The order is certain, the figures are estimates (docs/figures.md has the measurements): they
/// weigh a far idle NIC against a near shared one.  PHB and NODE are the median of the kinds of
/// CPUs, and no measurement has NODE below PHB.  SYS is the least of one flow: several flows at
/// once had less.
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

/// Options of a map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request<'a> {
    pub policy: Policy,
    pub nics_each: NicsEach,
    pub selection: Option<&'a Selection>,
    /// the site's rails in their order; if none, the good NICs in PCI order
    pub rails: &'a [Pattern],
    pub through: Through,
    /// for `spread`, the GPUs of a job that is alone on the node
    pub alone: Option<&'a [GpuIndex]>,
    /// leaves the reasons empty where they are not shown: a step with hundreds of GPUs and NICs
    /// saves a third of its time
    pub wordless: bool,
    /// the step's map, for a task that may not open some NICs: those that were rails count as
    /// broken ones
    pub known: Option<&'a NodePlacement>,
}

pub fn map(node: &Topology, request: &Request) -> NodePlacement {
    let everything = Selection::default();
    let selection = request.selection.unwrap_or(&everything);
    let were: &[Rail] = request.known.map_or(&[], |map| &map.rails);
    let mut map = NodePlacement {
        policy: request.policy,
        ..ports::judge(node, selection, were)
    };
    map.numbered_by_admin = rail::numbered_by_admin(node, &map, request);
    map.gpus = match request.policy {
        Policy::Closest | Policy::Spread => closest::map_gpus(node, &map, request),
        Policy::Rail => rail::map_gpus(node, &mut map, request),
        Policy::Numa | Policy::All => all::map_gpus(node, &map, request),
    };
    if request.wordless {
        map.gpus.iter_mut().for_each(|gpu| gpu.reason.clear());
    }
    map
}

/// An answer's placement of each GPU; `reason` says in words why it has these rails.
fn placements(
    node: &Topology,
    ways: &Ways,
    rails_of: &[RailSet],
    request: &Request,
    mut reason: impl FnMut(&mut Answer, GpuIndex, &[RailUse]) -> String,
) -> Vec<GpuPlacement> {
    let mut answer = Answer::new(&ways.problem, rails_of.to_vec());
    let choices = ways.choices(&answer);
    let gpus = node.numbered_gpus().zip(choices);
    gpus.map(|((gpu, device), choices)| GpuPlacement {
        reason: match choices.is_empty() {
            _ if request.wordless => String::new(),
            true => "no NIC of this node may be chosen".to_string(),
            false => reason(&mut answer, gpu, &choices),
        },
        choices,
        numa_node: node.numa_node_of(device.address),
        shortfall: None,
    })
    .collect()
}

/// `400 Gb/s`, `2.5 Gb/s`
pub fn gbps(mbps: u64) -> String {
    match mbps % 1000 / 100 {
        0 => format!("{} Gb/s", mbps / 1000),
        tenth => format!("{}.{tenth} Gb/s", mbps / 1000),
    }
}

#[cfg(test)]
mod tests;

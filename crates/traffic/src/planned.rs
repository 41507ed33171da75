//! By which NICs bytes should leave: those of the step's tasks, or those of the node's GPUs.
#![forbid(unsafe_code)]

use super::tasks::PlacedTask;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::topology::{PathType, Topology};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// what the plugin published in the tasks
    Tasks,
    /// what `plan` says of all GPUs of the node, since no task was placed
    Node,
    /// no plan: no task was placed, and the node was not read
    Nobody,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Planned {
    /// its GPUs by number, with the path of each
    pub gpus: BTreeMap<usize, PathType>,
    pub(crate) tasks: BTreeSet<u32>,
}

/// A plan, by `mlx5_0:1`.
pub type PlannedNics = BTreeMap<String, Planned>;

pub fn of_node(node: &Topology, map: &NodePlacement) -> PlannedNics {
    let mut plan = PlannedNics::new();
    for (gpu, placed) in map.numbered_gpus() {
        for choice in &placed.choices {
            let planned: &mut Planned = plan.entry(map.rail(choice.rail).to_string()).or_default();
            planned.gpus.insert(gpu.0, choice.path);
        }
    }
    // without a GPU all NICs that may be used serve
    if node.gpus.is_empty() {
        plan.extend(
            map.rails
                .iter()
                .map(|rail| (rail.to_string(), Planned::default())),
        );
    }
    plan
}

/// The plan that these tasks publish; the GPUs are known where the node is.
pub fn of_tasks(tasks: &[&PlacedTask], node: Option<(&Topology, &PlannedNics)>) -> PlannedNics {
    let mut plan = PlannedNics::new();
    for task in tasks {
        let gpus = node.map_or(Vec::new(), |(topology, _)| numbers(task, topology));
        for nic in &task.marked.nics {
            let planned = plan.entry(nic.clone()).or_default();
            planned.tasks.extend(task.marked.numbers.local);
            let of_nic = node.and_then(|(_, of_node)| of_node.get(nic));
            let near = of_nic.into_iter().flat_map(|of_nic| &of_nic.gpus);
            planned.gpus.extend(
                near.filter(|(gpu, _)| gpus.contains(gpu))
                    .map(|(gpu, path)| (*gpu, *path)),
            );
        }
    }
    plan
}

pub fn numbers(task: &PlacedTask, node: &Topology) -> Vec<usize> {
    let numbered = node.gpus.iter().enumerate();
    let own = numbered.filter(|(_, gpu)| task.marked.gpus.contains(&gpu.address));
    own.map(|(number, _)| number).collect()
}

//! Plans every matrix of the collection, and searches for a better plan of each.

use crate::optimum::Paths;
use nic_placement_core::placement::{NicsEach, NodePlacement};
use nic_placement_core::policy::{self, Through};
use nic_placement_core::topology::{PathType, Provenance, Topology};
use nic_placement_core::wish::Wish;
use nic_placement_formats::import::smi;
use std::path::Path;

/// The ways of a node's GPUs to its rails, where a path lets so many thousandths through.
pub fn ways(
    topology: &Topology,
    node: &NodePlacement,
    lets_through: impl Fn(PathType) -> u64,
) -> Paths {
    let mut pairs = Vec::new();
    let mut ways = Paths {
        values: Vec::new(),
        connections: Vec::new(),
        connection: lets_through(PathType::Sys),
    };
    for gpu in &topology.gpus {
        let nics = node.rails.iter().map(|rail| {
            topology
                .nic(rail.nic)
                .address
                .expect("a rail has a PCI function")
        });
        let (mut values, mut connections) = (Vec::new(), Vec::new());
        for nic in nics {
            let path = topology.path_type(gpu.address, nic);
            let socket = |at| {
                topology
                    .numa_node_of(at)
                    .map(|node| topology.socket_of(node))
            };
            connections.push(match (path, (socket(gpu.address), socket(nic))) {
                (PathType::Sys, (Some(from), Some(to))) if from != to => {
                    let pair = (from.min(to), from.max(to));
                    let known = pairs.iter().position(|known| *known == pair);
                    Some(known.unwrap_or_else(|| {
                        pairs.push(pair);
                        pairs.len() - 1
                    }))
                }
                _ => None,
            });
            values.push(lets_through(path));
        }
        ways.values.push(values);
        ways.connections.push(connections);
    }
    ways
}

/// The readable matrices with at least one GPU and one NIC, by name.
pub fn matrices(corpus: &Path) -> Result<Vec<(String, Topology)>, String> {
    let folder = corpus.join("topo_m");
    let entries =
        std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort();
    let mut matrices = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let Ok((topology, _)) = smi::read(&text, Provenance::File("corpus".to_string())) else {
            continue;
        };
        if !topology.gpus.is_empty() && !topology.nics.is_empty() {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            matrices.push((name, topology));
        }
    }
    Ok(matrices)
}

pub fn run(corpus: &Path) -> Result<String, String> {
    let mut wrong = Vec::new();
    let (mut plans, mut gpus, mut hang) = (0, 0, 0);
    for (name, topology) in matrices(corpus)? {
        let node = policy::map(
            &topology,
            &Wish {
                nics_per_task: NicsEach::Number(1),
                ..Wish::default()
            },
        );
        if node.rails.is_empty() {
            wrong.push(format!("{name}: no NIC may be chosen: {:?}", node.excluded));
            continue;
        }
        plans += 1;
        gpus += topology.gpus.len();
        let estimated = ways(&topology, &node, |path| Through::default().of(path));
        let rail_of: Vec<usize> = node.gpus.iter().map(|gpu| gpu.choices[0].rail.0).collect();
        match estimated.better(&estimated.shares(&rail_of)) {
            Ok(None) => {}
            Ok(Some(other)) => wrong.push(format!("{name}: {rail_of:?} is worse than {other:?}")),
            Err(problem) => wrong.push(format!("{name}: {problem}")),
        }
        // the least and the most that one flow was measured to get, in thousandths, by kind of path
        let is_best = |measured: &[u64; 5]| {
            let ways = ways(&topology, &node, |path| measured[path as usize]);
            matches!(ways.better(&ways.shares(&rail_of)), Ok(None))
        };
        let bounds = [[1000, 1000, 750, 750, 450], [1000, 1000, 1000, 1000, 850]];
        hang += usize::from(!bounds.iter().all(is_best));
    }
    if plans < 100 || hang > 6 {
        wrong.push(format!(
            "only {plans} matrices were planned, and {hang} plans hang on an estimate"
        ));
    }
    match wrong.is_empty() {
        true => Ok(format!(
            "plans: {plans} matrices with {gpus} GPUs, none can be bettered for the worst-off GPU, nor for the next; \
             {hang} of them could be at the least or the most that was measured of the paths"
        )),
        false => Err(wrong.join("\n")),
    }
}

//! Plans every matrix of the collection, and searches for a better plan of each.

use crate::optimum::{better, figures};
use nic_placement_cli::import::smi;
use nic_placement_core::placement::{NodePlacement, Rail};
use nic_placement_core::policy::{self, Request};
use nic_placement_core::topology::{PathType, Provenance, Topology};
use std::path::Path;

/// What a path lets through, in thousandths: PIX and PXB all, PHB 0.85, NODE 0.70, SYS 0.45.
pub fn lets_through(path: PathType) -> u64 {
    match path {
        PathType::Pix | PathType::Pxb => 1000,
        PathType::Phb => 850,
        PathType::Node => 700,
        PathType::Sys => 450,
    }
}

/// `[gpu][rail]`
pub fn values(topology: &Topology, node: &NodePlacement) -> Vec<Vec<u64>> {
    let value = |gpu, rail: &Rail| {
        let nic = topology.nic(rail.nic).address.expect("a rail has a PCI function");
        lets_through(topology.path_type(gpu, nic))
    };
    let row = |gpu| node.rails.iter().map(|rail| value(gpu, rail)).collect();
    topology.gpus.iter().map(|gpu| row(gpu.address)).collect()
}

/// The readable matrices with at least one GPU and one NIC, by name.
pub fn matrices(corpus: &Path) -> Result<Vec<(String, Topology)>, String> {
    let folder = corpus.join("topo_m");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let mut matrices = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let Ok((topology, _)) = smi::read(&text, Provenance::File("corpus".to_string())) else { continue };
        if !topology.gpus.is_empty() && !topology.nics.is_empty() {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            matrices.push((name, topology));
        }
    }
    Ok(matrices)
}

pub fn run(corpus: &Path) -> Result<String, String> {
    let mut wrong = Vec::new();
    let (mut plans, mut gpus, mut unproven) = (0, 0, 0);
    for (name, topology) in matrices(corpus)? {
        let node = policy::map(&topology, &Request::default());
        if node.rails.is_empty() {
            wrong.push(format!("{name}: no NIC may be chosen: {:?}", node.excluded));
            continue;
        }
        plans += 1;
        gpus += topology.gpus.len();
        unproven += usize::from(node.diagnostics.iter().any(|note| note.finding.contains("not proven")));
        let values = values(&topology, &node);
        let rail_of: Vec<usize> = node.gpus.iter().map(|gpu| gpu.choices[0].rail.0).collect();
        let ours = figures(&values, &rail_of);
        match better(&values, ours) {
            Ok(None) => {}
            Ok(Some(other)) => wrong.push(format!("{name}: {rail_of:?} is worse than {other:?}")),
            Err(problem) => wrong.push(format!("{name}: {problem}")),
        }
    }
    if plans < 100 {
        wrong.push(format!("only {plans} matrices were planned"));
    }
    match wrong.is_empty() {
        true => Ok(format!(
            "plans: {plans} matrices with {gpus} GPUs, none has a better worst share or sum; {unproven} that the solver \
             could not prove itself"
        )),
        false => Err(wrong.join("\n")),
    }
}

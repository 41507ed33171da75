//! A process's GPUs, with or without Slurm.

use nic_placement_core::gpus::{Sight, by_file, by_step};
use nic_placement_core::step::{GpuGrant, Step, TaskGpus};
use nic_placement_core::topology::{GpuIndex, Topology};

/// The `SLURM_STEP_GPUS` of these GPUs.
pub fn slurms_numbers(node: &Topology, gpus: &[GpuIndex]) -> String {
    let by_file = by_file(node);
    gpus.iter()
        .map(|gpu| {
            by_file
                .iter()
                .position(|other| other == gpu)
                .unwrap_or(gpu.0)
                .to_string()
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// As [`nic_placement_core::gpus::identify`], but all without a variable, a denied device or a step's list.
pub fn seen(node: &Topology, step: &Step, grant: &GpuGrant) -> TaskGpus {
    let sight = Sight { node, grant };
    if let Some(gpus) = sight.gpus() {
        return gpus;
    }
    if step.gpus.is_some() {
        return by_step(&sight, step);
    }
    let gpus: Vec<GpuIndex> = sight
        .vendors()
        .into_iter()
        .flat_map(|vendor| sight.visible(vendor))
        .collect();
    let reason = match (gpus.is_empty(), node.gpus.is_empty()) {
        (false, _) => "nothing keeps it from any GPU of the node",
        (true, true) => "the node has no GPU",
        (true, false) => "it may open no GPU",
    };
    TaskGpus::new(gpus, reason)
}

#[cfg(test)]
pub(crate) mod tests;

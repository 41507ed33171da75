//! The near and the far side of the node's first GPU, as assignments that trial.sbatch reads.
#![forbid(unsafe_code)]

use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{GpuIndex, PathType};
use std::fmt::Write;

/// Names and lists of numbers alone, without a shell's letters.
pub(super) fn sides(plan: &Plan) -> String {
    let mut text = format!("gpus={}\n", plan.node.gpus.len());
    let first = plan.node.gpu_indices().next();
    let own = first.map(|gpu| plan.node.gpu(gpu).address);
    let path = |nic| Some(plan.node.path_type(own?, plan.node.nic(nic).address?));
    let near = match first {
        Some(GpuIndex(gpu)) => plan.map.gpus[gpu]
            .choices
            .first()
            .map(|choice| plan.map.rail(choice.rail)),
        None => plan.map.rails.first(),
    };
    if let Some(near) = near {
        let _ = writeln!(text, "near_nic={}", near.name);
    }
    // across sockets: a NIC that is merely farther may be as good
    let far = plan
        .map
        .rails
        .iter()
        .find(|rail| path(rail.nic) == Some(PathType::Sys));
    if let Some(far) = far {
        let _ = writeln!(text, "far_nic={}", far.name);
    }
    let home = own.and_then(|own| plan.node.numa_node_of(own));
    let has_all = |node: &u32| {
        plan.node
            .numa_node(*node)
            .is_some_and(|node| !node.cpus.is_empty())
    };
    let others = plan
        .node
        .numa_nodes
        .iter()
        .map(|node| node.os_index)
        .filter(has_all);
    let socket = |node: u32| plan.node.socket_of(node);
    if let (Some(home), Some(far)) = (
        home,
        others
            .into_iter()
            .find(|node| home.is_some_and(|home| socket(home) != socket(*node))),
    ) {
        let cpus = plan
            .node
            .numa_node(far)
            .map(|node| node.cpus.to_string())
            .unwrap_or_default();
        let _ = writeln!(
            text,
            "far_memory={far}\nfar_cpus={cpus}\n# GPU 0 is on NUMA node {home}"
        );
    }
    text
}

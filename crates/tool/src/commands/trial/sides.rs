//! The near and the far side of the node's first GPU, as assignments that trial.sbatch reads.

use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{GpuIndex, PathType};

/// Names and lists of numbers alone, without a shell's letters.
pub fn sides(plan: &Plan) -> String {
    let (node, map) = (&plan.node, &plan.map);
    let mut text = format!("gpus={}\n", node.gpus.len());
    let first = node.gpu_indices().next();
    let near = match first {
        Some(GpuIndex(gpu)) => map.gpus[gpu]
            .choices
            .first()
            .map(|choice| map.rail(choice.rail)),
        None => map.rails.first(),
    };
    if let Some(near) = near {
        text += &format!("near_nic={}\n", near.name);
    }
    let Some(own) = first.map(|gpu| node.gpu(gpu).address) else {
        return text;
    };
    // across sockets: a NIC that is merely farther may be as good
    let is_far =
        |nic| node.nic(nic).address.map(|nic| node.path_type(own, nic)) == Some(PathType::Sys);
    if let Some(far) = map.rails.iter().find(|rail| is_far(rail.nic)) {
        text += &format!("far_nic={}\n", far.name);
    }
    let Some(home) = node.numa_node_of(own) else {
        return text;
    };
    let is_far = |far: u32| node.socket_of(far) != node.socket_of(home);
    let mut others = node.numa_nodes.iter().filter(|of| !of.cpus.is_empty());
    if let Some(far) = others.find(|of| is_far(of.os_index)) {
        let (memory, cpus) = (far.os_index, &far.cpus);
        text += &format!("far_memory={memory}\nfar_cpus={cpus}\n# GPU 0 is on NUMA node {home}\n");
    }
    text
}

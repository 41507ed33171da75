//! NUMA nodes and logical CPUs from `/sys/devices/system` (Documentation/ABI/stable/sysfs-devices-node and
//! Documentation/ABI/stable/sysfs-devices-system-cpu in the kernel's tree).
#![forbid(unsafe_code)]

use super::{Root, number};
use crate::diagnostic::Diagnostic;
use crate::topology::{CpuSet, NumaNode, Pu, Topology};

const NODES: &str = "sys/devices/system/node";
const CPUS: &str = "sys/devices/system/cpu";

/// `nodeN`, `cpuN` -> N
fn index(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

pub(super) fn numa_nodes(root: &Root, topology: &mut Topology, diagnostics: &mut Vec<Diagnostic>) {
    for name in root.list(NODES, |name| index(name, "node").is_some()) {
        let Some(os_index) = index(&name, "node") else { continue };
        let path = format!("{NODES}/{name}");
        let cpus = match CpuSet::from_list(&root.read(&format!("{path}/cpulist")).unwrap_or_default()) {
            Ok(cpus) => cpus,
            Err(bad) => {
                diagnostics.push(Diagnostic::new(format!("/{path}/cpulist"), bad.to_string()));
                CpuSet::new()
            }
        };
        let distances = root.read(&format!("{path}/distance")).unwrap_or_default();
        let distances = distances.split_whitespace().filter_map(|distance| distance.parse().ok()).collect();
        topology.numa_nodes.push(NumaNode { os_index, cpus, distances });
    }
    topology.numa_nodes.sort_by_key(|node| node.os_index);
    let count = topology.numa_nodes.len();
    for node in &mut topology.numa_nodes {
        // an offline node leaves a gap in the numbers but none in the rows
        if !node.distances.is_empty() && node.distances.len() != count {
            let finding = format!("{} distances for {count} nodes: not used", node.distances.len());
            diagnostics.push(Diagnostic::new(format!("/{NODES}/node{}/distance", node.os_index), finding));
            node.distances.clear();
        }
    }
}

pub(super) fn pus(root: &Root, topology: &mut Topology) {
    for name in root.list(CPUS, |name| index(name, "cpu").is_some()) {
        let Some(os_index) = index(&name, "cpu") else { continue };
        // an offline CPU has no topology directory
        let package = number(root.read(&format!("{CPUS}/{name}/topology/physical_package_id")));
        let core = number(root.read(&format!("{CPUS}/{name}/topology/core_id")));
        if let (Some(package), Some(core)) = (package, core) {
            topology.pus.push(Pu { os_index, package, core });
        }
    }
}

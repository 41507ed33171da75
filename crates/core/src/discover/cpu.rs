//! NUMA nodes and logical CPUs from `/sys/devices/system` (Documentation/ABI/stable/sysfs-devices-node and
//! Documentation/ABI/stable/sysfs-devices-system-cpu in the kernel's tree).
#![forbid(unsafe_code)]

use super::{Root, Scope, number};
use crate::diagnostic::Diagnostic;
use crate::order::Order;
use crate::topology::file::MAX_NUMA_NODES;
use crate::topology::{CpuSet, NumaNode, Processor, Pu, Topology};

const NODES: &str = "sys/devices/system/node";
const CPUS: &str = "sys/devices/system/cpu";

/// `nodeN`, `cpuN` -> N
fn index(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

pub(super) fn numa_nodes(root: &Root, topology: &mut Topology, diagnostics: &mut Vec<Diagnostic>) {
    let mut names = root.list(NODES, |name| index(name, "node").is_some());
    if names.len() > MAX_NUMA_NODES {
        let finding = format!("{} NUMA nodes: only the first {MAX_NUMA_NODES} are used", names.len());
        diagnostics.push(Diagnostic::new(format!("/{NODES}"), finding));
        names.truncate(MAX_NUMA_NODES);
    }
    for name in names {
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
        let distances = distances.split_whitespace().take(MAX_NUMA_NODES + 1);
        let distances = distances.filter_map(|distance| distance.parse().ok()).collect();
        topology.numa_nodes.push(NumaNode { os_index, cpus, distances, package: None });
    }
    topology.numa_nodes.order_by_key(|node| node.os_index);
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

/// What the processors are; the kernel of an x86 has it always, others since they load modules by it.
pub(super) fn processor(root: &Root, topology: &mut Topology) {
    topology.processor =
        root.read(&format!("{CPUS}/modalias")).and_then(|text| Processor::from_modalias(&text));
}

/// What the kernel says of a CPU's package: nothing of an offline one, which has no topology directory, and -1 where it does
/// not know the packages (a guest's on POWER, by the default in include/linux/topology.h).
fn package(root: &Root, cpu: u32) -> Option<i64> {
    number(root.read(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id")))
}

/// The package of each NUMA node, for scopes without CPUs.
pub(super) fn packages(root: &Root, topology: &mut Topology) {
    for node in &mut topology.numa_nodes {
        let package = node.cpus.first().and_then(|cpu| package(root, cpu));
        node.package = package.and_then(|package| u32::try_from(package).ok());
    }
}

/// CPUs with their cores, and the NUMA nodes' packages.  Threads of one core have their package and core number in common, so
/// where each file counts they are read once for a core: two files and the list of its threads.
pub(super) fn pus(root: &Root, scope: Scope, topology: &mut Topology) {
    let mut known = CpuSet::new();
    for name in root.list(CPUS, |name| index(name, "cpu").is_some()) {
        let Some(os_index) = index(&name, "cpu") else { continue };
        if known.contains(os_index) {
            continue;
        }
        let file = |name_of_file: &str| root.read(&format!("{CPUS}/{name}/topology/{name_of_file}"));
        let Some(package) = package(root, os_index) else { continue };
        let mut threads: CpuSet = [os_index].into_iter().collect();
        if scope < Scope::Full {
            // `core_cpus_list` since Linux 5.3, by its older name on every kernel
            let list = file("thread_siblings_list").and_then(|list| CpuSet::from_list(&list).ok());
            threads = threads.union(&list.unwrap_or_default());
        }
        for node in &mut topology.numa_nodes {
            if node.cpus.first().is_some_and(|first| threads.contains(first)) {
                node.package = u32::try_from(package).ok();
            }
        }
        // a kernel that does not know the packages numbers the cores as if there were one
        let (Ok(package), Some(core)) = (u32::try_from(package.max(0)), number(file("core_id"))) else {
            continue;
        };
        let new = threads.iter().filter(|&thread| !known.contains(thread));
        topology.pus.extend(new.map(|os_index| Pu { os_index, package, core }));
        known = known.union(&threads);
    }
    topology.pus.order_by_key(|pu| pu.os_index);
}

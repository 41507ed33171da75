//! NUMA nodes and logical CPUs from `/sys/devices/system` (Documentation/ABI/stable/sysfs-devices-node and
//! Documentation/ABI/stable/sysfs-devices-system-cpu in the kernel's tree).
#![forbid(unsafe_code)]

use super::{Discovery, Root, Scope, number};
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::file::MAX_NUMA_NODES;
use nic_placement_topology::order::Order;
use nic_placement_topology::{CpuSet, NumaNode, Processor, Pu};
use std::collections::{BTreeMap, BTreeSet};

const NODES: &str = "sys/devices/system/node";
const CPUS: &str = "sys/devices/system/cpu";

/// `nodeN`, `cpuN` -> N
fn index(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

impl Discovery<'_> {
    pub(super) fn numa_nodes(&mut self) {
        let mut names = self.root.list(NODES, |name| index(name, "node").is_some());
        self.cut(&mut names, MAX_NUMA_NODES, "NUMA nodes", NODES);
        for name in names {
            let Some(os_index) = index(&name, "node") else {
                continue;
            };
            let file = |name_of_file: &str| {
                self.root
                    .read(&format!("{NODES}/{name}/{name_of_file}"))
                    .unwrap_or_default()
            };
            let distances = file("distance");
            let distances = distances.split_whitespace().take(MAX_NUMA_NODES + 1);
            let distances = distances
                .filter_map(|distance| distance.parse().ok())
                .collect();
            let cpus = CpuSet::from_list(&file("cpulist")).unwrap_or_else(|bad| {
                self.report(&format!("{NODES}/{name}/cpulist"), bad.to_string());
                CpuSet::new()
            });
            self.topology.numa_nodes.push(NumaNode {
                os_index,
                cpus,
                distances,
                package: None,
            });
        }
        self.topology.numa_nodes.order_by_key(|node| node.os_index);
        let count = self.topology.numa_nodes.len();
        let has_other_rows = |node: &&mut NumaNode| ![0, count].contains(&node.distances.len());
        // an offline node leaves a gap in the numbers but none in the rows
        for node in self.topology.numa_nodes.iter_mut().filter(has_other_rows) {
            let finding = format!(
                "{} distances for {count} nodes: not used",
                node.distances.len()
            );
            let place = format!("/{NODES}/node{}/distance", node.os_index);
            self.diagnostics.push(Diagnostic::new(place, finding));
            node.distances.clear();
        }
    }

    /// Reads `modalias`: kernels of x86 always have it, others since they load modules by it.
    pub(super) fn processor(&mut self) {
        let modalias = self.root.read(&format!("{CPUS}/modalias"));
        self.topology.processor = modalias.and_then(|text| Processor::from_modalias(&text));
    }

    pub(super) fn packages(&mut self) {
        for node in &mut self.topology.numa_nodes {
            let package = node.cpus.first().and_then(|cpu| package(self.root, cpu));
            node.package = package.and_then(|package| u32::try_from(package).ok());
        }
    }

    /// CPUs with their cores, and the NUMA nodes' packages.  In a step, where each file costs time, threads of one core
    /// share one read: two files and the list of its threads.
    pub(super) fn pus(&mut self) {
        let mut known = CpuSet::new();
        let mut found: Vec<(Pu, Option<CpuSet>)> = Vec::new();
        for name in self.root.list(CPUS, |name| index(name, "cpu").is_some()) {
            let Some(os_index) = index(&name, "cpu").filter(|&cpu| !known.contains(cpu)) else {
                continue;
            };
            let file = |name_of_file: &str| {
                self.root
                    .read(&format!("{CPUS}/{name}/topology/{name_of_file}"))
            };
            let Some(package) = package(self.root, os_index) else {
                continue;
            };
            // `core_cpus_list` since Linux 5.3, by its older name on every kernel
            let listed =
                file("thread_siblings_list").and_then(|list| CpuSet::from_list(&list).ok());
            let mut threads: CpuSet = [os_index].into_iter().collect();
            if let Some(listed) = listed.as_ref().filter(|_| self.scope < Scope::Full) {
                threads = threads.union(listed);
            }
            for node in &mut self.topology.numa_nodes {
                if node
                    .cpus
                    .first()
                    .is_some_and(|first| threads.contains(first))
                {
                    node.package = u32::try_from(package).ok();
                }
            }
            // a kernel that does not know the packages numbers the cores as if there were one
            let (Ok(package), Some(core)) =
                (u32::try_from(package.max(0)), number(file("core_id")))
            else {
                continue;
            };
            let new = threads.iter().filter(|&thread| !known.contains(thread));
            found.extend(new.map(|os_index| {
                (
                    Pu {
                        os_index,
                        package,
                        core,
                    },
                    listed.clone(),
                )
            }));
            known = known.union(&threads);
        }
        found.order_by_key(|(pu, _)| pu.os_index);
        tell_cores_apart(&mut found);
        self.topology.pus = found.into_iter().map(|(pu, _)| pu).collect();
    }
}

/// The kernel's number of a CPU's package; an offline CPU has no topology directory, and -1 means that the kernel knows
/// no packages (a guest's on POWER, by the default in include/linux/topology.h).
fn package(root: &Root, cpu: u32) -> Option<i64> {
    number(root.read(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id")))
}

/// Gives a core its own number if another core of its package has the same; each CPU's list names the CPUs of its core.
///
/// Numbers repeat where a device tree describes the processor, in each of its clusters (`parse_cluster`,
/// drivers/base/arch_topology.c, since Linux 6.0), and before 6.1 on an x86 of several dies.
fn tell_cores_apart(pus: &mut [(Pu, Option<CpuSet>)]) {
    let mut taken: BTreeSet<(u32, u32)> = pus.iter().map(|(pu, _)| (pu.package, pu.core)).collect();
    let mut free: BTreeMap<u32, u32> = BTreeMap::new();
    // by the number that the kernel gives: the cores that have it, with the numbers that they have here
    let mut cores: BTreeMap<(u32, u32), Vec<(u32, CpuSet)>> = BTreeMap::new();
    for (pu, listed) in pus {
        let same = cores.entry((pu.package, pu.core)).or_default();
        let is_mine = |cpus: &CpuSet| listed.as_ref().is_none_or(|listed| listed.intersects(cpus));
        let mine = same
            .iter()
            .position(|(_, cpus)| is_mine(cpus))
            .unwrap_or_else(|| {
                let mut core = pu.core;
                if !same.is_empty() {
                    let next = free.entry(pu.package).or_default();
                    while !taken.insert((pu.package, *next)) {
                        *next += 1;
                    }
                    core = *next;
                }
                same.push((core, CpuSet::new()));
                same.len() - 1
            });
        let (core, cpus) = &mut same[mine];
        cpus.insert(pu.os_index);
        pu.core = *core;
    }
}

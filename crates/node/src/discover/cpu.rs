//! NUMA nodes and CPUs from `/sys/devices/system` (the kernel's
//! Documentation/ABI/stable/sysfs-devices-node and sysfs-devices-system-cpu).

use super::{Discovery, Root, Scope, number};
use nic_placement_topology::file::MAX_NUMA_NODES;
use nic_placement_topology::order::Order;
use nic_placement_topology::{CpuSet, NumaNode, Processor, Pu};
use std::collections::{BTreeMap, BTreeSet};

const NODES: &str = "sys/devices/system/node";
const CPUS: &str = "sys/devices/system/cpu";

/// The N of `nodeN` or `cpuN`.
fn index(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    // `parse` alone would accept `+1`
    digits
        .starts_with(|first: char| first.is_ascii_digit())
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
            let file = |file: &str| self.root.read(&format!("{NODES}/{name}/{file}"));
            let distances = file("distance").unwrap_or_default();
            let distances = distances.split_whitespace().take(MAX_NUMA_NODES + 1);
            let cpus = CpuSet::from_list(&file("cpulist").unwrap_or_default());
            let cpus = cpus.unwrap_or_else(|bad| {
                self.report(&format!("{NODES}/{name}/cpulist"), bad.to_string());
                CpuSet::new()
            });
            self.node.numa_nodes.push(NumaNode {
                os_index,
                cpus,
                distances: distances.filter_map(|text| text.parse().ok()).collect(),
                package: None,
            });
        }
        self.node.numa_nodes.order_by_key(|node| node.os_index);
        let count = self.node.numa_nodes.len();
        // an offline NUMA node has no directory and no column in `distance`
        for at in 0..count {
            let node = &mut self.node.numa_nodes[at];
            let (os_index, distances) = (node.os_index, node.distances.len());
            if ![0, count].contains(&distances) {
                node.distances.clear();
                self.report(
                    &format!("{NODES}/node{os_index}/distance"),
                    format!("{distances} distances for {count} nodes: not used"),
                );
            }
        }
    }

    /// Reads the processor from `modalias`, a file of all x86 kernels, and of others with
    /// CONFIG_GENERIC_CPU_AUTOPROBE.
    pub(super) fn processor(&mut self) {
        let modalias = self.root.read(&format!("{CPUS}/modalias"));
        self.node.processor = modalias.and_then(|text| Processor::from_modalias(&text));
    }

    pub(super) fn packages(&mut self) {
        for node in &mut self.node.numa_nodes {
            let package = node.cpus.first().and_then(|cpu| package(self.root, cpu));
            node.package = package.and_then(|package| u32::try_from(package).ok());
        }
    }

    /// Reads CPUs with their cores, and the packages of NUMA nodes. Below [`Scope::Full`], reads
    /// only one thread's files per core, because each file delays the step.
    pub(super) fn pus(&mut self) {
        let mut known = CpuSet::new();
        let mut found: Vec<(Pu, Option<CpuSet>)> = Vec::new();
        for name in self.root.list(CPUS, |name| index(name, "cpu").is_some()) {
            let Some(cpu) = index(&name, "cpu").filter(|&cpu| !known.contains(cpu)) else {
                continue;
            };
            let Some(package) = package(self.root, cpu) else {
                continue;
            };
            let file = |file: &str| self.root.read(&format!("{CPUS}/{name}/topology/{file}"));
            // every kernel has this file; Linux 5.3 added the same list as `core_cpus_list`
            let listed = file("thread_siblings_list");
            let listed = listed.and_then(|list| CpuSet::from_list(&list).ok());
            let mut threads: CpuSet = [cpu].into_iter().collect();
            if let Some(listed) = listed.as_ref().filter(|_| self.scope < Scope::Full) {
                threads.add(listed);
            }
            for node in &mut self.node.numa_nodes {
                let first = node.cpus.first();
                if first.is_some_and(|first| threads.contains(first)) {
                    node.package = u32::try_from(package).ok();
                }
            }
            // a kernel that knows no packages reports -1, and numbers cores as if in one package
            let (Ok(package), Some(core)) =
                (u32::try_from(package.max(0)), number(file("core_id")))
            else {
                continue;
            };
            for os_index in threads.iter().filter(|&thread| !known.contains(thread)) {
                let pu = Pu {
                    os_index,
                    package,
                    core,
                };
                found.push((pu, listed.clone()));
            }
            known.add(&threads);
        }
        found.order_by_key(|(pu, _)| pu.os_index);
        separate_cores(&mut found);
        self.node.pus = found.into_iter().map(|(pu, _)| pu).collect();
    }
}

/// `physical_package_id`: absent for an offline CPU, -1 if the kernel knows no packages (the
/// default of include/linux/topology.h, as in a guest on POWER).
fn package(root: &Root, cpu: u32) -> Option<i64> {
    number(root.read(&format!("{CPUS}/cpu{cpu}/topology/physical_package_id")))
}

/// Renumbers cores of a package that share a `core_id`. `pus` has each CPU with its core's threads.
///
/// `core_id` repeats in each cluster of a device tree from Linux 6.0 on (`parse_cluster`,
/// drivers/base/arch_topology.c), and in each die of an x86 package before Linux 6.1.
fn separate_cores(pus: &mut [(Pu, Option<CpuSet>)]) {
    let mut taken: BTreeSet<(u32, u32)> = pus.iter().map(|(pu, _)| (pu.package, pu.core)).collect();
    let mut free: BTreeMap<u32, u32> = BTreeMap::new();
    // by package and `core_id`: the cores, each with its new number and CPUs
    let mut cores: BTreeMap<(u32, u32), Vec<(u32, CpuSet)>> = BTreeMap::new();
    for (pu, listed) in pus {
        let same = cores.entry((pu.package, pu.core)).or_default();
        let is_own = |(_, cpus): &(u32, CpuSet)| {
            listed.as_ref().is_none_or(|listed| listed.intersects(cpus))
        };
        let own = same.iter().position(is_own).unwrap_or_else(|| {
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
        let (core, cpus) = &mut same[own];
        cpus.insert(pu.os_index);
        pu.core = *core;
    }
}

//! Reads a process's memory policy, sets that and its CPU affinity, then reads both back.
#![forbid(unsafe_code)]

use nic_placement_core::placement::{CpuDecision, MemDecision, TaskPlacement};
use nic_placement_core::step::Memory;
use nic_placement_core::topology::Topology;
use nic_placement_node::discover::Root;
use nic_placement_sys::{self as sys, Balancing, MemoryPolicy};
use std::io;

/// The memory of this process before we change it; with `in_a_placed_step` a preference of NUMA nodes counts as that
/// step's, and so as ours.
pub fn memory(in_a_placed_step: bool) -> Memory {
    let (ours, taken) = match sys::memory_policy() {
        Ok(MemoryPolicy::Default) => (None, None),
        Ok(MemoryPolicy::Prefer(nodes)) if in_a_placed_step => (Some(nodes), None),
        Ok(_) => (None, Some("a memory policy was set before".to_string())),
        Err(error) => (
            None,
            Some(format!("the memory policy cannot be read: {error}")),
        ),
    };
    Memory {
        taken,
        ours,
        allowed: sys::allowed_memory().ok(),
    }
}

/// True if the kernel moves pages between fast and slow memory (Documentation/admin-guide/sysctl/kernel.rst,
/// `numa_balancing`, 2).
fn balancing(node: &Topology) -> Balancing {
    let has_slow_memory = node.numa_nodes.iter().any(|node| node.cpus.is_empty());
    let value = || {
        Root::live()
            .read("proc/sys/kernel/numa_balancing")?
            .trim()
            .parse::<u32>()
            .ok()
    };
    match has_slow_memory && value().is_some_and(|value| value & 2 != 0) {
        true => Balancing::AsWithoutPolicy,
        // between equal nodes it would only take memory away from where the task runs
        false => Balancing::Not,
    }
}

/// Sets CPUs, then memory, since the kernel takes memory where the task runs.  Returns why the memory policy stays, if this
/// kernel has none such.
pub(crate) fn apply(
    placement: &TaskPlacement,
    node: &Topology,
    failures: &mut Vec<String>,
) -> Option<String> {
    if let CpuDecision::Set { cpus, .. } = &placement.cpus {
        match sys::set_affinity(cpus).and_then(|()| sys::affinity()) {
            Ok(got) if got == *cpus => {}
            Ok(got) => failures.push(format!("CPUs {cpus} wanted, {got} got")),
            Err(error) => failures.push(format!("CPUs {cpus} wanted: {error}")),
        }
    }
    let (wanted, set) = match &placement.mems {
        MemDecision::Keep { .. } => return None,
        MemDecision::Prefer { nodes, .. } => (
            MemoryPolicy::Prefer(nodes.clone()),
            sys::prefer_memory(nodes, balancing(node)),
        ),
        MemDecision::Fence { nodes, .. } => (
            MemoryPolicy::Fence(nodes.clone()),
            sys::fence_memory(nodes, balancing(node)),
        ),
    };
    match set.and_then(|()| sys::memory_policy()) {
        // the kernel silently drops nodes that have no memory or are not in the cpuset
        Ok(got) if got == wanted => {}
        Ok(got) => failures.push(format!("memory: {wanted} wanted, {got} got")),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Some(error.to_string()),
        Err(error) => failures.push(format!("memory: {wanted} wanted: {error}")),
    }
    None
}

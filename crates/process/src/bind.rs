//! Reads this process's memory policy; sets its CPUs and memory, and reads both back.

use nic_placement_core::placement::TaskPlacement;
use nic_placement_core::step::Memory;
use nic_placement_core::topology::Topology;
use nic_placement_node::discover::Root;
use nic_placement_sys::{self as sys, Balancing, MemoryPolicy};
use std::{fmt, io};

/// This process's memory policy before placement. With `in_a_placed_step`, a policy that prefers
/// NUMA nodes is the plugin's, and `ours` has the nodes.
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

/// [`Balancing::AsWithoutPolicy`] if a NUMA node has no CPUs (slow memory) and the kernel moves
/// pages to and from it (`numa_balancing` 2, Documentation/admin-guide/sysctl/kernel.rst).
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
        // pages stay on the policy's NUMA nodes
        false => Balancing::Not,
    }
}

fn differing<T: PartialEq + fmt::Display>(
    what: &str,
    wanted: &T,
    got: io::Result<T>,
) -> Option<String> {
    match got {
        Ok(got) if got == *wanted => None,
        Ok(got) => Some(format!("{what} {wanted} wanted, {got} got")),
        Err(error) => Some(format!("{what} {wanted} wanted: {error}")),
    }
}

/// Sets CPUs before memory, since the kernel allocates memory near the task's CPU.
pub(crate) fn apply(placement: &mut TaskPlacement, node: &Topology) {
    let TaskPlacement {
        cpus,
        moves,
        mems,
        fences,
        notes,
        ..
    } = placement;
    if *moves {
        let got = sys::set_affinity(cpus).and_then(|()| sys::affinity());
        notes.failures.extend(differing("CPUs", cpus, got));
    }
    if mems.is_empty() {
        return;
    }
    let (nodes, balancing) = (mems.clone(), balancing(node));
    let (wanted, set) = match fences {
        true => (
            MemoryPolicy::Fence(nodes),
            sys::fence_memory(mems, balancing),
        ),
        false => (
            MemoryPolicy::Prefer(nodes),
            sys::prefer_memory(mems, balancing),
        ),
    };
    // the kernel silently drops nodes that have no memory or are not in the cpuset
    match set.and_then(|()| sys::memory_policy()) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            notes.leave_memory(error);
            notes.memory_stays = true;
        }
        got => notes.failures.extend(differing("memory:", &wanted, got)),
    }
}

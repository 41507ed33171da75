//! Sets a process's CPU affinity and memory policy, then reads both back.
#![forbid(unsafe_code)]

use nic_placement_core::placement::{CpuDecision, MemDecision, TaskPlacement};
use nic_placement_sys::{self as sys, MemoryPolicy};
use std::io;

/// Sets both, CPUs first, since the kernel takes memory where the task runs; returns what did not take.
pub fn apply(placement: &mut TaskPlacement) -> Vec<String> {
    let mut failures = Vec::new();
    if let CpuDecision::Set { cpus, .. } = &placement.cpus {
        match sys::set_affinity(cpus).and_then(|()| sys::affinity()) {
            Ok(got) if got == *cpus => {}
            Ok(got) => failures.push(format!("CPUs {cpus} wanted, {got} got")),
            Err(error) => failures.push(format!("CPUs {cpus} wanted: {error}")),
        }
    }
    let (wanted, set) = match &placement.mems {
        MemDecision::Keep { .. } => return failures,
        MemDecision::Prefer { nodes, .. } => (MemoryPolicy::Prefer(nodes.clone()), sys::prefer_memory(nodes)),
        MemDecision::Fence { nodes, .. } => (MemoryPolicy::Fence(nodes.clone()), sys::fence_memory(nodes)),
    };
    match set.and_then(|()| sys::memory_policy()) {
        // the kernel silently drops nodes that have no memory or are not in the cpuset
        Ok(got) if got == wanted => {}
        Ok(got) => failures.push(format!("memory: {wanted} wanted, {got} got")),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => placement.keep_memory(error.to_string()),
        Err(error) => failures.push(format!("memory: {wanted} wanted: {error}")),
    }
    failures
}

//! Sets a task's CPU affinity and memory policy, then reads both back.
#![forbid(unsafe_code)]

use crate::placement::{CpuDecision, MemDecision, TaskPlacement};
use crate::sys::{self, MemoryPolicy};
use std::io;

/// Holds the wish against what the task may have: an earlier policy (of a site's wrapper around slurmd, or of a plugin
/// before us) is somebody's choice, and nodes outside the cpuset can give it no memory.
pub(super) fn settle_memory(placement: &mut TaskPlacement) {
    let Some(nodes) = placement.mems.nodes().cloned() else { return };
    match sys::memory_policy() {
        Ok(MemoryPolicy::Default) => {}
        Ok(_) => return keep(placement, "a memory policy was set before".to_string()),
        Err(error) => return keep(placement, format!("the memory policy cannot be read: {error}")),
    }
    // where the cpuset cannot be asked for, the kernel tells by what it takes
    let Ok(allowed) = sys::allowed_memory() else { return };
    let left = nodes.intersection(&allowed);
    if left.is_empty() {
        let why = format!("NUMA node {nodes} is outside the cpuset, whose memory is on {allowed}");
        let missed = format!("memory: {why}");
        placement.missed = Some(match placement.missed.take() {
            Some(earlier) => format!("{earlier}; {missed}"),
            None => missed,
        });
        return keep(placement, why);
    }
    if left != nodes {
        let note = format!("memory: of NUMA nodes {nodes} only {left} are in the cpuset");
        placement.reasons.push(note);
        match &mut placement.mems {
            MemDecision::Prefer { nodes, .. } | MemDecision::Fence { nodes, .. } => *nodes = left,
            MemDecision::Keep { .. } => {}
        }
    }
}

fn keep(placement: &mut TaskPlacement, why: String) {
    placement.reasons.push(format!("memory: left alone, {why}"));
    placement.mems = MemDecision::Keep { why };
}

/// Sets both, CPUs first, since the kernel takes memory where the task runs; returns what did not take.
pub(super) fn apply(placement: &mut TaskPlacement) -> Vec<String> {
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
        Err(error) if error.kind() == io::ErrorKind::Unsupported => keep(placement, error.to_string()),
        Err(error) => failures.push(format!("memory: {wanted} wanted: {error}")),
    }
    failures
}

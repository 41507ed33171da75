//! A task's memory policy: the NUMA nodes of its CPUs and GPUs, if these are near each other.
//!
//! MPOL_PREFERRED_MANY tries the node nearest to the allocating CPU first
//! (Documentation/admin-guide/mm/numa_memory_policy.rst).  A task that also runs on other sockets
//! keeps the kernel's default, memory where the thread runs: a preference would make some threads'
//! memory remote.
#![forbid(unsafe_code)]

use super::{NearNodes, Situation, asked_for, bound_by_program, numa_nodes};
use crate::placement::{Bind, CpuDecision, Mem, MemDecision};
use crate::policy::ladder::Ladder;
use crate::step::Memory;

/// The sentence on a memory policy that stays after all.
pub(crate) fn left_alone(why: &str) -> String {
    format!("memory: left alone, {why}")
}

/// The decision within the task's memory, a note on what it loses, and what the task cannot have.
///
/// Another program's policy stays: a site's wrapper around slurmd or a plugin before this one set
/// it on purpose.  Our own policy may only lose nodes.  Nodes outside the cpuset give no memory; if
/// the cpuset is unknown, the kernel accepts or refuses the nodes.
pub(crate) fn limited(
    mut mems: MemDecision,
    memory: &Memory,
) -> (MemDecision, Option<String>, Option<String>) {
    let (MemDecision::Prefer { nodes, .. } | MemDecision::Fence { nodes, .. }) = &mut mems else {
        return (mems, None, None);
    };
    let allowed = memory.allowed.as_ref().unwrap_or(nodes);
    let left = nodes.intersection(allowed);
    let (why, missed) = match (&memory.taken, &memory.ours) {
        (Some(why), _) => (why.clone(), None),
        (_, Some(ours)) if !nodes.is_subset(ours) => {
            let why = "the placed step around it prefers other NUMA nodes";
            (why.to_string(), None)
        }
        _ if left.is_empty() => {
            let why =
                format!("NUMA node {nodes} is outside the cpuset, whose memory is on {allowed}");
            let missed = format!("memory: {why}");
            (why, Some(missed))
        }
        _ if left == *nodes => return (mems, None, None),
        _ => {
            let note = format!("memory: of NUMA nodes {nodes} only {left} are in the cpuset");
            *nodes = left;
            return (mems, Some(note), None);
        }
    };
    let note = left_alone(&why);
    (MemDecision::Keep { why }, Some(note), missed)
}

pub(super) fn decided(
    situation: &Situation,
    near: &Result<NearNodes, String>,
    cpus: &CpuDecision,
) -> MemDecision {
    let Situation {
        topology: node,
        step,
        wish,
        ..
    } = situation;
    let keep = |why: &str| MemDecision::Keep { why: why.into() };
    if let Some(how) = &step.mem_bind {
        return keep(&asked_for("mem-bind", how));
    }
    if let Some(why) = bound_by_program(step) {
        return keep(&why);
    }
    if wish.mem == Mem::None {
        return keep(match wish.bind {
            Bind::None => "`bind=none`",
            _ => "`mem=none`",
        });
    }
    let near = match near {
        Ok(near) => near,
        Err(why) => return keep(why),
    };
    let ladder = Ladder::around(node, &near.nodes);
    let rungs = ladder.rungs();
    let reached = ladder.rung_of(cpus.cpus());
    let runs_on = node.nodes_of(cpus.cpus());
    let own = near.nodes.intersection(&runs_on);
    let nodes = if (1..rungs.len() - 1).contains(&reached) {
        // on the GPU's socket, but not its NUMA node; without NUMA nodes that have no CPUs, which
        // hold GPU memory on Grace
        let with_cpus = near.nodes.intersection(&node.nodes_of(&node.cpus()));
        rungs[reached]
            .nodes
            .intersection(&runs_on)
            .union(&with_cpus)
    } else if reached > 0
        && !own.is_empty()
        // both ask for it, though threads on other sockets then have remote memory
        && wish.mem != Mem::Strict
        && wish.bind != Bind::None
    {
        return keep("it runs on other sockets than its GPU's too");
    } else {
        own
    };
    if nodes.is_empty() {
        return keep("it does not run near its GPU");
    }
    let whose = match near.of_gpus {
        true if reached == 0 => "of its GPU",
        true => "of its GPU and of its CPUs",
        false => "on which it runs",
    };
    let text = format!("{} {whose}", numa_nodes(&nodes));
    match wish.mem {
        Mem::Strict => MemDecision::Fence {
            why: format!("{text} alone, as `mem=strict` asks"),
            nodes,
        },
        _ => MemDecision::Prefer {
            why: format!("{text} first"),
            nodes,
        },
    }
}

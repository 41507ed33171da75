//! Where a task's memory comes from: the NUMA nodes of its CPUs and of its GPUs, if these are near each other.
//!
//! MPOL_PREFERRED_MANY tries the node nearest to the allocating CPU first
//! (Documentation/admin-guide/mm/numa_memory_policy.rst).  A task that also runs on other sockets keeps the kernel's default:
//! each thread gets memory where it runs.  A preference would make memory remote for some threads.
#![forbid(unsafe_code)]

use super::{MAX_SHOWN, NearNodes, Situation, bound_by_program, numa_nodes};
use crate::diagnostic::Shown;
use crate::placement::{Bind, CpuDecision, Mem, MemDecision};
use crate::policy::ladder::Ladder;
use crate::step::Memory;
use crate::topology::NodeSet;

/// The sentence on a memory policy that stays as it is after all.
pub(crate) fn left_alone(why: &str) -> String {
    format!("memory: left alone, {why}")
}

/// Limits the decision to the task's memory; returns a note on that, and what the task cannot have.
///
/// A memory policy that another program set stays: a site's wrapper around slurmd, or a plugin before us, set it on
/// purpose.  A policy of ours may only lose nodes.  Nodes outside the cpuset give no memory.
pub(crate) fn limited(
    mut mems: MemDecision,
    memory: &Memory,
) -> (MemDecision, Option<String>, Option<String>) {
    let (MemDecision::Prefer { nodes, .. } | MemDecision::Fence { nodes, .. }) = &mut mems else {
        return (mems, None, None);
    };
    // if the cpuset is unknown, the kernel accepts or refuses the nodes
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

/// The memory policy by the CPUs that were decided.
pub(super) fn decided(
    situation: &Situation,
    near: &Result<NearNodes, String>,
    cpus: &CpuDecision,
) -> MemDecision {
    let Situation {
        topology,
        step,
        wish,
        ..
    } = situation;
    let keep = |why: String| MemDecision::Keep { why };
    if let Some(how) = &step.mem_bind {
        return keep(format!(
            "`--mem-bind={}` was asked for",
            Shown::word(how, MAX_SHOWN)
        ));
    }
    if let Some(why) = bound_by_program(step) {
        return keep(why);
    }
    if wish.mem == Mem::None {
        return keep(
            if wish.bind == Bind::None {
                "`bind=none`"
            } else {
                "`mem=none`"
            }
            .to_string(),
        );
    }
    let near = match near {
        Ok(near) => near,
        Err(why) => return keep(why.clone()),
    };
    let ladder = Ladder::around(topology, &near.nodes);
    let rungs = ladder.rungs();
    let reached = ladder.rung_of(cpus.cpus());
    let runs_on = |node: &u32| {
        topology
            .numa_node(*node)
            .is_some_and(|node| node.cpus.intersects(cpus.cpus()))
    };
    let has_cpus = |node: &u32| {
        topology
            .numa_node(*node)
            .is_some_and(|node| !node.cpus.is_empty())
    };
    // leave out nodes without CPUs: they hold GPU memory on Grace
    let gpus_own: NodeSet = near.nodes.iter().filter(runs_on).collect();
    let nodes: NodeSet = match reached {
        0 => gpus_own,
        // on the GPU's socket, but not on its NUMA node
        near_by if near_by + 1 < rungs.len() => {
            let where_it_runs = rungs[near_by].nodes.iter().filter(runs_on);
            where_it_runs
                .chain(near.nodes.iter().filter(has_cpus))
                .collect()
        }
        // `mem=strict`, or `mem` beside `bind=none`, asks for it although threads on other sockets get remote memory then
        _ if wish.mem == Mem::Strict || wish.bind == Bind::None => gpus_own,
        _ if gpus_own.is_empty() => NodeSet::new(),
        _ => return keep("it runs on other sockets than its GPU's too".to_string()),
    };
    if nodes.is_empty() {
        return keep("it does not run near its GPU".to_string());
    }
    let whose = match near.of_gpus {
        true if reached == 0 => "of its GPU",
        true => "of its GPU and of its CPUs",
        false => "on which it runs",
    };
    match wish.mem {
        Mem::Strict => MemDecision::Fence {
            why: format!("{} {whose} alone, as `mem=strict` asks", numa_nodes(&nodes)),
            nodes,
        },
        _ => MemDecision::Prefer {
            why: format!("{} {whose} first", numa_nodes(&nodes)),
            nodes,
        },
    }
}

//! A task's memory policy: the NUMA nodes of its CPUs and GPUs, if the CPUs are on the GPUs'
//! socket.
//!
//! MPOL_PREFERRED_MANY tries the node nearest to the allocating CPU first
//! (Documentation/admin-guide/mm/numa_memory_policy.rst). A task with CPUs on other sockets too
//! keeps the kernel's default, memory on the thread's node: a preference would make the memory of
//! threads there remote.

use super::{NearNodes, Situation, asked_for, bound_by_program, numa_nodes};
use crate::placement::{Bind, Mem, Notes};
use crate::policy::ladder::Ladder;
use crate::step::Memory;
use crate::topology::{CpuSet, NodeSet};

/// The part of `nodes` that the task's cpuset and present policy allow; if empty, the present
/// policy stays.
///
/// Another program's policy stays, since a site's wrapper around slurmd or an earlier plugin set it
/// on purpose. In a step that this plugin placed, new nodes must be a subset of that step's. Nodes
/// outside the cpuset give no memory; if the cpuset is unknown, the kernel accepts or refuses the
/// nodes.
pub(super) fn limited(nodes: NodeSet, memory: &Memory, notes: &mut Notes) -> NodeSet {
    let allowed = memory.allowed.as_ref().unwrap_or(&nodes);
    let left = nodes.intersection(allowed);
    let why = match (&memory.taken, &memory.ours) {
        _ if nodes.is_empty() => return nodes,
        (Some(why), _) => why.clone(),
        (_, Some(ours)) if !nodes.is_subset(ours) => {
            "the placed step around it prefers other NUMA nodes".to_string()
        }
        _ if left.is_empty() => {
            let why =
                format!("NUMA node {nodes} is outside the cpuset, whose memory is on {allowed}");
            notes.missed.push(format!("memory: {why}"));
            why
        }
        _ => {
            if left != nodes {
                let part = format!("memory: of NUMA nodes {nodes} only {left} are in the cpuset");
                notes.reasons.push(part);
            }
            return left;
        }
    };
    notes.leave_memory(why);
    NodeSet::new()
}

/// The NUMA nodes of the new policy, and the reason; the error says why the present policy stays.
pub(super) fn decided(
    situation: &Situation,
    near: &Result<NearNodes, String>,
    cpus: &CpuSet,
) -> Result<(NodeSet, String), String> {
    let Situation {
        topology: node,
        step,
        wish,
        ..
    } = situation;
    if let Some(how) = &step.mem_bind {
        return Err(asked_for("mem-bind", how));
    }
    bound_by_program(step)?;
    if wish.mem == Mem::None {
        return Err(match wish.bind {
            Bind::None => "`bind=none`".into(),
            _ => "`mem=none`".into(),
        });
    }
    let near = near.as_ref().map_err(String::clone)?;
    let ladder = Ladder::around(node, &near.nodes);
    let rungs = ladder.rungs();
    let reached = ladder.rung_of(cpus);
    let runs_on = node.nodes_of(cpus);
    let own = near.nodes.intersection(&runs_on);
    let nodes = if (1..rungs.len() - 1).contains(&reached) {
        // with sub-NUMA clusters some of `cpus` are on other NUMA nodes of the GPU's socket. Near
        // nodes without CPUs are omitted, since on Grace they are GPU memory
        let with_cpus = near.nodes.intersection(&node.nodes_of(&node.cpus()));
        rungs[reached]
            .nodes
            .intersection(&runs_on)
            .union(&with_cpus)
    } else if reached > 0
        && !own.is_empty()
        // `mem=strict`, or `mem=prefer` with `bind=none`, asks for the policy even if threads on
        // other sockets get remote memory
        && wish.mem != Mem::Strict
        && wish.bind != Bind::None
    {
        return Err("it runs on other sockets than its GPU's too".into());
    } else {
        own
    };
    if nodes.is_empty() {
        return Err("it does not run near its GPU".into());
    }
    let whose = match near.of_gpus {
        true if reached == 0 => "of its GPU",
        true => "of its GPU and of its CPUs",
        false => "on which it runs",
    };
    let how = match wish.mem {
        Mem::Strict => "alone, as `mem=strict` asks",
        _ => "first",
    };
    let why = format!("{} {whose} {how}", numa_nodes(&nodes));
    Ok((nodes, why))
}

//! Where a task may run and where its memory comes from, never beyond what Slurm gave the step.
#![forbid(unsafe_code)]

use super::cores::{self, Share};
use super::gpuless;
use crate::placement::{Bind, Binding, CpuDecision, Mem, MemDecision, TaskPlacement};
use crate::step::{Memory, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, Topology};

/// What is known when a task is bound.
pub struct Situation<'a> {
    /// the node
    pub topology: &'a Topology,
    /// the step
    pub step: &'a Step,
    /// the task
    pub task: &'a Task,
    /// its GPUs
    pub gpus: &'a [GpuIndex],
    /// what the user and the admin want bound
    pub binding: Binding,
}

/// What becomes of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// where it may run
    pub cpus: CpuDecision,
    /// where its memory comes from
    pub mems: MemDecision,
    /// what was wanted and cannot be had
    pub missed: Option<String>,
}

/// Decides both; memory follows the CPUs.
pub fn bind(situation: &Situation) -> Bound {
    let near = near(situation);
    let (cpus, missed) = cpus(situation, &near);
    let mems = mems(situation, &near, &cpus);
    Bound { cpus, mems, missed }
}

/// The NUMA nodes to be near to.
struct Near {
    nodes: NodeSet,
    /// are they those of the task's GPUs, and not a part of the step's?
    of_gpus: bool,
}

impl Near {
    /// `NUMA node 0, with its GPU`
    fn described(&self) -> String {
        match self.of_gpus {
            true => format!("NUMA node {}, with its GPU", self.nodes),
            false => format!("NUMA node {}, its part of the step's", self.nodes),
        }
    }
}

/// Those of the task's GPUs; without GPUs its part of the step's; or why there are none.
fn near(situation: &Situation) -> Result<Near, String> {
    let Situation { topology, step, task, gpus, binding } = situation;
    if !topology.provenance.is_this_system() && !binding.trust {
        return Err(format!("the topology is not this system's: {}", topology.provenance));
    }
    if gpus.is_empty() {
        // who chose the CPUs chose the nodes too
        let asked = binding.asked && binding.bind != Bind::None && step.cpu_bind.is_none();
        return Ok(Near { nodes: gpuless::nodes(topology, step, task, asked)?, of_gpus: false });
    }
    let nodes = gpus.iter().map(|&gpu| topology.numa_node_of(topology.gpu(gpu).address));
    let nodes = nodes.collect::<Option<NodeSet>>();
    let nodes = nodes.ok_or_else(|| "the kernel names no NUMA node for its GPU".to_string())?;
    Ok(Near { nodes, of_gpus: true })
}

fn cpus(situation: &Situation, near: &Result<Near, String>) -> (CpuDecision, Option<String>) {
    let Situation { topology, step, task, binding, .. } = situation;
    let keep = |why: String| (CpuDecision::Keep { cpus: task.cpus.clone(), why }, None);
    if let Some(how) = &step.cpu_bind {
        return keep(format!("`--cpu-bind={how}` was asked for"));
    }
    if binding.bind == Bind::None {
        return keep("`bind=none`".to_string());
    }
    let near = match near {
        Ok(near) => near,
        Err(why) => return keep(why.clone()),
    };
    if task.cpus.is_empty() {
        return keep("its affinity could not be read".to_string());
    }
    // of a launcher's ranks nobody knows which will use which GPU
    if near.of_gpus && near.nodes.len() > 1 && (binding.bind == Bind::Numa || step.tasks_here() == 1) {
        return keep(format!("its GPUs span NUMA nodes {}", near.nodes));
    }
    let near_cpus = topology.cpus_of(&near.nodes);
    if near_cpus.is_empty() {
        return keep(format!("NUMA node {} of its GPU has no CPU", near.nodes));
    }
    if binding.bind == Bind::Core {
        return match cores::share(topology, step, task, &near.nodes) {
            Share::Own(cpus, how) => own_cores(situation, near, cpus, how),
            Share::Undivided(why) => {
                let missed = format!("`bind=core` cannot be had: {why}");
                let (decision, more) = on_nodes(situation, near);
                (decision, Some(more.map_or(missed.clone(), |more| format!("{missed}; {more}"))))
            }
        };
    }
    on_nodes(situation, near)
}

/// `bind=core`, where the step's cores can be divided.
fn own_cores(situation: &Situation, near: &Near, cpus: CpuSet, how: &str) -> (CpuDecision, Option<String>) {
    let Situation { topology, task, .. } = situation;
    let near_cpus = topology.cpus_of(&near.nodes);
    let is_near = cpus.intersects(&near_cpus);
    let missed = (!is_near).then(|| match task.step_cpus.intersects(&near_cpus) {
        true => {
            format!("the step's cores on NUMA node {} are other tasks'; `bind=numa` shares them", near.nodes)
        }
        false => out_of_reach(near),
    });
    let decision = match (missed.clone(), cpus == task.cpus) {
        (Some(why), true) => CpuDecision::OutOfReach { cpus, why },
        (None, true) => CpuDecision::Keep { cpus, why: format!("{how}, on {}", near.described()) },
        (None, false) => CpuDecision::Set { cpus, why: format!("{how}, on {}", near.described()) },
        (Some(why), false) => CpuDecision::Set { cpus, why: format!("{how}; {why}") },
    };
    (decision, missed)
}

/// `bind=numa`: all of the step's CPUs on the near nodes that the task has, or could have.
fn on_nodes(situation: &Situation, near: &Near) -> (CpuDecision, Option<String>) {
    let Situation { topology, task, .. } = situation;
    let near_cpus = topology.cpus_of(&near.nodes);
    if task.cpus.is_subset(&near_cpus) {
        let cpus = task.cpus.clone();
        return (CpuDecision::Keep { cpus, why: format!("already on {}", near.described()) }, None);
    }
    let part = task.cpus.intersection(&near_cpus);
    if !part.is_empty() {
        return (CpuDecision::Set { cpus: part, why: format!("narrowed to {}", near.described()) }, None);
    }
    let step_near = task.step_cpus.intersection(&near_cpus);
    if !step_near.is_empty() {
        let why = format!("moved to the step's CPUs on {}", near.described());
        return (CpuDecision::Set { cpus: step_near, why }, None);
    }
    let why = out_of_reach(near);
    (CpuDecision::OutOfReach { cpus: task.cpus.clone(), why: why.clone() }, Some(why))
}

/// Holds the wish against what the task may have: an earlier policy (of a site's wrapper around slurmd, or of a plugin
/// before us) is somebody's choice, and nodes outside the cpuset can give it no memory.
pub fn settle_memory(placement: &mut TaskPlacement, memory: &Memory) {
    let Some(nodes) = placement.mems.nodes().cloned() else { return };
    if let Some(why) = &memory.taken {
        return placement.keep_memory(why.clone());
    }
    // where the cpuset cannot be asked for, the kernel tells by what it takes
    let Some(allowed) = &memory.allowed else { return };
    let left = nodes.intersection(allowed);
    if left.is_empty() {
        let why = format!("NUMA node {nodes} is outside the cpuset, whose memory is on {allowed}");
        let missed = format!("memory: {why}");
        placement.missed = Some(match placement.missed.take() {
            Some(earlier) => format!("{earlier}; {missed}"),
            None => missed,
        });
        return placement.keep_memory(why);
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

fn out_of_reach(near: &Near) -> String {
    let nodes = &near.nodes;
    format!(
        "the step has no CPU on NUMA node {nodes} of its GPU; `-m block:block` or `--gpu-bind=closest` may give it one"
    )
}

fn mems(situation: &Situation, near: &Result<Near, String>, cpus: &CpuDecision) -> MemDecision {
    let Situation { topology, step, binding, .. } = situation;
    let keep = |why: String| MemDecision::Keep { why };
    if let Some(how) = &step.mem_bind {
        return keep(format!("`--mem-bind={how}` was asked for"));
    }
    if binding.mem == Mem::None {
        return keep(if binding.bind == Bind::None { "`bind=none`" } else { "`mem=none`" }.to_string());
    }
    let near = match near {
        Ok(near) => near,
        Err(why) => return keep(why.clone()),
    };
    // Memory serves the CPUs too: a task that must run far from its GPU keeps its memory beside it.  This also leaves out
    // nodes without CPUs, which hold GPU memory on Grace.
    let nodes: NodeSet = near
        .nodes
        .iter()
        .filter(|&node| topology.numa_node(node).is_some_and(|node| node.cpus.intersects(cpus.cpus())))
        .collect();
    if nodes.is_empty() {
        return keep("it does not run near its GPU".to_string());
    }
    let whose = if near.of_gpus { "of its GPU" } else { "on which it runs" };
    match binding.mem {
        Mem::Strict => MemDecision::Fence {
            why: format!("NUMA node {nodes} {whose} alone, as `mem=strict` asks"),
            nodes,
        },
        _ => MemDecision::Prefer { why: format!("NUMA node {nodes} {whose} first"), nodes },
    }
}

#[cfg(test)]
mod tests;

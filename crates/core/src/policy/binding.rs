//! Where a task may run and where its memory comes from, never beyond what Slurm gave the step.
//!
//! By default ([`Bind::Auto`]) a task moves as near to its GPUs as it can while every task of the step keeps
//! its part (`settle`).  Memory follows: it comes from the NUMA nodes of the task's CPUs and of its
//! GPU, if these are near each other.  MPOL_PREFERRED_MANY tries the node nearest to the allocating CPU first
//! (Documentation/admin-guide/mm/numa_memory_policy.rst).  A task that also runs on other sockets keeps the
//! kernel's default: each thread gets memory where it runs.  A preference would make memory remote for some
//! threads.
#![forbid(unsafe_code)]

use super::cores::{self, Share};
use super::crew::{Crew, has_own_gpus};
use super::ladder::Ladder;
use super::settle::{settle, settle_alone};
use super::{gpuless, identity};
use crate::diagnostic::Shown;
use crate::placement::{Bind, Binding, CpuDecision, Mem, MemDecision, TaskPlacement};
use crate::step::{Memory, Starter, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, Topology};

/// Tasks with masks of their own, at most, that are settled together: tasks with GPUs of their own are fewer.  More of them
/// stay where Slurm put them.
const MOST_DIFFERENT_MASKS: usize = 64;

/// Characters of the user's own way of binding that a reason shows, at most.
const MAX_SHOWN: usize = 64;

/// The facts for binding a task.
pub struct Situation<'a> {
    /// the node
    pub topology: &'a Topology,
    /// the step
    pub step: &'a Step,
    /// the task
    pub task: &'a Task,
    /// its GPUs
    pub gpus: &'a [GpuIndex],
    /// what the user and the admin want to bind
    pub binding: Binding,
}

/// A task's binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// where it may run
    pub cpus: CpuDecision,
    /// where its memory comes from
    pub mems: MemDecision,
    /// what the task wanted and cannot have
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
    /// are they the nodes of the task's GPUs, rather than a part of the step's?
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

/// The NUMA nodes of the task's GPUs; without GPUs its part of the step's nodes; or why there are none.
fn near(situation: &Situation) -> Result<Near, String> {
    let Situation { topology, step, task, gpus, binding } = situation;
    if !topology.provenance.is_this_system() && !binding.trust {
        return Err(format!("the topology is not this system's: {}", topology.provenance));
    }
    if gpus.is_empty() {
        // a user who chose the CPUs chose the nodes too
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
    match (&step.cpu_bind, step.starter) {
        (Some(how), Starter::Slurm) => {
            return keep(format!("`--cpu-bind={}` was asked for", Shown::word(how, MAX_SHOWN)));
        }
        (Some(how), Starter::Launcher) => return keep(Shown::message(how, 4 * MAX_SHOWN).to_string()),
        (None, _) => {}
    }
    if let Some(why) = bound_by_program(step) {
        return keep(why);
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
    if binding.bind == Bind::Auto {
        return by_parts(situation, near);
    }
    // we do not know which of a launcher's ranks will use which GPU
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

/// `bind=auto`: as near as possible while every task of the step keeps its part.
fn by_parts(situation: &Situation, near: &Near) -> (CpuDecision, Option<String>) {
    let Situation { topology, step, task, .. } = situation;
    let ladder = Ladder::around(topology, &near.nodes);
    let own = task.cpus.clone();
    let here = ladder.rung_of(&own);
    if here == 0 {
        let why = match near.of_gpus && near.nodes.len() > 1 {
            true => format!("its GPUs span NUMA nodes {}", near.nodes),
            false => format!("already on {}", near.described()),
        };
        return (CpuDecision::Keep { cpus: own, why }, None);
    }
    let crew = Crew::new(topology, step, task);
    let place = in_crew(situation, near, &crew);
    let apart = place.as_ref().err().copied();
    let (cpus, reached) = place.unwrap_or((own.clone(), here));
    let verb = if cpus.is_subset(&own) { "narrowed to" } else { "moved to the step's CPUs on" };
    let gpus_nodes = &near.nodes;
    match reached {
        0 => (CpuDecision::Set { cpus, why: format!("{verb} {}", near.described()) }, None),
        reached if reached < here => {
            let rung = &ladder.rungs()[reached];
            let distance = rung.distance.map(|distance| format!(", distance {distance}")).unwrap_or_default();
            let why = format!(
                "{verb} NUMA nodes {}, the nearest to NUMA node {gpus_nodes} of its GPU on which the step has room{distance}",
                rung.nodes
            );
            (CpuDecision::Set { cpus, why }, None)
        }
        _ => {
            let nearer = crew.cpus.intersection(&ladder.rungs()[here - 1].cpus);
            if nearer.is_empty() || !crew.cpus.intersects(&ladder.rungs()[0].cpus) {
                let why = out_of_reach(near, step.starter);
                return (CpuDecision::OutOfReach { cpus: own, why: why.clone() }, Some(why));
            }
            if let Some(why) = apart {
                let why = format!("{why}: it stays where it is; `bind=numa` would bring it near its GPU");
                return (CpuDecision::OutOfReach { cpus: own, why }, None);
            }
            let part = crew.parts.get(task.local_id as usize).copied().unwrap_or(0);
            let room = nearer.len();
            let why = match (crew.len(), step.starter) {
                (_, Starter::Launcher) => format!(
                    "near NUMA node {gpus_nodes} of its GPU it has {room} CPUs, too few for the processes that belong there \
                     with {part} each: it keeps all that it has; `bind=numa` would bring it near"
                ),
                (1, _) => format!(
                    "near NUMA node {gpus_nodes} of its GPU the step has {room} CPUs, too few for this task's {part}: it \
                     keeps them all; a smaller `-c` or `bind=numa` would bring it near"
                ),
                _ => format!(
                    "near NUMA node {gpus_nodes} of its GPU the step has {room} CPUs, too few for the tasks that belong \
                     there with {part} each: it stays where Slurm put it; `--exclusive` or `-m block:block` may help, \
                     `bind=numa` takes what is there"
                ),
            };
            (CpuDecision::OutOfReach { cpus: own, why }, None)
        }
    }
}

/// The task's new place, if all tasks of the step decide by the same facts; else why it must stay.
fn in_crew(situation: &Situation, near: &Near, crew: &Crew<'_>) -> Result<(CpuSet, usize), &'static str> {
    let Situation { topology, step, task, gpus, .. } = situation;
    let id = task.local_id as usize;
    if id >= crew.len() {
        return Err("Slurm counts fewer tasks here than there are");
    }
    if *crew.mask(id) != task.cpus {
        return Err("slurmd lists other CPUs for it than it has, and the other tasks go by that list");
    }
    // a user can forge the list of masks, and each task that moves works through all of them
    if crew.len() > MOST_DIFFERENT_MASKS && !crew.shares_one_mask() {
        return Err("the step's tasks have more different masks than are compared");
    }
    let Some(homes) = &crew.homes else {
        // if each task has its own GPU, that bounds how many can be near
        let step_gpus = identity::of_the_step(topology, step);
        let may_be_near = |nodes: &NodeSet| {
            let is_there = |gpu: &&GpuIndex| {
                topology.numa_node_of(topology.gpu(**gpu).address).is_some_and(|node| nodes.contains(node))
            };
            match has_own_gpus(task) && !gpus.is_empty() && !step_gpus.is_empty() {
                true => step_gpus.iter().filter(is_there).count() / gpus.len(),
                false => crew.len(),
            }
        };
        return Ok(settle_alone(topology, crew, id, &near.nodes, may_be_near));
    };
    // the other tasks follow Slurm's rule, whatever GPUs this one has
    match homes.get(id) == Some(&near.nodes) {
        true => Ok(settle(topology, crew, id)),
        false => Err("the other tasks expect it near other NUMA nodes"),
    }
}

/// `bind=core`, if the step's cores can be divided.
fn own_cores(situation: &Situation, near: &Near, cpus: CpuSet, how: &str) -> (CpuDecision, Option<String>) {
    let Situation { topology, step, task, .. } = situation;
    let near_cpus = topology.cpus_of(&near.nodes);
    let is_near = cpus.intersects(&near_cpus);
    let missed = (!is_near).then(|| match task.step_cpus.intersects(&near_cpus) {
        true => {
            format!("the step's cores on NUMA node {} are other tasks'; `bind=numa` shares them", near.nodes)
        }
        false => out_of_reach(near, step.starter),
    });
    let decision = match (missed.clone(), cpus == task.cpus) {
        (Some(why), true) => CpuDecision::OutOfReach { cpus, why },
        (None, true) => CpuDecision::Keep { cpus, why: format!("{how}, on {}", near.described()) },
        (None, false) => CpuDecision::Set { cpus, why: format!("{how}, on {}", near.described()) },
        (Some(why), false) => CpuDecision::Set { cpus, why: format!("{how}; {why}") },
    };
    (decision, missed)
}

/// `bind=numa`: the task's CPUs on the near nodes; if it has none there, the step's.
fn on_nodes(situation: &Situation, near: &Near) -> (CpuDecision, Option<String>) {
    let Situation { topology, step, task, .. } = situation;
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
    let why = out_of_reach(near, step.starter);
    (CpuDecision::OutOfReach { cpus: task.cpus.clone(), why: why.clone() }, Some(why))
}

/// Checks the decision against what the task may have.  An earlier policy stays, since somebody chose it: a
/// site's wrapper around slurmd, or a plugin before us.  Nodes outside the cpuset can give the task no
/// memory.
pub fn settle_memory(placement: &mut TaskPlacement, memory: &Memory) {
    let Some(nodes) = placement.mems.nodes().cloned() else { return };
    if let Some(why) = &memory.taken {
        return placement.keep_memory(why.clone());
    }
    if memory.ours.as_ref().is_some_and(|ours| !nodes.is_subset(ours)) {
        return placement.keep_memory("the placed step around it prefers other NUMA nodes".to_string());
    }
    // if the cpuset is unknown, the kernel accepts or refuses the nodes
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

fn out_of_reach(near: &Near, starter: Starter) -> String {
    let nodes = &near.nodes;
    match starter {
        Starter::Slurm => format!(
            "the step has no CPU on NUMA node {nodes} of its GPU; `-m block:block` or `--gpu-bind=closest` may give it one"
        ),
        Starter::Launcher => format!("it was given no CPU on NUMA node {nodes} of its GPU"),
    }
}

/// The user's own word for CPUs and memory stands on the command line.
fn bound_by_program(step: &Step) -> Option<String> {
    step.binder.as_ref().map(|binder| format!("`{binder}` binds the program"))
}

fn mems(situation: &Situation, near: &Result<Near, String>, cpus: &CpuDecision) -> MemDecision {
    let Situation { topology, step, binding, .. } = situation;
    let keep = |why: String| MemDecision::Keep { why };
    if let Some(how) = &step.mem_bind {
        return keep(format!("`--mem-bind={}` was asked for", Shown::word(how, MAX_SHOWN)));
    }
    if let Some(why) = bound_by_program(step) {
        return keep(why);
    }
    if binding.mem == Mem::None {
        return keep(if binding.bind == Bind::None { "`bind=none`" } else { "`mem=none`" }.to_string());
    }
    let near = match near {
        Ok(near) => near,
        Err(why) => return keep(why.clone()),
    };
    let ladder = Ladder::around(topology, &near.nodes);
    let rungs = ladder.rungs();
    let reached = ladder.rung_of(cpus.cpus());
    let runs_on =
        |node: &u32| topology.numa_node(*node).is_some_and(|node| node.cpus.intersects(cpus.cpus()));
    let has_cpus = |node: &u32| topology.numa_node(*node).is_some_and(|node| !node.cpus.is_empty());
    // leave out nodes without CPUs: they hold GPU memory on Grace
    let gpus_own: NodeSet = near.nodes.iter().filter(runs_on).collect();
    let nodes: NodeSet = match reached {
        0 => gpus_own,
        // on the GPU's socket, but not on its NUMA node
        near_by if near_by + 1 < rungs.len() => {
            let where_it_runs = rungs[near_by].nodes.iter().filter(runs_on);
            where_it_runs.chain(near.nodes.iter().filter(has_cpus)).collect()
        }
        // users who ask for it accept that threads on other sockets pay for it
        _ if binding.mem == Mem::Strict || binding.bind == Bind::None => gpus_own,
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

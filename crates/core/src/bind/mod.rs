//! Where a task may run and where its memory comes from, never beyond what Slurm gave the step.
//!
//! By default ([`Bind::Auto`]) a task moves as near to its GPUs as it can while every task of the step keeps its share of the
//! step's CPUs (`settle`).  Memory follows (`memory`).
#![forbid(unsafe_code)]

pub mod cores;
mod crew;
mod exchange;
mod gpuless;
mod memory;
mod settle;
mod shares;

pub use memory::settle_memory;

use crate::diagnostic::Shown;
use crate::gpus::orders_of_the_step;
use crate::placement::{Bind, Binding, CpuDecision, MemDecision};
use crate::policy::ladder::Ladder;
use crate::step::{Starter, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, Topology};
use cores::Share;
use crew::{Crew, has_own_gpus, memory_bound, stays_by_its_memory};
use settle::{Due, settle, settle_alone};

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
    let mems = memory::decided(situation, &near, &cpus);
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
        // `--cpu-bind`, or a launcher's own binding, has chosen the nodes together with the CPUs
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
    if has_cpus_of_other_jobs(situation) {
        return keep("Slurm binds no task here (TaskPlugin), so it has CPUs of other jobs too".to_string());
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
                let (decision, more) = by_parts(situation, near);
                (decision, Some(more.map_or(missed.clone(), |more| format!("{missed}; {more}"))))
            }
        };
    }
    on_nodes(situation, near)
}

/// Has the task more CPUs than Slurm counts for its job here?  Where neither task/affinity nor task/cgroup confines a step
/// (slurm.conf's TaskPlugin), it runs on all CPUs, and the near ones may be another job's.
fn has_cpus_of_other_jobs(situation: &Situation) -> bool {
    let Situation { step, task, .. } = situation;
    let jobs = step.job_cores.zip(task.threads_per_core).map(|(cores, threads)| cores * threads);
    task.masks.is_empty() && jobs.is_some_and(|cpus| task.cpus.len() > cpus)
}

/// `bind=auto`: as near as possible while every task of the step keeps its share.
fn by_parts(situation: &Situation, near: &Near) -> (CpuDecision, Option<String>) {
    let Situation { topology, step, task, .. } = situation;
    let ladder = Ladder::around(topology, &near.nodes);
    let own = task.cpus.clone();
    let here = ladder.rung_of(&own);
    let crew = Crew::new(topology, step, task);
    let expected = crew.homes.get(task.local_id as usize).and_then(Option::as_ref);
    if here == 0 && expected.is_none_or(|home| *home == near.nodes) {
        let why = match near.of_gpus && near.nodes.len() > 1 {
            true => format!("its GPUs span NUMA nodes {}", near.nodes),
            false => format!("already on {}", near.described()),
        };
        return (CpuDecision::Keep { cpus: own, why }, None);
    }
    let place = in_crew(situation, near, &crew);
    let apart = place.as_ref().err().copied();
    let cpus = place.unwrap_or_else(|_| own.clone());
    if cpus == own {
        return stays(situation, near, &crew, &ladder, apart);
    }
    let verb = if cpus.is_subset(&own) { "narrowed to" } else { "moved to the step's CPUs on" };
    let gpus_nodes = &near.nodes;
    let why = match ladder.rung_of(&cpus) {
        0 => format!("{verb} {}", near.described()),
        reached if reached < here => {
            let rung = &ladder.rungs()[reached];
            let distance = rung.distance.map(|distance| format!(", distance {distance}")).unwrap_or_default();
            format!(
                "{verb} NUMA nodes {}, the nearest to NUMA node {gpus_nodes} of its GPU on which the step has room{distance}",
                rung.nodes
            )
        }
        _ => format!(
            "{verb} NUMA nodes {}, which Slurm's rule for GPUs leaves it beside the other tasks",
            topology.nodes_of(&cpus)
        ),
    };
    (CpuDecision::Set { cpus, why }, None)
}

/// Why a task that is not near its GPU stays where it is, and what would help.
fn stays(
    situation: &Situation,
    near: &Near,
    crew: &Crew<'_>,
    ladder: &Ladder,
    apart: Option<&str>,
) -> (CpuDecision, Option<String>) {
    let Situation { topology, step, task, .. } = situation;
    let (own, gpus_nodes) = (task.cpus.clone(), &near.nodes);
    let here = ladder.rung_of(&own);
    let nearer = crew.cpus.intersection(&ladder.rungs()[here.saturating_sub(1)].cpus);
    if nearer.is_empty() || !crew.cpus.intersects(&ladder.rungs()[0].cpus) {
        let why = out_of_reach(near, step.starter);
        return (CpuDecision::OutOfReach { cpus: own, why: why.clone() }, Some(why));
    }
    if let Some(why) = apart {
        let why = format!("{why}: it stays where it is; `bind=numa` would bring it near its GPU");
        return (CpuDecision::OutOfReach { cpus: own, why }, None);
    }
    if let Some(how) = memory_bound(step) {
        let why =
            format!("`--mem-bind={}` was asked for, and it stays by its memory", Shown::word(how, MAX_SHOWN));
        return (CpuDecision::OutOfReach { cpus: own, why }, None);
    }
    let part = match step.uncounted {
        true => own.len(),
        false => Due::new(topology, crew).cpus_of(task.local_id as usize),
    };
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

/// The task's new place, if all tasks of the step decide by the same facts; else why it must stay.
fn in_crew(situation: &Situation, near: &Near, crew: &Crew<'_>) -> Result<CpuSet, &'static str> {
    let Situation { topology, step, task, gpus, .. } = situation;
    let id = task.local_id as usize;
    if id >= crew.len() {
        return Err("Slurm counts fewer tasks here than there are");
    }
    if *crew.mask(id) != task.cpus {
        return Err("slurmd lists other CPUs for it than it has, and the other tasks go by that list");
    }
    // all CPUs may be what this one has to itself
    if step.uncounted {
        return Ok(task.cpus.clone());
    }
    if crew.has_too_many_masks() {
        return Err("the step's tasks have more different masks than are compared");
    }
    if crew.homes.is_empty() {
        // if each task has its own GPU, that bounds how many can be near
        let orders = orders_of_the_step(topology, step);
        let may_be_near = |nodes: &NodeSet| {
            let is_there = |gpu: &&GpuIndex| {
                topology.numa_node_of(topology.gpu(**gpu).address).is_some_and(|node| nodes.contains(node))
            };
            let there = orders.iter().map(|order| order.iter().filter(is_there).count()).max();
            match there.filter(|_| has_own_gpus(task) && !gpus.is_empty() && !orders[0].is_empty()) {
                Some(there) => there / gpus.len(),
                None => crew.len(),
            }
        };
        return Ok(settle_alone(topology, crew, id, &near.nodes, may_be_near));
    }
    let Some(home) = &crew.homes[id] else { return Err("which GPU Slurm's number means is not certain") };
    // the other tasks follow Slurm's rule, whatever GPUs this one has: it takes the place that they leave it
    let place = settle(topology, crew).swap_remove(id);
    match *home != near.nodes && place.is_subset(&task.cpus) {
        true => Err("Slurm's rule expects it near other NUMA nodes"),
        false => Ok(place.into_owned()),
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
    let (cpus, verb) = match part.is_empty() {
        false => (part, "narrowed to"),
        true => (task.step_cpus.intersection(&near_cpus), "moved to the step's CPUs on"),
    };
    let bound = memory_bound(step);
    if !cpus.is_empty() && !stays_by_its_memory(topology, bound, &task.cpus, &cpus) {
        let how = Shown::word(bound.unwrap_or_default(), MAX_SHOWN);
        let why = format!("`--mem-bind={how}` was asked for, and it stays by its memory");
        return (CpuDecision::Keep { cpus: task.cpus.clone(), why }, None);
    }
    if !cpus.is_empty() {
        return (CpuDecision::Set { cpus, why: format!("{verb} {}", near.described()) }, None);
    }
    let why = out_of_reach(near, step.starter);
    (CpuDecision::OutOfReach { cpus: task.cpus.clone(), why: why.clone() }, Some(why))
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

#[cfg(test)]
#[path = "../../../../tests/attack/judge.rs"]
#[allow(dead_code, reason = "the end-to-end tests also judge memory")]
mod judge;
#[cfg(test)]
mod tests;

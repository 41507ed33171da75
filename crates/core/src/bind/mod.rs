//! Where a task may run and where its memory comes from, never beyond what Slurm gave the step.
//!
//! By default ([`Bind::Auto`]) a task moves as near to its GPUs as it can while every task of the step keeps its share of the
//! step's CPUs (`near`).  Memory follows (`memory`).
#![forbid(unsafe_code)]

pub mod cores;
mod exchange;
mod gpuless;
mod memory;
mod near;
mod shares;
mod tasks;

pub(crate) use memory::{left_alone, limited};

use crate::diagnostic::{Shown, counted};
use crate::gpus::step_orders;
use crate::placement::{Bind, CpuDecision, MemDecision};
use crate::policy::ladder::Ladder;
use crate::step::{Starter, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, Topology};
use crate::wish::Wish;
use near::{LeastShares, near_mask, near_masks};
pub(crate) use tasks::nodes_of;
use tasks::{StepTasks, have_own_gpus, memory_bound};

/// Characters of the user's own binding in a reason, at most.
const MAX_SHOWN: usize = 64;

/// The facts for binding a task.
pub(crate) struct Situation<'a> {
    pub topology: &'a Topology,
    pub step: &'a Step,
    pub task: &'a Task,
    pub gpus: &'a [GpuIndex],
    pub wish: &'a Wish,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    pub cpus: CpuDecision,
    pub mems: MemDecision,
    /// what the task wanted and cannot have
    pub missed: Option<String>,
}

/// Decides the CPUs, then the memory by them.
pub(crate) fn bind(situation: &Situation) -> Bound {
    let near = near_nodes(situation);
    let (cpus, missed) = match movable(situation, &near) {
        Ok(near) => match situation.wish.bind {
            Bind::Auto => by_shares(situation, near),
            Bind::Core => by_cores(situation, near),
            _ => on_nodes(situation, near),
        },
        Err(why) => (
            CpuDecision::Keep {
                cpus: situation.task.cpus.clone(),
                why,
            },
            None,
        ),
    };
    let mems = memory::decided(situation, &near, &cpus);
    Bound { cpus, mems, missed }
}

/// Joins two sentences by `; `.
pub(crate) fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second),
    }
}

/// The NUMA nodes to be near to.
struct NearNodes {
    nodes: NodeSet,
    /// true for the nodes of the task's GPUs, false for a part of the step's
    of_gpus: bool,
}

/// `NUMA node 3`, `NUMA nodes 0,3`
pub(crate) fn numa_nodes(nodes: &NodeSet) -> String {
    format!(
        "NUMA node{} {nodes}",
        if nodes.len() == 1 { "" } else { "s" }
    )
}

impl NearNodes {
    /// `NUMA node 0, with its GPU`
    fn described(&self) -> String {
        match self.of_gpus {
            true => format!("{}, with its GPU", numa_nodes(&self.nodes)),
            false => format!("{}, its part of the step's", numa_nodes(&self.nodes)),
        }
    }

    fn out_of_reach(&self, starter: Starter) -> String {
        let nodes = &self.nodes;
        match starter {
            Starter::Slurm => format!(
                "the step has no CPU on NUMA node {nodes} of its GPU; `-m block:block` or `--gpu-bind=closest` may give it one"
            ),
            Starter::Launcher => format!("it was given no CPU on NUMA node {nodes} of its GPU"),
        }
    }
}

/// The NUMA nodes of the task's GPUs; without GPUs its part of the step's nodes; or why there are none.
fn near_nodes(situation: &Situation) -> Result<NearNodes, String> {
    let Situation {
        topology,
        step,
        task,
        gpus,
        wish,
    } = situation;
    if !topology.provenance.is_this_system() && !wish.admin.trust_topology {
        return Err(format!(
            "the topology is not this system's: {}",
            topology.provenance
        ));
    }
    if gpus.is_empty() {
        // `--cpu-bind`, or a launcher's own binding, has chosen the nodes together with the CPUs
        let asked = wish.by_user && wish.bind != Bind::None && users_way(step, wish).is_none();
        return Ok(NearNodes {
            nodes: gpuless::nodes(topology, step, task, asked)?,
            of_gpus: false,
        });
    }
    let nodes = nodes_of(topology, gpus).ok_or("the kernel names no NUMA node for its GPU")?;
    Ok(NearNodes {
        nodes,
        of_gpus: true,
    })
}

/// The NUMA nodes to which the task may move, or why its CPUs stay as they are.
fn movable<'n>(
    situation: &Situation,
    near: &'n Result<NearNodes, String>,
) -> Result<&'n NearNodes, String> {
    let Situation {
        topology,
        step,
        task,
        wish,
        ..
    } = situation;
    match (users_way(step, wish), step.starter) {
        (Some(how), Starter::Slurm) => {
            return Err(format!(
                "`--cpu-bind={}` was asked for",
                Shown::word(how, MAX_SHOWN)
            ));
        }
        (Some(how), Starter::Launcher) => {
            return Err(Shown::message(how, 4 * MAX_SHOWN).to_string());
        }
        (None, _) => {}
    }
    if let Some(why) = bound_by_program(step) {
        return Err(why);
    }
    if wish.bind == Bind::None {
        return Err("`bind=none`".to_string());
    }
    let near = near.as_ref().map_err(String::clone)?;
    if task.cpus.is_empty() {
        return Err("its affinity could not be read".to_string());
    }
    if has_cpus_of_other_jobs(situation) {
        return Err(
            "Slurm binds no task here (TaskPlugin), so it has CPUs of other jobs too".to_string(),
        );
    }
    if wish.bind == Bind::Auto {
        return Ok(near);
    }
    // we do not know which of a launcher's ranks will use which GPU
    if near.of_gpus && near.nodes.len() > 1 && (wish.bind == Bind::Numa || step.tasks_here() == 1) {
        return Err(format!("its GPUs span NUMA nodes {}", near.nodes));
    }
    if topology.cpus_of(&near.nodes).is_empty() {
        return Err(format!("NUMA node {} of its GPU has no CPU", near.nodes));
    }
    Ok(near)
}

/// The user's own binding.  `none` does not count beside the user's `bind=`: it switches off Slurm's binding, as
/// engines do for all their tasks (`SLURM_CPU_BIND=none`: TensorRT-LLM's examples/wide_ep/slurm_scripts).
fn users_way<'s>(step: &'s Step, wish: &Wish) -> Option<&'s String> {
    let gives_way =
        (wish.bind_by_user || wish.admin.none_is_unbound) && step.starter == Starter::Slurm;
    step.cpu_bind
        .as_ref()
        .filter(|how| !(gives_way && *how == "none"))
}

/// The reason if the user's program binds its own CPUs.
fn bound_by_program(step: &Step) -> Option<String> {
    step.binder
        .map(|binder| format!("`{binder}` binds the program"))
}

/// True if the task has more CPUs than Slurm counts for its job here.  Without task/affinity and task/cgroup
/// (slurm.conf's TaskPlugin) a step runs on all CPUs, and the near ones may be another job's.
fn has_cpus_of_other_jobs(situation: &Situation) -> bool {
    let Situation { step, task, .. } = situation;
    let jobs = step
        .job_cores
        .zip(task.threads_per_core)
        .map(|(cores, threads)| cores * threads);
    task.masks.is_empty() && jobs.is_some_and(|cpus| task.cpus.len() > cpus)
}

/// `bind=auto`: as near as possible while every task of the step keeps its share.
fn by_shares(situation: &Situation, near: &NearNodes) -> (CpuDecision, Option<String>) {
    let Situation {
        topology,
        step,
        task,
        ..
    } = situation;
    let ladder = Ladder::around(topology, &near.nodes);
    let tasks = StepTasks::new(topology, step, task);
    let own = &task.cpus;
    let here = ladder.rung_of(own);
    let by_rule = tasks
        .gpu_nodes
        .get(task.local_id as usize)
        .and_then(Option::as_ref);
    if here == 0 && by_rule.is_none_or(|nodes| *nodes == near.nodes) {
        let why = match near.of_gpus && near.nodes.len() > 1 {
            true => format!("its GPUs span NUMA nodes {}", near.nodes),
            false => format!("already on {}", near.described()),
        };
        return (
            CpuDecision::Keep {
                cpus: own.clone(),
                why,
            },
            None,
        );
    }
    let cpus = match mask_by_shares(situation, near, &tasks) {
        Ok(cpus) if cpus != *own => cpus,
        place => return far(situation, near, &tasks, &ladder, place.err()),
    };
    let verb = if cpus.is_subset(own) {
        "narrowed to"
    } else {
        "moved to the step's CPUs on"
    };
    let why = match ladder.rung_of(&cpus) {
        0 => format!("{verb} {}", near.described()),
        reached if reached < here => {
            let rung = &ladder.rungs()[reached];
            let distance = rung
                .distance
                .map(|distance| format!(", distance {distance}"))
                .unwrap_or_default();
            format!(
                "{verb} {}, the nearest to {} of its GPU on which the step has room{distance}",
                numa_nodes(&rung.nodes),
                numa_nodes(&near.nodes)
            )
        }
        _ => format!(
            "{verb} {}, which Slurm's rule for GPUs leaves it beside the other tasks",
            numa_nodes(&topology.nodes_of(&cpus))
        ),
    };
    (CpuDecision::Set { cpus, why }, None)
}

/// The task's mask, if all tasks of the step decide by the same facts; else why it must keep its own.
fn mask_by_shares(
    situation: &Situation,
    near: &NearNodes,
    tasks: &StepTasks<'_>,
) -> Result<CpuSet, &'static str> {
    let Situation { step, task, .. } = situation;
    let id = task.local_id as usize;
    if id >= tasks.len() {
        return Err("Slurm counts fewer tasks here than there are");
    }
    if *tasks.mask(id) != task.cpus {
        return Err(
            "slurmd lists other CPUs for it than it has, and the other tasks go by that list",
        );
    }
    // all CPUs may be what this one has to itself
    if step.uncounted {
        return Ok(task.cpus.clone());
    }
    if tasks.have_too_many_masks() {
        return Err("the step's tasks have more different masks than are compared");
    }
    if tasks.may_differ_in_cores() {
        return Err("some tasks may have cores to themselves, and the node's cores were not read");
    }
    if tasks.gpu_nodes.is_empty() {
        let most_near =
            |nodes: &NodeSet| most_with_gpus_on(situation, nodes).unwrap_or(tasks.len());
        return Ok(near_mask(tasks, id, &near.nodes, most_near));
    }
    let by_rule = tasks.gpu_nodes[id]
        .as_ref()
        .ok_or("which GPU Slurm's number means is not certain")?;
    // the other tasks follow Slurm's rule, whatever GPUs this one has: it takes the mask that they leave it
    let mask = near_masks(tasks).swap_remove(id);
    match *by_rule != near.nodes && mask.is_subset(&task.cpus) {
        true => Err("Slurm's rule expects it near other NUMA nodes"),
        false => Ok(mask.into_owned()),
    }
}

/// The most tasks that can have their GPUs on these NUMA nodes, where each has GPUs of its own.
fn most_with_gpus_on(situation: &Situation, nodes: &NodeSet) -> Option<usize> {
    let Situation {
        topology,
        step,
        task,
        gpus,
        ..
    } = situation;
    if gpus.is_empty() || !have_own_gpus(task) {
        return None;
    }
    let is_there = |gpu: &&GpuIndex| {
        topology
            .numa_node_of(topology.gpu(**gpu).address)
            .is_some_and(|node| nodes.contains(node))
    };
    let orders = step_orders(topology, step)?;
    let there = orders
        .iter()
        .map(|order| order.iter().filter(is_there).count())
        .max()?;
    Some(there / gpus.len())
}

/// The decision to keep the mask of a task that is not near its GPU, and the reason with a remedy.  `unlike` says why
/// the task cannot decide as the others do.
fn far(
    situation: &Situation,
    near: &NearNodes,
    tasks: &StepTasks<'_>,
    ladder: &Ladder,
    unlike: Option<&str>,
) -> (CpuDecision, Option<String>) {
    let Situation { step, task, .. } = situation;
    let cpus = task.cpus.clone();
    let here = ladder.rung_of(&cpus);
    let nearer = tasks
        .cpus
        .intersection(&ladder.rungs()[here.saturating_sub(1)].cpus);
    if nearer.is_empty() || !tasks.cpus.intersects(&ladder.rungs()[0].cpus) {
        let why = near.out_of_reach(step.starter);
        return (
            CpuDecision::OutOfReach {
                cpus,
                why: why.clone(),
            },
            Some(why),
        );
    }
    let part = || match step.uncounted {
        true => cpus.len(),
        false => LeastShares::new(tasks).cpus_of(task.local_id as usize),
    };
    let (nodes, room) = (&near.nodes, counted(nearer.len(), "CPU"));
    let why = match (unlike, memory_bound(step), tasks.len(), step.starter) {
        (Some(why), ..) => {
            format!("{why}: it stays where it is; `bind=numa` would bring it near its GPU")
        }
        (_, Some(how), ..) => stays_by_memory(how),
        (.., Starter::Launcher) => format!(
            "near NUMA node {nodes} of its GPU it has {room}, too few for the processes that belong there \
             with {} each: it keeps all that it has; `bind=numa` would bring it near",
            part()
        ),
        (.., 1, _) => format!(
            "near NUMA node {nodes} of its GPU the step has {room}, too few for this task's {}: it \
             keeps them all; a smaller `-c` or `bind=numa` would bring it near",
            part()
        ),
        _ => format!(
            "near NUMA node {nodes} of its GPU the step has {room}, too few for the tasks that belong \
             there with {} each: it stays where Slurm put it; `--exclusive` or `-m block:block` may help, \
             `bind=numa` takes what is there",
            part()
        ),
    };
    (CpuDecision::OutOfReach { cpus, why }, None)
}

fn stays_by_memory(how: &str) -> String {
    format!(
        "`--mem-bind={}` was asked for, and it stays by its memory",
        Shown::word(how, MAX_SHOWN)
    )
}

/// `bind=core`: cores of its own if the step's can be divided, else as `bind=auto`.
fn by_cores(situation: &Situation, near: &NearNodes) -> (CpuDecision, Option<String>) {
    let Situation {
        topology,
        step,
        task,
        ..
    } = situation;
    let (cpus, how) = match cores::own_cores(topology, step, task, &near.nodes) {
        Ok(own) => own,
        Err(why) => {
            let (decision, missed) = by_shares(situation, near);
            return (
                decision,
                joined(Some(format!("`bind=core` cannot be had: {why}")), missed),
            );
        }
    };
    let near_cpus = topology.cpus_of(&near.nodes);
    let is_own = cpus == task.cpus;
    if cpus.intersects(&near_cpus) {
        let why = format!("{how}, on {}", near.described());
        let decision = if is_own {
            CpuDecision::Keep { cpus, why }
        } else {
            CpuDecision::Set { cpus, why }
        };
        return (decision, None);
    }
    let missed = match task.step_cpus.intersects(&near_cpus) {
        true => {
            format!(
                "the step's cores on NUMA node {} are other tasks'; `bind=numa` shares them",
                near.nodes
            )
        }
        false => near.out_of_reach(step.starter),
    };
    let decision = match is_own {
        true => CpuDecision::OutOfReach {
            cpus,
            why: missed.clone(),
        },
        false => CpuDecision::Set {
            cpus,
            why: format!("{how}; {missed}"),
        },
    };
    (decision, Some(missed))
}

/// `bind=numa`: the task's CPUs on the near nodes; if it has none there, the step's.
fn on_nodes(situation: &Situation, near: &NearNodes) -> (CpuDecision, Option<String>) {
    let Situation {
        topology,
        step,
        task,
        ..
    } = situation;
    let near_cpus = topology.cpus_of(&near.nodes);
    let own = task.cpus.clone();
    if own.is_subset(&near_cpus) {
        return (
            CpuDecision::Keep {
                cpus: own,
                why: format!("already on {}", near.described()),
            },
            None,
        );
    }
    let part = own.intersection(&near_cpus);
    let (cpus, verb) = match part.is_empty() {
        false => (part, "narrowed to"),
        true => (
            task.step_cpus.intersection(&near_cpus),
            "moved to the step's CPUs on",
        ),
    };
    if cpus.is_empty() {
        let why = near.out_of_reach(step.starter);
        return (
            CpuDecision::OutOfReach {
                cpus: own,
                why: why.clone(),
            },
            Some(why),
        );
    }
    match memory_bound(step) {
        Some(how) if topology.nodes_of(&own) != topology.nodes_of(&cpus) => (
            CpuDecision::Keep {
                cpus: own,
                why: stays_by_memory(how),
            },
            None,
        ),
        _ => (
            CpuDecision::Set {
                cpus,
                why: format!("{verb} {}", near.described()),
            },
            None,
        ),
    }
}

#[cfg(test)]
#[path = "../../../../tests/attack/judge.rs"]
#[allow(dead_code, reason = "the end-to-end tests also judge memory")]
mod judge;
#[cfg(test)]
mod tests;

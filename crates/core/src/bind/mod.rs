//! A task's CPUs and memory, within Slurm's grant to the step.
//!
//! By default ([`Bind::Auto`]) a task moves toward its GPUs if every task of the step keeps its
//! share of the step's CPUs (`near`). Memory follows the CPUs (`memory`).

mod cores;
mod exchange;
mod gpuless;
mod memory;
mod near;
mod shares;
mod tasks;

use crate::diagnostic::{Shown, counted};
use crate::gpus::step_orders;
use crate::placement::{Bind, Mem, Notes, TaskPlacement};
use crate::policy::ladder::Ladder;
use crate::step::{Starter, Step, Task};
use crate::topology::{CpuSet, GpuIndex, NodeSet, Topology};
use crate::wish::Wish;
use near::{LeastShares, near_mask, near_masks};
pub(crate) use tasks::nodes_of;
use tasks::{StepTasks, have_own_gpus, memory_bound};

pub(crate) struct Situation<'a> {
    pub topology: &'a Topology,
    pub step: &'a Step,
    pub task: &'a Task,
    pub gpus: &'a [GpuIndex],
    pub wish: &'a Wish,
}

/// The task's new CPUs (`None` keeps the present ones) and the reason.
type Decided = (Option<CpuSet>, String);

fn far(notes: &mut Notes, why: String) -> Decided {
    notes.far = Some(why.clone());
    (None, why)
}

fn out_of_reach(notes: &mut Notes, why: String) -> Decided {
    notes.missed.push(why.clone());
    far(notes, why)
}

pub(crate) fn bind(situation: &Situation, mut notes: Notes) -> TaskPlacement {
    let &Situation {
        topology,
        step,
        task,
        gpus,
        wish,
    } = situation;
    let near = situation.near_nodes();
    let (moved, why) = match situation.movable(&near) {
        Ok(near) => match wish.bind {
            Bind::Auto => situation.by_shares(near, &mut notes),
            Bind::Core => situation.by_cores(near, &mut notes),
            _ => situation.on_nodes(near, &mut notes),
        },
        Err(why) => (None, why),
    };
    let moves = moved.is_some();
    let cpus = moved.unwrap_or_else(|| task.cpus.clone());
    let mut missed = notes.missed.clone();
    missed.retain(|missed| !why.contains(missed));
    notes.reasons.push(format!("CPUs: {why}"));
    if !missed.is_empty() {
        notes.reasons.push(missed.join("; "));
    }
    let (mems, why) =
        memory::decided(situation, &near, &cpus).unwrap_or_else(|why| (NodeSet::new(), why));
    notes.reasons.push(format!("memory: {why}"));
    let threads = wish
        .omp
        .then(|| cores::threads(topology, step, task, &cpus));
    if threads == Some(None) {
        let uncounted = cores::UNCOUNTED;
        notes
            .reasons
            .push(format!("`omp=on` sets nothing: {uncounted}"));
    }
    TaskPlacement {
        local_id: task.local_id,
        global_id: task.global_id,
        gpus: gpus.to_vec(),
        mems: memory::limited(mems, &task.memory, &mut notes),
        fences: wish.mem == Mem::Strict,
        threads: threads.flatten(),
        cpus,
        moves,
        notes,
        ..TaskPlacement::default()
    }
}

struct NearNodes {
    nodes: NodeSet,
    /// true: the GPUs' NUMA nodes; false: those of [`gpuless::nodes`]
    of_gpus: bool,
}

pub(crate) fn numa_nodes(nodes: &NodeSet) -> String {
    let plural = if nodes.len() == 1 { "" } else { "s" };
    format!("NUMA node{plural} {nodes}")
}

impl NearNodes {
    fn described(&self) -> String {
        let why = match self.of_gpus {
            true => "with its GPU",
            false => "its part of the step's",
        };
        format!("{}, {why}", numa_nodes(&self.nodes))
    }

    /// `Some` for GPUs on several NUMA nodes: the reason not to move.
    fn span(&self) -> Option<String> {
        (self.of_gpus && self.nodes.len() > 1)
            .then(|| format!("its GPUs span NUMA nodes {}", self.nodes))
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

fn asked_for(option: &str, how: &str) -> String {
    format!("`--{option}={}` was asked for", Shown::word(how, 64))
}

fn stays_by_memory(how: &str) -> String {
    format!("{}, and it stays by its memory", asked_for("mem-bind", how))
}

fn bound_by_program(step: &Step) -> Result<(), String> {
    let binds = |binder| Err(format!("`{binder}` binds the program"));
    step.binder.map_or(Ok(()), binds)
}

impl Situation<'_> {
    /// The NUMA nodes of the task's GPUs; without GPUs, the task's part of the step's NUMA nodes.
    /// The error says why the task has none.
    fn near_nodes(&self) -> Result<NearNodes, String> {
        let (node, wish) = (self.topology, self.wish);
        if !node.provenance.is_this_system() && !wish.admin.trust_topology {
            let provenance = &node.provenance;
            return Err(format!("the topology is not this system's: {provenance}"));
        }
        let of_gpus = !self.gpus.is_empty();
        let nodes = if of_gpus {
            nodes_of(node, self.gpus).ok_or("the kernel names no NUMA node for its GPU")?
        } else {
            // false if `--cpu-bind` or a launcher has already chosen the NUMA nodes
            let asked = wish.by_user && wish.bind != Bind::None && self.users_binding().is_none();
            gpuless::nodes(node, self.step, self.task, asked)?
        };
        Ok(NearNodes { nodes, of_gpus })
    }

    /// The value of `near` if the task may move; the error says why its CPUs stay.
    fn movable<'n>(&self, near: &'n Result<NearNodes, String>) -> Result<&'n NearNodes, String> {
        let (step, bind) = (self.step, self.wish.bind);
        if let Some(how) = self.users_binding() {
            return Err(match step.starter {
                Starter::Slurm => asked_for("cpu-bind", how),
                Starter::Launcher => Shown::message(how, 256).to_string(),
            });
        }
        bound_by_program(step)?;
        if bind == Bind::None {
            return Err("`bind=none`".into());
        }
        let near = near.as_ref().map_err(String::clone)?;
        if self.task.cpus.is_empty() {
            return Err("its affinity could not be read".into());
        }
        if self.has_cpus_of_other_jobs() {
            return Err(
                "Slurm binds no task here (TaskPlugin), so it has CPUs of other jobs too".into(),
            );
        }
        if bind == Bind::Auto {
            return Ok(near);
        }
        // `bind=core` for several tasks allows GPUs on several NUMA nodes: a launcher's ranks all
        // see all GPUs, and divide the cores
        if bind == Bind::Numa || step.tasks_here() == 1 {
            near.span().map_or(Ok(()), Err)?;
        }
        if self.topology.cpus_of(&near.nodes).is_empty() {
            return Err(format!("NUMA node {} of its GPU has no CPU", near.nodes));
        }
        Ok(near)
    }

    /// The user's or a launcher's binding. `--cpu-bind=none` does not count under the user's
    /// `bind=` or the admin's `none-is=unbound`, since inference engines set `SLURM_CPU_BIND=none`
    /// (TensorRT-LLM's examples/wide_ep/slurm_scripts).
    fn users_binding(&self) -> Option<&String> {
        let over_none = self.wish.bind_by_user || self.wish.admin.none_is_unbound;
        let gives_way = over_none && self.step.starter == Starter::Slurm;
        let how = self.step.cpu_bind.as_ref();
        how.filter(|how| !(gives_way && *how == "none"))
    }

    /// True if slurmd bound no task, and this task has more CPUs than the job's cores have threads.
    /// Without task/affinity and task/cgroup (TaskPlugin) a step runs on all CPUs, and near CPUs
    /// may be other jobs'.
    fn has_cpus_of_other_jobs(&self) -> bool {
        let task = self.task;
        let jobs = self.step.job_cores.zip(task.threads_per_core);
        task.masks.is_empty()
            && jobs.is_some_and(|(cores, threads)| task.cpus.len() > cores * threads)
    }

    fn moved(&self, cpus: CpuSet, place: &str) -> Decided {
        let verb = match cpus.is_subset(&self.task.cpus) {
            true => "narrowed to",
            false => "moved to the step's CPUs on",
        };
        (Some(cpus), format!("{verb} {place}"))
    }

    /// `bind=auto`: the nearest CPUs with which all tasks of the step keep their CPU shares.
    fn by_shares(&self, near: &NearNodes, notes: &mut Notes) -> Decided {
        let (node, own) = (self.topology, &self.task.cpus);
        let ladder = Ladder::around(node, &near.nodes);
        let tasks = StepTasks::new(node, self.step, self.task);
        let here = ladder.rung_of(own);
        let by_rule = tasks.gpu_nodes.get(self.task.local_id as usize);
        let by_rule = by_rule.and_then(Option::as_ref);
        if here == 0 && by_rule.is_none_or(|nodes| *nodes == near.nodes) {
            let already = || format!("already on {}", near.described());
            return (None, near.span().unwrap_or_else(already));
        }
        let cpus = match self.mask_by_shares(near, &tasks) {
            Ok(cpus) if cpus != *own => cpus,
            place => return self.far(near, &tasks, &ladder, place.err(), notes),
        };
        let place = match ladder.rung_of(&cpus) {
            0 => near.described(),
            reached if reached < here => {
                let rung = &ladder.rungs()[reached];
                let place = format!(
                    "{}, the nearest to {} of its GPU on which the step has room",
                    numa_nodes(&rung.nodes),
                    numa_nodes(&near.nodes)
                );
                match rung.distance {
                    Some(distance) => format!("{place}, distance {distance}"),
                    None => place,
                }
            }
            _ => format!(
                "{}, which Slurm's rule for GPUs leaves it beside the other tasks",
                numa_nodes(&node.nodes_of(&cpus))
            ),
        };
        self.moved(cpus, &place)
    }

    /// The task's new mask by facts that are equal in all tasks of the step, or why these do not
    /// suffice.
    fn mask_by_shares(
        &self,
        near: &NearNodes,
        tasks: &StepTasks<'_>,
    ) -> Result<CpuSet, &'static str> {
        let (own, id) = (&self.task.cpus, self.task.local_id as usize);
        if id >= tasks.len() {
            return Err("Slurm counts fewer tasks here than there are");
        }
        if tasks.mask(id) != own {
            return Err(
                "slurmd lists other CPUs for it than it has, and the other tasks go by that list",
            );
        }
        // if the number of tasks is unknown, the task's share may be all of its CPUs
        if self.step.uncounted {
            return Ok(own.clone());
        }
        if tasks.have_too_many_masks() {
            return Err("the step's tasks have more different masks than are compared");
        }
        if tasks.may_differ_in_cores() {
            return Err(
                "some tasks may have cores to themselves, and the node's cores were not read",
            );
        }
        if tasks.gpu_nodes.is_empty() {
            let most_near = |nodes: &NodeSet| self.most_with_gpus_on(nodes).unwrap_or(tasks.len());
            return Ok(near_mask(tasks, id, &near.nodes, most_near));
        }
        let by_rule = tasks.gpu_nodes[id]
            .as_ref()
            .ok_or("which GPU Slurm's number means is not certain")?;
        // the other tasks compute this mask too, by Slurm's rule for GPUs
        let mask = near_masks(tasks).swap_remove(id);
        match *by_rule != near.nodes && mask.is_subset(own) {
            true => Err("Slurm's rule expects it near other NUMA nodes"),
            false => Ok(mask),
        }
    }

    /// The largest possible number of tasks with GPUs on `nodes`; `None` if unknown, as with shared
    /// GPUs.
    fn most_with_gpus_on(&self, nodes: &NodeSet) -> Option<usize> {
        let (node, gpus) = (self.topology, self.gpus);
        if gpus.is_empty() || !have_own_gpus(self.task) {
            return None;
        }
        let is_there = |gpu: &&GpuIndex| {
            let numa = node.numa_node_of(node.gpu(**gpu).address);
            numa.is_some_and(|numa| nodes.contains(numa))
        };
        let orders = step_orders(node, self.step)?;
        let counts = orders.map(|order| order.iter().filter(is_there).count());
        Some(counts.into_iter().max()? / gpus.len())
    }

    /// The task keeps its far CPUs; the reason names a remedy, if any. `unlike`: the error of
    /// `mask_by_shares`.
    fn far(
        &self,
        near: &NearNodes,
        tasks: &StepTasks<'_>,
        ladder: &Ladder,
        unlike: Option<&str>,
        notes: &mut Notes,
    ) -> Decided {
        let (step, cpus, rungs) = (self.step, &self.task.cpus, ladder.rungs());
        let nearer = &rungs[ladder.rung_of(cpus).saturating_sub(1)].cpus;
        let nearer = tasks.cpus.intersection(nearer);
        if nearer.is_empty() || !tasks.cpus.intersects(&rungs[0].cpus) {
            return out_of_reach(notes, near.out_of_reach(step.starter));
        }
        let why = if let Some(why) = unlike {
            format!("{why}: it stays where it is; `bind=numa` would bring it near its GPU")
        } else if let Some(how) = memory_bound(step) {
            stays_by_memory(how)
        } else {
            let part = match step.uncounted {
                true => cpus.len(),
                false => LeastShares::new(tasks).cpus_of(self.task.local_id as usize),
            };
            let (has, few) = match (step.starter, tasks.len()) {
                (Starter::Launcher, _) => (
                    "it",
                    format!(
                        "too few for the processes that belong there with {part} each: it keeps all that it has; \
                         `bind=numa` would bring it near"
                    ),
                ),
                (_, 1) => (
                    "the step",
                    format!(
                        "too few for this task's {part}: it keeps them all; a smaller `-c` or `bind=numa` would \
                         bring it near"
                    ),
                ),
                _ => (
                    "the step",
                    format!(
                        "too few for the tasks that belong there with {part} each: it stays where Slurm put it; \
                         `--exclusive` or `-m block:block` may help, `bind=numa` takes what is there"
                    ),
                ),
            };
            let (nodes, room) = (&near.nodes, counted(nearer.len(), "CPU"));
            format!("near NUMA node {nodes} of its GPU {has} has {room}, {few}")
        };
        far(notes, why)
    }

    fn by_cores(&self, near: &NearNodes, notes: &mut Notes) -> Decided {
        let (node, task) = (self.topology, self.task);
        let (cpus, how) = match cores::own_cores(node, self.step, task, &near.nodes) {
            Ok(own) => own,
            Err(why) => {
                notes
                    .missed
                    .push(format!("`bind=core` cannot be had: {why}"));
                return self.by_shares(near, notes);
            }
        };
        let near_cpus = node.cpus_of(&near.nodes);
        let is_own = cpus == task.cpus;
        let why = if cpus.intersects(&near_cpus) {
            format!("{how}, on {}", near.described())
        } else {
            let missed = match task.step_cpus.intersects(&near_cpus) {
                true => format!(
                    "the step's cores on NUMA node {} are other tasks'; `bind=numa` shares them",
                    near.nodes
                ),
                false => near.out_of_reach(self.step.starter),
            };
            if is_own {
                return out_of_reach(notes, missed);
            }
            notes.missed.push(missed.clone());
            format!("{how}; {missed}")
        };
        ((!is_own).then_some(cpus), why)
    }

    /// `bind=numa`: the task's CPUs on the near NUMA nodes; if there are none, the step's CPUs
    /// there.
    fn on_nodes(&self, near: &NearNodes, notes: &mut Notes) -> Decided {
        let (node, own) = (self.topology, &self.task.cpus);
        let near_cpus = node.cpus_of(&near.nodes);
        if own.is_subset(&near_cpus) {
            return (None, format!("already on {}", near.described()));
        }
        let mut cpus = own.intersection(&near_cpus);
        if cpus.is_empty() {
            cpus = self.task.step_cpus.intersection(&near_cpus);
        }
        if cpus.is_empty() {
            return out_of_reach(notes, near.out_of_reach(self.step.starter));
        }
        match memory_bound(self.step) {
            Some(how) if node.nodes_of(own) != node.nodes_of(&cpus) => (None, stays_by_memory(how)),
            _ => self.moved(cpus, &near.described()),
        }
    }
}

#[cfg(test)]
#[path = "../../../../tests/attack/judge.rs"]
#[allow(dead_code, reason = "the end-to-end tests also judge memory")]
mod judge;
#[cfg(test)]
pub(crate) mod tests;

//! A task's placement: its GPUs, their rails, its CPUs and memory policy.

use crate::bind::{Situation, bind};
use crate::gpus;
use crate::libraries::joined;
use crate::order;
use crate::placement::{NodePlacement, Notes, RailIndex, TaskPlacement};
use crate::policy::Paths;
use crate::step::{Step, Task, TaskGpus};
use crate::topology::{CpuSet, GpuIndex, NicIndex, PathType, Topology};
use crate::wish::{GpuUse, Wish};
use std::borrow::Cow;

struct TaskRequest<'a> {
    topology: &'a Topology,
    map: &'a NodePlacement,
    wish: &'a Wish,
    task: &'a Task,
    reasons: Vec<String>,
}

/// A task with GPUs gets their rails from `map`; a task without GPUs gets the rails near its CPUs.
pub(super) fn placement(
    topology: &Topology,
    map: &NodePlacement,
    wish: &Wish,
    step: &Step,
    task: &Task,
) -> TaskPlacement {
    let mut task = Cow::Borrowed(task);
    let known = task.known.clone();
    let mut gpus = known.unwrap_or_else(|| gpus::identify(topology, step, &task.gpus));
    let by_local_id = || gpus::by_local_id(topology, step, &task, &gpus.own);
    let (mut notes, mut may_promise) = (Notes::default(), false);
    match wish.gpu {
        // fewer than two GPUs leave no choice; no error, since the job's other tasks may see more
        GpuUse::LocalId if gpus.own.len() < 2 => {}
        GpuUse::LocalId => match by_local_id() {
            Ok(all) => {
                gpus.reason = format!(
                    "local id {} of the {} that every task sees, as `gpu=local-id` promises ({})",
                    task.local_id,
                    gpus.own.len(),
                    gpus.reason
                );
                gpus.own = vec![all[task.local_id as usize]];
                gpus.by_local_id = Some(all);
                task.to_mut().known = Some(gpus.clone());
            }
            Err(why) => notes
                .missed
                .push(format!("`gpu=local-id` does not hold: {why}")),
        },
        GpuUse::Visible => {
            may_promise = task.known.is_none() && step.tasks_here() > 1 && by_local_id().is_ok();
        }
    }
    let TaskGpus {
        own, seen, reason, ..
    } = gpus;
    let mut bound = bind(
        &Situation {
            topology,
            step,
            task: &task,
            gpus: &own,
            wish,
        },
        notes,
    );
    let mut request = TaskRequest {
        topology,
        map,
        wish,
        task: &task,
        reasons: vec![match own.as_slice() {
            [] => reason,
            [gpu] => format!("GPU {gpu}: {reason}"),
            many => format!("GPUs {}: {reason}", joined(many)),
        }],
    };
    bound.seen = seen;
    bound.rails = match own.is_empty() {
        true => request.rails_near_cpus(&bound.cpus),
        false => request.rails_of_gpus(&own, may_promise),
    };
    let notes = &mut bound.notes;
    notes.warning = request.warn_of_denied();
    notes.reasons.splice(..0, request.reasons);
    notes.reasons.extend(notes.warning.clone());
    bound
}

impl TaskRequest<'_> {
    fn is_denied(&self, rail: RailIndex) -> bool {
        self.task.denied_nics.contains(&self.map.rail(rail).nic)
    }

    /// The rails that `openable` returns for `gpus`: each once, with the path from the nearest GPU.
    fn rails_of_gpus(
        &mut self,
        gpus: &[GpuIndex],
        may_promise: bool,
    ) -> Vec<(RailIndex, PathType)> {
        let mut rails: Vec<(RailIndex, PathType)> = Vec::new();
        for &gpu in gpus {
            let reason = &self.map.gpu(gpu).reason;
            // the map's reasons are empty under `Wish::wordless`
            if gpus.len() == 1 && !reason.is_empty() {
                self.reasons.push(reason.clone());
            }
            for (rail, path) in self.openable(gpu) {
                match rails.iter_mut().find(|(known, _)| *known == rail) {
                    Some((_, nearest)) => *nearest = (*nearest).min(path),
                    None => rails.push((rail, path)),
                }
            }
        }
        if gpus.len() > 1 {
            let hint = if may_promise {
                "; if it uses the one of its local id, say `gpu=local-id`"
            } else {
                ""
            };
            self.reasons.push(format!(
                "it sees {} GPUs, and which of them it will use is not known before it starts: the NICs of all{hint}",
                gpus.len()
            ));
        }
        rails
    }

    /// The GPU's rails that the task may open; if none, the best of the node's rails that it may
    /// open.
    fn openable(&mut self, gpu: GpuIndex) -> Vec<(RailIndex, PathType)> {
        let map = self.map;
        let choices = map
            .gpu(gpu)
            .choices
            .iter()
            .map(|choice| (choice.rail, choice.path));
        let (refused, mut rails): (Vec<_>, Vec<_>) =
            choices.partition(|&(rail, _)| self.is_denied(rail));
        if refused.is_empty() {
            return rails;
        }
        // in rail order: GPUs with the same denied rails then give equal texts, and `reasons` keeps
        // one
        let refused = order::set(refused.into_iter().map(|(rail, _)| rail));
        let names: Vec<String> = refused
            .into_iter()
            .map(|rail| map.rail(rail).to_string())
            .collect();
        let mut reason = format!("its device cgroup denies it {}", names.join(" "));
        if rails.is_empty() {
            let paths = Paths::one_each(self.topology, &map.rails, &self.wish.admin.through);
            match paths.best(
                gpu,
                map.rail_indices().filter(|&rail| !self.is_denied(rail)),
            ) {
                Some(best) => {
                    let (rail, path) = (map.rail(best), paths.kind(gpu, best));
                    reason.push_str(&format!(
                        ", and {rail} at {path} is the next best for GPU {gpu}"
                    ));
                    rails.push((best, path));
                }
                None => reason.push_str(" and every other NIC that may be chosen"),
            }
        }
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
        rails
    }

    /// Of the rails that the task may open, those on the NUMA nodes of `cpus`; if there are none,
    /// all.
    fn rails_near_cpus(&mut self, cpus: &CpuSet) -> Vec<(RailIndex, PathType)> {
        let &mut TaskRequest { topology, map, .. } = self;
        let nodes = topology.nodes_of(cpus);
        let is_near = |rail: &RailIndex| {
            let address = topology.nic(map.rail(*rail).nic).address;
            address
                .and_then(|address| topology.numa_node_of(address))
                .is_some_and(|node| nodes.contains(node))
        };
        let allowed = map.rail_indices().filter(|&rail| !self.is_denied(rail));
        let (near, others): (Vec<RailIndex>, Vec<RailIndex>) = allowed.partition(is_near);
        let (rails, path) = if near.is_empty() {
            (others, PathType::Sys)
        } else {
            (near, PathType::Node)
        };
        if !rails.is_empty() {
            self.reasons.push(match path {
                PathType::Node => format!("the NICs of NUMA node {nodes}, on which it runs"),
                _ => "no good NIC on a NUMA node on which it runs: all of the node".to_string(),
            });
        }
        rails.into_iter().map(|rail| (rail, path)).collect()
    }

    /// A warning if `denied_nics` has a rail's NIC: NCCL skips that NIC, and then numbers NICs
    /// differently than in the node's other tasks.
    fn warn_of_denied(&self) -> Option<String> {
        let is_rail = |nic: &&NicIndex| self.map.rails.iter().any(|rail| rail.nic == **nic);
        let denied = self.task.denied_nics.iter().filter(is_rail);
        let denied: Vec<&str> = denied
            .map(|&nic| self.topology.nic(nic).name.as_str())
            .collect();
        (!denied.is_empty()).then(|| {
            format!(
                "it may not open {}: NCCL skips these, and then numbers the NICs differently than in tasks of this node \
                 that may open them",
                denied.join(" ")
            )
        })
    }
}

#[cfg(test)]
mod tests;

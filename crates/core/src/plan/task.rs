//! One task's part of the node-wide map: its GPUs, their rails, its CPUs and memory.
#![forbid(unsafe_code)]

use crate::bind::{Bound, Situation, bind, cores};
use crate::gpus;
use crate::order::Order;
use crate::placement::{Binding, CpuDecision, GpuUse, NodePlacement, RailIndex, RailUse, TaskPlacement};
use crate::policy::Through;
use crate::policy::reach::Reach;
use crate::step::{Claim, Step, Task};
use crate::topology::{GpuIndex, NicIndex, PathType, Topology};
use std::collections::BTreeMap;

/// Looks the task's GPUs up in the map; a task without GPUs gets the rails of its NUMA nodes.
pub fn decide(
    topology: &Topology,
    node: &NodePlacement,
    step: &Step,
    task: &Task,
    binding: Binding,
    through: &Through,
    gpu_use: GpuUse,
) -> TaskPlacement {
    let Identified { of_it: Claim { gpus, reason }, seen, promise, may_promise } =
        identify(topology, step, task, gpu_use);
    let promised = promise.as_ref().and_then(|promise| promise.as_ref().ok());
    let with_promise = promised.map(|all| Task { promised: Some(all.clone()), ..task.clone() });
    let task = with_promise.as_ref().unwrap_or(task);
    let Bound { cpus, mems, missed } = bind(&Situation { topology, step, task, gpus: &gpus, binding });
    let refused = promise.and_then(Result::err);
    let missed = match (refused, missed) {
        (Some(refused), Some(missed)) => Some(format!("{refused}; {missed}")),
        (refused, missed) => refused.or(missed),
    };
    let threads = binding.count_threads.then(|| cores::threads(topology, step, task, cpus.cpus()));
    let (uncounted, threads) = (threads == Some(None), threads.flatten());
    let mut reasons = vec![match gpus.as_slice() {
        [] => reason,
        [gpu] => format!("GPU {gpu}: {reason}"),
        many => format!("GPUs {}: {reason}", list(many)),
    }];
    let rails = match gpus.is_empty() {
        true => rails_near_cpus(topology, node, &cpus, &task.denied_nics, &mut reasons),
        false => rails_of_gpus(topology, node, &gpus, &task.denied_nics, through, may_promise, &mut reasons),
    };
    reasons.push(format!("CPUs: {}", cpus.why()));
    reasons.extend(missed.iter().filter(|missed| *missed != cpus.why()).cloned());
    reasons.push(format!("memory: {}", mems.why()));
    if uncounted {
        reasons.push(format!("`omp=on` sets nothing: {}", cores::UNCOUNTED));
    }
    let (local_id, global_id) = (task.local_id, task.global_id);
    TaskPlacement { local_id, global_id, gpus, seen, rails, cpus, mems, threads, missed, reasons }
}

/// Whose GPUs a task has.
struct Identified {
    /// the GPUs that it will use, as far as that is known
    of_it: Claim,
    /// the GPUs that its program counts, in its order
    seen: Vec<GpuIndex>,
    /// where the user promised which one it uses: the GPUs of all tasks of the step, or why that is not believed
    promise: Option<Result<Vec<GpuIndex>, String>>,
    /// would a promise be believed that the user did not give?
    may_promise: bool,
}

fn identify(topology: &Topology, step: &Step, task: &Task, gpu_use: GpuUse) -> Identified {
    let claim = task.claim.clone().unwrap_or_else(|| gpus::identify(topology, step, &task.gpus));
    let seen = task.sees.clone().unwrap_or_else(|| claim.gpus.clone());
    let by_local_id = || gpus::by_local_id(topology, step, task, &claim);
    let not_promised =
        |claim, may_promise| Identified { of_it: claim, seen: seen.clone(), promise: None, may_promise };
    match gpu_use {
        // a task that sees one GPU at most needs no promise: `gpu=local-id` may be set for tasks that see more
        GpuUse::LocalId if claim.gpus.len() < 2 => not_promised(claim, false),
        GpuUse::LocalId => {
            let promise = by_local_id();
            let of_it = match &promise {
                Ok(all) => {
                    let (own, count) = (all[task.local_id as usize], claim.gpus.len());
                    let reason = format!(
                        "local id {} of the {count} that every task sees, as `gpu=local-id` promises ({})",
                        task.local_id, claim.reason
                    );
                    Claim { gpus: vec![own], reason }
                }
                Err(_) => claim,
            };
            let promise = promise.map_err(|why| format!("`gpu=local-id` does not hold: {why}"));
            Identified { of_it, seen, promise: Some(promise), may_promise: false }
        }
        GpuUse::Visible => {
            let may_promise = task.claim.is_none() && step.tasks_here() > 1 && by_local_id().is_ok();
            not_promised(claim, may_promise)
        }
    }
}

/// The rails of the task's GPUs in the GPUs' order, each once, at its nearest.
fn rails_of_gpus(
    topology: &Topology,
    node: &NodePlacement,
    gpus: &[GpuIndex],
    denied: &[NicIndex],
    through: &Through,
    may_promise: bool,
    reasons: &mut Vec<String>,
) -> Vec<(RailIndex, PathType)> {
    let mut rails: Vec<(RailIndex, PathType)> = Vec::new();
    for &gpu in gpus {
        let placement = node.gpu(gpu);
        // it is empty under `Reasons::Wordless`
        if gpus.len() == 1 && !placement.reason.is_empty() {
            reasons.push(placement.reason.clone());
        }
        for (rail, path) in openable(topology, node, gpu, denied, through, reasons) {
            match rails.iter_mut().find(|(known, _)| *known == rail) {
                Some((_, nearest)) => *nearest = (*nearest).min(path),
                None => rails.push((rail, path)),
            }
        }
    }
    if gpus.len() > 1 {
        let hint = if may_promise { "; if it uses the one of its local id, say `gpu=local-id`" } else { "" };
        reasons.push(format!(
            "it sees {} GPUs, and which of them it will use is not known before it starts: the NICs of all{hint}",
            gpus.len()
        ));
    }
    rails
}

/// The rails of a GPU that the task may open; if there are none, the next best of the node.
fn openable(
    topology: &Topology,
    node: &NodePlacement,
    gpu: GpuIndex,
    denied: &[NicIndex],
    through: &Through,
    reasons: &mut Vec<String>,
) -> Vec<(RailIndex, PathType)> {
    let is_denied = |rail: RailIndex| denied.contains(&node.rail(rail).nic);
    let choices = &node.gpu(gpu).choices;
    let (refused, allowed): (Vec<&RailUse>, Vec<&RailUse>) =
        choices.iter().partition(|choice| is_denied(choice.rail));
    let mut rails: Vec<(RailIndex, PathType)> =
        allowed.iter().map(|choice| (choice.rail, choice.path)).collect();
    if refused.is_empty() {
        return rails;
    }
    // in rail order, whichever is the nearest: several GPUs that lack the same say the same
    let mut refused: Vec<RailIndex> = refused.iter().map(|choice| choice.rail).collect();
    refused.order();
    let names: Vec<String> = refused.iter().map(|&rail| node.rail(rail).to_string()).collect();
    let mut reason = format!("its device cgroup denies it {}", names.join(" "));
    if rails.is_empty() {
        let reach = Reach::new(topology, &node.rails, through);
        let allowed = node.rail_indices().filter(|&rail| !is_denied(rail)).map(|rail| rail.0);
        match reach.best(gpu, allowed) {
            Some(best) => {
                let (rail, path) = (node.rail(RailIndex(best)), reach.path(gpu, best));
                reason.push_str(&format!(", and {rail} at {path} is the next best for GPU {gpu}"));
                rails.push((RailIndex(best), path));
            }
            None => reason.push_str(" and every other NIC that may be chosen"),
        }
    }
    if !reasons.contains(&reason) {
        reasons.push(reason);
    }
    rails
}

/// Rails of the NUMA nodes on which the task runs; all rails if those nodes have none.
fn rails_near_cpus(
    topology: &Topology,
    node: &NodePlacement,
    cpus: &CpuDecision,
    denied: &[NicIndex],
    reasons: &mut Vec<String>,
) -> Vec<(RailIndex, PathType)> {
    let nodes = topology.nodes_of(cpus.cpus());
    let mut by_path: BTreeMap<PathType, Vec<RailIndex>> = BTreeMap::new();
    for (rail, port) in node.numbered_rails().filter(|(_, port)| !denied.contains(&port.nic)) {
        let rail_node = topology.nic(port.nic).address.and_then(|address| topology.numa_node_of(address));
        let path = match rail_node.is_some_and(|rail_node| nodes.contains(rail_node)) {
            true => PathType::Node,
            false => PathType::Sys,
        };
        by_path.entry(path).or_default().push(rail);
    }
    let Some((path, rails)) = by_path.into_iter().next() else { return Vec::new() };
    reasons.push(match path {
        PathType::Node => format!("the NICs of NUMA node {nodes}, on which it runs"),
        _ => "no good NIC on a NUMA node on which it runs: all of the node".to_string(),
    });
    rails.into_iter().map(|rail| (rail, path)).collect()
}

/// NCCL numbers NICs by their place in one list for all tasks of a node, so the list must not depend on one
/// task's rights.
pub fn warn_of_denied(node: &NodePlacement, topology: &Topology, task: &Task) -> Option<String> {
    let is_rail = |nic: &&NicIndex| node.rails.iter().any(|rail| rail.nic == **nic);
    let denied = task.denied_nics.iter().filter(is_rail);
    let denied: Vec<&str> = denied.map(|&nic| topology.nic(nic).name.as_str()).collect();
    (!denied.is_empty()).then(|| {
        format!(
            "it may not open {}: NCCL skips these, and then numbers the NICs differently than in tasks of this node \
             that may open them",
            denied.join(" ")
        )
    })
}

fn list(gpus: &[GpuIndex]) -> String {
    gpus.iter().map(GpuIndex::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;

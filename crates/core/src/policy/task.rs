//! One task's part of the node-wide map: its GPUs, their rails, its CPUs and memory.
#![forbid(unsafe_code)]

use super::binding::{self, Bound, Situation};
use super::{Through, Ways, cores, identity};
use crate::placement::{Binding, CpuDecision, NodePlacement, RailIndex, RailUse, TaskPlacement};
use crate::step::{Claim, Step, Task};
use crate::topology::{GpuIndex, NicIndex, PathType, Topology};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Looks the task's GPUs up in the map; a task without GPUs gets the rails of its NUMA nodes.
pub fn decide(
    topology: &Topology,
    node: &NodePlacement,
    step: &Step,
    task: &Task,
    binding: Binding,
    through: &Through,
) -> TaskPlacement {
    let known = || identity::identify(topology, step, &task.gpus);
    let Claim { gpus, reason } = task.claim.clone().unwrap_or_else(known);
    let Bound { cpus, mems, missed } =
        binding::bind(&Situation { topology, step, task, gpus: &gpus, binding });
    let threads = binding.count_threads.then(|| cores::threads(topology, step, task, cpus.cpus()));
    let mut reasons = vec![match gpus.as_slice() {
        [] => reason,
        [gpu] => format!("GPU {gpu}: {reason}"),
        many => format!("GPUs {}: {reason}", list(many)),
    }];
    let rails = match gpus.is_empty() {
        true => rails_near_cpus(topology, node, &cpus, &task.denied_nics, &mut reasons),
        false => rails_of_gpus(topology, node, &gpus, &task.denied_nics, through, &mut reasons),
    };
    reasons.push(format!("CPUs: {}", cpus.why()));
    reasons.extend(missed.iter().filter(|missed| *missed != cpus.why()).cloned());
    reasons.push(format!("memory: {}", mems.why()));
    let (local_id, global_id) = (task.local_id, task.global_id);
    TaskPlacement { local_id, global_id, gpus, rails, cpus, mems, threads, missed, reasons }
}

/// The rails of the task's GPUs in the GPUs' order, each once, at its nearest.
fn rails_of_gpus(
    topology: &Topology,
    node: &NodePlacement,
    gpus: &[GpuIndex],
    denied: &[NicIndex],
    through: &Through,
    reasons: &mut Vec<String>,
) -> Vec<(RailIndex, PathType)> {
    let mut rails: Vec<(RailIndex, PathType)> = Vec::new();
    for &gpu in gpus {
        let placement = node.gpu(gpu);
        if gpus.len() == 1 {
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
        reasons.push(format!(
            "it sees {} GPUs, and which of them it will use is not known before it starts: the NICs of all",
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
    let names: Vec<String> = refused.iter().map(|choice| node.rail(choice.rail).to_string()).collect();
    let mut reason = format!("its device cgroup denies it {}", names.join(" "));
    if rails.is_empty() {
        let ways = Ways::new(topology, &node.rails, through, 1);
        let allowed = node.rail_indices().filter(|&rail| !is_denied(rail));
        let best = allowed.min_by_key(|&rail| (Reverse(ways.value(gpu, rail)), ways.kind(gpu, rail), rail));
        match best {
            Some(best) => {
                let (rail, kind) = (node.rail(best), ways.kind(gpu, best));
                reason.push_str(&format!(", and {rail} at {kind} is the next best for GPU {gpu}"));
                rails.push((best, kind));
            }
            None => reason.push_str(" and every other NIC that may be chosen"),
        }
    }
    reasons.push(reason);
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
mod tests {
    use super::*;
    use crate::placement::Policy;
    use crate::policy::{self, Request};

    /// The rails of a task with these GPUs of a DGX H100, and the reasons that name a refusal.
    fn placed(gpus: &str, denied: &[&str], policy: Policy) -> (Vec<String>, Vec<String>) {
        placed_through(gpus, denied, policy, Through::default())
    }

    /// The same with the admin's figures for what paths let through.
    fn placed_through(
        gpus: &str,
        denied: &[&str],
        policy: Policy,
        through: Through,
    ) -> (Vec<String>, Vec<String>) {
        let topology = crate::platform::model("dgx-h100").unwrap();
        let node = policy::map(&topology, &Request { policy, through, ..Request::default() });
        let denied_nics = denied.iter().filter_map(|name| topology.nic_index(name)).collect();
        let mut task = Task { denied_nics, ..Task::default() };
        task.gpus.variables.insert("CUDA_VISIBLE_DEVICES", gpus.to_string());
        let task = decide(&topology, &node, &Step::default(), &task, Binding::default(), &through);
        let rails = task.rails.iter().map(|&(rail, path)| format!("{} {path}", node.rail(rail)));
        let refusals = task.reasons.into_iter().filter(|reason| reason.contains("denies"));
        (rails.collect(), refusals.collect())
    }

    #[test]
    fn a_task_that_may_not_open_its_nic_gets_the_next_best_one() {
        assert_eq!(placed("1", &[], Policy::Closest), (vec!["mlx5_3:1 PIX".to_string()], vec![]));
        assert_eq!(placed("1", &["mlx5_0"], Policy::Closest).0, ["mlx5_3:1 PIX"], "another's NIC is no loss");
        let (rails, reasons) = placed("1", &["mlx5_3"], Policy::Closest);
        assert_eq!(rails, ["mlx5_0:1 NODE"]);
        assert_eq!(
            reasons,
            ["its device cgroup denies it mlx5_3:1, and mlx5_0:1 at NODE is the next best for GPU 1"]
        );
        assert_eq!(placed("1,2", &["mlx5_3"], Policy::Closest).0, ["mlx5_0:1 NODE", "mlx5_4:1 PIX"]);
    }

    #[test]
    fn what_the_admin_says_of_paths_counts_for_the_next_best_nic_too() {
        let mut through = Through::default();
        through.set(PathType::Node, 400);
        through.set(PathType::Sys, 900);
        let (rails, _) = placed_through("1", &["mlx5_3"], Policy::Closest, through);
        assert_eq!(rails, ["mlx5_6:1 SYS"], "`lets-through=NODE:40,SYS:90`");
    }

    #[test]
    fn a_task_with_several_nics_keeps_those_that_it_may_open() {
        let (rails, reasons) = placed("0", &["mlx5_0", "mlx5_4"], Policy::Numa);
        assert_eq!(rails, ["mlx5_3:1 NODE", "mlx5_5:1 NODE"]);
        assert_eq!(reasons, ["its device cgroup denies it mlx5_0:1 mlx5_4:1"]);
    }

    #[test]
    fn a_task_that_may_open_no_nic_gets_none() {
        let all = ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"];
        let (rails, reasons) = placed("0", &all, Policy::Closest);
        assert_eq!(rails, Vec::<String>::new());
        assert_eq!(reasons, ["its device cgroup denies it mlx5_0:1 and every other NIC that may be chosen"]);
    }
}

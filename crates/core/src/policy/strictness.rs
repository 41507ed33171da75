//! Demands on a task's placement; except `strict`, the levels are named as in Kubernetes' Topology
//! Manager.

use crate::placement::{NodePlacement, Rail, Strictness, TaskPlacement};
use crate::topology::{NodeSet, Topology};

/// Unmet demands, a sentence each; a `best-effort` task runs all the same. `judges_nics`: false if
/// the user, a file or the admin's `set=` lists NICs.
pub fn shortfalls(
    node: &Topology,
    map: &NodePlacement,
    task: &TaskPlacement,
    judges_nics: bool,
    strictness: Strictness,
) -> Vec<String> {
    let mut missing = Vec::new();
    if !task.gpus.is_empty() && task.rails.is_empty() && !node.is_left_to_libfabric() {
        missing.push("no NIC of this node may be chosen".to_string());
    }
    let of_gpus = task.gpus.iter().map(|&gpu| map.gpu(gpu).shortfall.clone());
    missing.extend(of_gpus.flatten());
    let missed = &task.notes.missed;
    if !missed.is_empty() {
        missing.push(missed.join("; "));
    }
    if strictness < Strictness::Restricted || task.gpus.is_empty() {
        return missing;
    }
    let gpus = task.gpus.iter().map(|&gpu| node.gpu(gpu).address);
    let near: Option<NodeSet> = gpus.map(|address| node.numa_node_of(address)).collect();
    let Some(near) = near else {
        missing.push("the kernel names no NUMA node for its GPU".to_string());
        return missing;
    };
    let single = strictness == Strictness::SingleNumaNode;
    if single && near.len() > 1 {
        missing.push(format!("its GPUs are on NUMA nodes {near}"));
    }
    if judges_nics {
        let is_near = |rail: &Rail| {
            let address = node.nic(rail.nic).address;
            let its = address.and_then(|address| node.numa_node_of(address));
            its.is_some_and(|its| near.contains(its))
        };
        // `restricted` accepts far NICs if the GPUs' NUMA nodes have no good NIC
        let asks = single || map.rails.iter().any(is_near);
        let rails = task.rails.iter().map(|(rail, _)| map.rail(*rail));
        for rail in rails.filter(|rail| asks && !is_near(rail)) {
            missing.push(format!("{rail} is not on NUMA node {near} of its GPU"));
        }
    }
    let (cpus, near_cpus) = (&task.cpus, node.cpus_of(&near));
    if !cpus.is_empty() && !cpus.is_subset(&near_cpus) && (single || !near_cpus.is_empty()) {
        match &task.notes.far {
            // `missed` already has this reason
            Some(_) if !missed.is_empty() => {}
            Some(why) => missing.push(why.clone()),
            None => missing.push(format!(
                "its CPUs {cpus} are not all on NUMA node {near} of its GPU"
            )),
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{NicsEach, Notes, Policy, RailIndex};
    use crate::policy::map;
    use crate::policy::tests::{model, patterns, wish};
    use crate::topology::{CpuSet, GpuIndex, PathType};
    use crate::wish::Wish;
    use Strictness::*;

    type Task<'t> = (&'t [usize], &'t [usize], &'t str);

    fn lacks(excluded: &str, of: Strictness, (gpus, rails, cpus): Task, notes: Notes) -> String {
        let topology = model("dgx-h100", &[]);
        let mut wish = Wish::default();
        wish.admin.selection.exclude = patterns(excluded);
        let gpus: Vec<GpuIndex> = gpus.iter().copied().map(GpuIndex).collect();
        let rails = rails.iter().map(|&rail| (RailIndex(rail), PathType::Sys));
        let task = TaskPlacement {
            seen: gpus.clone(),
            gpus,
            rails: rails.collect(),
            cpus: CpuSet::from_list(cpus).unwrap(),
            notes,
            ..TaskPlacement::default()
        };
        shortfalls(&topology, &map(&topology, &wish), &task, true, of).join("; ")
    }

    #[test]
    fn each_word_wants_what_it_says_of_gpus_nics_and_cpus() {
        let near = "mlx5_0 mlx5_3 mlx5_4 mlx5_5";
        let (own, far_nic) = ((&[0][..], &[0][..], "0-3"), (&[0][..], &[7][..], "0-3"));
        let (far, no_nic) = ((&[0][..], &[7][..], "56-60"), (&[0][..], &[][..], "0-3"));
        let nothing = (&[][..], &[0, 7][..], "0-3,56");
        let far_cpu = (&[0][..], &[0][..], "0-3,56");
        let far_gpu = (&[0, 4][..], &[0, 4][..], "0-3");
        for (excluded, strictness, task, said) in [
            ("", BestEffort, far, ""),
            ("", Strict, far, ""),
            ("", BestEffort, no_nic, "no NIC of this node "),
            ("", Strict, no_nic, "no NIC of this node "),
            ("", Restricted, own, ""),
            ("", Restricted, far_nic, "mlx5_11:1 is not on NUMA node 0"),
            ("", Restricted, far_cpu, "its CPUs 0-3,56 are not all"),
            // GPUs of two nodes may have both
            ("", Restricted, (&[0, 4], &[0, 4], "0-3,56"), ""),
            ("", SingleNumaNode, (&[0, 1], &[0, 1], "0-3"), ""),
            ("", SingleNumaNode, far_gpu, "its GPUs are on NUMA "),
            // a task without GPUs is asked for nothing
            ("", BestEffort, nothing, ""),
            ("", Restricted, nothing, ""),
            ("", SingleNumaNode, nothing, ""),
            // a far NIC is the node's best where the admin excludes the near ones, and still not on
            // one NUMA node
            (near, Restricted, own, ""),
            (near, SingleNumaNode, own, "mlx5_6:1 is not on NUMA node"),
        ] {
            let found = lacks(excluded, strictness, task, Notes::default());
            assert!(found.starts_with(said), "{found}");
            let (is_told, case) = (!found.is_empty(), (strictness, task));
            assert_eq!(is_told, !said.is_empty(), "{case:?}: {found}");
            assert!(!found.contains("; "), "{found}");
        }
    }

    #[test]
    fn cpus_out_of_reach_are_told_once_with_their_reason() {
        let (few, none) = ("too few CPUs there", "no CPU there");
        for (missed, said) in [(None, few), (Some(none), none)] {
            let notes = Notes {
                far: Some(few.to_string()),
                missed: missed.into_iter().map(str::to_string).collect(),
                ..Notes::default()
            };
            assert_eq!(lacks("", Restricted, (&[0], &[0], "56-60"), notes), said);
        }
    }

    #[test]
    fn a_broken_rail_is_a_shortfall_of_the_task_whose_gpu_it_serves() {
        let mut wish = wish(Policy::Rail, NicsEach::Auto);
        wish.admin.rails = patterns("mlx5_0 mlx5_99 mlx5_4 mlx5_5 mlx5_6 mlx5_9 mlx5_10 mlx5_11");
        let node = map(&model("dgx-h100", &[]), &wish);
        let shortfall = |gpu: usize| node.gpus[gpu].shortfall.as_deref();
        let broken = Some("GPU 1: rail 1 (mlx5_99) is broken");
        assert_eq!([0, 1, 2].map(shortfall), [None, broken, None]);
        assert_eq!(node.diagnostics.len(), 1, "{:?}", node.diagnostics);
    }
}

//! Demands on a task's placement, in the words of Kubernetes' Topology Manager.
//!
//! `best-effort` asks for nothing. `strict` asks that the decision can be carried out. `restricted`
//! also asks for NICs and CPUs on the NUMA nodes of the task's GPUs, if the node has any there.
//! `single-numa-node` asks for GPUs, NICs and CPUs on one NUMA node.

use crate::placement::{NodePlacement, Rail, Strictness, TaskPlacement};
use crate::topology::{NodeSet, Topology};

/// Sentences on unmet demands; a `best-effort` task runs in spite of them. `judges_nics` is false
/// if a list of NICs is not ours.
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
            // `missed` has the reason
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
    use crate::placement::{Notes, Policy, RailIndex};
    use crate::policy::{self, Pattern, Selection};
    use crate::topology::{CpuSet, GpuIndex, PathType};
    use crate::wish::{Admin, Wish};
    use nic_placement_node::platform;

    fn lacks(strictness: Strictness, gpus: &[usize], rails: &[usize], cpus: &str) -> Vec<String> {
        let notes = Notes::default();
        lacks_by(
            &Selection::default(),
            strictness,
            (gpus, rails),
            cpus,
            notes,
        )
    }

    fn lacks_by(
        selection: &Selection,
        strictness: Strictness,
        (gpus, rails): (&[usize], &[usize]),
        cpus: &str,
        notes: Notes,
    ) -> Vec<String> {
        let topology = platform::model("dgx-h100").unwrap();
        let node = policy::map(
            &topology,
            &Wish {
                admin: Admin {
                    selection: selection.clone(),
                    ..Admin::default()
                },
                ..Wish::default()
            },
        );
        let task = TaskPlacement {
            gpus: gpus.iter().copied().map(GpuIndex).collect(),
            seen: gpus.iter().copied().map(GpuIndex).collect(),
            rails: rails
                .iter()
                .map(|&rail| (RailIndex(rail), PathType::Sys))
                .collect(),
            cpus: CpuSet::from_list(cpus).unwrap(),
            notes,
            ..TaskPlacement::default()
        };
        shortfalls(&topology, &node, &task, true, strictness)
    }

    #[test]
    fn best_effort_and_strict_accept_what_is_far() {
        for strictness in [Strictness::BestEffort, Strictness::Strict] {
            assert!(lacks(strictness, &[0], &[7], "56-60").is_empty());
            assert_eq!(
                lacks(strictness, &[0], &[], "0-3"),
                ["no NIC of this node may be chosen"]
            );
        }
    }

    #[test]
    fn restricted_wants_nics_and_cpus_on_the_numa_nodes_of_the_gpus() {
        let restricted = |gpus: &[usize], rails: &[usize], cpus: &str| {
            lacks(Strictness::Restricted, gpus, rails, cpus)
        };
        assert!(restricted(&[0], &[0], "0-3").is_empty());
        assert_eq!(
            restricted(&[0], &[7], "0-3"),
            ["mlx5_11:1 is not on NUMA node 0 of its GPU"]
        );
        assert_eq!(
            restricted(&[0], &[0], "0-3,56"),
            ["its CPUs 0-3,56 are not all on NUMA node 0 of its GPU"]
        );
        assert!(
            restricted(&[0, 4], &[0, 4], "0-3,56").is_empty(),
            "GPUs of two nodes may have both"
        );
    }

    #[test]
    fn single_numa_node_wants_all_on_one() {
        let single =
            |gpus: &[usize], rails: &[usize]| lacks(Strictness::SingleNumaNode, gpus, rails, "0-3");
        assert!(single(&[0, 1], &[0, 1]).is_empty());
        assert_eq!(single(&[0, 4], &[0, 4]), ["its GPUs are on NUMA nodes 0-1"]);
    }

    #[test]
    fn a_task_without_gpus_is_asked_for_nothing() {
        for strictness in [
            Strictness::BestEffort,
            Strictness::Restricted,
            Strictness::SingleNumaNode,
        ] {
            assert!(lacks(strictness, &[], &[0, 7], "0-3,56").is_empty());
        }
    }

    #[test]
    fn a_far_nic_is_the_nodes_best_where_the_admin_excludes_the_near_ones_and_still_not_on_one_numa_node()
     {
        let near = ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"];
        let exclude = near
            .iter()
            .map(|name| Pattern::parse(name).unwrap())
            .collect();
        let selection = Selection {
            exclude,
            ..Selection::default()
        };
        let lacks = |strictness| {
            let notes = Notes::default();
            lacks_by(&selection, strictness, (&[0], &[0]), "0-3", notes)
        };
        assert!(lacks(Strictness::Restricted).is_empty());
        assert_eq!(
            lacks(Strictness::SingleNumaNode),
            ["mlx5_6:1 is not on NUMA node 0 of its GPU"]
        );
    }

    #[test]
    fn cpus_out_of_reach_are_told_once_with_their_reason() {
        let lacks = |missed: Option<&str>| {
            let notes = Notes {
                far: Some("too few CPUs there".to_string()),
                missed: missed.into_iter().map(str::to_string).collect(),
                ..Notes::default()
            };
            lacks_by(
                &Selection::default(),
                Strictness::Restricted,
                (&[0], &[0]),
                "56-60",
                notes,
            )
        };
        assert_eq!(lacks(None), ["too few CPUs there"]);
        assert_eq!(lacks(Some("no CPU there")), ["no CPU there"]);
    }

    #[test]
    fn a_broken_rail_is_a_shortfall_of_the_task_whose_gpu_it_serves() {
        let topology = platform::model("dgx-h100").unwrap();
        let rails = [
            "mlx5_0", "mlx5_99", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
        ];
        let rails: Vec<_> = rails
            .iter()
            .map(|name| crate::policy::Pattern::parse(name).unwrap())
            .collect();
        let node = policy::map(
            &topology,
            &Wish {
                policy: Policy::Rail,
                admin: Admin {
                    rails,
                    ..Admin::default()
                },
                ..Wish::default()
            },
        );
        let shortfalls: Vec<Option<&str>> = node
            .gpus
            .iter()
            .map(|gpu| gpu.shortfall.as_deref())
            .collect();
        assert_eq!(
            shortfalls[..3],
            [None, Some("GPU 1: rail 1 (mlx5_99) is broken"), None]
        );
        assert_eq!(node.diagnostics.len(), 1, "{:?}", node.diagnostics);
    }
}

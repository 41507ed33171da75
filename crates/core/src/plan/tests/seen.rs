//! What a kernel or a container shows otherwise than a machine is.
#![forbid(unsafe_code)]

use super::*;
use crate::topology::CpuSet;
use crate::wish::Admin;

#[test]
fn each_core_is_one_where_their_numbers_begin_anew_within_a_package() {
    let mut machine = platform::model("dgx-h100").unwrap();
    machine.numa_nodes.retain(|node| node.os_index == 0);
    machine.numa_nodes[0].cpus = CpuSet::from_list("0-7").unwrap();
    machine.numa_nodes[0].distances = vec![10];
    machine.pus.clear();
    let mut tree = synthesise(&machine);
    let mut file = |path: &str, text: &str| tree.insert(path, Entry::File(text.to_string()));
    // two clusters of four cores, as a kernel numbers them that reads a device tree
    for cpu in 0..8 {
        let at = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        file(&format!("{at}/physical_package_id"), "0");
        file(&format!("{at}/core_id"), &(cpu % 4).to_string());
        file(&format!("{at}/thread_siblings_list"), &cpu.to_string());
    }
    for scope in [Scope::Cores, Scope::Full] {
        let (topology, _) = discover(&Root::manifest(tree.clone()), scope, Provenance::ThisSystem);
        let words = Words::parse("bind=core").unwrap();
        let wish = Wish::new(Admin::default(), None, Some(&words));
        let step = Step {
            tasks: 8,
            gpus: Some(ALL.into()),
            ..Step::default()
        };
        let plan = Plan::new(topology, wish, step, &|_| None);
        let all = CpuSet::from_list("0-7").unwrap();
        let own = (0..8).map(|local_id| {
            let (cpus, step_cpus, masks) = (all.clone(), all.clone(), vec![all.clone()]);
            let mut task = Task {
                local_id,
                cpus,
                step_cpus,
                masks,
                ..Task::default()
            };
            task.gpus
                .variables
                .insert("CUDA_VISIBLE_DEVICES", local_id.to_string());
            let placement = plan
                .task(
                    &task,
                    Evidence {
                        present: &Present::new(),
                        read: &|_| None,
                    },
                )
                .placement;
            assert!(placement.moves, "{scope:?}: {placement:?}");
            placement.cpus.to_string()
        });
        assert_eq!(
            own.collect::<Vec<_>>(),
            ["0", "1", "2", "3", "4", "5", "6", "7"],
            "{scope:?}"
        );
    }
}

/// NVIDIA's containers show the entries of their own GPUs in `/proc/driver/nvidia`, and all PCI functions in `/sys`.
#[test]
fn containers_that_name_the_hosts_description_divide_the_nics_below_a_switch() {
    let host = platform::model("dgx-a100").unwrap();
    let nics = |own: usize, is_described: bool| {
        let mut tree = Manifest::default();
        let hidden = |path: &str| {
            let entry = path.strip_prefix("proc/driver/nvidia/gpus/");
            entry.is_some_and(|entry| !entry.starts_with(&host.gpus[own].address.to_string()))
        };
        for (path, entry) in synthesise(&host).iter().filter(|(path, _)| !hidden(path)) {
            tree.insert(path, entry.clone());
        }
        let (live, _) = discover(
            &Root::manifest(tree),
            Scope::Placement,
            Provenance::ThisSystem,
        );
        let mut topology = if is_described {
            host.clone()
        } else {
            live.clone()
        };
        nic_placement_node::confirm(&mut topology, &live);
        let access = topology
            .gpus
            .iter()
            .map(|gpu| match gpu.address == host.gpus[own].address {
                true => crate::step::Access::Allowed,
                false => crate::step::Access::Denied,
            });
        let gpus = crate::step::GpuGrant {
            access: access.collect(),
            ..Default::default()
        };
        // the GPUs that it may open
        let own = topology.gpu_indices();
        let own = own.filter(|gpu| gpus.access[gpu.0] == crate::step::Access::Allowed);
        let claim = Some(crate::step::Claim {
            gpus: own.collect(),
            reason: String::new(),
        });
        let plan = Plan::new(topology, Wish::default(), Step::default(), &|_| None);
        let task = Task {
            gpus,
            claim,
            ..Task::default()
        };
        let present = Present::new();
        let placed = plan.task(
            &task,
            Evidence {
                present: &present,
                read: &|_| None,
            },
        );
        let rails = placed.placement.rails.iter();
        rails
            .map(|(rail, _)| plan.node.nic(plan.map.rails[rail.0].nic).name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!([nics(0, true), nics(1, true)], [["mlx5_0"], ["mlx5_1"]]);
    // the known limit: a task that sees its own GPU alone cannot tell that another GPU shares its NICs
    assert_eq!(
        [nics(0, false), nics(1, false)],
        [["mlx5_0", "mlx5_1"], ["mlx5_0", "mlx5_1"]]
    );
}

/// The kernel's ib_uverbs is not loaded, or the NIC's driver gives it no verbs device (uverbs_main.c, `ib_uverbs_add_one`).
#[test]
fn a_nic_without_a_verbs_device_is_chosen_for_nobody_on_this_system() {
    let host = platform::model("dgx-h100").unwrap();
    let judged = |gone: &str, provenance: Provenance| {
        let mut tree = Manifest::default();
        for (path, entry) in synthesise(&host).iter() {
            let place = match entry {
                Entry::Link(target) => target,
                _ => path,
            };
            if !path.contains("infiniband_verbs") || !place.contains(gone) {
                tree.insert(path, entry.clone());
            }
        }
        let (node, _) = discover(&Root::manifest(tree), Scope::Placement, provenance);
        let map = Plan::new(node, Wish::default(), Step::default(), &|_| None).map;
        let left_out = map.excluded.iter();
        let left_out = left_out.filter(|of| of.why == "it has no verbs device");
        let left_out: Vec<String> = left_out.map(|of| of.name.to_string()).collect();
        (map.rails.len(), left_out)
    };
    let (of_mlx5_3, captured) = ("0000:40:00.0", Provenance::Captured("tree".into()));
    let (rails, left_out) = judged(of_mlx5_3, Provenance::ThisSystem);
    assert_eq!((rails, left_out), (7, vec!["mlx5_3".to_string()]));
    let (rails, left_out) = judged("", Provenance::ThisSystem);
    assert_eq!((rails, left_out.len()), (0, 12), "{left_out:?}");
    // a capture may lack what it was not asked for
    assert_eq!(judged("", captured), (8, Vec::new()));
}

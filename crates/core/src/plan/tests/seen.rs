//! What a kernel or a container shows otherwise than a machine is.

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
        let known = Some(crate::step::TaskGpus::new(own.collect(), ""));
        let plan = Plan::new(topology, Wish::default(), Step::default(), &|_| None);
        let task = Task {
            gpus,
            known,
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

/// Two Grace processors on a kernel that keeps places for as many CPUs again, below a firmware that does not number packages
/// and a hypervisor that has PCI domains of more than 16 bits.
#[test]
fn a_task_of_a_grace_node_gets_cores_memory_and_a_nic_of_its_gpus_processor() {
    let mut tree = Manifest::default();
    let beyond = |text: &str| text.replace("0018:", "10018:").replace("0019:", "10019:");
    for (path, entry) in synthesise(&platform::model("gb200-nvl72").unwrap()).iter() {
        let entry = match entry {
            Entry::File(text) if path.ends_with("physical_package_id") => {
                Entry::File(["36", "116"][text.parse::<usize>().unwrap()].to_string())
            }
            Entry::File(text) => Entry::File(beyond(text)),
            Entry::Link(target) => Entry::Link(beyond(target)),
            Entry::Directory => Entry::Directory,
        };
        tree.insert(&beyond(path), entry);
    }
    let cpus = "sys/devices/system/cpu";
    for (name, list) in [
        ("possible", "0-287"),
        ("present", "0-143"),
        ("online", "0-143"),
    ] {
        tree.insert(&format!("{cpus}/{name}"), Entry::File(list.to_string()));
    }
    for cpu in 144..288 {
        let state = format!("{cpus}/cpu{cpu}/hotplug/state");
        tree.insert(&state, Entry::File("0".to_string()));
    }
    for scope in [Scope::Placement, Scope::Cores, Scope::Full] {
        let (node, found) = discover(&Root::manifest(tree.clone()), scope, Provenance::ThisSystem);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(node.cpus().to_string(), "0-143");
        if scope >= Scope::Cores {
            let cores = node.pus.iter().map(|pu| (pu.package, pu.core));
            let cores = std::collections::BTreeSet::from_iter(cores);
            let of = |package| cores.iter().filter(|core| core.0 == package).count();
            assert_eq!((of(36), of(116), cores.len()), (72, 72, 144));
            let packages = node.numa_nodes.iter().map(|node| node.package);
            let known = [Some(36), Some(116), None, None, None, None];
            assert_eq!(packages.collect::<Vec<_>>(), known);
        }
        let words = Words::parse("bind=core").unwrap();
        let wish = match scope >= Scope::Cores {
            true => Wish::new(Admin::default(), None, Some(&words)),
            false => Wish::default(),
        };
        let step = Step {
            tasks: 4,
            gpus: Some("0,1,2,3".into()),
            ..Step::default()
        };
        let plan = Plan::new(node, wish, step, &|_| None);
        let all = CpuSet::from_list("0-143").unwrap();
        let own = (0..4).map(|local_id| {
            let mut task = Task {
                local_id,
                cpus: all.clone(),
                step_cpus: all.clone(),
                masks: vec![all.clone()],
                gpu_bind: Some("gpu:per_task:1".to_string()),
                ..Task::default()
            };
            let variables = &mut task.gpus.variables;
            variables.insert("CUDA_VISIBLE_DEVICES", local_id.to_string());
            let evidence = Evidence {
                present: &Present::new(),
                read: &|_| None,
            };
            let placement = plan.task(&task, evidence).placement;
            let gpu = plan.node.gpu(placement.gpus[0]).address.to_string();
            let nics = placement.rails.iter();
            let nics = nics.map(|(rail, path)| format!("{} {path:?}", plan.map.rail(*rail)));
            let (cpus, mems) = (placement.cpus.to_string(), placement.mems.to_string());
            (gpu, nics.collect::<Vec<_>>().join(","), cpus, mems)
        });
        let cpus = match scope >= Scope::Cores {
            true => ["0-35", "36-71", "72-107", "108-143"],
            false => ["0-71", "0-71", "72-143", "72-143"],
        };
        let expected = [
            ("0008:01:00.0", "mlx5_0:1 Node", cpus[0], "0"),
            ("0009:01:00.0", "mlx5_1:1 Node", cpus[1], "0"),
            ("10018:01:00.0", "mlx5_3:1 Node", cpus[2], "1"),
            ("10019:01:00.0", "mlx5_4:1 Node", cpus[3], "1"),
        ];
        let expected = expected
            .map(|(gpu, nic, cpus, mems)| (gpu.into(), nic.into(), cpus.into(), mems.into()));
        assert_eq!(own.collect::<Vec<_>>(), expected, "{scope:?}");
    }
}

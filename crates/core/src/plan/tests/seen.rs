//! What a kernel or a container shows otherwise than a machine is.

use super::*;
use crate::step::Access;

#[test]
fn each_core_is_one_where_their_numbers_begin_anew_within_a_package() {
    let mut machine = platform::model("dgx-h100").unwrap();
    machine.numa_nodes.retain(|node| node.os_index == 0);
    machine.numa_nodes[0].cpus = cpus("0-7");
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
        let plan = planned(topology, wish_of("bind=core"), step_of(8, ALL), "");
        let own = (0..8).map(|local_id| {
            let mut task = task_of(&local_id.to_string(), "0-7");
            (task.local_id, task.step_cpus) = (local_id, cpus("0-7"));
            task.masks = vec![cpus("0-7")];
            let placement = placed(&plan, &task, &[]).placement;
            assert!(placement.moves, "{scope:?}: {placement:?}");
            placement.cpus.to_string()
        });
        assert_eq!(own.collect::<Vec<_>>().join(","), ALL, "{scope:?}");
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
        let root = Root::manifest(tree);
        let (live, _) = discover(&root, Scope::Placement, Provenance::ThisSystem);
        let known = if is_described { &host } else { &live };
        let mut topology = known.clone();
        nic_placement_node::confirm(&mut topology, &live);
        let gpus = topology.gpus.iter();
        let access = gpus.map(|gpu| match gpu.address == host.gpus[own].address {
            true => Access::Allowed,
            false => Access::Denied,
        });
        let mut task = Task::default();
        task.gpus.access.extend(access);
        let may_open = |gpu: &GpuIndex| task.gpus.access[gpu.0] == Access::Allowed;
        let own = topology.gpu_indices().filter(may_open).collect();
        task.known = Some(TaskGpus::new(own, ""));
        let plan = planned(topology, Wish::default(), Step::default(), "");
        let rails = placed(&plan, &task, &[]).placement.rails;
        let name = |(rail, _): &_| plan.map.rail(*rail).name.to_string();
        rails.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!([nics(0, true), nics(1, true)], [["mlx5_0"], ["mlx5_1"]]);
    // the known limit: a task that sees its own GPU alone cannot tell that another GPU shares its NICs
    let found = [nics(0, false), nics(1, false)];
    assert_eq!(found, [["mlx5_0", "mlx5_1"], ["mlx5_0", "mlx5_1"]]);
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
    let root = "sys/devices/system/cpu";
    for (name, list) in rows! {
        "possible", "0-287"; "present", "0-143"; "online", "0-143";
    } {
        tree.insert(&format!("{root}/{name}"), Entry::File(list.to_string()));
    }
    for cpu in 144..288 {
        let state = format!("{root}/cpu{cpu}/hotplug/state");
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
        let wish = match scope >= Scope::Cores {
            true => wish_of("bind=core"),
            false => Wish::default(),
        };
        let plan = planned(node, wish, step_of(4, "0,1,2,3"), "");
        let own = (0..4).map(|local_id| {
            let mut task = task_of(&local_id.to_string(), "0-143");
            (task.local_id, task.step_cpus) = (local_id, cpus("0-143"));
            task.masks = vec![cpus("0-143")];
            task.gpu_bind = Some("gpu:per_task:1".to_string());
            let placement = placed(&plan, &task, &[]).placement;
            let gpu = plan.node.gpu(placement.gpus[0]).address.to_string();
            let nics = placement.rails.iter();
            let nics = nics.map(|(rail, path)| format!("{} {path:?}", plan.map.rail(*rail)));
            let nics = nics.collect::<Vec<_>>().join(",");
            format!("{gpu} {nics} {} {}", placement.cpus, placement.mems)
        });
        let (halves, wholes) = (["0-35", "36-71", "72-107", "108-143"], ["0-71", "72-143"]);
        let of = |nth: usize| match scope >= Scope::Cores {
            true => halves[nth],
            false => wholes[nth / 2],
        };
        let expected = [
            format!("0008:01:00.0 mlx5_0:1 Node {} 0", of(0)),
            format!("0009:01:00.0 mlx5_1:1 Node {} 0", of(1)),
            format!("10018:01:00.0 mlx5_3:1 Node {} 1", of(2)),
            format!("10019:01:00.0 mlx5_4:1 Node {} 1", of(3)),
        ];
        assert_eq!(own.collect::<Vec<_>>(), expected, "{scope:?}");
    }
}

//! Whole cores, disjoint whatever the other tasks' GPUs are.

use super::*;
use crate::topology::{Gpu, GpuVendor, NumaNode, PciFunction, PciParent, Provenance, Pu};
use proptest::prelude::*;

/// A machine of NUMA nodes with cores with threads, and GPUs dealt to the nodes in order.  Second threads are
/// numbered after all first ones, as Intel does, or beside them.
fn machine(nodes: u32, cores: u32, threads: u32, beside: bool, gpus: u32) -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for node in 0..nodes {
        let mut cpus = CpuSet::new();
        for core in node * cores..(node + 1) * cores {
            for thread in 0..threads {
                let os_index = if beside {
                    core * threads + thread
                } else {
                    thread * nodes * cores + core
                };
                cpus.insert(os_index);
                topology.pus.push(Pu {
                    os_index,
                    package: node,
                    core: core - node * cores,
                });
            }
        }
        topology.numa_nodes.push(NumaNode {
            os_index: node,
            cpus,
            distances: Vec::new(),
            package: None,
        });
    }
    for gpu in 0..gpus {
        let address = format!("{:02x}:00.0", gpu + 1).parse().unwrap();
        let parent = PciParent::Host("pci0000:00".parse().unwrap());
        let numa_node = Some(gpu * nodes / gpus);
        topology.pci.insert(PciFunction {
            numa_node,
            ..PciFunction::new(address, parent)
        });
        topology.gpus.push(Gpu {
            minor: Some(gpu),
            ..Gpu::new(address, GpuVendor::Nvidia)
        });
    }
    topology.sort();
    topology
}

fn set(list: &str) -> CpuSet {
    CpuSet::from_list(list).unwrap()
}

/// A task's cores and how they were found, or why it has none.
type Owned = Result<(CpuSet, &'static str), &'static str>;

/// Each task's cores, with its GPU on the given node, if each asked for one CPU.
fn shares(
    topology: &Topology,
    masks: &[CpuSet],
    gpus: &str,
    gpu_bind: Option<&str>,
    near: &[NodeSet],
) -> Vec<Owned> {
    shares_of(topology, masks, gpus, gpu_bind, near, Some(1))
}

/// The same, by what each asked for.
fn shares_of(
    topology: &Topology,
    masks: &[CpuSet],
    gpus: &str,
    gpu_bind: Option<&str>,
    near: &[NodeSet],
    cpus_per_task: Option<u32>,
) -> Vec<Owned> {
    let step = Step {
        tasks: near.len() as u32,
        gpus: Some(gpus.to_string()),
        cpus_per_task,
        ..Step::default()
    };
    let one = |(id, near): (usize, &NodeSet)| {
        let cpus = masks[id % masks.len()].clone();
        let step_cpus = masks
            .iter()
            .fold(CpuSet::new(), |all, mask| all.union(mask));
        let gpu_bind = gpu_bind.map(str::to_string);
        let task = Task {
            local_id: id as u32,
            cpus,
            step_cpus,
            masks: masks.to_vec(),
            gpu_bind,
            ..Task::default()
        };
        own_cores(topology, &step, &task, near)
    };
    near.iter().enumerate().map(one).collect()
}

fn lists(shares: Vec<Owned>) -> Vec<String> {
    let list = |owned: Owned| owned.map_or_else(str::to_string, |(cpus, _)| cpus.to_string());
    shares.into_iter().map(list).collect()
}

fn nodes(each: &[u32]) -> Vec<NodeSet> {
    each.iter()
        .map(|&node| [node].into_iter().collect())
        .collect()
}

#[test]
fn a_task_keeps_the_cores_that_slurm_gave_it_alone() {
    let topology = machine(2, 4, 2, false, 4);
    let masks = ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"].map(set);
    let got = shares(
        &topology,
        &masks,
        "0,1,2,3",
        Some("gres/gpu:per_task:1"),
        &nodes(&[0, 0, 1, 1]),
    );
    assert_eq!(
        lists(got),
        ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    );
}

#[test]
fn slurm_22_05s_misdeal_is_repaired_with_full_shares() {
    let topology = machine(2, 4, 2, false, 4);
    // the masks go from socket to socket, the GPUs do not
    let masks = ["0-1,8-9", "4-5,12-13", "2-3,10-11", "6-7,14-15"].map(set);
    let got = shares(
        &topology,
        &masks,
        "0,1,2,3",
        Some("gpu:per_task:1"),
        &nodes(&[0, 0, 1, 1]),
    );
    assert_eq!(
        lists(got),
        ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    );
}

#[test]
fn a_mask_that_all_share_is_divided_among_the_tasks_of_each_node_where_slurms_rule_is_known() {
    let topology = machine(2, 4, 2, false, 4);
    let got = shares(
        &topology,
        &[set("0-15")],
        "0,1,2,3",
        Some("gpu:per_task:1"),
        &nodes(&[0, 0, 1, 1]),
    );
    assert_eq!(
        lists(got),
        ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    );
    // and into a seat per task of the step where it is not: smaller, and safe
    let got = shares(
        &topology,
        &[set("0-15")],
        "0,1,2,3",
        None,
        &nodes(&[1, 0, 0, 1]),
    );
    assert_eq!(lists(got), ["4,12", "1,9", "2,10", "7,15"]);
}

#[test]
fn cores_of_its_own_are_no_less_than_a_tasks_share_of_the_step() {
    let topology = machine(2, 4, 2, false, 4);
    let of = |rule: Option<&str>, near: &[u32], asked| {
        lists(shares_of(
            &topology,
            &[set("0-15")],
            "0,1,2,3",
            rule,
            &nodes(near),
            asked,
        ))
    };
    assert_eq!(
        of(None, &[1, 0, 0, 1], None),
        [LESS; 4],
        "two of four cores would stay idle"
    );
    assert_eq!(
        of(Some("gpu:per_task:1"), &[0, 0, 1], None),
        [LESS; 3],
        "five CPUs and a third each"
    );
    let rule = Some("gpu:per_task:1");
    assert_eq!(
        of(rule, &[0, 0, 1, 1], None),
        ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    );
    // another job has all of the first node but a core
    let busy = ["3-4,11-12", "5-6,13-14"].map(set);
    let got = shares_of(&topology, &busy, "0,1,2,3", rule, &nodes(&[0, 0]), Some(4));
    assert_eq!(lists(got), busy.map(|mask| mask.to_string()), "Slurm's own");
}

#[test]
fn fewer_cores_than_tasks_are_not_divided() {
    let topology = machine(2, 4, 2, false, 4);
    // as Slurm 22.05 binds tasks of one CPU: two of them are threads of one core
    let masks = ["0", "4", "8", "12"].map(set);
    let got = shares(
        &topology,
        &masks,
        "0,1,2,3",
        Some("gpu:per_task:1"),
        &nodes(&[0, 0, 1, 1]),
    );
    assert_eq!(lists(got), [FEW; 4]);
    let unknown = Topology::empty("test", Provenance::ThisSystem);
    let got = shares(&unknown, &masks, "0,1,2,3", None, &nodes(&[0]));
    assert_eq!(lists(got), ["the node's cores are not known"]);
}

#[test]
fn as_many_cores_as_tasks_are_one_for_each() {
    let topology = machine(1, 4, 2, false, 4);
    for rule in [Some("gpu:per_task:1"), None] {
        let got = shares(&topology, &[set("0-7")], "0,1,2,3", rule, &nodes(&[0; 4]));
        assert_eq!(lists(got), ["0,4", "1,5", "2,6", "3,7"], "{rule:?}");
    }
}

#[test]
fn threads_are_those_of_the_tasks_own_part() {
    let topology = machine(2, 4, 2, false, 4);
    let count = |masks: &[&str], bound: Option<&str>, tasks: u32, own: &str, to: &str| {
        let masks: Vec<CpuSet> = masks.iter().map(|mask| set(mask)).collect();
        let step_cpus = masks.iter().fold(set(own), |all, mask| all.union(mask));
        let step = Step {
            tasks,
            cpu_bind: bound.map(str::to_string),
            ..Step::default()
        };
        let task = Task {
            cpus: set(own),
            step_cpus,
            masks,
            ..Task::default()
        };
        threads(&topology, &step, &task, &set(to)).unwrap()
    };
    assert_eq!(
        count(&["0-1,8-9", "4-5,12-13"], None, 2, "0-1,8-9", "0-1,8-9"),
        2,
        "its mask"
    );
    assert_eq!(
        count(&["4-5,12-13", "0-1,8-9"], None, 2, "4-5,12-13", "0-1,8-9"),
        2,
        "moved, to as many"
    );
    assert_eq!(
        count(&["0-15"], None, 4, "0-15", "0-3,8-11"),
        2,
        "an even share of what all have"
    );
    assert_eq!(count(&["0", "8"], None, 2, "0", "0,8"), 1, "never none");
    assert_eq!(
        count(&[], None, 4, "0-15", "0-15"),
        2,
        "where nobody is bound, an even share too"
    );
    assert_eq!(
        count(&[], Some("none"), 4, "0-15", "0-15"),
        2,
        "nor is who said so"
    );
    assert_eq!(
        count(&["0-15"], Some("sockets"), 4, "0-15", "0-15"),
        2,
        "a mask that all share, by the user's word"
    );
    assert_eq!(
        count(&[], Some("map_ldom:"), 2, "0-3,8-11", "0-3,8-11"),
        4,
        "the user's own binding"
    );
}

/// Masks as Slurm and sites make them: one for all, blocks, round robin over sockets, single threads, and
/// any.
fn masks(kind: u8, tasks: u32, all: &[u32], draw: &[Vec<bool>]) -> Vec<CpuSet> {
    let tasks = tasks as usize;
    let pick = |keep: &dyn Fn(usize) -> bool| -> CpuSet {
        all.iter()
            .enumerate()
            .filter(|(at, _)| keep(*at))
            .map(|(_, &cpu)| cpu)
            .collect()
    };
    let masks: Vec<CpuSet> = match kind {
        0 => vec![pick(&|_| true)],
        1 => (0..tasks)
            .map(|id| pick(&|at| at * tasks / all.len() == id))
            .collect(),
        2 => (0..tasks).map(|id| pick(&|at| at % tasks == id)).collect(),
        3 => vec![pick(&|_| true); tasks],
        _ => draw
            .iter()
            .take(tasks)
            .map(|draw| pick(&|at| draw[at % draw.len()]))
            .collect(),
    };
    masks
        .into_iter()
        .map(|mask| {
            if mask.is_empty() {
                pick(&|at| at == 0)
            } else {
                mask
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every task's GPUs may be anywhere, whatever Slurm's rule says, and no task knows another's.
    #[test]
    fn no_two_tasks_get_one_core_wherever_their_gpus_are(
        (node_count, cores, threads, beside) in (1u32..5, 1u32..9, 1u32..3, any::<bool>()),
        (tasks, kind, rule, each) in (1u32..9, 0u8..6, 0u8..3, 1u32..3),
        draw in prop::collection::vec(prop::collection::vec(any::<bool>(), 1..40), 9),
        reach in prop::collection::vec(any::<bool>(), 1..80),
        wishes in prop::collection::vec(1u32..16, 9),
        gpus in prop::sample::select(vec!["0,1,2,3,4,5,6,7", "2,5", ""]),
    ) {
        let topology = machine(node_count, cores, threads, beside, 8);
        // the step owns a part of the node
        let all: Vec<u32> = topology.cpus().iter().filter(|&cpu| reach[cpu as usize % reach.len()]).collect();
        let all = if all.is_empty() { vec![0] } else { all };
        let masks = masks(kind, tasks, &all, &draw);
        let step_cpus = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
        let rule = match rule {
            0 => None,
            1 => Some(format!("gpu:per_task:{each}")),
            _ => Some(format!("gres/gpu:per_task:{each}")),
        };
        let near: Vec<NodeSet> = wishes
            .iter()
            .take(tasks as usize)
            .map(|&wish| (0..node_count).filter(|node| wish >> node & 1 == 1).collect::<NodeSet>())
            .map(|near| if near.is_empty() { [0].into_iter().collect() } else { near })
            .collect();
        let shares = shares(&topology, &masks, gpus, rule.as_deref(), &near);
        let undivided = shares.iter().filter(|share| share.is_err()).count();
        prop_assert!(undivided == 0 || undivided == shares.len(), "all find the same: {shares:?}");
        let mut taken = CpuSet::new();
        for share in &shares {
            let Ok((cpus, _)) = share else { continue };
            prop_assert!(!cpus.is_empty() && cpus.is_subset(&step_cpus), "{shares:?}");
            for core in topology.cores().iter().filter(|core| core.intersects(cpus)) {
                prop_assert!(!core.intersects(&taken), "core {core} twice: {shares:?}");
                prop_assert!(core.intersection(&step_cpus).is_subset(cpus), "half of core {core}: {shares:?}");
            }
            taken = taken.union(cpus);
        }
    }

    /// A launcher's process that knows its number and no count: the least count that its number allows is another for each.
    #[test]
    fn processes_that_nobody_counts_get_no_cores_of_their_own_and_no_number_of_threads(
        (node_count, cores, threads, beside) in (1u32..5, 1u32..9, 1u32..3, any::<bool>()),
        reach in prop::collection::vec(any::<bool>(), 1..80),
        rule in prop::sample::select(vec![None, Some("gpu:per_task:1")]),
        number in 0u32..4096,
    ) {
        let topology = machine(node_count, cores, threads, beside, 8);
        let cpus: CpuSet = topology.cpus().iter().filter(|&cpu| reach[cpu as usize % reach.len()]).collect();
        let step = Step {
            tasks: number + 1,
            uncounted: true,
            starter: crate::step::Starter::Launcher,
            gpus: Some("0,1,2,3,4,5,6,7".to_string()),
            ..Step::default()
        };
        let gpu_bind = rule.map(str::to_string);
        let task =
            Task { local_id: number, cpus: cpus.clone(), step_cpus: cpus.clone(), gpu_bind, ..Task::default() };
        for near in nodes(&[0, node_count - 1]) {
            prop_assert_eq!(own_cores(&topology, &step, &task, &near), Err(UNCOUNTED));
        }
        prop_assert_eq!(super::threads(&topology, &step, &task, &cpus), None);
        let bound = Step { cpu_bind: Some("`mpirun` bound it".to_string()), ..step };
        prop_assert!(super::threads(&topology, &bound, &task, &cpus).is_some(), "its CPUs are its own");
    }

    /// If Slurm's rule is known and holds, every task is near its GPUs and no core of the step stays idle.
    #[test]
    fn what_slurm_dealt_is_near_and_complete(
        (node_count, cores, threads, beside) in (1u32..5, 2u32..9, 1u32..3, any::<bool>()),
        tasks in 1u32..9,
    ) {
        let topology = machine(node_count, cores, threads, beside, 8);
        let near: Vec<NodeSet> = (0..tasks).map(|id| [id * node_count / 8].into_iter().collect()).collect();
        let shares =
            shares(&topology, &[topology.cpus()], "0,1,2,3,4,5,6,7", Some("gpu:per_task:1"), &near);
        let reached = near.iter().fold(NodeSet::new(), |all, near| all.union(near));
        let mut taken = CpuSet::new();
        for (share, near) in shares.iter().zip(&near) {
            match share {
                Ok((cpus, _)) => {
                    prop_assert!(cpus.is_subset(&topology.cpus_of(near)), "{shares:?}");
                    taken = taken.union(cpus);
                }
                Err(_) => {
                    prop_assert!(tasks.div_ceil(node_count) > cores || 8u32.div_ceil(node_count) > cores);
                    return Ok(());
                }
            }
        }
        if tasks > 1 {
            prop_assert_eq!(taken, topology.cpus_of(&reached));
        }
    }
}

//! Whole cores, disjoint whatever the other tasks' GPUs are.

use super::*;
use crate::bind::tests::{dealt, machine, set, union};
use crate::topology::Provenance;
use proptest::prelude::*;

/// A task's cores and how they were found, or why it has none.
type Owned = Result<(CpuSet, &'static str), &'static str>;

/// Each task's cores, with its GPUs on the given nodes, by what each asked for.
fn shares(
    topology: &Topology,
    masks: &[CpuSet],
    gpus: &str,
    gpu_bind: Option<&str>,
    near: &[NodeSet],
    cpus_per_task: Option<u32>,
) -> Vec<Owned> {
    let step = with! { Step {
        tasks: near.len() as u32, gpus: Some(gpus.to_string()), cpus_per_task
    } };
    let one = |(id, near): (usize, &NodeSet)| {
        let task = with! { Task {
            local_id: id as u32, cpus: masks[id % masks.len()].clone(), step_cpus: union(masks),
            masks: masks.to_vec(), gpu_bind: gpu_bind.map(str::to_string)
        } };
        own_cores(topology, &step, &task, near)
    };
    near.iter().enumerate().map(one).collect()
}

/// The cores of tasks with GPUs on these nodes, on two NUMA nodes of four cores of two threads with
/// two GPUs each.
fn of(masks: &[&str], rule: Option<&str>, near: &[u32], asked: Option<u32>) -> Vec<String> {
    let masks: Vec<CpuSet> = masks.iter().map(|mask| set(mask)).collect();
    let (topology, near) = (machine([2, 1, 4, 2], false, &dealt(4, 2)), nodes(near));
    lists(shares(&topology, &masks, "0,1,2,3", rule, &near, asked))
}

fn lists(shares: Vec<Owned>) -> Vec<String> {
    let list = |owned: Owned| owned.map_or_else(str::to_string, |(cpus, _)| cpus.to_string());
    shares.into_iter().map(list).collect()
}

fn nodes(each: &[u32]) -> Vec<NodeSet> {
    let one = |&node: &u32| [node].into_iter().collect();
    each.iter().map(one).collect()
}

const RULE: Option<&str> = Some("gpu:per_task:1");
const PAIRS: [&str; 4] = ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"];

#[test]
fn cores_are_a_tasks_own_near_its_gpu_and_no_less_than_its_share_of_the_step() {
    let all = &["0-15"][..];
    let in_turn = ["0-1,8-9", "4-5,12-13", "2-3,10-11", "6-7,14-15"];
    let busy = ["3-4,11-12", "5-6,13-14"];
    let later = Some("gres/gpu:per_task:1");
    let cases: [(&[&str], _, &[u32], _, &[&str]); 9] = rows! {
        // the cores that Slurm gave it alone are kept
        &PAIRS, later, &[0, 0, 1, 1], Some(1), &PAIRS;
        // the masks of 22.05 go from socket to socket, the GPUs do not
        &in_turn, RULE, &[0, 0, 1, 1], Some(1), &PAIRS;
        // a mask that all share is divided among the tasks of each node where Slurm's rule is known
        all, RULE, &[0, 0, 1, 1], Some(1), &PAIRS; all, RULE, &[0, 0, 1, 1], None, &PAIRS;
        // and into a seat per task of the step where it is not: smaller, and safe
        all, None, &[1, 0, 0, 1], Some(1), &["4,12", "1,9", "2,10", "7,15"];
        // two of four cores would stay idle
        all, None, &[1, 0, 0, 1], None, &[LESS; 4];
        // five CPUs and a third each
        all, RULE, &[0, 0, 1], None, &[LESS; 3];
        // another job has all of the first node but a core: Slurm's own
        &busy, RULE, &[0, 0], Some(4), &busy;
        // as Slurm 22.05 binds tasks of one CPU: two of them are threads of one core
        &["0", "4", "8", "12"], RULE, &[0, 0, 1, 1], Some(1), &[FEW; 4];
    };
    for (masks, rule, near, asked, expected) in cases {
        assert_eq!(of(masks, rule, near, asked), expected, "{masks:?} {rule:?}");
    }
    let (unknown, masks) = (Topology::empty("test", Provenance::ThisSystem), [set("0")]);
    let got = shares(&unknown, &masks, "0", None, &nodes(&[0]), Some(1));
    let why = got[0].as_ref().unwrap_err();
    assert!(why.ends_with("are not known"));
}

#[test]
fn as_many_cores_as_tasks_are_one_for_each() {
    let topology = machine([1, 1, 4, 2], false, &dealt(4, 1));
    for rule in [RULE, None] {
        let near = nodes(&[0; 4]);
        let got = shares(&topology, &[set("0-7")], "0,1,2,3", rule, &near, Some(1));
        assert_eq!(lists(got), ["0,4", "1,5", "2,6", "3,7"], "{rule:?}");
    }
}

#[test]
fn threads_are_those_of_the_tasks_own_part() {
    let topology = machine([2, 1, 4, 2], false, &dealt(4, 2));
    let cases: [(&[&str], _, _, _, _, _); 8] = rows! {
        // its mask, and moved to as many
        &["0-1,8-9", "4-5,12-13"], None, 2, "0-1,8-9", "0-1,8-9", 2;
        &["4-5,12-13", "0-1,8-9"], None, 2, "4-5,12-13", "0-1,8-9", 2;
        // an even share of what all have, and never none
        &["0-15"], None, 4, "0-15", "0-3,8-11", 2; &["0", "8"], None, 2, "0", "0,8", 1;
        // with no task bound, an even share too
        &[], None, 4, "0-15", "0-15", 2; &[], Some("none"), 4, "0-15", "0-15", 2;
        // a mask that all share, by the user's word, and the user's own binding
        &["0-15"], Some("sockets"), 4, "0-15", "0-15", 2;
        &[], Some("map_ldom:"), 2, "0-3,8-11", "0-3,8-11", 4;
    };
    for (masks, bound, tasks, own, to, expected) in cases {
        let masks: Vec<CpuSet> = masks.iter().map(|mask| set(mask)).collect();
        let step = with! { Step { tasks, cpu_bind: bound.map(str::to_string) } };
        let task = with! { Task {
            cpus: set(own), step_cpus: union(&masks).union(&set(own)), masks: masks.clone()
        } };
        let count = threads(&topology, &step, &task, &set(to));
        assert_eq!(count, Some(expected), "{masks:?} {bound:?} {own} {to}");
    }
}

/// Masks as Slurm and sites make them: one for all, blocks, round robin over sockets, single threads, and
/// any.
fn masks(kind: u8, tasks: u32, all: &[u32], draw: &[Vec<bool>]) -> Vec<CpuSet> {
    let tasks = tasks as usize;
    let pick = |keep: &dyn Fn(usize) -> bool| -> CpuSet {
        let kept = (0..all.len()).filter(|at| keep(*at));
        kept.map(|at| all[at]).collect()
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
    let some = |mask: CpuSet| {
        if mask.is_empty() {
            [all[0]].into_iter().collect()
        } else {
            mask
        }
    };
    masks.into_iter().map(some).collect()
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
        let topology = machine([node_count, 1, cores, threads], beside, &dealt(8, node_count));
        // the step owns a part of the node
        let all: Vec<u32> = topology.cpus().iter().filter(|&cpu| reach[cpu as usize % reach.len()]).collect();
        let all = if all.is_empty() { vec![0] } else { all };
        let masks = masks(kind, tasks, &all, &draw);
        let step_cpus = union(&masks);
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
        let shares = shares(&topology, &masks, gpus, rule.as_deref(), &near, Some(1));
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
        rule in prop::sample::select(vec![None, RULE]),
        number in 0u32..4096,
    ) {
        let topology = machine([node_count, 1, cores, threads], beside, &dealt(8, node_count));
        let cpus: CpuSet = topology.cpus().iter().filter(|&cpu| reach[cpu as usize % reach.len()]).collect();
        let step = with! { Step {
            tasks: number + 1, uncounted: true, starter: crate::step::Starter::Launcher,
            gpus: Some("0,1,2,3,4,5,6,7".to_string())
        } };
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
        let topology = machine([node_count, 1, cores, threads], beside, &dealt(8, node_count));
        let near: Vec<NodeSet> = (0..tasks).map(|id| [id * node_count / 8].into_iter().collect()).collect();
        let shares =
            shares(&topology, &[topology.cpus()], "0,1,2,3,4,5,6,7", RULE, &near, Some(1));
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

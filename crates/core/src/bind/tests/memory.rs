//! Where a task's memory comes from, why its policy stays, and what the cpuset or an earlier policy leaves of the decision.

use super::*;
use crate::step::Memory;

/// Two sockets of two NUMA nodes of four CPUs, a GPU on each node.
fn sockets() -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for os_index in 0..4u32 {
        let cpus = (4 * os_index..4 * os_index + 4).collect();
        let distance = |other: u32| match (other == os_index, other / 2 == os_index / 2) {
            (true, _) => 10,
            (_, true) => 12,
            _ => 32,
        };
        let distances = (0..4).map(distance).collect();
        topology.numa_nodes.push(NumaNode {
            os_index,
            cpus,
            distances,
            package: None,
        });
        let address = format!("{:02x}:00.0", os_index + 1).parse().unwrap();
        let parent = PciParent::Host("pci0000:00".parse().unwrap());
        topology.pci.insert(PciFunction {
            numa_node: Some(os_index),
            ..PciFunction::new(address, parent)
        });
        topology.gpus.push(Gpu::new(address, GpuVendor::Nvidia));
    }
    topology
}

/// A task that the user bound to `cpus` and whose GPU is on NUMA node 1, with this memory.
fn user_bound(cpus: &str, bind: Bind, mem: Mem, memory: Memory) -> TaskPlacement {
    let step = Step {
        cpu_bind: Some("map_cpu".to_string()),
        ..Step::default()
    };
    let cpus = CpuSet::from_list(cpus).unwrap();
    let task = Task {
        cpus: cpus.clone(),
        step_cpus: cpus,
        memory,
        ..Task::default()
    };
    let wish = Wish {
        bind,
        mem,
        by_user: true,
        ..Wish::default()
    };
    let (topology, gpus) = (sockets(), [GpuIndex(1)]);
    let situation = Situation {
        topology: &topology,
        step: &step,
        task: &task,
        gpus: &gpus,
        wish: &wish,
    };
    super::bind(&situation, Notes::default())
}

/// The source of its memory, and the reason.
fn of_user_bound(cpus: &str, bind: Bind, mem: Mem) -> (String, String) {
    let bound = user_bound(cpus, bind, mem, Memory::default());
    assert_eq!(bound.fences, mem == Mem::Strict);
    let mut reasons = bound.notes.reasons.iter();
    let why = reasons.find_map(|reason| reason.strip_prefix("memory: "));
    (bound.mems.to_string(), why.unwrap().to_string())
}

fn told(nodes: &str, why: &str) -> (String, String) {
    (nodes.to_string(), why.to_string())
}

#[test]
fn memory_comes_from_the_gpus_node_and_from_where_the_task_runs_on_that_socket() {
    let prefer = |cpus: &str| of_user_bound(cpus, Bind::Auto, Mem::Prefer);
    assert_eq!(prefer("4-5"), told("1", "NUMA node 1 of its GPU first"));
    assert_eq!(
        prefer("0-1"),
        told("0-1", "NUMA nodes 0-1 of its GPU and of its CPUs first")
    );
    assert_eq!(
        prefer("0-7"),
        told("0-1", "NUMA nodes 0-1 of its GPU and of its CPUs first")
    );
    let alone = "NUMA node 1 of its GPU alone, as `mem=strict` asks";
    assert_eq!(
        of_user_bound("4-5", Bind::Auto, Mem::Strict),
        told("1", alone)
    );
}

#[test]
fn a_task_that_also_runs_on_another_socket_keeps_its_memory_and_is_told_which_of_two_reasons_holds()
{
    let prefer = |cpus: &str| of_user_bound(cpus, Bind::Auto, Mem::Prefer);
    assert_eq!(
        prefer("4-8"),
        told("", "it runs on other sockets than its GPU's too")
    );
    assert_eq!(prefer("8-9"), told("", "it does not run near its GPU"));
}

#[test]
fn the_word_that_leaves_memory_alone_is_the_one_that_is_named() {
    assert_eq!(
        of_user_bound("4-5", Bind::None, Mem::None),
        told("", "`bind=none`")
    );
    assert_eq!(
        of_user_bound("4-5", Bind::Auto, Mem::None),
        told("", "`mem=none`")
    );
}

/// These nodes after they met what the task may have, and the notes on that.
fn settled(mems: &str, missed: &[&str], memory: Memory) -> (String, Notes) {
    let mut notes = Notes {
        missed: missed.iter().map(ToString::to_string).collect(),
        ..Notes::default()
    };
    let left = crate::bind::memory::limited(nodes(mems), &memory, &mut notes);
    (left.to_string(), notes)
}

fn nodes(list: &str) -> NodeSet {
    NodeSet::from_list(list).unwrap()
}

fn within(list: &str) -> Memory {
    Memory {
        allowed: Some(nodes(list)),
        ..Memory::default()
    }
}

#[test]
fn a_placed_steps_preference_becomes_a_part_of_itself_and_nothing_else() {
    let of_ours = |list: &str| {
        let memory = Memory {
            ours: Some(nodes(list)),
            ..Memory::default()
        };
        settled("1", &[], memory).0
    };
    assert_eq!(of_ours("0-1"), "1");
    assert_eq!(of_ours("0"), "");
}

#[test]
fn a_memory_policy_that_somebody_set_before_us_stays() {
    let taken = Memory {
        taken: Some("numactl set one".to_string()),
        ..within("0-1")
    };
    let (mems, notes) = settled("1", &[], taken);
    assert_eq!(mems, "");
    assert_eq!(notes.reasons, ["memory: left alone, numactl set one"]);
}

#[test]
fn nodes_that_the_cpuset_has_are_set_as_they_are() {
    for memory in [within("0-1"), within("0"), Memory::default()] {
        assert_eq!(
            settled("0", &[], memory),
            ("0".to_string(), Notes::default())
        );
    }
}

#[test]
fn of_nodes_partly_outside_the_cpuset_those_inside_are_left_and_a_fence_stays_a_fence() {
    let (mems, notes) = settled("0-1", &[], within("1-2"));
    assert_eq!((mems.as_str(), notes.missed.as_slice()), ("1", &[][..]));
    assert_eq!(
        notes.reasons,
        ["memory: of NUMA nodes 0-1 only 1 are in the cpuset"]
    );
    for (mem, fences) in [(Mem::Prefer, false), (Mem::Strict, true)] {
        let bound = user_bound("0-7", Bind::Auto, mem, within("1-2"));
        assert_eq!((bound.mems, bound.fences), (nodes("1"), fences));
        assert_eq!(bound.notes.reasons[2..], notes.reasons);
    }
}

#[test]
fn memory_outside_the_cpuset_is_given_up_and_missed_beside_what_was_missed_before() {
    let why = "NUMA node 1 is outside the cpuset, whose memory is on 0";
    let (mems, notes) = settled("1", &[], within("0"));
    assert_eq!(mems, "");
    assert_eq!(notes.reasons, [format!("memory: left alone, {why}")]);
    assert_eq!(notes.missed, [format!("memory: {why}")]);
    let (_, notes) = settled("1", &["no cores"], within("0"));
    assert_eq!(
        notes.missed,
        ["no cores".to_string(), format!("memory: {why}")]
    );
}

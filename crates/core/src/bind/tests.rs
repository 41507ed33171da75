//! The cases of binding, on one machine with two sockets.

mod memory;
mod together;

use super::*;
use crate::topology::{Gpu, GpuVendor, NumaNode, PciFunction, PciParent, Provenance, Pu};

/// Sockets of NUMA nodes of cores of threads, and GPUs on these NUMA nodes. Second threads are
/// numbered after all first ones, as Intel does, or beside them; cores anew in each package.
pub(crate) fn machine(
    [sockets, nodes, cores, threads]: [u32; 4],
    beside: bool,
    gpus: &[Option<u32>],
) -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    let all = sockets * nodes;
    for node in 0..all {
        let each = (node * cores..(node + 1) * cores)
            .flat_map(|core| (0..threads).map(move |thread| (core, thread)));
        let pus = each.map(|(core, thread)| Pu {
            os_index: match beside {
                true => core * threads + thread,
                false => thread * all * cores + core,
            },
            package: node / nodes,
            core: core % (nodes * cores),
        });
        let pus: Vec<Pu> = pus.collect();
        let distance = |other: u32| match (other == node, other / nodes == node / nodes) {
            (true, _) => 10,
            (_, true) => 12,
            _ => 32,
        };
        topology.numa_nodes.push(NumaNode {
            os_index: node,
            cpus: pus.iter().map(|pu| pu.os_index).collect(),
            distances: (0..all).map(distance).collect(),
            package: None,
        });
        topology.pus.extend(pus);
    }
    for (minor, &numa_node) in (0..).zip(gpus) {
        let address = format!("{:02x}:00.0", minor + 1).parse().unwrap();
        let parent = PciParent::Host("pci0000:00".parse().unwrap());
        let mut function = PciFunction::new(address, parent);
        function.numa_node = numa_node;
        topology.pci.insert(function);
        let mut gpu = Gpu::new(address, GpuVendor::Nvidia);
        gpu.minor = Some(minor);
        topology.gpus.push(gpu);
    }
    topology.sort();
    topology
}

/// So many GPUs, dealt to the NUMA nodes in order.
pub(super) fn dealt(gpus: u32, nodes: u32) -> Vec<Option<u32>> {
    (0..gpus).map(|gpu| Some(gpu * nodes / gpus)).collect()
}

pub(crate) fn set(list: &str) -> CpuSet {
    CpuSet::from_list(list).unwrap()
}

pub(super) fn union(masks: &[CpuSet]) -> CpuSet {
    let masks = masks.iter();
    masks.fold(CpuSet::new(), |all, mask| all.union(mask))
}

/// A task in its step.
#[derive(Clone)]
pub(super) struct One {
    pub topology: Topology,
    pub step: Step,
    pub task: Task,
    pub gpus: &'static [usize],
    pub wish: Wish,
}

impl One {
    pub fn with(mut self, change: impl FnOnce(&mut One)) -> One {
        change(&mut self);
        self
    }

    pub fn bound(&self) -> TaskPlacement {
        let gpus: Vec<GpuIndex> = self.gpus.iter().copied().map(GpuIndex).collect();
        let situation = Situation {
            topology: &self.topology,
            step: &self.step,
            task: &self.task,
            gpus: &gpus,
            wish: &self.wish,
        };
        bind(&situation, Notes::default())
    }

    fn cpus(&self) -> String {
        self.bound().cpus.to_string()
    }

    fn why(&self) -> String {
        why(&self.bound()).to_string()
    }

    /// `cpus/nodes`, each empty if nothing changes.
    fn outcome(&self) -> String {
        let bound = self.bound();
        let (moves, far) = (bound.moves, bound.notes.far);
        assert_eq!(far, bound.notes.missed.first().cloned());
        let cpus = match (moves, far) {
            (true, None) => bound.cpus.to_string(),
            (false, None) => String::new(),
            (false, Some(_)) => "out of reach".to_string(),
            (true, Some(far)) => panic!("it moves, and {far}"),
        };
        let fences = bound.fences && !bound.mems.is_empty();
        let only = if fences { "only " } else { "" };
        format!("{cpus}/{only}{}", bound.mems)
    }
}

/// The reason for the task's CPUs.
fn why(placement: &TaskPlacement) -> &str {
    let mut reasons = placement.notes.reasons.iter();
    reasons
        .find_map(|reason| reason.strip_prefix("CPUs: "))
        .unwrap()
}

/// A task that asks for `bind=numa` on two NUMA nodes of eight CPUs, a GPU on each, one on GPU
/// memory that is a node without CPUs, and one of which the kernel names no node.
fn case(gpus: &'static [usize], cpus: &str, step_cpus: &str) -> One {
    let mut topology = machine([2, 1, 8, 1], false, &[Some(0), Some(1), Some(2), None]);
    topology.numa_nodes.push(NumaNode {
        os_index: 2,
        cpus: CpuSet::new(),
        distances: Vec::new(),
        package: None,
    });
    One {
        topology,
        gpus,
        step: Step::default(),
        task: with! { Task { cpus: set(cpus), step_cpus: set(step_cpus) } },
        wish: with! { Wish { bind: Bind::Numa, mem: Mem::Prefer, by_user: true } },
    }
}

#[test]
fn a_task_goes_to_what_the_step_has_near_its_gpu_and_nothing_else_moves() {
    let cases: [(&'static [usize], _, _, _); 9] = rows! {
        // it is near
        &[0], "2-3", "0-15", "/0"; &[1], "8-15", "0-15", "/1";
        // it is partly near, and on the wrong socket
        &[0], "4-11", "4-11", "4-7/0"; &[1], "0-3", "0-3,8-11", "8-11/1";
        &[1], "0-3", "0-7", "out of reach/";
        // GPUs on both sockets: memory stays with the CPUs it runs on
        &[0, 1], "0-3", "0-15", "/0";
        // a node without CPUs, an unknown one, and none
        &[2], "0-3", "0-15", "/"; &[3], "0-3", "0-15", "/"; &[], "0-3", "0-15", "/";
    };
    for (gpus, cpus, step_cpus, expected) in cases {
        let found = case(gpus, cpus, step_cpus).outcome();
        assert_eq!(found, expected, "{gpus:?} on {cpus} of {step_cpus}");
    }
}

#[test]
fn what_the_user_bound_stays_bound() {
    let with = |cpu: &str, mem: &str| {
        let word = |word: &str| (!word.is_empty()).then(|| word.to_string());
        case(&[1], "4-11", "4-11").with(|one| {
            (one.step.cpu_bind, one.step.mem_bind) = (word(cpu), word(mem));
        })
    };
    // threads on both sockets keep theirs local
    assert_eq!(with("cores", "").outcome(), "/");
    let near = with("cores", "").with(|one| one.task.cpus = set("8-11"));
    assert_eq!(near.outcome(), "/1");
    // CPUs stay by the memory
    assert_eq!(with("", "local").outcome(), "/");
    assert_eq!(with("", "none").outcome(), "8-11/");
    for how in "none,threads,sockets,ldoms,rank,map_cpu:,mask_cpu:,rank_ldom,map_ldom:".split(',') {
        assert_eq!(with(how, "map_mem:").outcome(), "/", "--cpu-bind={how}");
    }
}

#[test]
fn a_users_way_of_binding_is_quoted_in_one_short_line() {
    let long = "x".repeat(100_000);
    let forged = format!("none\n[2026-01-01] error: FORGED\u{1b}[31m\u{202e}{long}");
    let one = case(&[1], "", "").with(|one| {
        (one.step.cpu_bind, one.step.mem_bind) = (Some(forged.clone()), Some(forged));
    });
    let reasons = one.bound().notes.reasons;
    assert_eq!(reasons.len(), 2, "CPUs and memory");
    for why in reasons {
        let is_right = why.contains("none\\n[2026-01-01]") && why.len() < 200;
        assert!(is_right, "{why}");
        assert!(!why.contains(['\n', '\u{1b}', '\u{202e}']), "{why:?}");
    }
}

#[test]
fn each_word_binds_what_it_says() {
    let cases = rows! {
        "4-11", Bind::None, Mem::None, "/";
        // memory alone, if asked for, and only near the CPUs
        "4-11", Bind::None, Mem::Prefer, "/1"; "0-3", Bind::None, Mem::Strict, "/";
        "4-11", Bind::Numa, Mem::None, "8-11/"; "4-11", Bind::Numa, Mem::Strict, "8-11/only 1";
    };
    for (cpus, bind, mem, expected) in cases {
        let one = case(&[1], cpus, "0-15").with(|one| (one.wish.bind, one.wish.mem) = (bind, mem));
        assert_eq!(one.outcome(), expected, "{cpus} {bind:?} {mem:?}");
    }
}

#[test]
fn a_task_without_gpus_gets_a_part_of_the_steps_nodes_where_the_user_asked_and_nobody_bound_it() {
    type Change = fn(&mut One);
    let changes: [(&str, Change); 6] = rows! {
        "0-7/0", |_| (); "0-7/", |one| one.wish.mem = Mem::None;
        "/", |one| one.wish.by_user = false; "/", |one| one.wish.bind = Bind::None;
        "/", |one| one.step.cpu_bind = Some("none".to_string());
        // Slurm bound it
        "/", |one| one.task.cpus = set("0-3");
    };
    for (number, (expected, change)) in changes.into_iter().enumerate() {
        let shared = case(&[], "0-15", "0-15").with(|one| one.step.tasks = 2);
        assert_eq!(shared.with(change).outcome(), expected, "{number}");
    }
}

#[test]
fn facts_that_are_not_this_systems_bind_nothing_unless_the_admin_trusts_them() {
    for (trust, expected) in [(false, "/"), (true, "8-11/1")] {
        let one = case(&[1], "4-11", "4-11").with(|one| {
            one.topology.provenance = Provenance::Model("dgx-h100".to_string());
            one.wish.admin.trust_topology = trust;
        });
        assert_eq!(one.outcome(), expected);
    }
}

#[test]
fn a_bind_of_the_users_holds_beside_none_and_beside_no_other_way_of_slurms() {
    let moves = |how: &str, by_user, starter| {
        let one = case(&[1], "4-11", "4-11").with(|one| {
            (one.step.cpu_bind, one.step.starter) = (Some(how.to_string()), starter);
            one.wish.bind_by_user = by_user;
        });
        one.bound().moves
    };
    assert!(moves("none", true, Starter::Slurm));
    assert!(!moves("none", false, Starter::Slurm), "the admin's default");
    assert!(!moves("none", true, Starter::Launcher), "a launcher's word");
    for how in ["cores", "mask_cpu:0x1", "map_cpu:0", "verbose"] {
        assert!(!moves(how, true, Starter::Slurm), "{how}");
    }
}

#[test]
fn what_a_launcher_bound_stays_and_its_words_are_the_reason_up_to_a_length() {
    let told = |words: &str| {
        let one = case(&[1], "4-11", "4-11").with(|one| {
            one.step.cpu_bind = Some(words.to_string());
            one.step.starter = Starter::Launcher;
        });
        let bound = one.bound();
        assert_eq!((bound.moves, bound.notes.far.as_deref()), (false, None));
        why(&bound).to_string()
    };
    assert_eq!(told("`orted` bound it"), "`orted` bound it");
    let sentence = "x".repeat(200);
    assert_eq!(told(&sentence), sentence);
    assert!(told(&"x".repeat(100_000)).len() < 300);
}

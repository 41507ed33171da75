//! No task is worse off, by the judge of the end-to-end tests: what was found, and generated steps on generated machines.

use super::*;
use crate::bind::judge;
use proptest::prelude::*;

impl Played {
    /// What the judge of the end-to-end tests says of the tasks' decisions.
    fn worse(&self) -> Vec<String> {
        let set = |cpus: &CpuSet| cpus.iter().collect::<judge::Set>();
        let task = |cpus: &CpuSet| judge::Task {
            cpus: set(cpus),
            memory: judge::Memory::Local,
        };
        let home = |id: usize| {
            let address = self.topology.gpus[self.gpu(id)].address;
            self.topology.numa_node_of(address).into_iter().collect()
        };
        let nodes = self.topology.numa_nodes.iter();
        let distances = nodes.clone().flat_map(|node| {
            let each = (0..).zip(node.distances.iter().copied());
            each.map(|(other, distance)| ((node.os_index, other), distance))
        });
        let machine = judge::Machine {
            cores: self.topology.cores().iter().map(set).collect(),
            numa: nodes.map(|node| (node.os_index, set(&node.cpus))).collect(),
            distances: distances.collect(),
        };
        let decisions = self.decisions();
        let known = (0..self.masks.len()).filter(|_| !self.numbers.is_odd);
        let step = judge::Step {
            without: self.masks.iter().map(task).collect(),
            with: decisions.iter().map(|one| task(&one.cpus)).collect(),
            homes: known.map(home).collect(),
            asked: self.cpus_per_task,
            ..judge::Step::default()
        };
        judge::worse(&machine, &step)
    }
}

fn assert_no_worse(played: &Played) {
    let (masks, lists) = (&played.masks, played.lists());
    assert_eq!(played.worse(), [""; 0], "{masks:?} became {lists:?}");
}

#[test]
fn a_task_that_slurm_gave_cores_for_its_cpus_keeps_them() {
    // 22.05: srun -N1 -n2 -c40 --hint=compute_bound --gpus-per-task=1, and -n5 -c20; -c counts cores
    for (tasks, cores) in [(2, 40), (5, 20)] {
        let mut masks = in_turn(tasks, cores);
        if tasks == 5 {
            // the fifth finds no socket with 20 cores left
            masks[4] = set("40-55,96-99,152-167,208-211");
        }
        let played = misdealt().with(|played| {
            (played.masks, played.gpus) = (masks, (0..tasks as usize).collect());
            played.cpus_per_task = Some(cores);
            let (cpus, cores) = (2 * tasks * cores, tasks * cores);
            played.counted = Some(Counted { cpus, cores });
        });
        let counts = played.decisions().into_iter().map(|one| one.cpus.len());
        assert!(counts.eq((0..tasks).map(|_| 2 * cores as usize)));
        assert_no_worse(&played.with(|played| played.cpus_per_task = None));
    }
}

#[test]
fn five_tasks_on_six_cpus_have_more_than_one_each() {
    let played = misdealt().with(|played| {
        played.masks = vec![set("0-1,56,112-113,168"); 5];
        played.cpus_per_task = None;
    });
    assert_no_worse(&played);
    // four CPUs hold three of the four tasks whose GPUs are there
    let decisions = played.decisions();
    let found = decisions.iter().filter(|one| one.cpus.len() == 4).count();
    assert_eq!(found, 3);
}

#[test]
fn tasks_do_not_pile_up_where_device_files_are_not_numbered_in_pci_order() {
    // the first and the last GPU of a DGX H100 have exchanged numbers
    let mut exchanged = misdealt();
    for (gpu, minor) in [(0, 7), (7, 0)] {
        exchanged.topology.gpus[gpu].minor = Some(minor);
    }
    for (constrained, by_pci) in [(false, false), (false, true), (true, false), (true, true)] {
        for rule in [per_task(), map_gpu(&[0, 1, 2, 3, 4, 5, 6, 7])] {
            let mut order: Vec<usize> = (0..8).collect();
            if !by_pci {
                order.swap(0, 7);
            }
            let played = exchanged.with(|played| {
                played.rule = rule;
                (played.numbers.order, played.numbers.constrained) = (order, constrained);
            });
            assert_no_worse(&played);
            // ranks 1, 3, 4 and 6.  Where a cgroup leaves each task its own GPU, the two exchanged
            // ones are not certain, and neither task moves
            let (found, before) = (played.lists(), played.before());
            let moved = (0..8).filter(|&id| found[id] != before[id]).count();
            assert_eq!(moved, 4, "{constrained} {by_pci} {:?}", played.rule);
        }
    }
}

#[test]
fn cores_of_its_own_are_never_fewer_than_slurm_gave() {
    // another job has socket 0 but one core: eight tasks of 14 CPUs have 7 cores each, most on the
    // other socket
    let mut masks = vec![set("55,167").union(&cores_of(57, 6))];
    masks.extend((1..8).map(|id| cores_of(56 + 7 * id, 7)));
    let busy = misdealt().asking(14).with(|played| {
        (played.masks, played.bind) = (masks, Bind::Core);
    });
    assert_no_worse(&busy);
    let decisions = busy.decisions();
    let is_right = decisions.iter().all(|one| one.cpus.len() == 14);
    assert!(is_right, "{:?}", busy.lists());
}

#[test]
fn no_task_leaves_the_numa_node_of_the_memory_that_the_user_bound() {
    let under = |played: &Played, how: &str| -> Vec<String> {
        let mut step = played.step();
        step.mem_bind = Some(how.to_string());
        let decisions = played.decided(&step);
        decisions.iter().map(|one| one.cpus.to_string()).collect()
    };
    for bind in [Bind::Auto, Bind::Core, Bind::Numa] {
        for how in ["map_mem:", "mask_mem:", "rank", "local"] {
            let played = misdealt().with(|played| played.bind = bind);
            let found = under(&played, how);
            assert_eq!(found, played.before(), "{bind:?} --mem-bind={how}");
        }
    }
    let found = under(&misdealt(), "none");
    assert_eq!(found[1], "4-5,116-117", "nothing is bound");
}

#[test]
fn a_task_that_slurm_does_not_confine_is_not_confined_to_cpus_of_other_jobs() {
    let unbound = misdealt().with(|played| played.masks = vec![set("0-223"); 4]);
    // 208 CPUs are other jobs', none is, and Slurm does not count
    let mut step = unbound.step();
    for (cores, cpus) in rows! {
        Some(8), "0-223"; Some(112), SOCKETS[0]; None, SOCKETS[0];
    } {
        step.job_cores = cores;
        assert_eq!(unbound.decided(&step)[0].cpus, set(cpus), "{cores:?}");
    }
}

/// GPUs whose device files are numbered in any order, and gres.conf by these, by the PCI addresses, or as an admin wrote it.
fn any_numbers() -> impl Strategy<Value = (Vec<usize>, Numbers)> {
    let order = || Just((0..8usize).collect::<Vec<_>>()).prop_shuffle();
    (order(), order(), 0u8..3, any::<bool>()).prop_map(|(minors, odd, kind, constrained)| {
        let gpu = |minor| minors.iter().position(|other| *other == minor);
        let by_file = (0..8).filter_map(gpu).collect();
        let order = [by_file, (0..8).collect(), odd][usize::from(kind)].clone();
        let is_odd = kind == 2 && constrained;
        let numbers = Numbers {
            order,
            constrained,
            is_odd,
        };
        (minors, numbers)
    })
}

fn any_step() -> impl Strategy<Value = Played> {
    let bind = prop_oneof![Just(Bind::Auto), Just(Bind::Core)];
    (any_masks(), any_numbers(), bind).prop_map(|(mut played, (minors, numbers), bind)| {
        for (gpu, minor) in played.topology.gpus.iter_mut().zip(minors) {
            gpu.minor = Some(minor as u32);
        }
        (played.numbers, played.bind) = (numbers, bind);
        played
    })
}

/// Sets the distances between the nodes of a socket, and between those of two.
fn put_apart(node: &mut Topology, same_socket: u32, other_socket: u32) {
    let nodes = node.numa_nodes.iter_mut();
    for distance in nodes.flat_map(|numa| &mut numa.distances) {
        *distance = match *distance {
            10 => 10,
            12 => same_socket,
            _ => other_socket,
        }
    }
}

fn any_masks() -> impl Strategy<Value = Played> {
    let shape = (
        1u32..3,
        prop_oneof![Just(1u32), Just(2), Just(4)],
        1u32..5,
        1usize..9,
        // firmware may give any
        prop::option::of((11u32..24, 1u32..10)),
    );
    let how = (
        0usize..3,
        0u64..u64::MAX,
        0usize..4,
        prop::option::of(1u32..6),
        prop::collection::vec(0usize..8, 8),
        prop::option::of(1u32..3),
    );
    (shape, how).prop_map(
        |(
            (sockets, nodes, cores, tasks, distances),
            (kind, held, rule, cpus_per_task, gpus, counted),
        )| {
            let mut topology = machine(sockets, nodes, cores, 8);
            if let Some((same_socket, farther)) = distances {
                put_apart(&mut topology, same_socket, same_socket + farther);
            }
            // the CPUs that other jobs left
            let cpus = topology.cpus();
            let is_free = |cpu: &u32| held >> (cpu % 64) & 1 == 0;
            let free: Vec<u32> = cpus.iter().filter(is_free).collect();
            let free = if free.is_empty() { vec![0] } else { free };
            let all: CpuSet = free.iter().copied().collect();
            let half = all.len() as u32 / 2;
            let of = |cpus, cores| Counted { cpus, cores };
            let counted = counted.map(|threads| of(threads * half, half));
            let block = |id| id * free.len() / tasks;
            let masks: Vec<CpuSet> = (0..tasks)
                .map(|id| match kind {
                    0 => all.clone(),
                    // dealt in turn, or in blocks
                    1 => free.iter().copied().skip(id).step_by(tasks).collect(),
                    _ => CpuSet::from_iter(free[block(id)..block(id + 1)].iter().copied()),
                })
                .map(|mask: CpuSet| if mask.is_empty() { all.clone() } else { mask })
                .collect();
            let in_order: Vec<usize> = (0..tasks).collect();
            let gpus = gpus[..tasks].to_vec();
            let unknown = (0..tasks).map(|id| (id * 3 + 1) % 8);
            let (gpus, rule) = match rule {
                0 => (in_order, per_task()),
                1 => (gpus.clone(), map_gpu(&gpus)),
                // a GPU for each task, in an unknown order
                2 => (unknown.collect(), Some("gres/gpu:per_task:1".to_string())),
                _ => (gpus, None),
            };
            let mut played = played(topology, masks, gpus);
            (played.cpus_per_task, played.counted, played.rule) = (cpus_per_task, counted, rule);
            played
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_task_is_worse_off(played in any_step()) {
        let worse = played.worse();
        prop_assert!(worse.is_empty(), "{worse:#?}: {:?} became {:?}", played.masks, played.lists());
    }
}

#[test]
fn under_bind_core_no_task_comes_farther_from_its_gpu_though_no_cpu_is_near() {
    let few = "2-4,6,8-9,13,15,19-22,25,28-29,31";
    let most = "0-3,9-11,13-14,19,21-22,24-27,30-32,34,40-41,43-46,49,58,62";
    for (cores, mask, gpus) in [(2, few, [0, 1]), (4, most, [1, 4])] {
        let played = mapped(machine(2, 4, cores, 8), [mask; 2], gpus).asking(1);
        assert_no_worse(&played.with(|played| {
            (played.rule, played.bind) = (per_task(), Bind::Core);
        }));
    }
}

#[test]
fn a_task_stays_where_the_step_s_cpus_on_its_gpu_s_socket_are_farther_on_average() {
    // task 0 has one CPU on its GPU's node and one on the other socket; the step's other CPUs on
    // its socket are on two more nodes: 16.5 and 17.3, 18 and 18, 21 and 11.3 from its GPU
    for (same, other, cpus) in [(21, 23, "0,7"), (22, 26, "0,9-10"), (12, 32, "0,9-10")] {
        let mut node = machine(2, 4, 1, 8);
        put_apart(&mut node, same, other);
        let played = mapped(node, ["0,7", "0,7,9-10"], [0, 1]).asking(2);
        assert_eq!(played.lists(), [cpus, "0,7,9-10"]);
    }
}

#[test]
fn a_core_to_oneself_is_not_changed_for_half_of_one_where_the_nodes_cores_were_not_read() {
    // `--hint=multithread`: three cores, of which the last has one task; tasks 0 and 4 have their
    // GPUs on the other socket
    let (topology, counted) = (machine(2, 1, 56, 8), Counted { cpus: 5, cores: 3 });
    let masks = ["0", "56", "112", "168", "57"];
    let dealt = mapped(topology, masks, [4, 5, 0, 7, 2]);
    let dealt = dealt.with(|played| played.counted = Some(counted));
    assert_eq!(dealt.lists(), masks, "task 4 would share a core");
    let unread = dealt.with(|played| played.topology.pus.clear());
    assert_eq!(unread.lists(), masks);
    // two tasks to each core: a task that changes places has half of one before and afterwards
    let masks = ["0", "56", "112", "168", "57", "169"];
    let even = mapped(unread.topology, masks, [4, 5, 0, 7, 2, 6]);
    let even = even.with(|played| played.counted = Some(counted));
    assert_eq!(even.lists(), ["57", "56", "112", "168", "0", "169"]);
}

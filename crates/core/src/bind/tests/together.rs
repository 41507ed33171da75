//! What a task may take beside the other tasks of its step, and what it is told.

use super::*;
use crate::topology::Pu;

/// Two NUMA nodes of `cpus` cores of one thread, and so many GPUs on each of them.
fn machine(cpus: u32, gpus: [u32; 2]) -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    for node in 0..2 {
        let of_it = cpus * node..cpus * (node + 1);
        let pus = of_it.clone().map(|os_index| Pu {
            os_index,
            package: node,
            core: os_index,
        });
        topology.pus.extend(pus);
        topology.numa_nodes.push(NumaNode {
            os_index: node,
            cpus: of_it.collect(),
            distances: Vec::new(),
            package: None,
        });
        for _ in 0..gpus[node as usize] {
            let minor = topology.gpus.len() as u32;
            let address = format!("{:02x}:00.0", minor + 1).parse().unwrap();
            let parent = PciParent::Host("pci0000:00".parse().unwrap());
            topology.pci.insert(PciFunction {
                numa_node: Some(node),
                ..PciFunction::new(address, parent)
            });
            topology.gpus.push(Gpu {
                minor: Some(minor),
                ..Gpu::new(address, GpuVendor::Nvidia)
            });
        }
    }
    topology
}

fn set(list: &str) -> CpuSet {
    CpuSet::from_list(list).unwrap()
}

/// Local id 0 of `tasks` with `part` CPUs each, which all have the whole step, as later releases of Slurm leave them.
struct Shared {
    topology: Topology,
    gpus: &'static [usize],
    step: Step,
    task: Task,
    bind: Bind,
}

fn shared(topology: Topology, gpus: &'static [usize], tasks: u32, part: u32) -> Shared {
    let cpus = topology.cpus();
    let all = (0..topology.gpus.len())
        .map(|gpu| gpu.to_string())
        .collect::<Vec<_>>()
        .join(",");
    let step = Step {
        tasks,
        cpus_per_task: Some(part),
        gpus: Some(all),
        ..Step::default()
    };
    let gpu_bind = Some("gres/gpu:per_task:1".to_string());
    let task = Task {
        cpus: cpus.clone(),
        step_cpus: cpus,
        gpu_bind,
        ..Task::default()
    };
    Shared {
        topology,
        gpus,
        step,
        task,
        bind: Bind::Auto,
    }
}

impl Shared {
    fn bound(&self) -> TaskPlacement {
        let Shared {
            topology,
            step,
            task,
            bind,
            ..
        } = self;
        let gpus: Vec<GpuIndex> = self.gpus.iter().copied().map(GpuIndex).collect();
        let wish = Wish {
            bind: *bind,
            mem: Mem::None,
            ..Wish::default()
        };
        let situation = Situation {
            topology,
            step,
            task,
            gpus: &gpus,
            wish: &wish,
        };
        super::bind(&situation, Notes::default())
    }

    fn cpus(&self) -> String {
        self.bound().cpus.to_string()
    }

    fn why(&self) -> String {
        why(&self.bound()).to_string()
    }
}

#[test]
fn as_many_tasks_come_near_as_there_are_gpus_for() {
    // eight CPUs on each node hold two tasks of four
    assert_eq!(
        shared(machine(8, [2, 2]), &[0], 4, 4).cpus(),
        "0-7",
        "two GPUs there, so two tasks"
    );
    assert_eq!(
        shared(machine(8, [4, 0]), &[0], 4, 4).cpus(),
        "0-15",
        "four GPUs there, so four tasks"
    );
    assert_eq!(
        shared(machine(8, [4, 4]), &[0, 1], 4, 4).cpus(),
        "0-7",
        "two GPUs each, so two tasks"
    );
    let unknown = shared(machine(8, [2, 2]), &[0], 4, 4);
    let unknown = Shared {
        step: Step {
            gpus: Some("17".to_string()),
            ..unknown.step.clone()
        },
        ..unknown
    };
    assert_eq!(
        unknown.cpus(),
        "0-15",
        "the step's GPUs cannot be told, so all four might come"
    );
}

#[test]
fn who_may_be_joined_by_others_counts_them_before_it_comes_near() {
    // the first of two tasks whose masks overlap; its GPU is on the node of CPUs 0-7
    let first = |masks: [&str; 2], part, gpu_bind: Option<&str>| {
        let one = shared(machine(8, [1, 3]), &[0], 2, part);
        let masks = masks.map(set).to_vec();
        let gpu_bind = gpu_bind.map(str::to_string);
        Shared {
            task: Task {
                cpus: masks[0].clone(),
                masks,
                gpu_bind,
                ..one.task.clone()
            },
            ..one
        }
        .cpus()
    };
    let own = Some("gres/gpu:per_task:1");
    assert_eq!(
        first(["6-9", "8-11"], 2, own),
        "6-7",
        "one GPU there, so nobody comes"
    );
    assert_eq!(
        first(["6-9", "8-11"], 2, None),
        "6-9",
        "the other might come, and two CPUs are one task's"
    );
    assert_eq!(
        first(["3-10", "9-15"], 3, None),
        "3-10",
        "five CPUs are too few for two tasks of three"
    );
    assert_eq!(
        first(["6-9", "6-11"], 2, own),
        "6-9",
        "the other is there and may stay"
    );
    assert_eq!(
        first(["4-9", "4-11"], 2, None),
        "4-7",
        "who is there already does not come once more"
    );
}

#[test]
fn a_task_of_which_the_others_expect_something_else_stays() {
    let decided = |cpus: &str, local_id, gpu_bind: &str| {
        let one = shared(machine(8, [2, 2]), &[0], 2, 4);
        let masks = vec![set("0-15"), set("0-15")];
        let gpu_bind = Some(gpu_bind.to_string());
        let task = Task {
            cpus: set(cpus),
            local_id,
            masks,
            gpu_bind,
            ..one.task.clone()
        };
        let bound = Shared { task, ..one }.bound();
        (bound.cpus.to_string(), why(&bound).to_string())
    };
    assert_eq!(decided("0-15", 1, "gres/gpu:per_task:1").0, "0-7");
    let others = [
        (
            "4-15",
            1,
            "gres/gpu:per_task:1",
            "slurmd lists other CPUs for it than it has",
        ),
        (
            "0-15",
            2,
            "gres/gpu:per_task:1",
            "Slurm counts fewer tasks here than there are",
        ),
        (
            "0-15",
            1,
            "gpu:map_gpu:0,3",
            "Slurm's rule expects it near other NUMA nodes",
        ),
    ];
    for (own, local_id, rule, reason) in others {
        let (cpus, why) = decided(own, local_id, rule);
        assert_eq!(cpus, own, "{reason}");
        assert!(why.contains(reason) && !why.contains("too few"), "{why}");
    }
}

#[test]
fn a_forged_list_of_many_different_masks_is_not_worked_through() {
    // each task has one CPU on each node, and needs one
    let among = |tasks: u32| -> (String, String) {
        let one = shared(machine(100, [1, 1]), &[0], tasks, 1);
        let masks: Vec<CpuSet> = (0..tasks)
            .map(|id| [id, 100 + id].into_iter().collect())
            .collect();
        let task = Task {
            cpus: masks[0].clone(),
            masks,
            gpu_bind: None,
            ..one.task.clone()
        };
        let one = Shared { task, ..one };
        (one.cpus(), one.why())
    };
    assert_eq!(among(64).0, "0");
    let (cpus, why) = among(65);
    assert_eq!(cpus, "0,100");
    assert!(
        why.contains("more different masks than are compared"),
        "{why}"
    );
    let alike = shared(machine(100, [1, 1]), &[0], 65, 1);
    assert_eq!(
        alike.cpus(),
        "0-99",
        "many tasks with one mask cost no more than few"
    );
}

#[test]
fn who_stays_is_told_what_would_bring_it_near() {
    let tasks = |tasks, starter| {
        let one = shared(machine(8, [4, 0]), &[0], tasks, 12);
        Shared {
            step: Step {
                starter,
                ..one.step.clone()
            },
            ..one
        }
        .why()
    };
    let room = "near NUMA node 0 of its GPU";
    let why = tasks(1, Starter::Slurm);
    assert!(
        why.starts_with(&format!(
            "{room} the step has 8 CPUs, too few for this task's 12"
        )),
        "{why}"
    );
    let why = tasks(4, Starter::Slurm);
    assert!(
        why.starts_with(&format!(
            "{room} the step has 8 CPUs, too few for the tasks"
        )),
        "{why}"
    );
    assert!(why.contains("`-m block:block`"), "{why}");
    let why = tasks(4, Starter::Launcher);
    assert!(
        why.starts_with(&format!("{room} it has 8 CPUs, too few for the processes")),
        "{why}"
    );
    assert!(
        !why.contains("-m block"),
        "a launcher does not know Slurm's options: {why}"
    );
}

#[test]
fn a_step_without_a_cpu_near_the_gpu_is_told_so_whoever_started_it() {
    let far = |starter, bind| {
        let one = shared(machine(8, [4, 0]), &[0], 1, 4);
        let task = Task {
            cpus: set("8-15"),
            step_cpus: set("8-15"),
            ..one.task.clone()
        };
        Shared {
            step: Step {
                starter,
                ..one.step.clone()
            },
            task,
            bind,
            ..one
        }
        .bound()
    };
    for bind in [Bind::Auto, Bind::Numa] {
        let bound = far(Starter::Launcher, bind);
        let missed = "it was given no CPU on NUMA node 0 of its GPU";
        assert_eq!(
            (bound.cpus.to_string().as_str(), bound.moves),
            ("8-15", false)
        );
        assert_eq!(why(&bound), missed);
        assert_eq!(bound.notes.far.as_deref(), Some(missed));
        assert_eq!(bound.notes.missed, [missed], "`strict` fails such a task");
        let why = far(Starter::Slurm, bind).notes.missed.concat();
        assert!(
            why.starts_with("the step has no CPU on NUMA node 0 of its GPU; `-m block:block`"),
            "{why}"
        );
    }
}

#[test]
fn who_is_near_already_is_told_whether_by_one_node_or_by_several() {
    assert_eq!(
        shared(machine(8, [1, 1]), &[0, 1], 1, 4).why(),
        "its GPUs span NUMA nodes 0-1"
    );
    let one = shared(machine(8, [2, 0]), &[0, 1], 1, 4);
    let near = Shared {
        task: Task {
            cpus: set("0-3"),
            ..one.task.clone()
        },
        ..one
    };
    assert_eq!(near.why(), "already on NUMA node 0, with its GPU");
}

/// `bind=core` for a task that has `cpus` in a step with these masks.
fn cored(local_id: u32, gpu: &'static [usize], tasks: u32, masks: &[&str]) -> TaskPlacement {
    let one = shared(machine(8, [1, 1]), gpu, tasks, 2);
    let masks: Vec<CpuSet> = masks.iter().map(|mask| set(mask)).collect();
    let cpus = masks[local_id as usize].clone();
    let step_cpus = masks
        .iter()
        .fold(CpuSet::new(), |all, mask| all.union(mask));
    let task = Task {
        local_id,
        cpus,
        step_cpus,
        masks,
        gpu_bind: None,
        ..one.task.clone()
    };
    Shared {
        task,
        bind: Bind::Core,
        ..one
    }
    .bound()
}

#[test]
fn cores_of_its_own_near_its_gpu_are_kept_or_given() {
    let bound = cored(0, &[0], 2, &["0-3", "8-11"]);
    assert_eq!(
        why(&bound),
        "the cores that Slurm gave to it alone, on NUMA node 0, with its GPU"
    );
    assert_eq!((bound.cpus, bound.moves), (set("0-3"), false));
    assert_eq!((bound.notes.far, bound.notes.missed), (None, Vec::new()));
    let bound = cored(1, &[1], 2, &["0-15", "0-15"]);
    let why = why(&bound);
    assert_eq!((&bound.cpus, bound.moves), (&set("12-15"), true));
    assert_eq!(bound.notes.missed, [""; 0]);
    assert!(
        why.starts_with("cores of its own, one seat")
            && why.ends_with(", on NUMA node 1, with its GPU"),
        "{why}"
    );
}

#[test]
fn cores_of_its_own_far_from_its_gpu_are_kept_and_told_whose_the_near_ones_are() {
    let others = "the step's cores on NUMA node 1 are other tasks'; `bind=numa` shares them";
    let bound = cored(0, &[1], 2, &["0-3", "8-11"]);
    assert_eq!((&bound.cpus, bound.moves), (&set("0-3"), false));
    assert_eq!(why(&bound), others);
    assert_eq!(bound.notes.far.as_deref(), Some(others));
    assert_eq!(bound.notes.missed, [others], "`strict` fails such a task");
    let bound = cored(0, &[1], 2, &["0-3", "4-7"]);
    let missed = bound.notes.missed.concat();
    assert!(
        missed.starts_with("the step has no CPU on NUMA node 1 of its GPU"),
        "{missed}"
    );
    // a seat of its own is worth having far away too
    let bound = cored(0, &[1], 2, &["0-3", "0-3"]);
    assert_eq!((&bound.cpus, bound.moves), (&set("0-1"), true));
    let why = why(&bound);
    assert!(
        why.contains("the step has no CPU on NUMA node 1 of its GPU")
            && !bound.notes.missed.is_empty(),
        "{why}"
    );
}

#[test]
fn cores_that_cannot_be_divided_are_shared_near_the_gpu_and_missed() {
    let bound = cored(0, &[0], 3, &["0-1,8-9", "0-1,8-9", "0-1,8-9"]);
    assert_eq!(bound.cpus, set("0-1,8-9"), "as by default");
    let why = why(&bound);
    assert_eq!(
        (bound.moves, bound.notes.far.as_deref()),
        (false, Some(why))
    );
    assert!(
        why.contains("too few for the tasks that belong there with 2 each"),
        "{why}"
    );
    let few = format!(
        "`bind=core` cannot be had: {}",
        "the step has fewer cores than tasks on a NUMA node, which `-c` may change"
    );
    assert_eq!(bound.notes.missed, [few.as_str()]);
    let bound = cored(0, &[1], 3, &["0", "0", "0"]);
    let missed = bound.notes.missed.join("; ");
    assert!(
        missed.starts_with(&format!("{few}; the step has no CPU on NUMA node 1")),
        "{missed}"
    );
}

#[test]
fn a_near_cpu_that_the_step_lacks_is_told_once_beside_bind_core() {
    for masks in [&["0", "0", "0"][..], &["0-3", "0-3"], &["0-3", "4-7"]] {
        let tasks = masks.len() as u32;
        let told = cored(0, &[1], tasks, masks).notes.reasons.join("\n");
        let lacks = "the step has no CPU on NUMA node 1 of its GPU";
        assert_eq!(told.matches(lacks).count(), 1, "{told}");
    }
}

#[test]
fn whole_cores_for_gpus_of_two_nodes_are_found_in_a_crew_and_not_for_one_task_alone() {
    assert_eq!(
        why(&cored(0, &[0, 1], 1, &["0-3"])),
        "its GPUs span NUMA nodes 0-1"
    );
    assert_eq!(
        cored(0, &[0, 1], 2, &["0-15", "0-15"]).cpus.to_string(),
        "0-3,8-11"
    );
    let numa = shared(machine(8, [1, 1]), &[0, 1], 2, 2);
    assert_eq!(
        Shared {
            bind: Bind::Numa,
            ..numa
        }
        .why(),
        "its GPUs span NUMA nodes 0-1"
    );
}

#[test]
fn a_launchers_words_are_shown_up_to_a_length_and_no_farther() {
    let told = |words: &str| {
        let one = shared(machine(8, [1, 1]), &[0], 1, 2);
        let cpu_bind = Some(words.to_string());
        Shared {
            step: Step {
                cpu_bind,
                starter: Starter::Launcher,
                ..one.step.clone()
            },
            ..one
        }
        .why()
    };
    let sentence = "x".repeat(200);
    assert_eq!(told(&sentence), sentence);
    assert!(told(&"x".repeat(100_000)).len() < 300);
}

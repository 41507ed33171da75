//! Steps on machines of two sockets, and what their tasks get.

mod worse;

use super::*;
use crate::bind::{Situation, bind};
use crate::placement::{Bind, Mem, Notes, TaskPlacement};
use crate::step::{Access, Counted, GpuGrant, Step, Task};
use crate::topology::{
    Gpu, GpuIndex, GpuVendor, NumaNode, PciFunction, PciParent, Provenance, Pu, Topology,
};
use crate::wish::Wish;

/// Sockets of NUMA nodes of cores of two threads, the second threads numbered after all first ones, and
/// `gpus` GPUs dealt to the nodes in order.
fn machine(sockets: u32, nodes: u32, cores: u32, gpus: u32) -> Topology {
    let mut topology = Topology::empty("test", Provenance::ThisSystem);
    let all = sockets * nodes;
    for node in 0..all {
        let first = node * cores..(node + 1) * cores;
        let pu = |cpu| Pu {
            os_index: cpu,
            package: node / nodes,
            core: cpu % (all * cores),
        };
        let cpus: CpuSet = first
            .clone()
            .chain(first.map(|cpu| cpu + all * cores))
            .collect();
        topology.pus.extend(cpus.iter().map(pu));
        let distance = |other: u32| match (other == node, other / nodes == node / nodes) {
            (true, _) => 10,
            (_, true) => 12,
            _ => 32,
        };
        let distances = (0..all).map(distance).collect();
        topology.numa_nodes.push(NumaNode {
            os_index: node,
            cpus,
            distances,
            package: None,
        });
    }
    for gpu in 0..gpus {
        let address = format!("{:02x}:00.0", gpu + 1).parse().unwrap();
        let parent = PciParent::Host("pci0000:00".parse().unwrap());
        topology.pci.insert(PciFunction {
            numa_node: Some(gpu * all / gpus),
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

/// A step, and the GPU of each of its tasks.
#[derive(Debug, Clone)]
struct Played {
    topology: Topology,
    masks: Vec<CpuSet>,
    gpus: Vec<usize>,
    cpus_per_task: Option<u32>,
    counted: Option<Counted>,
    /// `SLURMD_TRES_BIND`
    rule: Option<String>,
    bind: Bind,
    numbers: Numbers,
}

/// What Slurm's numbers of GPUs mean.
#[derive(Debug, Clone, Default)]
struct Numbers {
    /// `[number]`: the GPU for which it stands in gres.conf, where not that of the same number
    order: Vec<usize>,
    /// does a device cgroup leave each task its own GPUs, counted anew?
    constrained: bool,
    /// is it an order that Slurm does not make by itself?  The distance of a task from its GPU is then not known
    is_odd: bool,
}

impl Played {
    fn step(&self) -> Step {
        let gpus = (0..self.topology.gpus.len())
            .map(|gpu| gpu.to_string())
            .collect::<Vec<_>>()
            .join(",");
        let (cpus_per_task, counted) = (self.cpus_per_task, self.counted);
        Step {
            tasks: self.masks.len() as u32,
            gpus: Some(gpus),
            cpus_per_task,
            counted,
            ..Step::default()
        }
    }

    fn task(&self, id: usize) -> Task {
        let shared = self.masks.iter().all(|mask| *mask == self.masks[0]);
        Task {
            local_id: id as u32,
            cpus: self.masks[id].clone(),
            step_cpus: self
                .masks
                .iter()
                .fold(CpuSet::new(), |all, mask| all.union(mask)),
            // slurmd lists no masks if it bound no task
            masks: if shared {
                Vec::new()
            } else {
                self.masks.clone()
            },
            gpu_bind: self.rule.clone(),
            gpus: self.grant(id),
            threads_per_core: Some(2),
            ..Task::default()
        }
    }

    /// The GPU that a task's program sees.
    fn gpu(&self, id: usize) -> usize {
        let number = self.gpus[id];
        match self.numbers.constrained {
            true => self.numbers.order.get(number).copied().unwrap_or(number),
            false => number,
        }
    }

    fn grant(&self, id: usize) -> GpuGrant {
        let own = self.gpu(id);
        let number = if self.numbers.constrained {
            0
        } else {
            self.gpus[id]
        };
        let access = |gpu| {
            if self.numbers.constrained && gpu != own {
                Access::Denied
            } else {
                Access::Allowed
            }
        };
        GpuGrant {
            variables: [("CUDA_VISIBLE_DEVICES", number.to_string())].into(),
            access: (0..self.topology.gpus.len()).map(access).collect(),
        }
    }

    /// Each task's own decision.
    fn decisions(&self) -> Vec<TaskPlacement> {
        self.decided(&self.step())
    }

    /// The same in a step of which more is known.
    fn decided(&self, step: &Step) -> Vec<TaskPlacement> {
        let wish = Wish {
            bind: self.bind,
            mem: Mem::Prefer,
            ..Wish::default()
        };
        let one = |id: usize| {
            let (task, gpus) = (self.task(id), [GpuIndex(self.gpu(id))]);
            let situation = Situation {
                topology: &self.topology,
                step,
                task: &task,
                gpus: &gpus,
                wish: &wish,
            };
            bind(&situation, Notes::default())
        };
        (0..self.masks.len()).map(one).collect()
    }

    fn lists(&self) -> Vec<String> {
        self.decisions()
            .iter()
            .map(|decision| decision.cpus.to_string())
            .collect()
    }
}

/// A DGX H100's two sockets, 8 tasks of `-c4` on whole cores, as Slurm 22.05 deals them: cores from socket to
/// socket, GPUs in order.
fn misdealt() -> Played {
    let mask = |id: u32| {
        let core = id / 2 * 2 + if id % 2 == 0 { 0 } else { 56 };
        [core, core + 1, core + 112, core + 113]
            .into_iter()
            .collect()
    };
    Played {
        topology: machine(2, 1, 56, 8),
        masks: (0..8).map(mask).collect(),
        gpus: (0..8).collect(),
        cpus_per_task: Some(4),
        counted: None,
        rule: Some("gpu:per_task:1".to_string()),
        bind: Bind::Auto,
        numbers: Numbers::default(),
    }
}

#[test]
fn moved_tasks_take_the_cpus_that_others_leave() {
    let found = misdealt().lists();
    // ranks 1 and 3 have GPUs of socket 0, ranks 4 and 6 of socket 1: they change places
    assert_eq!(found[0], "0-1,112-113");
    assert_eq!([&found[1], &found[3]], ["4-5,116-117", "6-7,118-119"]);
    assert_eq!([&found[4], &found[6]], ["56-57,168-169", "58-59,170-171"]);
}

#[test]
fn on_a_busy_node_tasks_keep_their_part() {
    // another job holds all cores of socket 0 but the last: Slurm gave this job 55,167 and cores of socket 1
    let masks = [
        "55,56,167-168",
        "57-58,169-170",
        "59-60,171-172",
        "61-62,173-174",
    ];
    let masks = masks.into_iter().chain([
        "63-64,175-176",
        "65-66,177-178",
        "67-68,179-180",
        "69-70,181-182",
    ]);
    let busy = Played {
        masks: masks.map(set).collect(),
        ..misdealt()
    };
    let before: Vec<String> = busy.masks.iter().map(ToString::to_string).collect();
    assert_eq!(busy.lists(), before, "each keeps its four CPUs");
    let decisions = busy.decisions();
    let notes = &decisions[1].notes;
    assert_eq!(notes.missed, [""; 0], "it has room, though too little");
    let why = notes.far.as_ref().unwrap();
    assert!(
        why.contains("the step has 2 CPUs") && why.contains("`bind=numa`"),
        "{why}"
    );
    let numa = Played {
        bind: Bind::Numa,
        ..busy
    };
    assert_eq!(
        numa.lists()[..4],
        ["55,167", "55,167", "55,167", "55,167"],
        "who asks for it gets it"
    );
}

#[test]
fn one_task_with_a_whole_node_and_one_gpu_keeps_all_of_it() {
    let whole = Played {
        masks: vec![set("0-223")],
        gpus: vec![0],
        cpus_per_task: None,
        ..misdealt()
    };
    assert_eq!(whole.lists(), ["0-223"]);
    let asked = Played {
        cpus_per_task: Some(16),
        ..whole.clone()
    };
    assert_eq!(
        asked.lists(),
        ["0-55,112-167"],
        "its part of 16 fits near its GPU"
    );
    assert_eq!(
        Played {
            bind: Bind::Numa,
            ..whole
        }
        .lists(),
        ["0-55,112-167"]
    );
}

#[test]
fn tasks_that_share_a_whole_node_are_narrowed_to_their_gpus_sockets() {
    let shared = Played {
        masks: vec![set("0-223"); 8],
        cpus_per_task: None,
        ..misdealt()
    };
    let expected: Vec<&str> = ["0-55,112-167"; 4]
        .into_iter()
        .chain(["56-111,168-223"; 4])
        .collect();
    assert_eq!(shared.lists(), expected);
    // later releases do not tell which task has which GPU, only that each has its own
    let later = Played {
        rule: Some("gres/gpu:per_task:1".to_string()),
        ..shared.clone()
    };
    assert_eq!(later.lists(), expected);
    let unknown = Played {
        rule: None,
        ..shared
    };
    assert_eq!(
        unknown.lists(),
        ["0-223"; 8],
        "all eight might belong to one socket"
    );
}

#[test]
fn a_task_with_no_room_on_its_gpus_node_goes_to_its_gpus_socket() {
    // a DGX A100: four NUMA nodes per socket, GPUs on every other one; the step has only cores of nodes 0 and
    // 4
    let topology = machine(2, 4, 16, 8);
    let gpu_on = |node: u32| {
        let there = topology
            .gpus
            .iter()
            .position(|gpu| topology.numa_node_of(gpu.address) == Some(node));
        there.unwrap()
    };
    let masks = vec![set("64-65,192-193"), set("0-1,128-129")];
    let gpus = vec![gpu_on(3), gpu_on(7)];
    let rule = Some(format!("gpu:map_gpu:{},{}", gpus[0], gpus[1]));
    let played = Played {
        topology,
        masks,
        gpus,
        cpus_per_task: Some(4),
        counted: None,
        rule,
        bind: Bind::Auto,
        numbers: Numbers::default(),
    };
    assert_eq!(
        played.lists(),
        ["0-1,128-129", "64-65,192-193"],
        "they change sockets"
    );
    let why = &played.decisions()[0].notes.reasons[0];
    assert!(
        why.contains("NUMA nodes 0-3") && why.contains("distance 12"),
        "{why}"
    );
}

#[test]
fn tasks_that_crowd_their_gpus_nodes_share_its_socket() {
    // a DGX A100: two GPUs on every other NUMA node, and eight tasks that share the whole machine
    let topology = machine(2, 4, 16, 8);
    let on = |node: u32| {
        let there = |gpu: &usize| topology.numa_node_of(topology.gpus[*gpu].address) == Some(node);
        (0..8).find(there).unwrap()
    };
    let gpus: Vec<usize> = [3, 3, 1, 1, 7, 7, 5, 5].into_iter().map(on).collect();
    let listed: Vec<String> = gpus.iter().map(usize::to_string).collect();
    let rule = Some(format!("gpu:map_gpu:{}", listed.join(",")));
    let masks = vec![set("0-255"); 8];
    let played = Played {
        topology,
        masks,
        gpus,
        cpus_per_task: None,
        counted: None,
        rule,
        bind: Bind::Auto,
        numbers: Numbers::default(),
    };
    let one_on_each_node = [
        "48-63,176-191",
        "0-63,128-191",
        "16-31,144-159",
        "0-63,128-191",
    ];
    assert_eq!(
        played.lists()[..4],
        one_on_each_node,
        "a node's 32 CPUs hold one of its two tasks"
    );
    let asked = Played {
        cpus_per_task: Some(16),
        ..played.clone()
    };
    assert_eq!(asked.lists()[..2], ["48-63,176-191"; 2], "16 each fit");
    // `-c32` of Slurm 22.05: a NUMA node for each task, from socket to socket.  Of the tasks 0, 2, 5 and 7 on their GPU's socket
    // only 2 is on its GPU's NUMA node; the others are on the other socket
    let node = |node: u32| {
        format!(
            "{}-{},{}-{}",
            16 * node,
            16 * node + 15,
            16 * node + 128,
            16 * node + 143
        )
    };
    let masks = [0, 4, 1, 5, 2, 6, 3, 7].map(|of| set(&node(of)));
    let dealt = Played {
        masks: masks.to_vec(),
        cpus_per_task: Some(32),
        ..played
    };
    let near = [0, 3, 1, 2, 7, 6, 5, 4].map(node);
    assert_eq!(
        dealt.lists(),
        near,
        "half of the tasks have room on their GPU's own, and no task comes farther"
    );
}

#[test]
fn who_finds_no_room_does_not_keep_the_others_away() {
    // four NUMA nodes on two sockets, three cores for five tasks: the second node has none of the step's CPUs
    let topology = machine(2, 2, 1, 4);
    let played = Played {
        masks: vec![set("0,2-4,6-7"); 5],
        gpus: vec![0, 0, 1, 2, 3],
        cpus_per_task: None,
        counted: None,
        rule: Some("gpu:map_gpu:0,0,1,2,3".to_string()),
        bind: Bind::Auto,
        numbers: Numbers::default(),
        topology,
    };
    let all = "0,2-4,6-7";
    assert_eq!(
        played.lists(),
        ["0,4", all, all, "2,6", "3,7"],
        "two on one core have less than 6 CPUs for 5"
    );
}

#[test]
fn who_stands_in_nobodys_way_moves_though_another_gives_way() {
    // two tasks hold the first socket; the last one would crowd them there, and the first one goes to the second socket
    let played = Played {
        topology: machine(2, 1, 4, 4),
        masks: ["0-15", "0-3,8-11", "0-3,8-11", "4-5"].map(set).to_vec(),
        gpus: vec![2, 0, 0, 0],
        cpus_per_task: Some(4),
        counted: None,
        rule: Some("gpu:map_gpu:2,0,0,0".to_string()),
        bind: Bind::Auto,
        numbers: Numbers::default(),
    };
    assert_eq!(played.lists(), ["4-7,12-15", "0-3,8-11", "0-3,8-11", "4-5"]);
}

#[test]
fn who_fills_its_gpus_node_to_the_last_cpu_moves_though_another_gives_way() {
    // two tasks hold the first of three sockets; the last one would crowd them there.  The first one takes all that the
    // step has on the second socket, where no other task has a CPU
    let played = Played {
        topology: machine(3, 1, 4, 3),
        masks: ["0-5,12-17", "0-3,12-15", "0-3,12-15", "8-9"]
            .map(set)
            .to_vec(),
        gpus: vec![1, 0, 0, 0],
        cpus_per_task: Some(4),
        counted: None,
        rule: Some("gpu:map_gpu:1,0,0,0".to_string()),
        bind: Bind::Auto,
        numbers: Numbers::default(),
    };
    assert_eq!(
        played.lists(),
        ["4-5,16-17", "0-3,12-15", "0-3,12-15", "8-9"]
    );
}

#[test]
fn who_would_share_the_same_cpus_gives_way_together() {
    // four sockets; the last two tasks would come to the second one, which the second of them alone could
    let masks = ["0,6,17,23", "2,8,18,26", "4,9,20,27", "5,12,21"];
    let played = Played {
        topology: machine(4, 1, 4, 8),
        masks: masks.map(set).to_vec(),
        gpus: vec![0, 1, 2, 3],
        cpus_per_task: None,
        counted: None,
        rule: Some("gpu:per_task:1".to_string()),
        bind: Bind::Auto,
        numbers: Numbers::default(),
    };
    assert_eq!(played.lists(), masks);
}

#[test]
fn of_seats_on_the_socket_a_task_takes_that_on_its_gpus_node() {
    // a DGX A100 as srun -c32 fills it: pairs of GPUs on NUMA nodes 3, 1, 7 and 5, a task on each NUMA node
    let on = |node: u32| {
        (16 * node..16 * node + 16)
            .chain(128 + 16 * node..144 + 16 * node)
            .collect::<CpuSet>()
    };
    let played = Played {
        topology: machine(2, 4, 16, 8),
        masks: [0, 4, 1, 5, 2, 6, 3, 7].map(on).to_vec(),
        gpus: vec![3, 3, 1, 1, 7, 7, 5, 5],
        cpus_per_task: Some(32),
        counted: None,
        rule: Some("gpu:map_gpu:3,3,1,1,7,7,5,5".to_string()),
        bind: Bind::Auto,
        numbers: Numbers::default(),
    };
    let decisions = played.decisions();
    let masks: Vec<&CpuSet> = decisions.iter().map(|one| &one.cpus).collect();
    assert_eq!([masks[0], masks[2]], [&on(0), &on(1)], "they stay");
    assert_eq!(
        masks[1],
        &on(3),
        "its GPU's, and the one that task 3 would have had by its number"
    );
    assert_eq!(masks[3], &on(2));
    assert!(decisions[1].moves);
    let why = &decisions[1].notes.reasons[0];
    assert!(
        why.contains("on NUMA node 3, with its GPU"),
        "the report says where it ended: {why}"
    );
}

/// Four tasks with two cores each, both threads of these, on a node of eight cores.  All use GPUs of NUMA node 0, which has
/// four.
fn on_cores_of_two_threads(cpus_per_task: u32, counted: Counted) -> Vec<String> {
    let masks = ["0-1,8-9", "4-5,12-13", "2-3,10-11", "6-7,14-15"]
        .map(set)
        .to_vec();
    let played = Played {
        topology: machine(2, 1, 4, 4),
        masks,
        gpus: vec![0, 1, 0, 1],
        cpus_per_task: Some(cpus_per_task),
        counted: Some(counted),
        rule: Some("gpu:map_gpu:0,1,0,1".to_string()),
        bind: Bind::Auto,
        numbers: Numbers::default(),
    };
    played.lists()
}

#[test]
fn a_task_keeps_its_cores_where_slurm_counts_each_as_one_cpu_or_gives_whole_ones() {
    let as_slurm_put_them = ["0-1,8-9", "4-5,12-13", "2-3,10-11", "6-7,14-15"];
    // `CPUs=8` beside `ThreadsPerCore=2`
    assert_eq!(
        on_cores_of_two_threads(2, Counted { cpus: 8, cores: 8 }),
        as_slurm_put_them
    );
    // `-c 3 --ntasks-per-core=1`
    assert_eq!(
        on_cores_of_two_threads(3, Counted { cpus: 16, cores: 8 }),
        as_slurm_put_them
    );
    // `-c 2 --hint=compute_bound` of 22.05
    assert_eq!(
        on_cores_of_two_threads(2, Counted { cpus: 16, cores: 8 }),
        as_slurm_put_them
    );
}

//! Steps on machines of two sockets, and what their tasks get.

mod worse;

use super::*;
use crate::bind::tests::{dealt, set, union};
use crate::bind::{Situation, bind};
use crate::placement::{Bind, Mem, Notes, TaskPlacement};
use crate::step::{Access, Counted, GpuGrant, Step, Task};
use crate::topology::{GpuIndex, Topology};
use crate::wish::Wish;

/// Sockets of NUMA nodes of cores of two threads, and so many GPUs dealt to the nodes in order.
fn machine(sockets: u32, nodes: u32, cores: u32, gpus: u32) -> Topology {
    let gpus = dealt(gpus, sockets * nodes);
    crate::bind::tests::machine([sockets, nodes, cores, 2], false, &gpus)
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
    /// is it an order that Slurm does not make by itself?  The distance of a task from its GPU is
    /// then not known
    is_odd: bool,
}

fn listed(gpus: impl IntoIterator<Item = usize>) -> String {
    let gpus: Vec<String> = gpus.into_iter().map(|gpu| gpu.to_string()).collect();
    gpus.join(",")
}

fn map_gpu(gpus: &[usize]) -> Option<String> {
    Some(format!("gpu:map_gpu:{}", listed(gpus.iter().copied())))
}

fn per_task() -> Option<String> {
    Some("gpu:per_task:1".to_string())
}

/// A step of which Slurm says no more.
fn played(topology: Topology, masks: Vec<CpuSet>, gpus: Vec<usize>) -> Played {
    Played {
        topology,
        masks,
        gpus,
        cpus_per_task: None,
        counted: None,
        rule: None,
        bind: Bind::Auto,
        numbers: Numbers::default(),
    }
}

/// A step under `--gpu-bind=map_gpu`.
fn mapped<const N: usize>(topology: Topology, masks: [&str; N], gpus: [usize; N]) -> Played {
    let played = played(topology, masks.map(set).to_vec(), gpus.to_vec());
    played.with(|played| played.rule = map_gpu(&gpus))
}

impl Played {
    fn with(&self, change: impl FnOnce(&mut Played)) -> Played {
        let mut played = self.clone();
        change(&mut played);
        played
    }

    fn asking(&self, cpus_per_task: u32) -> Played {
        self.with(|played| played.cpus_per_task = Some(cpus_per_task))
    }

    fn step(&self) -> Step {
        with! { Step {
            tasks: self.masks.len() as u32, gpus: Some(listed(0..self.topology.gpus.len())),
            cpus_per_task: self.cpus_per_task, counted: self.counted
        } }
    }

    fn task(&self, id: usize) -> Task {
        let shared = self.masks.iter().all(|mask| *mask == self.masks[0]);
        Task {
            local_id: id as u32,
            global_id: 100 + id as u32,
            cpus: self.masks[id].clone(),
            step_cpus: union(&self.masks),
            // slurmd lists no masks if it bound no task
            masks: Vec::from(if shared { &[][..] } else { &self.masks }),
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
        let (own, constrained) = (self.gpu(id), self.numbers.constrained);
        let number = if constrained { 0 } else { self.gpus[id] };
        let access = |gpu| match constrained && gpu != own {
            true => Access::Denied,
            false => Access::Allowed,
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
        let wish = with! { Wish { bind: self.bind, mem: Mem::Prefer } };
        let one = |id: usize| {
            let (topology, task, gpus) =
                (&self.topology, &self.task(id), &[GpuIndex(self.gpu(id))]);
            let wish = &wish;
            let situation = Situation {
                topology,
                step,
                task,
                gpus,
                wish,
            };
            bind(&situation, Notes::default())
        };
        (0..self.masks.len()).map(one).collect()
    }

    fn lists(&self) -> Vec<String> {
        let decisions = self.decisions();
        let lists = decisions.iter().map(|decision| decision.cpus.to_string());
        lists.collect()
    }

    fn before(&self) -> Vec<String> {
        self.masks.iter().map(ToString::to_string).collect()
    }
}

/// A DGX H100's two sockets, 8 tasks of `-c4` on whole cores, as Slurm 22.05 deals them: cores from
/// socket to socket, GPUs in order.
fn misdealt() -> Played {
    let played = played(machine(2, 1, 56, 8), in_turn(8, 2), (0..8).collect());
    played.asking(4).with(|played| played.rule = per_task())
}

/// Slurm's masks of tasks with so many cores each, dealt from socket to socket of a DGX H100.
fn in_turn(tasks: u32, cores: u32) -> Vec<CpuSet> {
    let first = |id: u32| id / 2 * cores + id % 2 * 56;
    (0..tasks).map(|id| cores_of(first(id), cores)).collect()
}

/// So many cores of a DGX H100 from this one on.
fn cores_of(first: u32, cores: u32) -> CpuSet {
    let each = (first..first + cores).flat_map(|core| [core, core + 112]);
    each.collect()
}

const SOCKETS: [&str; 2] = ["0-55,112-167", "56-111,168-223"];

#[test]
fn moved_tasks_take_the_cpus_that_others_leave() {
    let (found, decisions) = (misdealt().lists(), misdealt().decisions());
    let ids = decisions.iter().map(|one| (one.local_id, one.global_id));
    assert!(ids.eq((0..8).map(|id| (id, 100 + id))));
    // ranks 1 and 3 have GPUs of socket 0, ranks 4 and 6 of socket 1: they change places
    assert_eq!(found[0], "0-1,112-113");
    assert_eq!([&found[1], &found[3]], ["4-5,116-117", "6-7,118-119"]);
    assert_eq!([&found[4], &found[6]], ["56-57,168-169", "58-59,170-171"]);
}

#[test]
fn on_a_busy_node_tasks_keep_their_part() {
    // another job holds all cores of socket 0 but the last: Slurm gave this job 55,167 and cores of
    // socket 1
    let mut masks = vec![set("55,56,167-168")];
    masks.extend((0..7).map(|id| cores_of(57 + 2 * id, 2)));
    let busy = misdealt().with(|played| played.masks = masks);
    assert_eq!(busy.lists(), busy.before(), "each keeps its four CPUs");
    let notes = &busy.decisions()[1].notes;
    assert_eq!(notes.missed, [""; 0]);
    let why = notes.far.as_ref().unwrap();
    let is_right = why.contains("the step has 2 CPUs") && why.contains("`bind=numa`");
    assert!(is_right, "{why}");
    let numa = busy.with(|played| played.bind = Bind::Numa);
    assert_eq!(numa.lists()[..4], ["55,167"; 4], "as asked for");
}

#[test]
fn one_task_with_a_whole_node_and_one_gpu_keeps_all_of_it() {
    let whole = misdealt().with(|played| {
        (played.masks, played.gpus) = (vec![set("0-223")], vec![0]);
        played.cpus_per_task = None;
    });
    assert_eq!(whole.lists(), ["0-223"]);
    assert_eq!(whole.asking(16).lists(), [SOCKETS[0]], "its 16 fit");
    let numa = whole.with(|played| played.bind = Bind::Numa);
    assert_eq!(numa.lists(), [SOCKETS[0]]);
}

#[test]
fn tasks_that_share_a_whole_node_are_narrowed_to_their_gpus_sockets() {
    let shared = misdealt().with(|played| {
        played.masks = vec![set("0-223"); 8];
        played.cpus_per_task = None;
    });
    // later releases do not tell which task has which GPU, only that each has its own
    for rule in [per_task(), Some("gres/gpu:per_task:1".to_string())] {
        let lists = shared.with(|played| played.rule = rule).lists();
        assert_eq!(lists[..4], [SOCKETS[0]; 4]);
        assert_eq!(lists[4..], [SOCKETS[1]; 4]);
    }
    // all eight might belong to one socket
    let unknown = shared.with(|played| played.rule = None);
    assert_eq!(unknown.lists(), ["0-223"; 8]);
}

/// The CPUs of a NUMA node of a DGX A100, with four on each socket and two GPUs on every other.
fn a100(node: u32) -> String {
    let first = 16 * node;
    let last = first + 15;
    format!("{first}-{last},{}-{}", first + 128, last + 128)
}

#[test]
fn a_task_with_no_room_on_its_gpus_node_goes_to_its_gpus_socket() {
    // the GPUs are on NUMA nodes 3 and 7; the step has only cores of nodes 0 and 4
    let masks = ["64-65,192-193", "0-1,128-129"];
    let played = mapped(machine(2, 4, 16, 8), masks, [3, 7]).asking(4);
    assert_eq!(played.lists(), [masks[1], masks[0]], "they change sockets");
    let why = &played.decisions()[0].notes.reasons[0];
    let is_right = why.contains("NUMA nodes 0-3") && why.contains("distance 12");
    assert!(is_right, "{why}");
}

#[test]
fn tasks_that_crowd_their_gpus_nodes_share_its_socket() {
    // a DGX A100, and eight tasks that share the whole machine
    let played = mapped(machine(2, 4, 16, 8), ["0-255"; 8], [3, 3, 1, 1, 7, 7, 5, 5]);
    // a node's 32 CPUs hold one of its two tasks
    let (third, first) = (a100(3), a100(1));
    let one_on_each_node = [&third, "0-63,128-191", &first, "0-63,128-191"];
    assert_eq!(played.lists()[..4], one_on_each_node);
    assert_eq!(played.asking(16).lists()[..2], [&*third; 2], "16 each fit");
    // `-c32` of Slurm 22.05: a NUMA node for each task, from socket to socket.  Of the tasks 0, 2,
    // 5 and 7 on their GPU's socket only 2 is on its GPU's NUMA node; the others are on the other
    // socket
    let masks = [0, 4, 1, 5, 2, 6, 3, 7].map(|node| set(&a100(node)));
    let asking = played.asking(32);
    let dealt = asking.with(|played| played.masks = masks.to_vec());
    // half of the tasks have room on their GPU's own, and no task comes farther
    assert_eq!(dealt.lists(), [0, 3, 1, 2, 7, 6, 5, 4].map(a100));
    let decision = &dealt.decisions()[1];
    let why = &decision.notes.reasons[0];
    let is_right = decision.moves && why.contains("NUMA node 3, with its GPU");
    assert!(is_right, "{why}");
}

#[test]
fn who_finds_no_room_keeps_nobody_away_and_who_stands_in_nobodys_way_moves() {
    let all = "0,2-4,6-7";
    // four NUMA nodes on two sockets, three cores for five tasks: the second node has none of the
    // step's CPUs, and two on one core have less than 6 CPUs for 5
    let crowd = mapped(machine(2, 2, 1, 4), [all; 5], [0, 0, 1, 2, 3]);
    assert_eq!(crowd.lists(), ["0,4", all, all, "2,6", "3,7"]);
    // two tasks hold the first socket; the last one would crowd them there, and the first one goes
    // to the second socket
    let held = ["0-15", "0-3,8-11", "0-3,8-11", "4-5"];
    let two = mapped(machine(2, 1, 4, 4), held, [2, 0, 0, 0]).asking(4);
    assert_eq!(two.lists()[0], "4-7,12-15");
    assert_eq!(two.lists()[1..], held[1..]);
    // the same of three sockets: the first one takes all that the step has on the second socket,
    // where no other task has a CPU
    let held = ["0-5,12-17", "0-3,12-15", "0-3,12-15", "8-9"];
    let three = mapped(machine(3, 1, 4, 3), held, [1, 0, 0, 0]).asking(4);
    assert_eq!(three.lists()[0], "4-5,16-17");
    assert_eq!(three.lists()[1..], held[1..]);
    // four sockets; the last two tasks would come to the second one, which the second of them alone
    // could: those that would share the same CPUs give way together
    let masks = ["0,6,17,23", "2,8,18,26", "4,9,20,27", "5,12,21"];
    let four = mapped(machine(4, 1, 4, 8), masks, [0, 1, 2, 3]);
    let four = four.with(|played| played.rule = per_task());
    assert_eq!(four.lists(), masks);
}

#[test]
fn a_task_keeps_its_cores_where_slurm_counts_each_as_one_cpu_or_gives_whole_ones() {
    // two cores each, both threads of these, on a node of eight cores.  All use GPUs of NUMA node
    // 0, which has four
    let as_slurm_put_them = ["0-1,8-9", "4-5,12-13", "2-3,10-11", "6-7,14-15"];
    let played = mapped(machine(2, 1, 4, 4), as_slurm_put_them, [0, 1, 0, 1]);
    // `CPUs=8` beside `ThreadsPerCore=2`; `-c 3 --ntasks-per-core=1`; `-c 2 --hint=compute_bound`
    // of 22.05
    for (asked, cpus) in [(2, 8), (3, 16), (2, 16)] {
        let counted = Some(Counted { cpus, cores: 8 });
        let played = played.asking(asked).with(|played| played.counted = counted);
        assert_eq!(played.lists(), as_slurm_put_them, "{asked} {cpus}");
    }
}

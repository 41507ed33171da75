//! Eight GPUs on two sockets, a NUMA node without CPUs, and device cgroups.

use crate::machine::{Gpu, Machine};
use crate::report::Task;
use crate::{Case, cases};
use nic_placement_core::topology::{CpuSet, NodeSet};
use std::collections::BTreeSet;

/// What is run in the guest.
pub const COMMANDS: &[(&str, &str)] = &[
    ("release", "srun --version"),
    ("bare", "srun -n8 --gpus-per-task=1 $task"),
    ("placed", "srun -n8 --gpus-per-task=1 --nic-placement $task"),
    (
        "cpu-bind.bare",
        "srun -n8 --gpus-per-task=1 --cpu-bind=map_cpu:0,4,1,5,2,6,3,7 $task",
    ),
    (
        "cpu-bind.placed",
        "srun -n8 --gpus-per-task=1 --cpu-bind=map_cpu:0,4,1,5,2,6,3,7 --nic-placement $task",
    ),
    (
        "mem-bind.bare",
        "srun -n8 --gpus-per-task=1 --mem-bind=map_mem:1,0 $task",
    ),
    (
        "mem-bind.placed",
        "srun -n8 --gpus-per-task=1 --mem-bind=map_mem:1,0 --nic-placement $task",
    ),
    ("pairs.bare", "srun -n4 --gpus-per-task=2 $task"),
    (
        "pairs.placed",
        "srun -n4 --gpus-per-task=2 --nic-placement $task",
    ),
    ("local-id.bare", "srun -n8 --gres=gpu:8 $task"),
    (
        "local-id.unpromised",
        "srun -n8 --gres=gpu:8 --nic-placement $task",
    ),
    (
        "local-id",
        "srun -n8 --gres=gpu:8 --nic-placement=gpu=local-id $task",
    ),
    ("all.bare", "srun -n1 -c8 --gres=gpu:8 $task"),
    (
        "all.placed",
        "srun -n1 -c8 --gres=gpu:8 --nic-placement $task",
    ),
    ("core.bare", "srun -n4 -c2 --gpus-per-task=2 $task"),
    (
        "core",
        "srun -n4 -c2 --gpus-per-task=2 --nic-placement=bind=core,omp=on,verbose $task",
    ),
    (
        "fence",
        "srun -n8 --gpus-per-task=1 --nic-placement=mem=strict $task",
    ),
    (
        "unbound",
        "srun -n8 --gpus-per-task=1 --nic-placement=bind=none $task",
    ),
    (
        "user",
        "su user -c \"cd /tmp && srun -n8 --gpus-per-task=1 --nic-placement $task\"",
    ),
    (
        "side-by-side",
        "srun -n3 --gpus-per-task=1 --nic-placement $task until=/tmp/release > first & \
         until grep -q cpus first || [ $((n += 1)) -gt 100 ]; do sleep 0.2; done; \
         srun -n4 --gpus-per-task=1 --nic-placement $task > second; code=$?; \
         touch /tmp/release; wait; cat first second; exit $code",
    ),
    (
        "cpuset",
        "echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; \
         srun -n8 --gpus-per-task=1 --nic-placement=verbose $task; code=$?; \
         echo 0-2 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code",
    ),
    (
        "cpuset.all",
        "echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; \
         srun -n1 -c8 --gres=gpu:8 --nic-placement=verbose $task; code=$?; \
         echo 0-2 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code",
    ),
    (
        "cpuset.strict",
        "echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; \
         srun -n8 --gpus-per-task=1 --nic-placement=strict $task; code=$?; \
         echo 0-2 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code",
    ),
];

/// The steps that are printed.
pub const SHOWN: &[(&str, usize)] = &[
    ("bare", 8),
    ("placed", 8),
    ("mem-bind.bare", 8),
    ("mem-bind.placed", 8),
    ("pairs.placed", 4),
];

pub const CASES: &[Case] = cases![
    a_device_cgroup_leaves_each_task_one_gpu_and_slurm_renumbers_it_to_0,
    slurms_own_numbers_are_those_of_the_first_gpu_in_every_task,
    without_the_flag_tasks_and_their_pages_are_where_slurm_happens_to_deal_them,
    with_the_flag_each_task_and_all_its_pages_are_on_its_gpus_numa_node,
    each_task_gets_the_nic_beside_the_gpu_that_it_may_open,
    with_two_gpus_a_task_gets_the_nics_beside_both,
    tasks_that_see_all_gpus_are_near_the_one_of_their_local_id_if_that_is_promised,
    an_explicit_cpu_bind_stays_and_memory_stays_beside_it,
    an_explicit_mem_bind_stays_and_pages_follow_it,
    a_task_with_all_gpus_keeps_its_cpus_and_never_prefers_the_node_without_cpus,
    bind_core_gives_each_task_cores_of_its_own_near_its_gpu,
    mem_strict_fences_each_task_and_its_pages_in,
    bind_none_leaves_cpus_and_memory_to_slurm_and_still_names_nics,
    tasks_of_a_user_get_what_those_of_root_get,
    two_jobs_side_by_side_get_gpus_nics_and_cpus_of_their_own,
    memory_that_a_cpuset_withholds_is_reported_and_costs_no_job,
    memory_that_a_cpuset_withholds_in_part_is_noticed_though_the_kernel_says_nothing,
    memory_that_a_cpuset_withholds_ends_a_strict_task,
    without_the_flag_nothing_is_set,
];

fn a_device_cgroup_leaves_each_task_one_gpu_and_slurm_renumbers_it_to_0(guest: &Machine) {
    for step in ["bare", "placed"] {
        let tasks = guest.tasks(step, 8);
        let open: BTreeSet<Vec<u32>> = tasks.iter().map(Task::open).collect();
        assert_eq!(
            open,
            (0..8).map(|number| vec![number]).collect(),
            "each another one"
        );
        for task in &tasks {
            assert_eq!(task.env("CUDA_VISIBLE_DEVICES"), Some("0"), "of {task:?}");
            // cgroup v2
            let path = format!("/task_{}", task.word("SLURM_PROCID"));
            assert!(
                task.word("cgroup").starts_with("0::/") && task.word("cgroup").ends_with(&path)
            );
        }
    }
}

fn slurms_own_numbers_are_those_of_the_first_gpu_in_every_task(guest: &Machine) {
    for task in guest.tasks("bare", 8) {
        assert_eq!(task.env("SLURM_STEP_GPUS"), Some("0"), "of {task:?}");
    }
    for task in guest.tasks("pairs.bare", 4) {
        assert_eq!(task.env("SLURM_STEP_GPUS"), Some("0,1"), "of {task:?}");
    }
}

fn without_the_flag_tasks_and_their_pages_are_where_slurm_happens_to_deal_them(guest: &Machine) {
    let tasks = guest.tasks("bare", 8);
    guest.assert_dealt(&tasks, 4, 0);
    assert_eq!(
        guest.far(&tasks),
        guest.with_far_pages(&tasks),
        "memory is where a task runs"
    );
    assert!(tasks.iter().all(|task| task.word("policy") == "default"));
}

/// On its GPU's NUMA node: CPUs, policy and pages.
fn assert_near(guest: &Machine, tasks: &[Task]) {
    for task in tasks {
        let gpu = guest.gpu_of(task);
        assert!(task.cpus().is_subset(&gpu.cpus), "of {task:?}");
        assert_eq!(
            task.word("policy"),
            format!("preferred-many:{}", gpu.numa_node),
            "of {task:?}"
        );
        assert_eq!(task.node_of_its_pages(), Some(gpu.numa_node), "of {task:?}");
    }
}

fn with_the_flag_each_task_and_all_its_pages_are_on_its_gpus_numa_node(guest: &Machine) {
    assert_near(guest, &guest.tasks("placed", 8));
}

/// The GPU that a program takes which opens the one of its local id.
fn by_local_id<'m>(guest: &'m Machine, task: &Task) -> &'m Gpu {
    let local_id: usize = task.word("SLURM_LOCALID").parse().expect("a number");
    &guest.gpus[guest.gpus_of(task)[local_id]]
}

fn tasks_that_see_all_gpus_are_near_the_one_of_their_local_id_if_that_is_promised(guest: &Machine) {
    let right = |step: &str| {
        let mut counts = [0; 3];
        for task in guest.tasks(step, 8) {
            let gpu = by_local_id(guest, &task);
            let nics = task.ucx();
            let nearest = guest.nearest_nics(gpu);
            counts[0] += usize::from(nics.len() == 1 && nearest.iter().any(|nic| nic == nics[0]));
            counts[1] += usize::from(task.cpus().is_subset(&gpu.cpus));
            counts[2] += usize::from(task.node_of_its_pages() == Some(gpu.numa_node));
        }
        println!("    {step}: NIC, CPUs, pages right of 8: {counts:?}");
        counts
    };
    let (bare, unpromised, promised) = (
        right("local-id.bare"),
        right("local-id.unpromised"),
        right("local-id"),
    );
    assert_eq!(promised, [8; 3]);
    assert_eq!(
        [bare[0], unpromised[0]],
        [0, 0],
        "without the word no task has the one NIC of one GPU"
    );
    assert!(
        bare[1] < 8 && unpromised[1] < 8,
        "Slurm deals tasks to sockets, and not to GPUs"
    );
}

/// Four cores of two threads, two on each socket: a core for each of four tasks with two GPUs.
fn bind_core_gives_each_task_cores_of_its_own_near_its_gpu(guest: &Machine) {
    let (bare, tasks) = (guest.tasks("core.bare", 4), guest.tasks("core", 4));
    let mut taken = CpuSet::new();
    for task in &tasks {
        let said = guest.answer("core.stderr");
        assert!(!task.cpus().intersects(&taken), "of {task:?}: {said}");
        taken = taken.union(&task.cpus());
        let near = guest
            .gpus_of(task)
            .into_iter()
            .map(|gpu| &guest.gpus[gpu].cpus);
        assert!(
            near.into_iter().all(|near| task.cpus().is_subset(near)),
            "of {task:?}: {said}"
        );
        assert_eq!(
            (task.cpus().len(), task.env("OMP_NUM_THREADS")),
            (2, Some("1")),
            "both threads of one core"
        );
    }
    let astray = bare.iter().filter(|task| {
        let near = guest
            .gpus_of(task)
            .into_iter()
            .map(|gpu| &guest.gpus[gpu].cpus);
        !near.into_iter().all(|near| task.cpus().is_subset(near))
    });
    assert!(
        bare.iter()
            .all(|task| task.env("OMP_NUM_THREADS").is_none())
    );
    println!(
        "        without the flag {} of 4 such tasks run away from their GPUs",
        astray.count()
    );
}

fn mem_strict_fences_each_task_and_its_pages_in(guest: &Machine) {
    for task in guest.tasks("fence", 8) {
        let gpu = guest.gpu_of(&task);
        assert_eq!(
            task.word("policy"),
            format!("bind:{}", gpu.numa_node),
            "of {task:?}"
        );
        assert_eq!(task.node_of_its_pages(), Some(gpu.numa_node), "of {task:?}");
    }
}

fn bind_none_leaves_cpus_and_memory_to_slurm_and_still_names_nics(guest: &Machine) {
    let (bare, unbound) = (guest.tasks("bare", 8), guest.tasks("unbound", 8));
    for (bare, task) in bare.iter().zip(&unbound) {
        assert_eq!(
            (task.cpus(), task.word("policy")),
            (bare.cpus(), "default"),
            "of {task:?}"
        );
    }
    assert_nics(guest, &unbound);
}

/// The NIC beside the task's GPU.  If that NIC's link is down, one on the GPU's NUMA node.
fn assert_nics(guest: &Machine, tasks: &[Task]) {
    for task in tasks {
        let ucx = task.ucx();
        let gpus = guest.gpus_of(task);
        let of = |gpu: &usize| guest.nearest_nics(&guest.gpus[*gpu]);
        for gpu in &gpus {
            assert!(
                of(gpu).iter().any(|nic| ucx.contains(&nic.as_str())),
                "GPU {gpu}: {:?}: {task:?}",
                of(gpu)
            );
        }
        let near: Vec<String> = gpus.iter().flat_map(of).collect();
        assert!(
            ucx.iter().all(|nic| near.iter().any(|near| near == nic)),
            "{near:?}: {task:?}"
        );
    }
}

fn each_task_gets_the_nic_beside_the_gpu_that_it_may_open(guest: &Machine) {
    let tasks = guest.tasks("placed", 8);
    let own = guest
        .gpus
        .iter()
        .filter(|gpu| guest.nearest_nics(gpu).len() == 1)
        .count();
    assert_eq!(own, 7, "GPUs with a good NIC on their switch");
    assert_nics(guest, &tasks);
    assert!(tasks.iter().all(|task| task.ucx().len() == 1));
}

fn with_two_gpus_a_task_gets_the_nics_beside_both(guest: &Machine) {
    let tasks = guest.tasks("pairs.placed", 4);
    for task in &tasks {
        assert_eq!(task.env("CUDA_VISIBLE_DEVICES"), Some("0,1"), "of {task:?}");
        assert_eq!(guest.gpus_of(task).len(), 2, "of {task:?}");
    }
    assert_nics(guest, &tasks);
}

fn an_explicit_cpu_bind_stays_and_memory_stays_beside_it(guest: &Machine) {
    let (bare, placed) = (
        guest.tasks("cpu-bind.bare", 8),
        guest.tasks("cpu-bind.placed", 8),
    );
    for ((bare, task), asked) in bare.iter().zip(&placed).zip([0, 4, 1, 5, 2, 6, 3, 7]) {
        let asked: CpuSet = [asked].into_iter().collect();
        assert_eq!(
            (task.cpus(), bare.cpus()),
            (asked.clone(), asked),
            "of {task:?}"
        );
        let gpu = guest.gpu_of(task);
        let policy = if task.cpus().intersects(&gpu.cpus) {
            format!("preferred-many:{}", gpu.numa_node)
        } else {
            "default".to_string()
        };
        assert_eq!(task.word("policy"), policy, "of {task:?}");
        assert_eq!(
            task.node_of_its_pages(),
            bare.node_of_its_pages(),
            "where it runs: {task:?}"
        );
    }
    guest.assert_dealt(&placed, 4, 0);
    assert_nics(guest, &placed);
}

fn an_explicit_mem_bind_stays_and_pages_follow_it(guest: &Machine) {
    let (bare, placed) = (
        guest.tasks("mem-bind.bare", 8),
        guest.tasks("mem-bind.placed", 8),
    );
    for ((bare, task), node) in bare.iter().zip(&placed).zip([1, 0, 1, 0, 1, 0, 1, 0]) {
        assert_eq!(task.word("policy"), format!("bind:{node}"), "of {task:?}");
        assert_eq!(task.node_of_its_pages(), Some(node), "of {task:?}");
        assert_eq!(
            (task.word("policy"), task.word("pages")),
            (bare.word("policy"), bare.word("pages"))
        );
    }
    let cpus = |tasks: &[Task]| {
        tasks
            .iter()
            .map(|task| task.word("cpus").to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        cpus(&placed),
        cpus(&bare),
        "CPUs do not leave the memory that the user bound"
    );
    guest.assert_dealt(&bare, 4, 0);
}

fn a_task_with_all_gpus_keeps_its_cpus_and_never_prefers_the_node_without_cpus(guest: &Machine) {
    let (bare, placed) = (guest.tasks("all.bare", 1), guest.tasks("all.placed", 1));
    assert_eq!(
        (bare[0].word("cpus"), placed[0].word("cpus")),
        ("0-7", "0-7")
    );
    assert_eq!(
        placed[0].word("mems"),
        "0-2",
        "nothing keeps it from node 2"
    );
    assert_eq!(
        placed[0].policy(),
        ("preferred-many", NodeSet::from_list("0-1").unwrap())
    );
    let everywhere = ["placed", "pairs.placed", "cpu-bind.placed"];
    let tasks = everywhere
        .iter()
        .flat_map(|step| guest.tasks(step, if *step == "pairs.placed" { 4 } else { 8 }));
    for task in tasks.chain(placed) {
        assert!(
            !task.policy().1.contains(2) && !task.has_pages_on(2),
            "of {task:?}"
        );
    }
}

fn tasks_of_a_user_get_what_those_of_root_get(guest: &Machine) {
    let tasks = guest.tasks("user", 8);
    assert!(tasks.iter().all(|task| task.word("uid") == "1000"));
    assert!(tasks.iter().all(|task| task.open().len() == 1));
    assert_near(guest, &tasks);
    assert_nics(guest, &tasks);
}

fn two_jobs_side_by_side_get_gpus_nics_and_cpus_of_their_own(guest: &Machine) {
    let tasks = guest.tasks("side-by-side", 7);
    let jobs: BTreeSet<&str> = tasks.iter().map(|task| task.word("SLURM_JOB_ID")).collect();
    let of = |job: &str| -> Vec<Task> {
        tasks
            .iter()
            .filter(|task| task.word("SLURM_JOB_ID") == job)
            .cloned()
            .collect()
    };
    let jobs: Vec<Vec<Task>> = jobs.into_iter().map(of).collect();
    let [first, second] = &jobs[..] else {
        panic!("{} jobs", jobs.len())
    };
    assert_eq!((first.len(), second.len()), (3, 4));
    let cpus = |job: &[Task]| {
        job.iter()
            .fold(CpuSet::new(), |all, task| all.union(&task.cpus()))
    };
    assert!(
        !cpus(first).intersects(&cpus(second)),
        "{} and {}",
        cpus(first),
        cpus(second)
    );
    let open: BTreeSet<Vec<u32>> = tasks.iter().map(Task::open).collect();
    assert_eq!(open.len(), 7, "each task another GPU: {open:?}");
    assert_nics(guest, &tasks);
}

/// Tasks whose GPU is on the NUMA node that the cpuset leaves out.
fn withheld(guest: &Machine, tasks: &[Task]) -> usize {
    tasks
        .iter()
        .filter(|task| guest.gpu_of(task).numa_node == 1)
        .count()
}

fn memory_that_a_cpuset_withholds_is_reported_and_costs_no_job(guest: &Machine) {
    let tasks = guest.tasks("cpuset", 8);
    assert_eq!(withheld(guest, &tasks), 4);
    for task in &tasks {
        let policy = if guest.gpu_of(task).numa_node == 1 {
            "default"
        } else {
            "preferred-many:0"
        };
        assert_eq!(
            (task.word("mems"), task.word("policy")),
            ("0", policy),
            "of {task:?}"
        );
        assert_eq!(task.node_of_its_pages(), Some(0), "of {task:?}");
    }
    assert_eq!(guest.far(&tasks), 0, "their CPUs are near all the same");
    let said = guest.answer("cpuset.stderr");
    let told = said
        .lines()
        .filter(|line| line.contains(": memory: NUMA node 1 is outside the cpuset"));
    assert_eq!(told.count(), 4, "{said}");
}

fn memory_that_a_cpuset_withholds_in_part_is_noticed_though_the_kernel_says_nothing(
    guest: &Machine,
) {
    let tasks = guest.tasks("cpuset.all", 1);
    assert_eq!(
        (tasks[0].word("mems"), tasks[0].word("policy")),
        ("0", "preferred-many:0")
    );
    let said = guest.answer("cpuset.all.stderr");
    assert!(
        said.contains("memory: of NUMA nodes 0-1 only 0 are in the cpuset"),
        "{said}"
    );
    let usual = guest.tasks("all.placed", 1);
    assert_eq!(
        usual[0].word("policy"),
        "preferred-many:0-1",
        "without the cpuset"
    );
}

fn memory_that_a_cpuset_withholds_ends_a_strict_task(guest: &Machine) {
    assert_ne!(guest.answer("cpuset.strict.status").trim(), "0");
    let said = guest.answer("cpuset.strict.stderr");
    let told = said
        .lines()
        .filter(|line| line.contains("fails, as `strict`") && line.contains("NUMA node 1"));
    assert_eq!(told.count(), 4, "{said}");
    let ran = Task::all_in(&guest.answer("cpuset.strict"));
    assert!(
        ran.iter().all(|task| guest.gpu_of(task).numa_node == 0),
        "{ran:?}"
    );
}

fn without_the_flag_nothing_is_set(guest: &Machine) {
    for (step, count) in [
        ("bare", 8),
        ("mem-bind.bare", 8),
        ("cpu-bind.bare", 8),
        ("pairs.bare", 4),
        ("all.bare", 1),
    ] {
        for task in guest.tasks(step, count) {
            for name in ["UCX_NET_DEVICES", "NCCL_IB_HCA", "NIC_PLACEMENT"] {
                assert_eq!(task.env(name), None, "of {task:?}");
            }
            assert!(!task.word("policy").starts_with("preferred"), "of {task:?}");
        }
    }
}

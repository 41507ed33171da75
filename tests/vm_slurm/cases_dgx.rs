//! Eight GPUs on two sockets, a NUMA node without CPUs, and device cgroups.

use crate::Case;
use crate::guest::cases::cases;
use crate::guest::task::{Set, Task, all, each};
use crate::guest::{Gpu, Guest};
use std::collections::BTreeSet;

/// The lines that are run in the guest.
pub const COMMANDS: &str = "\
release srun --version
bare srun -n8 --gpus-per-task=1 $task
placed srun -n8 --gpus-per-task=1 --nic-placement $task
cpu-bind.bare srun -n8 --gpus-per-task=1 --cpu-bind=map_cpu:0,4,1,5,2,6,3,7 $task
cpu-bind.placed srun -n8 --gpus-per-task=1 --cpu-bind=map_cpu:0,4,1,5,2,6,3,7 --nic-placement $task
mem-bind.bare srun -n8 --gpus-per-task=1 --mem-bind=map_mem:1,0 $task
mem-bind.placed srun -n8 --gpus-per-task=1 --mem-bind=map_mem:1,0 --nic-placement $task
pairs.bare srun -n4 --gpus-per-task=2 $task
pairs.placed srun -n4 --gpus-per-task=2 --nic-placement $task
local-id.bare srun -n8 --gres=gpu:8 $task
local-id.unpromised srun -n8 --gres=gpu:8 --nic-placement $task
local-id srun -n8 --gres=gpu:8 --nic-placement=gpu=local-id $task
all.bare srun -n1 -c8 --gres=gpu:8 $task
all.placed srun -n1 -c8 --gres=gpu:8 --nic-placement $task
core.bare srun -n4 -c2 --gpus-per-task=2 $task
core srun -n4 -c2 --gpus-per-task=2 --nic-placement=bind=core,omp=on,verbose $task
fence srun -n8 --gpus-per-task=1 --nic-placement=mem=strict $task
unbound srun -n8 --gpus-per-task=1 --nic-placement=bind=none $task
user su user -c \"cd /tmp && srun -n8 --gpus-per-task=1 --nic-placement $task\"
side-by-side srun -n3 --gpus-per-task=1 --nic-placement $task until=/tmp/release > first & \
    until grep -q cpus first || [ $((n += 1)) -gt 100 ]; do sleep 0.2; done; \
    srun -n4 --gpus-per-task=1 --nic-placement $task > second; code=$?; \
    touch /tmp/release; wait; cat first second; exit $code
cpuset echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; \
    srun -n8 --gpus-per-task=1 --nic-placement=verbose $task; code=$?; \
    echo 0-2 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code
cpuset.all echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; \
    srun -n1 -c8 --gres=gpu:8 --nic-placement=verbose $task; code=$?; \
    echo 0-2 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code
cpuset.strict echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; \
    srun -n8 --gpus-per-task=1 --nic-placement=strict $task; code=$?; \
    echo 0-2 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code
";

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
    with_the_flag_each_task_and_all_its_pages_are_on_its_gpus_numa_node:
        |guest| all(&guest.tasks("placed", 8), |task| guest.is_near(task)),
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

/// How many tasks Slurm alone puts away from their GPU.  Known for two releases: 22.05 deals CPUs and GPUs in different
/// orders, and 24.11 gives a task a GPU of its socket.  For others nothing is expected.
#[track_caller]
pub fn assert_dealt(guest: &Guest, tasks: &[Task], with_22_05: usize, with_24_11: usize) {
    let (release, far) = (guest.answer("release"), guest.far(tasks));
    let is = |number, expected| !release.contains(number) || far == expected;
    let is_so = is("22.05", with_22_05) && is("24.11", with_24_11);
    assert!(is_so, "{far}: {release}");
}

fn a_device_cgroup_leaves_each_task_one_gpu_and_slurm_renumbers_it_to_0(guest: &Guest) {
    for step in ["bare", "placed"] {
        let tasks = guest.tasks(step, 8);
        let open: BTreeSet<Set> = tasks.iter().map(Task::open).collect();
        assert_eq!(open, (0..8).map(|number| [number].into()).collect());
        all(&tasks, |task| {
            // cgroup v2
            let path = format!("/task_{}", task.word("SLURM_PROCID"));
            let cgroup = task.word("cgroup");
            task.gpus() == [0] && cgroup.starts_with("0::/") && cgroup.ends_with(&path)
        });
    }
}

fn slurms_own_numbers_are_those_of_the_first_gpu_in_every_task(guest: &Guest) {
    let is_so = |task: &Task| task.env("SLURM_STEP_GPUS") == Some("0");
    all(&guest.tasks("bare", 8), is_so);
    let is_so = |task: &Task| task.env("SLURM_STEP_GPUS") == Some("0,1");
    all(&guest.tasks("pairs.bare", 4), is_so);
}

fn without_the_flag_tasks_and_their_pages_are_where_slurm_happens_to_deal_them(guest: &Guest) {
    let tasks = guest.tasks("bare", 8);
    assert_dealt(guest, &tasks, 4, 0);
    assert_eq!(guest.far(&tasks), guest.with_far_pages(&tasks));
    all(&tasks, |task| task.mem() == "default");
}

/// The GPU that a program takes which opens the one of its local id.
fn by_local_id<'m>(guest: &'m Guest, task: &Task) -> &'m Gpu {
    let gpus = guest.gpus_of(task);
    &guest.gpus[*gpus.iter().nth(task.local()).expect("a GPU for each")]
}

fn tasks_that_see_all_gpus_are_near_the_one_of_their_local_id_if_that_is_promised(guest: &Guest) {
    let right = |step: &str| {
        let mut counts = [0; 3];
        for task in guest.tasks(step, 8) {
            let gpu = by_local_id(guest, &task);
            let (nics, nearest) = (task.ucx(), guest.nearest_nics(gpu));
            let is_right = [
                nics.len() == 1 && nearest.iter().any(|nic| nic == nics[0]),
                task.cpus().is_subset(&gpu.cpus),
                task.node_of_its_pages() == Some(gpu.numa_node),
            ];
            let sums = counts.iter_mut().zip(is_right);
            sums.for_each(|(count, is_right)| *count += usize::from(is_right));
        }
        println!("    {step}: NIC, CPUs, pages right of 8: {counts:?}");
        counts
    };
    assert_eq!(right("local-id"), [8; 3]);
    // without the word no task has the one NIC of one GPU, and Slurm deals tasks to sockets, not to GPUs
    for step in ["local-id.bare", "local-id.unpromised"] {
        let counts = right(step);
        assert!(counts[0] == 0 && counts[1] < 8, "{step}: {counts:?}");
    }
}

/// Four cores of two threads, two on each socket: a core for each of four tasks with two GPUs.
fn bind_core_gives_each_task_cores_of_its_own_near_its_gpu(guest: &Guest) {
    let (bare, tasks) = (guest.tasks("core.bare", 4), guest.tasks("core", 4));
    let is_near = |task: &Task| {
        let gpus = guest.gpus_of(task);
        gpus.iter()
            .all(|gpu| task.cpus().is_subset(&guest.gpus[*gpu].cpus))
    };
    // both threads of one core
    all(&tasks, |task| {
        is_near(task) && task.cpus().len() == 2 && task.env("OMP_NUM_THREADS") == Some("1")
    });
    let cpus: Set = tasks.iter().flat_map(Task::cpus).collect();
    assert_eq!(cpus.len(), 8, "{tasks:?}");
    all(&bare, |task| task.lacks(&["OMP_NUM_THREADS"]));
    let astray = bare.iter().filter(|task| !is_near(task)).count();
    println!("        {astray} of 4 run away without the flag");
}

fn mem_strict_fences_each_task_and_its_pages_in(guest: &Guest) {
    all(&guest.tasks("fence", 8), |task| {
        let fence = format!("bind:{}", guest.gpu_of(task).numa_node);
        task.mem() == fence && guest.has_near_pages(task)
    });
}

fn bind_none_leaves_cpus_and_memory_to_slurm_and_still_names_nics(guest: &Guest) {
    each(
        &guest.tasks("bare", 8),
        &guest.tasks("unbound", 8),
        |bare, task| {
            task.cpus() == bare.cpus() && task.mem() == "default" && guest.has_nearest_nics(task)
        },
    );
}

fn each_task_gets_the_nic_beside_the_gpu_that_it_may_open(guest: &Guest) {
    // one NIC's link is down: its GPU takes one of its NUMA node
    let is_own = |gpu: &&Gpu| guest.nearest_nics(gpu).len() == 1;
    assert_eq!(guest.gpus.iter().filter(is_own).count(), 7);
    let is_so = |task: &Task| guest.has_nearest_nics(task) && task.ucx().len() == 1;
    all(&guest.tasks("placed", 8), is_so);
}

fn with_two_gpus_a_task_gets_the_nics_beside_both(guest: &Guest) {
    all(&guest.tasks("pairs.placed", 4), |task| {
        task.gpus() == [0, 1] && guest.gpus_of(task).len() == 2 && guest.has_nearest_nics(task)
    });
}

fn an_explicit_cpu_bind_stays_and_memory_stays_beside_it(guest: &Guest) {
    let [bare, placed] = ["bare", "placed"].map(|way| guest.tasks(&format!("cpu-bind.{way}"), 8));
    let asked = [0, 4, 1, 5, 2, 6, 3, 7].map(|cpu| Set::from([cpu]));
    each(&bare, &placed, |bare, task| {
        let (gpu, asked) = (guest.gpu_of(task), &asked[task.local()]);
        let policy = match task.cpus().is_disjoint(&gpu.cpus) {
            true => "default".to_string(),
            false => format!("preferred-many:{}", gpu.numa_node),
        };
        [&task.cpus(), &bare.cpus()] == [asked; 2]
            && task.mem() == policy
            && task.node_of_its_pages() == bare.node_of_its_pages()
            && guest.has_nearest_nics(task)
    });
    assert_dealt(guest, &placed, 4, 0);
}

fn an_explicit_mem_bind_stays_and_pages_follow_it(guest: &Guest) {
    let [bare, placed] = ["bare", "placed"].map(|way| guest.tasks(&format!("mem-bind.{way}"), 8));
    // CPUs do not leave the memory that the user bound
    each(&bare, &placed, |bare, task| {
        let node = 1 - task.local() % 2;
        task.mem() == format!("bind:{node}")
            && task.node_of_its_pages() == Some(node)
            && ["policy", "pages", "cpus"]
                .iter()
                .all(|word| task.word(word) == bare.word(word))
    });
    assert_dealt(guest, &bare, 4, 0);
}

fn a_task_with_all_gpus_keeps_its_cpus_and_never_prefers_the_node_without_cpus(guest: &Guest) {
    let placed = guest.tasks("all.placed", 1);
    // nothing keeps it from node 2
    let is_so = |task: &Task| task.word("mems") == "0-2" && task.mem() == "preferred-many:0-1";
    all(&placed, is_so);
    let bare = guest.tasks("all.bare", 1);
    let is_so = |task: &Task| task.word("cpus") == "0-7";
    all(&[bare, placed.clone()].concat(), is_so);
    for tasks in [
        guest.tasks("placed", 8),
        guest.tasks("pairs.placed", 4),
        guest.tasks("cpu-bind.placed", 8),
        placed,
    ] {
        let is_so = |task: &Task| !task.policy().1.contains(&2) && !task.pages().contains_key(&2);
        all(&tasks, is_so);
    }
}

fn tasks_of_a_user_get_what_those_of_root_get(guest: &Guest) {
    all(&guest.tasks("user", 8), |task| {
        task.word("uid") == "1000"
            && task.open().len() == 1
            && guest.is_near(task)
            && guest.has_nearest_nics(task)
    });
}

fn two_jobs_side_by_side_get_gpus_nics_and_cpus_of_their_own(guest: &Guest) {
    let tasks = guest.tasks("side-by-side", 7);
    let job = |task: &Task| task.word("SLURM_JOB_ID").to_string();
    let first = job(&tasks[0]);
    let (one, other): (Vec<&Task>, Vec<&Task>) = tasks.iter().partition(|task| job(task) == first);
    let is_so = BTreeSet::from([one.len(), other.len()]) == [3, 4].into();
    assert!(is_so, "{tasks:?}");
    let [one, other] =
        [one, other].map(|job| job.iter().flat_map(|task| task.cpus()).collect::<Set>());
    assert!(one.is_disjoint(&other), "{one:?} and {other:?}");
    let open: BTreeSet<Set> = tasks.iter().map(Task::open).collect();
    assert_eq!(open.len(), 7, "{open:?}");
    all(&tasks, |task| guest.has_nearest_nics(task));
}

/// Is the task's GPU on the NUMA node that the cpuset leaves out?
fn is_withheld(guest: &Guest, task: &Task) -> bool {
    guest.gpu_of(task).numa_node == 1
}

fn memory_that_a_cpuset_withholds_is_reported_and_costs_no_job(guest: &Guest) {
    let tasks = guest.tasks("cpuset", 8);
    let found = tasks.iter().filter(|task| is_withheld(guest, task)).count();
    assert_eq!(found, 4);
    all(&tasks, |task| {
        let policy = ["preferred-many:0", "default"][usize::from(is_withheld(guest, task))];
        (task.word("mems"), task.mem(), task.node_of_its_pages()) == ("0", policy, Some(0))
    });
    // their CPUs are near all the same
    assert_eq!(guest.far(&tasks), 0);
    let said = guest.answer("cpuset.stderr");
    let told = said.matches(": memory: NUMA node 1 is outside the cpuset");
    assert_eq!(told.count(), 4, "{said}");
}

fn memory_that_a_cpuset_withholds_in_part_is_noticed_though_the_kernel_says_nothing(guest: &Guest) {
    let is_so = |task: &Task| (task.word("mems"), task.mem()) == ("0", "preferred-many:0");
    all(&guest.tasks("cpuset.all", 1), is_so);
    let said = guest.answer("cpuset.all.stderr");
    assert!(said.contains("of NUMA nodes 0-1 only 0 are"), "{said}");
}

fn memory_that_a_cpuset_withholds_ends_a_strict_task(guest: &Guest) {
    assert!(!guest.succeeded("cpuset.strict"));
    let said = guest.answer("cpuset.strict.stderr");
    let is_so = |line: &&str| line.contains("fails, as `strict`") && line.contains("NUMA node 1");
    assert_eq!(said.lines().filter(is_so).count(), 4, "{said}");
    let ran = Task::all_in(&guest.answer("cpuset.strict"));
    all(&ran, |task| !is_withheld(guest, task));
}

fn without_the_flag_nothing_is_set(guest: &Guest) {
    for (step, count) in [
        ("bare", 8),
        ("mem-bind.bare", 8),
        ("cpu-bind.bare", 8),
        ("pairs.bare", 4),
        ("all.bare", 1),
    ] {
        all(&guest.tasks(step, count), |task| {
            task.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA", "NIC_PLACEMENT"])
                && !task.mem().starts_with("preferred")
        });
    }
}

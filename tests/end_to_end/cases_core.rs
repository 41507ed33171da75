//! Cores of a task's own, the words about memory, OpenMP, and tasks without GPUs.

use crate::harness::{Bed, Case, cases, while_another_job_has_gpus};
use crate::machines::{cpus_near, cpus_of_node, numa_node_of, ucx_of};
use crate::report::Task;
use std::collections::BTreeSet;

pub const CASES: &[Case] = cases![
    bind_core_repairs_slurms_misdeal_with_cores_that_no_two_tasks_share,
    bind_core_keeps_the_cores_that_slurm_gave_each_task_near_its_gpu,
    bind_core_divides_a_mask_that_all_tasks_share,
    bind_core_stays_inside_a_part_of_the_node,
    bind_core_with_fewer_cores_than_tasks_is_the_default_and_says_so,
    an_explicit_binding_of_any_spelling_is_left_alone_by_every_word,
    tasks_that_see_all_gpus_keep_cores_of_their_own,
    mem_strict_fences_and_mem_none_leaves_alone,
    bind_none_with_a_word_about_memory_sets_memory_alone,
    omp_on_counts_the_tasks_cores_and_pins_nobody,
    omp_does_not_outlive_its_step,
    tasks_without_gpus_are_dealt_to_the_sockets_where_the_user_asked,
];

const DEALT: &str = "srun -w n0 -n8 -c28 --gpus-per-task=1";

/// Tasks with one GPU that run on none of the CPUs near it.
fn far(tasks: &[Task]) -> usize {
    tasks
        .iter()
        .filter(|task| task.cpus().is_disjoint(&cpus_near(task.gpus()[0])))
        .count()
}

fn all_cpus(tasks: &[Task]) -> BTreeSet<usize> {
    tasks.iter().flat_map(Task::cpus).collect()
}

/// Each task has whole cores, with both threads, and no core is in two tasks.
fn assert_cores_of_their_own(tasks: &[Task]) {
    for task in tasks {
        let cpus = task.cpus();
        assert!(
            cpus.iter().all(|cpu| cpus.contains(&((cpu + 112) % 224))),
            "half a core in {task:?}"
        );
    }
    let count: usize = tasks.iter().map(|task| task.cpus().len()).sum();
    assert_eq!(
        count,
        all_cpus(tasks).len(),
        "CPUs that two tasks have, of {tasks:#?}"
    );
}

fn bind_core_repairs_slurms_misdeal_with_cores_that_no_two_tasks_share(bed: &Bed) {
    let (without, placed) = bed.without_and_with(
        "--nic-placement=bind=core",
        8,
        &format!("{DEALT} @ $report"),
    );
    let deals_in_two_orders = bed.site.release < (23, 11);
    assert_eq!(
        far(&without),
        if deals_in_two_orders { 4 } else { 0 },
        "by Slurm's own rule"
    );
    assert_eq!(far(&placed), 0);
    assert_cores_of_their_own(&placed);
    for task in &placed {
        assert!(
            task.cpus().is_subset(&cpus_near(task.gpus()[0])),
            "of {task:?}"
        );
        assert_eq!(
            task.cpus().len(),
            28,
            "as much as Slurm had given, of {task:?}"
        );
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])]);
    }
    // with bind=numa, the tasks that had to move share the node's CPUs
    let shared = bed.tasks(8, &format!("{DEALT} --nic-placement=bind=numa $report"));
    assert_eq!(far(&shared), 0);
    let some_had_to_move = shared.iter().any(|task| task.cpus().len() > 28);
    assert_eq!(some_had_to_move, deals_in_two_orders, "of {shared:#?}");
    // by default they change places
    let changed = bed.tasks(8, &format!("{DEALT} --nic-placement $report"));
    assert_eq!(far(&changed), 0);
    assert!(
        changed.iter().all(|task| task.cpus().len() == 28),
        "of {changed:#?}"
    );
}

fn bind_core_keeps_the_cores_that_slurm_gave_each_task_near_its_gpu(bed: &Bed) {
    let command = format!("{DEALT} -m block:block @ $report");
    let (without, placed) = bed.without_and_with("--nic-placement=bind=core", 8, &command);
    assert_cores_of_their_own(&placed);
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(task.cpus(), bare.cpus(), "of {task:?}");
    }
}

fn bind_core_divides_a_mask_that_all_tasks_share(bed: &Bed) {
    let command = "salloc --quiet -w n0 -n8 -c28 --gpus-per-task=1 srun @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement=bind=core", 8, command);
    // later releases bind the tasks of an allocation's step themselves; these tasks keep their cores
    let share_one = without.iter().all(|task| task.cpus().len() == 224);
    assert_eq!(share_one, bed.site.release < (23, 11), "of {without:#?}");
    assert_cores_of_their_own(&placed);
    for task in &placed {
        assert!(
            task.cpus().is_subset(&cpus_near(task.gpus()[0])),
            "of {task:?}"
        );
        assert_eq!(task.cpus().len(), 28, "of {task:?}");
    }
}

fn bind_core_stays_inside_a_part_of_the_node(bed: &Bed) {
    let command = "srun -w n0 -n4 -c4 --gpus-per-task=1 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement=bind=core", 4, command);
    assert!(
        all_cpus(&placed).is_subset(&all_cpus(&without)),
        "CPUs beyond those of the step"
    );
    assert_cores_of_their_own(&placed);
    assert_eq!(far(&placed), 0);

    // one of its GPUs is on the first socket and four are on the second
    let beside = |flag: &str| {
        let command = format!("srun -w n0 -n5 -c28 --gpus-per-task=1 {flag} $report");
        while_another_job_has_gpus(3, &command)
    };
    let without = bed.tasks(5, &beside(""));
    let placed = bed.tasks(5, &beside("--nic-placement=bind=core"));
    assert_eq!(
        placed.iter().map(|task| task.gpus()[0]).collect::<Vec<_>>(),
        [3, 4, 5, 6, 7]
    );
    assert!(
        all_cpus(&placed).is_subset(&all_cpus(&without)),
        "CPUs of the other job"
    );
    assert_cores_of_their_own(&placed);
    // tasks change places, as far as none loses cores
    assert!(
        far(&placed) <= far(&without),
        "{placed:#?} had {without:#?}"
    );
    for (bare, task) in without.iter().zip(&placed) {
        assert!(
            task.cpus().len() >= bare.cpus().len(),
            "{task:?} had {bare:?}"
        );
    }

    let command = "srun -w n0 -N1 -n4 -c56 --gpus-per-task=2 @ $report";
    let (_, placed) = bed.without_and_with("--nic-placement=bind=core", 4, command);
    assert_cores_of_their_own(&placed);
    assert_eq!(
        placed
            .iter()
            .filter(|task| !task.cpus().is_subset(&cpus_near(task.gpus()[0])))
            .count(),
        0
    );
}

fn bind_core_with_fewer_cores_than_tasks_is_the_default_and_says_so(bed: &Bed) {
    let command = "srun -w n0 -n8 --gpus-per-task=1 @ $report";
    let auto = bed.tasks(8, &command.replace('@', "--nic-placement"));
    let (_, core) = bed.without_and_with("--nic-placement=bind=core", 8, command);
    for (auto, core) in auto.iter().zip(&core) {
        assert_eq!(
            (core.cpus(), core.mem()),
            (auto.cpus(), auto.mem()),
            "of {core:?}"
        );
    }
    let said = bed
        .run(&command.replace('@', "--nic-placement=bind=core,verbose"))
        .stderr;
    assert_eq!(
        said.matches("task 0: `bind=core` cannot be had: the step has fewer cores")
            .count(),
        1
    );
    let strict = bed.run(&command.replace('@', "--nic-placement=bind=core,strict"));
    assert_ne!(
        strict.code, 0,
        "`strict` runs nobody without the cores that were asked for"
    );
    assert!(strict.tasks.is_empty());
}

fn an_explicit_binding_of_any_spelling_is_left_alone_by_every_word(bed: &Bed) {
    let masks = (0..8)
        .map(|task| format!("{:#x}", 1u32 << task))
        .collect::<Vec<_>>()
        .join(",");
    let mask_cpu = format!("-c28 --cpu-bind=mask_cpu:{masks}");
    for options in [
        // cases_steps.rs tests --hint and the ways by NUMA node
        "-c28 --cpu-bind=sockets",
        "-c28 --cpu-bind=ldoms",
        "-c28 --cpu-bind=rank",
        "-c28 --cpu-bind=quiet,cores",
        &mask_cpu,
    ] {
        let command = format!("srun -w n0 -n8 {options} --gpus-per-task=1 @ $report");
        let (without, core) = bed.without_and_with("--nic-placement=bind=core", 8, &command);
        let numa = bed.tasks(8, &command.replace('@', "--nic-placement"));
        for (bare, (core, numa)) in without.iter().zip(core.iter().zip(&numa)) {
            assert_eq!(core.cpus(), bare.cpus(), "with {options}, of {core:?}");
            assert_eq!(numa.cpus(), bare.cpus(), "with {options}, of {numa:?}");
        }
    }
    // these words set how much srun prints; they bind nothing
    for option in ["--cpu-bind=verbose", "--cpu-bind=quiet"] {
        let placed = bed.tasks(
            8,
            &format!("srun -w n0 -n8 -c14 --gpus-per-task=1 {option} --nic-placement $report"),
        );
        assert_eq!(far(&placed), 0, "with {option}");
    }
}

fn tasks_that_see_all_gpus_keep_cores_of_their_own(bed: &Bed) {
    let command = "srun -w n0 -n8 -c28 --gres=gpu:8 @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement=bind=core", 8, command);
    assert_cores_of_their_own(&placed);
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(task.cpus(), bare.cpus(), "of {task:?}");
    }
}

fn mem_strict_fences_and_mem_none_leaves_alone(bed: &Bed) {
    let command = format!("{DEALT} @ $report");
    let (without, strict) = bed.without_and_with("--nic-placement=mem=strict", 8, &command);
    assert!(without.iter().all(|task| task.mem() == "default"));
    for task in &strict {
        assert_eq!(
            task.mem(),
            format!("bind:{}", numa_node_of(task.gpus()[0])),
            "of {task:?}"
        );
    }
    let none = bed.tasks(8, &command.replace('@', "--nic-placement=mem=none"));
    assert_eq!(far(&none), 0, "the CPUs are placed all the same");
    assert!(none.iter().all(|task| task.mem() == "default"), "{none:#?}");
}

fn bind_none_with_a_word_about_memory_sets_memory_alone(bed: &Bed) {
    let command = format!("{DEALT} @ $report");
    let (without, placed) =
        bed.without_and_with("--nic-placement=bind=none,mem=prefer", 8, &command);
    for (bare, task) in without.iter().zip(&placed) {
        assert_eq!(task.cpus(), bare.cpus(), "of {task:?}");
        let near = !task.cpus().is_disjoint(&cpus_near(task.gpus()[0]));
        assert_eq!(
            task.mem() != "default",
            near,
            "memory far from the CPUs serves nobody, of {task:?}"
        );
    }
}

const OPENMP: [&str; 3] = ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND"];

fn openmp(task: &Task) -> [Option<&str>; 3] {
    OPENMP.map(|name| task.env(name))
}

fn omp_on_counts_the_tasks_cores_and_pins_nobody(bed: &Bed) {
    let command = format!("{DEALT} @ $report {}", OPENMP.join(" "));
    let (without, placed) = bed.without_and_with("--nic-placement=omp=on", 8, &command);
    assert!(without.iter().all(|task| openmp(task) == [None; 3]));
    for task in &placed {
        // even if bind=numa gave it a mask that it shares with other tasks
        assert_eq!(
            openmp(task),
            [Some("14"), Some("cores"), Some("false")],
            "of {task:?}"
        );
    }
    let plain = bed.tasks(8, &command.replace('@', "--nic-placement"));
    assert!(
        plain.iter().all(|task| openmp(task) == [None; 3]),
        "only where it is asked for"
    );
    let own = bed.tasks(
        8,
        &format!(
            "OMP_NUM_THREADS=3 {}",
            command.replace('@', "--nic-placement=omp=on")
        ),
    );
    assert!(
        own.iter()
            .all(|task| task.env("OMP_NUM_THREADS") == Some("3")),
        "the user's own: {own:#?}"
    );
}

fn omp_does_not_outlive_its_step(bed: &Bed) {
    let names = OPENMP.join(" ");
    let inner = "srun --overlap -n1 -c8 --gres=gpu:1 --cpu-bind=none";
    let inner =
        format!("$report {names}; {inner} --nic-placement $report {names} | sed s/rank=0/rank=1/");
    let outer = "srun -w n0 -n1 -c8 --gres=gpu:8 --nic-placement=omp=on";
    let tasks = bed.tasks(2, &format!("{outer} bash -c '{inner}'"));
    assert_eq!(openmp(&tasks[0])[0], Some("4"), "in the outer step");
    assert_eq!(openmp(&tasks[1]), [None; 3], "in the inner step");
}

fn tasks_without_gpus_are_dealt_to_the_sockets_where_the_user_asked(bed: &Bed) {
    let command = "salloc --quiet -w n0 -n4 -c56 srun @ $report";
    let (without, placed) = bed.without_and_with("--nic-placement", 4, command);
    // later releases bind the tasks of an allocation's step themselves
    let share_one = without.iter().all(|task| task.cpus().len() == 224);
    assert_eq!(share_one, bed.site.release < (23, 11), "of {without:#?}");
    for (rank, (bare, task)) in without.iter().zip(&placed).enumerate() {
        if !share_one {
            assert_eq!(task.cpus(), bare.cpus(), "Slurm bound it: {task:?}");
            continue;
        }
        assert_eq!(task.cpus(), cpus_of_node(rank / 2), "of {task:?}");
        assert!(
            task.mem().starts_with("preferred") && task.mem().ends_with(&format!(":{}", rank / 2))
        );
    }
    let bound = bed.tasks(4, "srun -w n0 -n4 -c56 --nic-placement $report");
    let bare = bed.tasks(4, "srun -w n0 -n4 -c56 $report");
    for (bare, task) in bare.iter().zip(&bound) {
        assert_eq!(task.cpus(), bare.cpus(), "Slurm bound them, of {task:?}");
    }
    bed.plugin("default=closest");
    let default = bed.tasks(4, &command.replace('@', ""));
    for (bare, task) in without.iter().zip(&default) {
        assert_eq!(task.cpus(), bare.cpus(), "nobody asked: {task:?}");
    }
}

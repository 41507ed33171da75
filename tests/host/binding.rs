//! A task's CPUs and memory on a machine whose kernel is simulated: set, read back, and reported if different.

use super::*;

/// The DGX H100, trusted, as if its kernel were ours; tasks that start on `cpus`, with more words
/// of `spank_host`'s.
fn on(cpus: &str, words: &str) -> Step {
    let begin = "--arg trust-topology --option";
    dgx(&format!("--played-cpus {cpus} {begin} {words}"))
}

/// All of the machine's CPUs and those of NUMA node 0, where the first GPU is; memory as it was,
/// and of that node first.
const ALL: &str = "0-223";
const NEAR: &str = "0-55,112-167";
const FREE: &str = "default nodes 0x0";
const FIRST: &str = "preferred-many nodes 0x1";

#[test]
fn each_word_of_binding_does_what_it_says_and_without_one_nothing_happens() {
    dgx("--played-cpus 0-223").gpu("0").bound(0, ALL, FREE);
    for (words, cpus, memory) in [
        ("bind=numa", NEAR, FIRST),
        ("bind=numa,mem=strict", NEAR, "bind nodes 0x1"),
        ("bind=numa,mem=none", NEAR, FREE),
        ("mem=strict", ALL, "bind nodes 0x1"),
        ("bind=none", ALL, FREE),
        ("bind=none,mem=prefer", ALL, FIRST),
        ("bind=core", ALL, FREE),
        // before 5.15 the kernel prefers one node
        ("bind=numa --old-kernel 1", NEAR, "preferred nodes 0x1"),
    ] {
        on(ALL, words).gpu("0").near().bound(0, cpus, memory);
    }
    // and of two none, since the first would be far from half
    let two = on(ALL, "closest,verbose,strict --old-kernel 1").gpu("0,7");
    two.ok().bound(0, &two.cpus(0).unwrap(), FREE);
}

// core's tests of `bind` hold the sums; here is each fact that they start from, as Slurm tells it
#[test]
fn a_task_keeps_its_part_where_too_little_is_near_its_gpu() {
    let busy = "0,56-62";
    let (asked, all) = ("closest --env SLURM_CPUS_PER_TASK", "--step-cpus 224");
    for (cpus, words, got) in [
        // eight CPUs would become one
        (busy, "closest", busy),
        (busy, "closest,strict", busy),
        // the NUMA node was asked for
        (busy, "bind=numa", "0"),
        // 16 CPUs are near
        (ALL, &format!("{asked}=16"), NEAR),
        // from 22.05 to 23.02 srun does not read what sbatch was asked for, and leaves it standing:
        // its part is the step's 224 CPUs
        (ALL, &format!("{asked}=16 --cpus-per-task 1"), ALL),
        // and where that was 1, it looks as if srun had been asked for it: 112 cores are no step of
        // one CPU
        (ALL, &format!("{asked}=1 {all} --step-cores 0-111"), ALL),
        // `srun -c1`
        (ALL, &format!("{asked}=1 {all} --step-cores 3"), NEAR),
    ] {
        let played = on(cpus, words).gpu("0");
        played.on_cpus(0, got);
    }
    let step = on(busy, "closest,verbose");
    step.gpu("0").shows(&["1 CPU, too few", "`bind=numa`"]);
    let step = on(busy, "closest,restricted");
    step.gpu("0").fails(0, &["fails", "too few for this task"]);
}

/// A task with the mask that Slurm gives it of the first 224 CPUs.
fn masked(step: Step) -> Played {
    let mask = "f".repeat(56);
    let bound = format!("SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x{mask}");
    step.task(&format!("CUDA_VISIBLE_DEVICES=0 {bound}")).play()
}

// slurm.conf's `CPUs=112` beside `ThreadsPerCore=2`: Slurm gives out cores, calls each a CPU, and binds to both threads
#[test]
fn a_task_that_asked_for_cores_keeps_them_where_slurm_counts_no_threads() {
    let asked = |cpus: &str| {
        let words = "closest --env SLURM_CPUS_PER_TASK=112 --step-cores 0-111";
        let step = on(ALL, words);
        step.word("--step-cpus", cpus)
    };
    // 112 cores are more than are near
    masked(asked("112")).on_cpus(0, ALL);
    // or, with `CPUs=224`, `-c112 --hint=compute_bound` of 22.05; `-c112 --exclusive` looks the
    // same: no proof of threads
    masked(asked("224")).on_cpus(0, ALL);
    // without a mask of Slurm's, its own may be wider than the step
    asked("112").gpu("0").on_cpus(0, NEAR);
}

// `echo off > /sys/devices/system/cpu/smt/control`, as by a prolog: slurmd has counted the threads when it started, and its masks
// name them on; sched_getaffinity(2) does not
#[test]
fn threads_that_were_switched_off_since_slurmd_started_keep_nobody_from_moving() {
    let tree = harness::own_dgx_h100("threads-off");
    for (node, cpus) in [(0, "0-55\n"), (1, "56-111\n")] {
        let list = tree.join(format!("sys/devices/system/node/node{node}/cpulist"));
        fs::write(list, cpus).unwrap();
    }
    for (words, cpus) in [("closest", "0-111"), ("bind=numa", "60-63")] {
        let step = Step::in_context("remote");
        let step = step.sysfs(&tree).arg("trust-topology");
        let step = step.option(words).word("--played-cpus", cpus);
        let played = masked(step.env("SLURM_CPUS_PER_TASK=16"));
        played.ok().on_cpus(0, "0-55");
    }
}

#[test]
fn memory_outside_the_cpuset_is_left_out_with_a_note() {
    let part = on(ALL, "closest,verbose,strict --played-mems 0x1").gpu("0,7");
    part.ok().bound(0, &part.cpus(0).unwrap(), FIRST);
    part.shows(&["NUMA nodes 0-1 only 0", "the cpuset"]);
    let outside = ["NUMA node 0 is outside"];
    let none = on(ALL, "bind=numa,verbose --played-mems 0x2").gpu("0");
    none.ok().bound(0, NEAR, FREE).shows(&outside);
    // none of the memory that it was to have
    let step = on(ALL, "bind=numa,strict --played-mems 0x2");
    step.gpu("0").fails(0, &outside);
}

#[test]
fn what_did_not_take_is_logged_shown_where_asked_and_fails_a_strict_task() {
    on(ALL, "bind=numa,strict").gpu("0").near();
    for (deaf, told) in [
        ("affinity", "CPUs 0-55,112-167 wanted, 0-223 got"),
        ("memory", "memory: NUMA node 0 first wanted"),
        ("UCX_NET_DEVICES", "UCX_NET_DEVICES did not take"),
        ("NIC_PLACEMENT", "NIC_PLACEMENT did not take"),
    ] {
        let play = |words: &str| on(ALL, &format!("{words} --deaf {deaf}")).gpu("0");
        let quiet = play("bind=numa");
        quiet.ok().quiet();
        let logged = quiet.told("info");
        let logged = logged.into_iter().filter(|text| text.contains(told));
        assert_eq!(logged.count(), 1, "{quiet}");
        play("bind=numa,verbose").ok().shows(&["task 0", told]);
        play("bind=numa,strict").fails(0, &["task 0 fails, as `strict` asks", told]);
    }
}

#[test]
fn a_strict_task_without_a_cpu_near_its_gpu_or_without_cores_of_its_own_fails() {
    let (far, few) = ("56-111", "0,112");
    on(far, "closest").gpu("0").ok();
    let played = on(far, "closest,strict").gpu("0");
    played.fails(0, &["no CPU on NUMA node 0", "-m block:block"]);
    on(few, "bind=core --gpu 0").gpu("0").ok();
    let step = on(few, "bind=core,strict --gpu 0");
    step.gpu("0").fails(0, &["`bind=core` cannot be had"]);
}

#[test]
fn openmp_is_told_only_where_the_user_asks() {
    let names = ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND"];
    for (words, told) in [
        ("closest", ["", "", ""]),
        ("bind=numa,omp=on", ["56", "cores", "false"]),
        // the user's places count, and false would undo them
        (
            "bind=numa,omp=on --env OMP_NUM_THREADS=3 --env OMP_PLACES=threads",
            ["3", "threads", ""],
        ),
    ] {
        let played = on(ALL, words).gpu("0");
        let found = names.map(|name| played.near().env(0, name).unwrap_or_default());
        assert_eq!(found, told, "{played}");
    }
}

#[test]
fn tasks_without_gpus_are_dealt_to_the_nodes_where_the_user_asked() {
    let two = |step: Step| step.task("").task("").word("--local-tasks", "2").play();
    // `bind=core` too: all of its node, since no task shares it
    for words in ["closest", "bind=core"] {
        let played = two(on(ALL, words));
        played.ok().on_cpus(0, NEAR).on_cpus(1, "56-111,168-223");
    }
    two(on(ALL, "closest")).bound(1, "56-111,168-223", "preferred-many nodes 0x2");
    two(dgx(
        "--arg trust-topology --arg default=closest --played-cpus 0-223",
    ))
    .on_cpus(1, ALL);
}

// ---- the kernel itself ----

#[test]
fn nobody_is_bound_by_facts_of_another_machine_or_over_the_users_own_binding() {
    let free = dgx("").eight();
    let user =
        "--arg trust-topology --env SLURM_CPU_BIND_TYPE=cores --env SLURM_MEM_BIND_TYPE=local";
    for words in ["", user] {
        let placed = dgx(words).option("closest,bind=numa").eight();
        placed.near();
        for task in 0..8 {
            assert_eq!(placed.cpus(task), free.cpus(task), "{placed}");
            assert_eq!(placed.memory(task), free.memory(task), "{placed}");
        }
    }
}

#[test]
fn a_task_never_gets_a_cpu_that_slurm_did_not_give_it_and_memory_is_preferred_not_fenced() {
    let trusted = |words: &str| {
        dgx("--arg trust-topology --option closest,bind=numa")
            .with(words)
            .eight()
    };
    let (one, all) = (trusted("--cpus 0"), trusted(""));
    one.near();
    for task in 0..8 {
        one.on_cpus(task, "0");
        let policy = all.near().memory(task).unwrap_or("default".to_string());
        let begins = ["default", "preferred"];
        let begins = begins.iter().any(|word| policy.starts_with(word));
        assert!(begins, "task {task}: `{policy}`\n{all}");
    }
}

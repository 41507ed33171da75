//! A task's CPUs and memory on a machine whose kernel is simulated: set, read back, and reported if different.

use super::*;

/// The DGX H100, trusted, as if its kernel were ours; tasks that start on `cpus`.
fn on(cpus: &str, words: &str) -> Step {
    Step::on_dgx_h100()
        .arg("trust-topology")
        .option(words)
        .word("--played-cpus", cpus)
}

/// The first GPU, which is on NUMA node 0 with the CPUs 0-55 and 112-167.
fn of_gpu_0(step: Step) -> Step {
    step.task("CUDA_VISIBLE_DEVICES=0")
}

fn said(lines: &[LogLine], words: &[&str]) -> bool {
    lines
        .iter()
        .any(|line| words.iter().all(|word| line.text.contains(word)))
}

#[test]
fn a_task_that_reaches_to_the_other_socket_is_narrowed_and_its_memory_follows() {
    let free = play!(of_gpu_0(Step::on_dgx_h100().word("--played-cpus", "0-223")));
    assert_eq!(
        free.cpus(0).as_deref(),
        Some("0-223"),
        "without the option nothing happens\n{free}"
    );
    assert_eq!(
        free.memory(0).as_deref(),
        Some("default nodes 0x0"),
        "{free}"
    );
    let placed = play!(of_gpu_0(on("0-223", "bind=numa")));
    placed.assert_nearest_nics();
    assert_eq!(placed.cpus(0).as_deref(), Some("0-55,112-167"), "{placed}");
    assert_eq!(
        placed.memory(0).as_deref(),
        Some("preferred-many nodes 0x1"),
        "{placed}"
    );
}

#[test]
fn a_task_keeps_its_part_where_too_little_is_near_its_gpu() {
    let busy = |words: &str| of_gpu_0(on("0,56-62", words));
    let kept = play!(busy("closest"));
    assert_eq!(
        kept.cpus(0).as_deref(),
        Some("0,56-62"),
        "eight CPUs would become one: {kept}"
    );
    let numa = play!(busy("bind=numa"));
    assert_eq!(
        numa.cpus(0).as_deref(),
        Some("0"),
        "who asks for the NUMA node gets it: {numa}"
    );
    let verbose = play!(busy("closest,verbose"));
    assert!(
        said(
            &verbose.shown_to_the_user(),
            &["the step has 1 CPU, too few", "`bind=numa`"]
        ),
        "{verbose}"
    );
    let strict = play!(busy("closest,strict"));
    assert_eq!(
        strict.cpus(0).as_deref(),
        Some("0,56-62"),
        "strict has what was decided: {strict}"
    );
    let restricted = play!(busy("closest,restricted"));
    assert_ne!(restricted.exit(0), Some(0), "{restricted}");
    assert!(
        said(
            &restricted.shown_to_the_user(),
            &["fails", "too few for this task"]
        ),
        "{restricted}"
    );
    let asked = play!(of_gpu_0(
        on("0-223", "closest").env("SLURM_CPUS_PER_TASK=16")
    ));
    assert_eq!(
        asked.cpus(0).as_deref(),
        Some("0-55,112-167"),
        "16 CPUs are near: {asked}"
    );
    assert_eq!(
        asked.memory(0).as_deref(),
        Some("preferred-many nodes 0x1"),
        "{asked}"
    );
    // from 22.05 to 23.02 srun does not read what sbatch was asked for, and leaves it standing
    let of_sbatch = on("0-223", "closest")
        .env("SLURM_CPUS_PER_TASK=16")
        .word("--cpus-per-task", "1");
    let all = play!(of_gpu_0(of_sbatch));
    assert_eq!(
        all.cpus(0).as_deref(),
        Some("0-223"),
        "its part is the step's 224 CPUs: {all}"
    );
    // and where that was 1, it looks as if srun had been asked for it
    let one = |cores: &str| {
        let step = on("0-223", "closest").env("SLURM_CPUS_PER_TASK=1");
        of_gpu_0(step.word("--step-cpus", "224").word("--step-cores", cores))
    };
    let all = play!(one("0-111"));
    assert_eq!(
        all.cpus(0).as_deref(),
        Some("0-223"),
        "112 cores are no step of one CPU: {all}"
    );
    let asked = play!(one("3"));
    assert_eq!(
        asked.cpus(0).as_deref(),
        Some("0-55,112-167"),
        "srun -c1: {asked}"
    );
}

// slurm.conf's `CPUs=112` beside `ThreadsPerCore=2`: Slurm gives out cores, calls each a CPU, and binds to both threads
#[test]
fn a_task_that_asked_for_cores_keeps_them_where_slurm_counts_no_threads() {
    let alone = |cpus: &str, bound: bool| {
        let step = on("0-223", "closest").env("SLURM_CPUS_PER_TASK=112");
        let step = step.word("--step-cpus", cpus).word("--step-cores", "0-111");
        let mask = format!(
            "SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x{}",
            "f".repeat(56)
        );
        step.task(&format!(
            "CUDA_VISIBLE_DEVICES=0 {}",
            if bound { mask.as_str() } else { "" }
        ))
    };
    let cores = play!(alone("112", true));
    assert_eq!(
        cores.cpus(0).as_deref(),
        Some("0-223"),
        "112 cores are more than are near: {cores}"
    );
    // or, with `CPUs=224`, `-c112 --hint=compute_bound` of 22.05; `-c112 --exclusive` looks the same
    let either = play!(alone("224", true));
    assert_eq!(
        either.cpus(0).as_deref(),
        Some("0-223"),
        "no proof of threads: {either}"
    );
    let unbound = play!(alone("112", false));
    assert_eq!(
        unbound.cpus(0).as_deref(),
        Some("0-55,112-167"),
        "its mask may be wider than the step: {unbound}"
    );
}

// `echo off > /sys/devices/system/cpu/smt/control`, as by a prolog: slurmd has counted the threads when it started, and its masks
// name them on; sched_getaffinity(2) does not
#[test]
fn threads_that_were_switched_off_since_slurmd_started_keep_nobody_from_moving() {
    let tree = harness::own_dgx_h100("threads-off");
    for (node, cpus) in [(0, "0-55\n"), (1, "56-111\n")] {
        let list = tree.join(format!("sys/devices/system/node/node{node}/cpulist"));
        std::fs::write(list, cpus).expect("the target folder can be written");
    }
    let mask = format!(
        "SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x{}",
        "f".repeat(56)
    );
    for (words, cpus) in [("closest", "0-111"), ("bind=numa", "60-63")] {
        let step = Step::in_context("remote")
            .sysfs(&tree)
            .arg("trust-topology")
            .option(words);
        let step = step
            .word("--played-cpus", cpus)
            .env("SLURM_CPUS_PER_TASK=16");
        let placed = play!(step.task(&format!("CUDA_VISIBLE_DEVICES=0 {mask}")));
        assert_eq!(
            placed.cpus(0).as_deref(),
            Some("0-55"),
            "`{words}`\n{placed}"
        );
        placed.assert_nothing_failed();
    }
}

#[test]
fn each_word_of_memory_does_what_it_says() {
    for (words, cpus, memory) in [
        ("bind=numa,mem=strict", "0-55,112-167", "bind nodes 0x1"),
        ("bind=numa,mem=none", "0-55,112-167", "default nodes 0x0"),
        ("mem=strict", "0-223", "bind nodes 0x1"),
        ("bind=none", "0-223", "default nodes 0x0"),
        ("bind=none,mem=prefer", "0-223", "preferred-many nodes 0x1"),
        ("bind=core", "0-223", "default nodes 0x0"),
    ] {
        let placed = play!(of_gpu_0(on("0-223", words)));
        placed.assert_nearest_nics();
        assert_eq!(placed.cpus(0).as_deref(), Some(cpus), "`{words}`\n{placed}");
        assert_eq!(
            placed.memory(0).as_deref(),
            Some(memory),
            "`{words}`\n{placed}"
        );
    }
}

#[test]
fn kernels_before_5_15_prefer_one_node_and_of_two_none() {
    let one = play!(of_gpu_0(on("0-223", "bind=numa").word("--old-kernel", "1")));
    assert_eq!(
        one.memory(0).as_deref(),
        Some("preferred nodes 0x1"),
        "{one}"
    );
    let step = on("0-223", "closest,verbose,strict").word("--old-kernel", "1");
    let two = play!(step.task("CUDA_VISIBLE_DEVICES=0,7"));
    two.assert_nothing_failed();
    assert_eq!(
        two.memory(0).as_deref(),
        Some("default nodes 0x0"),
        "the first would be far from half\n{two}"
    );
}

#[test]
fn memory_outside_the_cpuset_is_left_out_with_a_note() {
    let step = on("0-223", "closest,verbose,strict").word("--played-mems", "0x1");
    let part = play!(step.task("CUDA_VISIBLE_DEVICES=0,7"));
    part.assert_nothing_failed();
    assert_eq!(
        part.memory(0).as_deref(),
        Some("preferred-many nodes 0x1"),
        "{part}"
    );
    assert!(
        said(
            &part.shown_to_the_user(),
            &["of NUMA nodes 0-1 only 0 are in the cpuset"]
        ),
        "{part}"
    );

    let step = |words: &str| of_gpu_0(on("0-223", words).word("--played-mems", "0x2"));
    let none = play!(step("bind=numa,verbose"));
    none.assert_nothing_failed();
    assert_eq!(
        none.memory(0).as_deref(),
        Some("default nodes 0x0"),
        "{none}"
    );
    assert!(
        said(
            &none.shown_to_the_user(),
            &["NUMA node 0 is outside the cpuset"]
        ),
        "{none}"
    );
    let strict = play!(step("bind=numa,strict"));
    assert_eq!(
        strict.exit(0),
        Some(1),
        "none of the memory that it was to have: {strict}"
    );
    assert!(
        said(
            &strict.shown_to_the_user(),
            &["NUMA node 0 is outside the cpuset"]
        ),
        "{strict}"
    );
}

#[test]
fn what_did_not_take_is_logged_shown_where_asked_and_fails_a_strict_task() {
    for (deaf, told) in [
        ("affinity", "CPUs 0-55,112-167 wanted, 0-223 got"),
        (
            "memory",
            "memory: NUMA node 0 first wanted, the default policy got",
        ),
        ("UCX_NET_DEVICES", "UCX_NET_DEVICES did not take"),
        ("NIC_PLACEMENT", "NIC_PLACEMENT did not take"),
    ] {
        let step = |words: &str| of_gpu_0(on("0-223", words).word("--deaf", deaf));
        let quiet = play!(step("bind=numa"));
        quiet.assert_nothing_failed();
        assert_eq!(quiet.shown_to_the_user(), [], "`{deaf}`\n{quiet}");
        let logged = quiet
            .log()
            .into_iter()
            .filter(|line| line.level == "info" && line.text.contains(told));
        assert_eq!(
            logged.count(),
            1,
            "`{deaf}`: one line in slurmd's log\n{quiet}"
        );

        let verbose = play!(step("bind=numa,verbose"));
        verbose.assert_nothing_failed();
        assert!(
            said(&verbose.shown_to_the_user(), &["task 0", told]),
            "`{deaf}`\n{verbose}"
        );

        let strict = play!(step("bind=numa,strict"));
        assert_eq!(
            strict.returned("init_post_opt"),
            Some(0),
            "`{deaf}`: only the task fails\n{strict}"
        );
        assert_ne!(strict.exit(0), Some(0), "`{deaf}`\n{strict}");
        assert!(
            said(
                &strict.shown_to_the_user(),
                &["task 0 fails, as `strict` asks", told]
            ),
            "{strict}"
        );
        let heard = play!(of_gpu_0(on("0-223", "bind=numa,strict")));
        heard.assert_nearest_nics();
    }
}

#[test]
fn a_strict_task_without_a_cpu_near_its_gpu_or_without_cores_of_its_own_fails() {
    let far = |words: &str| of_gpu_0(on("56-111", words));
    play!(far("closest")).assert_nothing_failed();
    let strict = play!(far("closest,strict"));
    assert_ne!(strict.exit(0), Some(0), "{strict}");
    assert!(
        said(
            &strict.shown_to_the_user(),
            &["no CPU on NUMA node 0", "-m block:block"]
        ),
        "{strict}"
    );

    let few = |words: &str| of_gpu_0(of_gpu_0(on("0,112", words)));
    play!(few("bind=core")).assert_nothing_failed();
    let strict = play!(few("bind=core,strict"));
    assert_ne!(strict.exit(0), Some(0), "{strict}");
    assert!(
        said(&strict.shown_to_the_user(), &["`bind=core` cannot be had"]),
        "{strict}"
    );
}

#[test]
fn openmp_is_told_only_where_the_user_asks() {
    let names = ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND"];
    let plain = play!(of_gpu_0(on("0-223", "closest")));
    assert_eq!(
        names.map(|name| plain.env(0, name)),
        [None, None, None],
        "{plain}"
    );
    let asked = play!(of_gpu_0(on("0-223", "bind=numa,omp=on")));
    asked.assert_nearest_nics();
    let values = names.map(|name| asked.env(0, name).unwrap_or_default());
    assert_eq!(values, ["56", "cores", "false"], "{asked}");
    let own = play!(of_gpu_0(
        on("0-223", "bind=numa,omp=on")
            .env("OMP_NUM_THREADS=3")
            .env("OMP_PLACES=threads")
    ));
    let values = names.map(|name| own.env(0, name).unwrap_or_default());
    assert_eq!(
        values,
        ["3", "threads", ""],
        "the user's places count, and false would undo them\n{own}"
    );
}

#[test]
fn tasks_without_gpus_are_dealt_to_the_nodes_where_the_user_asked() {
    let two = |step: Step| step.task("").task("").word("--local-tasks", "2");
    let asked = play!(two(on("0-223", "closest")));
    asked.assert_nothing_failed();
    let cpus = [asked.cpus(0), asked.cpus(1)].map(Option::unwrap_or_default);
    assert_eq!(cpus, ["0-55,112-167", "56-111,168-223"], "{asked}");
    assert_eq!(
        asked.memory(1).as_deref(),
        Some("preferred-many nodes 0x2"),
        "{asked}"
    );
    let core = play!(two(on("0-223", "bind=core")));
    let cpus = [core.cpus(0), core.cpus(1)].map(Option::unwrap_or_default);
    assert_eq!(
        cpus,
        ["0-55,112-167", "56-111,168-223"],
        "all of its node, since nobody shares it\n{core}"
    );
    let default = Step::on_dgx_h100()
        .arg("trust-topology")
        .arg("default=closest")
        .word("--played-cpus", "0-223");
    let default = play!(two(default));
    assert_eq!(
        default.cpus(1).as_deref(),
        Some("0-223"),
        "nobody asked\n{default}"
    );
}

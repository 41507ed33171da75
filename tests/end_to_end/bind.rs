//! CPUs and memory: which are moved, and which left alone; cores of a task's own, hints, OpenMP, and tasks without GPUs.

use super::suite::*;

pub const ROWS: &[Case] = rows! {
    tasks_move_only_to_cpus_that_their_step_owns: 8 "-n8 -c4 --gpus-per-task=1" => inside, none_far;
    tasks_that_are_near_their_gpu_stay_where_they_are: 8 "-n8 -c28 -m block:block --gpus-per-task=1" => stays, remembers;
    a_task_whose_gpus_span_sockets_keeps_its_cpus: 2 "-n2 -c8 --gres=gpu:8" => stays;
    bind_none_sets_variables_and_moves_nothing: 8 "-n8 --gpus-per-task=1" ["bind=none"] => as_bound, own;
    bind_core_keeps_the_cores_that_slurm_gave_each_task_near_its_gpu: 8 "-n8 -c28 --gpus-per-task=1 -m block:block"
        ["bind=core"] => cores_of_their_own, stays;
    bind_core_stays_inside_a_part_of_the_node: 4 "-n4 -c4 --gpus-per-task=1" ["bind=core"]
        => inside, cores_of_their_own, none_far;
    bind_core_of_tasks_with_two_gpus_is_near_both: 4 "-N1 -n4 -c56 --gpus-per-task=2" ["bind=core"]
        => cores_of_their_own, near;
    tasks_that_see_all_gpus_keep_cores_of_their_own: 8 "-n8 -c28 --gres=gpu:8" ["bind=core"]
        => cores_of_their_own, stays;
    mem_strict_fences: 8 "-n8 -c28 --gpus-per-task=1" ["mem=strict"]
        => is(|task| task.mem() == format!("bind:{}", numa_node_of(task.gpu())));
    mem_none_leaves_memory_alone: 8 "-n8 -c28 --gpus-per-task=1" ["mem=none"]
        => is(|task| !task.is_far() && task.mem() == "default");
    // memory far from the CPUs helps none
    bind_none_with_a_word_about_memory_sets_memory_alone: 8 "-n8 -c28 --gpus-per-task=1" ["bind=none,mem=prefer"]
        => stays, is(|task| (task.mem() == "default") == task.is_far());
};

pub const CASES: &[Case] = cases![
    tasks_on_the_wrong_socket_are_moved_to_their_gpus,
    a_mask_that_is_partly_near_is_narrowed,
    what_sbatch_was_asked_for_is_no_part_of_a_step_that_srun_sizes_anew,
    a_cpu_bind_of_the_users_survives_in_any_spelling,
    words_that_bind_nothing_leave_the_task_to_be_moved,
    a_bind_of_the_users_holds_where_slurm_shall_not_bind,
    an_explicit_mem_bind_survives,
    hints_and_thread_counts_leave_the_binding_on,
    a_way_of_binding_that_was_named_stands_beside_a_hint,
    on_a_busy_node_every_task_keeps_its_cpus,
    moved_tasks_do_not_share_with_those_that_stay,
    bind_core_repairs_slurms_misdeal_with_cores_that_no_two_tasks_share,
    bind_core_divides_a_mask_that_all_tasks_share,
    bind_core_beside_another_job_stays_inside_the_rest,
    bind_core_with_fewer_cores_than_tasks_is_the_default_and_says_so,
    omp_on_counts_the_tasks_cores_and_pins_nobody,
    omp_does_not_outlive_its_step,
    tasks_without_gpus_are_dealt_to_the_sockets_where_the_user_asked,
];

pub const OF_FOUR_NODES: &[Case] = cases![every_task_is_on_its_gpus_socket];

const DEALT: &str = "srun -w n0 -n8 -c28 --gpus-per-task=1 @ $report";

/// Before 23.11 Slurm deals tasks and GPUs in different orders, and leaves the tasks of an allocation's step unbound.
fn is_old(bed: &Bed) -> bool {
    bed.site.release < (23, 11)
}

fn tasks_on_the_wrong_socket_are_moved_to_their_gpus(bed: &Bed) {
    let dealt = if is_old(bed) { 4 } else { 0 };
    for (gpus, wrong) in [("--gpus-per-task=1", dealt), (ACROSS, 4)] {
        let (bare, placed) = bed.both("", 8, &srun(&format!("-n8 {gpus}")));
        assert_eq!(far(&bare), wrong, "{gpus}");
        all(&bare, |task| task.mem() == "default");
        let is_so = |task: &Task| task.is_near() && task.prefers([numa_node_of(task.gpu())].into());
        all(&placed, is_so);
    }
}

fn a_mask_that_is_partly_near_is_narrowed(bed: &Bed) {
    let command = srun("-n1 -c224 --gpus-per-task=1");
    let (bare, placed) = bed.both("bind=numa", 1, &command);
    assert_eq!(bare[0].cpus().len(), 224);
    assert_eq!(placed[0].cpus(), cpus_of_node(0));
    // it asked for all of them
    assert_eq!(bed.with("", 1, &command)[0].cpus().len(), 224);
}

fn what_sbatch_was_asked_for_is_no_part_of_a_step_that_srun_sizes_anew(bed: &Bed) {
    // from 22.05 to 23.02 srun does not read SLURM_CPUS_PER_TASK, and leaves salloc's standing
    let part = if is_old(bed) { 224 } else { 28 };
    for (job, step, least) in [
        ("-n8 -c28", "--gres=gpu:4", part),
        ("-n112 -c1", "--gres=gpu:1", 1),
    ] {
        let salloc = format!("salloc --quiet -w n0 {job} --gres=gpu:8");
        let (bare, placed) = bed.both("", 1, &format!("{salloc} srun -n1 {step} @ $report"));
        each(&bare, &placed, |bare, task| {
            let (before, after) = (bare.cpus().len(), task.cpus().len());
            before >= least
                && if least > 1 {
                    after >= least
                } else {
                    after == before
                }
        });
    }
}

/// Half of the tasks, or all, are away from their GPUs by each of these.
fn a_cpu_bind_of_the_users_survives_in_any_spelling(bed: &Bed) {
    let dealt = "-w n0 -n8 --gpus-per-task=1";
    let wide = "-w n0 -n8 -c28 --gpus-per-task=1";
    let masks: Vec<String> = (0..8).map(|task| format!("{:#x}", 1u32 << task)).collect();
    let masks = format!("mask_cpu:{}", masks.join(","));
    for (step, binds) in [
        (
            dealt,
            "map_cpu:0,56,112,168,1,57,113,169 cores threads none",
        ),
        (wide, &*format!("sockets ldoms rank quiet,cores {masks}")),
        (
            CROSSED,
            "none cores sockets threads ldoms verbose,cores rank_ldom map_cpu:0,56",
        ),
        (
            CROSSED,
            "mask_cpu:0x1,0x100000000000000 map_ldom:0,1 mask_ldom:0x1,0x2",
        ),
    ] {
        let tasks = if step == CROSSED { 2 } else { 8 };
        for bind in binds.split(' ') {
            let command = format!("srun {step} --cpu-bind={bind} @ $report");
            let (bare, placed) = bed.both("", tasks, &command);
            each(&bare, &placed, |bare, task| task.cpus() == bare.cpus());
            assert_own(&placed);
            if step == wide {
                let core = bed.with("bind=core", 8, &command);
                each(&bare, &core, |bare, task| task.cpus() == bare.cpus());
            }
        }
    }
    let named = format!("SLURM_CPU_BIND=cores srun {CROSSED} @ $report");
    let (bare, placed) = bed.both("", 2, &named);
    each(&bare, &placed, |bare, task| task.cpus() == bare.cpus());
}

fn words_that_bind_nothing_leave_the_task_to_be_moved(bed: &Bed) {
    for bind in [
        "",
        "--cpu-bind=quiet",
        "--cpu-bind=verbose",
        "--mem-bind=none",
    ] {
        let (bare, placed) = bed.both("", 2, &format!("srun {CROSSED} {bind} @ $report"));
        all(&bare, Task::is_far);
        all(&placed, Task::is_near);
    }
    for bind in ["--cpu-bind=verbose", "--cpu-bind=quiet"] {
        let options = format!("-n8 -c14 --gpus-per-task=1 {bind}");
        assert_eq!(far(&bed.with("", 8, &srun(&options))), 0, "{bind}");
    }
}

fn a_bind_of_the_users_holds_where_slurm_shall_not_bind(bed: &Bed) {
    // engines switch Slurm's binding off for all their tasks
    for command in [
        format!("SLURM_CPU_BIND=none {EIGHT}"),
        EIGHT.replace('@', "--cpu-bind=none @"),
    ] {
        let (bare, placed) = bed.both("", 8, &command);
        each(&bare, &placed, |bare, task| task.cpus() == bare.cpus());
        each(&bare, &bed.with("bind=numa", 8, &command), |bare, task| {
            let near: Set = &bare.cpus() & &cpus_near(task.gpu());
            near.len() < bare.cpus().len() && task.cpus() == near
        });
    }
    // a map is a choice
    let map = EIGHT.replace('@', "--cpu-bind=map_cpu:0,56,112,168,1,57,113,169 @");
    let (bare, placed) = bed.both("bind=numa", 8, &map);
    each(&bare, &placed, |bare, task| task.cpus() == bare.cpus());
}

fn an_explicit_mem_bind_survives(bed: &Bed) {
    for bind in ["map_mem:1,0", "local", "none"] {
        let (bare, placed) = bed.both("", 2, &TWO.replace('@', &format!("--mem-bind={bind} @")));
        each(&bare, &placed, |bare, task| {
            task.mem() == bare.mem() && task.is_own()
        });
    }
}

// ---- hints ----

fn hints_and_thread_counts_leave_the_binding_on(bed: &Bed) {
    for hint in [
        "--hint=nomultithread",
        "--hint=compute_bound",
        "--hint=memory_bound",
        "--hint=multithread",
        "--ntasks-per-core=1",
        "--threads-per-core=1",
        "-B 2:56:1",
        "-B 2",
        "--cpu-bind=verbose",
        "--export=ALL,SLURM_HINT=nomultithread",
    ] {
        let command = srun(&format!("-n8 -c2 --exclusive {ACROSS} {hint}"));
        let (bare, placed) = bed.both("", 8, &command);
        let [before, after] = [&bare, &placed].map(|tasks| far(tasks));
        println!("    {hint:<36} far {before} without, {after} with");
        assert_moved(&bare, &placed);
        assert_no_poorer(&bare, &placed);
        all(&placed, Task::is_own);
        if hint == "--hint=nomultithread" {
            // CPU n and n + 112 are threads of one core
            let cores = |task: &Task| task.cpus().iter().map(|cpu| cpu % 112).collect::<Set>();
            all(&placed, |task| cores(task).len() == task.cpus().len());
        }
    }
}

fn a_way_of_binding_that_was_named_stands_beside_a_hint(bed: &Bed) {
    for options in [
        "--cpu-bind=threads --threads-per-core=1",
        "--cpu-bind=cores --ntasks-per-core=1",
        "--threads-per-core=1 --cpu-bind=v,threads",
    ] {
        let command = srun(&format!("-n8 --exclusive {ACROSS} {options}"));
        let (bare, placed) = bed.both("", 8, &command);
        each(&bare, &placed, |bare, task| task.cpus() == bare.cpus());
    }
}

fn on_a_busy_node_every_task_keeps_its_cpus(bed: &Bed) {
    // another job holds 55 of socket 0's 56 cores
    let hold = "srun -J hold -w n0 -n1 -c110 -m block:block sleep 90 & \
                until squeue -h -n hold -t R | grep -q hold; do sleep 0.1; done";
    let step = srun("-n8 -c4 --gpus-per-task=1");
    let busy = format!("sh -c '{hold}; {step}; scancel --name=hold; wait'");
    let (bare, placed) = bed.both("", 8, &busy);
    all(&bare, |task| task.cpus().len() == 4);
    all(&placed, |task| task.cpus().len() >= 4);
    // a user that asks for the NUMA node gets the rest of it; later releases keep a job's cores on the sockets of its
    // GPUs, or make the job wait
    let numa = bed.with("bind=numa", 8, &busy);
    let crowded = numa.iter().any(|task| task.cpus().len() < 4);
    assert!(crowded || bed.site.release >= (23, 2), "{numa:?}");
}

fn moved_tasks_do_not_share_with_those_that_stay(bed: &Bed) {
    let command = srun(&format!("-n8 --exclusive -c4 {ACROSS}"));
    let (bare, placed) = bed.both("", 8, &command);
    assert_eq!((far(&bare), far(&placed)), (4, 0));
    all(&placed, |task| task.cpus().len() == 4);
    assert_apart(&placed);
}

// ---- cores ----

fn bind_core_repairs_slurms_misdeal_with_cores_that_no_two_tasks_share(bed: &Bed) {
    let (bare, placed) = bed.both("bind=core", 8, DEALT);
    assert_eq!(far(&bare), if is_old(bed) { 4 } else { 0 });
    assert_cores_of_their_own(&placed);
    let is_so = |task: &Task| task.is_near() && task.cpus().len() == 28 && task.is_own();
    all(&placed, is_so);
    // with bind=numa, the tasks that had to move share the node's CPUs
    let shared = bed.with("bind=numa", 8, DEALT);
    assert_eq!(far(&shared), 0);
    let some_had_to_move = shared.iter().any(|task| task.cpus().len() > 28);
    assert_eq!(some_had_to_move, is_old(bed), "{shared:#?}");
    // by default they change places
    let is_so = |task: &Task| !task.is_far() && task.cpus().len() == 28;
    all(&bed.with("", 8, DEALT), is_so);
}

fn bind_core_divides_a_mask_that_all_tasks_share(bed: &Bed) {
    let command = "salloc --quiet -w n0 -n8 -c28 --gpus-per-task=1 srun @ $report";
    let (bare, placed) = bed.both("bind=core", 8, command);
    let share_one = bare.iter().all(|task| task.cpus().len() == 224);
    assert_eq!(share_one, is_old(bed), "{bare:#?}");
    assert_cores_of_their_own(&placed);
    all(&placed, |task| task.is_near() && task.cpus().len() == 28);
}

fn bind_core_beside_another_job_stays_inside_the_rest(bed: &Bed) {
    // one of its GPUs is on the first socket and four are on the second
    let command = while_another_job_has_gpus(3, &srun("-n5 -c28 --gpus-per-task=1"));
    let (bare, placed) = bed.both("bind=core", 5, &command);
    let found = placed.iter().map(Task::gpu).collect::<Set>();
    assert_eq!(found, (3..8).collect());
    let is_so = cpus_of(&placed).is_subset(&cpus_of(&bare));
    assert!(is_so, "CPUs of the other job");
    assert_cores_of_their_own(&placed);
    // tasks change places, as far as none loses cores
    assert!(far(&placed) <= far(&bare), "{placed:#?} had {bare:#?}");
    assert_no_poorer(&bare, &placed);
}

fn bind_core_with_fewer_cores_than_tasks_is_the_default_and_says_so(bed: &Bed) {
    let auto = bed.with("", 8, EIGHT);
    let (_, core) = bed.both("bind=core", 8, EIGHT);
    each(&auto, &core, |auto, core| core.binding() == auto.binding());
    let why = "task 0: `bind=core` cannot be had";
    bed.ask("bind=core,verbose", EIGHT).says(1, why);
    assert!(bed.ask("bind=core,strict", EIGHT).failed().tasks.is_empty());
}

// ---- memory, OpenMP ----

const OPENMP: [&str; 3] = ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND"];

fn omp_on_counts_the_tasks_cores_and_pins_nobody(bed: &Bed) {
    let command = format!("{DEALT} {}", OPENMP.join(" "));
    let (bare, placed) = bed.both("omp=on", 8, &command);
    // even if bind=numa gave it a mask that it shares with other tasks
    let told = [Some("14"), Some("cores"), Some("false")];
    all(&placed, |task| OPENMP.map(|name| task.env(name)) == told);
    for tasks in [bare, bed.with("", 8, &command)] {
        all(&tasks, |task| task.lacks(&OPENMP));
    }
    let own = bed.with("omp=on", 8, &format!("OMP_NUM_THREADS=3 {command}"));
    all(&own, |task| task.env("OMP_NUM_THREADS") == Some("3"));
}

fn omp_does_not_outlive_its_step(bed: &Bed) {
    let names = OPENMP.join(" ");
    let inner = format!("{INNER} --nic-placement $report {names} | sed s/rank=0/rank=1/");
    let tasks = bed.with("omp=on", 2, &nested(&format!("$report {names}; {inner}")));
    assert_eq!(tasks[0].env(OPENMP[0]), Some("4"));
    assert!(tasks[1].lacks(&OPENMP), "{tasks:?}");
}

fn tasks_without_gpus_are_dealt_to_the_sockets_where_the_user_asked(bed: &Bed) {
    let command = "salloc --quiet -w n0 -n4 -c56 srun @ $report";
    let (bare, placed) = bed.both("", 4, command);
    let share_one = bare.iter().all(|task| task.cpus().len() == 224);
    assert_eq!(share_one, is_old(bed), "{bare:#?}");
    each(&bare, &placed, |bare, task| {
        let node = task.local() / 2;
        let is_dealt = task.cpus() == cpus_of_node(node) && task.prefers([node].into());
        if share_one {
            is_dealt
        } else {
            task.cpus() == bare.cpus()
        }
    });
    let (bound, kept) = bed.both("", 4, &srun("-n4 -c56"));
    each(&bound, &kept, |bound, task| task.cpus() == bound.cpus());
    bed.plugin("default=closest");
    each(&bare, &bed.bare(4, command), |bare, task| {
        task.cpus() == bare.cpus()
    });
}

// ---- near is a ladder: on a DGX A100 the GPUs are on every other of eight NUMA nodes, and Slurm deals by sockets ----

/// GPUs in PCI order: two on NUMA node 3, two on 1, two on 7, two on 5, of 16 cores each.
const SOCKET_OF_GPU: [usize; 8] = [0, 0, 0, 0, 1, 1, 1, 1];

fn on_another_socket(tasks: &[Task]) -> Vec<usize> {
    let socket = |task: &Task| SOCKET_OF_GPU[task.gpu()];
    let is_there = |task: &Task| task.cpus().iter().any(|cpu| cpu % 128 / 64 == socket(task));
    let far = tasks.iter().filter(|task| !is_there(task));
    far.map(Task::gpu).collect()
}

fn every_task_is_on_its_gpus_socket(bed: &Bed) {
    for options in [
        "-c2 --gpus-per-task=1",
        "-c16 --gpus-per-task=1",
        &format!("-c2 {ACROSS}"),
    ] {
        let (bare, placed) = bed.both("", 8, &srun(&format!("-n8 --exclusive {options}")));
        let [before, after] = [&bare, &placed].map(|tasks| on_another_socket(tasks));
        println!("    {options}: on another socket {before:?} without, {after:?} with");
        assert_eq!(after, [0; 0], "{options}: {placed:?}");
        // by the map half of them are, on every release
        let is_so = options.contains("per-task") || before.len() == 4;
        assert!(is_so, "{bare:?}");
        assert_no_poorer(&bare, &placed);
    }
}

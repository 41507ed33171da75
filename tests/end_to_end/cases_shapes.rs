//! Ways to start tasks, each with and without the plugin: which tasks get the right GPU, NIC, CPUs and memory.

use crate::harness::{Bed, Case, cases, skip};
use crate::machines::{cpus_near, nccl_list, numa_node_of, ucx_of};
use crate::report::{Task, numbers};
use std::collections::BTreeSet;

pub const CASES: &[Case] = cases![
    tasks_with_gpus_of_their_own_are_placed_however_slurm_dealt_them,
    tasks_that_outnumber_the_gpus_share_the_nic_of_the_gpu_they_share,
    overlapping_steps_of_one_job_are_placed_alike,
    each_task_of_a_job_array_is_placed,
    a_requeued_job_is_placed_again,
    a_step_survives_a_restart_of_slurmd_and_the_next_one_is_placed,
    an_interactive_shell_has_nothing_set_and_its_sruns_are_placed,
];

/// What Slurm's own step of a job does: it starts steps, and forwards a display.
pub const CASES_OF_SLURMS_OWN_STEP: &[Case] = cases![
    an_asynchronous_step_is_placed,
    a_task_with_a_display_is_placed
];

pub const CASES_THAT_FIND_THEIR_GPUS: &[Case] =
    cases![tasks_are_placed_where_slurm_finds_the_gpus_itself];

const FLAG: &str = "--nic-placement";

/// What is right with one task: its GPU is its own or shared as asked, its NIC is that GPU's, its CPUs and its memory are of
/// that GPU's NUMA node.
fn right(tasks: &[Task], gpu: impl Fn(&Task) -> Option<usize>, sharing: usize) -> [usize; 4] {
    let of = |task: &Task| gpu(task).map(|gpu| (task.node().to_string(), gpu));
    let mut counts = [0; 4];
    for task in tasks {
        let Some(used) = gpu(task) else { continue };
        let users = tasks.iter().filter(|other| of(other) == of(task)).count();
        let near = task.cpus().is_subset(&cpus_near(used));
        // the kernel's default takes memory where the task runs
        let memory = match task.mem() {
            "default" => near,
            mem => mem
                .split_once(':')
                .is_some_and(|(_, list)| numbers(list) == BTreeSet::from([numa_node_of(used)])),
        };
        for (count, is_right) in
            counts
                .iter_mut()
                .zip([users <= sharing, task.ucx() == [ucx_of(used)], near, memory])
        {
            *count += usize::from(is_right);
        }
    }
    counts
}

/// The task sees one GPU and uses it.
fn the_only_one(task: &Task) -> Option<usize> {
    Some(task.gpus())
        .filter(|gpus| gpus.len() == 1)
        .map(|gpus| gpus[0])
}

/// The task can open one GPU; with constrained devices the variable counts those alone.
fn the_one_it_opens(task: &Task) -> Option<usize> {
    Some(task.open())
        .filter(|open| open.len() == 1)
        .and_then(|open| open.first().copied())
}

/// One way to start tasks, of which docs/user-guide.md names some; all tasks must be right with the plugin.
fn row(
    way: &str,
    without: &[Task],
    with: &[Task],
    gpu: fn(&Task) -> Option<usize>,
    sharing: usize,
) {
    let (before, after) = (right(without, gpu, sharing), right(with, gpu, sharing));
    let written = |counts: [usize; 4]| counts.map(|count| format!("{count:>2}")).join(" ");
    println!(
        "    {way:<58} of {:>2}: {}  -> {}",
        with.len(),
        written(before),
        written(after)
    );
    assert_eq!(without.len(), with.len());
    assert_eq!(after[0], before[0], "the plugin deals no GPUs: {with:?}");
    assert_eq!(
        after[1..],
        [with.len(); 3],
        "NIC, CPUs and memory right with the plugin: {with:?}"
    );
    assert_eq!(before[1], 0, "no NIC without the plugin: {without:?}");
    let list = nccl_list();
    assert!(
        with.iter()
            .all(|task| task.env("NCCL_IB_HCA") == Some(list.as_str())),
        "{with:?}"
    );
}

/// The command with `@` as nothing and as the flag, as one row.
fn compare(bed: &Bed, tasks: usize, sharing: usize, command: &str) {
    let (without, with) = bed.without_and_with(FLAG, tasks, command);
    row(
        &command.replace(" -w n0", "").replace(" @ $report", ""),
        &without,
        &with,
        the_only_one,
        sharing,
    );
}

fn tasks_with_gpus_of_their_own_are_placed_however_slurm_dealt_them(bed: &Bed) {
    println!("    GPU, NIC, CPUs, memory right without the plugin -> with it");
    for options in [
        "-n8 -c14 --gpus-per-task=1",
        "-n8 -c14 --exclusive --gpus-per-task=1 -m block:cyclic",
        "-n8 -c14 --exclusive --gres=gpu:8 --gpu-bind=single:1",
        "-n8 -c14 --exclusive --gres=gpu:8 --gpu-bind=map_gpu:7,6,5,4,3,2,1,0",
    ] {
        compare(bed, 8, 1, &format!("srun -w n0 {options} @ $report"));
    }
    let (without, with) = bed.without_and_with(
        "--nic-placement=gpu=local-id",
        8,
        "srun -w n0 -n8 -c14 --exclusive --gres=gpu:8 @ $report",
    );
    row(
        "srun -n8 -c14 --exclusive --gres=gpu:8 (gpu=local-id)",
        &without,
        &with,
        by_local_id,
        1,
    );
}

fn by_local_id(task: &Task) -> Option<usize> {
    task.gpus().get(task.local()).copied()
}

fn tasks_that_outnumber_the_gpus_share_the_nic_of_the_gpu_they_share(bed: &Bed) {
    for options in [
        "-n16 -c4 --gpus=8 --ntasks-per-gpu=2",
        "-n16 -c4 --exclusive --gres=gpu:8 --gpu-bind=single:2",
        "-n4 -c4 --exclusive --gres=gpu:8 --gpu-bind=map_gpu:5,5,2,2",
    ] {
        let tasks = if options.starts_with("-n16") { 16 } else { 4 };
        compare(bed, tasks, 2, &format!("srun -w n0 {options} @ $report"));
    }
    // more tasks than GPUs, and each sees them all: no GPU is one task's own, and each task has the NICs of all
    let (_, with) = bed.without_and_with(FLAG, 4, "srun -w n0 -n4 -c4 --gres=gpu:2 @ $report");
    for task in &with {
        let near: Vec<String> = task.gpus().into_iter().map(ucx_of).collect();
        assert_eq!(task.ucx(), near, "of {task:?}");
    }
}

fn overlapping_steps_of_one_job_are_placed_alike(bed: &Bed) {
    // the first step still runs, and has all that the job has, while the second one starts; srun of 23.11 refuses the variable
    // that its own salloc sets beside a step's words
    let command = "salloc --quiet -w n0 -n8 -c14 --gpus-per-task=1 @ bash -c '
        unset SLURM_TRES_PER_TASK; rm -f held release
        srun --overlap -n8 --gpus-per-task=1 bash -c \"touch held; until [ -e release ]; do sleep 0.05; done\" &
        until [ -e held ]; do sleep 0.05; done
        srun --overlap -n8 --gpus-per-task=1 $report; touch release; wait'";
    let (without, with) = bed.without_and_with(FLAG, 8, command);
    row(
        "srun --overlap, while a step of the job has all GPUs",
        &without,
        &with,
        the_only_one,
        1,
    );
}

fn an_asynchronous_step_is_placed(bed: &Bed) {
    if bed.site.release < (26, 5) {
        skip("`srun --async` came with Slurm 26.05");
    }
    let command = "rm -f async.*; salloc --quiet --stepmgr -w n0 -n8 -c14 --gpus-per-task=1 @ bash -c '
        srun --async -n8 --gpus-per-task=1 --output=$PWD/async.%t $report > step || exit
        for n in {1..100}; do [ $(cat async.* 2> /dev/null | grep -c rank=) = 8 ] && break; sleep 0.1; done; cat async.*'";
    let (without, with) = bed.without_and_with(FLAG, 8, command);
    row("srun --async", &without, &with, the_one_it_opens, 1);
}

/// Submits, waits until no such job is left, prints what the files hold; not `sbatch --wait`, which looks every two seconds.
fn submitted(options: &str, files: &str) -> String {
    format!(
        "rm -f {files}; job=$(sbatch --parsable -w n0 -n2 -c14 --gpus-per-task=1 @ {options} script) || exit
         until [ -z \"$(squeue -h -j $job)\" ]; do sleep 0.1; done; cat {files}"
    )
}

fn each_task_of_a_job_array_is_placed(bed: &Bed) {
    // so that reports of different jobs are told apart
    bed.file(
        "script",
        "#!/bin/bash\nsrun $report | sed s/rank=/rank=$SLURM_ARRAY_TASK_ID/\n",
    );
    let command = submitted("--array=1-3 --output=array.%a.out", "array.*.out");
    let (without, with) = bed.without_and_with(FLAG, 6, &command);
    row(
        "sbatch --array=1-3 -n2 --gpus-per-task=1",
        &without,
        &with,
        the_only_one,
        3,
    );
}

fn a_requeued_job_is_placed_again(bed: &Bed) {
    let script = "#!/bin/bash
        if [ \"${SLURM_RESTART_COUNT:-0}\" = 0 ]; then srun true; touch ran; sleep 60; fi
        srun $report\n";
    bed.file("script", script);
    // a requeued job waits until its credential has expired, unless it is told to start; at once would be too early for slurmd
    let command = "rm -f ran requeue.out
        job=$(sbatch --parsable --requeue -w n0 -n2 -c14 --gpus-per-task=1 @ --output=requeue.out script) || exit
        until [ -e ran ]; do sleep 0.1; done; scontrol requeue $job
        for n in {1..200}; do
            [ \"$(grep -c rank= requeue.out 2> /dev/null)\" = 2 ] && break
            [ $((n % 30)) = 25 ] && scontrol update JobId=$job StartTime=now
            sleep 0.1
        done; cat requeue.out";
    let (without, with) = bed.without_and_with(FLAG, 2, command);
    row(
        "sbatch, after scontrol requeue",
        &without,
        &with,
        the_only_one,
        1,
    );
}

fn a_step_survives_a_restart_of_slurmd_and_the_next_one_is_placed(bed: &Bed) {
    let script = "#!/bin/bash
        srun bash -c 'touch held; until [ -e release ]; do sleep 0.05; done; exec $report'
        srun $report | sed s/rank=/rank=1/\n";
    bed.file("script", script);
    let submit = |flag: &str| {
        let options = "-w n0 -n2 -c14 --gpus-per-task=1 --output=restart.out";
        let held = "until [ -e held ]; do sleep 0.05; done";
        let ran = bed.run(&format!(
            "rm -f held release restart.out; sbatch {options} {flag} script && {held}"
        ));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        bed.restart("n0");
        bed.tasks(
            4,
            "touch release; until [ -z \"$(squeue -h)\" ]; do sleep 0.1; done; cat restart.out",
        )
    };
    let (without, with) = (submit(""), submit(FLAG));
    row(
        "srun, over a restart of slurmd and after it",
        &without,
        &with,
        the_only_one,
        2,
    );
}

fn an_interactive_shell_has_nothing_set_and_its_sruns_are_placed(bed: &Bed) {
    bed.file(
        "shell",
        "#!/bin/bash\nenv -u SLURM_PROCID $report | sed s/rank=-/rank=99/\nsrun -n8 -c14 --gpus-per-task=1 $report\n",
    );
    // from inside a placed step, whose values the shell would take for the user's own
    let outer = "srun -w n1 -n1 --gres=gpu:1 --nic-placement bash -c 'conf=$SLURM_CONF; unset ${!SLURM_*} ${!_SLURM_*}; SLURM_CONF=$conf exec $0'";
    for before in ["", outer] {
        let salloc = "salloc --quiet -w n0 -n8 --exclusive --gres=gpu:8 @";
        bed.file(
            "ask",
            &format!("#!/bin/bash\nSHELL=$PWD/shell exec {salloc} $flag\n").replace('@', ""),
        );
        let command = format!("chmod +x shell ask; export flag=@; {before} ./ask");
        let with = bed.tasks(9, &command.replace('@', FLAG));
        let (tasks, shell) = with.split_at(8);
        assert!(
            shell[0].is_untouched() && shell[0].mem() == "default",
            "the shell: {:?}",
            shell[0]
        );
        let without = bed.tasks(9, &command.replace('@', "--nic-placement=off"));
        assert!(without.iter().all(Task::is_untouched), "{without:?}");
        if before.is_empty() {
            row(
                "srun in the shell of salloc",
                &without[..8],
                tasks,
                the_only_one,
                1,
            );
        }
        assert_eq!(right(tasks, the_only_one, 1), [8; 4], "{tasks:?}");
    }
}

fn a_task_with_a_display_is_placed(bed: &Bed) {
    if !bed.site.root.join("usr/bin/xauth").exists() {
        skip("no `xauth` here, without which srun forwards no display");
    }
    // nothing listens behind the display: srun asks for its cookie, and the node for a port
    let display = "export XAUTHORITY=$PWD/cookies DISPLAY=localhost:77; xauth -q add $DISPLAY . 00112233445566778899aabbccddeeff";
    let command =
        format!("{display}; srun --x11 -w n0 -n2 -c14 --gpus-per-task=1 @ $report DISPLAY");
    let (without, with) = bed.without_and_with(FLAG, 2, &command);
    for task in without.iter().chain(&with) {
        let display = task.env("DISPLAY").expect("a display");
        assert!(display != "localhost:77", "the node's own: {task:?}");
    }
    row("srun --x11", &without, &with, the_one_it_opens, 1);
}

fn tasks_are_placed_where_slurm_finds_the_gpus_itself(bed: &Bed) {
    let (without, with) = bed.without_and_with(
        FLAG,
        8,
        "srun -w n0 -n8 -c14 --exclusive --gpus-per-task=1 @ $report",
    );
    let (before, after) = (
        right(&without, the_only_one, 1),
        right(&with, the_only_one, 1),
    );
    println!("    AutoDetect, srun -n8 --gpus-per-task=1: {before:?} -> {after:?} of 8");
    assert_eq!((after[0], after[1]), (8, 8), "GPU and NIC: {with:?}");
    // where Slurm deals GPUs in order, no task can know which of its neighbours would make room for it
    assert!(
        after[2] >= before[2] && after[3] >= before[3],
        "never poorer: {with:?}"
    );
}

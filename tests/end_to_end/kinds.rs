//! Kinds of steps, each with and without the plugin: how many tasks have the right GPU, NIC, CPUs and memory; heterogeneous
//! jobs and steps, each component with its words.

use super::suite::*;

pub const ROWS: &[Case] = rows! {
    each_component_of_a_heterogeneous_step_is_placed: 4
        "srun -w n0 -n2 --gpus-per-task=1 @ $report : -w n1 -n2 --gpus-per-task=1 @ $report"
        => own, is(|task| task.node() == ["n0", "n0", "n1", "n1"][rank(task)]);
};

fn rank(task: &Task) -> usize {
    task.word("rank").parse().expect("a number")
}

pub const CASES: &[Case] = cases![
    tasks_with_gpus_of_their_own_are_placed_however_slurm_dealt_them,
    tasks_that_outnumber_the_gpus_share_the_nic_of_the_gpu_they_share,
    overlapping_steps_of_one_job_are_placed_alike,
    each_task_of_a_job_array_is_placed,
    a_requeued_job_is_placed_again,
    a_step_survives_a_restart_of_slurmd_and_the_next_one_is_placed,
    an_interactive_shell_has_nothing_set_and_its_sruns_are_placed,
    an_interactive_step_is_left_alone,
    an_off_of_any_component_holds_for_all_and_the_last_words_else,
    a_step_of_a_heterogeneous_job_names_its_components_in_any_order,
    components_of_a_step_inside_one_job_share_their_words_and_srun_says_so,
    sbatch_and_salloc_say_that_their_sruns_do_not_see_words_of_components,
    the_cpu_binding_of_one_component_counts_for_all,
    the_tasks_of_all_components_are_numbered_as_their_programs_number_them,
];

/// Slurm's own step of a job starts steps, and forwards a display.
pub const OF_SLURMS_OWN_STEP: &[Case] = cases![
    an_asynchronous_step_is_placed,
    a_task_with_a_display_is_placed
];

pub const THAT_FIND_THEIR_GPUS: &[Case] =
    cases![tasks_are_placed_where_slurm_finds_the_gpus_itself];

/// The GPU that a task uses.
type Used = fn(&Task) -> Option<usize>;

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

fn by_local_id(task: &Task) -> Option<usize> {
    task.gpus().get(task.local()).copied()
}

/// Tasks whose GPU is their own or shared as asked; whose NIC is that GPU's; whose CPUs, and whose memory, are of that GPU's
/// NUMA node.
fn right(tasks: &[Task], gpu: Used, sharing: usize) -> [usize; 4] {
    let of = |task: &Task| gpu(task).map(|gpu| (task.node().to_string(), gpu));
    let mut counts = [0; 4];
    for task in tasks {
        let Some(used) = gpu(task) else { continue };
        let users = tasks.iter().filter(|other| of(other) == of(task)).count();
        let near = task.cpus().is_subset(&cpus_near(used));
        // the kernel's default takes memory where the task runs
        let is_remembered = match task.policy() {
            ("default", _) => near,
            (_, nodes) => nodes == [numa_node_of(used)].into(),
        };
        let is_right = [
            users <= sharing,
            task.ucx() == [ucx_of(used)],
            near,
            is_remembered,
        ];
        let sums = counts.iter_mut().zip(is_right);
        sums.for_each(|(count, is_right)| *count += usize::from(is_right));
    }
    counts
}

/// One way to start tasks, of which docs/user-guide.md names some; all tasks must be right with the plugin.
#[track_caller]
fn assert_right(way: &str, bare: &[Task], with: &[Task], gpu: Used, sharing: usize) {
    let [before, after] = [bare, with].map(|tasks| right(tasks, gpu, sharing));
    let count = with.len();
    println!("    {way:<58} of {count}: {before:?} -> {after:?}");
    assert_eq!(bare.len(), count);
    // the plugin deals no GPUs
    assert_eq!(after, [before[0], count, count, count], "{with:?}");
    assert_eq!(before[1], 0, "{bare:?}");
    all(with, Task::is_listed);
}

/// The command without the option and with it.
#[track_caller]
fn compare(bed: &Bed, words: &str, tasks: usize, gpu: Used, sharing: usize, command: &str) {
    let (bare, with) = bed.both(words, tasks, command);
    let way = command.lines().next().unwrap_or_default();
    let way = way.trim_end_matches(" @ $report");
    assert_right(way, &bare, &with, gpu, sharing);
}

fn tasks_with_gpus_of_their_own_are_placed_however_slurm_dealt_them(bed: &Bed) {
    println!("    GPU, NIC, CPUs, memory right without -> with");
    for options in [
        "--gpus-per-task=1",
        "--exclusive --gpus-per-task=1 -m block:cyclic",
        "--exclusive --gres=gpu:8 --gpu-bind=single:1",
        "--exclusive --gres=gpu:8 --gpu-bind=map_gpu:7,6,5,4,3,2,1,0",
    ] {
        let step = srun(&format!("-n8 -c14 {options}"));
        compare(bed, "", 8, the_only_one, 1, &step);
    }
    let all = srun("-n8 -c14 --exclusive --gres=gpu:8");
    compare(bed, "gpu=local-id", 8, by_local_id, 1, &all);
}

fn tasks_that_outnumber_the_gpus_share_the_nic_of_the_gpu_they_share(bed: &Bed) {
    for (tasks, options) in [
        (16, "-n16 -c4 --gpus=8 --ntasks-per-gpu=2"),
        (16, "-n16 -c4 --exclusive --gres=gpu:8 --gpu-bind=single:2"),
        (
            4,
            "-n4 -c4 --exclusive --gres=gpu:8 --gpu-bind=map_gpu:5,5,2,2",
        ),
    ] {
        compare(bed, "", tasks, the_only_one, 2, &srun(options));
    }
    // more tasks than GPUs, and each sees them all: no GPU is one task's own, and each task has the NICs of all
    all(
        &bed.both("", 4, &srun("-n4 -c4 --gres=gpu:2")).1,
        Task::is_own,
    );
}

fn overlapping_steps_of_one_job_are_placed_alike(bed: &Bed) {
    // the first step still runs, and has all that the job has, while the second one starts; srun of 23.11 refuses the variable
    // that its own salloc sets beside a step's words
    let command = "salloc --quiet -w n0 -n8 -c14 --gpus-per-task=1 @ bash -c '
        unset SLURM_TRES_PER_TASK; rm -f held release
        srun --overlap -n8 --gpus-per-task=1 bash -c \"touch held; until [ -e release ]; do sleep 0.05; done\" &
        until [ -e held ]; do sleep 0.05; done
        srun --overlap -n8 --gpus-per-task=1 $report; touch release; wait'";
    compare(bed, "", 8, the_only_one, 1, command);
}

fn an_asynchronous_step_is_placed(bed: &Bed) {
    if bed.site.release < (26, 5) {
        skip("`srun --async` came with 26.05");
    }
    let command = "rm -f async.*; salloc --quiet --stepmgr -w n0 -n8 -c14 --gpus-per-task=1 @ bash -c '
        srun --async -n8 --gpus-per-task=1 --output=$PWD/async.%t $report > step || exit
        for n in {1..100}; do [ $(cat async.* 2> /dev/null | grep -c rank=) = 8 ] && break; sleep 0.1; done; cat async.*'";
    compare(bed, "", 8, the_one_it_opens, 1, command);
}

fn each_task_of_a_job_array_is_placed(bed: &Bed) {
    // so that reports of different jobs are told apart; not `sbatch --wait`, which looks every two seconds
    let script = "#!/bin/bash\nsrun $report | sed s/rank=/rank=$SLURM_ARRAY_TASK_ID/\n";
    bed.file("script", script);
    let options = "--array=1-3 --output=array.%a.out -n2 -c14 --gpus-per-task=1";
    let command = format!(
        "rm -f array.*.out; job=$(sbatch --parsable -w n0 {options} @ script) || exit
         until [ -z \"$(squeue -h -j $job)\" ]; do sleep 0.1; done; cat array.*.out"
    );
    compare(bed, "", 6, the_only_one, 3, &command);
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
    compare(bed, "", 2, the_only_one, 1, command);
}

fn a_step_survives_a_restart_of_slurmd_and_the_next_one_is_placed(bed: &Bed) {
    let script = "#!/bin/bash
        srun bash -c 'touch held; until [ -e release ]; do sleep 0.05; done; exec $report'
        srun $report | sed s/rank=/rank=1/\n";
    bed.file("script", script);
    let submit = |flag: &str| {
        let options = "-w n0 -n2 -c14 --gpus-per-task=1 --output=restart.out";
        let held = "until [ -e held ]; do sleep 0.05; done";
        let submitted = format!("sbatch {options} {flag} script && {held}");
        bed.run(&format!("rm -f held release restart.out; {submitted}"))
            .ended(0, 0);
        bed.restart("n0");
        let ended = "until [ -z \"$(squeue -h)\" ]; do sleep 0.1; done; cat restart.out";
        bed.tasks(4, &format!("touch release; {ended}"))
    };
    let (bare, with) = (submit(""), submit("--nic-placement"));
    assert_right("a restart of slurmd", &bare, &with, the_only_one, 2);
}

fn an_interactive_shell_has_nothing_set_and_its_sruns_are_placed(bed: &Bed) {
    let shell = "env -u SLURM_PROCID $report | sed s/rank=-/rank=99/";
    let step = "srun -n8 -c14 --gpus-per-task=1 $report";
    bed.file("shell", &format!("#!/bin/bash\n{shell}\n{step}\n"));
    let salloc = "salloc --quiet -w n0 -n8 --exclusive --gres=gpu:8";
    let text = format!("#!/bin/bash\nSHELL=$PWD/shell exec {salloc} $flag\n");
    bed.file("ask", &text);
    // from inside a placed step, whose values the shell would take for the user's own
    let outer = "srun -w n1 -n1 --gres=gpu:1 --nic-placement bash -c \
        'conf=$SLURM_CONF; unset ${!SLURM_*} ${!_SLURM_*}; SLURM_CONF=$conf exec $0'";
    for before in ["", outer] {
        let command = format!("chmod +x shell ask; export flag=@; {before} ./ask");
        let with = bed.with("", 9, &command);
        let (tasks, shell) = with.split_at(8);
        all(shell, Task::is_as_slurm_has_it);
        let bare = bed.with("off", 9, &command);
        all(&bare, Task::is_untouched);
        assert_right("a shell of salloc", &bare[..8], tasks, the_only_one, 1);
    }
}

fn an_interactive_step_is_left_alone(bed: &Bed) {
    let command = "salloc --quiet -w n0 -n1 --gres=gpu:1 @ bash -c '
        srun --interactive --overlap -n1 $report
        srun -n1 --gres=gpu:1 $report | sed s/rank=0/rank=1/'";
    let tasks = bed.with("", 2, command);
    all(&tasks[..1], Task::is_as_slurm_has_it);
    assert_own(&tasks[1..]);
}

fn a_task_with_a_display_is_placed(bed: &Bed) {
    if !bed.site.root.join("usr/bin/xauth").exists() {
        skip("srun forwards no display without `xauth`");
    }
    // nothing listens behind the display: srun asks for its cookie, and the node for a port
    let display = "export XAUTHORITY=$PWD/cookies DISPLAY=localhost:77; xauth -q add $DISPLAY . 00112233445566778899aabbccddeeff";
    let step = srun("--x11 -n2 -c14 --gpus-per-task=1");
    let (bare, with) = bed.both("", 2, &format!("{display}; {step} DISPLAY"));
    // the node's own
    let is_own = |task: &Task| task.env("DISPLAY").expect("a display") != "localhost:77";
    [&bare, &with].iter().for_each(|tasks| all(tasks, is_own));
    assert_right("srun --x11", &bare, &with, the_one_it_opens, 1);
}

fn tasks_are_placed_where_slurm_finds_the_gpus_itself(bed: &Bed) {
    let (bare, with) = bed.both("", 8, &srun("-n8 -c14 --exclusive --gpus-per-task=1"));
    let [before, after] = [&bare, &with].map(|tasks| right(tasks, the_only_one, 1));
    println!("    AutoDetect, srun -n8 --gpus-per-task=1: {before:?} -> {after:?} of 8");
    assert_eq!(after[..2], [8, 8], "{with:?}");
    // where Slurm deals GPUs in order, no task can know which of its neighbours would make room for it
    let is_so = after[2] >= before[2] && after[3] >= before[3];
    assert!(is_so, "never poorer: {with:?}");
}

// ---- components ----

const PART: &str = "-n1 --gpus-per-task=1";
/// srun says so where words of components differ.
const SHARED: &str = "a job's components have one placement";

/// The option with this word, or nothing.
fn flag(word: &str) -> String {
    if word.is_empty() {
        String::new()
    } else {
        format!("--nic-placement={word}")
    }
}

/// Each task is placed by these words, or none is; and none sees srun's own word.
#[track_caller]
fn assert_all(tasks: &[Task], is_placed: bool) {
    all(tasks, |task| {
        let is_so = if is_placed {
            task.is_own()
        } else {
            task.is_untouched()
        };
        is_so && task.lacks(&["SLURM_NIC_PLACEMENT_OFF"])
    });
}

/// A step of two components, a task each, with a word each.
fn components(first: &str, second: &str) -> String {
    let [first, second] = [first, second].map(flag);
    let report = "$report SLURM_NIC_PLACEMENT_OFF";
    format!("srun -w n0 {PART} {first} {report} : -w n1 {PART} {second} {report}")
}

fn an_off_of_any_component_holds_for_all_and_the_last_words_else(bed: &Bed) {
    for (first, second, is_on, differ) in [
        ("off", "closest", false, 1),
        ("closest", "off", false, 1),
        ("closest", "closest", true, 0),
        ("closest", "", true, 0),
        ("", "closest", true, 1),
        ("", "", false, 0),
    ] {
        let ran = bed.run(&components(first, second)).ended(0, 2);
        assert_all(&ran.says(differ, SHARED).tasks, is_on);
    }
    let step = components("no-env=NCCL_IB_HCA", "no-env=UCX_NET_DEVICES");
    let tasks = bed.tasks(2, &step);
    let is_so = |task: &Task| task.lacks(&["UCX_NET_DEVICES"]) && task.is_listed();
    all(&tasks, is_so);
    bed.plugin("default=closest");
    assert_all(&bed.tasks(2, &components("", "off")), false);
}

fn a_step_of_a_heterogeneous_job_names_its_components_in_any_order(bed: &Bed) {
    let report = "$report SLURM_NIC_PLACEMENT_OFF";
    let part = |group: &str, word: &str| {
        format!("--het-group={group} {PART} --nic-placement={word} {report}")
    };
    for (tasks, step, is_placed) in [
        (
            2,
            format!("{} : {}", part("1", "off"), part("0", "closest")),
            false,
        ),
        (1, part("1", ""), true),
        (2, part("0,1", ""), true),
    ] {
        let salloc = "salloc --quiet -w n0 -n1 --gres=gpu:1 : -w n1 -n1 --gres=gpu:1";
        let tasks = bed.tasks(tasks, &format!("{salloc} bash -c 'srun {step}'"));
        assert_all(&tasks, is_placed);
    }
}

fn components_of_a_step_inside_one_job_share_their_words_and_srun_says_so(bed: &Bed) {
    for (first, second, is_placed, differ) in [
        ("off", "closest", false, 1),
        ("closest", "off", false, 1),
        ("closest", "closest", true, 0),
        ("", "", false, 0),
    ] {
        // the option alone is `closest`
        let step = components(first, second).replacen("=closest", "", 1);
        let step = step.replace(PART, "-N1 -n1 --gres=gpu:1");
        let salloc = "salloc --quiet -w n0,n1 -n2 -N2 --gres=gpu:1";
        let ran = bed.run(&format!("{salloc} bash -c '{step}'")).ended(0, 2);
        assert_all(&ran.says(differ, SHARED).tasks, is_placed);
    }
}

fn sbatch_and_salloc_say_that_their_sruns_do_not_see_words_of_components(bed: &Bed) {
    bed.file("nothing", "#!/bin/bash\n");
    for job in ["salloc @ true", "sbatch --parsable -o /dev/null @ nothing"] {
        for (first, times) in [("off", 1), ("closest", 0)] {
            let [first, second] = [first, "closest"].map(flag);
            let job = job.replace('@', &format!("-w n0 -n1 {first} : -w n1 -n1 {second}"));
            let ended = "until [ -z \"$(squeue -h)\" ]; do sleep 0.1; done";
            let ran = bed.run(&format!("{job} 2>&1; {ended}"));
            let told = ran.stdout.matches("the job's sruns do not see").count();
            assert_eq!(told, times, "{job}: {}", ran.stdout);
        }
    }
}

fn the_cpu_binding_of_one_component_counts_for_all(bed: &Bed) {
    // one task for each socket, whose GPU is on the other socket; three components, since srun gives
    // one earlier component, by chance, the last's SLURM_CPU_BIND_TYPE
    for named in [Some(0), Some(1), Some(2), None] {
        let component = |k: usize| {
            let step = CROSSED.replace("-w n0 ", &format!("-w n{k} "));
            let word = if named == Some(k) {
                "--cpu-bind=cores"
            } else {
                ""
            };
            format!("{step} --nic-placement {word} $report")
        };
        let text = format!("srun {}", [0, 1, 2].map(component).join(" : "));
        all(&bed.tasks(6, &text), |task| {
            task.is_near() == named.is_none()
        });
    }
}

fn the_tasks_of_all_components_are_numbered_as_their_programs_number_them(bed: &Bed) {
    bed.plugin("default=closest set=SITE_TASK={task_id}");
    let part = "-n2 --gpus-per-task=1 $report SLURM_PROCID SITE_TASK";
    let tasks = bed.tasks(4, &format!("srun -w n0 {part} : -w n1 {part}"));
    let is_so = |task: &Task| task.env("SITE_TASK") == task.env("SLURM_PROCID");
    all(&tasks, is_so);
    let numbers: BTreeSet<_> = tasks.iter().map(|task| task.env("SLURM_PROCID")).collect();
    assert_eq!(numbers, ["0", "1", "2", "3"].map(Some).into());
}

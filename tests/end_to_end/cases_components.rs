//! Heterogeneous jobs and steps: each component and its words.

use crate::harness::{Bed, Case, cases};
use crate::machines::{cpus_near, ucx_of};
use crate::report::Task;

pub const CASES: &[Case] = cases![
    an_off_of_any_component_holds_for_all_and_the_last_words_else,
    a_step_of_a_heterogeneous_job_names_its_components_in_any_order,
    components_of_a_step_inside_one_job_share_their_words_and_srun_says_so,
    sbatch_and_salloc_say_that_their_sruns_do_not_see_words_of_components,
    the_cpu_binding_of_one_component_counts_for_all,
    the_tasks_of_all_components_are_numbered_as_their_programs_number_them,
];

const PART: &str = "-n1 --gpus-per-task=1";
/// what srun says where words of components differ
const SHARED: &str =
    "a job's components have one placement: the last words hold for all, and an `off` of any";

fn is_placed(task: &Task) -> bool {
    assert!(
        task.env("SLURM_NIC_PLACEMENT_OFF").is_none(),
        "no program sees srun's own word"
    );
    match task.is_untouched() {
        true => false,
        false => {
            assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "of {task:?}");
            true
        }
    }
}

fn placed(bed: &Bed, tasks: usize, command: &str) -> Vec<bool> {
    bed.tasks(tasks, command).iter().map(is_placed).collect()
}

fn report() -> &'static str {
    "$report SLURM_NIC_PLACEMENT_OFF"
}

fn an_off_of_any_component_holds_for_all_and_the_last_words_else(bed: &Bed) {
    let report = report();
    let line = |first: &str, second: &str| {
        format!("srun -w n0 {PART} {first} {report} : -w n1 {PART} {second} {report}")
    };
    let (off, on) = ("--nic-placement=off", "--nic-placement=closest");
    for (first, second, is_on) in [
        (off, on, false),
        (on, off, false),
        (on, on, true),
        (on, "", true),
        ("", on, true),
    ] {
        let ran = bed.run(&line(first, second));
        assert_eq!((ran.code, ran.tasks.len()), (0, 2), "{}", ran.stderr);
        assert!(
            ran.tasks.iter().all(|task| is_placed(task) == is_on),
            "`{first}`, then `{second}`"
        );
        let differ = first != second && !second.is_empty();
        assert_eq!(
            ran.stderr.matches(SHARED).count(),
            usize::from(differ),
            "{}",
            ran.stderr
        );
    }
    assert!(bed.tasks(2, &line("", "")).iter().all(Task::is_untouched));
    let words = ["no-env=NCCL_IB_HCA", "no-env=UCX_NET_DEVICES"]
        .map(|word| format!("--nic-placement={word}"));
    let ran = bed.run(&line(&words[0], &words[1]));
    let set = |task: &Task| ["UCX_NET_DEVICES", "NCCL_IB_HCA"].map(|name| task.env(name).is_some());
    assert!(
        ran.tasks.len() == 2 && ran.tasks.iter().all(|task| set(task) == [false, true]),
        "{:?}",
        ran.tasks
    );
    bed.plugin("default=closest");
    assert_eq!(
        placed(bed, 2, &line("", off)),
        [false, false],
        "the admin's default, and a user against it"
    );
}

fn a_step_of_a_heterogeneous_job_names_its_components_in_any_order(bed: &Bed) {
    let report = report();
    let salloc = |step: &str| {
        format!("salloc --quiet -w n0 -n1 --gres=gpu:1 : -w n1 -n1 --gres=gpu:1 bash -c '{step}'")
    };
    let backwards = format!(
        "srun --het-group=1 {PART} --nic-placement=off {report} : --het-group=0 {PART} --nic-placement {report}"
    );
    assert_eq!(placed(bed, 2, &salloc(&backwards)), [false, false]);
    let one = format!("srun --het-group=1 {PART} --nic-placement {report}");
    assert_eq!(placed(bed, 1, &salloc(&one)), [true]);
    let both = format!("srun --het-group=0,1 {PART} --nic-placement {report}");
    assert_eq!(placed(bed, 2, &salloc(&both)), [true, true]);
}

fn components_of_a_step_inside_one_job_share_their_words_and_srun_says_so(bed: &Bed) {
    let report = report();
    let inside = |first: &str, second: &str| {
        format!(
            "salloc --quiet -w n0,n1 -n2 -N2 --gres=gpu:1 bash -c '
             srun -w n0 -N1 -n1 --gres=gpu:1 {first} {report} : -w n1 -N1 -n1 --gres=gpu:1 {second} {report}'"
        )
    };
    for (first, second) in [("off", "closest"), ("closest", "off")] {
        let words = [first, second].map(|word| format!("--nic-placement={word}"));
        let ran = bed.run(&inside(&words[0], &words[1]));
        assert_eq!((ran.code, ran.tasks.len()), (0, 2), "{}", ran.stderr);
        assert!(!ran.tasks.iter().any(is_placed), "{:?}", ran.tasks);
        assert_eq!(ran.stderr.matches(SHARED).count(), 1, "{}", ran.stderr);
    }
    let alike = bed.run(&inside("--nic-placement", "--nic-placement=closest"));
    assert!(
        alike.tasks.iter().all(is_placed) && !alike.stderr.contains(SHARED),
        "{}",
        alike.stderr
    );
    let without = bed.tasks(2, &inside("", ""));
    assert!(without.iter().all(Task::is_untouched));
}

fn sbatch_and_salloc_say_that_their_sruns_do_not_see_words_of_components(bed: &Bed) {
    bed.file("nothing", "#!/bin/bash\n");
    let said =
        "the job's sruns do not see different words of its components: name them at each srun";
    for (program, script) in [
        ("salloc", "true"),
        ("sbatch --parsable -o /dev/null", "nothing"),
    ] {
        for (first, second, times) in [("off", "closest", 1), ("closest", "closest", 0)] {
            let words = [first, second].map(|word| format!("--nic-placement={word}"));
            let ran = bed.run(&format!(
                "{program} -w n0 -n1 {} : -w n1 -n1 {} {script} 2>&1; until [ -z \"$(squeue -h)\" ]; do sleep 0.1; done",
                words[0], words[1]
            ));
            assert_eq!(
                ran.stdout.matches(said).count(),
                times,
                "{program}: {}",
                ran.stdout
            );
        }
    }
}

fn the_cpu_binding_of_one_component_counts_for_all(bed: &Bed) {
    // one task for each socket, whose GPU is on the other socket
    let crossed = "-n2 -c112 -m block:block --gres=gpu:8 --gpu-bind=map_gpu:4,0 --nic-placement";
    // three, since srun gives one earlier component, by chance, the last's SLURM_CPU_BIND_TYPE
    for named in [Some(0), Some(1), Some(2), None] {
        let component = |k| match named == Some(k) {
            true => format!("-w n{k} {crossed} --cpu-bind=cores $report"),
            false => format!("-w n{k} {crossed} $report"),
        };
        for task in bed.tasks(6, &format!("srun {}", [0, 1, 2].map(component).join(" : "))) {
            let near = task.cpus().is_subset(&cpus_near(task.gpus()[0]));
            assert_eq!(near, named.is_none(), "{named:?}: {task:?}");
        }
    }
}

fn the_tasks_of_all_components_are_numbered_as_their_programs_number_them(bed: &Bed) {
    bed.plugin("default=closest set=SITE_TASK={task_id}");
    let report = "$report SLURM_PROCID SITE_TASK";
    let part = "-n2 --gpus-per-task=1";
    let tasks = bed.tasks(
        4,
        &format!("srun -w n0 {part} {report} : -w n1 {part} {report}"),
    );
    let number = |task: &Task| task.env("SLURM_PROCID").map(str::to_string);
    let mut numbers: Vec<_> = tasks.iter().filter_map(number).collect();
    numbers.sort();
    assert_eq!(numbers, ["0", "1", "2", "3"], "{tasks:?}");
    for task in &tasks {
        assert_eq!(task.env("SITE_TASK"), task.env("SLURM_PROCID"), "{task:?}");
    }
}

//! Heterogeneous jobs and steps: each component and its words.

use crate::harness::{Bed, Case, cases};
use crate::machines::{cpus_near, ucx_of};
use crate::report::Task;

pub const CASES: &[Case] = cases![
    each_component_of_a_heterogeneous_job_has_words_of_its_own,
    a_component_without_words_has_those_of_the_one_before_it,
    a_step_of_a_heterogeneous_job_names_its_components_in_any_order,
    components_of_a_step_inside_one_job_share_the_last_words_and_srun_says_so,
    sbatch_and_salloc_say_that_their_sruns_do_not_see_words_of_components,
    the_cpu_binding_of_one_component_is_not_taken_for_another_ones,
    the_tasks_of_all_components_are_numbered_as_their_programs_number_them,
];

const PART: &str = "-n1 --gpus-per-task=1";
/// what srun says where words of components cannot be kept apart
const SHARED: &str = "components of a step inside one job cannot be told apart: the last words hold for all";

fn is_placed(task: &Task) -> bool {
    assert!(task.env("SLURM_NIC_PLACEMENT_COMPONENTS").is_none(), "no program sees srun's own word");
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
    "$report SLURM_NIC_PLACEMENT_COMPONENTS"
}

fn each_component_of_a_heterogeneous_job_has_words_of_its_own(bed: &Bed) {
    let report = report();
    for (first, second, expected) in [("off", "closest", [false, true]), ("closest", "off", [true, false])] {
        let command = format!(
            "srun -w n0 {PART} --nic-placement={first} {report} : -w n1 {PART} --nic-placement={second} {report}"
        );
        let ran = bed.run(&command);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        let found: Vec<bool> = ran.tasks.iter().map(is_placed).collect();
        assert_eq!(found, expected, "first `{first}`, then `{second}`");
    }
    let without = bed.tasks(2, &format!("srun -w n0 {PART} {report} : -w n1 {PART} {report}"));
    assert!(without.iter().all(Task::is_untouched));
    // each by its own words, in more than whether it is placed
    let words =
        ["no-env=NCCL_IB_HCA", "no-env=UCX_NET_DEVICES"].map(|word| format!("--nic-placement={word}"));
    let [first, second] = &words;
    let tasks = bed.tasks(2, &format!("srun -w n0 {PART} {first} {report} : -w n1 {PART} {second} {report}"));
    let set = |task: &Task| ["UCX_NET_DEVICES", "NCCL_IB_HCA"].map(|name| task.env(name).is_some());
    assert_eq!([set(&tasks[0]), set(&tasks[1])], [[true, false], [false, true]], "{tasks:?}");
}

fn a_component_without_words_has_those_of_the_one_before_it(bed: &Bed) {
    let report = report();
    for (first, second, expected) in
        [("--nic-placement", "", [true, true]), ("", "--nic-placement", [false, true])]
    {
        let command = format!("srun -w n0 {PART} {first} {report} : -w n1 {PART} {second} {report}");
        assert_eq!(placed(bed, 2, &command), expected, "`{first}`, then `{second}`");
    }
    bed.plugin("default=closest");
    let command = format!("srun -w n0 {PART} {report} : -w n1 {PART} --nic-placement=off {report}");
    assert_eq!(placed(bed, 2, &command), [true, false], "the admin's default, and who is against it");
}

fn a_step_of_a_heterogeneous_job_names_its_components_in_any_order(bed: &Bed) {
    let report = report();
    let salloc = |step: &str| {
        format!("salloc --quiet -w n0 -n1 --gres=gpu:1 : -w n1 -n1 --gres=gpu:1 bash -c '{step}'")
    };
    let backwards = format!(
        "srun --het-group=1 {PART} --nic-placement {report} : --het-group=0 {PART} --nic-placement=off {report}"
    );
    let tasks = bed.tasks(2, &salloc(&backwards));
    for task in &tasks {
        assert_eq!(is_placed(task), task.node() == "n1", "{task:?}");
    }
    let one = format!("srun --het-group=1 {PART} --nic-placement {report}");
    assert_eq!(placed(bed, 1, &salloc(&one)), [true]);
    let both = format!("srun --het-group=0,1 {PART} --nic-placement {report}");
    assert_eq!(placed(bed, 2, &salloc(&both)), [true, true]);
}

fn components_of_a_step_inside_one_job_share_the_last_words_and_srun_says_so(bed: &Bed) {
    let report = report();
    let inside = |first: &str, second: &str| {
        format!(
            "salloc --quiet -w n0,n1 -n2 -N2 --gres=gpu:1 bash -c '
             srun -w n0 -N1 -n1 --gres=gpu:1 {first} {report} : -w n1 -N1 -n1 --gres=gpu:1 {second} {report}'"
        )
    };
    for (first, second, expected) in [("off", "closest", true), ("closest", "off", false)] {
        let words = [first, second].map(|word| format!("--nic-placement={word}"));
        let ran = bed.run(&inside(&words[0], &words[1]));
        assert_eq!((ran.code, ran.tasks.len()), (0, 2), "{}", ran.stderr);
        assert!(ran.tasks.iter().all(|task| is_placed(task) == expected), "{:?}", ran.tasks);
        assert_eq!(ran.stderr.matches(SHARED).count(), 1, "{}", ran.stderr);
    }
    let alike = bed.run(&inside("--nic-placement", "--nic-placement=closest"));
    assert!(alike.tasks.iter().all(is_placed) && !alike.stderr.contains(SHARED), "{}", alike.stderr);
    let without = bed.tasks(2, &inside("", ""));
    assert!(without.iter().all(Task::is_untouched));
}

fn sbatch_and_salloc_say_that_their_sruns_do_not_see_words_of_components(bed: &Bed) {
    bed.file("nothing", "#!/bin/bash\n");
    let said = "the job's sruns do not see different words of its components: name them at each srun";
    for (program, script) in [("salloc", "true"), ("sbatch --parsable -o /dev/null", "nothing")] {
        for (first, second, times) in [("off", "closest", 1), ("closest", "closest", 0)] {
            let words = [first, second].map(|word| format!("--nic-placement={word}"));
            let ran = bed.run(&format!(
                "{program} -w n0 -n1 {} : -w n1 -n1 {} {script} 2>&1; until [ -z \"$(squeue -h)\" ]; do sleep 0.1; done",
                words[0], words[1]
            ));
            assert_eq!(ran.stdout.matches(said).count(), times, "{program}: {}", ran.stdout);
        }
    }
}

fn the_cpu_binding_of_one_component_is_not_taken_for_another_ones(bed: &Bed) {
    // one task for each socket, whose GPU is on the other socket
    let crossed = "-n2 -c112 -m block:block --gres=gpu:8 --gpu-bind=map_gpu:4,0 --nic-placement";
    for (first, second) in [("--cpu-bind=cores", ""), ("", "--cpu-bind=cores")] {
        let command = format!("srun -w n0 {crossed} {first} $report : -w n1 {crossed} {second} $report");
        for task in bed.tasks(4, &command) {
            let bind = if task.node() == "n0" { first } else { second };
            let near = task.cpus().is_subset(&cpus_near(task.gpus()[0]));
            assert_eq!(near, bind.is_empty(), "`{first}`, then `{second}`: {task:?}");
        }
    }
}

fn the_tasks_of_all_components_are_numbered_as_their_programs_number_them(bed: &Bed) {
    bed.plugin("default=closest set=SITE_TASK={task_id}");
    let report = "$report SLURM_PROCID SITE_TASK";
    let part = "-n2 --gpus-per-task=1";
    let tasks = bed.tasks(4, &format!("srun -w n0 {part} {report} : -w n1 {part} {report}"));
    let number = |task: &Task| task.env("SLURM_PROCID").map(str::to_string);
    let mut numbers: Vec<_> = tasks.iter().filter_map(number).collect();
    numbers.sort();
    assert_eq!(numbers, ["0", "1", "2", "3"], "{tasks:?}");
    for task in &tasks {
        assert_eq!(task.env("SITE_TASK"), task.env("SLURM_PROCID"), "{task:?}");
    }
}

//! Jobs with a /tmp, a mount namespace and a device cgroup of their own.  The SPANK hooks of user and tasks run inside
//! (`contain_spank`, from 24.05 on).

use crate::cases_machine::assert_nics_are_those_of_the_open_gpus;
use crate::harness::{Bed, Case, cases, skip};
use crate::report::Task;
use std::time::Duration;

pub const CASES: &[Case] = cases![
    a_job_in_a_mount_namespace_of_its_own_is_placed_by_the_gpus_that_it_may_open,
    the_step_that_keeps_the_jobs_namespace_is_left_alone,
];

/// Starts `steps` in one job with four tasks and all GPUs.  Returns the steps' tasks, and what the steps printed.
///
/// Now and then Slurm cannot make a job's namespace while it takes down the previous job's, with or without a plugin.  The
/// job is then tried again.
fn in_a_job(bed: &Bed, tasks: usize, steps: &str) -> (Vec<Task>, String) {
    let failures = || bed.log("n0").matches("_create_ns: ").count();
    for _ in 0..8 {
        let before = failures();
        let ran = bed.run(&format!(
            "for i in {{1..50}}; do [ \"$(sinfo -h -n n0 -o %T)\" = idle ] && break; sleep 0.1; done
             salloc --quiet -w n0 -n4 --gres=gpu:8 bash -c '{steps}'"
        ));
        if failures() == before {
            assert_eq!((ran.code, ran.tasks.len()), (0, tasks), "{}", ran.stderr);
            return (ran.tasks, ran.stdout);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    skip("this Slurm could not make a namespace for a job (`_create_ns` in slurmd's log)")
}

fn a_job_in_a_mount_namespace_of_its_own_is_placed_by_the_gpus_that_it_may_open(bed: &Bed) {
    let step = "srun -n4 --gpus-per-task=1 @ bash -c \"touch /tmp/of-the-job; ls /tmp; $report\"";
    let (bare, asked) = (step.replace('@', ""), step.replace('@', "--nic-placement"));
    let (tasks, printed) = in_a_job(bed, 8, &format!("{bare} | sed s/rank=/rank=1/; {asked}"));
    let (placed, without) = tasks.split_at(4);
    assert!(without.iter().all(Task::is_untouched));
    assert_nics_are_those_of_the_open_gpus(bed, placed, 1);
    let mut files = printed.lines().filter(|line| !line.starts_with("rank="));
    assert!(
        files.all(|file| file == "of-the-job"),
        "the job's /tmp is not its own: {printed}"
    );
}

fn the_step_that_keeps_the_jobs_namespace_is_left_alone(bed: &Bed) {
    bed.plugin("default=closest");
    let (tasks, _) = in_a_job(bed, 2, "srun -n2 --gpus-per-task=1 $report");
    assert_nics_are_those_of_the_open_gpus(bed, &tasks, 1);
    let log = bed.log("n0");
    let ours = |step: &str| {
        log.lines()
            .filter(|line| line.contains(step) && line.contains("nic-placement: "))
            .count()
    };
    assert!(log.contains(".extern] "), "there was no such step");
    assert!(ours(".0] ") > 0 && ours(".extern] ") == 0, "{log}");
}

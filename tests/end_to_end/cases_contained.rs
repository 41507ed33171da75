//! Jobs with a /tmp, a mount namespace and a device cgroup of their own, the SPANK hooks of user and tasks inside
//! (`contain_spank`, from 24.05 on).

use crate::cases_machine::assert_nics_are_those_of_the_open_gpus;
use crate::harness::{Bed, Case, cases, skip};

pub const CASES: &[Case] = cases![
    a_job_in_a_mount_namespace_of_its_own_is_placed_by_the_gpus_that_it_may_open,
    the_step_that_keeps_the_jobs_namespace_is_left_alone,
];

/// Some releases fail now and then to make a namespace, with or without a plugin; that is tried again, and told.
fn with_a_namespace<T>(bed: &Bed, case: impl Fn() -> T) -> T {
    let failures = || bed.log("n0").matches("_create_ns: ").count();
    for _ in 0..4 {
        let before = failures();
        bed.run("srun -w n0 true");
        if failures() == before {
            return case();
        }
    }
    skip("this Slurm could not make a namespace for its jobs (`_create_ns` in slurmd's log)")
}

fn a_job_in_a_mount_namespace_of_its_own_is_placed_by_the_gpus_that_it_may_open(bed: &Bed) {
    with_a_namespace(bed, || {
        let task = "bash -c \"touch /tmp/of-the-job; ls /tmp; $report\"";
        let command = format!("srun -w n0 -n4 --gpus-per-task=1 @ {task}");
        let (_, placed) = bed.without_and_with("--nic-placement", 4, &command);
        assert_nics_are_those_of_the_open_gpus(bed, &placed, 1);
        let listed = bed.run(&command.replace('@', "")).stdout;
        let others: Vec<&str> =
            listed.lines().filter(|line| !line.starts_with("rank=") && *line != "of-the-job").collect();
        assert!(others.is_empty(), "the job's /tmp is not its own: {others:?}");
    });
}

fn the_step_that_keeps_the_jobs_namespace_is_left_alone(bed: &Bed) {
    bed.plugin("default=closest");
    with_a_namespace(bed, || {
        let tasks = bed.tasks(2, "srun -w n0 -n2 --gpus-per-task=1 $report");
        assert_nics_are_those_of_the_open_gpus(bed, &tasks, 1);
    });
    let log = bed.log("n0");
    let ours = |step: &str| {
        log.lines().filter(|line| line.contains(step) && line.contains("nic-placement: ")).count()
    };
    assert!(log.contains(".extern] "), "there was no such step");
    assert!(ours(".0] ") > 0 && ours(".extern] ") == 0, "{log}");
}

//! Steps that are observed, and shares of the jobs for which the admin's default holds.

use super::conf::{errors, shown, site, step};
use super::*;

/// The lines of slurmd's log about a step that is observed.
fn observed(played: &Played) -> Vec<String> {
    texts(&played.log(), "info")
        .into_iter()
        .filter(|line| line.contains("observe: step "))
        .collect()
}

#[test]
fn an_observed_step_is_one_line_of_the_log_and_nothing_else() {
    let tree = site("conf-observe", "default=observe,rail,strict,verbose\n");
    let played = play!(
        step(&tree)
            .word("--job-id", "77")
            .word("--step-id", "3")
            .task_per_gpu()
    );
    played.assert_untouched();
    assert_eq!(shown(&played), [""; 0], "{played}");
    let lines = texts(&played.log(), "info");
    assert_eq!((lines.len(), observed(&played).len()), (1, 1), "{played}");
    for words in [
        "step 77.3: 8 tasks: gpu 0 mlx5_0:1 PIX, gpu 1 mlx5_3:1 PIX",
        "policy `rail`",
        "left out: mlx5_1 ",
    ] {
        assert!(lines[0].contains(words), "no `{words}`\n{played}");
    }
    play!(step(&tree).option("closest").task_per_gpu()).assert_nearest_nics();
    let asked = play!(step(&tree).option("observe").task_per_gpu());
    assert_eq!(observed(&asked).len(), 1, "{asked}");
}

#[test]
fn a_step_that_cannot_be_placed_does_not_fail_where_it_is_observed() {
    let nowhere = private_folder("observed").join("not-there");
    let tree = site("conf-observe-nothing", "default=observe,strict\n");
    let step = Step::in_context("remote")
        .site(&tree)
        .arg(&format!("topology={}", nowhere.display()));
    let played = play!(step.task_per_gpu());
    played.assert_untouched();
    assert!(
        observed(&played)[0].contains("nothing would be set: cannot read"),
        "{played}"
    );
    assert_eq!(errors(&played), [""; 0], "{played}");
}

#[test]
fn a_share_of_the_jobs_is_placed_the_same_on_all_nodes_and_in_all_steps() {
    let tree = site(
        "conf-rollout",
        "default=closest rollout=50%\nPartitionName=seen rollout=50%,observe\n",
    );
    // the share by the documented formula
    let is_in = |job: u64| (job * 2_654_435_761 % (1 << 32)) * 100 / (1 << 32) < 50;
    for job in 1..=8u64 {
        for (number, node) in [("0", "0"), ("5", "1")] {
            let of_job = |step: Step| {
                step.word("--job-id", job.to_string())
                    .word("--step-id", number)
                    .word("--node-id", node)
            };
            let played = play!(of_job(step(&tree)).task_per_gpu());
            match is_in(job) {
                true => played.assert_nearest_nics(),
                false => played.assert_untouched(),
            }
            let seen = play!(
                of_job(step(&tree))
                    .env("SLURM_JOB_PARTITION=seen")
                    .task_per_gpu()
            );
            assert_eq!(
                observed(&seen).len(),
                usize::from(!is_in(job)),
                "job {job}\n{seen}"
            );
        }
        play!(
            step(&tree)
                .word("--job-id", job.to_string())
                .option("closest")
                .task_per_gpu()
        )
        .assert_nearest_nics();
    }
    assert!((1..=8).any(is_in) && !(1..=8).all(is_in));
}

#[test]
fn the_components_of_a_job_are_in_a_share_together() {
    let tree = site("conf-het", "default=closest rollout=50%\n");
    // job 2 is in the first half, 3 is not: both are of job 2
    for job in ["2", "3"] {
        let step = step(&tree)
            .word("--job-id", job)
            .env("SLURM_HET_SIZE=2")
            .env("SLURM_JOB_ID=2");
        play!(step.task_per_gpu()).assert_nearest_nics();
    }
    play!(
        step(&tree)
            .word("--job-id", "3")
            .env("SLURM_JOB_ID=2")
            .task_per_gpu()
    )
    .assert_untouched();
}

// ---- single variables ----

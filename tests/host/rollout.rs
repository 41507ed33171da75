//! Steps that are observed, and shares of the jobs for which the admin's default holds.

use super::conf::{at, site};
use super::*;

/// The lines of slurmd's log about a step that is observed.
fn observed(played: &Played) -> Vec<String> {
    let mut lines = played.told("info");
    lines.retain(|line| line.contains("observe: step "));
    lines
}

#[test]
fn an_observed_step_is_one_line_of_the_log_and_nothing_else() {
    let tree = site("conf-observe", "default=observe,rail,strict,verbose\n");
    let played = at(&tree, "--job-id 77 --step-id 3").eight();
    played.untouched().quiet();
    let lines = (played.told("info").len(), observed(&played).len());
    assert_eq!(lines, (1, 1), "{played}");
    let gpus = "step 77.3: 8 tasks: gpu 0 mlx5_0:1 PIX, gpu 1 mlx5_3:1 PIX";
    played.says_at("info", &[gpus, "policy `rail`", "left out: mlx5_1 "]);
    at(&tree, "--option closest").eight().near();
    let asked = at(&tree, "--option observe").eight();
    assert_eq!(observed(&asked).len(), 1, "{asked}");
}

#[test]
fn a_step_that_cannot_be_placed_does_not_fail_where_it_is_observed() {
    let nowhere = private_folder("observed").join("not-there");
    let tree = site("conf-observe-nothing", "default=observe,strict\n");
    let step = Step::in_context("remote").site(&tree);
    let played = step.arg(&format!("topology={}", nowhere.display())).eight();
    played.untouched();
    played.says_at("info", &["observe: step ", "would be set: cannot read"]);
    assert_eq!(played.told("error"), [""; 0], "{played}");
}

#[test]
fn a_share_of_the_jobs_is_placed_the_same_on_all_nodes_and_in_all_steps() {
    let conf = "default=closest rollout=50%\nPartitionName=seen rollout=50%,observe\n";
    let tree = site("conf-rollout", conf);
    // the share by the documented formula
    let is_in = |job: u64| (job * 2_654_435_761 % (1 << 32)) * 100 / (1 << 32) < 50;
    for job in 1..=8u64 {
        for place in ["--step-id 0 --node-id 0", "--step-id 5 --node-id 1"] {
            let words = format!("--job-id {job} {place}");
            at(&tree, &words).eight().is_placed(is_in(job));
            let seen = at(&tree, &words).env("SLURM_JOB_PARTITION=seen").eight();
            assert_eq!(observed(&seen).len(), usize::from(!is_in(job)), "{seen}");
        }
        let step = at(&tree, &format!("--job-id {job} --option closest"));
        step.eight().near();
    }
    assert!((1..=8).any(is_in) && !(1..=8).all(is_in));
    // job 2 is in the first half, 3 is not: as components both are of job 2
    let two = "--env SLURM_HET_SIZE=2";
    for (job, components, is) in [(2, two, true), (3, two, true), (3, "", false)] {
        let words = format!("--job-id {job} {components} --env SLURM_JOB_ID=2");
        at(&tree, &words).eight().is_placed(is);
    }
}

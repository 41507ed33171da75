//! Does the attack do what it says?  The generator makes the same lines from the same seed, and the judge finds lines that are
//! made worse on purpose.

use crate::finds::finds;
use crate::line::Pair;
use crate::pairs::{self, Job};
use crate::slurm::bed::Bed;
use crate::targets::{Facts, target};
use crate::{Attack, Tally, drawn};

/// Counts a sentence that must be true.
fn check(tally: &mut Tally, sentence: &str, is_true: bool, why: impl FnOnce() -> String) {
    match is_true {
        true => {
            tally.passed += 1;
            println!("ok {sentence}");
        }
        false => {
            tally.failed += 1;
            println!("FAILED {sentence}: {}", why());
        }
    }
}

pub fn of_the_generator(attack: &Attack, tally: &mut Tally) {
    let seed = attack.seed;
    let lines = |seed: u64| {
        (0..500)
            .map(|index| drawn(attack.release, seed, index).2)
            .collect::<Vec<Pair>>()
    };
    let first = lines(seed);
    check(
        tally,
        "the_same_seed_gives_the_same_lines",
        first == lines(seed),
        String::new,
    );
    check(
        tally,
        "another_seed_gives_other_lines",
        first != lines(seed + 1),
        String::new,
    );
    let missing = [
        "-p q",
        "bind=core",
        "mem=strict",
        "--gpus-per-task=2",
        "--gres=gpu:",
        "--gpu-bind=mask_gpu",
        "plane=2",
        "--hint=",
        "--exclusive",
        "--overcommit",
        "--cpu-bind=map_cpu",
        "--mem-bind=mask_mem",
        "salloc",
        "sbatch",
        "bash -c 'srun",
        "SLURM_HINT=",
        "mask_ldom",
        "--export=NONE",
        "exit 7",
    ]
    .into_iter()
    .find(|word| !first.iter().any(|pair| pair.with.contains(word)));
    check(
        tally,
        "each_kind_of_option_is_drawn",
        missing.is_none(),
        || format!("no `{}`", missing.unwrap()),
    );
    let is_alike = first
        .iter()
        .all(|pair| pair.without.starts_with(&pair.with[..4]));
    check(tally, "both_halves_start_alike", is_alike, String::new);
}

/// The sentence, the half without the plugin and with it (`@` is srun on the node, `%` a GPU for each task; empty: `SOUND`),
/// and words that the judge must say (empty: nothing).
const SABOTAGED: &str = "\
    a_line_is_not_worse_than_itself | | |
    what_slurm_says_by_chance_is_not_counted | | @ -n2 -c4 % $report; echo srun: Job allocation 7 has been revoked >&2 |
    a_job_that_slurm_revokes_is_found | | echo srun: error: Job allocation 7 has been revoked >&2; exit 1 | the exit status is 1
    tasks_that_share_one_core_are_found | | @ -n2 -c4 % --cpu-bind=map_cpu:0,0 $report | CPUs where it had
    two_threads_of_one_core_in_place_of_two_cores_are_found | @ -n1 -c4 % --cpu-bind=mask_cpu:0x3 $report | @ -n1 -c4 % --cpu-bind=mask_cpu:0x10000000000000000000000000001 $report | cores where it had
    a_task_far_from_its_gpu_is_found | @ -n1 -c224 % --cpu-bind=map_cpu:0 $report | @ -n1 -c224 % --cpu-bind=map_cpu:56 $report | farther from its GPU
    cpus_that_the_step_did_not_have_are_found | | @ -n2 -c40 % $report | that it did not have
    memory_fenced_away_is_found | | @ -n2 -c4 % --mem-bind=map_mem:1,1 $report | fenced to memory
    other_gpus_are_found | | @ -n2 -c4 --gres=gpu:2 $report | sees other GPUs
    another_exit_status_is_found | | @ -n2 -c4 % bash -c '$report; exit 3' | the exit status is 3
    another_line_on_stderr_is_found | | @ -n2 -c4 % $report; echo more >&2 | stderr has
    a_missing_task_is_found | | @ -n1 -c4 % $report | 2 tasks ran without, 1 with
    a_line_that_is_refused_is_found | | @ -n2 --gres=gpu:9 $report | 2 tasks ran without, 0 with
    a_wait_is_found | | sleep 8; @ -n2 -c4 % $report | it took";

const SOUND: &str = "@ -n2 -c4 % $report";

pub fn of_the_judge(bed: &Bed, tally: &mut Tally) {
    let facts = Facts::of(bed, "n0");
    // two nodes that are alike, so that one waits while the other goes on
    let targets = [target(0), target(4)];
    let columns = |row: &'static str| row.split('|').map(str::trim).collect();
    let rows: Vec<Vec<&str>> = SABOTAGED.lines().map(columns).collect();
    let pair = |(k, row): (usize, &Vec<&str>)| {
        let node = targets[k % 2].node;
        let srun = format!("srun -p p{} -w {node} -N1", &node[1..]);
        let line = |line: &str| {
            let line = if line.is_empty() { SOUND } else { line };
            line.replace('@', &srun).replace('%', "--gpus-per-task=1")
        };
        Pair {
            without: line(row[1]),
            with: line(row[2]),
            has_gpus: true,
            holders: (k == 0).then(|| "-n1 -c14".into()).into_iter().collect(),
            ..Pair::default()
        }
    };
    let pairs: Vec<Pair> = rows.iter().enumerate().map(pair).collect();
    let job = |(k, pair)| Job {
        index: k as u64,
        target: targets[k % 2],
        pair,
    };
    let jobs: Vec<Job> = pairs.iter().enumerate().map(job).collect();
    let outcomes = pairs::run(bed, &jobs, 9);
    let held = vec![(0..14).collect::<crate::judge::Set>()];
    check(
        tally,
        "the_cpus_of_another_job_are_known",
        outcomes[0].held == held,
        || format!("{:?}", outcomes[0].held),
    );
    for (k, row) in rows.iter().enumerate() {
        let said = finds(&facts, &targets[k % 2], &pairs[k], &outcomes[k]);
        let is_right = match row[3] {
            "" => said.is_empty(),
            expected => said.iter().any(|line| line.contains(expected)),
        };
        check(tally, row[0], is_right, || {
            format!("the judge says {said:?}")
        });
    }
}

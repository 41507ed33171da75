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

/// `(the sentence, the half without, the half with, what the judge must say)`; an empty half is `SOUND`
const SABOTAGED: &[(&str, &str, &str, &str)] = &[
    (
        "tasks_that_share_one_core_are_found",
        "",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 --cpu-bind=map_cpu:0,0 $report",
        "CPUs where it had",
    ),
    (
        "two_threads_of_one_core_in_place_of_two_cores_are_found",
        "srun -p p0 -w n0 -N1 -n1 -c4 --gpus-per-task=1 --cpu-bind=mask_cpu:0x3 $report",
        "srun -p p0 -w n0 -N1 -n1 -c4 --gpus-per-task=1 --cpu-bind=mask_cpu:0x10000000000000000000000000001 $report",
        "cores where it had",
    ),
    (
        "a_task_far_from_its_gpu_is_found",
        "srun -p p0 -w n0 -N1 -n1 -c224 --gpus-per-task=1 --cpu-bind=map_cpu:0 $report",
        "srun -p p0 -w n0 -N1 -n1 -c224 --gpus-per-task=1 --cpu-bind=map_cpu:56 $report",
        "farther from its GPU",
    ),
    (
        "cpus_that_the_step_did_not_have_are_found",
        "",
        "srun -p p0 -w n0 -N1 -n2 -c40 --gpus-per-task=1 $report",
        "that it did not have",
    ),
    (
        "memory_fenced_away_is_found",
        "",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 --mem-bind=map_mem:1,1 $report",
        "fenced to memory",
    ),
    (
        "other_gpus_are_found",
        "",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gres=gpu:2 $report",
        "sees other GPUs",
    ),
    (
        "another_exit_status_is_found",
        "",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 bash -c '$report; exit 3'",
        "the exit status is 3",
    ),
    (
        "another_line_on_stderr_is_found",
        "",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 $report; echo more >&2",
        "stderr has",
    ),
    (
        "a_missing_task_is_found",
        "",
        "srun -p p0 -w n0 -N1 -n1 -c4 --gpus-per-task=1 $report",
        "2 tasks ran without, 1 with",
    ),
    (
        "a_line_that_is_refused_is_found",
        "",
        "srun -p p0 -w n0 -N1 -n2 --gres=gpu:9 $report",
        "2 tasks ran without, 0 with",
    ),
    (
        "a_wait_is_found",
        "",
        "sleep 8; srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 $report",
        "it took",
    ),
];

const SOUND: &str = "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 $report";

pub fn of_the_judge(bed: &Bed, tally: &mut Tally) {
    let facts = Facts::of(bed, "n0");
    // two nodes that are alike, so that one waits while the other goes on
    let targets = [target(0), target(4)];
    let or_sound = |line: &str| if line.is_empty() { SOUND } else { line }.to_string();
    let pair = |without: &str, with: &str| Pair {
        without: or_sound(without),
        with: or_sound(with),
        has_gpus: true,
        ..Pair::default()
    };
    let busy = Pair {
        holders: vec!["-n1 -c14".into()],
        ..pair("", "")
    };
    let sabotaged = SABOTAGED
        .iter()
        .map(|(_, without, with, _)| pair(without, with));
    let pairs: Vec<Pair> = [pair("", ""), busy].into_iter().chain(sabotaged).collect();
    let on_node = |k: usize, line: &str| match k % 2 {
        0 => line.to_string(),
        _ => line.replace("-p p0 -w n0", "-p p6 -w n6"),
    };
    let pairs: Vec<Pair> = pairs
        .into_iter()
        .enumerate()
        .map(|(k, pair)| Pair {
            without: on_node(k, &pair.without),
            with: on_node(k, &pair.with),
            ..pair
        })
        .collect();
    let job = |(k, pair)| Job {
        index: k as u64,
        target: targets[k % 2],
        pair,
    };
    let jobs: Vec<Job> = pairs.iter().enumerate().map(job).collect();
    let outcomes = pairs::run(bed, &jobs, 9);
    let said = |k: usize| finds(&facts, &targets[k % 2], &pairs[k], &outcomes[k]);
    check(
        tally,
        "a_line_is_not_worse_than_itself",
        said(0).is_empty(),
        || format!("{:?}", said(0)),
    );
    let held = vec![(0..14).collect::<crate::judge::Set>()];
    check(
        tally,
        "the_cpus_of_another_job_are_known",
        outcomes[1].held == held,
        || format!("{:?}", outcomes[1].held),
    );
    for (k, (sentence, .., expected)) in SABOTAGED.iter().enumerate() {
        let said = said(k + 2);
        let is_found = said.iter().any(|line| line.contains(expected));
        check(tally, sentence, is_found, || {
            format!("the judge says {said:?}")
        });
    }
}

//! Does the attack do what it says?  The generator makes the same lines from the same seed, and the judge finds lines that are
//! made worse on purpose.

use crate::bed::Bed;
use crate::finds::finds;
use crate::line::Pair;
use crate::pairs::{self, Job};
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
    let lines = |seed: u64| (0..500).map(|index| drawn(seed, index).2).collect::<Vec<Pair>>();
    let first = lines(seed);
    check(tally, "the_same_seed_gives_the_same_lines", first == lines(seed), String::new);
    check(tally, "another_seed_gives_other_lines", first != lines(seed + 1), String::new);
    let missing = [
        "-p q", "bind=core", "mem=strict", "--gpus-per-task=2", "--gres=gpu:", "--gpu-bind=mask_gpu", "plane=2",
        "--hint=", "--exclusive", "--overcommit", "--cpu-bind=map_cpu", "--mem-bind=mask_mem", "salloc", "exit 7",
    ]
    .into_iter()
    .find(|word| !first.iter().any(|pair| pair.with.contains(word)));
    check(tally, "each_kind_of_option_is_drawn", missing.is_none(), || format!("no `{}`", missing.unwrap()));
    let is_alike = first.iter().all(|pair| pair.without.starts_with(&pair.with[..4]));
    check(tally, "both_halves_start_alike", is_alike, String::new);
}

/// `(the sentence, what the half with the plugin runs, what the judge must say)`; the half without runs `SOUND`
const SABOTAGED: &[(&str, &str, &str)] = &[
    (
        "tasks_that_share_one_core_are_found",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 --cpu-bind=map_cpu:0,0 $report",
        "share of",
    ),
    (
        "two_threads_of_one_core_in_place_of_two_cores_are_found",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 --cpu-bind=mask_cpu:0x1,0x2 $report",
        "cores",
    ),
    (
        "tasks_far_from_their_gpus_are_found",
        "srun -p p0 -w n0 -N1 -n2 -c4 -m block:block --gpus-per-task=1 --gpu-bind=map_gpu:0,0 --exclusive \
         --cpu-bind=map_cpu:56,57 $report",
        "",
    ),
    (
        "memory_fenced_away_is_found",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 --mem-bind=map_mem:1,1 $report",
        "fenced to memory",
    ),
    (
        "another_exit_status_is_found",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 bash -c '$report; exit 3'",
        "the exit status is 3",
    ),
    (
        "another_line_on_stderr_is_found",
        "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 $report; echo more >&2",
        "stderr has",
    ),
    ("a_missing_task_is_found", "srun -p p0 -w n0 -N1 -n1 -c4 --gpus-per-task=1 $report", "1 with"),
    ("a_line_that_is_refused_is_found", "srun -p p0 -w n0 -N1 -n2 --gres=gpu:9 $report", "the exit status is"),
    (
        "a_wait_is_found",
        "sleep 8; srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 $report",
        "it took",
    ),
];

const SOUND: &str = "srun -p p0 -w n0 -N1 -n2 -c4 --gpus-per-task=1 $report";

pub fn of_the_judge(bed: &Bed, tally: &mut Tally) {
    let (facts, target) = (Facts::of(bed, "n0"), target(0));
    let pair = |with: &str| Pair {
        without: SOUND.into(),
        with: with.into(),
        asked: Some(4),
        has_gpus: true,
        ..Pair::default()
    };
    let pairs: Vec<Pair> = [SOUND].into_iter().chain(SABOTAGED.iter().map(|row| row.1)).map(pair).collect();
    let jobs: Vec<Job> =
        pairs.iter().zip(0..).map(|(pair, index)| Job { index, target, pair }).collect();
    let outcomes = pairs::run(bed, &jobs, 9);
    let said = |k: usize| finds(&facts, &target, &pairs[k], &outcomes[k]);
    check(tally, "a_line_is_not_worse_than_itself", said(0).is_empty(), || format!("{:?}", said(0)));
    for (k, (sentence, _, expected)) in SABOTAGED.iter().enumerate() {
        let said = said(k + 1);
        let is_found = said.iter().any(|line| line.contains(expected));
        check(tally, sentence, is_found, || format!("the judge says {said:?}"));
    }
}

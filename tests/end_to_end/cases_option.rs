//! The words: the option, the environment, plugstack.conf, and what they print.

use crate::harness::{Bed, Case, cases};
use crate::machines::{NO_RDMA, nccl_list, ucx_of, ucx_of_all};
use crate::report::Task;

pub const CASES: &[Case] = cases![
    a_typo_fails_in_srun_before_anything_is_queued,
    help_prints_the_words_and_queues_nothing,
    help_that_cannot_be_printed_runs_no_job,
    the_option_stands_in_sruns_own_help,
    the_environment_variable_asks_like_the_option,
    the_admins_default_asks_for_every_job,
    the_command_line_wins_over_the_environment_and_that_over_the_default,
    off_wins_over_the_default_and_the_environment,
    in_an_allocation_the_nearer_word_wins,
    in_a_batch_job_the_nearer_word_wins,
    verbose_prints_a_row_for_each_task_and_its_reasons_and_nothing_else_changes,
    without_verbose_nothing_is_printed,
    dry_run_prints_the_plan_and_changes_nothing,
    strict_places_a_healthy_step_as_usual,
    strict_ends_a_task_that_cannot_be_placed_and_says_why,
    numa_and_all_give_more_nics_than_closest,
    an_excluded_nic_is_given_to_nobody,
    only_included_nics_are_given,
];

const COMMAND: &str = "srun -w n0 -n2 --gpus-per-task=1 @ $report";

/// Was every task of one GPU given its NIC?
fn all_placed(tasks: &[Task]) -> bool {
    tasks.iter().all(|task| {
        task.ucx() == [ucx_of(task.gpus()[0])] && task.env("NCCL_IB_HCA") == Some(&nccl_list())
    })
}

fn none_placed(tasks: &[Task]) -> bool {
    tasks
        .iter()
        .all(|task| task.is_untouched() && task.mem() == "default")
}

fn a_typo_fails_in_srun_before_anything_is_queued(bed: &Bed) {
    let jobs = || bed.run("scontrol -o show jobs | wc -l").stdout;
    let before = jobs();
    let typo = bed.run(&COMMAND.replace('@', "--nic-placement=closet"));
    assert_eq!(typo.code, 255);
    assert_eq!(jobs(), before, "jobs that slurmctld knows");
    let lines: Vec<&str> = typo
        .stderr
        .lines()
        .filter(|line| line.contains("nic-placement:"))
        .collect();
    assert_eq!(lines.len(), 1, "one line of ours: {lines:?}");
    for word in [
        "`closet`",
        "did you mean `closest`?",
        "`srun --nic-placement=help`",
    ] {
        assert!(
            lines[0].contains(word),
            "`{word}` is missing in: {}",
            lines[0]
        );
    }
    let typo = bed.run(&format!(
        "SLURM_NIC_PLACEMENT=closest,verbos {}",
        COMMAND.replace('@', "")
    ));
    assert!(
        typo.stderr.contains("`verbos`") && typo.stderr.contains("SLURM_NIC_PLACEMENT"),
        "the place is named"
    );
}

fn help_prints_the_words_and_queues_nothing(bed: &Bed) {
    let jobs = || bed.run("scontrol -o show jobs | wc -l").stdout;
    let before = jobs();
    let help = bed.run(&COMMAND.replace('@', "--nic-placement=help"));
    assert_eq!(jobs(), before, "jobs that slurmctld knows");
    let text = format!("{}{}", help.stdout, help.stderr);
    for word in [
        "closest",
        "numa",
        "all",
        "off",
        "verbose",
        "dry-run",
        "strict",
        "bind=",
        "SLURM_NIC_PLACEMENT",
    ] {
        assert!(text.contains(word), "`{word}` is missing in the help");
    }
}

fn help_that_cannot_be_printed_runs_no_job(bed: &Bed) {
    let programs = [
        "srun -w n0 -n1 --nic-placement=help touch ran",
        "sbatch -w n0 --nic-placement=help --wrap 'touch ran'",
        "salloc -w n0 -n1 --nic-placement=help touch ran",
    ];
    for program in programs {
        let full = bed.run(&format!(
            "rm -f ran; {program} > /dev/full 2> said; code=$?; cat said; exit $code"
        ));
        assert_eq!(full.code, 1, "of `{program}`");
        assert_eq!(full.stdout.lines().count(), 1, "one line of `{program}`");
        assert!(full.stdout.contains("cannot be printed"), "of `{program}`");
        for reader in ["head -n 1", "true", "sleep 0.2"] {
            let closed = bed.run(&format!("{program} | {reader}"));
            assert_eq!(
                (closed.code, closed.stderr.as_str()),
                (0, ""),
                "of `{program} | {reader}`"
            );
        }
        assert_eq!(
            bed.run("sleep 0.3; ls ran 2> /dev/null").stdout,
            "",
            "`{program}` ran"
        );
    }
}

fn the_option_stands_in_sruns_own_help(bed: &Bed) {
    for program in ["srun", "sbatch", "salloc"] {
        assert!(
            bed.run(&format!("{program} --help"))
                .stdout
                .contains("--nic-placement"),
            "`{program} --help`"
        );
    }
    bed.plugstack("");
    assert!(!bed.run("srun --help").stdout.contains("--nic-placement"));
}

fn the_environment_variable_asks_like_the_option(bed: &Bed) {
    assert!(none_placed(&bed.tasks(2, &COMMAND.replace('@', ""))));
    for words in ["closest", "closest,strict", ""] {
        let tasks = bed.tasks(
            2,
            &format!("SLURM_NIC_PLACEMENT={words} {}", COMMAND.replace('@', "")),
        );
        let asked = !words.is_empty();
        assert!(
            if asked {
                all_placed(&tasks)
            } else {
                none_placed(&tasks)
            },
            "SLURM_NIC_PLACEMENT={words}"
        );
    }
}

fn the_admins_default_asks_for_every_job(bed: &Bed) {
    assert!(none_placed(&bed.tasks(2, &COMMAND.replace('@', ""))));
    bed.plugin("default=closest");
    assert!(all_placed(&bed.tasks(2, &COMMAND.replace('@', ""))));
}

fn the_command_line_wins_over_the_environment_and_that_over_the_default(bed: &Bed) {
    bed.plugin("default=off");
    assert!(none_placed(&bed.tasks(2, &COMMAND.replace('@', ""))));
    assert!(all_placed(&bed.tasks(
        2,
        &format!("SLURM_NIC_PLACEMENT=closest {}", COMMAND.replace('@', ""))
    )));
    assert!(all_placed(&bed.tasks(
        2,
        &format!(
            "SLURM_NIC_PLACEMENT=off {}",
            COMMAND.replace('@', "--nic-placement=closest")
        )
    )));
}

fn off_wins_over_the_default_and_the_environment(bed: &Bed) {
    bed.plugin("default=closest");
    assert!(all_placed(&bed.tasks(2, &COMMAND.replace('@', ""))));
    assert!(none_placed(
        &bed.tasks(2, &COMMAND.replace('@', "--nic-placement=off"))
    ));
    assert!(none_placed(&bed.tasks(
        2,
        &format!("SLURM_NIC_PLACEMENT=off {}", COMMAND.replace('@', ""))
    )));
    assert!(none_placed(&bed.tasks(
        2,
        &format!(
            "SLURM_NIC_PLACEMENT=closest {}",
            COMMAND.replace('@', "--nic-placement=off")
        )
    )));
}

/// `(what salloc or sbatch see, their option, what srun sees, its option, is the step placed?)`, the variable being
/// `SLURM_NIC_PLACEMENT`; `same` leaves it as it is.
const NEARER: [(&str, &str, &str, &str, bool); 13] = [
    ("", "", "same", "", false),
    ("", "--nic-placement", "same", "", true),
    ("", "--nic-placement", "off", "", false),
    ("", "--nic-placement=off", "closest", "", true),
    (
        "",
        "--nic-placement=off",
        "closest",
        "--nic-placement=off",
        false,
    ),
    ("", "--nic-placement", "off", "--nic-placement", true),
    ("", "--nic-placement", "closet", "", true),
    ("", "--nic-placement", "", "", true),
    // what the variable was when salloc was given the option is farther than that
    ("off", "--nic-placement", "same", "", true),
    ("closest", "--nic-placement=off", "same", "", false),
    ("rail", "--nic-placement=off", "closest", "", true),
    ("closest", "", "same", "", true),
    ("closest", "", "off", "", false),
];

/// Runs each of them: `job` makes the command of a variable, an option, and an srun.
fn assert_nearer_word_wins(bed: &Bed, job: impl Fn(&str, &str, &str) -> String) {
    for (variable, option, inner, own, placed) in NEARER {
        let set = if inner == "same" {
            String::new()
        } else {
            format!("SLURM_NIC_PLACEMENT={inner}")
        };
        let tasks = bed.tasks(
            2,
            &job(variable, option, &format!("{set} srun {own} $report")),
        );
        let case = format!("`{variable}` `{option}`, then `{inner}` `{own}`: {tasks:?}");
        assert!(
            if placed {
                all_placed(&tasks)
            } else {
                none_placed(&tasks)
            },
            "{case}"
        );
    }
    bed.plugin("default=closest");
    let tasks = bed.tasks(2, &job("", "", "SLURM_NIC_PLACEMENT=off srun $report"));
    assert!(
        none_placed(&tasks),
        "the variable beats the admin's default"
    );
    let tasks = bed.tasks(2, &job("", "--nic-placement=off", "srun $report"));
    assert!(none_placed(&tasks), "so does the option");
    bed.plugin("");
}

fn in_an_allocation_the_nearer_word_wins(bed: &Bed) {
    assert_nearer_word_wins(bed, |variable, option, srun| {
        let salloc = "salloc --quiet -w n0 -n2 --gpus-per-task=1";
        format!("SLURM_NIC_PLACEMENT={variable} {salloc} {option} bash -c '{srun}'")
    });
}

fn in_a_batch_job_the_nearer_word_wins(bed: &Bed) {
    assert_nearer_word_wins(bed, |variable, option, srun| {
        format!(
            "export SLURM_NIC_PLACEMENT={variable}\n{}",
            bed.batch(option, &format!("{srun}\n"))
        )
    });
}

/// Lines of the plugin on the user's terminal.
pub fn printed(stderr: &str) -> Vec<&str> {
    stderr
        .lines()
        .filter(|line| line.starts_with("nic-placement: "))
        .collect()
}

/// The rows of tasks among these lines, without their reasons.
fn rows(lines: Vec<&str>) -> Vec<&str> {
    lines
        .into_iter()
        .filter(|line| line.contains("  cpus "))
        .collect()
}

fn verbose_prints_a_row_for_each_task_and_its_reasons_and_nothing_else_changes(bed: &Bed) {
    let command = "srun -w n0,n1 --ntasks-per-node=8 --gpus-per-task=1 @ $report";
    let quiet = bed.tasks(16, &command.replace('@', "--nic-placement"));
    let verbose = bed.run(&command.replace('@', "--nic-placement=verbose"));
    assert_eq!(verbose.code, 0);
    assert_eq!(verbose.tasks, quiet, "what the tasks see");
    let lines = printed(&verbose.stderr);
    assert_eq!(
        lines.len(),
        verbose.stderr.lines().count(),
        "nothing else on stderr"
    );
    let lines = rows(lines);
    assert_eq!(lines.len(), 16, "rows of ours");
    let place_of = |text: &str| lines.iter().map(|line| line.find(text)).collect::<Vec<_>>();
    for column in ["gpu ", "nic ", "cpus ", "mem "] {
        let places = place_of(column);
        assert!(
            places
                .iter()
                .all(|place| place.is_some() && *place == places[0]),
            "`{column}` is not aligned"
        );
    }
    for task in &verbose.tasks {
        let nic = task.ucx()[0];
        let own = |line: &&&str| line.contains(task.node()) && line.contains(&format!("nic {nic}"));
        assert_eq!(
            lines.iter().filter(own).count(),
            1,
            "lines that name {nic} of {}",
            task.node()
        );
    }
}

fn without_verbose_nothing_is_printed(bed: &Bed) {
    let ran = bed.run(&COMMAND.replace('@', "--nic-placement"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(all_placed(&ran.tasks));
}

fn dry_run_prints_the_plan_and_changes_nothing(bed: &Bed) {
    let command = "srun -w n0 -n8 --gpus-per-task=1 @ $report";
    let without = bed.tasks(8, &command.replace('@', ""));
    let dry = bed.run(&command.replace('@', "--nic-placement=dry-run"));
    assert_eq!(dry.tasks, without);
    let lines = rows(printed(&dry.stderr));
    assert_eq!(lines.len(), 8, "rows of ours");
    for gpu in 0..8 {
        let nic = format!("nic {} ", ucx_of(gpu));
        assert!(
            lines.iter().any(|line| line.contains(&nic)),
            "no line has `{nic}`"
        );
    }
}

fn strict_places_a_healthy_step_as_usual(bed: &Bed) {
    let (_, placed) = bed.without_and_with("--nic-placement=strict", 2, COMMAND);
    assert!(all_placed(&placed));
}

fn strict_ends_a_task_that_cannot_be_placed_and_says_why(bed: &Bed) {
    let command = format!("srun -w {NO_RDMA} -n2 --gpus-per-task=1 @ $report");
    assert_eq!(
        bed.tasks(2, &command.replace('@', "--nic-placement")).len(),
        2
    );
    let strict = bed.run(&command.replace('@', "--nic-placement=strict"));
    assert_ne!(strict.code, 0);
    assert_eq!(strict.tasks.len(), 0, "no program may have started");
    assert_eq!(
        printed(&strict.stderr)
            .iter()
            .filter(|line| line.contains("strict"))
            .count(),
        2
    );
}

fn numa_and_all_give_more_nics_than_closest(bed: &Bed) {
    for (policy, nics) in [("closest", 1), ("numa", 4), ("all", 8)] {
        let tasks = bed.tasks(
            2,
            &COMMAND.replace('@', &format!("--nic-placement={policy}")),
        );
        for task in &tasks {
            // the list holds every good NIC, and still leaves the storage NICs out
            assert_eq!(task.ucx().len(), nics, "with `{policy}`: {task:?}");
            assert_eq!(
                task.ucx()[0],
                ucx_of(task.gpus()[0]),
                "the nearest comes first"
            );
        }
    }
}

fn an_excluded_nic_is_given_to_nobody(bed: &Bed) {
    let command = "srun -w n0 -n8 --gpus-per-task=1 --nic-placement $report";
    let before = bed.tasks(8, command);
    bed.plugin("exclude=mlx5_3");
    for (before, task) in before.iter().zip(bed.tasks(8, command)) {
        let excluded = |list: &str| list.split([',', '=']).any(|nic| nic == "mlx5_3:1");
        assert!(
            !excluded(task.env("UCX_NET_DEVICES").unwrap()),
            "of {task:?}"
        );
        assert!(!excluded(task.env("NCCL_IB_HCA").unwrap()), "of {task:?}");
        if task.gpus() != [1] {
            assert_eq!(task.ucx(), before.ucx(), "the other GPUs keep theirs");
        }
    }
}

fn only_included_nics_are_given(bed: &Bed) {
    bed.plugin("include=mlx5_0,mlx5_6");
    let tasks = bed.tasks(
        8,
        "srun -w n0 -n8 --gpus-per-task=1 --nic-placement $report",
    );
    for task in &tasks {
        let expected = if task.gpus()[0] < 4 {
            "mlx5_0:1"
        } else {
            "mlx5_6:1"
        };
        assert_eq!(task.ucx(), [expected], "of {task:?}");
        assert_eq!(task.env("NCCL_IB_HCA"), Some("=mlx5_0:1,mlx5_6:1"));
    }
    assert_eq!(ucx_of_all([0, 4]), ["mlx5_0:1", "mlx5_6:1"]);
}

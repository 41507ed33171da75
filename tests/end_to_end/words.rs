//! The words: the option, the environment, plugstack.conf, and what they print.

use super::suite::*;

pub const ROWS: &[Case] = rows! {
    strict_places_a_healthy_step_as_usual: 2 "-n2 --gpus-per-task=1" ["strict"] => own;
    // the list holds every good NIC, the nearest first, and still leaves the storage NICs out
    closest_gives_one_nic: 2 "-n2 --gpus-per-task=1" ["closest"] => nics(1), nearest_first;
    numa_gives_those_of_the_numa_node: 2 "-n2 --gpus-per-task=1" ["numa"] => nics(4), nearest_first;
    all_gives_all: 2 "-n2 --gpus-per-task=1" ["all"] => nics(8), nearest_first;
    only_included_nics_are_given: 8 "-n8 --gpus-per-task=1" ("include=mlx5_0,mlx5_6") => is(|task| {
        let expected = ["mlx5_0:1", "mlx5_6:1"][numa_node_of(task.gpu())];
        task.ucx() == [expected] && task.env("NCCL_IB_HCA") == Some("=mlx5_0:1,mlx5_6:1")
    });
    two_nics_for_each_gpu_are_two_in_ucxs_list: 4 "-n4 --gpus-per-task=1" ["nics-per-task=2"]
        => nics(2), nearest_first, is(Task::is_listed);
    the_admins_rails_are_dealt_in_their_order: 8 "-n8 --gpus-per-task=1" ["rail"]
        ("rails=mlx5_11,mlx5_10,mlx5_9,mlx5_6,mlx5_5,mlx5_4,mlx5_3,mlx5_0")
        => is(|task| task.ucx() == [ucx_of(7 - task.gpu())]);
    a_model_gives_variables_but_moves_nothing: 8 "-n8 --gpus-per-task=1" ("machine=dgx-h100") => own, as_bound;
};

fn nearest_first(pair: &Pair) {
    all(pair.tasks(), |task| task.ucx()[0] == ucx_of(task.gpu()));
}

pub const CASES: &[Case] = cases![
    a_typo_fails_in_srun_before_anything_is_queued,
    help_prints_the_words_and_queues_nothing,
    help_that_cannot_be_printed_runs_no_job,
    the_option_stands_in_sruns_own_help,
    the_nearer_of_option_variable_and_admins_default_wins,
    an_option_without_a_word_is_the_same_however_it_is_spelled,
    in_an_allocation_the_nearer_word_wins,
    in_a_batch_job_the_nearer_word_wins,
    verbose_prints_a_row_for_each_task_and_its_reasons_and_nothing_else_changes,
    without_verbose_nothing_is_printed,
    dry_run_prints_the_plan_and_changes_nothing,
    strict_ends_a_task_that_cannot_be_placed_and_says_why,
    an_excluded_nic_is_given_to_nobody,
];

/// All tasks of one GPU have its NIC, or none has anything of ours.
#[track_caller]
fn assert_placed(tasks: &[Task], is_placed: bool) {
    all(tasks, |task| match is_placed {
        true => task.is_own() && task.is_listed(),
        false => task.is_as_slurm_has_it(),
    });
}

/// The number of jobs that slurmctld knows stays.
fn queues_nothing(bed: &Bed, command: &str) -> Ran {
    let jobs = || bed.run("scontrol -o show jobs | wc -l").stdout;
    let before = jobs();
    let ran = bed.run(command);
    assert_eq!(jobs(), before);
    ran
}

fn a_typo_fails_in_srun_before_anything_is_queued(bed: &Bed) {
    let typo = queues_nothing(bed, &asked("closet", TWO)).ended(255, 0);
    assert_eq!(typo.told().len(), 1, "{}", typo.stderr);
    for word in [
        "`closet`",
        "did you mean `closest`?",
        "`srun --nic-placement=help`",
    ] {
        assert!(typo.told()[0].contains(word), "{word}: {}", typo.stderr);
    }
    let typo = format!("SLURM_NIC_PLACEMENT=closest,verbos {TWO}");
    let typo = bed.run(&typo.replace('@', ""));
    let told = &typo.stderr;
    let is_so = told.contains("`verbos`") && told.contains("SLURM_NIC_PLACEMENT");
    assert!(is_so, "{told}");
}

fn help_prints_the_words_and_queues_nothing(bed: &Bed) {
    let help = queues_nothing(bed, &asked("help", TWO));
    let text = help.stdout + &help.stderr;
    let words = "closest numa all off verbose dry-run strict bind= SLURM_NIC_PLACEMENT";
    for word in words.split(' ') {
        assert!(text.contains(word), "{word}: {text}");
    }
}

fn help_that_cannot_be_printed_runs_no_job(bed: &Bed) {
    for program in [
        "srun -w n0 -n1 --nic-placement=help touch ran",
        "sbatch -w n0 --nic-placement=help --wrap 'touch ran'",
        "salloc -w n0 -n1 --nic-placement=help touch ran",
    ] {
        let full = format!("{program} > /dev/full 2> said; code=$?; cat said; exit $code");
        let full = bed.run(&format!("rm -f ran; {full}")).ended(1, 0);
        let lines: Vec<&str> = full.stdout.lines().collect();
        let is_so = lines.len() == 1 && lines[0].contains("cannot be printed");
        assert!(is_so, "{lines:?}");
        for reader in ["head -n 1", "true", "sleep 0.2"] {
            let closed = bed.run(&format!("{program} | {reader}")).ended(0, 0);
            assert_eq!(closed.stderr, "", "{program} | {reader}");
        }
        let found = bed.run("sleep 0.3; ls ran 2> /dev/null").stdout;
        assert_eq!(found, "", "{program}");
    }
}

fn the_option_stands_in_sruns_own_help(bed: &Bed) {
    let has = |program: &str| bed.run(program).stdout.contains("--nic-placement");
    for program in ["srun --help", "sbatch --help", "salloc --help"] {
        assert!(has(program), "{program}");
    }
    bed.plugstack("");
    assert!(!has("srun --help"));
}

fn the_nearer_of_option_variable_and_admins_default_wins(bed: &Bed) {
    let (on, off) = ("--nic-placement=closest", "--nic-placement=off");
    for (admin, variable, option, is_placed) in [
        ("", None, "", false),
        ("", Some("closest"), "", true),
        ("", Some("closest,strict"), "", true),
        ("", Some(""), "", false),
        ("default=closest", None, "", true),
        ("default=off", None, "", false),
        ("default=off", Some("closest"), "", true),
        ("default=off", Some("off"), on, true),
        ("default=closest", None, off, false),
        ("default=closest", Some("off"), "", false),
        ("default=closest", Some("closest"), off, false),
    ] {
        bed.plugin(admin);
        let set = variable.map(|words| format!("SLURM_NIC_PLACEMENT={words} "));
        let command = set.unwrap_or_default() + &TWO.replace('@', option);
        assert_placed(&bed.tasks(2, &command), is_placed);
    }
}

fn an_option_without_a_word_is_the_same_however_it_is_spelled(bed: &Bed) {
    // as sbatch and salloc hand it to the sruns of their jobs
    let variable = "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement";
    let handed = ["", "(null)", "closest"].map(|value| format!("{variable}='{value}' {TWO}"));
    for command in [
        TWO.replace('@', "--nic-placement"),
        TWO.replace('@', "--nic-placement="),
    ] {
        assert_placed(&bed.tasks(2, &command), true);
    }
    handed
        .iter()
        .for_each(|command| assert_placed(&bed.bare(2, command), true));
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
    for (variable, option, inner, own, is_placed) in NEARER {
        let set = match inner {
            "same" => String::new(),
            _ => format!("SLURM_NIC_PLACEMENT={inner}"),
        };
        let step = format!("{set} srun {own} $report");
        assert_placed(&bed.tasks(2, &job(variable, option, &step)), is_placed);
    }
    bed.plugin("default=closest");
    for (option, step) in [
        ("", "SLURM_NIC_PLACEMENT=off srun $report"),
        ("--nic-placement=off", "srun $report"),
    ] {
        assert_placed(&bed.tasks(2, &job("", option, step)), false);
    }
}

fn in_an_allocation_the_nearer_word_wins(bed: &Bed) {
    assert_nearer_word_wins(bed, |variable, option, srun| {
        let salloc = "salloc --quiet -w n0 -n2 --gpus-per-task=1";
        format!("SLURM_NIC_PLACEMENT={variable} {salloc} {option} bash -c '{srun}'")
    });
}

fn in_a_batch_job_the_nearer_word_wins(bed: &Bed) {
    assert_nearer_word_wins(bed, |variable, option, srun| {
        let job = bed.batch(option, &format!("{srun}\n"));
        format!("export SLURM_NIC_PLACEMENT={variable}\n{job}")
    });
}

/// The rows of tasks among the lines of ours, without their reasons.
fn rows_of(ran: &Ran) -> Vec<&str> {
    let told = ran.told().into_iter();
    told.filter(|line| line.contains("  cpus ")).collect()
}

fn verbose_prints_a_row_for_each_task_and_its_reasons_and_nothing_else_changes(bed: &Bed) {
    let command = "srun -w n0,n1 --ntasks-per-node=8 --gpus-per-task=1 @ $report";
    let quiet = bed.with("", 16, command);
    let verbose = bed.ask("verbose", command).ended(0, 16);
    assert_eq!(verbose.tasks, quiet);
    let is_ours = |line: &str| line.starts_with("nic-placement: ");
    assert!(verbose.stderr.lines().all(is_ours), "{}", verbose.stderr);
    let rows = rows_of(&verbose);
    assert_eq!(rows.len(), 16, "{rows:#?}");
    for column in ["gpu ", "nic ", "cpus ", "mem "] {
        let places: BTreeSet<_> = rows.iter().map(|row| row.find(column)).collect();
        let is_so = places.len() == 1 && !places.contains(&None);
        assert!(is_so, "{column}: {rows:#?}");
    }
    all(&verbose.tasks, |task| {
        let nic = format!("nic {}", task.ucx()[0]);
        let own = |row: &&&str| row.contains(task.node()) && row.contains(&nic);
        rows.iter().filter(own).count() == 1
    });
}

fn without_verbose_nothing_is_printed(bed: &Bed) {
    let ran = bed.ask("", TWO).ended(0, 2);
    assert_eq!(ran.stderr, "");
    assert_placed(&ran.tasks, true);
}

fn dry_run_prints_the_plan_and_changes_nothing(bed: &Bed) {
    let bare = bed.bare(8, EIGHT);
    let dry = bed.ask("dry-run", EIGHT).ended(0, 8);
    assert_eq!(dry.tasks, bare);
    let rows = rows_of(&dry);
    assert_eq!(rows.len(), 8, "{rows:#?}");
    for nic in ucx_of_all(0..8) {
        let is_so = rows.iter().any(|row| row.contains(&format!("nic {nic} ")));
        assert!(is_so, "{rows:#?}");
    }
}

fn strict_ends_a_task_that_cannot_be_placed_and_says_why(bed: &Bed) {
    let command = TWO.replace("n0", NO_RDMA);
    bed.with("", 2, &command);
    let strict = bed.ask("strict", &command).failed();
    let told = strict.told();
    let told = told.iter().filter(|line| line.contains("strict"));
    let found = (strict.tasks.len(), told.count());
    assert_eq!(found, (0, 2), "{}", strict.stderr);
}

fn an_excluded_nic_is_given_to_nobody(bed: &Bed) {
    let before = bed.with("", 8, EIGHT);
    bed.plugin("exclude=mlx5_3");
    each(&before, &bed.with("", 8, EIGHT), |before, task| {
        let excluded = |name| {
            let mut nics = task.env(name).expect("a list").split([',', '=']);
            nics.any(|nic| nic == "mlx5_3:1")
        };
        let is_excluded = excluded("UCX_NET_DEVICES") || excluded("NCCL_IB_HCA");
        !is_excluded && (task.gpu() == 1 || task.ucx() == before.ucx())
    });
    // a container has no plugstack.conf: the step's own list tells
    let container = format!(
        "--nic-placement env SLURM_CONF=/nowhere/slurm.conf {} map",
        bed.tool()
    );
    let [map, plan] = ["map", "plan --env"].map(|command| format!("{} {command}", bed.tool()));
    for command in [map, plan, container] {
        let line = format!("srun -w n0 --gres=gpu:8 {command}");
        let ran = bed.run(&line).ended(0, 0);
        let named = |name| ran.stdout.contains(name);
        assert!(named("mlx5_4") && !named("mlx5_3"), "{}", ran.stdout);
    }
}

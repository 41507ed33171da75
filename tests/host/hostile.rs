//! What users can put into a step, put there to harm: no hook answers Slurm anything but 0 on a node, no text forges a line
//! of slurmd's log, and the job runs.  The fake Slurm complains of such answers and lines in every test.

use super::*;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Ends the line, begins another, colours it, turns its direction, and comes back.
const FORGED: &str =
    "none\n[2026-01-01T00:00:00.000] error: FORGED\u{1b}[31m\r\u{7f}\u{9b}2J\u{2028}\u{202e}x";

/// A step whose tasks report, so that all that is said is said.
fn told(step: Step) -> Step {
    step.option("verbose").task_per_gpu()
}

#[test]
fn no_text_of_a_user_ends_a_line_of_the_log_or_of_the_terminal() {
    let variables = [
        "SLURM_CPU_BIND_TYPE",
        "SLURM_CPU_BIND_LIST",
        "SLURM_MEM_BIND_TYPE",
        "SLURM_STEP_GPUS",
        "SLURM_NIC_PLACEMENT",
        "SLURMD_NODENAME",
        "SLURMD_TRES_BIND",
        "NIC_PLACEMENT",
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
        "NCCL_CONF_FILE",
        "NVSHMEM_HCA_LIST",
        "UCX_NET_DEVICES",
        "UCX_TLS",
        "OMP_NUM_THREADS",
        "HOME",
        "ROCR_VISIBLE_DEVICES",
    ];
    for variable in variables {
        let step = told(Step::on_dgx_h100()).env(&format!("{variable}={FORGED}"));
        play!(step).assert_nothing_failed();
    }
    let all = variables
        .iter()
        .fold(told(Step::on_dgx_h100()), |step, variable| {
            step.env(&format!("{variable}={FORGED}"))
        });
    let played = play!(all);
    played.assert_nothing_failed();
    let quoted = played
        .log()
        .into_iter()
        .any(|line| line.text.contains("none\\n[2026-01-01T00"));
    assert!(quoted, "the text is shown, escaped\n{played}");
    let beginnings = played
        .log()
        .into_iter()
        .filter(|line| line.text.starts_with("[2026"));
    assert_eq!(beginnings.count(), 0, "{played}");
}

#[test]
fn a_forged_list_of_gpus_is_quoted_and_does_not_end_a_line() {
    // a line of changes is split at blanks, so this one has none
    let forged = "GPU-1\n[2026-01-01T00:00:00.000]\u{9}error:FORGED\u{1b}[31m\u{202e}";
    let step = Step::on_dgx_h100().option("verbose").task("");
    let played = play!(step.env(&format!("CUDA_VISIBLE_DEVICES={forged}")));
    played.assert_nothing_failed();
    assert!(
        played
            .shown_to_the_user()
            .iter()
            .any(|line| line.text.contains("\\n[2026")),
        "{played}"
    );
}

#[test]
fn a_forged_word_of_the_option_or_of_plugstack_conf_does_not_end_a_line() {
    for context in ["local", "allocator"] {
        play!(Step::in_context(context).option(FORGED));
        play!(Step::in_context(context).env(&format!("SLURM_NIC_PLACEMENT={FORGED}")))
            .assert_nothing_failed();
    }
    let admin = [
        "",
        "default=",
        "topology=/",
        "sysfs=/",
        "machine=",
        "set=",
        "set=A={",
        "include=",
        "fabric=",
    ];
    let step = admin.iter().fold(default_on(), |step, word| {
        step.arg(&format!("{word}{FORGED}"))
    });
    play!(step.task_per_gpu()).assert_nothing_failed();
}

#[test]
fn a_very_long_line_is_cut_and_says_so() {
    let long = "x".repeat(100_000);
    let played = play!(told(default_on()).env(&format!("SLURM_MEM_BIND_TYPE={long}")));
    played.assert_nothing_failed();
    let longest = played.log().iter().map(|line| line.text.len()).max();
    assert!(longest < Some(4096), "{longest:?}");
}

/// Some texts that no user would write, the same in every run.
fn generated() -> Vec<OsString> {
    let pieces: [&[u8]; 30] = [
        b"closest",
        b"off",
        b"help",
        b"verbose",
        b"dry-run",
        b"strict",
        b"env=",
        b"no-env=",
        b"bind=",
        b"mem=",
        b"nics-per-task=",
        b"omp=on",
        b",",
        b"=",
        b"+",
        b" ",
        b"\n",
        b"\x1b[2J",
        b"\xff\xfe",
        b"\xe2\x80\xae",
        b"\xc2\x9b",
        b"(null)",
        b"99999999999999999999",
        b"-1",
        b"%s%n%p",
        b"single-numa-node",
        b"\xf0\x9f\x98\x80",
        b"\\",
        b"`",
        b"UCX_NET_DEVICES",
    ];
    // a linear congruential generator, by Knuth's constants
    let mut state = 20_260_101u64;
    let mut next = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut texts: Vec<OsString> = (0..400)
        .map(|_| {
            OsString::from_vec(
                (0..next(12))
                    .flat_map(|_| pieces[next(pieces.len())])
                    .copied()
                    .collect(),
            )
        })
        .collect();
    texts.extend([128, 129, 16_000].map(|words| OsString::from("closest,".repeat(words))));
    texts
}

#[test]
fn whatever_the_option_says_a_node_is_answered_0_and_the_job_runs() {
    let texts = generated();
    let step = texts
        .iter()
        .fold(default_on(), |step, text| step.word("--option", text));
    let played = play!(step.option("closest").task_per_gpu());
    let answers: Vec<&str> = played
        .events("option")
        .into_iter()
        .filter(|e| e.starts_with("returned"))
        .collect();
    assert_eq!(answers.len(), texts.len() + 1, "{played}");
    assert!(
        answers.iter().all(|answer| *answer == "returned 0"),
        "{played}"
    );
    played.assert_nearest_nics();
    // some of them alone, as what sbatch left and as the variable
    for text in texts.iter().step_by(13) {
        let of = |name: &str| {
            let mut assignment = OsString::from(format!("{name}="));
            assignment.push(text);
            assignment
        };
        let step = default_on().word(
            "--env",
            of("_SLURM_SPANK_OPTION_nic_placement_nic_placement"),
        );
        let step = step.word("--env", of("SLURM_NIC_PLACEMENT"));
        let played = play!(step.task("CUDA_VISIBLE_DEVICES=0"));
        assert_eq!(played.returned("option"), Some(0), "{text:?}\n{played}");
        assert_eq!(
            played.returned("init_post_opt"),
            Some(0),
            "{text:?}\n{played}"
        );
        assert_eq!(
            played.returned("task 0"),
            Some(0).filter(|_| played.exit(0) == Some(0)),
            "{text:?}\n{played}"
        );
    }
}

#[test]
fn a_typo_that_reached_the_node_by_the_environment_is_answered_0_and_logged() {
    let step = default_on()
        .env("_SLURM_SPANK_OPTION_nic_placement_nic_placement=typo")
        .task_per_gpu();
    let played = play!(step);
    assert_eq!(played.returned("option"), Some(0), "{played}");
    assert!(
        played
            .log()
            .iter()
            .any(|line| line.when == "option" && line.text.contains("`typo`")),
        "{played}"
    );
    played.assert_nearest_nics();
}

#[test]
fn a_panic_in_any_hook_or_in_the_callback_is_answered_0() {
    let Some(library) = harness::panicking_plugin() else {
        return;
    };
    for hook in ["init", "option", "init_post_opt", "task_init"] {
        for text in ["closest", "typo\nx", "closest,strict"] {
            let step = default_on()
                .plugin_file(&library)
                .arg(&format!("panic={hook}"));
            // a panic in init leaves the option unregistered
            let step = if hook == "init" {
                step
            } else {
                step.option(text)
            };
            let played = play!(step.task("CUDA_VISIBLE_DEVICES=0"));
            for when in ["init", "init_post_opt"] {
                assert_eq!(played.returned(when), Some(0), "{hook}, `{text}`\n{played}");
            }
            assert!(
                played
                    .log()
                    .iter()
                    .any(|line| line.text.contains("asked to panic")),
                "{hook}\n{played}"
            );
            // a task may end where its user asked for that; no hook may answer by it
            assert!(
                matches!(played.returned("task 0"), Some(0) | None),
                "{hook}, `{text}`\n{played}"
            );
        }
    }
}

#[test]
fn thousands_of_variables_and_a_megabyte_of_gpus_cost_nobody_the_job() {
    // as large as one word of a command line may be: the kernel's MAX_ARG_STRLEN
    let long = "1,".repeat(65_000);
    let mut step = default_on().option("closest,verbose,bind=core,omp=on");
    for name in [
        "SLURM_STEP_GPUS",
        "SLURM_CPU_BIND_LIST",
        "SLURMD_TRES_BIND",
        "UCX_NET_DEVICES",
        "NCCL_IB_HCA",
    ] {
        step = step.env(&format!("{name}={long}"));
    }
    step = step.env("SLURM_CPU_BIND_TYPE=mask_cpu:");
    let folder = private_folder("thousands");
    let file = folder.join("environment");
    fs::write(
        &file,
        (0..9_000)
            .map(|n| format!("V{n}={n}\n"))
            .collect::<String>(),
    )
    .unwrap();
    let file = file.to_str().expect("a plain path");
    let step = step
        .word("--env-file", file)
        .word("--env", OsString::from_vec(b"HOME=/\xff\xfe".to_vec()));
    let step = step.word("--env", OsString::from_vec(b"NIC_PLACEMENT=\xff".to_vec()));
    play!(
        step.task("CUDA_VISIBLE_DEVICES=0")
            .task("CUDA_VISIBLE_DEVICES=1")
    )
    .assert_nothing_failed();
}

#[test]
fn arguments_of_plugstack_conf_that_are_not_text_are_told_of() {
    let step = default_on().word("--arg", OsString::from_vec(b"exclude=\xff".to_vec()));
    let played = play!(step.task("CUDA_VISIBLE_DEVICES=0"));
    played.assert_untouched();
    let errors = texts(&played.log(), "error");
    assert!(
        errors.len() == 1 && errors[0].contains("plugstack.conf"),
        "{errors:?}\n{played}"
    );
}

#[test]
fn a_task_is_counted_as_slurm_counts_it_whatever_its_variables_say() {
    let step = default_on().option("closest,bind=core");
    let lies = [
        "SLURM_LOCALID=7",
        "SLURM_LOCALID=-1",
        "SLURM_PROCID=99999999999",
        "-SLURM_LOCALID",
    ];
    let step = lies.iter().fold(step, |step, lie| {
        step.task(&format!("CUDA_VISIBLE_DEVICES=0 {lie}"))
    });
    play!(step).assert_nothing_failed();
}

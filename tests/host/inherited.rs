//! What a step inherits: which word is the nearest where several places speak, and values of ours that a job takes along.

use super::*;
use crate::tasks::nested_in;

/// Slurm's names for the option that sbatch and salloc leave.
const LEFT: [&str; 2] = [
    "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement",
    "_SLURM_SPANK_OPTION_nic_placement_nic_placement",
];
/// What the variable was when sbatch or salloc was given the option.
const BEFORE: &str = "SLURM_NIC_PLACEMENT_BEFORE";

// ---- the nearest word ----

#[test]
fn sruns_own_option_beats_the_variable_and_what_salloc_was_given() {
    for (own, others) in [("off", "closest"), ("closest", "off")] {
        let step = Step::in_context("local")
            .in_allocation_with(others)
            .env(&format!("SLURM_NIC_PLACEMENT={others}"));
        let played = play!(step.option(own));
        played.assert_nothing_failed();
        assert_eq!(
            played.left(LEFT[1]),
            Some(own),
            "the node is told srun's own\n{played}"
        );
    }
}

#[test]
fn a_variable_that_is_set_inside_the_allocation_replaces_what_salloc_was_given() {
    for context in ["local", "allocator"] {
        let step = Step::in_context(context)
            .in_allocation_with("closest,verbose")
            .env("SLURM_NIC_PLACEMENT=off");
        let played = play!(step);
        played.assert_nothing_failed();
        assert_eq!(
            LEFT.map(|name| played.left(name)),
            [None; 2],
            "nothing of it goes on\n{played}"
        );
        assert_eq!(played.left("SLURM_NIC_PLACEMENT"), Some("off"), "{played}");
    }
}

#[test]
fn a_variable_that_was_there_before_salloc_was_given_the_option_does_not() {
    let outer = play!(
        Step::in_context("allocator")
            .env("SLURM_NIC_PLACEMENT=off")
            .option("closest")
    );
    assert_eq!(outer.left(BEFORE), Some("off"), "{outer}");
    let inside = |context: &str, variable: &str| {
        let step = Step::in_context(context)
            .in_allocation_with("closest")
            .env(&format!("{BEFORE}=off"));
        step.env(&format!("SLURM_NIC_PLACEMENT={variable}"))
    };
    for context in ["local", "allocator"] {
        let same = play!(inside(context, "off"));
        assert_eq!(same.left(LEFT[1]), Some("closest"), "{same}");
        let changed = play!(inside(context, "rail"));
        assert_eq!(changed.left(LEFT[1]), None, "{changed}");
    }
}

#[test]
fn a_job_that_is_submitted_from_an_allocation_forgets_what_was_before_that_one() {
    let step = Step::in_context("allocator").env(&format!("{BEFORE}=off"));
    let played = play!(step.clone().option("closest"));
    assert_eq!(
        played.left(BEFORE),
        None,
        "the variable is not set now\n{played}"
    );
    let played = play!(step.env("SLURM_NIC_PLACEMENT=rail").option("closest"));
    assert_eq!(played.left(BEFORE), Some("rail"), "{played}");
}

#[test]
fn an_empty_variable_and_one_that_nobody_understands_leave_what_salloc_was_given() {
    for variable in ["", "closet", "closest,off"] {
        let step = Step::in_context("local").in_allocation_with("numa");
        let played = play!(step.env(&format!("SLURM_NIC_PLACEMENT={variable}")));
        played.assert_nothing_failed();
        assert_eq!(played.left(LEFT[1]), Some("numa"), "`{variable}`\n{played}");
    }
    let without = play!(Step::in_context("local").in_allocation_with("numa"));
    assert_eq!(without.left(LEFT[1]), Some("numa"), "{without}");
}

#[test]
fn without_an_option_nothing_is_noted_of_the_variable() {
    for context in ["local", "allocator"] {
        let played = play!(Step::in_context(context).env("SLURM_NIC_PLACEMENT=rail"));
        assert_eq!(played.left(BEFORE), None, "{played}");
    }
    let of_srun = play!(
        Step::in_context("local")
            .env("SLURM_NIC_PLACEMENT=rail")
            .option("off")
    );
    assert_eq!(
        of_srun.left(BEFORE),
        None,
        "srun leaves no allocation\n{of_srun}"
    );
}

// ---- values of ours in a job that a placed step submits ----

#[test]
fn a_batch_script_and_an_interactive_shell_lose_our_values_and_keep_the_users() {
    let outer = play!(default_on().env("UCX_TLS=rc").task_per_gpu());
    for step_id in ["0xfffffffb", "0xfffffffa"] {
        let step = nested_in(&outer, 0, Step::on_dgx_h100()).word("--step-id", step_id);
        let job = play!(step.clone().task(""));
        job.assert_nothing_failed();
        for variable in VARIABLES {
            assert_eq!(job.env(0, variable), None, "{step_id}\n{job}");
        }
        assert_eq!(
            job.env(0, "UCX_TLS").as_deref(),
            Some("rc"),
            "{step_id}\n{job}"
        );
        let own = play!(
            step.env("UCX_NET_DEVICES=mlx5_9:1")
                .option("closest")
                .task("CUDA_VISIBLE_DEVICES=3")
        );
        own.assert_nothing_failed();
        assert_eq!(
            own.env(0, "UCX_NET_DEVICES").as_deref(),
            Some("mlx5_9:1"),
            "{step_id}\n{own}"
        );
        assert_eq!(own.env(0, "NCCL_IB_HCA"), None, "{step_id}\n{own}");
    }
}

#[test]
fn a_job_that_was_asked_for_a_dry_run_keeps_even_our_values() {
    let outer = play!(default_on().task_per_gpu());
    for say in [
        |step: Step| step.option("dry-run"),
        |step: Step| step.env("SLURM_NIC_PLACEMENT=dry-run"),
    ] {
        let step = nested_in(&outer, 0, Step::on_dgx_h100()).word("--step-id", "0xfffffffb");
        play!(say(step).task("")).assert_untouched();
    }
}

#[test]
fn the_step_that_adopts_foreign_processes_is_left_alone() {
    let outer = play!(default_on().task_per_gpu());
    for step_id in ["0xfffffffc", "0xfffffffd", "0xfffffff1"] {
        let step = nested_in(&outer, 0, Step::on_dgx_h100()).word("--step-id", step_id);
        play!(step.task("")).assert_untouched();
    }
}

// ---- a variable of the user's own that is called like our line ----

#[test]
fn a_users_own_nic_placement_is_neither_overwritten_nor_removed() {
    for own in [
        "",
        "mine",
        "v1",
        "v2 policy=closest gpus= nics=",
        "v1 set:UCX_NET_DEVICES=mlx5_0:1",
        "v1  policy=x",
    ] {
        let step = |option: &str| {
            let step = Step::on_dgx_h100()
                .option(option)
                .env(&format!("NIC_PLACEMENT={own}"));
            step.env("NCCL_IB_HCA=mine").task_per_gpu()
        };
        let placed = play!(step("closest,verbose"));
        placed.assert_nearest_nics();
        for task in 0..8 {
            assert_eq!(
                placed.env(task, "NIC_PLACEMENT").as_deref(),
                Some(own),
                "task {task}\n{placed}"
            );
        }
        let shown = placed.shown_to_the_user();
        let lines = |words: &str| {
            shown
                .iter()
                .filter(|line| line.text.contains(words))
                .count()
        };
        assert_eq!(
            (
                lines(" set UCX_NET_DEVICES "),
                lines("nothing is published")
            ),
            (8, 8),
            "`{own}`\n{placed}"
        );
        play!(step("off")).assert_untouched();
        play!(step("closest").word("--step-id", "0xfffffffb")).assert_untouched();
    }
}

// `unset SLURM_CPU_BIND` in the shell of `srun --pty bash` gives srun its freedom back, and srun writes these anew only where it
// was told of a way (src/common/env.c, `setup_env`); since 25.11 slurmd itself leaves a list of 128 KiB out
#[test]
fn a_way_of_binding_that_srun_is_not_told_of_is_no_choice_of_the_users() {
    const WORD: &str = "SLURM_NIC_PLACEMENT_CPU_BIND";
    for (set, told) in [
        ("SLURM_JOB_ID=7", Some("unnamed")),
        ("SLURM_CPU_BIND=", Some("unnamed")),
        ("SLURM_CPU_BIND=quiet,mask_cpu:0x3", Some("chosen")),
        ("SLURM_CPU_BIND=verbose", None),
    ] {
        let inside = Step::in_context("local").env("SLURM_CPU_BIND_TYPE=mask_cpu:");
        let played = play!(inside.env("SLURM_CPU_BIND_LIST=0x3").env(set));
        assert_eq!(played.left(WORD), told, "{set}\n{played}");
        assert_eq!(
            played.left("SLURM_CPU_BIND_TYPE"),
            Some("mask_cpu:"),
            "it is not ours\n{played}"
        );
    }
    for (word, moves) in [("chosen", false), ("unnamed", true)] {
        let step = Step::on_dgx_h100()
            .arg("trust-topology")
            .option("closest")
            .env("SLURM_CPUS_PER_TASK=4");
        let step = step
            .word("--played-cpus", "0-223")
            .env("SLURM_CPU_BIND_TYPE=mask_cpu:");
        let step = step
            .env("SLURM_CPU_BIND_LIST=0x3")
            .env(&format!("{WORD}={word}"));
        let placed =
            play!(step.task("CUDA_VISIBLE_DEVICES=0 -SLURM_CPU_BIND_TYPE -SLURM_CPU_BIND_LIST"));
        assert_eq!(
            placed.cpus(0).as_deref() != Some("0-223"),
            moves,
            "{word}\n{placed}"
        );
    }
}

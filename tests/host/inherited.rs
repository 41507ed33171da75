//! What a step inherits: which word is the nearest where several places speak, and values of ours that a job takes along.

use super::*;
use crate::tasks::nested_in;

/// Slurm's names for the option that sbatch and salloc leave, for commands and for nodes.
const LEFT: [&str; 2] = [
    "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement",
    "_SLURM_SPANK_OPTION_nic_placement_nic_placement",
];
/// What the variable was when sbatch or salloc was given the option.
const BEFORE: &str = "SLURM_NIC_PLACEMENT_BEFORE";

/// In an allocation whose sbatch or salloc was given this option; `variable`: the user's, where it
/// is set.
fn inside(context: &str, given: &str, variable: Option<&str>) -> Step {
    let step = LEFT.iter().fold(Step::in_context(context), |step, name| {
        step.env(&format!("{name}={given}"))
    });
    match variable {
        Some(value) => step.env(&format!("SLURM_NIC_PLACEMENT={value}")),
        None => step,
    }
}

// ---- the nearest word ----

#[test]
fn sruns_own_option_beats_the_variable_and_what_salloc_was_given() {
    for (own, others) in [("off", "closest"), ("closest", "off")] {
        let played = inside("local", others, Some(others)).option(own).play();
        assert_eq!(played.ok().left(LEFT[1]), Some(own), "{played}");
    }
}

#[test]
fn a_variable_that_is_set_inside_the_allocation_replaces_what_salloc_was_given() {
    for context in ["local", "allocator"] {
        let played = inside(context, "closest,verbose", Some("off")).play();
        let left = LEFT.map(|name| played.ok().left(name));
        assert_eq!(left, [None; 2], "{played}");
        assert_eq!(played.left("SLURM_NIC_PLACEMENT"), Some("off"), "{played}");
        // one that was there before does not
        for (variable, left) in [("off", Some("closest")), ("rail", None)] {
            let step = inside(context, "closest", Some(variable));
            let played = step.env(&format!("{BEFORE}=off")).play();
            assert_eq!(played.left(LEFT[1]), left, "{played}");
        }
    }
    for variable in [None, Some(""), Some("closet"), Some("closest,off")] {
        let played = inside("local", "numa", variable).play();
        assert_eq!(played.ok().left(LEFT[1]), Some("numa"), "{played}");
    }
}

#[test]
fn what_the_variable_was_is_noted_by_who_leaves_an_allocation_and_forgotten_of_an_outer_one() {
    let (rail, option) = ("--env SLURM_NIC_PLACEMENT=rail", "--option closest");
    let before = format!("--env {BEFORE}=off {option}");
    for (context, words, noted) in [
        ("allocator", format!("{rail} {option}"), Some("rail")),
        ("allocator", before.clone(), None),
        ("allocator", format!("{before} {rail}"), Some("rail")),
        ("allocator", rail.to_string(), None),
        ("local", rail.to_string(), None),
        // srun leaves no allocation
        ("local", format!("{rail} {option}"), None),
    ] {
        let played = of(context, &words);
        assert_eq!(played.left(BEFORE), noted, "{played}");
    }
}

// ---- values of ours in a job that a placed step submits ----

#[test]
fn a_batch_script_and_an_interactive_shell_lose_our_values_and_keep_the_users() {
    let outer = on("--env UCX_TLS=rc").eight();
    let inside = |id: &str| nested_in(&outer, 0, dgx(&format!("--step-id {id}")));
    for id in ["0xfffffffb", "0xfffffffa"] {
        let step = inside(id).task("");
        step.play().ok().lacks(0, &VARIABLES).gets(0, "UCX_TLS=rc");
        let own = inside(id).with("--env UCX_NET_DEVICES=mlx5_9:1 --option closest");
        let own = own.gpu("3");
        own.ok().gets(0, "UCX_NET_DEVICES=mlx5_9:1 -NCCL_IB_HCA");
    }
    // a dry run keeps even ours, and so do the steps that adopt foreign processes
    for word in ["--option dry-run", "--env SLURM_NIC_PLACEMENT=dry-run"] {
        inside("0xfffffffb").with(word).task("").play().untouched();
    }
    for id in ["0xfffffffc", "0xfffffffd", "0xfffffff1"] {
        inside(id).task("").play().untouched();
    }
}

// ---- a variable of the user's own that is called like our line ----

#[test]
fn a_users_own_nic_placement_is_neither_overwritten_nor_removed() {
    let all = "|mine|v1|v2 policy=closest gpus= nics=|v1 set:UCX_NET_DEVICES=mlx5_0:1|v1  policy=x";
    for own in all.split('|') {
        let step = |words: &str| {
            dgx(words)
                .env(&format!("NIC_PLACEMENT={own}"))
                .env("NCCL_IB_HCA=mine")
        };
        let placed = step("--option closest,verbose").eight();
        placed.near();
        for task in 0..8 {
            placed.has(task, "NIC_PLACEMENT", own);
        }
        let shown = placed.shown_to_the_user();
        for words in [" set UCX_NET_DEVICES ", "nothing is published"] {
            let lines = shown.iter().filter(|line| line.has(&[words]));
            assert_eq!(lines.count(), 8, "{placed}");
        }
        step("--option off").eight().untouched();
        let played = step("--option closest --step-id 0xfffffffb").eight();
        played.untouched();
    }
}

// `unset SLURM_CPU_BIND` in the shell of `srun --pty bash` gives srun its freedom back, and srun writes these anew only where it
// was told of a way (src/common/env.c, `setup_env`); since 25.11 slurmd itself leaves a list of 128 KiB out
#[test]
fn a_way_of_binding_that_srun_is_not_told_of_is_no_choice_of_the_users() {
    const WORD: &str = "SLURM_NIC_PLACEMENT_CPU_BIND";
    let mask = "--env SLURM_CPU_BIND_TYPE=mask_cpu: --env SLURM_CPU_BIND_LIST=0x3";
    for (set, told) in [
        ("SLURM_JOB_ID=7", Some("unnamed")),
        ("SLURM_CPU_BIND=", Some("unnamed")),
        ("SLURM_CPU_BIND=quiet,mask_cpu:0x3", Some("chosen")),
        ("SLURM_CPU_BIND=verbose", None),
    ] {
        let played = of("local", &format!("{mask} --env {set}"));
        assert_eq!(played.left(WORD), told, "{played}");
        // it is not ours
        let found = played.left("SLURM_CPU_BIND_TYPE");
        assert_eq!(found, Some("mask_cpu:"), "{played}");
    }
    for (word, moves) in [("chosen", false), ("unnamed", true)] {
        let step = dgx(
            "--arg trust-topology --option closest --env SLURM_CPUS_PER_TASK=4 --played-cpus 0-223",
        );
        let step = step.with(mask).with(&format!("--env {WORD}={word}"));
        let unset = "CUDA_VISIBLE_DEVICES=0 -SLURM_CPU_BIND_TYPE -SLURM_CPU_BIND_LIST";
        let placed = step.task(unset).play();
        let found = placed.cpus(0).as_deref() != Some("0-223");
        assert_eq!(found, moves, "{placed}");
    }
}

//! Steps whose arguments and variables are nearly all that execve(2) takes: what we add is not what makes it fail.

use super::*;

/// A step that leaves so many bytes of the 128 KiB that a stack of 256 KiB allows.
fn with_room(bytes: usize, more: &[&str]) -> Step {
    let step = more
        .iter()
        .fold(default_on().option("closest,verbose"), |step, each| {
            step.env(each)
        });
    let step = step
        .env("SLURM_RLIMIT_STACK=262144")
        .task("CUDA_VISIBLE_DEVICES=0");
    let played = step.play().expect("a compiler");
    // what the step has without more, as execve(2) counts: each with its NUL and a pointer
    let ours = VARIABLES
        .iter()
        .filter(|name| !more.iter().any(|each| each.starts_with(*name)));
    let has: usize = played.whole_env(0).iter().map(|each| each.len() + 9).sum();
    let ours: usize = ours
        .filter_map(|name| Some(played.env(0, name)?.len() + name.len() + 10))
        .sum();
    let mut left = 128 * 1024 - bytes - (has - ours);
    let mut padded = step;
    for number in 100.. {
        let part = left.min(3000);
        let name = format!("PAD_{number}=");
        if part < name.len() + 9 {
            break;
        }
        padded = padded.env(&format!("{name}{}", "x".repeat(part - name.len() - 9)));
        left -= part;
    }
    padded
}

const WHY: &str = "no variable is set: no room for it";

#[test]
fn a_step_near_the_kernels_limit_gets_none_of_our_variables_and_says_why() {
    if harness::host().is_none() {
        return;
    }
    for (room, is_set) in [(700, false), (20_000, false), (60_000, true)] {
        let played = play!(with_room(room, &[]));
        played.assert_nothing_failed();
        for name in VARIABLES {
            assert_eq!(
                played.env(0, name).is_some(),
                is_set,
                "{name} with {room} bytes\n{played}"
            );
        }
        assert_eq!(files::said(&played, &[WHY]), !is_set, "{room}\n{played}");
    }
}

#[test]
fn an_outer_steps_values_go_where_there_is_no_room_for_others() {
    if harness::host().is_none() {
        return;
    }
    let outer = [
        "UCX_NET_DEVICES=mlx5_9:1",
        "NIC_PLACEMENT=v1 policy=closest gpus=0000:9d:00.0 nics=mlx5_9:1 set:UCX_NET_DEVICES=mlx5_9:1",
    ];
    let played = play!(with_room(700, &outer));
    played.assert_nothing_failed();
    for name in VARIABLES {
        assert_eq!(played.env(0, name), None, "{name}\n{played}");
    }
    let users = play!(with_room(700, &["UCX_NET_DEVICES=mlx5_9:1"]));
    assert_eq!(
        users.env(0, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_9:1"),
        "the user's own stays\n{users}"
    );
}

#[test]
fn strict_fails_the_task_that_has_no_room() {
    if harness::host().is_none() {
        return;
    }
    let played = play!(with_room(700, &["SLURM_NIC_PLACEMENT=closest"]).option("closest,strict"));
    assert_eq!(played.exit(0), Some(1), "{played}");
    assert!(files::said(&played, &["as `strict` asks", WHY]), "{played}");
}

//! Steps whose arguments and variables are nearly all that execve(2) takes: what we add is not what makes it fail.

use super::*;

/// A step that leaves so many bytes of the 128 KiB that a stack of 256 KiB allows.
fn with_room(bytes: usize, more: &[&str], words: &str) -> Played {
    let begin = on("--option closest,verbose --env SLURM_RLIMIT_STACK=262144 --gpu 0");
    let step = more.iter().fold(begin, |step, each| step.env(each));
    let played = step.play();
    // as the step is without ours, by execve(2)'s count: each with its NUL and a pointer
    let is_ours = |each: &&String| {
        let name = each.split('=').next().unwrap_or_default();
        VARIABLES.contains(&name) && !more.iter().any(|more| more.starts_with(name))
    };
    let all = played.whole_env(0);
    let has = all.iter().filter(|each| !is_ours(each));
    let has: usize = has.map(|each| each.len() + 9).sum();
    let mut left = 128 * 1024 - bytes - has;
    let mut padded = step;
    for number in 100.. {
        let part = left.min(3000);
        let name = format!("PAD_{number}=");
        if part < name.len() + 9 {
            break;
        }
        let padding = "x".repeat(part - name.len() - 9);
        padded = padded.env(&format!("{name}{padding}"));
        left -= part;
    }
    padded.with(words).play()
}

const WHY: &str = "variable is set: no room";

#[test]
fn a_step_near_the_kernels_limit_gets_none_of_our_variables_and_says_why() {
    for (room, is_set) in [(700, false), (20_000, false), (60_000, true)] {
        let played = with_room(room, &[], "");
        let set = VARIABLES.map(|name| played.ok().env(0, name).is_some());
        assert_eq!(set, [is_set; 4], "{played}");
        assert_eq!(played.said(&[WHY]), !is_set, "{played}");
    }
    let variable = ["SLURM_NIC_PLACEMENT=closest"];
    let strict = with_room(700, &variable, "--option closest,strict");
    strict.fails(0, &["as `strict` asks", WHY]);
}

#[test]
fn an_outer_steps_values_go_where_there_is_no_room_for_others_and_the_users_own_stay() {
    let value = "UCX_NET_DEVICES=mlx5_9:1";
    let marker =
        format!("NIC_PLACEMENT=v1 policy=closest gpus=0000:9d:00.0 nics=mlx5_9:1 set:{value}");
    let played = with_room(700, &[value, &marker], "");
    played.ok().lacks(0, &VARIABLES);
    with_room(700, &[value], "").gets(0, "UCX_NET_DEVICES=mlx5_9:1");
}

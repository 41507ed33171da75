//! `nic-placement fabric` on the texts of real programs.
#![forbid(unsafe_code)]

use super::made::{Made, NicPlace};
use super::{folder, ibsim, lldpd};
use std::path::Path;
use std::process::Command;

/// What the command prints, and its status.
fn fabric(files: &[&Path]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .arg("fabric")
        .args(files)
        .output()
        .unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        output.status.code(),
    )
}

/// The lines that begin with a word.
fn lines<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(word)).collect()
}

/// The command on the text of each program that a played fabric has: what is wrong, in the beginning of a line.
fn judged(name: &str, fabric: &Made, wrong: &[&str]) {
    let folder = folder(name);
    if ibsim::play(&folder, fabric).is_none() {
        return;
    }
    for text in ["ibnetdiscover.txt", "ibnetdiscover-f.txt"] {
        let (printed, status) = self::fabric(&[&folder.join(text)]);
        let found = lines(&printed, "wrong");
        assert_eq!(found.len(), wrong.len(), "{name}: {text}: {printed}");
        for (line, begins) in found.iter().zip(wrong) {
            assert!(
                line.starts_with(&format!("wrong  {begins}")),
                "{name}: {text}: {printed}"
            );
        }
        assert_eq!(status, Some(i32::from(!wrong.is_empty())), "{name}: {text}");
        assert!(lines(&printed, "note").is_empty(), "{printed}");
    }
}

#[test]
fn the_command_finds_nothing_wrong_in_fabrics_that_are_as_they_should_be() {
    judged("command-rails", &Made::rail_optimised(6, 4, 3, 2), &[]);
    judged("command-tree", &Made::fat_tree(6, 4, 3, 2), &[]);
}

#[test]
fn the_command_names_cables_that_are_exchanged_or_missing() {
    let mut fabric = Made::rail_optimised(8, 4, 4, 2);
    fabric.exchange(NicPlace { node: 1, nic: 0 }, NicPlace { node: 1, nic: 2 });
    fabric.exchange(NicPlace { node: 2, nic: 1 }, NicPlace { node: 6, nic: 3 });
    fabric.unplug(NicPlace { node: 4, nic: 3 });
    let wrong = [
        "node2 mlx5_0 and mlx5_2 are exchanged: ",
        "node3 mlx5_1 and node7 mlx5_3 are exchanged: ",
        "node5 mlx5_3 has no link; ",
    ];
    judged("command-wrong", &fabric, &wrong);
}

#[test]
fn isolated_rails_are_recognised_by_a_file_for_each() {
    let fabric = Made::rail_optimised(4, 2, 4, 0);
    let files =
        ["command-rail-0", "command-rail-1"].map(|name| folder(name).join("ibnetdiscover.txt"));
    for (rail, name) in ["command-rail-0", "command-rail-1"].iter().enumerate() {
        if ibsim::play(&folder(name), &fabric.starting_at(rail)).is_none() {
            return;
        }
    }
    let (printed, status) = self::fabric(&[&files[0], &files[1]]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(
        lines(&printed, "write  `fabric=isolated-rails`").len() == 1,
        "{printed}"
    );
}

#[test]
fn what_lldpd_hears_makes_rails() {
    let folder = folder("command-lldpd");
    if lldpd::heard(&folder).is_none() {
        return;
    }
    let (printed, status) = fabric(&[&folder.join("all.json0")]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(
        printed.starts_with(
            "2 nodes, 4 cables to 2 switches: each NIC of a node on a switch of its own"
        ),
        "{printed}"
    );
}

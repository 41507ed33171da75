//! `nic-placement fabric` on the texts of real programs.
#![forbid(unsafe_code)]

use super::answer::{Answer, tool};
use super::made::{Made, NicPlace};
use super::{folder, ibsim, lldpd};
use std::path::Path;

fn fabric(files: &[&Path]) -> Answer {
    Answer::of(tool().arg("fabric").args(files))
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
        let answer = self::fabric(&[&folder.join(text)]);
        let found = lines(&answer.out, "wrong");
        assert_eq!(found.len(), wrong.len(), "{answer}");
        for (line, begins) in found.iter().zip(wrong) {
            assert!(line.starts_with(&format!("wrong  {begins}")), "{answer}");
        }
        answer.ends(i32::from(!wrong.is_empty()));
        assert!(lines(&answer.out, "note").is_empty(), "{answer}");
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
        "exchanged: node2 mlx5_0 is on leaf1-3 (rail 2) and belongs on leaf1-1 (rail 0); node2 mlx5_2",
        "exchanged: node3 mlx5_1 ",
        "node5 mlx5_3 has no link and ",
    ];
    judged("command-wrong", &fabric, &wrong);
}

#[test]
fn isolated_rails_are_recognised_by_a_file_for_each() {
    let fabric = Made::rail_optimised(4, 2, 4, 0);
    let folders = ["command-rail-0", "command-rail-1"].map(folder);
    for (rail, folder) in folders.iter().enumerate() {
        if ibsim::play(folder, &fabric.starting_at(rail)).is_none() {
            return;
        }
    }
    let files = folders.map(|folder| folder.join("ibnetdiscover.txt"));
    let answer = self::fabric(&[&files[0], &files[1]]);
    let advice = lines(&answer.ends(0).out, "write  `fabric=isolated-rails`");
    assert_eq!(advice.len(), 1, "{answer}");
}

#[test]
fn what_lldpd_hears_makes_rails() {
    let folder = folder("command-lldpd");
    if lldpd::heard(&folder).is_none() {
        return;
    }
    let answer = fabric(&[&folder.join("all.json0")]);
    let begin = "2 nodes, 4 cables: each NIC";
    assert!(answer.ends(0).out.starts_with(begin), "{answer}");
}

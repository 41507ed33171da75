//! What a command does not understand: one line says so, and nothing is printed.

use super::*;
use std::os::unix::fs::MetadataExt;

/// One short line, and nothing on stdout.
#[track_caller]
fn refused(words: &[&str], status: i32, why: &[&str]) {
    let answer = ran(words);
    answer.refuses(status, why);
    assert_eq!(answer.err.lines().count(), 1, "{answer}");
    let is_so = answer.err.starts_with("nic-placement: ") && answer.err.len() <= 900;
    assert!(is_so, "{answer}");
}

#[track_caller]
fn refused_line(line: &str, why: &[&str]) {
    refused(&line.split(' ').collect::<Vec<_>>(), 2, why);
}

#[test]
fn an_empty_list_of_gpus_is_refused() {
    for list in ["", ",", "0,,1", "0,", " "] {
        let map = ["map", "--machine", "dgx-h100", "--gpus", list];
        refused(&map, 2, &["`--gpus "]);
    }
}

#[test]
fn check_fails_by_each_argument_that_is_not_understood() {
    let place = Place::new("odd-switch");
    let text = "\u{feff}default=closest\nNodeName=ALL Disabled\nPartitionName=p default = off\n";
    let conf = place.file("c", text);
    Place::mode(&conf, 0o644);
    if fs::metadata(&conf).unwrap().uid() != 0 {
        return println!("skipped: this is not root");
    }
    let line = format!("optional libnic_placement.so conf={conf}\n");
    let line = place.file("plugstack.conf", line);
    let of_dgx = format!("--machine dgx-h100 --plugstack {line}");
    let answer = run(&format!("check --json {of_dgx}"));
    answer.ends(4).says(&[
        "c:2`: `NodeName=ALL` is no node's name",
        "c:3: =`: unknown argument",
    ]);
    // one file of all nodes drains none
    assert_ne!(run(&format!("check --health {of_dgx}")).status, Some(4));
}

#[test]
fn a_number_that_does_not_fit_is_told_with_its_option_and_what_is_allowed() {
    for (command, option, bounds) in [
        ("plan", "--ntasks", "1 to 4096"),
        ("plan", "--gpus-per-task", "1 to 4096, or all"),
        ("plan", "--cpus-per-task", "1 to 8192"),
        ("verify", "--watch", "1 to 86400"),
        ("check", "--within", "1 to 600"),
        ("refresh", "--every", "1 to 86400"),
        ("exec", "--local-rank", "0 to 4095"),
        ("exec", "--local-size", "1 to 4096"),
    ] {
        let zero = Some("0").filter(|_| bounds.starts_with('1'));
        for value in ["abc", "1.5", "99999999999"].into_iter().chain(zero) {
            let why = [&*format!("`{value}` for `{option} "), "expected", bounds];
            refused_line(&format!("{command} {option} {value}"), &why);
        }
    }
}

#[test]
fn what_was_probably_meant_is_told() {
    // a command that is gone says what does it now
    let cases = "explain --gpu 3|is gone:|`nic-placement show --gpu 3
        measure -- true|is gone:|`nic-placement verify --bytes -- CMD
        top|is gone:|`nic-placement verify --watch
        help top|is gone:|`nic-placement verify --watch
        verify sleep 1|unexpected argument `sleep`|[-- <CMD>...]
        exec true|<CMD>|exec <WORDS> -- <CMD>
        plan --machine gh200 --words closet|`closet`, did you mean `closest`?|--nic-placement=help`
        plan --machine gh300|`gh300` for `--machine|`nic-placement machines` lists all
        refresh --textfile x|`--textfile x`|.prom
        chek|`chek`|similar subcommand exists: `check`
        check --off acx|`acx`|similar value exists: `acs`";
    for case in cases.lines() {
        let cells: Vec<_> = case.trim_start().split('|').collect();
        refused_line(cells[0], &cells[1..]);
    }
    for command in commands() {
        let line = format!("{command} --no-such-option");
        run(&line).refuses(2, &["unexpected argument `--no-such-option` found"]);
    }
}

#[test]
fn a_file_that_describes_no_node_is_told_as_what_it_seems() {
    let place = Place::new("other-files");
    let readable = "topology JSON|a tar of /sys|`nvidia-smi topo -m`|`amd-smi topology`".split('|');
    let readable: Vec<_> = readable.collect();
    for (text, seems) in [
        ("# nic-placement\n\nA GPU and a NIC.\n", "`# nic-placement`"),
        ("\u{7f}ELF\u{2}\0\0", "ELF"),
        ("", "``"),
    ] {
        let file = place.file("other", text);
        for command in ["import", "show --topology"] {
            let seems = if seems == "ELF" {
                "it begins with `".to_string()
            } else {
                format!("it begins with {seems}; expected")
            };
            let answer = run(&format!("{command} {file}"));
            answer.refuses(1, &[&[&*seems], &readable[..]].concat());
        }
    }
}

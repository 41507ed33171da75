//! What a command does not understand: one line says so, and nothing is printed.

use crate::{Place, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn refused(arguments: &[&str], status: i32, problem: &str) {
    let arguments = [&["map", "--machine", "dgx-h100"][..], arguments].concat();
    let output = run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert!(
        said.contains(problem) && said.lines().count() == 1,
        "{arguments:?}: {said}"
    );
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

#[test]
fn a_format_that_laid_out_ranks_is_answered_with_what_places_them() {
    for (format, launcher) in [
        ("openmpi", "mpirun --bind-to none"),
        ("mpich", "mpiexec"),
        ("intel-mpi", "mpiexec -genv I_MPI_PIN 0"),
    ] {
        let instead = format!(
            "`--format {format}`: `{launcher} nic-placement exec -- PROGRAM` places each rank"
        );
        refused(&["--format", format], 2, &instead);
    }
    refused(&["--host", "n1"], 2, "unknown option `--host`");
}

#[test]
fn a_list_of_gpus_has_no_empty_word() {
    for list in ["", ",", "0,,1", "0,", " "] {
        refused(&["--gpus", list], 2, "`--gpus ");
    }
}

#[test]
fn check_fails_by_each_argument_that_is_not_understood() {
    let place = Place::new("odd-switch");
    let conf = place.file(
        "c",
        "\u{feff}default=closest\nNodeName=ALL Disabled\nPartitionName=p default = off\n",
    );
    fs::set_permissions(&conf, Permissions::from_mode(0o644)).unwrap();
    if fs::metadata(&conf).unwrap().uid() != 0 {
        return println!("skipped: the plugin takes root's file alone");
    }
    let line = place.file(
        "plugstack.conf",
        &format!("optional libnic_placement.so conf={conf}\n"),
    );
    let output = run(&[
        "check",
        "--json",
        "--machine",
        "dgx-h100",
        "--plugstack",
        &line,
    ]);
    let said = String::from_utf8(output.stdout).unwrap();
    for words in [
        "c:2`: `NodeName=ALL` is no node's name: for all nodes leave it out",
        "c:3: =`: unknown argument",
    ] {
        assert!(said.contains(words), "no `{words}`: {said}");
    }
    assert_eq!(output.status.code(), Some(4), "{said}");
    let health = run(&[
        "check",
        "--health",
        "--machine",
        "dgx-h100",
        "--plugstack",
        &line,
    ]);
    assert_ne!(
        health.status.code(),
        Some(4),
        "one file of all nodes drains none"
    );
}

/// One short line, and nothing on stdout.
fn answered(arguments: &[&str], status: i32, problem: &str) {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        said.trim_end(),
        format!("nic-placement: {problem}"),
        "{arguments:?}"
    );
    assert!(
        said.chars().count() <= 200 && output.stdout.is_empty(),
        "{arguments:?}: {said}"
    );
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
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
        for value in ["abc", "-1", "1.5", "99999999999"] {
            let problem = format!("`{option} {value}`: expected a whole number from {bounds}");
            answered(&[command, option, value], 2, &problem);
        }
    }
    let problem = "`--watch 0`: expected a whole number from 1 to 86400";
    answered(&["verify", "--watch", "0"], 2, problem);
}

#[test]
fn a_command_that_is_gone_says_what_does_it_now() {
    for (gone, instead) in [
        (&["explain", "--gpu", "3"][..], "show --gpu 3"),
        (&["measure", "--", "true"], "verify --bytes -- CMD"),
        (&["top"], "verify --watch"),
        (&["help", "top"], "verify --watch"),
    ] {
        let output = run(gone);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1));
        assert!(
            said.contains(&format!("is gone: `nic-placement {instead}`")),
            "{said}"
        );
    }
}

#[test]
fn what_was_probably_meant_is_told() {
    let program = "verify: `--` stands before the program, as `verify -- sleep`; `--merge sleep` adds up reports";
    answered(&["verify", "sleep", "1"], 2, program);
    answered(
        &["exec", "true"],
        2,
        "exec: `--` stands before the program, as `exec -- true`",
    );
    let svg = "`--svg` takes no value: `--svg -o node.svg` writes the picture there";
    answered(&["plan", "--svg", "node.svg"], 2, svg);
    answered(&["show", "--machine", "gh200", "--svg", "node.svg"], 2, svg);
    let word = "unknown word `closet`, did you mean `closest`? `srun --nic-placement=help` and `nic-placement plan --help` \
                list all";
    answered(
        &["plan", "--machine", "gh200", "--words", "closet"],
        2,
        word,
    );
    let machine = "`--machine gh300`: no such machine, did you mean `gh200`? `nic-placement machines` lists all";
    answered(&["plan", "--machine", "gh300"], 2, machine);
    let textfile = "`--textfile x`: the node exporter reads only files whose names end with .prom";
    answered(&["refresh", "--textfile", "x"], 2, textfile);
    answered(
        &["chek"],
        2,
        "unknown command `chek`, did you mean `check`? `nic-placement help` lists all",
    );
    let code = "`--off acx`, did you mean `acs`? `nic-placement check --list` lists all";
    answered(&["check", "--off", "acx"], 2, code);
}

#[test]
fn every_command_ends_with_2_where_the_command_line_is_not_understood() {
    for command in crate::commands() {
        let output = run(&[command, "--no-such-option"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(
            said.contains("unknown option `--no-such-option`") && output.stdout.is_empty(),
            "{said}"
        );
    }
}

#[test]
fn a_file_that_describes_no_node_is_told_as_what_it_seems() {
    let place = Place::new("other-files");
    let expected = "expected topology JSON, a snapshot, a node file, a tar of /sys, XML of hwloc or NCCL, or the text of \
                    `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology`";
    for (text, seems) in [
        (
            "# nic-placement\n\nA GPU and a NIC.\n",
            "other text, which begins with `# nic-placement`",
        ),
        ("\u{7f}ELF\u{2}\0\0", "a program's own format"),
        ("", "an empty file"),
    ] {
        let file = place.file("other", text);
        for command in [&["import"][..], &["show", "--topology"]] {
            let output = run(&[command, &[&file]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let problem = format!(
                "nic-placement: `{file}` is no topology: it seems to be {seems}; {expected}\n"
            );
            assert_eq!((said, output.status.code()), (problem, Some(1)));
        }
    }
}

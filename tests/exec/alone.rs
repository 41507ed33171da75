//! By itself: the program gets what this process has, ends as it would, and nothing is said on stdout.

use crate::harness;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TOOL: &str = env!("CARGO_BIN_EXE_nic-placement");

fn exec(arguments: &[&str]) -> Command {
    let mut command = Command::new(TOOL);
    command
        .arg("exec")
        .args(arguments)
        .env_remove("SLURM_NIC_PLACEMENT")
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn stdout_is_the_program_s_alone_and_its_status_is_the_status() {
    for words in [
        &["--"][..],
        &["verbose", "--"],
        &["--verbose", "rail", "--"],
        &["dry-run", "--"],
    ] {
        let output = exec(words)
            .args(["sh", "-c", "echo from the program; exit 7"])
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(7),
            "{words:?}: {}",
            said(&output)
        );
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "from the program\n"
        );
        let is_ours = |line: &str| line.starts_with("nic-placement: ");
        assert!(
            said(&output).lines().all(is_ours),
            "{words:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn the_program_gets_its_arguments_as_they_are() {
    let odd = ["--verbose", "--", "it's", "", "two  blanks", "-h"];
    let output = exec(&["--", "printf", "[%s]"]).args(odd).output().unwrap();
    let expected: String = odd.iter().map(|word| format!("[{word}]")).collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn a_program_that_cannot_be_started_ends_as_in_a_shell() {
    let status = |program: &str| exec(&["--", program]).output().unwrap();
    let absent = status("no-such-program-anywhere");
    assert_eq!(absent.status.code(), Some(127));
    assert!(said(&absent).ends_with(
        "cannot start `no-such-program-anywhere`: No such file or directory (os error 2)\n"
    ));
    assert_eq!(
        status("/etc/passwd").status.code(),
        Some(126),
        "it is no program"
    );
    assert_eq!(status("/").status.code(), Some(126));
}

#[test]
fn what_is_not_understood_starts_nothing() {
    for (arguments, problem) in [
        (&["--"][..], "as `exec -- CMD`"),
        (&["true"], "as `exec -- true`"),
        (&["rail"], "as `exec rail -- CMD`"),
        (&["./app", "-n", "3"], "as `exec -- ./app -n`"),
        (&["rail", "./app"], "as `exec rail -- ./app`"),
        (
            &["--local-rank", "3", "python", "train.py"],
            "as `exec -- python train.py`",
        ),
        (
            &["closet", "--", "echo"],
            "unknown word `closet`, did you mean `closest`?",
        ),
        (&["help", "--", "echo"], "`help` starts nothing"),
        (&["--local-rank", "x", "--", "echo"], "--local-rank x"),
        (&["--include", "", "--", "echo"], "include="),
    ] {
        let output = exec(arguments).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(problem) && output.stdout.is_empty(),
            "{arguments:?}: {}",
            said(&output)
        );
    }
}

#[test]
fn whatever_fails_here_the_program_is_started_with_the_environment_that_it_had() {
    let environment = |command: &mut Command| {
        let output = command
            .args(["env", "-0"])
            .env("UCX_NET_DEVICES", "all")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let mut all: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .split('\0')
            .map(str::to_string)
            .collect();
        all.sort();
        (all, said(&output))
    };
    let (before, _) = environment(Command::new("env").env_remove("SLURM_NIC_PLACEMENT"));
    for failing in [
        &["--topology", "/no/such/file", "--"][..],
        &["--topology", "/proc/self/status", "--"],
        &[
            "--plugstack",
            "/no/such/file",
            "--topology",
            "/dev/zero",
            "--",
        ],
    ] {
        let (after, said) = environment(&mut exec(failing));
        assert_eq!(after, before, "{failing:?}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.ends_with("; nothing is set\n"), "{said}");
    }
}

#[test]
fn a_strict_word_starts_nothing_where_the_placement_cannot_be_had() {
    for word in ["strict", "restricted", "single-numa-node"] {
        let output = exec(&[word, "--topology", "/no/such/file", "--", "echo"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(output.stdout.is_empty());
        let asked = format!("`echo` is not started, as `{word}` asks: ");
        assert!(said(&output).contains(&asked), "{}", said(&output));
    }
    let dry = exec(&[
        "strict,dry-run",
        "--topology",
        "/no/such/file",
        "--",
        "true",
    ])
    .output()
    .unwrap();
    assert_eq!(dry.status.code(), Some(0), "a dry run changes nothing");
}

#[test]
fn words_in_the_variable_that_nobody_knows_cost_no_job() {
    let output = exec(&["--", "true"])
        .env("SLURM_NIC_PLACEMENT", "closet")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        said(&output).contains("SLURM_NIC_PLACEMENT: unknown word `closet`"),
        "{}",
        said(&output)
    );
}

/// What the program shows of itself, with `exec` and without.
fn same(script: &str, prepare: fn(&mut Command)) {
    let output = |mut command: Command| {
        prepare(&mut command);
        let output = command.args(["sh", "-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let plain = output(Command::new("env"));
    assert!(!plain.is_empty(), "{script}");
    assert_eq!(output(exec(&["--"])), plain, "{script}");
}

#[test]
fn signals_descriptors_and_limits_are_those_that_it_was_given() {
    let signals = "grep -E '^(SigBlk|SigIgn|SigCgt|SigPnd|ShdPnd)' /proc/self/status";
    let descriptors = "ls /proc/self/fd";
    let limits =
        "ulimit -a; umask; pwd; nice; cat /proc/self/oom_score_adj /proc/self/timerslack_ns";
    for script in [signals, descriptors, limits] {
        same(script, |_| {});
    }
}

/// A shell that prepares something, and then becomes the rest.
fn prepared(preparation: &str, exec: bool, script: &str) -> String {
    let exec = if exec {
        format!("'{TOOL}' exec --")
    } else {
        String::new()
    };
    let line = format!("{preparation} exec {exec} sh -c '{script}'");
    let output = Command::new("sh")
        .args(["-c", &line])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn an_ignored_pipe_signal_stays_ignored_and_one_that_is_not_is_not() {
    let script = "grep SigIgn /proc/self/status";
    let (ignored, not) = (
        prepared("trap \"\" PIPE;", false, script),
        prepared("", false, script),
    );
    assert_ne!(ignored, not);
    assert_eq!(prepared("trap \"\" PIPE;", true, script), ignored);
    assert_eq!(prepared("", true, script), not);
}

#[test]
fn a_closed_descriptor_stays_closed_and_an_open_one_open() {
    let script = "ls /proc/self/fd | tr \"\\n\" \" \"";
    for preparation in ["exec <&-;", "exec 7</dev/null;", "exec 2>&-;"] {
        assert_eq!(
            prepared(preparation, true, script),
            prepared(preparation, false, script),
            "{preparation}"
        );
    }
}

#[test]
fn it_becomes_the_program_and_is_no_parent_of_it() {
    let mut child = exec(&["--", "sh", "-c", "echo $$"]);
    let child = child.stdout(Stdio::piped()).spawn().unwrap();
    let id = child.id().to_string();
    assert_eq!(
        String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).trim(),
        id
    );
}

#[test]
fn a_variable_that_is_no_text_is_handed_on() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let odd = OsStr::from_bytes(b"\xff\n=\x80");
    let output = exec(&["--", "sh", "-c", "printf %s \"$ODD\""])
        .env("ODD", odd)
        .output()
        .unwrap();
    assert_eq!(output.stdout, odd.as_bytes());
}

#[test]
fn another_machine_s_description_sets_variables_of_its_captured_tree_and_binds_nobody() {
    let folder = harness::private_folder("exec-alone");
    let file = folder.join("dgx.machine");
    std::fs::write(&file, nic_placement_testing::snapshot_of("dgx-h100")).unwrap();
    let show = |file: &Path, more: &[&str]| {
        let mut command = exec(&[
            "verbose",
            "--local-rank",
            "3",
            "--local-size",
            "8",
            "--topology",
        ]);
        command
            .arg(file)
            .args(more)
            .args(["--", "sh", "-c", "echo $UCX_NET_DEVICES"]);
        command.env_remove("CUDA_VISIBLE_DEVICES");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let list = String::from_utf8_lossy(&output.stdout).trim().to_string();
        // UCX's list may have network interfaces too
        (
            list.split(',').next().unwrap_or_default().to_string(),
            said(&output),
        )
    };
    let (nic, said) = show(&file, &[]);
    assert_eq!(nic, "mlx5_5:1", "{said}");
    assert!(
        said.contains("CPUs: the topology is not this system's: captured tree"),
        "{said}"
    );
    assert!(
        said.contains("`local rank 3` means by convention number 3 of the 8 that it sees"),
        "{said}"
    );
}

#[test]
fn away_from_the_machine_five_lines_tell_what_it_would_do_there_and_the_program_runs_as_it_is() {
    let tried = |words: &[&str], number: &str| {
        let mut command = exec(words);
        command.args(["--machine", "dgx-h100", "--local-size", "8"]);
        command.args(["--local-rank", number, "--", "sh", "-c"]);
        command.arg("echo ${UCX_NET_DEVICES-none} ${NIC_PLACEMENT-none}");
        command
            .env_remove("UCX_NET_DEVICES")
            .env_remove("NIC_PLACEMENT");
        command.env_remove("CUDA_VISIBLE_DEVICES").output().unwrap()
    };
    let output = tried(&[], "3");
    let (said, stdout) = (said(&output), String::from_utf8_lossy(&output.stdout));
    assert_eq!((&*stdout, output.status.code()), ("none none\n", Some(0)));
    assert_eq!(said.lines().count(), 5, "{said}");
    let first = "none of the devices of `dgx-h100` is on this node: `sh` runs as it is; on a `dgx-h100` it would get";
    assert!(said.contains(first), "{said}");
    let row = "task 3 dgx-h100  gpu 3 0000:61:00.0  nic mlx5_5:1 PIX   cpus 0-55,112-167    mem 0";
    assert!(said.contains(row), "{said}");
    assert!(!said.contains("left out"), "{said}");
    assert_eq!(tried(&["strict"], "3").status.code(), Some(125));
    let above = tried(&[], "8");
    let ignored = "`local rank 8` is not below size 8: ignored";
    assert!(String::from_utf8_lossy(&above.stderr).contains(ignored));
}

#[test]
fn who_is_not_root_is_placed_too() {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    // a folder that another user can enter
    let tool = std::env::temp_dir().join(format!("nic-placement-exec-{}", std::process::id()));
    // by another process: one that this process forks meanwhile would have the copy open for writing (ETXTBSY)
    assert!(
        Command::new("cp")
            .arg(TOOL)
            .arg(&tool)
            .status()
            .unwrap()
            .success()
    );
    let mut command = Command::new(&tool);
    command
        .args(["exec", "verbose", "--", "id", "-u"])
        .uid(65534)
        .gid(65534)
        .current_dir("/");
    let output = command.output().unwrap();
    std::fs::remove_file(&tool).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "65534\n",
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("nic-placement: task 0 "),
        "{}",
        said(&output)
    );
}

/// Variables of so many bytes in all, each shorter than the kernel's limit for one.
fn filler(bytes: usize) -> Vec<(String, String)> {
    const ONE: usize = 100_000;
    let parts = (0..bytes).step_by(ONE).map(|from| ONE.min(bytes - from));
    parts
        .enumerate()
        .map(|(number, part)| (format!("FILLER_{number:03}"), "x".repeat(part)))
        .collect()
}

#[test]
fn a_program_that_has_no_room_for_more_variables_starts_without_ours() {
    let tree = harness::dgx_h100().to_path_buf();
    let starts = |bytes: usize| {
        let mut command = Command::new(TOOL);
        command.arg("exec").arg("--topology").arg(&tree).args([
            "--local-rank",
            "2",
            "--local-size",
            "8",
        ]);
        command
            .args(["--", "sh", "-c", "echo ${UCX_NET_DEVICES-none}; exit 7"])
            .stdin(Stdio::null());
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(filler(bytes))
            .output()
    };
    // the most that the kernel takes for the tool itself
    let (mut fits, mut too_long) = (0, 8 << 20);
    while too_long - fits > 50 {
        let bytes = (fits + too_long) / 2;
        if starts(bytes).is_ok() {
            fits = bytes
        } else {
            too_long = bytes
        }
    }
    let output = starts(fits).unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "none\n");
    assert!(
        said(&output).contains("`sh` gets no variables of ours: there is no room: "),
        "{}",
        said(&output)
    );
    let output = starts(fits - 4000).unwrap();
    assert!(output.stdout.starts_with(b"mlx5_4:1"), "{output:?}");
}

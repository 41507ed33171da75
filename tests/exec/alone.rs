//! By itself: the program gets what this process has, ends as it would, and nothing is said on stdout.

use crate::harness;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const TOOL: &str = env!("CARGO_BIN_EXE_nic-placement");
/// Without it that of a slurmd that runs here counts.
const NO_SLURM: &str = "/nowhere/slurm.conf";

fn exec(arguments: &[&str]) -> Command {
    let mut command = Command::new(TOOL);
    command.arg("exec").args(arguments).stdin(Stdio::null());
    for variable in ["SLURM_NIC_PLACEMENT", "CUDA_VISIBLE_DEVICES"] {
        command.env_remove(variable);
    }
    command.env("SLURM_CONF", NO_SLURM);
    command
}

/// The end of a command: its status, stdout and stderr.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(String::from_utf8);
    (output.status.code(), stdout.unwrap(), stderr.unwrap())
}

#[test]
fn stdout_is_the_program_s_alone_and_its_status_is_the_status() {
    for words in [
        &["--"][..],
        &["verbose", "--"],
        &["verbose,rail", "--"],
        &["dry-run", "--"],
    ] {
        let program = ["sh", "-c", "echo from it; exit 7"];
        let (code, stdout, said) = ended(exec(words).args(program));
        let found = (code, &*stdout);
        assert_eq!(found, (Some(7), "from it\n"), "{words:?}: {said}");
        let is_ours = |line: &str| line.starts_with("nic-placement: ");
        assert!(said.lines().all(is_ours), "{words:?}: {said}");
    }
}

#[test]
fn the_program_gets_its_arguments_as_they_are() {
    let odd = ["--verbose", "--", "it's", "", "two  blanks", "-h"];
    let (_, stdout, _) = ended(exec(&["--", "printf", "[%s]"]).args(odd));
    assert_eq!(stdout, odd.map(|word| format!("[{word}]")).concat());
}

#[test]
fn a_program_that_cannot_be_started_ends_as_in_a_shell() {
    // the last two are no programs
    for (program, status) in [("no-such-program", 127), ("/etc/passwd", 126), ("/", 126)] {
        let (code, _, said) = ended(&mut exec(&["--", program]));
        assert_eq!(code, Some(status), "{program}: {said}");
        let is_so = said.contains(&format!("cannot start `{program}`: "));
        assert!(is_so, "{said}");
    }
}

#[test]
fn what_is_not_understood_starts_nothing() {
    let words = |line: &'static str| Vec::from_iter(line.split(' '));
    let number = words("--local-rank 3 python train.py");
    let (odd, typo) = (words("--local-rank x -- echo"), words("closet -- echo"));
    for (arguments, problem) in [
        (&["--"][..], "not provided: <CMD>"),
        (&["true"], "exec <WORDS> -- <CMD>"),
        (&["./app", "-n", "3"], "unexpected argument `-n`"),
        (&["rail", "./app"], "unexpected argument `./app`"),
        (&number, "unexpected argument `train.py`"),
        (&typo, "unknown word `closet`, did you mean `closest`?"),
        (&["help", "--", "echo"], "`help` starts nothing"),
        (&odd, "`x` for `--local-rank"),
        (&["--argument", "include=", "--", "echo"], "include="),
    ] {
        let (code, stdout, said) = ended(&mut exec(arguments));
        assert_eq!((code, &*stdout), (Some(2), ""), "{arguments:?}: {said}");
        assert!(said.contains(problem), "{arguments:?}: {said}");
    }
}

#[test]
fn whatever_fails_here_the_program_is_started_with_the_environment_that_it_had() {
    let environment = |command: &mut Command| {
        let (code, stdout, said) = ended(command.args(["env", "-0"]).env("UCX_NET_DEVICES", "all"));
        assert_eq!(code, Some(0), "{said}");
        let mut all: Vec<String> = stdout.split('\0').map(str::to_string).collect();
        all.sort();
        (all, said)
    };
    let mut plain = Command::new("env");
    plain.env_remove("SLURM_NIC_PLACEMENT");
    plain
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env("SLURM_CONF", NO_SLURM);
    let (before, _) = environment(&mut plain);
    for failing in [
        &["--topology", "/no/such/file", "--"][..],
        &["--topology", "/proc/self/status", "--"],
        &["--plugstack", "/none", "--topology", "/dev/zero", "--"],
    ] {
        let (after, said) = environment(&mut exec(failing));
        assert_eq!(after, before, "{failing:?}");
        let is_told = said.ends_with("; nothing is set\n");
        assert!(said.lines().count() == 1 && is_told, "{said}");
    }
}

#[test]
fn a_strict_word_starts_nothing_where_the_placement_cannot_be_had() {
    let nowhere = ["--topology", "/no/such/file", "--", "echo", "ran"];
    for word in ["strict", "restricted", "single-numa-node"] {
        let (code, stdout, said) = ended(exec(&[word]).args(nowhere));
        assert_eq!((code, &*stdout), (Some(125), ""));
        let asked = format!("`echo` is not started, as `{word}` asks: ");
        assert!(said.contains(&asked), "{said}");
    }
    // a dry run changes nothing
    let (code, ..) = ended(exec(&["strict,dry-run"]).args(nowhere));
    assert_eq!(code, Some(0));
}

#[test]
fn words_in_the_variable_that_nobody_knows_cost_no_job() {
    let (code, _, said) = ended(exec(&["--", "true"]).env("SLURM_NIC_PLACEMENT", "closet"));
    assert_eq!(code, Some(0));
    let is_so = said.contains("SLURM_NIC_PLACEMENT: unknown word `closet`");
    assert!(is_so, "{said}");
}

/// A shell prepares something, and then becomes the program, by `exec` and without: it shows the same of itself.
#[track_caller]
fn same(preparation: &str, script: &str) -> String {
    let shown = |exec: &str| {
        let line = format!("{preparation} exec {exec} sh -c '{script}'");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("SLURM_CONF", NO_SLURM);
        let (code, stdout, said) = ended(shell.stdin(Stdio::null()));
        assert_eq!(code, Some(0), "{line}: {said}");
        assert_ne!(stdout, "", "{line}");
        stdout
    };
    let plain = shown("");
    let found = shown(&format!("'{TOOL}' exec --"));
    assert_eq!(found, plain, "{preparation} {script}");
    plain
}

#[test]
fn signals_descriptors_and_limits_are_those_that_it_was_given() {
    let signals = "grep -E \"^(SigBlk|SigIgn|SigCgt|SigPnd|ShdPnd)\" /proc/self/status";
    let limits =
        "ulimit -a; umask; pwd; nice; cat /proc/self/oom_score_adj /proc/self/timerslack_ns";
    let descriptors = "ls /proc/self/fd";
    for script in [signals, limits, descriptors] {
        same("", script);
    }
    // closed ones stay closed, and open ones open
    for preparation in ["exec <&-;", "exec 7</dev/null;", "exec 2>&-;"] {
        same(preparation, descriptors);
    }
    assert_ne!(same("trap \"\" PIPE;", signals), same("", signals));
}

#[test]
fn it_becomes_the_program_and_is_no_parent_of_it() {
    let mut child = exec(&["--", "sh", "-c", "echo $$"]);
    let child = child.stdout(Stdio::piped()).spawn().unwrap();
    let id = format!("{}\n", child.id());
    assert_eq!(child.wait_with_output().unwrap().stdout, id.as_bytes());
}

#[test]
fn a_variable_that_is_no_text_is_handed_on() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let odd = OsStr::from_bytes(b"\xff\n=\x80");
    let mut command = exec(&["--", "sh", "-c", "printf %s \"$ODD\""]);
    let found = command.env("ODD", odd).output().unwrap().stdout;
    assert_eq!(found, odd.as_bytes());
}

/// The third of eight processes.
fn third(words: &[&str], number: &str) -> Command {
    let mut command = exec(words);
    command.args(["--local-size", "8", "--local-rank", number]);
    command.args(["--", "sh", "-c"]);
    command.arg("echo ${UCX_NET_DEVICES-none} ${NIC_PLACEMENT-none}");
    command.env_remove("UCX_NET_DEVICES");
    command.env_remove("NIC_PLACEMENT");
    command
}

#[test]
fn another_machine_s_description_sets_variables_of_its_captured_tree_and_binds_nobody() {
    let file = harness::private_folder("exec-alone").join("dgx.machine");
    std::fs::write(&file, nic_placement_testing::snapshot_of("dgx-h100")).unwrap();
    let file = file.to_str().unwrap();
    let (code, stdout, said) = ended(&mut third(&["verbose", "--topology", file], "3"));
    // UCX's list may have network interfaces too
    let is_so = code == Some(0) && stdout.starts_with("mlx5_5:1");
    assert!(is_so, "{stdout}{said}");
    let all = "CPUs: the topology is not this system's|\
               `local rank 3` means by convention number 3 of the 8 that it sees";
    for told in all.split('|') {
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn away_from_the_machine_the_program_runs_as_it_is_unless_a_word_is_strict() {
    let there = ["--machine", "dgx-h100"];
    let (code, stdout, said) = ended(&mut third(&there, "0"));
    assert_eq!((code, &*stdout), (Some(0), "none none\n"));
    let why = "none of the devices of `dgx-h100` is on this node; nothing is set\n";
    assert!(said.lines().count() == 1 && said.ends_with(why), "{said}");
    let (code, ..) = ended(&mut third(&["strict", "--machine", "dgx-h100"], "3"));
    assert_eq!(code, Some(125));
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
    let copied = Command::new("cp").arg(TOOL).arg(&tool).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&tool);
    command.args(["exec", "verbose", "--", "id", "-u"]);
    let (_, stdout, said) = ended(command.uid(65534).gid(65534).current_dir("/"));
    std::fs::remove_file(&tool).unwrap();
    assert_eq!(stdout, "65534\n", "{said}");
    assert!(said.contains("nic-placement: task 0 "), "{said}");
}

/// Variables of so many bytes in all, each shorter than the kernel's limit for one.
fn filler(bytes: usize) -> impl Iterator<Item = (String, String)> {
    const ONE: usize = 100_000;
    let parts = (0..bytes).step_by(ONE);
    let parts = parts.map(move |from| ONE.min(bytes - from));
    let parts = parts.enumerate();
    parts.map(|(number, part)| (format!("FILLER_{number:03}"), "x".repeat(part)))
}

#[test]
fn a_program_that_has_no_room_for_more_variables_starts_without_ours() {
    let tree = harness::dgx_h100().to_str().unwrap();
    let starts = |bytes: usize| {
        let mut command = third(&["--topology", tree], "2");
        command.env_clear().env("PATH", "/usr/bin:/bin");
        command.env("SLURM_CONF", NO_SLURM);
        command.envs(filler(bytes)).output()
    };
    // the most that the kernel takes for the tool itself
    let (mut fits, mut too_long) = (0, 8 << 20);
    while too_long - fits > 50 {
        let bytes = (fits + too_long) / 2;
        match starts(bytes) {
            Ok(_) => fits = bytes,
            Err(_) => too_long = bytes,
        }
    }
    let output = starts(fits).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"none none\n", "{said}");
    assert!(said.contains("`sh` gets no variables of ours"), "{said}");
    let output = starts(fits - 4000).unwrap();
    assert!(output.stdout.starts_with(b"mlx5_4:1"), "{output:?}");
}

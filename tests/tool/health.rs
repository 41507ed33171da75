//! `check` for scripts: its statuses, and `--health`, which prints one line or nothing and ends whatever it waits for.

use super::{Place, run};
use nic_placement_fleet::audit::report::{Level, Report};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

fn machine(name: &str) -> String {
    let place = Path::new(env!("NIC_PLACEMENT_ROOT"))
        .join("tests/machines/check")
        .join(name);
    place.to_str().unwrap().to_string()
}

fn said(output: &Output) -> (Option<i32>, &str, &str) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_status_tells_the_worst_and_a_check_that_is_left_out_does_not_count() {
    let (healthy, sick) = (machine("healthy.machine"), machine("sick.machine"));
    let status = |arguments: &[&str]| run(&[&["check"], arguments].concat()).status.code();
    assert_eq!(status(&["--topology", &healthy]), Some(0));
    assert_eq!(status(&["--topology", &sick]), Some(4));
    assert_eq!(status(&["--topology", &sick, "--json"]), Some(4));
    assert_eq!(
        status(&["--topology", &sick, "--off", "pcie-link"]),
        Some(3)
    );
    assert_eq!(
        status(&[
            "--topology",
            &sick,
            "--off",
            "pcie-link,gpudirect,acs,port-range"
        ]),
        Some(0)
    );
    assert_eq!(
        status(&["--topology", &sick, "--only", "read-request"]),
        Some(0)
    );
    assert_eq!(status(&["--topology", "/nowhere"]), Some(1));
    assert_eq!(status(&["--off", "nothing"]), Some(2));
}

/// The tool as `make install` lays it out, with what stands beside it.
fn installed_in(place: &Place) -> Command {
    let bin = place.0.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let (share, plugin) = (place.0.join("share/nic-placement"), place.0.join("plugin"));
    fs::create_dir_all(&share).unwrap();
    fs::create_dir_all(&plugin).unwrap();
    fs::write(plugin.join("libnic_placement.so"), "").unwrap();
    let line = format!("optional {}/libnic_placement.so\n", plugin.display());
    fs::write(share.join("90-nic-placement.conf"), line).unwrap();
    // by another process: one that this process forks meanwhile would have the copy open for writing (ETXTBSY)
    let mut copy = Command::new("cp");
    copy.arg(env!("CARGO_BIN_EXE_nic-placement")).arg(&bin);
    assert!(copy.status().unwrap().success());
    Command::new(bin.join("nic-placement"))
}

#[test]
fn what_check_advises_where_no_line_loads_the_plugin_works() {
    let place = Place::new("advice");
    let mut tool = installed_in(&place);
    let conf = place.file("plugstack.conf", "include plugstack.conf.d/*.conf\n");
    fs::create_dir(place.0.join("plugstack.conf.d")).unwrap();
    // no line of JSON is folded
    tool.args([
        "check",
        "--json",
        "--only",
        "plugstack,plugin-file",
        "--plugstack",
        &conf,
    ]);
    let mut check = || {
        let output = tool.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let quoted = |text: &str, head: &str| {
        let from = &text[text
            .find(head)
            .unwrap_or_else(|| panic!("no `{head}`: {text}"))
            + 1..];
        from[..from.find('`').unwrap()].to_string()
    };
    let (status, text) = check();
    assert_eq!(status, Some(3), "{text}");
    assert!(
        text.contains("no line loads the plugin: write `optional "),
        "{text}"
    );
    let (line, copy) = (quoted(&text, "`optional "), quoted(&text, "`cp "));
    let folder = place.0.join("plugstack.conf.d");
    let command = format!("{copy} {}", folder.display());
    assert!(
        Command::new("sh")
            .args(["-c", &command])
            .status()
            .unwrap()
            .success()
    );
    let (status, text) = check();
    assert_eq!(status, Some(0), "{text}");
    fs::remove_dir_all(folder).unwrap();
    place.file("plugstack.conf", &line);
    let (status, text) = check();
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("libnic_placement.so` is there"), "{text}");
    place.file("plugstack.conf", "optional /nowhere/libnic_placement.so\n");
    let (status, text) = check();
    let path = line.trim_start_matches("optional ");
    assert_eq!(status, Some(3), "{text}");
    let there = format!("there is no `/nowhere/libnic_placement.so`; `{path}` is");
    assert!(text.contains(&there), "{text}");
}

#[test]
fn health_prints_one_plain_line_for_what_fails_and_nothing_else() {
    let (healthy, sick) = (machine("healthy.machine"), machine("sick.machine"));
    let health =
        |of: &str, more: &[&str]| run(&[&["check", "--health", "--topology", of], more].concat());
    assert_eq!(said(&health(&healthy, &[])), (Some(0), "", ""));
    assert_eq!(
        said(&health(&sick, &[])),
        (Some(4), "nic-placement: pcie-link 0000:85:00.0\n", "")
    );
    // a warn drains no node
    assert_eq!(
        said(&health(&sick, &["--off", "pcie-link"])),
        (Some(0), "", "")
    );
    assert_eq!(said(&health(&sick, &["--only", "acs"])), (Some(0), "", ""));
    let absent = health("/nowhere", &[]);
    assert_eq!(
        (absent.status.code(), absent.stdout.len()),
        (Some(1), 0),
        "no verdict is no reason to drain"
    );
}

/// A program of that name that never answers, first in the PATH, and the file in which it says that it was asked.
fn silent(place: &Place, name: &str) -> (String, PathBuf) {
    let told = place.0.join("pid");
    let line = format!(
        "#!/bin/sh\necho $$ > '{}'\nexec sleep 100000\n",
        told.display()
    );
    let program = place.file(name, &line);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (
        format!("{}:{}", place.0.display(), std::env::var("PATH").unwrap()),
        told,
    )
}

// srun -V waits for a name server and the controller where there is no slurm.conf, and for NFS where Slurm lies there
#[test]
fn health_asks_no_program_of_slurms_since_what_those_wait_for_is_no_hardware() {
    let place = Place::new("health-slurm");
    let (path, told) = silent(&place, "srun");
    for more in [&[][..], &["--off", "acs"], &["--only", "nic-broken"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
        let output = command
            .args(["check", "--health", "--lock"])
            .arg(&place.0)
            .args(more)
            .env("PATH", &path)
            .output()
            .unwrap();
        assert_eq!(said(&output), (Some(0), "", ""), "{more:?}");
        assert!(!told.exists(), "it was asked: {more:?}");
    }
}

#[test]
fn a_check_goes_on_without_a_program_of_slurms_that_does_not_answer() {
    let place = Place::new("check-slurm");
    let (path, told) = silent(&place, "srun");
    // the others are not there
    let path = path.split(':').next().unwrap();
    let path = format!("{path}:{}", place.0.join("bin").display());
    fs::create_dir(place.0.join("bin")).unwrap();
    for name in ["sh", "sleep"] {
        symlink(format!("/bin/{name}"), place.0.join("bin").join(name)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    command.args(["check", "--only", "slurm"]).env("PATH", path);
    if nic_placement_sys::is_root() {
        let output = command.output().unwrap();
        assert_eq!(said(&output).2, "", "another user could replace it");
        assert!(!told.exists(), "root starts what others can replace");
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).unwrap();
        command.uid(65534);
    }
    let output = command.output().unwrap();
    let (status, stdout, stderr) = said(&output);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    assert!(
        stdout.contains("none of its programs tells its release"),
        "{stdout}"
    );
    assert_eq!(
        stderr,
        "nic-placement: `srun -V` has not answered within 2 s\n"
    );
    let process = fs::read_to_string(told).unwrap();
    let is_left = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    let end = Instant::now() + Duration::from_secs(60);
    while is_left() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_left(), "it is ended too");
}

/// `check --health` where nothing below that path answers; `None` without a C compiler.
fn where_silent(place: &Place, silent: &Path, more: &[&str]) -> Option<Output> {
    let source = place.file("silent.c", include_str!("../silent.c"));
    let library = place.0.join("silent.so");
    let mut compiler = Command::new("cc");
    let Ok(built) = compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status()
    else {
        println!("skipped: there is no C compiler");
        return None;
    };
    assert!(built.success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    // no test waits for another's lock
    command
        .args(["check", "--health", "--within", "5", "--lock"])
        .arg(&place.0)
        .args(more);
    Some(
        command
            .env("LD_PRELOAD", library)
            .env("SILENT", silent)
            .output()
            .unwrap(),
    )
}

#[test]
fn health_ends_though_a_driver_never_answers() {
    let place = Place::new("health");
    let Some(output) = where_silent(&place, Path::new("/sys/"), &[]) else {
        return;
    };
    let expected = "nic-placement: no answer within 5 s, hardware that does not answer?\n";
    assert_eq!(said(&output), (Some(4), expected, ""));
    assert_eq!(
        length_of_the_lock(&place),
        1,
        "whoever waits for it waits for hardware"
    );
}

fn length_of_the_lock(place: &Place) -> u64 {
    fs::metadata(place.0.join(".check.lock")).unwrap().len()
}

// Slurm's configuration lies on NFS at many sites: when that is away, all nodes would be drained at once
#[test]
fn a_file_system_that_never_answers_is_no_hardware_and_drains_no_node() {
    let place = Place::new("health-nfs");
    let nfs = place.0.join("nfs");
    fs::create_dir(&nfs).unwrap();
    let plugstack = place.file("nfs/plugstack.conf", "optional nic_placement.so\n");
    let more = ["--plugstack", &plugstack];
    let Some(output) = where_silent(&place, &nfs, &more) else {
        return;
    };
    let expected = "nic-placement: no check could be made: Slurm's configuration, or what it names, has not been read \
        within 5 s\n";
    assert_eq!(said(&output), (Some(1), "", expected));
    assert_eq!(
        length_of_the_lock(&place),
        0,
        "whoever waits for it waits for that too"
    );
    // so may a description that the plugin's line names
    let described = place.file("nfs/node.json", "{}");
    let line = place.file(
        "described.conf",
        &format!("optional nic_placement.so topology={described}\n"),
    );
    let output = where_silent(&place, &nfs.join("node"), &["--plugstack", &line]).unwrap();
    assert_eq!(said(&output), (Some(1), "", expected));
}

// ---- the script that the documents give to slurmd ----

/// What slurmd would run, with programs of ours before the others, and the file in which they say how they were called.
struct Script {
    place: Place,
    script: String,
    told: PathBuf,
}

impl Script {
    /// Where a check ends with that status, and scontrol shows that state of the node.
    fn of(name: &str, status: i32, state: &str) -> Script {
        let place = Place::new(name);
        let page = Path::new(env!("NIC_PLACEMENT_ROOT")).join("docs/checks.md");
        let page = fs::read_to_string(page).unwrap();
        let script = page
            .split("```sh\n")
            .nth(1)
            .unwrap()
            .split("```")
            .next()
            .unwrap();
        let (before, path) = script
            .split_once("export PATH=")
            .expect("slurmd hands over none");
        let path = path.split_once('\n').unwrap();
        let place_for = |name: &str, line: &str| {
            let text = format!(
                "#!/bin/sh\necho {name} \"$@\" >> '{}'\n{line}\n",
                place.0.join("told").display()
            );
            let program = place.file(name, &text);
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        };
        place_for(
            "nic-placement",
            &format!(
                "[ $1 = check ] || exit 0; [ {status} -eq 0 ] || echo 'nic-placement: acs'; exit {status}"
            ),
        );
        let node =
            format!("NodeName=n7 Arch=x86_64\\n   OS=Linux\\n   State={state} ThreadsPerCore=1\\n");
        let node = if state.is_empty() {
            "exit 1".to_string()
        } else {
            format!("printf '{node}'")
        };
        place_for("scontrol", &format!("[ $1 = show ] || exit 0; {node}"));
        place_for("hostname", "echo login1");
        let path = format!(
            "{before}export PATH='{}':{}\n{}",
            place.0.display(),
            path.0,
            path.1
        );
        let script = place.file("script", &path);
        let told = place.0.join("told");
        Script {
            place,
            script,
            told,
        }
    }

    /// How it calls others, in an environment as slurmd's.
    fn calls(&self, node: Option<&str>) -> Vec<String> {
        let _ = fs::remove_file(&self.told);
        let mut shell = Command::new("/bin/sh");
        shell
            .arg(&self.script)
            .env_clear()
            .current_dir(&self.place.0);
        let output = shell
            .envs(node.map(|node| ("SLURMD_NODENAME", node)))
            .output()
            .unwrap();
        assert_eq!(said(&output), (Some(0), "", ""), "slurmd would log it");
        fs::read_to_string(&self.told)
            .unwrap()
            .lines()
            .map(str::to_string)
            .collect()
    }
}

#[test]
fn the_script_for_slurmd_drains_a_node_that_fails_by_slurms_own_name() {
    for state in [
        "IDLE",
        "MIXED",
        "ALLOCATED+COMPLETING",
        "IDLE+PLANNED",
        "IDLE+MAINTENANCE+RESERVED",
    ] {
        let calls = Script::of("script-fails", 4, state).calls(Some("n7"));
        let drain = "scontrol update NodeName=n7 State=DRAIN Reason=nic-placement: acs";
        let expected = [
            "nic-placement check --health",
            "scontrol show node n7",
            drain,
            "nic-placement refresh",
        ];
        assert_eq!(calls, expected, "{state}");
    }
    let calls = Script::of("script-by-hand", 4, "IDLE").calls(None);
    assert!(
        calls.contains(&"scontrol show node login1".to_string()),
        "{calls:?}"
    );
}

// an admin's own reason was replaced at each interval
#[test]
fn the_script_for_slurmd_leaves_a_node_that_is_drained_or_down_and_whose_state_nobody_tells() {
    for state in [
        "IDLE+DRAIN",
        "MIXED+DRAIN+REBOOT_REQUESTED",
        "DOWN+DRAIN",
        "DOWN+NOT_RESPONDING",
        "IDLE+FAIL",
        "",
    ] {
        let calls = Script::of("script-drained", 4, state).calls(Some("n7"));
        let expected = [
            "nic-placement check --health",
            "scontrol show node n7",
            "nic-placement refresh",
        ];
        assert_eq!(calls, expected, "{state}");
    }
}

#[test]
fn the_script_for_slurmd_asks_slurm_nothing_where_nothing_fails_or_no_check_could_be_made() {
    for status in [0, 1, 2] {
        let calls = Script::of("script-healthy", status, "IDLE").calls(Some("n7"));
        assert_eq!(
            calls,
            ["nic-placement check --health", "nic-placement refresh"],
            "{status}"
        );
    }
}

#[test]
fn a_report_of_version_1_is_read_and_its_wrong_is_a_fail() {
    let text = run(&["check", "--json", "--topology", &machine("sick.machine")]).stdout;
    let text = String::from_utf8(text).unwrap();
    let report = Report::from_json(text.as_bytes()).unwrap();
    assert_eq!((report.fail, report.warn), (1, 3));
    let first = r#"{"format":"nic-placement check","version":1,"host":"n1","machine":"m","source":"s","wrong":1,
        "findings":[{"level":"wrong","code":"nic-broken","text":"x"}],"processor":null,"numa_nodes":[],"gpus":[],"nics":[]}"#;
    let old = Report::from_json(first.as_bytes()).unwrap();
    assert_eq!(
        (old.fail, old.warn, old.findings[0].level),
        (1, 0, Level::Fail)
    );
}

//! `check` for scripts: its statuses, and `--health`, which prints one line or nothing and ends whatever it waits for.

use super::*;
use nic_placement_fleet::audit::report::Report;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::thread;
use std::time::{Duration, Instant};

fn machine(name: &str) -> String {
    let place = answer::checkout("tests/machines/check").join(name);
    place.to_str().unwrap().to_string()
}

#[test]
fn the_status_tells_the_worst_and_a_check_that_is_left_out_does_not_count() {
    let (healthy, sick) = (machine("healthy.machine"), machine("sick.machine"));
    let fails = "nic-placement: pcie-link 0000:85:00.0\n";
    for (node, words, status, of_health) in [
        (&healthy, "", 0, (0, "")),
        (&sick, "", 4, (4, fails)),
        // a warn drains no node
        (&sick, "--off pcie-link", 3, (0, "")),
        (&sick, "--off pcie-link,gpudirect,acs", 0, (0, "")),
        (&sick, "--only relaxed-ordering", 0, (0, "")),
        (&sick, "--only acs", 3, (0, "")),
    ] {
        run(&format!("check --topology {node} {words}")).ends(status);
        let health = run(&format!("check --health --topology {node} {words}"));
        health.is(of_health.0, of_health.1, "");
    }
    run(&format!("check --json --topology {sick}")).ends(4);
    run("check --off nothing").ends(2);
    // no verdict is no reason to drain
    run("check --topology /nowhere").ends(1);
    assert_eq!(run("check --health --topology /nowhere").ends(1).out, "");
}

/// The tool as `make install` lays it out, with what stands beside it.
fn installed_in(place: &Place) -> String {
    place.file("bin/README", "");
    let plugin = place.file("plugin/libnic_placement.so", "");
    let line = format!("optional {plugin}\n");
    place.file("share/nic-placement/90-nic-placement.conf", line);
    // by another process: one that this process forks meanwhile would have the copy open for writing (ETXTBSY)
    let mut copy = Command::new("cp");
    Answer::of(copy.args([TOOL, &place.at("bin")])).ends(0);
    place.at("bin/nic-placement")
}

#[test]
fn what_check_advises_where_no_line_loads_the_plugin_works() {
    let place = Place::new("advice");
    let installed = installed_in(&place);
    let folder = place.at("plugstack.conf.d");
    fs::create_dir(&folder).unwrap();
    // no line of JSON is folded
    let words = "check --json --only plugstack,plugin-file --plugstack";
    let check = |conf: &str| {
        let conf = place.file("plugstack.conf", conf);
        Answer::of(Command::new(&installed).args(words.split(' ')).arg(conf))
    };
    let quoted = |text: &str, head: &str| {
        let from = text.split_once(head);
        let from = from.unwrap_or_else(|| panic!("no `{head}`: {text}")).1;
        format!("{}{}", &head[1..], from.split('`').next().unwrap())
    };
    let include = "include plugstack.conf.d/*.conf\n";
    let none = check(include);
    none.ends(3).says(&["no line loads the plugin"]);
    let (line, copy) = (quoted(&none.out, "`optional "), quoted(&none.out, "`cp "));
    Answer::of(Command::new("sh").args(["-c", &format!("{copy} {folder}")])).ends(0);
    check(include).ends(0);
    fs::remove_dir_all(folder).unwrap();
    let answer = check(&line);
    answer.ends(0).says(&["libnic_placement.so` is there"]);
    let path = line.trim_start_matches("optional ");
    let there = format!("there is no `/nowhere/libnic_placement.so`; `{path}` is");
    let answer = check("optional /nowhere/libnic_placement.so\n");
    answer.ends(3).says(&[&there]);
}

/// A program of that name that never answers, first in the PATH, which says in a file `pid` that it
/// was asked.
fn never_answers(place: &Place, name: &str) -> String {
    let script = format!("echo $$ > '{}'\nexec sleep 100000", place.at("pid"));
    place.program(name, &script);
    place.at("")
}

// srun -V waits for a name server and the controller where there is no slurm.conf, and for NFS where Slurm lies there
#[test]
fn health_asks_no_program_of_slurms_since_what_those_wait_for_is_no_hardware() {
    let place = Place::new("health-slurm");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", never_answers(&place, "srun"));
    for more in ["", "--off acs", "--only nic-broken"] {
        let words = format!("check --health --lock {} {more}", place.0.display());
        Answer::of(tool().args(words.split_whitespace()).env("PATH", &path)).is(0, "", "");
        assert!(!place.0.join("pid").exists(), "it was asked: {more:?}");
    }
}

#[test]
fn a_check_goes_on_without_a_program_of_slurms_that_does_not_answer() {
    let place = Place::new("check-slurm");
    // the others are not there
    let path = format!("{}:{}", never_answers(&place, "srun"), place.at("bin"));
    fs::create_dir(place.0.join("bin")).unwrap();
    for name in ["sh", "sleep"] {
        symlink(format!("/bin/{name}"), place.0.join("bin").join(name)).unwrap();
    }
    let mut command = tool();
    command.args(["check", "--only", "slurm"]).env("PATH", path);
    if nic_placement_sys::is_root() {
        // another user could replace it
        assert_eq!(Answer::of(&mut command).err, "");
        assert!(!place.0.join("pid").exists(), "root started it");
        Place::mode(&place.0, 0o777);
        command.uid(65534);
    }
    let answer = Answer::of(&mut command);
    answer.ends(0);
    answer.says(&["none of its programs tells", "srun` has not answered"]);
    assert_eq!(answer.err.lines().count(), 1, "{answer}");
    let stat = format!("/proc/{}/stat", place.read("pid").trim());
    let is_left = || {
        let stat = fs::read_to_string(&stat).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    let end = Instant::now() + Duration::from_secs(60);
    while is_left() && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_left(), "it is ended too");
}

/// `check --health` where nothing below that path answers, and the length of its lock; `None`
/// without a C compiler.
fn where_silent(place: &Place, silent: &str, more: &[&str]) -> Option<(Answer, u64)> {
    let library = answer::silent(place)?;
    let mut command = tool();
    // no test waits for another's lock
    command.args("check --health --within 5 --lock".split(' '));
    command.arg(&place.0).args(more);
    let answer = Answer::of(command.env("LD_PRELOAD", library).env("SILENT", silent));
    let lock = fs::metadata(place.0.join(".check.lock")).unwrap().len();
    Some((answer, lock))
}

#[test]
fn health_ends_though_a_driver_never_answers() {
    let place = Place::new("health");
    let Some((answer, lock)) = where_silent(&place, "/sys/", &[]) else {
        return;
    };
    let found = (answer.ends(4).out.lines().count(), &*answer.err);
    assert_eq!(found, (1, ""), "{answer}");
    answer.says(&["nic-placement: no answer within 5 s"]);
    // another that waits for it waits for hardware
    assert_eq!(lock, 1);
}

// Slurm's configuration lies on NFS at many sites: when that is away, all nodes would be drained at once
#[test]
fn a_file_system_that_never_answers_is_no_hardware_and_drains_no_node() {
    let place = Place::new("health-nfs");
    let plugstack = place.file("nfs/plugstack.conf", "optional nic_placement.so\n");
    // so may a description that the plugin's line names
    let described = place.file("nfs/node.json", "{}");
    let line = format!("optional nic_placement.so topology={described}\n");
    let line = place.file("described.conf", line);
    for (silent, conf) in [("nfs", plugstack), ("nfs/node", line)] {
        let silent = place.at(silent);
        let Some((answer, lock)) = where_silent(&place, &silent, &["--plugstack", &conf]) else {
            return;
        };
        answer.refuses(1, &["no check could be made", "within 5 s\n"]);
        // another that waits for it waits for that too
        assert_eq!(lock, 0);
    }
}

// ---- the script that the documents give to slurmd ----

/// Its calls of other programs, where a check ends with that status and scontrol shows that state
/// of the node.
fn calls_of_the_script(status: i32, state: &str, node: Option<&str>) -> String {
    let place = Place::new(&format!("script-{status}-{state}"));
    let page = fs::read_to_string(answer::checkout("docs/checks.md")).unwrap();
    let mut script = page.split("```sh\n");
    let script = script.nth(1).unwrap().split("```").next().unwrap();
    // slurmd hands over none
    let (before, path) = script.split_once("export PATH=").unwrap();
    let script = format!("{before}export PATH='{}':{path}", place.0.display());
    let told = place.at("told");
    let program = |name: &str, line: &str| {
        place.program(name, &format!("echo {name} \"$@\" >> '{told}'\n{line}"));
    };
    let check = format!("[ {status} -eq 0 ] || echo 'nic-placement: acs'; exit {status}");
    let check = format!("[ $1 = check ] || exit 0; {check}");
    program("nic-placement", &check);
    let shows = match state {
        "" => "exit 1".to_string(),
        _ => format!(
            "printf 'NodeName=n7 Arch=x86_64\\n   OS=Linux\\n   State={state} ThreadsPerCore=1\\n'"
        ),
    };
    program("scontrol", &format!("[ $1 = show ] || exit 0; {shows}"));
    program("hostname", "echo login1");
    let mut shell = Command::new("/bin/sh");
    shell.arg(place.file("script", script));
    shell.env_clear().current_dir(&place.0);
    // slurmd would log what it says
    Answer::of(shell.envs(node.map(|node| ("SLURMD_NODENAME", node)))).is(0, "", "");
    place.read("told")
}

#[test]
fn the_script_for_slurmd_drains_a_node_that_fails_by_slurms_own_name_and_leaves_all_others() {
    let begins = "nic-placement check --health\n";
    let (ask, refresh) = ("scontrol show node n7\n", "nic-placement refresh\n");
    let drain = "scontrol update NodeName=n7 State=DRAIN Reason=nic-placement: acs\n";
    let up = "IDLE MIXED ALLOCATED+COMPLETING IDLE+PLANNED IDLE+MAINTENANCE+RESERVED";
    for state in up.split(' ') {
        let expected = [begins, ask, drain, refresh].concat();
        let found = calls_of_the_script(4, state, Some("n7"));
        assert_eq!(found, expected, "{state}");
    }
    // an admin's own reason was replaced at each interval
    let down = "IDLE+DRAIN MIXED+DRAIN+REBOOT_REQUESTED DOWN+DRAIN DOWN+NOT_RESPONDING IDLE+FAIL ";
    for state in down.split(' ') {
        let expected = [begins, ask, refresh].concat();
        let found = calls_of_the_script(4, state, Some("n7"));
        assert_eq!(found, expected, "{state}");
    }
    for status in [0, 1, 2] {
        let expected = [begins, refresh].concat();
        let found = calls_of_the_script(status, "IDLE", Some("n7"));
        assert_eq!(found, expected, "{status}");
    }
    assert!(calls_of_the_script(4, "IDLE", None).contains("scontrol show node login1\n"));
}

#[test]
fn a_report_counts_what_fails_and_what_warns() {
    let sick = machine("sick.machine");
    let text = run(&format!("check --json --topology {sick}")).out;
    let report = Report::from_json(text.as_bytes()).unwrap();
    assert_eq!((report.fail, report.warn), (1, 2));
}

//! Rules for every command of the tool on every machine: the width of its lines, which characters reach a terminal, and
//! its exit status.

#[path = "tool/agree.rs"]
mod agree;
#[path = "tool/answer.rs"]
mod answer;
#[path = "tool/audit.rs"]
mod audit;
#[path = "tool/completions.rs"]
mod completions;
#[path = "tool/health.rs"]
mod health;
#[path = "tool/mistakes.rs"]
mod mistakes;
#[path = "tool/pasted.rs"]
mod pasted;
#[path = "tool/pictures.rs"]
mod pictures;
#[path = "tool/terminal.rs"]
mod terminal;
#[path = "tool/told.rs"]
mod told;
#[path = "tool/written.rs"]
mod written;

use answer::{Answer, Place, TOOL, flat, json, machines, printed, ran, run, tool};
use nic_placement_fleet::doctor::table::codes;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const WIDTH: usize = 100;

/// Fails where a line is wider than that.
#[track_caller]
fn fits(text: &str, width: usize) {
    let wide = text.lines().find(|line| line.chars().count() > width);
    assert_eq!(wide, None);
}

// ---- width ----

/// Commands whose output is for people, on a node that `source` names.
fn reports(source: &str) -> Vec<String> {
    let commands = "show;plan;plan --why;plan --gpus-per-task 1 --why;show --gpu all;\
                    plan --words all,bind=core,omp=on --ntasks 3 --gpus-per-task all --why;\
                    plan --words numa --gpus-per-task 1 --argument set=SITE_NICS={rails};\
                    plan --variable CUDA_VISIBLE_DEVICES= --why;\
                    check --variable NCCL_IB_HCA=mlx5 --variable NCCL_DEBUG=INFO";
    let commands = commands.split(';');
    commands
        .map(|command| format!("{command} {source}"))
        .collect()
}

#[test]
fn no_line_of_a_report_on_any_machine_or_of_help_is_wider_than_a_page() {
    let machines = machines();
    assert!(machines.len() >= 20, "{machines:?}");
    for machine in &machines {
        for command in reports(&format!("--machine {machine}")) {
            let text = run(&command).out;
            assert!(!text.is_empty(), "{command:?}");
            fits(&text, WIDTH);
        }
    }
    for command in commands() {
        for asked in [
            format!("{command} -h"),
            format!("{command} --help"),
            format!("help {command}"),
        ] {
            let text = printed(&asked);
            assert!(text.contains("Usage: nic-placement"), "{asked:?}: {text}");
            fits(&text, WIDTH);
        }
        let found = printed(&format!("{command} --help"));
        assert_eq!(found, printed(&format!("help {command}")));
    }
    assert_eq!(printed(""), printed("help"));
}

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = printed("-h");
    let list = help.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = list.map(|line| line.split_whitespace().next().unwrap().into());
    let commands: Vec<String> = commands.collect();
    assert_eq!(commands.len(), 15, "{commands:?}");
    commands
}

#[test]
fn a_plan_loses_nothing_of_what_its_json_says() {
    for machine in machines() {
        let plan = format!("plan --machine {machine} --gpus-per-task 1");
        let text = printed(&format!("{plan} --why"));
        let text: String = text.split_whitespace().collect();
        for task in json(&format!("{plan} --json"))["tasks"].as_array().unwrap() {
            let parts = |list: &str, of: &str| -> Vec<String> {
                let parts = task[list].as_array().unwrap().iter();
                let all = parts.filter_map(|part| part[of].as_str().map(str::to_string));
                all.collect()
            };
            let lists = [("gpus", "address"), ("nics", "name"), ("nics", "path")];
            let mut facts = lists.map(|(list, of)| parts(list, of)).concat();
            facts.extend(task["env"].as_object().unwrap().keys().cloned());
            facts.extend(["cpus", "mems"].map(|of| task[of].as_str().unwrap().to_string()));
            facts.retain(|fact| !text.contains(fact.as_str()));
            assert_eq!(facts, [""; 0], "{machine}: {task}");
        }
    }
}

// ---- what a terminal must not see ----

/// A node whose every free text would clear a terminal, change its colour, or begin a new line.
fn hostile(place: &Place) -> [String; 2] {
    let bad = "\x1b[2J\u{9b}31m\u{7f}\u{202e}\x07\0";
    let clean = nic_placement_testing::snapshot_of("dgx-h100");
    let mut manifest = format!("{clean}sys/devices/virtual/dmi/id/product_name = {bad}\n");
    for (from, to) in [
        ("Model: \t NVIDIA", format!("Model: \t {bad}NVIDIA")),
        ("mlx5_0", format!("mlx5{bad}_0")),
        ("ibp64s0", format!("ib{bad}")),
        ("GPU-00000000", format!("GPU-{bad}")),
    ] {
        manifest = manifest.replace(from, &to);
    }
    let file = place.file("hostile.machine", manifest);
    // unlike a text of lines, a directory can have a name with a new line in it, but none with a NUL
    let clean = place.file("clean.machine", clean);
    let tree = place.at("tree");
    run(&format!("snapshot --unpack {clean} {tree}")).ends(0);
    let interfaces = find(Path::new(&tree), "ibp79s0");
    assert!(!interfaces.is_empty());
    for entry in interfaces {
        let forged = entry.with_file_name("ib\n\x1b[2Jok     all is well");
        fs::rename(&entry, forged).unwrap();
    }
    [file, tree]
}

/// Everything of this name below a folder, deepest first.
fn find(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(find(&entry.path(), name));
        }
        if entry.file_name() == name {
            found.push(entry.path());
        }
    }
    found
}

/// Fails where a text has a letter that moves a terminal.
#[track_caller]
fn is_harmless(text: &str) {
    let harms = |letter: &char| *letter != '\n' && (letter.is_control() || *letter == '\u{202e}');
    assert_eq!(text.chars().find(harms), None, "{text:?}");
}

#[test]
fn nothing_in_a_node_s_names_moves_a_terminal() {
    let place = Place::new("hostile");
    for node in hostile(&place) {
        let source = format!("--topology {node}");
        run(&format!("show {source}")).says(&[r"\u{1b}[2J"]);
        for command in reports(&source) {
            let text = run(&command).both();
            assert!(text.len() > 100, "{command:?}: {text}");
            is_harmless(&text);
            let mut lines: Vec<&str> = text.lines().collect();
            assert!(!lines.contains(&"ok     all is well"), "{command:?}");
            lines.retain(|line| !line.starts_with("nic-"));
            fits(&lines.join("\n"), WIDTH);
        }
    }
}

#[test]
fn nothing_that_is_quoted_in_a_message_moves_a_terminal() {
    let place = Place::new("quoted");
    let escape = "\x1b[2J\nok";
    let json = r#"{"format": "nic-placement topology", "version": 1, "name": "\u001b\u0000"}"#;
    let json = place.file("x.json", json);
    let nccl = r#"<system version="1"><cpu numaid="&#x9b;31m"/></system>"#;
    let nccl = place.file("x.xml", nccl);
    let header = place.file("x.machine", "# nic-placement machine 1\n\x1b[2J\n");
    let odd = place.file(&format!("x{escape}.conf"), "\x1b[2J\n");
    let dgx = |words: &[&'static str]| [words, &["--machine", "dgx-h100"]].concat();
    let commands: [Vec<&str>; 12] = [
        vec!["show", "--topology", &json],
        vec!["show", "--topology", &nccl],
        vec!["show", "--topology", &header],
        vec!["show", "--topology", escape],
        vec!["show", "--machine", escape],
        vec!["import", "--to", escape, &json],
        dgx(&["plan", "--gpus", escape]),
        dgx(&["plan", "--variable", escape]),
        dgx(&["plan", "--words", escape]),
        [&dgx(&["check"])[..], &["--plugstack", &odd]].concat(),
        vec![escape],
        vec!["--\x1b[2J"],
    ];
    for command in commands {
        let answer = ran(&command);
        let text = answer.both();
        assert_ne!(answer.status, Some(0), "{answer}");
        is_harmless(&text);
        // each line of `check` has the code of a check behind its level
        let is_ours = |line: &str| codes().any(|code| line.starts_with(&format!("ok     {code} ")));
        let mut forged = text.lines();
        let forged = forged.find(|line| line.starts_with("ok") && !is_ours(line));
        assert_eq!(forged, None, "{answer}");
    }
}

/// To a terminal of so many columns; 0 where it does not know.
fn on_columns(columns: usize, arguments: &str, variables: &[(&str, &str)]) -> Option<String> {
    let line = format!("stty cols {columns}; \"$TOOL\" {arguments}");
    Some(answer::on_a_terminal(&line, variables)?.replace('\r', ""))
}

#[test]
fn what_programs_read_is_exact_in_a_pipe_and_harmless_on_a_terminal() {
    let place = Place::new("exact");
    let [node, _] = hostile(&place);
    let all = "plan --env --topology|plan --json --topology|plan --svg --topology|\
               show --json --topology|show --svg --topology|show --gpu all --json --topology|\
               check --json --topology|snapshot --topology|import --to nccl|import";
    for form in all.split('|') {
        let text = on_columns(0, &format!("{form} '{node}'"), &[]);
        let Some(text) = text else { return };
        assert!(text.len() > 100, "{form}: {text}");
        // a snapshot keeps the tabs of its files
        is_harmless(&text.replace('\t', " "));
    }
    // a record is as it was found
    let piped = printed(&format!("snapshot --topology {node}"));
    assert!(piped.contains("\x1b[2J\u{9b}31m"), "{piped:?}");
}

// ---- how it ends ----

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is_one() {
    for command in "plan --machine dgx-h100 --json|--help|machines|completions zsh".split('|') {
        let mut tool = tool();
        tool.args(command.split(' ')).stdout(Stdio::piped());
        let mut command = tool.stderr(Stdio::piped()).spawn().unwrap();
        // closed before it has written anything
        drop(command.stdout.take());
        Answer::new("", command.wait_with_output().unwrap()).is(0, "", "");
    }
    let mut options = fs::OpenOptions::new();
    let full = options.write(true).open("/dev/full").unwrap();
    let answer = Answer::of(tool().arg("machines").stdout(full));
    answer.ends(1).says(&["nic-placement: cannot write: "]);
    // nor is a closed stderr a reason to panic
    let mut child = tool().arg("plam").stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_small_stack_ends_no_command_and_no_program() {
    for (command, status) in [
        ("exec verbose --machine dgx-h100 -- sh -c 'exit 7'", 7),
        ("verify -- sh -c 'exit 7'", 7),
        ("show --machine dgx-h100", 0),
    ] {
        let line = format!("ulimit -s 64; exec {TOOL} {command}");
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &line])
            .env("SLURM_CONF", "/nowhere/slurm.conf");
        Answer::of(&mut shell).ends(status);
    }
}

#[test]
fn the_last_of_two_values_of_an_option_holds_as_in_srun() {
    let plan = |tasks: &str| printed(&format!("plan --machine dgx-h100 {tasks}"));
    assert_eq!(plan("--ntasks 8 --ntasks 2"), plan("--ntasks 2"));
}

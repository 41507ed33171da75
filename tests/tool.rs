//! Rules for every command of the tool on every machine: the width of its lines, which characters reach a terminal, when it
//! uses colours, and its exit status.

#[path = "tool/agree.rs"]
mod agree;
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

use nic_placement_fleet::doctor::table::codes;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const WIDTH: usize = 100;

fn tool() -> Command {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    tool.env_remove("NO_COLOR").env("TERM", "xterm");
    tool
}

fn run(arguments: &[&str]) -> Output {
    tool().args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(
        output.stderr.is_empty(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn machines() -> Vec<String> {
    let list = printed(&["machines"]);
    list.lines()
        .filter(|line| !line.starts_with(' '))
        .map(|line| line.split(' ').next().unwrap().into())
        .collect()
}

/// A directory that is removed with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path =
            std::env::temp_dir().join(format!("nic-placement-tool-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

// ---- width ----

/// Commands whose output is for people, on a node that `source` names.
fn reports(source: [&str; 2]) -> Vec<Vec<&str>> {
    let commands: [&[&str]; 9] = [
        &["show"],
        &["plan"],
        &["plan", "--why"],
        &["plan", "--gpus-per-task", "1", "--why"],
        &[
            "plan",
            "--words",
            "all,bind=core,omp=on",
            "--ntasks",
            "3",
            "--gpus-per-task",
            "all",
            "--why",
        ],
        &[
            "plan",
            "--words",
            "numa",
            "--gpus-per-task",
            "1",
            "--set",
            "SITE_NICS={rails}",
        ],
        &["plan", "--may-open", "none", "--why"],
        &["show", "--gpu", "all"],
        &[
            "check",
            "--slurm",
            "slurm 21.08",
            "--variable",
            "NCCL_IB_HCA=mlx5",
            "--variable",
            "NCCL_DEBUG=INFO",
        ],
    ];
    commands
        .iter()
        .map(|command| [*command, &source].concat())
        .collect()
}

#[test]
fn no_line_of_a_report_on_any_machine_is_wider_than_a_page() {
    let machines = machines();
    assert!(machines.len() >= 20, "{machines:?}");
    for machine in &machines {
        for command in reports(["--machine", machine]) {
            let text = String::from_utf8(run(&command).stdout).unwrap();
            assert!(!text.is_empty(), "{command:?}");
            let wide = text.lines().find(|line| line.chars().count() > WIDTH);
            assert_eq!(wide, None, "{command:?}");
        }
    }
}

#[test]
fn no_line_of_help_is_wider_than_a_page() {
    let commands = commands();
    for command in &commands {
        for asked in [
            vec![command, "-h"],
            vec![command, "--help"],
            vec!["help", command],
        ] {
            let text = printed(&asked);
            assert!(text.contains("Usage: nic-placement"), "{asked:?}: {text}");
            assert_eq!(
                text.lines().find(|line| line.chars().count() > WIDTH),
                None,
                "{asked:?}"
            );
        }
        assert_eq!(printed(&[command, "--help"]), printed(&["help", command]));
    }
    assert_eq!(printed(&[]), printed(&["help"]));
}

/// The commands that the help lists.
fn commands() -> Vec<&'static str> {
    let help: &'static str = Box::leak(printed(&["-h"]).into_boxed_str());
    let list = help.lines().filter_map(|line| line.strip_prefix("  "));
    let commands: Vec<&str> = list
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(commands.len(), 15, "{commands:?}");
    commands
}

#[test]
fn a_plan_loses_nothing_of_what_its_json_says() {
    for machine in machines() {
        let of = |format| {
            printed(&[
                "plan",
                "--machine",
                &machine,
                "--gpus-per-task",
                "1",
                format,
            ])
        };
        let json: serde_json::Value = serde_json::from_str(&of("--json")).unwrap();
        let text: String = of("--why").split_whitespace().collect();
        for task in json["tasks"].as_array().unwrap() {
            let parts = |list: &str, of: &str| -> Vec<String> {
                let parts = task[list].as_array().unwrap().iter();
                parts
                    .filter_map(|part| part[of].as_str().map(str::to_string))
                    .collect()
            };
            let mut facts = parts("gpus", "address");
            facts.extend(
                parts("nics", "name")
                    .into_iter()
                    .chain(parts("nics", "path")),
            );
            facts.extend(task["env"].as_object().unwrap().keys().cloned());
            facts.extend(["cpus", "mems"].map(|of| task[of].as_str().unwrap().to_string()));
            let facts = facts.iter().filter(|fact| !text.contains(fact.as_str()));
            assert_eq!(facts.collect::<Vec<_>>(), [""; 0], "{machine}: {task}");
        }
    }
}

// ---- what a terminal must not see ----

/// A node whose every free text would clear a terminal, change its colour, or begin a new line.
fn hostile(place: &Place) -> [String; 2] {
    let bad = "\x1b[2J\u{9b}31m\u{7f}\u{202e}\x07\0";
    let manifest = nic_placement_testing::snapshot_of("dgx-h100")
        .replace("Model: \t NVIDIA", &format!("Model: \t {bad}NVIDIA"))
        .replace("mlx5_0", &format!("mlx5{bad}_0"))
        .replace("ibp64s0", &format!("ib{bad}"))
        .replace("GPU-00000000", &format!("GPU-{bad}"));
    let file = place.file(
        "hostile.machine",
        &format!("{manifest}sys/devices/virtual/dmi/id/product_name = {bad}\n"),
    );
    // unlike a text of lines, a directory can have a name with a new line in it, but none with a NUL
    let clean = place.file(
        "clean.machine",
        &nic_placement_testing::snapshot_of("dgx-h100"),
    );
    let directory = place.0.join("tree");
    assert!(
        run(&["snapshot", "--unpack", &clean, directory.to_str().unwrap()])
            .status
            .success()
    );
    let mut renamed = 0;
    for entry in find(&directory, "ibp79s0") {
        fs::rename(
            &entry,
            entry.with_file_name("ib\n\x1b[2Jok     all is well"),
        )
        .unwrap();
        renamed += 1;
    }
    assert!(renamed > 0, "no interface was renamed");
    [file, directory.to_str().unwrap().to_string()]
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

fn is_harmless(letter: char) -> bool {
    letter == '\n' || !(letter.is_control() || letter == '\u{202e}')
}

#[test]
fn nothing_in_a_node_s_names_moves_a_terminal() {
    let place = Place::new("hostile");
    for node in hostile(&place) {
        let show = printed(&["show", "--topology", &node]);
        assert!(
            show.contains(r"\u{1b}[2J"),
            "it is shown as what it is: {show}"
        );
        for command in reports(["--topology", &node]) {
            let output = run(&command);
            let text = String::from_utf8(output.stdout).unwrap()
                + &String::from_utf8(output.stderr).unwrap();
            assert!(text.len() > 100, "{command:?}: {text}");
            assert_eq!(
                text.chars().find(|letter| !is_harmless(*letter)),
                None,
                "{command:?}: {text:?}"
            );
            assert!(
                !text.lines().any(|line| line == "ok     all is well"),
                "{command:?}: a forged line"
            );
            assert_eq!(
                text.lines()
                    .find(|line| line.chars().count() > WIDTH && !line.starts_with("nic-")),
                None
            );
        }
    }
}

#[test]
fn nothing_that_is_quoted_in_a_message_moves_a_terminal() {
    let place = Place::new("quoted");
    let escape = "\x1b[2J\nok";
    let json = place.file(
        "x.json",
        "{\"format\": \"nic-placement topology\", \"version\": 1, \"name\": \"\\u001b\\u0000\"}",
    );
    let nccl = place.file(
        "x.xml",
        "<system version=\"1\"><cpu numaid=\"&#x9b;31m\"/></system>",
    );
    let header = place.file("x.machine", "# nic-placement machine 1\n\x1b[2J\n");
    let odd = place.file(&format!("x{escape}.conf"), "\x1b[2J\n");
    let commands: [&[&str]; 12] = [
        &["show", "--topology", &json],
        &["show", "--topology", &nccl],
        &["show", "--topology", &header],
        &["show", "--topology", escape],
        &["show", "--machine", escape],
        &["import", "--from", escape, &json],
        &["plan", "--machine", "dgx-h100", "--gpus", escape],
        &["plan", "--machine", "dgx-h100", "--variable", escape],
        &["plan", "--machine", "dgx-h100", "--words", escape],
        &[
            "check",
            "--machine",
            "dgx-h100",
            "--plugstack",
            &odd,
            "--slurm",
            escape,
        ],
        &[escape],
        &["--\x1b[2J"],
    ];
    for command in commands {
        let output = run(command);
        let text =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert_ne!(output.status.code(), Some(0), "{command:?}: {text}");
        assert_eq!(
            text.chars().find(|letter| !is_harmless(*letter)),
            None,
            "{command:?}: {text:?}"
        );
        // each line of `check` has the code of a check behind its level
        let is_ours = |line: &str| codes().any(|code| line.starts_with(&format!("ok     {code} ")));
        let forged = text
            .lines()
            .find(|line| line.starts_with("ok") && !is_ours(line));
        assert_eq!(forged, None, "{command:?}: {text}");
    }
}

/// What a command writes to a terminal; `None` where there is no script(1) to play one.
fn on_a_terminal(arguments: &str, variables: &[(&str, &str)]) -> Option<String> {
    on_a_terminal_of(0, arguments, variables)
}

/// To one of so many columns; 0 where it does not know.
fn on_a_terminal_of(columns: usize, arguments: &str, variables: &[(&str, &str)]) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_nic-placement");
    let mut script = Command::new("script");
    let command = format!("stty cols {columns}; '{program}' {arguments}");
    script
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::null());
    script
        .env_remove("NO_COLOR")
        .env("TERM", "xterm")
        .envs(variables.iter().copied());
    match script.output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap().replace('\r', "")),
        Err(_) => {
            println!("skipped: there is no `script`");
            None
        }
    }
}

#[test]
fn what_programs_read_is_exact_in_a_pipe_and_harmless_on_a_terminal() {
    let place = Place::new("exact");
    let [node, _] = hostile(&place);
    for form in [
        "plan --env",
        "plan --json",
        "plan --svg",
        "show --json",
        "show --svg",
        "show --gpu all --json",
        "check --json",
        "snapshot",
        "import --to nccl",
        "import",
    ] {
        let arguments = match form.starts_with("import") {
            true => format!("{form} '{node}'"),
            false => format!("{form} --topology '{node}'"),
        };
        let Some(text) = on_a_terminal(&arguments, &[]) else {
            return;
        };
        // a snapshot keeps the tabs of its files
        let text = text.replace('\t', " ");
        assert!(text.len() > 100, "{form}: {text}");
        assert_eq!(
            text.chars().find(|letter| !is_harmless(*letter)),
            None,
            "{form}: {text:?}"
        );
    }
    let piped = printed(&["snapshot", "--topology", &node]);
    assert!(
        piped.contains("\x1b[2J\u{9b}31m"),
        "a record is what was found: {piped:?}"
    );
}

// ---- colours ----

#[test]
fn colours_are_for_terminals_unless_no_color_or_the_option_says_otherwise() {
    let plan = "plan --machine dgx-h100";
    let coloured = |text: &str| text.contains('\x1b');
    let words = |color: &'static str| ["plan", "--machine", "dgx-h100", "--color", color];
    assert!(!coloured(&printed(&words("auto"))) && !coloured(&printed(&words("never"))));
    let always = printed(&words("always"));
    assert!(
        always.contains("\x1b[1mtask\x1b[0m") && always.contains("\x1b[32mPIX\x1b[0m"),
        "{always:?}"
    );
    let Some(terminal) = on_a_terminal(plan, &[]) else {
        return;
    };
    assert!(coloured(&terminal), "{terminal:?}");
    // no-color.org: the variable counts if it is set and not empty; a word on the command line is stronger
    assert!(!coloured(
        &on_a_terminal(plan, &[("NO_COLOR", "1")]).unwrap()
    ));
    assert!(coloured(&on_a_terminal(plan, &[("NO_COLOR", "")]).unwrap()));
    assert!(coloured(
        &on_a_terminal(&format!("{plan} --color always"), &[("NO_COLOR", "1")]).unwrap()
    ));
    assert!(!coloured(
        &on_a_terminal(&format!("{plan} --color never"), &[]).unwrap()
    ));
    assert!(!coloured(
        &on_a_terminal(plan, &[("TERM", "dumb")]).unwrap()
    ));
}

#[test]
fn colours_change_no_character_and_no_width() {
    let without = |text: String| {
        let parts = text.split("\x1b[").enumerate();
        parts
            .map(|(at, part)| {
                if at == 0 {
                    part
                } else {
                    part.split_once('m').unwrap().1
                }
            })
            .collect::<String>()
    };
    for command in reports(["--machine", "dgx-h100"]) {
        let plain = String::from_utf8(run(&command).stdout).unwrap();
        let coloured =
            String::from_utf8(run(&[&command[..], &["--color", "always"]].concat()).stdout)
                .unwrap();
        assert_eq!(without(coloured), plain, "{command:?}");
    }
}

// ---- how it ends ----

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for command in [
        &["plan", "--machine", "dgx-h100", "--json"][..],
        &["--help"],
        &["machines"],
        &["completions", "zsh"],
    ] {
        let mut child = tool()
            .args(command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // closed before it has written anything
        drop(child.stdout.take());
        let mut errors = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), errors.as_str()),
            (Some(0), ""),
            "{command:?}"
        );
    }
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = tool().arg("machines").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("nic-placement: cannot write: "));
}

#[test]
fn nobody_to_tell_is_no_reason_to_panic() {
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
        let tool = env!("CARGO_BIN_EXE_nic-placement");
        let line = format!("ulimit -s 64; exec {tool} {command}");
        let output = Command::new("bash").args(["-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{command}: {output:?}");
    }
}

#[test]
fn the_last_of_two_values_of_an_option_holds_as_in_srun() {
    let plan = |tasks: &[&str]| printed(&[&["plan", "--machine", "dgx-h100"], tasks].concat());
    assert_eq!(
        plan(&["--ntasks", "8", "--ntasks", "2"]),
        plan(&["--ntasks", "2"])
    );
}

// ---- completions ----

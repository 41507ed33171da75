//! `verify` and `refresh --textfile` as programs: on a tree of a real kernel's files, whose counters the program itself
//! changes. tests/clients/cases_measure.rs does it with NICs that move data.

#[path = "tool/answer.rs"]
mod answer;
#[path = "verify/tasks.rs"]
mod tasks;

use answer::{Answer, Place, TOOL, run, tool};
use nic_placement_traffic::bytes::{Figure, NicTraffic, NoFigure, Origin, Traffic};
use nic_placement_traffic::report::NodeReport;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The files of tests/machines/guest-dgx in a folder; its first four NICs have counters.
struct Tree(Place);

impl std::ops::Deref for Tree {
    type Target = Place;
    fn deref(&self) -> &Place {
        &self.0
    }
}

/// A NIC's counters.
const SENT: &str = "counters/port_xmit_data";

impl Tree {
    fn new(name: &str) -> Tree {
        let tree = Tree(Place::new(&format!("verify-{name}")));
        let machine = answer::checkout("tests/machines/guest-dgx/node.machine");
        let manifest = fs::read_to_string(machine).unwrap();
        for line in manifest.lines().filter(|line| line.starts_with("sys/")) {
            if let Some((path, target)) = line.split_once(" -> ") {
                let link = tree.0.0.join(path);
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(target, link).unwrap();
            } else if let Some((path, text)) = line.split_once(" = ") {
                tree.file(path, text);
            }
        }
        tree.file("proc/sys/kernel/hostname", "node-17");
        for nic in 0..4 {
            tree.count(nic, SENT, 1000);
            tree.count(nic, "counters/port_rcv_data", 2000);
        }
        tree
    }

    /// The file of a NIC's port.
    fn of_port(&self, nic: u32, name: &str) -> PathBuf {
        let device = self.0.0.join(format!("sys/class/infiniband/mlx5_{nic}"));
        device.canonicalize().unwrap().join("ports/1").join(name)
    }

    fn count(&self, nic: u32, name: &str, value: u64) {
        let file = self.of_port(nic, name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{value}\n")).unwrap();
    }

    fn process(&self, pid: u32, environment: &[&str]) {
        let text = environment.iter();
        let text: String = text.map(|entry| format!("{entry}\0")).collect();
        self.file(&format!("proc/{pid}/environ"), text);
    }

    /// `verify` on this tree with these words, none of which has a blank in it; `$N0` … are the
    /// folders of the ports.
    fn command(&self, words: &str) -> Command {
        let mut tool = tool();
        tool.args(["verify", "--topology", &self.at("")]);
        tool.args(words.split_whitespace());
        for nic in 0..4 {
            tool.env(format!("N{nic}"), self.of_port(nic, ""));
        }
        tool
    }

    fn verify(&self, words: &str) -> Answer {
        Answer::of(&mut self.command(words))
    }

    /// The command that measures a line of shell.
    fn measures(&self, line: &str) -> Command {
        let mut command = self.command("--bytes --json -- sh -c");
        command.arg(line);
        command
    }

    /// Measures it as a task of Slurm's with these numbers.
    fn measure(&self, slurm: &[(&str, &str)], line: &str) -> Answer {
        let slurm = slurm.iter();
        let slurm = slurm.map(|(name, value)| (format!("SLURM_{name}"), value));
        Answer::of(self.measures(line).envs(slurm))
    }
}

const OWN: [(&str, &str); 3] = [("JOB_ID", "17"), ("STEP_ID", "0"), ("LOCALID", "0")];

fn report(answer: &Answer) -> NodeReport {
    let line = answer.err.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no report: {answer}"));
    NodeReport::read(line.as_bytes()).unwrap()
}

fn traffic(answer: &Answer) -> Traffic {
    report(answer).traffic.unwrap()
}

fn of<'r>(traffic: &'r Traffic, name: &str) -> &'r NicTraffic {
    let mut nics = traffic.nics.iter();
    nics.find(|nic| nic.name == name)
        .unwrap_or_else(|| panic!("{name}: {traffic:?}"))
}

fn rdma(sent: u64, received: u64) -> Option<Figure> {
    Some(Figure::Bytes { sent, received })
}

const MARK: &str =
    "NIC_PLACEMENT=v1 policy=closest gpus=0000:23:00.0 nics=mlx5_0:1 set:UCX_NET_DEVICES=mlx5_0:1";

#[test]
fn the_command_keeps_its_streams_and_status_and_its_bytes_are_told_on_stderr() {
    let tree = Tree::new("streams");
    let line = "cat; echo 1500 > $N0/counters/port_xmit_data; echo 2010 > $N0/counters/port_rcv_data; exit 7";
    let answer = Answer::to(&mut tree.measures(line), b"given\n");
    assert_eq!(answer.ends(7).out, "given\n");
    let (report, traffic) = (report(&answer), traffic(&answer));
    let told = (report.node.as_str(), report.status, traffic.plan);
    assert_eq!(told, ("node-17", Some(7), Origin::Node));
    assert_eq!(of(&traffic, "mlx5_0:1").rdma, rdma(2000, 40));
    assert_eq!(of(&traffic, "mlx5_1:1").rdma, rdma(0, 0));
    assert_eq!((traffic.shares.planned, traffic.shares.others), (2000, 0));
}

#[test]
fn the_plan_is_that_of_the_step_s_tasks() {
    let tree = Tree::new("tasks");
    let of_step = |step: &'static str, local: &'static str| ["SLURM_JOB_ID=17", step, local, MARK];
    tree.process(100, &of_step("SLURM_STEP_ID=0", "SLURM_LOCALID=5"));
    tree.thread(100, 100, "train", "R (running)", "0-3");
    tree.process(101, &of_step("SLURM_STEP_ID=3", "SLURM_LOCALID=0"));
    let odd = "NIC_PLACEMENT=v1 policy= gpus=\x1b[31m nics=\x1b[0m";
    tree.process(102, &["SLURM_JOB_ID=\x1b[2J", odd]);
    let line = "echo 1500 > $N0/counters/port_xmit_data; echo 2000 > $N2/counters/port_xmit_data";
    let answer = tree.measure(&OWN, line);
    let traffic = traffic(&answer);
    assert_eq!(traffic.plan, Origin::Tasks);
    let planned_for = |nic| of(&traffic, nic).planned_for.clone();
    let task = Some(vec!["17.0 task 5".to_string()]);
    let found = [planned_for("mlx5_0:1"), planned_for("mlx5_2:1")];
    assert_eq!(found, [task, None]);
    let found = (traffic.shares.planned, traffic.shares.others);
    assert_eq!(found, (2000, 4000));
}

#[test]
fn what_a_counter_cannot_tell_is_said_and_is_no_zero() {
    let tree = Tree::new("missing");
    let line = "echo 10 > $N0/counters/port_xmit_data; rm -r $N1/counters; \
                echo 4294967295 > $N2/counters/port_xmit_data"; // the end of 32 bits
    fs::remove_dir_all(tree.of_port(3, "counters")).unwrap();
    let traffic = traffic(&tree.measure(&[], line));
    for (nic, missing) in [
        ("mlx5_0:1", NoFigure::WentBackwards),
        ("mlx5_1:1", NoFigure::CameOrWent),
        ("mlx5_2:1", NoFigure::CameOrWent),
        ("mlx5_3:1", NoFigure::NoCounter),
    ] {
        let missing = Some(Figure::Missing(missing));
        assert_eq!(of(&traffic, nic).rdma, missing, "{nic}");
    }
    assert_eq!((traffic.shares.planned, traffic.shares.others), (0, 0));
}

#[test]
fn of_a_node_s_tasks_the_first_measures_and_the_others_become_the_command() {
    let tree = Tree::new("others");
    // its parent is the test: nothing stands between
    let own = std::process::id().to_string();
    for (local, is_child, reports) in [("0", false, 1), ("1", true, 0)] {
        let slurm = [
            ("NODEID", "0"),
            ("LOCALID", local),
            ("STEP_TASKS_PER_NODE", "2"),
        ];
        let answer = tree.measure(&slurm, "echo $PPID");
        let told = &answer.err;
        let told = told.matches("nic-placement verify\",\"version").count();
        let expected = (is_child, reports);
        assert_eq!((answer.out.trim() == own, told), expected, "{answer}");
    }
}

#[test]
fn a_signal_reaches_the_command_and_the_report_is_printed() {
    let tree = Tree::new("signals");
    let waits = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    for (line, code) in [(waits, 3), ("echo ready; exec sleep 600", 128 + 15)] {
        let mut command = tree.measures(line);
        command.stdout(Stdio::piped());
        let mut running = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        let mut said = BufReader::new(running.stdout.as_mut().unwrap());
        said.read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        let pid = running.id().to_string();
        Answer::of(Command::new("kill").args(["-TERM", &pid])).ends(0);
        let answer = Answer::new(line, running.wait_with_output().unwrap());
        answer.ends(code).says(&[&format!("\"status\":{code}")]);
    }
}

#[test]
fn a_command_that_cannot_be_started_ends_as_env_does() {
    let tree = Tree::new("started");
    tree.verify("--bytes -- /no/such/program").ends(127);
    tree.verify("--bytes -- /").ends(126);
    Answer::of(tree.command("--").arg("")).ends(127);
}

/// A folder that another user may read, with the tool and a machine of fourteen NICs in it.
fn open_to_all(name: &str) -> Place {
    let open = Place::new(name);
    fs::copy(TOOL, open.at("nic-placement")).unwrap();
    let machine = open.file("machine", nic_placement_testing::snapshot_of("dgx-h100"));
    run(&format!("snapshot --unpack {machine} {}", open.at("tree"))).ends(0);
    Answer::of(Command::new("chmod").args(["-R", "a+rX", &open.at("")])).ends(0);
    open
}

/// The tool as a user with no other process and with that many processes and threads at most.
fn limited(open: &Place, processes: u32, words: &str, program: &[&str]) -> Option<Answer> {
    let mut command = Command::new("setpriv");
    let user = "--reuid=61234 --regid=61234 --clear-groups env --ignore-signal=CHLD prlimit";
    command.args(user.split(' '));
    command.arg(format!("--nproc={processes}"));
    command.arg(open.at("nic-placement"));
    command.args(words.split(' ')).args(program);
    for (name, _) in std::env::vars() {
        if name.starts_with("SLURM") || name.contains("LOCAL") {
            command.env_remove(name);
        }
    }
    let output = command.current_dir(&open.0).output().ok()?;
    Some(Answer::new(words, output))
}

const MEASURES: &str = "verify --bytes --topology tree";

#[test]
fn a_limit_of_processes_keeps_no_command_from_running_and_loses_no_status() {
    let open = open_to_all("limit");
    let program = ["--", "sh", "-c", "echo trained; exit 7"];
    let limited = |processes, words, program: &[&str]| limited(&open, processes, words, program);
    if limited(1000, "exec", &program).is_none_or(|answer| answer.status != Some(7)) {
        return println!("skipped: no setpriv or prlimit");
    }
    for processes in 1..=24 {
        let alone = limited(processes, "exec", &program).unwrap();
        if alone.status != Some(7) {
            continue;
        }
        let measured = limited(processes, MEASURES, &program).unwrap();
        measured.ends(7).lacks(&["panicked", "bug at"]);
        assert_eq!(measured.out, alone.out);
        let told = measured.err.matches("can be started").count();
        assert!(told <= 2, "with {processes} processes: {measured}");
    }
    // where the tool becomes the command, that has the signals that were given to the tool
    let signals = ["--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let [given, kept] = ["exec", MEASURES].map(|words| {
        let answer = limited(1, words, &signals).unwrap();
        numbers_of_signals(&answer.out)
    });
    assert_eq!(kept, given);
    assert!(given[1] & 1 << 16 != 0, "SIGCHLD is ignored: {given:?}");
    let bytes = limited(1, MEASURES, &[]).unwrap();
    assert_eq!(bytes.err.lines().count(), 2, "{bytes}");
    let note = "nic-placement: note: no thread can be";
    assert!(bytes.err.starts_with(note), "{bytes}");
}

/// Values of lines of /proc/self/status, without signals 32 and 33, which the C library keeps for itself.
fn numbers_of_signals(text: &str) -> Vec<u64> {
    let numbered =
        |line: &str| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
    text.lines()
        .map(|line| numbered(line) & 0x7fff_ffff)
        .collect()
}

#[test]
fn ignored_signals_stay_ignored_and_none_is_held_back_in_the_command() {
    let tree = Tree::new("given");
    let line = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    let run = |inner: &str| {
        let line = format!("trap '' HUP CHLD PIPE; {inner}");
        numbers_of_signals(&Answer::of(Command::new("sh").args(["-c", &line])).out)
    };
    let bare = run(&format!("sh -c \"{line}\""));
    let verify = format!("verify --bytes --topology {}", tree.at(""));
    assert_eq!(run(&format!("{TOOL} {verify} -- sh -c \"{line}\"")), bare);
    assert!(bare[1] & 1 != 0, "SIGHUP is ignored: {bare:?}");
}

#[test]
fn reports_of_many_nodes_are_added_up_from_a_mixed_stream() {
    let tree = Tree::new("merge");
    let reports = tree.at("reports");
    fs::create_dir(&reports).unwrap();
    let mut lines = "0: some other line\n".to_string();
    for node in ["n0", "n1"] {
        tree.file("proc/sys/kernel/hostname", node);
        tree.count(0, SENT, 1000);
        let report = tree.measure(&[], "echo 2000 > $N0/counters/port_xmit_data");
        let report = report.err;
        lines += &format!("{}: {report}", &node[1..]);
        tree.file(&format!("reports/{node}.json"), report);
    }
    tree.file("reports/all", lines);
    let merged = |files: &str| {
        let mut tool = tool();
        tool.args(["verify", "--merge"]).args(files.split(' '));
        Answer::of(tool.current_dir(&reports))
    };
    let text = merged("n0.json n1.json");
    let is_so = text.ends(0).says(&["8.00 kB"]).out.starts_with("2 nodes");
    assert!(is_so, "{text}");
    // labels and other lines do not matter
    assert_eq!(merged("all").ends(0).out, text.out);
}

#[test]
fn a_watch_shows_the_tasks_among_thousands_of_processes_and_obeys_none_of_their_text() {
    let tree = Tree::new("watch");
    for pid in 1..=2_000 {
        let own = ["SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_PROCID=3", MARK];
        let odd = "NIC_PLACEMENT=v1 policy=x gpus=\x1b[2J nics=\x1b[2J:1,mlx5_1:1";
        match pid % 200 {
            0 => tree.process(pid, &own),
            1 => tree.process(pid, &["A=\x1b[2J", odd]),
            _ => tree.process(pid, &["PATH=/bin", "HOME=/root"]),
        }
        tree.thread(pid, pid, "train", "R (running)", "0-3");
    }
    let once = tree.verify("--watch 1");
    let nic = once.ends(2);
    let nic = nic.out.lines().find(|line| line.starts_with("mlx5_0:1"));
    assert!(nic.unwrap().ends_with("17.0 task 3"), "{once}");
    assert!(!once.out.contains('\x1b'), "{once}");
    let report = NodeReport::read(tree.verify("--json --watch 1").out.as_bytes()).unwrap();
    let processes = report.tasks.iter().map(|task| task.processes.len());
    let processes: Vec<_> = processes.collect();
    assert_eq!((&*report.node, &processes[..]), ("node-17", &[10, 10][..]));
    assert_eq!(report.not_looked_at, 0);
}

/// A directory may list its entries in any order: of the last ones some are among a thousand.
#[test]
fn tasks_behind_many_processes_are_found() {
    let tree = Tree::new("many");
    (1..=16_000).for_each(|pid| tree.process(pid, &["PATH=/bin"]));
    for pid in 20_000..21_000 {
        tree.process(pid, &["SLURM_JOB_ID=17", "SLURM_STEP_ID=0", MARK]);
        tree.thread(pid, pid, "train", "R (running)", "0-3");
    }
    let report = NodeReport::read(tree.verify("--json").out.as_bytes()).unwrap();
    let [task] = &report.tasks[..] else {
        panic!("{report:?}")
    };
    assert_eq!((task.processes.len(), report.not_looked_at), (1000, 0));
}

#[test]
fn a_textfile_is_written_whole_beside_the_node_file() {
    let place = Place::new("textfile");
    let refresh = |name: &str| {
        let (node, file) = (place.at("node.json"), place.at(name));
        run(&format!("refresh --output {node} --textfile {file}"))
    };
    refresh("nic_placement.prom").ends(0);
    let text = place.read("nic_placement.prom");
    let written = "\nnic_placement_gpus_without_nic ";
    assert!(text.contains(written), "{text}");
    let other = refresh("nic_placement.txt");
    assert_ne!(other.status, Some(0), "{other}");
    assert!(!place.0.join("nic_placement.txt").exists());
}

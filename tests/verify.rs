//! `verify` and `refresh --textfile` as programs: on a tree of a real kernel's files, whose counters the program itself
//! changes. tests/clients/cases_measure.rs does it with NICs that move data.

#[path = "verify/output.rs"]
mod output;
#[path = "verify/tasks.rs"]
mod tasks;

use nic_placement_traffic::bytes::{Bytes, Figure, NicTraffic, NoFigure, Origin, Traffic};
use nic_placement_traffic::report::NodeReport;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The files of tests/machines/guest-dgx in a folder; its first four NICs have counters.
struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Tree {
    fn new(name: &str) -> Tree {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("verify-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let tree = Tree(folder);
        let machine =
            Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/machines/guest-dgx/node.machine");
        for line in fs::read_to_string(machine)
            .unwrap()
            .lines()
            .filter(|line| line.starts_with("sys/"))
        {
            if let Some((path, target)) = line.split_once(" -> ") {
                tree.make_folder(path);
                std::os::unix::fs::symlink(target, tree.0.join(path)).unwrap();
            } else if let Some((path, text)) = line.split_once(" = ") {
                tree.write(path, text);
            }
        }
        tree.write("proc/sys/kernel/hostname", "node-17");
        for nic in 0..4 {
            tree.count(nic, "counters/port_xmit_data", 1000);
            tree.count(nic, "counters/port_rcv_data", 2000);
        }
        tree
    }

    fn make_folder(&self, path: &str) {
        fs::create_dir_all(self.0.join(path).parent().unwrap()).unwrap();
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        self.make_folder(path);
        fs::write(self.0.join(path), text).unwrap();
    }

    /// The file of a NIC's port.
    fn file(&self, nic: u32, name: &str) -> PathBuf {
        let device = self.0.join(format!("sys/class/infiniband/mlx5_{nic}"));
        device.canonicalize().unwrap().join("ports/1").join(name)
    }

    fn count(&self, nic: u32, name: &str, value: u64) {
        let file = self.file(nic, name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{value}\n")).unwrap();
    }

    fn process(&self, pid: u32, environment: &[&str]) {
        let text: Vec<u8> = environment
            .iter()
            .flat_map(|entry| entry.bytes().chain([0]))
            .collect();
        self.write(&format!("proc/{pid}/environ"), text);
    }

    /// A command of the tool on this tree, as no launcher's process.
    fn tool(&self, command: &str, arguments: &[&str]) -> Command {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
        tool.arg(command)
            .arg("--topology")
            .arg(&self.0)
            .args(arguments);
        for (name, _) in std::env::vars() {
            if name.starts_with("SLURM") || name.contains("LOCAL") {
                tool.env_remove(name);
            }
        }
        tool
    }

    /// Measures a line of shell; `$N0` … are the folders of the ports.
    fn measure(&self, variables: &[(&str, &str)], line: &str) -> Output {
        let mut tool = self.tool("verify", &["--bytes", "--json", "--", "sh", "-c", line]);
        for nic in 0..4 {
            tool.env(format!("N{nic}"), self.file(nic, ""));
        }
        tool.envs(variables.iter().copied()).output().unwrap()
    }
}

fn report(output: &Output) -> NodeReport {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no report: {text}"));
    NodeReport::read(line.as_bytes()).unwrap()
}

fn traffic(output: &Output) -> Traffic {
    report(output).traffic.unwrap()
}

fn of<'r>(traffic: &'r Traffic, name: &str) -> &'r NicTraffic {
    let mut nics = traffic.nics.iter();
    nics.find(|nic| nic.name == name)
        .unwrap_or_else(|| panic!("{name}: {traffic:?}"))
}

fn rdma(sent: u64, received: u64) -> Option<Figure> {
    Some(Figure::Bytes(Bytes { sent, received }))
}

const MARK: &str =
    "NIC_PLACEMENT=v1 policy=closest gpus=0000:23:00.0 nics=mlx5_0:1 set:UCX_NET_DEVICES=mlx5_0:1";

#[test]
fn the_command_keeps_its_streams_and_status_and_its_bytes_are_told_on_stderr() {
    let tree = Tree::new("streams");
    let line = "cat; echo 1500 > $N0/counters/port_xmit_data; echo 2010 > $N0/counters/port_rcv_data; exit 7";
    let mut tool = tree.tool("verify", &["--bytes", "--json", "--", "sh", "-c", line]);
    tool.env("N0", tree.file(0, ""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = tool.spawn().unwrap();
    running.stdin.take().unwrap().write_all(b"given\n").unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(7), &b"given\n"[..])
    );
    let (report, traffic) = (report(&output), traffic(&output));
    assert_eq!(
        (report.node.as_str(), report.status, traffic.plan),
        ("node-17", Some(7), Origin::Node)
    );
    assert_eq!(of(&traffic, "mlx5_0:1").rdma, rdma(2000, 40));
    assert_eq!(of(&traffic, "mlx5_1:1").rdma, rdma(0, 0));
    assert_eq!((traffic.shares.planned, traffic.shares.others), (2000, 0));
}

#[test]
fn the_plan_is_that_of_the_step_s_tasks_and_other_steps_are_named() {
    let tree = Tree::new("tasks");
    let of_step = |step: &'static str, local: &'static str| ["SLURM_JOB_ID=17", step, local, MARK];
    tree.process(100, &of_step("SLURM_STEP_ID=0", "SLURM_LOCALID=5"));
    tree.thread(100, 100, "train", "R (running)", "0-3");
    tree.process(101, &of_step("SLURM_STEP_ID=3", "SLURM_LOCALID=0"));
    tree.process(
        102,
        &[
            "SLURM_JOB_ID=\x1b[2J",
            "NIC_PLACEMENT=v1 policy= gpus=\x1b[31m nics=\x1b[0m",
        ],
    );
    let line = "echo 1500 > $N0/counters/port_xmit_data; echo 2000 > $N2/counters/port_xmit_data";
    let own = [
        ("SLURM_JOB_ID", "17"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_LOCALID", "0"),
    ];
    let output = tree.measure(&own, line);
    let (report, traffic) = (report(&output), traffic(&output));
    assert_eq!(traffic.plan, Origin::Tasks);
    assert_eq!(
        (
            &of(&traffic, "mlx5_0:1").tasks[..],
            of(&traffic, "mlx5_2:1").is_planned
        ),
        (&["17.0 task 5".to_string()][..], false)
    );
    assert_eq!(
        (traffic.shares.planned, traffic.shares.others),
        (2000, 4000)
    );
    let others =
        "others ran on this node too, and their bytes are among these: process 102, step 17.3";
    assert!(
        report.notes.iter().any(|note| note == others),
        "{:?}",
        report.notes
    );
}

#[test]
fn what_a_counter_cannot_tell_is_said_and_is_no_zero() {
    let tree = Tree::new("missing");
    let line = "echo 10 > $N0/counters/port_xmit_data; rm -r $N1/counters; \
                echo 4294967295 > $N2/counters/port_xmit_data";
    fs::remove_dir_all(tree.file(3, "counters")).unwrap();
    let traffic = traffic(&tree.measure(&[], line));
    for (nic, missing) in [
        ("mlx5_0:1", NoFigure::WentBackwards),
        ("mlx5_1:1", NoFigure::CameOrWent),
        ("mlx5_2:1", NoFigure::AtItsEnd),
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
    let line = "echo $PPID";
    let measured = |local: &str| {
        let slurm = [
            ("SLURM_NODEID", "0"),
            ("SLURM_LOCALID", local),
            ("SLURM_STEP_TASKS_PER_NODE", "2"),
        ];
        let output = tree.measure(&slurm, line);
        let parent =
            String::from_utf8_lossy(&output.stdout).trim() == std::process::id().to_string();
        (
            parent,
            String::from_utf8_lossy(&output.stderr)
                .matches("nic-placement verify\",\"version")
                .count(),
        )
    };
    assert_eq!(measured("0"), (false, 1));
    assert_eq!(measured("1"), (true, 0));
}

#[test]
fn a_signal_reaches_the_command_and_the_report_is_printed() {
    let tree = Tree::new("signals");
    for (line, code) in [
        (
            "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done",
            3,
        ),
        ("echo ready; exec sleep 600", 128 + 15),
    ] {
        let mut tool = tree.tool("verify", &["--bytes", "--json", "--", "sh", "-c", line]);
        let mut running = tool
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(running.stdout.as_mut().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert_eq!(ready, "ready\n");
        let pid = running.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        let mut said = String::new();
        running
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        assert_eq!(running.wait().unwrap().code(), Some(code), "{line}: {said}");
        assert!(said.contains(&format!("\"status\":{code}")), "{said}");
    }
}

#[test]
fn a_command_that_cannot_be_started_ends_as_env_does() {
    let tree = Tree::new("started");
    let code = |command: &str| {
        tree.tool("verify", &["--bytes", "--", command])
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!(
        (code("/no/such/program"), code("/")),
        (Some(127), Some(126))
    );
    assert_eq!(
        tree.tool("verify", &["--", ""])
            .output()
            .unwrap()
            .status
            .code(),
        Some(127)
    );
}

/// A folder that another user may read, with the tool and a machine of fourteen NICs in it.
struct Open(PathBuf);

impl Drop for Open {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Open {
    fn new(name: &str) -> Open {
        let folder = std::env::temp_dir().join(format!(
            "nic-placement-verify-{name}-{}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let open = Open(folder);
        fs::copy(env!("CARGO_BIN_EXE_nic-placement"), open.tool()).unwrap();
        let run = |arguments: &[&str]| {
            let output = Command::new(open.tool())
                .args(arguments)
                .current_dir(&open.0)
                .output()
                .unwrap();
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            output.stdout
        };
        let machine = nic_placement_testing::snapshot_of("dgx-h100");
        fs::write(open.0.join("machine"), machine).unwrap();
        run(&["snapshot", "--unpack", "machine", "tree"]);
        assert!(
            Command::new("chmod")
                .args(["-R", "a+rX"])
                .arg(&open.0)
                .status()
                .unwrap()
                .success()
        );
        open
    }

    fn tool(&self) -> PathBuf {
        self.0.join("nic-placement")
    }

    /// The tool as a user with no other process and with that many processes and threads at most.
    fn limited(&self, processes: u32, arguments: &[&str]) -> std::io::Result<Output> {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=61234",
            "--regid=61234",
            "--clear-groups",
            "env",
            "--ignore-signal=CHLD",
            "prlimit",
        ]);
        command
            .arg(format!("--nproc={processes}"))
            .arg(self.tool())
            .args(arguments);
        for (name, _) in std::env::vars() {
            if name.starts_with("SLURM") || name.contains("LOCAL") {
                command.env_remove(name);
            }
        }
        command.current_dir(&self.0).output()
    }
}

#[test]
fn a_limit_of_processes_keeps_no_command_from_running_and_loses_no_status() {
    let open = Open::new("limit");
    let command = ["--", "sh", "-c", "echo trained; exit 7"];
    let limited =
        |processes, tool: &[&str]| open.limited(processes, &[tool, &command[..]].concat());
    match limited(1000, &["exec"]) {
        Ok(output) if output.status.code() == Some(7) => {}
        other => return println!("skipped: not root, or no setpriv and prlimit: {other:?}"),
    }
    for processes in 1..=24 {
        let alone = limited(processes, &["exec"]).unwrap();
        if alone.status.code() != Some(7) {
            continue;
        }
        let measured = limited(processes, &["verify", "--bytes", "--topology", "tree"]).unwrap();
        let said = String::from_utf8_lossy(&measured.stderr);
        assert_eq!(
            (measured.status.code(), &measured.stdout),
            (Some(7), &alone.stdout),
            "with {processes} processes: {said}"
        );
        assert!(
            !said.contains("panicked") && !said.contains("bug at"),
            "with {processes} processes: {said}"
        );
        assert!(
            said.matches("can be started").count() <= 2,
            "with {processes} processes: {said}"
        );
    }
    // where the tool becomes the command, that has the signals that were given to the tool
    let signals = ["--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let given = open
        .limited(1, &[&["exec"], &signals[..]].concat())
        .unwrap();
    let kept = open
        .limited(
            1,
            &[&["verify", "--bytes", "--topology", "tree"], &signals[..]].concat(),
        )
        .unwrap();
    let numbers = |output: Output| numbers_of_signals(&String::from_utf8(output.stdout).unwrap());
    let (kept, given) = (numbers(kept), numbers(given));
    assert_eq!(kept, given);
    assert!(given[1] & 1 << 16 != 0, "SIGCHLD is ignored: {given:?}");
    let bytes = open
        .limited(1, &["verify", "--topology", "tree", "--bytes"])
        .unwrap();
    let said = String::from_utf8_lossy(&bytes.stderr);
    assert!(said.lines().count() == 2, "{said}");
    assert!(
        said.starts_with("nic-placement: note: no thread can be started ("),
        "{said}"
    );
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
    let run = |program: &mut Command| -> Vec<u64> {
        let text = String::from_utf8(program.output().unwrap().stdout).unwrap();
        numbers_of_signals(&text)
    };
    let wrapped = |inner: &str| format!("trap '' HUP CHLD PIPE; {inner}");
    let bare = run(Command::new("sh").args(["-c", &wrapped(&format!("sh -c \"{line}\""))]));
    let tool = env!("CARGO_BIN_EXE_nic-placement");
    let inner = format!(
        "{tool} verify --bytes --topology {} -o /dev/null -- sh -c \"{line}\"",
        tree.0.display()
    );
    assert_eq!(run(Command::new("sh").args(["-c", &wrapped(&inner)])), bare);
    assert!(bare[1] & 1 != 0, "SIGHUP is ignored: {bare:?}");
}

#[test]
fn reports_of_many_nodes_are_added_up_from_a_mixed_stream() {
    let tree = Tree::new("merge");
    let folder = tree.0.join("reports");
    fs::create_dir(&folder).unwrap();
    let mut lines = "0: some other line\n".to_string();
    for node in ["n0", "n1"] {
        tree.write("proc/sys/kernel/hostname", node);
        tree.count(0, "counters/port_xmit_data", 1000);
        let line = format!(
            "echo 2000 > {}",
            tree.file(0, "counters/port_xmit_data").display()
        );
        let output = folder.to_str().unwrap();
        let measured = tree
            .tool(
                "verify",
                &["--bytes", "--json", "-o", output, "--", "sh", "-c", &line],
            )
            .output()
            .unwrap();
        assert!(
            measured.status.success() && measured.stderr.is_empty(),
            "{measured:?}"
        );
        lines += &format!(
            "{}: {}",
            &node[1..],
            fs::read_to_string(folder.join(format!("{node}.json"))).unwrap()
        );
    }
    fs::write(folder.join("all"), lines).unwrap();
    let merged = |files: &[&str]| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
        let output = tool
            .args(["verify", "--merge"])
            .args(files)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = merged(&["n0.json", "n1.json"]);
    assert!(
        text.starts_with("2 nodes") && text.contains("8.00 kB"),
        "{text}"
    );
    assert_eq!(
        merged(&["all"]),
        text,
        "labels and other lines do not matter"
    );
}

#[test]
fn a_watch_shows_the_tasks_among_thousands_of_processes_and_obeys_none_of_their_text() {
    let tree = Tree::new("watch");
    for pid in 1..=2_000 {
        let text: &[&str] = match pid % 200 {
            0 => &["SLURM_JOB_ID=17", "SLURM_STEP_ID=0", "SLURM_PROCID=3", MARK],
            1 => &[
                "A=\x1b[2J",
                "NIC_PLACEMENT=v1 policy=x gpus=\x1b[2J nics=\x1b[2J:1,mlx5_1:1",
            ],
            _ => &["PATH=/bin", "HOME=/root"],
        };
        tree.process(pid, text);
        tree.thread(pid, pid, "train", "R (running)", "0-3");
    }
    let once = tree.tool("verify", &["--watch", "1"]).output().unwrap();
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(
        once.status.code() == Some(2) && !text.contains('\x1b'),
        "{text}"
    );
    let nic = text.lines().find(|line| line.starts_with("mlx5_0:1"));
    assert!(nic.unwrap().ends_with("17.0 task 3"), "{text}");
    let json = tree.tool("verify", &["--json", "--watch", "1"]).output();
    let report = NodeReport::read(&json.unwrap().stdout).unwrap();
    let processes = |task: usize| report.tasks[task].processes.len();
    assert_eq!((&*report.node, report.tasks.len()), ("node-17", 2));
    assert_eq!(
        (processes(0), processes(1), report.not_looked_at),
        (10, 10, 0)
    );
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
    let output = tree.tool("verify", &["--json"]).output().unwrap();
    let report = NodeReport::read(&output.stdout).unwrap();
    let [task] = &report.tasks[..] else {
        panic!("{report:?}")
    };
    assert_eq!((task.processes.len(), report.not_looked_at), (1000, 0));
}

#[test]
fn a_textfile_is_written_whole_beside_the_node_file() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("textfile-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let refresh = |name: &str| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
        tool.arg("refresh")
            .arg("--output")
            .arg(folder.join("node.json"));
        tool.arg("--textfile")
            .arg(folder.join(name))
            .output()
            .unwrap()
    };
    let output = refresh("nic_placement.prom");
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(folder.join("nic_placement.prom")).unwrap();
    assert!(
        text.contains("\nnic_placement_node_file_written_timestamp_seconds "),
        "{text}"
    );
    let output = refresh("nic_placement.txt");
    assert!(
        !output.status.success() && !folder.join("nic_placement.txt").exists(),
        "{output:?}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

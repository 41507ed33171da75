//! `trial FOLDER`: the report of raw outputs, of which each is another program's, foreign, or missing.

use nic_placement_fleet::trial::report::{self, Near, TrialReport};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of a trial on two nodes that are a DGX H100.
struct Trial(PathBuf);

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tool(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args(arguments)
        .output()
        .unwrap()
}

impl Trial {
    fn new(name: &str) -> Trial {
        let folder = format!("trial-report-{name}-{}", std::process::id());
        let trial = Trial(Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder));
        let _ = fs::remove_dir_all(&trial.0);
        let node = tool(&["show", "--machine", "dgx-h100", "--json"]).stdout;
        for number in ["0", "1"] {
            fs::create_dir_all(trial.0.join("raw").join(number)).unwrap();
            trial.write(&format!("{number}/node.txt"), &node);
        }
        trial.write("releases.txt", "Linux\t6.8.0\nSlurm\t24.05.1\n");
        trial.write("nodes.txt", "2\n");
        trial
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join("raw").join(name), text).unwrap();
    }

    fn make(&self) -> Output {
        tool(&["trial", self.0.to_str().unwrap()])
    }

    #[track_caller]
    fn report(&self) -> TrialReport {
        let output = self.make();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        report::read(&fs::read(self.0.join("report.json")).unwrap()).unwrap()
    }
}

/// A task's line, of a driver with this GPU, and of ours.
fn line(driver: &str, taken: &str) -> String {
    format!(
        "{{\"format\":\"nic-placement probe\",\"version\":1,\"local_id\":0,\"rank\":0,\"drivers\":[{{\"name\":\"cuda\",\"version\":12040,\
         \"devices\":[{{\"address\":\"{driver}\",\"uuid\":\"GPU-x\",\"name\":\"H100\"}}],\"error\":null}}],\"taken\":[\"{taken}\"],\
         \"nics\":[],\"cpus\":\"0-3\",\"set_cpus\":\"0-3\",\"memory\":\"default\",\"copies\":{{\"to_device_mb_s\":50000.0,\
         \"to_host_mb_s\":49000.0}},\"nccl\":null,\"notes\":[]}}\n"
    )
}

#[test]
fn other_programs_pictures_are_compared_and_a_second_node_is_told_where_it_differs() {
    let trial = Trial::new("witnesses");
    let matrix =
        fs::read(Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/machines/formats/matrix.txt"))
            .unwrap();
    trial.write("0/nvidia-smi-topo.txt", &matrix);
    let other = tool(&["show", "--machine", "dgx-a100", "--json"]).stdout;
    for node in ["0", "1"] {
        let node_s_own = fs::read(trial.0.join("raw").join(node).join("node.txt")).unwrap();
        trial.write(
            &format!("{node}/lstopo.txt"),
            if node == "0" { &node_s_own } else { &other },
        );
        trial.write(&format!("{node}/nccl.why"), "no `libnccl.so.2`\n");
    }
    let report = trial.report();
    let of = |program: &str| {
        report
            .witnesses
            .iter()
            .find(|of| of.program == program)
            .unwrap()
    };
    assert!(
        of("lstopo").agrees() && of("lstopo").compared > 80,
        "{report:?}"
    );
    assert!(!of("lstopo (node 1)").differences.is_empty(), "{report:?}");
    assert!(
        !of("nvidia-smi topo -m").differences.is_empty(),
        "another machine's matrix: {report:?}"
    );
    assert_eq!(of("NCCL").not_tried.as_deref(), Some("no `libnccl.so.2`"));
    assert_eq!(of("rdma link").not_tried.as_deref(), Some("no output"));
    assert_eq!(
        (report.nodes, report.releases["Slurm"].as_str()),
        (2, "24.05.1")
    );
    assert!(
        report.machine.starts_with("8 x NVIDIA H100"),
        "{}",
        report.machine
    );
}

#[test]
fn each_way_has_what_the_driver_said_of_each_task() {
    let trial = Trial::new("ways");
    trial.write("way-0.command", "srun -n2 --gpus-per-task=1\n");
    let lines = line("00000000:1B:00.0", "0000:1b:00.0")
        + "slurmstepd: noise\n"
        + &line("0000:43:00.0", "0000:1b:00.0");
    trial.write("way-0.txt", lines);
    trial.write(
        "way-0-without.txt",
        line("0000:1b:00.0", "0000:1b:00.0").replace("0-3", "0-111"),
    );
    trial.write("way-1.command", "srun --ntasks-per-gpu=1\n");
    trial.write("way-1.why", "`srun` ended with 1\n");
    let report = trial.report();
    let [first, second] = &report.ways[..] else {
        panic!("{report:?}")
    };
    assert_eq!(
        (first.tasks, first.agree, first.bound),
        (2, 1, 2),
        "{first:?}"
    );
    assert_eq!(
        (first.near, first.near_without),
        (Near { near: 2, known: 2 }, Near { near: 0, known: 1 })
    );
    assert_eq!(first.memory["default"], 2);
    assert_eq!(first.differ, ["driver 0000:43:00.0, we 0000:1b:00.0"]);
    assert_eq!(second.not_tried.as_deref(), Some("`srun` ended with 1"));
    assert!(!report.played);
    let text = fs::read_to_string(trial.0.join("report.md")).unwrap();
    assert!(
        text.contains("| `srun -n2 --gpus-per-task=1` | 2 | 1 | 0 |"),
        "{text}"
    );
    let checked = tool(&["trial", "--check", trial.0.to_str().unwrap()]);
    assert_eq!(
        checked.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&checked.stdout)
    );
}

/// The report of `verify --bytes --json` on one node.
const MEASURED: &str = "{\"format\":\"nic-placement verify\",\"version\":2,\"node\":\"n0\",\"status\":0,\"tasks\":[],\"not_looked_at\":0,\
    \"traffic\":{\"seconds\":1.0,\"plan\":\"node\",\"shares\":{\"planned\":0,\"others\":0,\"tcp\":0,\"idle\":[],\"unknown\":[]},\
    \"nics\":[{\"name\":\"mlx5_0:1\",\"is_planned\":true,\"gpus\":[],\"tasks\":[],\"rate_mbps\":null,\"counter\":null,\
    \"rdma\":{\"sent\":1000,\"received\":0},\"interface\":null,\"tcp\":null}]},\"notes\":[]}";

#[test]
fn each_program_s_figure_is_read_from_its_own_text() {
    let trial = Trial::new("effects");
    let write_bw = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      1000             392.10             391.80   \
                    0.747\n";
    let perftest = "|    Stage     | # iterations | 50.0%ile |\nFinal:                   100      0.000   213.1   213.1    18767.0   18767.0        \
                    4692        4692\n";
    let nccl = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 477.5\n";
    for (name, text, expected) in [
        ("ib_write_bw", write_bw, 391.80),
        ("ucx_perftest", perftest, 18767.0),
        (
            "osu_bw",
            "# OSU MPI Bandwidth Test\n# Size      Bandwidth (MB/s)\n4194304     24500.7\n",
            24500.7,
        ),
        ("all_reduce_perf", nccl, 477.5),
        ("copies", &line("0000:1b:00.0", "0000:1b:00.0"), 50.0),
    ] {
        for round in 1..=3 {
            trial.write(&format!("effect-{name}-near-{round}.txt"), text);
            trial.write(
                &format!("effect-{name}-default-{round}.why"),
                "`srun` ended with 124",
            );
        }
        trial.write(&format!("effect-{name}-far-1.txt"), "no figure here\n");
        // as ib_write_bw where it cannot tell the CPU's clock
        let zero = " 1048576    55           0.000000            0.000000            0.000000\n";
        trial.write(&format!("effect-{name}-far-2.txt"), zero);
        trial.write(
            &format!("effect-{name}-near-1.err"),
            format!("srun: noise\n{MEASURED}\n{MEASURED}\n"),
        );
        let report = trial.report();
        let effect = report
            .effects
            .iter()
            .find(|of| of.figures.get("near").is_some_and(|of| of[&1] == expected));
        let effect = effect.unwrap_or_else(|| panic!("{name}: {report:?}"));
        assert_eq!(
            (effect.figures["near"].len(), effect.figures.len()),
            (3, 1),
            "{effect:?}"
        );
        assert_eq!(
            effect.bytes["near"],
            [("mlx5_0:1".to_string(), 2000)].into(),
            "{effect:?}"
        );
    }
}

#[test]
fn a_folder_that_is_none_and_outputs_of_any_bytes_end_in_words() {
    let trial = Trial::new("bad");
    let none = tool(&["trial", "/nonexistent"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!(none.status.code(), Some(1));
    assert!(said.contains("holds no trial"), "{said}");
    assert_eq!(tool(&["trial"]).status.code(), Some(2));
    for (name, bytes) in [
        ("0/lstopo.txt", &b"<topology"[..]),
        ("0/nvidia-smi-topo.txt", &[0xff, 0, 7]),
        ("0/nvidia-smi-q.txt", b"GPU \x1b[2J\n  Minor Number : -1\n"),
        ("0/rdma-link.txt", b"link\nlink state\nlink a/1 state"),
        ("way-0.command", b"\x1b[31m|"),
        ("way-0.txt", b"{\"format\":\"nic-placement probe\"}\n{"),
        ("effect-ib_write_bw-near-1.txt", b"1 2 3 nan inf\n"),
        ("releases.txt", b"no tab\na\t\xff\x1b\n"),
    ] {
        trial.write(name, bytes);
    }
    let report = trial.report();
    let folder = trial.0.to_str().unwrap();
    assert!(
        !report.to_json().contains(folder),
        "a path may name a user: {report:?}"
    );
    assert_eq!(
        report.ways[0].not_tried.as_deref(),
        Some("no task answered")
    );
    let page = fs::read(trial.0.join("report.md")).unwrap();
    assert!(!page.contains(&0x1b), "{}", String::from_utf8_lossy(&page));
    let empty = Trial::new("empty");
    empty.report();
    let checked = tool(&["trial", "--check", empty.0.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing was compared"), "{said}");
}

#[test]
fn the_near_and_the_far_side_are_assignments_that_a_shell_may_read() {
    let said = |machine| {
        String::from_utf8(tool(&["trial", "--sides", "--machine", machine]).stdout).unwrap()
    };
    let dgx = said("dgx-h100");
    for line in [
        "gpus=8",
        "near_nic=mlx5_0",
        "far_nic=mlx5_6",
        "far_memory=1",
        "far_cpus=56-111,168-223",
    ] {
        assert!(
            dgx.lines().any(|other| other == line),
            "{line} is not in {dgx}"
        );
    }
    for machine in String::from_utf8(tool(&["machines"]).stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split(' ').next())
    {
        let letters = |line: &str| {
            line.starts_with('#')
                || line
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || "_=,-.".contains(letter))
        };
        assert!(
            said(machine).lines().all(letters),
            "{machine}: {}",
            said(machine)
        );
    }
}

//! `trial FOLDER`: the report of raw outputs, of which each is another program's, foreign, or missing.

use super::answer::{machines, printed, run};
use super::{Answer, Place, checkout};
use nic_placement_fleet::trial::report::{self, Near, TrialReport};
use std::fs;

/// The folder of a trial on two nodes that are a DGX H100.
struct Trial(Place);

impl Trial {
    fn new(name: &str) -> Trial {
        let trial = Trial(Place::new(&format!("trial-report-{name}")));
        let node = printed("show --machine dgx-h100 --json");
        trial.write("0/node.txt", &node);
        trial.write("releases.txt", "Linux\t6.8.0\nSlurm\t24.05.1\n");
        trial.write("nodes.txt", "2\n");
        trial
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        self.0.file(&format!("raw/{name}"), text);
    }

    #[track_caller]
    fn report(&self) -> TrialReport {
        run(&format!("trial {}", self.0.at(""))).ends(0);
        report::read(self.0.read("report.json").as_bytes()).unwrap()
    }

    fn check(&self) -> Answer {
        run(&format!("trial --check {}", self.0.at("")))
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
fn other_programs_pictures_are_compared() {
    let trial = Trial::new("witnesses");
    let matrix = fs::read(checkout("tests/machines/formats/matrix.txt")).unwrap();
    trial.write("0/nvidia-smi-topo.txt", &matrix);
    trial.write("0/lstopo.txt", trial.0.read("raw/0/node.txt"));
    trial.write("0/nccl.why", "no `libnccl.so.2`\n");
    let report = trial.report();
    let of = |program: &str| {
        let mut witnesses = report.witnesses.iter();
        witnesses.find(|of| of.program == program).unwrap()
    };
    let is_so = of("lstopo").agrees() && of("lstopo").compared > 80;
    assert!(is_so, "{report:?}");
    // of another machine
    let is_so = !of("nvidia-smi topo -m").differences.is_empty();
    assert!(is_so, "{report:?}");
    assert_eq!(of("NCCL").not_tried.as_deref(), Some("no `libnccl.so.2`"));
    let found = of("rocm-smi --showtopo").not_tried.as_deref();
    assert_eq!(found, Some("no output"));
    assert_eq!((report.nodes, &*report.releases["Slurm"]), (2, "24.05.1"));
    assert!(report.machine.starts_with("8 x NVIDIA H100"), "{report:?}");
}

#[test]
fn each_way_has_what_the_driver_said_of_each_task() {
    let trial = Trial::new("ways");
    trial.write("way-0.command", "srun -n2 --gpus-per-task=1\n");
    let lines = line("00000000:1B:00.0", "0000:1b:00.0")
        + "slurmstepd: noise\n"
        + &line("0000:43:00.0", "0000:1b:00.0");
    trial.write("way-0.txt", lines);
    let without = line("0000:1b:00.0", "0000:1b:00.0").replace("0-3", "0-111");
    trial.write("way-0-without.txt", without);
    trial.write("way-1.command", "srun --ntasks-per-gpu=1\n");
    trial.write("way-1.why", "`srun` ended with 1\n");
    let report = trial.report();
    let [first, second] = &report.ways[..] else {
        panic!("{report:?}")
    };
    let found = (first.tasks, first.agree, first.bound);
    assert_eq!(found, (2, 1, 2), "{first:?}");
    let [near, without] = [(2, 2), (0, 1)].map(|(near, known)| Near { near, known });
    assert_eq!((&first.near, &first.near_without), (&near, &without));
    assert_eq!(first.differ, ["driver 0000:43:00.0, we 0000:1b:00.0"]);
    assert_eq!(second.not_tried.as_deref(), Some("`srun` ended with 1"));
    assert!(!report.played);
    let text = trial.0.read("report.md");
    let row = "| `srun -n2 --gpus-per-task=1` | 2 | 1 | 0 |";
    assert!(text.contains(row), "{text}");
    trial.check().ends(0);
}

#[test]
fn each_program_s_figure_is_read_from_its_own_text() {
    let trial = Trial::new("effects");
    let write_bw = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 65536      1000             392.10             391.80   \
                    0.747\n";
    let perftest = "|    Stage     | # iterations | 50.0%ile |\nFinal:                   100      0.000   213.1   213.1    18767.0   18767.0        \
                    4692        4692\n";
    let nccl = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 477.5\n";
    let osu = "# OSU MPI Bandwidth Test\n# Size      Bandwidth (MB/s)\n4194304     24500.7\n";
    for (name, text, expected) in [
        ("ib_write_bw", write_bw, 391.80),
        ("ucx_perftest", perftest, 18767.0),
        ("osu_bw", osu, 24500.7),
        ("all_reduce_perf", nccl, 477.5),
        ("copies", &line("0000:1b:00.0", "0000:1b:00.0"), 50.0),
    ] {
        for round in 1..=3 {
            trial.write(&format!("effect-{name}-near-{round}.txt"), text);
            let default = format!("effect-{name}-default-{round}.why");
            trial.write(&default, "`srun` ended with 124");
        }
        trial.write(&format!("effect-{name}-far-1.txt"), "no figure here\n");
        // as ib_write_bw where it cannot tell the CPU's clock
        let zero = " 1048576    55           0.000000            0.000000            0.000000\n";
        trial.write(&format!("effect-{name}-far-2.txt"), zero);
        let report = trial.report();
        let of_text =
            |of: &&report::Effect| of.figures.get("near").is_some_and(|of| of[&1] == expected);
        let effect = report.effects.iter().find(of_text);
        let effect = effect.unwrap_or_else(|| panic!("{name}: {report:?}"));
        let counts = (effect.figures["near"].len(), effect.figures.len());
        assert_eq!(counts, (3, 1), "{effect:?}");
    }
}

#[test]
fn a_folder_that_is_none_and_outputs_of_any_bytes_end_in_words() {
    let trial = Trial::new("bad");
    run("trial /nonexistent").ends(1).says(&["holds no trial"]);
    run("trial").ends(2);
    for (name, bytes) in [
        ("0/lstopo.txt", &b"<topology"[..]),
        ("0/nvidia-smi-topo.txt", &[0xff, 0, 7]),
        ("way-0.command", b"\x1b[31m|"),
        ("way-0.txt", b"{\"format\":\"nic-placement probe\"}\n{"),
        ("effect-ib_write_bw-near-1.txt", b"1 2 3 nan inf\n"),
        ("releases.txt", b"no tab\na\t\xff\x1b\n"),
    ] {
        trial.write(name, bytes);
    }
    let report = trial.report();
    // a path may name a user
    assert!(!report.to_json().contains(&trial.0.at("")), "{report:?}");
    let why = report.ways[0].not_tried.as_deref();
    assert_eq!(why, Some("no task answered"));
    assert!(!trial.0.read("report.md").contains('\x1b'));
    let empty = Trial::new("empty");
    empty.report();
    empty.check().ends(1).says(&["nothing was compared"]);
}

#[test]
fn the_near_and_the_far_side_are_assignments_that_a_shell_may_read() {
    let sides = |machine: &str| printed(&format!("trial --sides --machine {machine}"));
    let dgx = sides("dgx-h100");
    let facts = "gpus=8 near_nic=mlx5_0 far_nic=mlx5_6 far_memory=1 far_cpus=56-111,168-223";
    for line in facts.split(' ') {
        let is_so = dgx.lines().any(|other| other == line);
        assert!(is_so, "{line} is not in {dgx}");
    }
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_=,-.".contains(letter);
    for machine in machines() {
        let sides = sides(&machine);
        let is_fine = |line: &str| line.starts_with('#') || line.chars().all(is_plain);
        assert!(sides.lines().all(is_fine), "{machine}: {sides}");
    }
}

//! Seconds and memory of `nic-placement audit` on the reports of five thousand nodes.
//!
//! `cargo bench -p nic-placement-cli --bench audit` prints a table and fails above 2 s or 100 MB; a number behind `--` is that
//! of nodes, `write FILE` keeps the reports.

use nic_placement_fleet::audit::report::{Finding, Level, LinkReport, Report};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MOST_SECONDS: f64 = 2.0;
const MOST_MB: f64 = 100.0;
/// The kinds of machines in the cluster, by the models that the tool has.
const MODELS: [&str; 4] = ["dgx-h100", "azure-nd96isr-h100-v5", "mi300x-8", "gh200"];

/// What `check --json` says of a built-in machine, with the versions that a live node has beside it.
fn of_model(model: &str) -> Report {
    let printed = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args(["check", "--json", "--machine", model])
        .output()
        .expect("the tool runs");
    let mut report = Report::from_json(&printed.stdout).expect("a report");
    let versions = [
        ("kernel", "5.15.0-1042-nvidia"),
        ("BIOS", "1.6.7"),
        ("nvidia", "535.129.03"),
        ("mlx5_core", "23.10-1.1.9"),
    ];
    report.versions = versions
        .map(|(name, version)| (name.to_string(), version.to_string()))
        .into();
    for nic in &mut report.nics {
        nic.firmware = Some("28.39.1002".into());
        nic.board = Some("MT_0000000838".into());
    }
    for gpu in &mut report.gpus {
        gpu.versions = [("Video BIOS".to_string(), "96.00.74.00.01".to_string())].into();
    }
    let text = format!(
        "a step has the node from `/run/nic-placement/node.cache`, which is {} s old",
        17
    );
    let about = Some("/run/nic-placement/node.cache".to_string());
    report.findings.insert(
        0,
        Finding {
            level: Level::Ok,
            code: "node-file".into(),
            about,
            text,
            why: None,
            remedy: None,
        },
    );
    report
}

/// Is this one node in so many?
fn every(node: usize, part: usize) -> bool {
    node % part == part / 2
}

/// A node of the cluster: most are like their kind, some per cent are not, as after a year of repairs.
fn node(number: usize, models: &[Report]) -> Report {
    let mut report = models[(number / 64) % models.len()].clone();
    report.host = Some(format!("gpu{:05}", number + 1));
    let nics = report.nics.len().max(1);
    if let Some(nic) = report.nics.get_mut(number % nics) {
        if every(number, 20) {
            nic.firmware = Some(format!("28.36.10{}", 10 + number % 4));
        }
        if every(number, 301) {
            nic.link = Some(LinkReport {
                speed: "16.0 GT/s".into(),
                width: 8,
            });
        }
        if every(number, 211) {
            nic.ports
                .iter_mut()
                .for_each(|port| port.state = "down".into());
            let text = format!(
                "`{}:1` would be used if it worked: `nic-placement show` says what is wrong",
                nic.name
            );
            let wrong = Finding {
                level: Level::Fail,
                code: "nic-broken".into(),
                about: None,
                text,
                why: None,
                remedy: None,
            };
            report.findings.push(wrong);
        }
    }
    if every(number, 503) {
        report.nics.pop();
    }
    if every(number, 701) {
        report.gpus.pop();
    }
    report
}

/// Writes the reports of so many nodes; bytes.
fn write(path: &Path, nodes: usize) -> u64 {
    let models = MODELS.map(of_model);
    let mut file = BufWriter::new(File::create(path).expect("a file for the reports"));
    // srun gives them in the order in which they end
    let step = 7919;
    for number in 0..nodes {
        let report = node(number * step % nodes, &models);
        file.write_all(report.to_json().as_bytes())
            .expect("room for the reports");
    }
    file.flush().expect("room for the reports");
    path.metadata().expect("it was written").len()
}

/// The most memory of a process so far, in MB (`VmHWM`).
fn peak(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace()
        .nth(1)?
        .parse::<f64>()
        .ok()
        .map(|kb| kb / 1000.0)
}

fn measure(path: &Path, form: &[&str]) -> (f64, f64) {
    let start = Instant::now();
    let mut audit = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    let stdin = File::open(path).expect("the reports");
    audit
        .arg("audit")
        .args(form)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut audit = audit.spawn().expect("the tool runs");
    let mut most = 0.0;
    loop {
        if let Some(now) = peak(audit.id()) {
            most = now;
        }
        if let Some(status) = audit.try_wait().expect("the tool runs") {
            assert_eq!(status.code(), Some(1), "some nodes differ");
            return (start.elapsed().as_secs_f64(), most);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if let [verb, file] = words.as_slice() {
        assert_eq!(verb, "write", "expected `write FILE` or a number of nodes");
        write(Path::new(file), 5_000);
        return;
    }
    let nodes = words
        .first()
        .map_or(5_000, |word| word.parse().expect("a number of nodes"));
    let path =
        std::env::temp_dir().join(format!("nic-placement-audit-{}.json", std::process::id()));
    let bytes = write(&path, nodes);
    println!("{nodes} nodes, {:.0} MB of reports", bytes as f64 / 1e6);
    let measured = [("text", &[][..]), ("json", &["--json"][..])].map(|(name, form)| {
        let (seconds, mb) = measure(&path, form);
        println!("{name}  {seconds:6.2} s  {mb:6.1} MB at most");
        (seconds, mb)
    });
    std::fs::remove_file(&path).expect("the reports were written");
    let within = measured
        .iter()
        .all(|(seconds, mb)| *seconds < MOST_SECONDS && *mb < MOST_MB);
    assert!(
        within || nodes > 5_000,
        "above {MOST_SECONDS} s or {MOST_MB} MB"
    );
}

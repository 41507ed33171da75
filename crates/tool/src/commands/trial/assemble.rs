//! A trial's raw outputs, read into one report.
//!
//! The folder is the user's own; the outputs in it are foreign text.

use super::super::grouped;
use nic_placement_core::config::NodeSource;
use nic_placement_core::topology::{NicKind, PciAddress, Scope, Topology};
use nic_placement_fleet::trial::probe::{CopyRates, Identity, Probe, judge};
use nic_placement_fleet::trial::report::{Effect, FORMAT, Near, TrialReport, TriedWay, VERSION};
use nic_placement_fleet::trial::witness::{GpusBy, Witness};
use nic_placement_formats::describe;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Ways, rounds, and differences of a way, at most.
const MOST_WAYS: usize = 64;
const MOST_ROUNDS: usize = 1000;
const MOST_TOLD: usize = 8;

pub struct Folder(pub(super) PathBuf);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join("raw").join(name)
    }

    fn is_there(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    fn text(&self, name: &str) -> Option<String> {
        let bytes = describe::contents(self.path(name).to_str()?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The reason why a program gave nothing.
    fn why(&self, name: &str) -> String {
        let text = self.text(&format!("{name}.why")).unwrap_or_default();
        text.lines().next().unwrap_or("no output").to_string()
    }

    fn topology(&self, name: &str) -> Result<Topology, String> {
        let file = format!("{name}.txt");
        if !self.is_there(&file) {
            return Err(self.why(name));
        }
        let path = self.path(&file).display().to_string();
        let node = describe::read_node(&NodeSource::Topology(path.clone()), Scope::Full)
            // a path may name a user
            .map_err(|why| why.to_string().replace(&path, &file))?;
        Ok(node.0)
    }
}

/// The error says why there is no report.
pub fn report(folder: &Folder) -> Result<TrialReport, String> {
    let first = folder.topology("0/node").map_err(|why| {
        let folder = folder.0.display();
        format!("`{folder}` holds no trial: the first node was not read: {why}")
    })?;
    let releases = folder.text("releases.txt").unwrap_or_default();
    let releases = releases.lines().filter_map(|line| line.split_once('\t'));
    let nodes = folder.text("nodes.txt");
    let nodes = nodes.and_then(|text| text.trim().parse().ok());
    Ok(TrialReport {
        format: FORMAT.to_string(),
        version: VERSION,
        machine: machine(&first),
        nodes: nodes.unwrap_or(1),
        releases: releases
            .map(|(name, of)| (name.to_string(), of.trim().to_string()))
            .collect(),
        witnesses: witnesses(folder, &first),
        ways: (0..MOST_WAYS)
            .map_while(|number| way(folder, &first, number))
            .collect(),
        effects: effects(folder),
        played: (0..MOST_WAYS).any(|number| is_played(folder, number)),
    })
}

/// True if a test's driver answered: its GPUs are named "played".
fn is_played(folder: &Folder, way: usize) -> bool {
    let text = folder.text(&format!("way-{way}.txt")).unwrap_or_default();
    let drivers = probes(&text).flat_map(|probe| probe.drivers);
    let mut names = drivers
        .flat_map(|driver| driver.devices)
        .filter_map(|device| device.name);
    names.any(|name| name.contains("played"))
}

/// `8 x NVIDIA H100 80GB HBM3, 8 x verbs 400 Gb/s`
fn machine(topology: &Topology) -> String {
    let gpus = topology.gpus.iter();
    let gpus = gpus.map(|gpu| gpu.model.clone().unwrap_or(format!("{:?} GPU", gpu.vendor)));
    let nics = topology.nics.iter();
    let nics = nics.filter(|nic| nic.kind != NicKind::Ethernet).map(|nic| {
        let rate = nic.ports.iter().filter_map(|port| port.rate_mbps).max();
        let rate = rate.map(|rate| format!(" {} Gb/s", rate / 1000));
        format!("{}{}", nic.kind, rate.unwrap_or_default())
    });
    let kinds = grouped(gpus.chain(nics).map(|kind| (kind, ()))).into_iter();
    let kinds = kinds.map(|(kind, all)| format!("{} x {kind}", all.len()));
    kinds.collect::<Vec<_>>().join(", ")
}

fn witnesses(folder: &Folder, ours: &Topology) -> Vec<Witness> {
    let witness = |(program, name, by)| match folder.topology(name) {
        Ok(theirs) => Witness::of(program, ours, &theirs, by),
        Err(why) => Witness::not_tried(program, why),
    };
    let all = [
        ("nvidia-smi topo -m", "0/nvidia-smi-topo", GpusBy::Position),
        ("rocm-smi --showtopo", "0/rocm-smi", GpusBy::Position),
        ("lstopo", "0/lstopo", GpusBy::Address),
        ("NCCL", "0/nccl", GpusBy::Nccl),
    ];
    all.map(witness).into()
}

/// The k-th way; `None` behind the last.
fn way(folder: &Folder, node: &Topology, number: usize) -> Option<TriedWay> {
    let name = format!("way-{number}");
    let command = folder.text(&format!("{name}.command"))?;
    let mut way = TriedWay {
        command: command.trim().to_string(),
        ..TriedWay::default()
    };
    let Some(text) = folder.text(&format!("{name}.txt")) else {
        way.not_tried = Some(folder.why(&name));
        return Some(way);
    };
    for probe in probes(&text) {
        way.tasks += 1;
        let mut unasked = |why: String| *way.unasked.entry(why).or_default() += 1;
        match judge(&probe) {
            Identity::Agrees => way.agree += 1,
            Identity::Order => way.other_order += 1,
            Identity::Differs { driver, taken } => {
                let list = |of: &[PciAddress]| match of {
                    [] => "none".to_string(),
                    of => Vec::from_iter(of.iter().map(PciAddress::to_string)).join(" "),
                };
                way.differ
                    .push(format!("driver {}, we {}", list(&driver), list(&taken)));
                way.differ.truncate(MOST_TOLD);
            }
            Identity::NotTried(why) => unasked(why),
            Identity::NotPlaced => unasked("not placed".to_string()),
        }
        match &probe.set_cpus {
            Some(set) if probe.cpus.as_ref() == Some(set) => way.bound += 1,
            Some(_) => way.bound_elsewhere += 1,
            None => {}
        }
        count_near(&mut way.near, node, &probe);
    }
    let without = folder
        .text(&format!("{name}-without.txt"))
        .unwrap_or_default();
    probes(&without).for_each(|probe| count_near(&mut way.near_without, node, &probe));
    if way.tasks == 0 {
        way.not_tried = Some("no task answered".to_string());
    }
    Some(way)
}

/// Counts the task, as near if it runs on the NUMA nodes of its drivers' GPUs alone.
fn count_near(near: &mut Near, node: &Topology, probe: &Probe) {
    let devices = probe.drivers.iter().flat_map(|driver| &driver.devices);
    let gpus = devices.filter_map(|device| node.gpu_index(device.address.parse().ok()?));
    let nodes = gpus
        .filter_map(|gpu| node.numa_node_of(node.gpu(gpu).address))
        .collect();
    let cpus = node.cpus_of(&nodes);
    if let (Some(own), false) = (&probe.cpus, cpus.is_empty()) {
        near.known += 1;
        near.near += usize::from(own.is_subset(&cpus));
    }
}

fn probes(text: &str) -> impl Iterator<Item = Probe> {
    text.lines().filter_map(Probe::from_json)
}

type ReadFigure = fn(&str) -> Option<f64>;

const EFFECTS: [(&str, &str, &str, ReadFigure); 6] = [
    ("copies", "copies to the GPU", "GB/s", |text| {
        Some(copies(text)?.to_device_mb_s / 1000.0)
    }),
    ("copies", "copies from the GPU", "GB/s", |text| {
        Some(copies(text)?.to_host_mb_s / 1000.0)
    }),
    ("ib_write_bw", "ib_write_bw", "Gb/s", ib_write_bw),
    (
        "ucx_perftest",
        "ucx_perftest -t tag_bw",
        "MB/s",
        ucx_perftest,
    ),
    ("osu_bw", "osu_bw", "MB/s", osu_bw),
    (
        "all_reduce_perf",
        "all_reduce_perf",
        "GB/s",
        all_reduce_perf,
    ),
];

fn effects(folder: &Folder) -> Vec<Effect> {
    let effect = |(file, program, unit, read): (&str, &str, &str, ReadFigure)| {
        let mut effect = Effect {
            program: program.to_string(),
            unit: unit.to_string(),
            ..Effect::default()
        };
        for side in ["near", "default", "far"] {
            let figure = |round| {
                let figure = read(&folder.text(&format!("effect-{file}-{side}-{round}.txt"))?)?;
                // ib_write_bw prints 0 where it cannot tell the CPU's clock
                (figure.is_finite() && figure > 0.0).then_some((round, figure))
            };
            let figures: BTreeMap<usize, f64> = (1..=MOST_ROUNDS).filter_map(figure).collect();
            if !figures.is_empty() {
                effect.figures.insert(side.to_string(), figures);
            }
        }
        if effect.figures.is_empty() {
            effect.not_tried = Some(folder.why(&format!("effect-{file}-near-1")));
        }
        effect
    };
    EFFECTS.map(effect).into()
}

fn copies(text: &str) -> Option<CopyRates> {
    probes(text).find_map(|probe| probe.copies)
}

/// The line of a size: bytes, iterations, peak, average, messages.
fn ib_write_bw(text: &str) -> Option<f64> {
    let words = |line: &str| {
        let words: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        words.ok().filter(|words| words.len() >= 5)
    };
    text.lines()
        .filter_map(words)
        .next_back()
        .map(|words| words[3])
}

/// `Final:` and, from its end: messages per second overall and average, MB/s overall and average.
fn ucx_perftest(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("Final:"))?;
    line.split_whitespace().rev().nth(2)?.parse().ok()
}

/// The last line of a size and its MB/s.
fn osu_bw(text: &str) -> Option<f64> {
    let figure = |line: &str| {
        let (size, figure) = line.trim().split_once(char::is_whitespace)?;
        size.parse::<u64>().ok().and(figure.trim().parse().ok())
    };
    text.lines().filter_map(figure).next_back()
}

fn all_reduce_perf(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.contains("Avg bus bandwidth"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

//! A trial's raw outputs, read into one report.
//!
//! The folder is the user's own; what programs wrote there is foreign text.
#![forbid(unsafe_code)]

use nic_placement_core::config::NodeSource;
use nic_placement_core::topology::Scope;
use nic_placement_core::topology::{NicKind, PciAddress, Topology};
use nic_placement_fleet::trial::probe::{Identity, Probe, judge};
use nic_placement_fleet::trial::report::{Effect, FORMAT, Near, TrialReport, TriedWay, VERSION};
use nic_placement_fleet::trial::witness::{GpusBy, Witness, compare, nvidia_smi_q, rdma_link};
use nic_placement_formats::describe;
use nic_placement_traffic::report::NodeReport;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Nodes, ways and rounds, at most.
const MOST_NODES: usize = 64;
const MOST_WAYS: usize = 64;
const MOST_ROUNDS: usize = 1000;
/// Tasks of a way whose difference is told.
const MOST_TOLD: usize = 8;

pub(super) struct Folder(pub(super) PathBuf);

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
        let first = self
            .text(&format!("{name}.why"))
            .and_then(|text| text.lines().next().map(String::from));
        first.unwrap_or_else(|| "no output".to_string())
    }

    fn topology(&self, name: &str) -> Result<Topology, String> {
        let path = self.path(&format!("{name}.txt")).display().to_string();
        match self.is_there(&format!("{name}.txt")) {
            false => Err(self.why(name)),
            true => describe::read_node(&NodeSource::Topology(path), Scope::Full)
                .map(|(topology, _)| topology)
                .map_err(|why| why.to_string()),
        }
    }
}

/// The error says why there is no report.
pub(super) fn report(folder: &Folder) -> Result<TrialReport, String> {
    let nodes = (0..MOST_NODES)
        .take_while(|node| folder.is_there(&node.to_string()))
        .count();
    let first = folder.topology("0/node").map_err(|why| {
        format!(
            "`{}` holds no trial: the first node was not read: {why}",
            folder.0.display()
        )
    })?;
    let mut witnesses = witnesses(folder, 0, &first);
    for node in 1..nodes {
        let Ok(topology) = folder.topology(&format!("{node}/node")) else {
            continue;
        };
        // a node that is as the first adds nothing
        for mut other in self::witnesses(folder, node, &topology) {
            let same = witnesses
                .iter()
                .any(|one| one.program == other.program && one.differences == other.differences);
            if other.not_tried.is_none() && !same {
                other.program = format!("{} (node {node})", other.program);
                witnesses.push(other);
            }
        }
    }
    let ways = (0..MOST_WAYS).map_while(|number| way(folder, &first, number));
    Ok(TrialReport {
        format: FORMAT.to_string(),
        version: VERSION,
        machine: machine(&first),
        nodes: folder
            .text("nodes.txt")
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(nodes),
        releases: releases(folder),
        witnesses,
        ways: ways.collect(),
        effects: effects(folder),
        played: (0..MOST_WAYS).any(|number| is_played(folder, number)),
    })
}

fn releases(folder: &Folder) -> BTreeMap<String, String> {
    let text = folder.text("releases.txt").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines
        .map(|(name, release)| (name.to_string(), release.trim().to_string()))
        .collect()
}

/// True if a test's driver answered: its GPUs are named "played".
fn is_played(folder: &Folder, way: usize) -> bool {
    let text = folder.text(&format!("way-{way}.txt")).unwrap_or_default();
    let devices = probes(&text)
        .flat_map(|probe| probe.drivers)
        .flat_map(|driver| driver.devices);
    devices
        .into_iter()
        .any(|device| device.name.is_some_and(|name| name.contains("played")))
}

/// `8 x NVIDIA H100 80GB HBM3, 8 x verbs 400 Gb/s`
fn machine(topology: &Topology) -> String {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    let mut add = |kind: String| match kinds.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, count)) => *count += 1,
        None => kinds.push((kind, 1)),
    };
    for gpu in &topology.gpus {
        add(gpu
            .model
            .clone()
            .unwrap_or_else(|| format!("{:?} GPU", gpu.vendor)));
    }
    for nic in topology
        .nics
        .iter()
        .filter(|nic| nic.kind != NicKind::Ethernet)
    {
        let rate = nic.ports.iter().filter_map(|port| port.rate_mbps).max();
        add(format!(
            "{}{}",
            nic.kind,
            rate.map_or(String::new(), |rate| format!(" {} Gb/s", rate / 1000))
        ));
    }
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(kind, count)| format!("{count} x {kind}"))
        .collect();
    if kinds.is_empty() {
        "no GPU and no RDMA NIC".to_string()
    } else {
        kinds.join(", ")
    }
}

fn witnesses(folder: &Folder, node: usize, ours: &Topology) -> Vec<Witness> {
    let file = |name: &str| format!("{node}/{name}");
    let topology = |program: &str, name: &str, by| match folder.topology(&file(name)) {
        Ok(theirs) => Witness::of(program, compare(ours, &theirs, by)),
        Err(why) => Witness::not_tried(program, why),
    };
    let text = |program: &str, name: &str, read: fn(&Topology, &str) -> _| match folder
        .text(&file(&format!("{name}.txt")))
    {
        Some(text) => Witness::of(program, read(ours, &text)),
        None => Witness::not_tried(program, folder.why(&file(name))),
    };
    vec![
        topology("nvidia-smi topo -m", "nvidia-smi-topo", GpusBy::Position),
        text("nvidia-smi -q", "nvidia-smi-q", nvidia_smi_q),
        topology("rocm-smi --showtopo", "rocm-smi", GpusBy::Position),
        topology("lstopo", "lstopo", GpusBy::Address),
        topology("NCCL", "nccl", GpusBy::Address),
        text("rdma link", "rdma-link", rdma_link),
    ]
}

/// The k-th way; `None` behind the last.
fn way(folder: &Folder, node: &Topology, number: usize) -> Option<TriedWay> {
    let name = format!("way-{number}");
    let command = folder.text(&format!("{name}.command"))?.trim().to_string();
    let mut way = TriedWay {
        command,
        ..TriedWay::default()
    };
    let Some(text) = folder.text(&format!("{name}.txt")) else {
        way.not_tried = Some(folder.why(&name));
        return Some(way);
    };
    for probe in probes(&text) {
        way.tasks += 1;
        match judge(&probe) {
            Identity::Agrees => way.agree += 1,
            Identity::Order => way.other_order += 1,
            Identity::Differs { driver, taken } if way.differ.len() < MOST_TOLD => {
                let list = |of: &[PciAddress]| {
                    let of: Vec<String> = of.iter().map(ToString::to_string).collect();
                    if of.is_empty() {
                        "none".to_string()
                    } else {
                        of.join(" ")
                    }
                };
                way.differ
                    .push(format!("driver {}, we {}", list(&driver), list(&taken)));
            }
            Identity::Differs { .. } => {}
            Identity::NotTried(why) => *way.unasked.entry(why).or_default() += 1,
            Identity::NotPlaced => *way.unasked.entry("not placed".to_string()).or_default() += 1,
        }
        match &probe.set_cpus {
            Some(set) if probe.cpus.as_ref() == Some(set) => way.bound += 1,
            Some(_) => way.bound_elsewhere += 1,
            None => {}
        }
        count_near(&mut way.near, node, &probe);
        *way.memory
            .entry(probe.memory.unwrap_or_else(|| "unknown".to_string()))
            .or_default() += 1;
    }
    for probe in probes(
        &folder
            .text(&format!("{name}-without.txt"))
            .unwrap_or_default(),
    ) {
        count_near(&mut way.near_without, node, &probe);
    }
    if way.tasks == 0 {
        way.not_tried = Some("no task answered".to_string());
    }
    Some(way)
}

/// Counts the task, and whether it runs on the NUMA nodes of its drivers' GPUs alone.
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

const SIDES: [&str; 3] = ["near", "default", "far"];

fn effects(folder: &Folder) -> Vec<Effect> {
    let copies = |pick: fn(&Probe) -> Option<f64>| {
        move |text: &str| probes(text).find_map(|probe| pick(&probe))
    };
    let to_device = copies(|probe| Some(probe.copies.as_ref()?.to_device_mb_s / 1000.0));
    let to_host = copies(|probe| Some(probe.copies.as_ref()?.to_host_mb_s / 1000.0));
    vec![
        effect(folder, "copies", "copies to the GPU", "GB/s", &to_device),
        effect(folder, "copies", "copies from the GPU", "GB/s", &to_host),
        effect(folder, "ib_write_bw", "ib_write_bw", "Gb/s", &ib_write_bw),
        effect(
            folder,
            "ucx_perftest",
            "ucx_perftest -t tag_bw",
            "MB/s",
            &ucx_perftest,
        ),
        effect(folder, "osu_bw", "osu_bw", "MB/s", &osu_bw),
        effect(
            folder,
            "all_reduce_perf",
            "all_reduce_perf",
            "GB/s",
            &all_reduce_perf,
        ),
    ]
}

fn effect(
    folder: &Folder,
    file: &str,
    program: &str,
    unit: &str,
    read: &dyn Fn(&str) -> Option<f64>,
) -> Effect {
    let mut effect = Effect {
        program: program.to_string(),
        unit: unit.to_string(),
        ..Effect::default()
    };
    for side in SIDES {
        let name = |round| format!("effect-{file}-{side}-{round}");
        let is_there = |round: &usize| {
            ["txt", "why"]
                .iter()
                .any(|end| folder.is_there(&format!("{}.{end}", name(*round))))
        };
        let figure = |round| read(&folder.text(&format!("{}.txt", name(round)))?);
        // no program's figure is 0: ib_write_bw says so where it cannot tell the CPU's clock, and infinity is none either
        let is_one = |figure: &f64| figure.is_finite() && *figure > 0.0;
        let rounds = (1..=MOST_ROUNDS).take_while(is_there);
        let figures: BTreeMap<usize, f64> = rounds
            .filter_map(|round| Some((round, figure(round).filter(is_one)?)))
            .collect();
        if !figures.is_empty() {
            effect.figures.insert(side.to_string(), figures);
        }
    }
    for side in SIDES {
        let bytes = bytes(
            &folder
                .text(&format!("effect-{file}-{side}-1.err"))
                .unwrap_or_default(),
        );
        if !bytes.is_empty() {
            effect.bytes.insert(side.to_string(), bytes);
        }
    }
    if effect.figures.is_empty() {
        effect.not_tried = Some(folder.why(&format!("effect-{file}-near-1")));
    }
    effect
}

/// Sums of `verify`'s reports of each node; NICs that sent nothing are left out.
fn bytes(text: &str) -> BTreeMap<String, u64> {
    let mut sent: BTreeMap<String, u64> = BTreeMap::new();
    let reports = text
        .lines()
        .filter_map(|line| NodeReport::read(line.as_bytes()).ok());
    for nic in reports
        .filter_map(|report| report.traffic)
        .flat_map(|traffic| traffic.nics)
    {
        if nic.sent() > 0 {
            let bytes = nic.sent();
            let sum = sent.entry(nic.name).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    sent
}

/// The line of a size: bytes, iterations, peak, average, messages.
fn ib_write_bw(text: &str) -> Option<f64> {
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::parse)
            .collect::<Result<Vec<f64>, _>>()
            .ok()
    };
    let mut lines = text
        .lines()
        .filter_map(words)
        .filter(|words| words.len() >= 5);
    lines.next_back().map(|words| words[3])
}

/// `Final:` and, from its end: messages per second overall and average, MB/s overall and average.
fn ucx_perftest(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("Final:"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    words.get(words.len().checked_sub(3)?)?.parse().ok()
}

/// The last line of a size and its MB/s.
fn osu_bw(text: &str) -> Option<f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut figures = lines.filter_map(|line| {
        let (size, figure) = line.trim().split_once(char::is_whitespace)?;
        size.parse::<u64>().ok().and(figure.trim().parse().ok())
    });
    figures.next_back()
}

fn all_reduce_perf(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.contains("Avg bus bandwidth"))?;
    line.rsplit_once(':')?.1.trim().parse().ok()
}

//! Bytes of each NIC between two readings of the counters, and the shares of the plan's NICs and of others.
//!
//! A counter that cannot tell has a [`NoFigure`], which is no zero.

use super::counters::{Count, PortCounts, Sample};
use super::verify::{Node, TaskVerdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoFigure {
    NoCounter,
    /// the later reading is the smaller
    WentBackwards,
    NoAnswer,
    /// only one of the two readings has it
    CameOrWent,
}

impl NoFigure {
    pub fn words(self) -> &'static str {
        match self {
            NoFigure::NoCounter => "no counter",
            NoFigure::WentBackwards => "went back",
            NoFigure::NoAnswer => "no answer",
            NoFigure::CameOrWent => "came or went",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figure {
    Bytes { sent: u64, received: u64 },
    Missing(NoFigure),
}

impl Figure {
    pub fn sent(self) -> Option<u64> {
        match self {
            Figure::Bytes { sent, .. } => Some(sent),
            Figure::Missing(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// the plugin's markers in the tasks
    Tasks,
    /// the plan for all GPUs of the node: no task was placed
    Node,
}

/// By `mlx5_0:1` the tasks, or GPUs, for which it is planned.
pub type PlannedNics = BTreeMap<String, Vec<String>>;

/// The NICs that the tasks' markers name; without a placed task the node's.
pub fn plan(node: Node<'_>, tasks: &[TaskVerdict]) -> (PlannedNics, Origin) {
    let mut plan = PlannedNics::new();
    for task in tasks.iter().filter(|task| task.is_placed) {
        for nic in &task.planned {
            let planned = plan.entry(nic.clone()).or_default();
            planned.extend(task.numbers.label());
        }
    }
    if !plan.is_empty() {
        return (plan, Origin::Tasks);
    }
    for (gpu, placed) in node.map.numbered_gpus() {
        for choice in &placed.choices {
            let planned = plan.entry(node.map.rail(choice.rail).to_string());
            planned.or_default().push(format!("GPU {}", gpu.0));
        }
    }
    // without a GPU every NIC of the map may be used
    if node.topology.gpus.is_empty() {
        let rails = node.map.rails.iter();
        plan.extend(rails.map(|rail| (rail.to_string(), Vec::new())));
    }
    (plan, Origin::Node)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicTraffic {
    /// `mlx5_0:1`, or an interface
    pub name: String,
    /// `17.0 task 3`, or without a placed task `GPU 0`; `None`: not of the plan
    pub planned_for: Option<Vec<String>>,
    /// `None` for an interface without RDMA
    pub rdma: Option<Figure>,
    /// `None` for soft RoCE, whose `rdma` holds these bytes
    pub tcp: Option<Figure>,
}

impl NicTraffic {
    /// By RDMA if that is counted, else by TCP.
    pub fn sent(&self) -> u64 {
        let mut figures = [self.rdma, self.tcp].into_iter().flatten();
        figures.find_map(Figure::sent).unwrap_or(0)
    }
}

/// Bytes that left, of NICs that count RDMA.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    pub planned: u64,
    pub others: u64,
    /// by TCP, where RDMA is counted apart
    pub tcp: u64,
    /// NICs of the plan that carried next to nothing while others carried something
    pub idle: Vec<String>,
}

impl Shares {
    pub fn rdma(&self) -> u64 {
        self.planned.saturating_add(self.others)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    pub seconds: f64,
    pub plan: Origin,
    pub shares: Shares,
    pub nics: Vec<NicTraffic>,
}

/// Two readings; `silent` are devices that did not answer at one of them.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    pub before: Sample,
    pub after: Sample,
    pub silent: BTreeSet<String>,
    pub seconds: f64,
}

impl Traffic {
    pub fn new(readings: &Readings, plan: &PlannedNics, origin: Origin) -> Traffic {
        let Readings { before, after, .. } = readings;
        let mut names: BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
        let is_of = |name: &String, device: &str| name.split(':').next() == Some(device);
        for device in &readings.silent {
            if !names.iter().any(|name| is_of(name, device)) {
                names.insert(format!("{device}:1"));
            }
        }
        let names = names.into_iter();
        let nics: Vec<NicTraffic> = names.map(|name| nic(name, readings, plan)).collect();
        Traffic {
            seconds: (readings.seconds * 1000.0).round() / 1000.0,
            plan: origin,
            shares: shares(&nics, plan.len()),
            nics,
        }
    }

    /// Findings by the figures alone.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let (tcp, rdma) = (self.shares.tcp, self.shares.rdma());
        if self.nics.iter().any(|nic| nic.rdma.is_some()) && tcp > rdma.max(1_000_000) {
            notes.push(format!(
                "more bytes left by TCP ({}) than by RDMA ({}): does the program use RDMA?",
                shown(tcp),
                shown(rdma)
            ));
        }
        if self.plan == Origin::Node {
            notes.push(
                "no task with NIC_PLACEMENT was seen: compared with the plan for all GPUs of the node"
                    .to_string(),
            );
        }
        notes
    }
}

fn nic(name: String, readings: &Readings, plan: &PlannedNics) -> NicTraffic {
    let device = name.split(':').next().unwrap_or_default();
    let (before, after) = (readings.before.get(&name), readings.after.get(&name));
    let missing = match readings.silent.contains(device) {
        true => NoFigure::NoAnswer,
        false => NoFigure::CameOrWent,
    };
    let figure = |of: fn(&PortCounts) -> &Option<Count>| match before.zip(after) {
        Some((before, after)) => between(of(before), of(after)),
        None => Figure::Missing(missing),
    };
    let interface = figure(|port| &port.interface);
    let port = after.or(before);
    let is_soft = port.is_some_and(|port| port.is_soft);
    let has_interface = port.is_some_and(|port| port.interface.is_some());
    NicTraffic {
        planned_for: plan.get(&name).cloned(),
        rdma: name.contains(':').then(|| {
            if is_soft {
                interface
            } else {
                figure(|port| &port.rdma)
            }
        }),
        tcp: (has_interface && !is_soft).then_some(interface),
        name,
    }
}

fn between(before: &Option<Count>, after: &Option<Count>) -> Figure {
    let (before, after) = match (before, after) {
        (Some(before), Some(after)) if before.of == after.of => (before, after),
        (None, None) => return Figure::Missing(NoFigure::NoCounter),
        _ => return Figure::Missing(NoFigure::CameOrWent),
    };
    let sent = after.sent.checked_sub(before.sent);
    match (sent, after.received.checked_sub(before.received)) {
        (Some(sent), Some(received)) => Figure::Bytes { sent, received },
        _ => Figure::Missing(NoFigure::WentBackwards),
    }
}

fn shares(nics: &[NicTraffic], planned: usize) -> Shares {
    let mut shares = Shares::default();
    let sent = |of: Option<Figure>| of.and_then(Figure::sent);
    for nic in nics {
        let sum = match nic.planned_for {
            Some(_) => &mut shares.planned,
            None => &mut shares.others,
        };
        *sum = sum.saturating_add(sent(nic.rdma).unwrap_or(0));
        shares.tcp = shares.tcp.saturating_add(sent(nic.tcp).unwrap_or(0));
    }
    // connecting takes a few packets on every NIC: less than a hundredth of an even part is none
    let total = u128::from(shares.rdma());
    let is_idle = |bytes: u64| u128::from(bytes) * 100 * (planned.max(1) as u128) < total;
    let idle = nics
        .iter()
        .filter(|nic| nic.planned_for.is_some() && sent(nic.rdma).is_some_and(is_idle));
    shares.idle = idle.map(|nic| nic.name.clone()).collect();
    shares
}

/// `999 B`, `1.23 kB`, `45.6 MB`, `789 GB`: three digits, powers of ten as rates of links have.
pub fn shown(count: u64) -> String {
    let (mut value, mut units) = (count as f64, "kB MB GB TB PB".split(' '));
    if count < 1000 {
        return format!("{count} B");
    }
    // a value that would be rounded to four digits is written in the next unit
    loop {
        value /= 1000.0;
        let unit = units.next();
        if value < 999.5 || unit.is_none() {
            let places = usize::from(value < 99.95) + usize::from(value < 9.995);
            return format!("{value:.places$} {}", unit.unwrap_or("EB"));
        }
    }
}

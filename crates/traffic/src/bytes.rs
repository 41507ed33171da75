//! Bytes of each NIC between two readings of the counters, and the shares of the plan's NICs and of others.
//!
//! A counter that cannot tell has a [`NoFigure`], which is no zero.

use super::counters::{Count, CountedPort, Sample};
use super::units::bytes;
use super::verify::{Node, TaskVerdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoFigure {
    NoCounter,
    /// the later reading is the smaller
    WentBackwards,
    /// a counter of 32 bits is at its end
    AtItsEnd,
    NoAnswer,
    /// only one of the two readings has it
    CameOrWent,
}

impl NoFigure {
    /// For a table's cell, and for a note.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            NoFigure::NoCounter => ("no counter", "the driver counts no bytes of RDMA"),
            NoFigure::WentBackwards => ("went back", "the counter went back: it was reset"),
            NoFigure::AtItsEnd => (
                "full",
                "the counter has 32 bits and stands at its end: reset it, as perfquery -R does",
            ),
            NoFigure::NoAnswer => ("no answer", "the card did not answer in time"),
            NoFigure::CameOrWent => (
                "came or went",
                "the NIC or its counter came or went meanwhile",
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figure {
    Bytes(Bytes),
    Missing(NoFigure),
}

impl Figure {
    pub fn bytes(self) -> Option<Bytes> {
        match self {
            Figure::Bytes(bytes) => Some(bytes),
            Figure::Missing(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// the plugin's markers in the tasks
    Tasks,
    /// the plan for all GPUs of the node: no task was placed
    Node,
    /// there is no plan: no task was placed, and the node was not read
    Nobody,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Planned {
    pub gpus: BTreeSet<usize>,
    pub(crate) tasks: BTreeSet<String>,
}

/// A plan, by `mlx5_0:1`.
pub type PlannedNics = BTreeMap<String, Planned>;

/// The NICs that the tasks' markers name; without a placed task the node's.
pub fn plan(node: Node<'_>, tasks: &[TaskVerdict]) -> (PlannedNics, Origin) {
    let mut of_node = PlannedNics::new();
    for (gpu, placed) in node.map.numbered_gpus() {
        for choice in &placed.choices {
            of_node
                .entry(node.map.rail(choice.rail).to_string())
                .or_default()
                .gpus
                .insert(gpu.0);
        }
    }
    // without a GPU every NIC of the map may be used
    if node.topology.gpus.is_empty() {
        let rails = node.map.rails.iter();
        of_node.extend(rails.map(|rail| (rail.to_string(), Planned::default())));
    }
    let mut plan = PlannedNics::new();
    for task in tasks.iter().filter(|task| task.is_placed) {
        for nic in &task.planned {
            let planned = plan.entry(nic.clone()).or_default();
            planned.tasks.extend(task.numbers().label());
            let near = of_node.get(nic).into_iter().flat_map(|of| &of.gpus);
            planned
                .gpus
                .extend(near.filter(|gpu| task.gpus.contains(gpu)));
        }
    }
    match (plan.is_empty(), of_node.is_empty()) {
        (false, _) => (plan, Origin::Tasks),
        (true, false) => (of_node, Origin::Node),
        (true, true) => (plan, Origin::Nobody),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicTraffic {
    /// `mlx5_0:1`, or an interface
    pub name: String,
    pub is_planned: bool,
    pub gpus: Vec<usize>,
    /// `17.0 task 3`
    pub tasks: Vec<String>,
    pub rate_mbps: Option<u64>,
    pub counter: Option<String>,
    /// `None` for an interface without RDMA
    pub rdma: Option<Figure>,
    pub interface: Option<String>,
    /// `None` for soft RoCE, whose `rdma` holds these bytes
    pub tcp: Option<Figure>,
}

/// The counter of soft RoCE.
pub(crate) const OF_THE_INTERFACE: &str = "the interface's tx_bytes";

impl NicTraffic {
    /// By RDMA if that is counted, else by TCP.
    pub fn sent(&self) -> u64 {
        [self.rdma, self.tcp]
            .into_iter()
            .flatten()
            .filter_map(Figure::bytes)
            .map(|bytes| bytes.sent)
            .next()
            .unwrap_or(0)
    }
}

/// Bytes that left, of NICs that count RDMA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    pub planned: u64,
    pub others: u64,
    /// by TCP, where RDMA is counted apart
    pub tcp: u64,
    /// NICs of the plan that carried next to nothing while others carried something
    pub idle: Vec<String>,
    /// NICs whose bytes by RDMA are not known
    pub unknown: Vec<String>,
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
        let Readings {
            before,
            after,
            silent,
            seconds,
        } = readings;
        let mut places: BTreeSet<CountedPort> =
            before.keys().chain(after.keys()).cloned().collect();
        for device in silent {
            if !places.iter().any(|place| place.device == *device) {
                let device = device.clone();
                places.insert(CountedPort { device, port: 1 });
            }
        }
        let nics: Vec<NicTraffic> = places
            .iter()
            .map(|place| nic(place, readings, plan))
            .collect();
        Traffic {
            seconds: (seconds * 1000.0).round() / 1000.0,
            plan: origin,
            shares: shares(&nics, plan.len()),
            nics,
        }
    }

    /// Findings by the figures alone.
    pub fn notes(&self) -> Vec<String> {
        let mut missing: BTreeMap<NoFigure, Vec<&str>> = BTreeMap::new();
        for nic in &self.nics {
            if let Some(Figure::Missing(why)) = nic.rdma {
                missing.entry(why).or_default().push(&nic.name);
            }
        }
        let mut notes: Vec<String> = missing
            .into_iter()
            .map(|(why, nics)| format!("{}: {}", nics.join(", "), why.words().1))
            .collect();
        if self
            .nics
            .iter()
            .any(|nic| nic.counter.as_deref() == Some(OF_THE_INTERFACE))
        {
            notes.push("soft RoCE: the interface counts RDMA and TCP together".to_string());
        }
        let tcp = self.shares.tcp;
        let rdma = self.shares.planned.saturating_add(self.shares.others);
        if self.nics.iter().any(|nic| nic.rdma.is_some()) && tcp > rdma.max(1_000_000) {
            let (tcp, rdma) = (bytes(tcp), bytes(rdma));
            notes.push(format!(
                "more bytes left by TCP ({tcp}) than by RDMA ({rdma}): does the program use RDMA?"
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

fn nic(place: &CountedPort, readings: &Readings, plan: &PlannedNics) -> NicTraffic {
    let (before, after) = (readings.before.get(place), readings.after.get(place));
    let (rdma, interface) = match (before, after) {
        (Some(before), Some(after)) => (
            between(&before.rdma, &after.rdma),
            between(&before.interface, &after.interface),
        ),
        _ if readings.silent.contains(&place.device) => {
            (NoFigure::NoAnswer.into(), NoFigure::NoAnswer.into())
        }
        _ => (NoFigure::CameOrWent.into(), NoFigure::CameOrWent.into()),
    };
    let port = after.or(before).cloned().unwrap_or_default();
    let counter = port.rdma.map(|(counter, _)| counter.name());
    let name = place.name();
    let planned = plan.get(&name);
    NicTraffic {
        is_planned: planned.is_some(),
        gpus: planned.map_or(Vec::new(), |of| of.gpus.iter().copied().collect()),
        tasks: planned.map_or(Vec::new(), |of| of.tasks.iter().cloned().collect()),
        rate_mbps: None,
        counter: if port.is_soft {
            Some(OF_THE_INTERFACE.to_string())
        } else {
            counter
        },
        rdma: (place.port > 0).then_some(if port.is_soft { interface } else { rdma }),
        tcp: (port.interface.is_some() && !port.is_soft).then_some(interface),
        interface: port.interface.map(|(name, _)| name),
        name,
    }
}

impl From<NoFigure> for Figure {
    fn from(why: NoFigure) -> Figure {
        Figure::Missing(why)
    }
}

fn between<T: PartialEq>(before: &Option<(T, Count)>, after: &Option<(T, Count)>) -> Figure {
    let (before, after) = match (before, after) {
        (Some((one, before)), Some((other, after))) if one == other => (before, after),
        (None, None) => return NoFigure::NoCounter.into(),
        _ => return NoFigure::CameOrWent.into(),
    };
    if after.is_at_end {
        return NoFigure::AtItsEnd.into();
    }
    let sent = after.sent.checked_sub(before.sent);
    match (sent, after.received.checked_sub(before.received)) {
        (Some(sent), Some(received)) => Figure::Bytes(Bytes { sent, received }),
        _ => NoFigure::WentBackwards.into(),
    }
}

fn shares(nics: &[NicTraffic], planned: usize) -> Shares {
    let mut shares = Shares::default();
    for nic in nics {
        let sent = |of: Option<Figure>| of?.bytes().map(|bytes| bytes.sent);
        let sum = if nic.is_planned {
            &mut shares.planned
        } else {
            &mut shares.others
        };
        *sum = sum.saturating_add(sent(nic.rdma).unwrap_or(0));
        shares.tcp = shares.tcp.saturating_add(sent(nic.tcp).unwrap_or(0));
        if matches!(nic.rdma, Some(Figure::Missing(_))) {
            shares.unknown.push(nic.name.clone());
        }
    }
    // connecting takes a few packets on every NIC: less than a hundredth of an even part is none
    let total = u128::from(shares.planned.saturating_add(shares.others));
    let is_idle = |bytes: Bytes| u128::from(bytes.sent) * 100 * (planned.max(1) as u128) < total;
    let idle = nics
        .iter()
        .filter(|nic| nic.is_planned && nic.rdma.and_then(Figure::bytes).is_some_and(is_idle));
    shares.idle = idle.map(|nic| nic.name.clone()).collect();
    shares
}

//! What `measure` says of one node: bytes by NIC, and which share left by the NICs of the plan.
#![forbid(unsafe_code)]

use super::counters::CountedPort;
use super::growth::{Bytes, Growth, NoFigure};
use super::planned::{Origin, PlannedNics};
use super::units::bytes;
use super::verify::TaskVerdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const FORMAT: &str = "nic-placement measure";
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// [`FORMAT`], by which a report is known among other JSON
    pub format: String,
    /// [`VERSION`]
    pub version: u32,
    pub node: String,
    pub seconds: f64,
    pub status: i32,
    pub plan: Origin,
    pub shares: Shares,
    pub nics: Vec<NicTraffic>,
    /// the step's tasks, as `verify` judges them
    #[serde(default)]
    pub tasks: Vec<TaskVerdict>,
    pub notes: Vec<String>,
}

/// Where the bytes left, of the NICs that count RDMA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    pub planned: u64,
    pub others: u64,
    /// by TCP, where RDMA is counted apart
    pub tcp: u64,
    /// NICs of the plan that carried next to nothing while others carried something
    pub idle: Vec<String>,
    /// NICs with RDMA whose bytes by RDMA are not known
    pub unknown: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicTraffic {
    /// `mlx5_0:1`, or an interface
    pub name: String,
    pub(crate) is_rdma: bool,
    pub is_planned: bool,
    pub gpus: Vec<usize>,
    pub tasks: Vec<u32>,
    /// which counter tells; of soft RoCE the interface's
    pub counter: Option<String>,
    pub rdma: Option<Bytes>,
    pub rdma_missing: Option<NoFigure>,
    pub interface: Option<String>,
    /// by the interface; of soft RoCE, `rdma` says it
    pub tcp: Option<Bytes>,
    pub tcp_missing: Option<NoFigure>,
}

/// The counter of soft RoCE.
pub(crate) const OF_THE_INTERFACE: &str = "the interface's tx_bytes";

impl NicTraffic {
    /// Does its RDMA pass through the interface, as that of soft RoCE?
    pub fn is_soft(&self) -> bool {
        self.counter.as_deref() == Some(OF_THE_INTERFACE)
    }
}

fn nic(place: &CountedPort, growth: &Growth, plan: &PlannedNics) -> NicTraffic {
    let name = place.name();
    let planned = plan.get(&name);
    let is_rdma = place.port > 0;
    let carried = growth.carried();
    let of_the_interface = growth.is_soft.then(|| OF_THE_INTERFACE.to_string());
    let tcp = if growth.is_soft {
        Err(NoFigure::NoCounter)
    } else {
        growth.tcp
    };
    NicTraffic {
        is_rdma,
        is_planned: planned.is_some(),
        gpus: planned
            .map(|planned| planned.gpus.keys().copied().collect())
            .unwrap_or_default(),
        tasks: planned
            .map(|planned| planned.tasks.iter().copied().collect())
            .unwrap_or_default(),
        counter: of_the_interface.or_else(|| growth.counter.clone()),
        rdma: carried.ok().filter(|_| is_rdma),
        rdma_missing: carried.err().filter(|_| is_rdma),
        interface: growth.interface.clone(),
        tcp: tcp.ok(),
        tcp_missing: tcp
            .err()
            .filter(|_| growth.interface.is_some() && !growth.is_soft),
        name,
    }
}

/// Is this next to nothing of what each of so many would carry?  Connecting takes a few packets on every NIC.
fn is_idle(sent: u64, total: u64, count: usize) -> bool {
    u128::from(sent) * 100 * (count.max(1) as u128) < u128::from(total)
}

pub fn of_node(
    grown: &BTreeMap<CountedPort, Growth>,
    plan: &PlannedNics,
) -> (Vec<NicTraffic>, Shares) {
    let nics: Vec<NicTraffic> = grown
        .iter()
        .map(|(place, growth)| nic(place, growth, plan))
        .collect();
    let sent = |is_planned: bool| {
        let of = nics.iter().filter(|nic| nic.is_planned == is_planned);
        of.filter_map(|nic| nic.rdma)
            .fold(0u64, |sum, bytes| sum.saturating_add(bytes.sent))
    };
    let (planned, others) = (sent(true), sent(false));
    let total = planned.saturating_add(others);
    let is_idle = |nic: &&NicTraffic| {
        nic.is_planned
            && nic
                .rdma
                .is_some_and(|bytes| total > 0 && is_idle(bytes.sent, total, plan.len()))
    };
    let names = |nics: Vec<&NicTraffic>| nics.into_iter().map(|nic| nic.name.clone()).collect();
    let shares = Shares {
        planned,
        others,
        tcp: nics
            .iter()
            .filter_map(|nic| nic.tcp)
            .fold(0u64, |sum, bytes| sum.saturating_add(bytes.sent)),
        idle: names(nics.iter().filter(is_idle).collect()),
        unknown: names(
            nics.iter()
                .filter(|nic| nic.is_rdma && nic.rdma.is_none())
                .collect(),
        ),
    };
    (nics, shares)
}

/// What the figures themselves make one say.
pub fn notes(nics: &[NicTraffic], shares: &Shares, origin: Origin) -> Vec<String> {
    let mut notes = Vec::new();
    let of = |missing: NoFigure| -> Vec<&str> {
        let of = nics.iter().filter(|nic| nic.rdma_missing == Some(missing));
        of.map(|nic| nic.name.as_str()).collect()
    };
    for (missing, what) in [
        (NoFigure::NoCounter, "the driver counts no bytes of RDMA"),
        (
            NoFigure::WentBackwards,
            "the counter went back while the command ran: it was reset",
        ),
        (
            NoFigure::AtItsEnd,
            "the counter has 32 bits and stands at its end: reset it, as perfquery -R does",
        ),
        (NoFigure::NoAnswer, "the card did not answer in time"),
        (
            NoFigure::CameOrWent,
            "the NIC or its counter came or went while the command ran",
        ),
    ] {
        let names = of(missing);
        if !names.is_empty() {
            notes.push(format!("{}: {what}", names.join(", ")));
        }
    }
    if nics.iter().any(NicTraffic::is_soft) {
        notes.push("soft RoCE: the interface counts RDMA and TCP together".to_string());
    }
    let rdma = shares.planned.saturating_add(shares.others);
    if nics.iter().any(|nic| nic.is_rdma) && shares.tcp > rdma && shares.tcp > 1_000_000 {
        notes.push(format!(
            "more bytes left by TCP ({}) than by RDMA ({}): does the program use RDMA?",
            bytes(shares.tcp),
            bytes(rdma)
        ));
    }
    if origin == Origin::Node {
        notes.push(
            "no task with NIC_PLACEMENT was seen: compared with the plan for all GPUs of the node"
                .into(),
        );
    }
    notes
}

impl Measurement {
    /// One line of JSON, so that it survives among other programs' lines.
    pub fn to_json(&self) -> String {
        // no map, no odd number: it cannot fail
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

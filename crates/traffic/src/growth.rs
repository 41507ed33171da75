//! How many bytes a port sent and received between two readings, or why that is not known.
#![forbid(unsafe_code)]

use super::counters::{Count, CountedPort, PortCounts, Sample};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoFigure {
    NoCounter,
    /// the later reading is the smaller
    WentBackwards,
    /// a counter of 32 bits stands at its end
    AtItsEnd,
    NoAnswer,
    /// it is in only one of the two readings
    CameOrWent,
}

impl fmt::Display for NoFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoFigure::NoCounter => "no counter",
            NoFigure::WentBackwards => "went back",
            NoFigure::AtItsEnd => "full",
            NoFigure::NoAnswer => "no answer",
            NoFigure::CameOrWent => "came or went",
        })
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    pub counter: Option<String>,
    pub(crate) rdma: Result<Bytes, NoFigure>,
    pub interface: Option<String>,
    pub tcp: Result<Bytes, NoFigure>,
    pub is_soft: bool,
}

impl Growth {
    /// What left by RDMA: of soft RoCE what left by the interface.
    pub fn carried(&self) -> Result<Bytes, NoFigure> {
        if self.is_soft { self.tcp } else { self.rdma }
    }
}

/// From one reading to a later one.  `silent` are devices that did not answer at one of them.
pub fn growth(
    before: &Sample,
    after: &Sample,
    silent: &BTreeSet<String>,
) -> BTreeMap<CountedPort, Growth> {
    let places: BTreeSet<&CountedPort> = before.keys().chain(after.keys()).collect();
    let mut grown: BTreeMap<CountedPort, Growth> = places
        .into_iter()
        .map(|place| {
            let growth = match (before.get(place), after.get(place)) {
                (Some(before), Some(after)) => {
                    let rdma = between(&before.rdma, &after.rdma);
                    growth_of(after, rdma, between(&before.interface, &after.interface))
                }
                (one, other) => {
                    let is_silent = silent.contains(&place.device);
                    let why = if is_silent {
                        NoFigure::NoAnswer
                    } else {
                        NoFigure::CameOrWent
                    };
                    growth_of(
                        one.or(other).unwrap_or(&PortCounts::default()),
                        Err(why),
                        Err(why),
                    )
                }
            };
            (place.clone(), growth)
        })
        .collect();
    for device in silent {
        if !grown.keys().any(|place| place.device == *device) {
            let growth = growth_of(
                &PortCounts::default(),
                Err(NoFigure::NoAnswer),
                Err(NoFigure::NoAnswer),
            );
            grown.insert(
                CountedPort {
                    device: device.clone(),
                    port: 1,
                },
                growth,
            );
        }
    }
    grown
}

/// The growth of a port of which this was read.
fn growth_of(
    of: &PortCounts,
    rdma: Result<Bytes, NoFigure>,
    tcp: Result<Bytes, NoFigure>,
) -> Growth {
    let counter = of.rdma.as_ref().map(|(counter, _)| counter.name());
    let interface = of.interface.as_ref().map(|(name, _)| name.clone());
    Growth {
        counter,
        rdma,
        interface,
        tcp,
        is_soft: of.is_soft,
    }
}

fn between<T: PartialEq>(
    before: &Option<(T, Count)>,
    after: &Option<(T, Count)>,
) -> Result<Bytes, NoFigure> {
    match (before, after) {
        (Some((one, before)), Some((other, after))) if one == other => difference(before, after),
        (None, None) => Err(NoFigure::NoCounter),
        _ => Err(NoFigure::CameOrWent),
    }
}

fn difference(before: &Count, after: &Count) -> Result<Bytes, NoFigure> {
    if after.is_at_end {
        return Err(NoFigure::AtItsEnd);
    }
    match (
        after.sent.checked_sub(before.sent),
        after.received.checked_sub(before.received),
    ) {
        (Some(sent), Some(received)) => Ok(Bytes { sent, received }),
        _ => Err(NoFigure::WentBackwards),
    }
}

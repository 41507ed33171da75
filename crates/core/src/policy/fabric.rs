//! The fabric among the ports of a node: the kind of port that carries most bandwidth.
#![forbid(unsafe_code)]

use crate::topology::{LinkLayer, NicIndex, Port, PortRef};
use std::collections::BTreeMap;

/// A port without evidence against it so far.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// its NIC
    pub(super) nic: NicIndex,
    /// itself
    pub(super) port: &'a Port,
    /// does the admin want it whatever the evidence?
    pub(super) wanted: bool,
}

impl Candidate<'_> {
    /// Where it is.
    pub(super) fn at(&self) -> PortRef {
        PortRef { nic: self.nic, port: self.port.number }
    }
}

/// The kind of port that carries most: by total bandwidth, then by number of ports, then the greater kind.
pub(super) fn most_bandwidth<K: Ord + Copy>(good: &[Candidate], kind: impl Fn(&Candidate) -> K) -> Option<K> {
    let mut classes: BTreeMap<K, (u64, usize)> = BTreeMap::new();
    for candidate in good {
        let class = classes.entry(kind(candidate)).or_default();
        class.0 += candidate.port.rate_mbps.unwrap_or(0);
        class.1 += 1;
    }
    // InfiniBand before Ethernet if they carry the same: `LinkLayer` is ordered so, and the first maximum
    // wins
    let mut best: Option<(K, (u64, usize))> = None;
    for (kind, carried) in classes {
        if best.is_none_or(|(_, most)| carried > most) {
            best = Some((kind, carried));
        }
    }
    best.map(|(kind, _)| kind)
}

// the tie in `most_bandwidth` rests on this order
const _: () = assert!((LinkLayer::InfiniBand as u8) < (LinkLayer::Ethernet as u8));

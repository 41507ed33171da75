//! The fabric among the ports of a node: the kind of port that carries most bandwidth.
#![forbid(unsafe_code)]

use crate::topology::{LinkLayer, Port};
use std::collections::BTreeMap;

/// A port that nothing speaks against so far: its NIC's position, itself, and whether the admin wants it whatever speaks
/// against it.
pub(super) type Candidate<'a> = (usize, &'a Port, bool);

/// The kind of port that carries most: by bandwidth in all, then by number of ports, then the greater kind.
pub(super) fn most_bandwidth<K: Ord + Copy>(
    good: &[Candidate],
    kind: impl Fn(usize, &Port) -> K,
) -> Option<K> {
    let mut classes: BTreeMap<K, (u64, usize)> = BTreeMap::new();
    for &(nic, port, _) in good {
        let class = classes.entry(kind(nic, port)).or_default();
        class.0 += port.rate_mbps.unwrap_or(0);
        class.1 += 1;
    }
    // InfiniBand before Ethernet where they carry the same: `LinkLayer` is ordered so, and the first maximum wins
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

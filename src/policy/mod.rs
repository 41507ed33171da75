//! Decides: which NICs may be used, which GPU uses which, whose GPUs are whose, and what a task is bound to.
//!
//! Pure: the same topology and the same evidence give the same answer, on every node and in every task.
#![forbid(unsafe_code)]

mod all;
pub mod binding;
pub mod candidates;
mod closest;
pub mod identity;
mod numa;
pub mod pattern;
pub mod solve;
pub mod task;

pub use pattern::Pattern;

use crate::placement::{Choice, NodePlacement, Policy};
use crate::topology::{Path, PathType, Topology};

/// Which NICs the admin wants and does not want.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// only these, and these whatever the evidence against them; empty: all that the evidence allows
    pub include: Vec<Pattern>,
    /// never these
    pub exclude: Vec<Pattern>,
}

/// Share of the narrowest rate that a kind of path lets through, in thousandths.
///
/// SYS from one-NIC collectives measured with a near and a far NIC, NODE fits a training step measured with both; PHB is
/// an estimate between NODE and PXB.  The order is certain, the figures are not: they only weigh a far idle NIC against a
/// near shared one.
pub fn lets_through(path: PathType) -> u64 {
    match path {
        PathType::Pix | PathType::Pxb => 1000,
        PathType::Phb => 850,
        PathType::Node => 700,
        PathType::Sys => 450,
    }
}

/// Rate that stands for an unknown one, so that machines without any rate are still compared by their paths, in Mbit/s.
const UNKNOWN_RATE: u64 = 100_000;

/// The map from every GPU of the node to its rails.
pub fn place(topology: &Topology, policy: Policy, selection: &Selection) -> NodePlacement {
    let (rails, excluded, diagnostics) = candidates::rails(topology, selection);
    let mut node = NodePlacement { policy, rails, excluded, gpus: Vec::new(), diagnostics };
    let edges = Edges::new(topology, &node);
    node.gpus = match policy {
        Policy::Closest => {
            let (gpus, diagnostic) = closest::place(topology, &node, &edges);
            node.diagnostics.extend(diagnostic);
            gpus
        }
        Policy::Numa => numa::place(topology, &node, &edges),
        Policy::All => all::place(topology, &node, &edges),
    };
    node
}

/// How every GPU reaches every rail.
struct Edges {
    /// `[gpu][rail]`
    paths: Vec<Vec<Path>>,
    /// `[gpu][rail]`: what the path lets through when nobody shares it, in Mbit/s
    values: Vec<Vec<u64>>,
    /// is any rate or link known?
    rates_known: bool,
}

impl Edges {
    fn new(topology: &Topology, node: &NodePlacement) -> Edges {
        let mut rates_known = false;
        let mut edges = Edges { paths: Vec::new(), values: Vec::new(), rates_known: false };
        for gpu in &topology.gpus {
            let mut paths = Vec::with_capacity(node.rails.len());
            let mut values = Vec::with_capacity(node.rails.len());
            for rail in &node.rails {
                let path = match topology.nics[rail.nic].address {
                    Some(address) => topology.path(gpu.address, address),
                    None => Path { kind: PathType::Sys, narrowest_mbps: None },
                };
                let rate = rail.rate_mbps.into_iter().chain(path.narrowest_mbps).min();
                rates_known |= rate.is_some();
                values.push(rate.unwrap_or(UNKNOWN_RATE) * lets_through(path.kind) / 1000);
                paths.push(path);
            }
            edges.paths.push(paths);
            edges.values.push(values);
        }
        edges.rates_known = rates_known;
        edges
    }

    fn choice(&self, gpu: usize, rail: usize, users: usize) -> Choice {
        Choice {
            rail,
            path: self.paths[gpu][rail].kind,
            share_mbps: self.rates_known.then(|| self.values[gpu][rail] / users.max(1) as u64),
            users,
        }
    }
}

/// `400 Gb/s`, `2.5 Gb/s`
pub fn gbps(mbps: u64) -> String {
    match mbps % 1000 / 100 {
        0 => format!("{} Gb/s", mbps / 1000),
        tenth => format!("{}.{tenth} Gb/s", mbps / 1000),
    }
}

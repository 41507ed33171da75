//! Who may be chosen: the ports that carry the fabric between GPUs, and for each other one the evidence against it.
#![forbid(unsafe_code)]

use super::broken::Likeness;
use super::{Selection, evidence, gbps};
use crate::diagnostic::Diagnostic;
use crate::placement::{Excluded, Rail};
use crate::topology::{LinkLayer, Nic, NicIndex, NicKind, NicRole, Port, PortRef, PortState, Topology};
use std::collections::BTreeMap;

/// Rails of a node, at most: UCX marks the entries of its device list in a mask of 64 bits (src/ucp/core/ucp_context.c).
/// NCCL's own limit is in `render::nccl`.
pub const MAX_RAILS: usize = super::solve::MOST_RAILS;

/// The ports of a node, judged.
#[derive(Debug, Default)]
pub struct Candidates {
    /// the ports that may be chosen, in rail order (PCI order)
    pub rails: Vec<Rail>,
    /// the ports that would be rails if they worked, in the same order; each stands in `excluded` too
    pub broken: Vec<Rail>,
    /// NICs and ports that may not be chosen, and why
    pub excluded: Vec<Excluded>,
    /// what was odd
    pub diagnostics: Vec<Diagnostic>,
}

/// A port that nothing speaks against so far.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// its NIC
    pub(super) nic: NicIndex,
    /// itself
    pub(super) port: &'a Port,
    /// does the admin want it whatever speaks against it?
    pub(super) wanted: bool,
}

impl Candidate<'_> {
    /// Where it is.
    pub(super) fn at(&self) -> PortRef {
        PortRef { nic: self.nic, port: self.port.number }
    }
}

/// Judges every port of the node.
pub fn rails(topology: &Topology, selection: &Selection) -> Candidates {
    let mut good: Vec<Candidate> = Vec::new();
    let mut excluded = Vec::new();
    let mut diagnostics = Vec::new();
    for (index, nic) in topology.numbered_nics() {
        let wanted = selection.include.iter().any(|pattern| pattern.matches(nic));
        match refusal(nic, wanted, selection) {
            Some(why) => excluded.push(Excluded { name: nic.name.clone(), port: None, why }),
            None => good.extend(nic.ports.iter().map(|port| Candidate { nic: index, port, wanted })),
        }
    }
    for pattern in selection.include.iter().chain(&selection.exclude) {
        if !topology.nics.iter().any(|nic| pattern.matches(nic)) {
            diagnostics.push(Diagnostic::new(pattern.to_string(), "means no NIC of this node"));
        }
    }
    let leave_out = |excluded: &mut Vec<Excluded>, candidate: &Candidate, why: String| {
        let PortRef { nic, port } = candidate.at();
        excluded.push(Excluded { name: topology.nic(nic).name.clone(), port: Some(port), why });
    };
    let mut failed: Vec<Candidate> = Vec::new();
    good.retain(|candidate| {
        let state = candidate.port.state;
        if state != PortState::Active {
            leave_out(&mut excluded, candidate, format!("its port is {state}"));
            failed.push(*candidate);
        }
        state == PortState::Active
    });
    good.retain(|candidate| {
        let why = selection.unopenable.iter().find(|(unopenable, _)| *unopenable == candidate.nic);
        if let Some((_, why)) = why {
            leave_out(&mut excluded, candidate, why.clone());
            failed.push(*candidate);
        }
        why.is_none()
    });
    // The many carry the fabric between GPUs; what differs from them serves something else.  Ports that something speaks
    // against by itself do not count among them.
    let free = free_of_suspicion(topology, &good);
    let many = most_bandwidth(&free, |candidate| candidate.port.link_layer);
    good.retain(|candidate| {
        let layer = candidate.port.link_layer;
        let stays = candidate.wanted || many.is_none_or(|many| layer == many);
        if let (false, Some(many)) = (stays, many) {
            leave_out(&mut excluded, candidate, format!("it speaks {layer}, the node's fabric {many}"));
        }
        stays
    });
    let free = free_of_suspicion(topology, &good);
    let many = most_bandwidth(&free, |candidate| candidate.port.rate_mbps).flatten();
    good.retain(|candidate| match (candidate.port.rate_mbps, many) {
        (Some(mine), Some(many)) if mine < many && !candidate.wanted => {
            let why = format!("it runs at {}, the node's fabric at {}", gbps(mine), gbps(many));
            leave_out(&mut excluded, candidate, why);
            false
        }
        _ => true,
    });
    let verdict = evidence::judge(topology, &good);
    for (&position, why) in &verdict.left_out {
        leave_out(&mut excluded, &good[position], why.clone());
    }
    diagnostics.extend(verdict.notes);
    let rail = |candidate: &Candidate, rate_mbps: Option<u64>| {
        let PortRef { nic, port } = candidate.at();
        Rail { nic, name: topology.nic(nic).name.clone(), port, rate_mbps }
    };
    let mut rails: Vec<Rail> = good
        .iter()
        .enumerate()
        .filter(|(position, _)| !verdict.left_out.contains_key(position))
        .map(|(_, candidate)| rail(candidate, candidate.port.rate_mbps))
        .collect();
    if rails.len() > MAX_RAILS {
        let finding = format!("{} usable ports: only the first {MAX_RAILS} are used", rails.len());
        diagnostics.push(Diagnostic::new("/sys/class/infiniband", finding));
        for rail in rails.drain(MAX_RAILS..) {
            let why = format!("it is beyond the {MAX_RAILS} ports that UCX can use");
            excluded.push(Excluded { name: rail.name, port: Some(rail.port), why });
        }
    }
    let likeness = Likeness::new(topology, &rails);
    let broken = failed.iter().filter(|candidate| likeness.would_be_a_rail(candidate));
    // a port without a link may tell a lower rate than it had
    let broken = broken.map(|candidate| rail(candidate, many.max(candidate.port.rate_mbps))).collect();
    excluded.sort_by_key(|excluded| (topology.nic_index(&excluded.name), excluded.port));
    Candidates { rails, broken, excluded, diagnostics }
}

/// Why a NIC as a whole may not be chosen.
fn refusal(nic: &Nic, wanted: bool, selection: &Selection) -> Option<String> {
    if let Some(pattern) = selection.exclude.iter().find(|pattern| pattern.matches(nic)) {
        return Some(format!("the admin's `exclude={pattern}`"));
    }
    if nic.kind != NicKind::Verbs {
        return Some(format!("it is reached by {}, which its library places itself", nic.kind));
    }
    if nic.address.is_none() {
        return Some("it has no PCI function: a software device".to_string());
    }
    if nic.ports.is_empty() {
        return Some("it has no port".to_string());
    }
    if !wanted && !selection.include.is_empty() {
        return Some("the admin's `include=` does not name it".to_string());
    }
    match nic.role {
        Some(role @ (NicRole::Storage | NicRole::Management)) if !wanted => {
            Some(format!("it is a {role} NIC, as this machine's description says"))
        }
        _ => None,
    }
}

/// The candidates that nothing speaks against by itself; all of them where something does against each.
fn free_of_suspicion<'a>(topology: &Topology, good: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let is_free =
        |candidate: &Candidate| candidate.wanted || evidence::facts(topology, good, candidate).is_empty();
    let free: Vec<Candidate> = good.iter().copied().filter(is_free).collect();
    if free.is_empty() { good.to_vec() } else { free }
}

/// The kind of port that carries most: by bandwidth in all, then by number of ports, then the greater kind.
pub(super) fn most_bandwidth<K: Ord + Copy>(good: &[Candidate], kind: impl Fn(&Candidate) -> K) -> Option<K> {
    let mut classes: BTreeMap<K, (u64, usize)> = BTreeMap::new();
    for candidate in good {
        let class = classes.entry(kind(candidate)).or_default();
        class.0 += candidate.port.rate_mbps.unwrap_or(0);
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

#[cfg(test)]
mod tests;

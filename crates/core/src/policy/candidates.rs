//! Who may be chosen: the ports that carry the fabric between GPUs, and for each other one the evidence against it.
#![forbid(unsafe_code)]

use super::broken::Likeness;
use super::{Selection, evidence, gbps};
use crate::diagnostic::Diagnostic;
use crate::placement::{Excluded, Rail};
use crate::topology::{LinkLayer, Nic, NicKind, NicRole, Port, PortState, Topology};
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

/// A port that nothing speaks against so far: its NIC's position, itself, and whether the admin wants it whatever speaks
/// against it.
pub(super) type Candidate<'a> = (usize, &'a Port, bool);

/// Judges every port of the node.
pub fn rails(topology: &Topology, selection: &Selection) -> Candidates {
    let mut good: Vec<Candidate> = Vec::new();
    let mut excluded = Vec::new();
    let mut diagnostics = Vec::new();
    for (index, nic) in topology.nics.iter().enumerate() {
        let wanted = selection.include.iter().any(|pattern| pattern.matches(nic));
        match refusal(nic, wanted, selection) {
            Some(why) => excluded.push(Excluded { name: nic.name.clone(), port: None, why }),
            None => good.extend(nic.ports.iter().map(|port| (index, port, wanted))),
        }
    }
    for pattern in selection.include.iter().chain(&selection.exclude) {
        if !topology.nics.iter().any(|nic| pattern.matches(nic)) {
            diagnostics.push(Diagnostic::new(pattern.to_string(), "means no NIC of this node"));
        }
    }
    let leave_out = |excluded: &mut Vec<Excluded>, nic: usize, port: &Port, why: String| {
        excluded.push(Excluded { name: topology.nics[nic].name.clone(), port: Some(port.number), why });
    };
    let mut failed: Vec<(usize, &Port)> = Vec::new();
    good.retain(|&(nic, port, _)| {
        let active = port.state == PortState::Active;
        if !active {
            leave_out(&mut excluded, nic, port, format!("its port is {}", port.state));
            failed.push((nic, port));
        }
        active
    });
    good.retain(|&(nic, port, _)| {
        let why = selection.unopenable.iter().find(|(unopenable, _)| *unopenable == nic);
        if let Some((_, why)) = why {
            leave_out(&mut excluded, nic, port, why.clone());
            failed.push((nic, port));
        }
        why.is_none()
    });
    // The many carry the fabric between GPUs; what differs from them serves something else.  Ports that something speaks
    // against by itself do not count among them.
    let free = free_of_suspicion(topology, &good);
    let many = most_bandwidth(&free, |_, port| port.link_layer);
    good.retain(|&(nic, port, wanted)| {
        let stays = wanted || many.is_none_or(|many| port.link_layer == many);
        if let (false, Some(many)) = (stays, many) {
            leave_out(
                &mut excluded,
                nic,
                port,
                format!("it speaks {}, the node's fabric {many}", port.link_layer),
            );
        }
        stays
    });
    let free = free_of_suspicion(topology, &good);
    let many = most_bandwidth(&free, |_, port| port.rate_mbps);
    good.retain(|&(nic, port, wanted)| {
        let slower = matches!((port.rate_mbps, many.flatten()), (Some(mine), Some(many)) if mine < many);
        if let (true, false, Some(mine), Some(many)) = (slower, wanted, port.rate_mbps, many.flatten()) {
            leave_out(
                &mut excluded,
                nic,
                port,
                format!("it runs at {}, the node's fabric at {}", gbps(mine), gbps(many)),
            );
        }
        wanted || !slower
    });
    let verdict = evidence::judge(topology, &good);
    for (&position, why) in &verdict.left_out {
        leave_out(&mut excluded, good[position].0, good[position].1, why.clone());
    }
    diagnostics.extend(verdict.notes);
    let rail = |nic: usize, port: &Port, rate_mbps: Option<u64>| Rail {
        nic,
        name: topology.nics[nic].name.clone(),
        port: port.number,
        rate_mbps,
    };
    let mut rails: Vec<Rail> = good
        .iter()
        .enumerate()
        .filter(|(position, _)| !verdict.left_out.contains_key(position))
        .map(|(_, &(nic, port, _))| rail(nic, port, port.rate_mbps))
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
    let broken = failed.into_iter().filter(|&(nic, port)| likeness.would_be_a_rail(nic, port));
    // a port without a link may tell a lower rate than it had
    let broken = broken.map(|(nic, port)| rail(nic, port, many.flatten().max(port.rate_mbps))).collect();
    let position = |name: &str| topology.nics.iter().position(|nic| nic.name == name);
    excluded.sort_by_key(|excluded| (position(&excluded.name), excluded.port));
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
        |(nic, port, wanted): &Candidate| *wanted || evidence::facts(topology, good, *nic, port).is_empty();
    let free: Vec<Candidate> = good.iter().copied().filter(is_free).collect();
    if free.is_empty() { good.to_vec() } else { free }
}

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

#[cfg(test)]
mod tests;

//! Evidence that a port of the fabric's kind serves something else: the default route, another subnet,
//! virtual functions that others use.
//!
//! None of it is certain: sites run IP over their fabric too.  So a single piece does not cost a GPU its
//! nearest NIC; then the port stays, and a diagnostic says so.
#![forbid(unsafe_code)]

use super::broken::device;
use super::fabric::{Candidate, most_bandwidth};
use crate::diagnostic::Diagnostic;
use crate::topology::{LinkLayer, Network, Nic, NicIndex, NicRole, PathType, PciAddress, Port, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// The result of the evidence.
#[derive(Default)]
pub(super) struct Verdict {
    /// positions of refused candidates, and why
    pub(super) left_out: BTreeMap<usize, String>,
    /// evidence that was too weak
    pub(super) notes: Vec<Diagnostic>,
}

/// Judges ports of one link layer and one rate, except those that the admin wants.
///
/// A port's judgement rests on itself and on ports without evidence against them.  So leaving a port out
/// never changes the judgement of the others.
pub(super) fn judge(topology: &Topology, good: &[Candidate], cut: &Cut) -> Verdict {
    let mut against: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (position, candidate) in good.iter().enumerate() {
        let pieces = facts(topology, good, cut, candidate);
        if !candidate.wanted && !pieces.is_empty() {
            against.insert(position, pieces);
        }
    }
    if let Some(common) = common_subnet(without(good, &against)) {
        for (position, candidate) in good.iter().enumerate().filter(|(_, candidate)| !candidate.wanted) {
            if let Some(own) = subnet(candidate.port).filter(|own| *own != common) {
                let piece = format!("it is on the subnet {own}, the node's fabric on {common}");
                against.entry(position).or_default().push(piece);
            }
        }
    }
    let others: Vec<Candidate> = without(good, &against).collect();
    let mut verdict = Verdict::default();
    for (&position, pieces) in &against {
        let candidate = &good[position];
        let mut pieces = pieces.clone();
        pieces.extend(another_device(topology, &others, candidate.nic));
        let is_strong = pieces.len() > 1;
        let pieces = pieces.join(", and ");
        match needed(topology, &others, candidate.nic) {
            Some(need) if !is_strong => verdict.notes.push(note(topology, candidate, &pieces, &need)),
            _ => drop(verdict.left_out.insert(position, pieces)),
        }
    }
    verdict.notes.extend(undecided(topology, &others));
    verdict
}

/// The evidence against a port by itself, whatever the others are.
pub(super) fn facts(
    topology: &Topology,
    good: &[Candidate],
    cut: &Cut,
    candidate: &Candidate,
) -> Vec<String> {
    let &Candidate { nic, port, .. } = candidate;
    [default_route(port), virtual_functions(topology, good, cut, nic)].into_iter().flatten().collect()
}

/// Would so many pieces of evidence leave out a port that fails, if it worked?  `others` have none against them.
///
/// Its subnet is not asked: it may be another while the port is down.
pub(super) fn are_enough(topology: &Topology, others: &[Candidate], nic: NicIndex, pieces: usize) -> bool {
    pieces > 1 || pieces == 1 && needed(topology, others, nic).is_none()
}

/// The physical functions of which a NIC of the node is a virtual one.
pub(super) type Cut = BTreeSet<PciAddress>;

/// Looked up once for all ports.
pub(super) fn cut(topology: &Topology) -> Cut {
    let functions = topology.nics.iter().filter_map(|nic| topology.pci.get(nic.address?));
    functions.filter_map(|function| function.physfn).collect()
}

/// The candidates without evidence against them.
fn without<'a, 'b>(
    good: &'b [Candidate<'a>],
    against: &'b BTreeMap<usize, Vec<String>>,
) -> impl Iterator<Item = Candidate<'a>> + 'b {
    let free = good.iter().enumerate().filter(|(position, _)| !against.contains_key(position));
    free.map(|(_, candidate)| *candidate)
}

fn note(topology: &Topology, candidate: &Candidate, pieces: &str, need: &str) -> Diagnostic {
    let name = &topology.nic(candidate.nic).name;
    let finding = format!("{pieces}; but {need}: it is used, and `exclude={name}` would leave it out");
    Diagnostic::new(topology.port_name(candidate.at()), finding)
}

/// Logins, installation and the scheduler use the default route.
fn default_route(port: &Port) -> Option<String> {
    let interface = port.default_route.as_ref()?;
    Some(format!("the node's default route leaves by it (`{interface}`)"))
}

/// A physical function and its virtual ones share one port.  If a virtual one may be chosen, the site hands
/// out virtual ones, and the physical one stays the host's.  If none is visible here, virtual machines or
/// containers have them, and the port carries their traffic too.
fn virtual_functions(topology: &Topology, good: &[Candidate], cut: &Cut, nic: NicIndex) -> Option<String> {
    let address = topology.nic(nic).address?;
    let own = topology.pci.get(address)?;
    if own.vfs.is_none() && !cut.contains(&address) {
        return None;
    }
    let is_virtual = |nic: &Nic| {
        let function = nic.address.and_then(|address| topology.pci.get(address));
        function.is_some_and(|function| function.physfn == Some(address))
    };
    let free = good.iter().filter(|other| other.port.default_route.is_none());
    let mut chosen = free.map(|other| topology.nic(other.nic)).filter(|nic| is_virtual(nic));
    if let Some(Nic { name: other, .. }) = chosen.next() {
        return Some(format!("its virtual function `{other}` is handed out here, and both share its port"));
    }
    match own.vfs? {
        _ if topology.nics.iter().any(is_virtual) => None,
        1 => Some("a virtual function of it is given to others, who share its port".to_string()),
        vfs => Some(format!("{vfs} virtual functions of it are given to others, who share its port")),
    }
}

/// The subnet of more than half of these ports.  Sites give each rail its own subnet, or all rails one; only a few ports
/// outside the subnet of many are evidence.
fn common_subnet<'a>(good: impl Iterator<Item = Candidate<'a>>) -> Option<String> {
    let mut ports: BTreeMap<String, usize> = BTreeMap::new();
    good.filter_map(|candidate| subnet(candidate.port))
        .for_each(|subnet| *ports.entry(subnet).or_default() += 1);
    let known: usize = ports.values().sum();
    ports.into_iter().find(|&(_, count)| count > 1 && 2 * count > known).map(|(subnet, _)| subnet)
}

/// Two InfiniBand ports on two subnets: one could be for storage, but nothing tells which.
fn undecided(topology: &Topology, others: &[Candidate]) -> Option<Diagnostic> {
    let [one @ Candidate { wanted: false, .. }, other @ Candidate { wanted: false, .. }] = others else {
        return None;
    };
    let infiniband = [one, other].iter().all(|one| one.port.link_layer == LinkLayer::InfiniBand);
    if !infiniband || subnet(one.port)? == subnet(other.port)? {
        return None;
    }
    let finding = format!(
        "on another subnet than {}, and nothing says which of the two is the fabric: both are used",
        topology.port_name(one.at())
    );
    Some(Diagnostic::new(topology.port_name(other.at()), finding))
}

/// The prefix of an InfiniBand port's subnet, or the first IPv4 network of a RoCE port.
fn subnet(port: &Port) -> Option<String> {
    match port.link_layer {
        LinkLayer::InfiniBand => port.subnet.map(|prefix| prefix.to_string()),
        _ => port.networks.first().map(Network::to_string),
    }
}

/// A different kind of card than the cards that carry most: it counts only as a second piece of evidence.
fn another_device(topology: &Topology, others: &[Candidate], nic: NicIndex) -> Option<String> {
    let device = |nic: NicIndex| device(topology, topology.nic(nic));
    let mine = device(nic)?;
    let many = most_bandwidth(others, |other| device(other.nic)).flatten().filter(|&many| many != mine)?;
    Some(format!("it is another device ({mine:04x}) than the fabric's ({many:04x})"))
}

/// What the node would lose without it; `None` for nothing.
fn needed(topology: &Topology, others: &[Candidate], nic: NicIndex) -> Option<String> {
    if topology.nic(nic).role == Some(NicRole::Compute) {
        return Some("this machine's description says that it is a compute NIC".to_string());
    }
    if others.is_empty() {
        return Some("there is no better NIC".to_string());
    }
    topology.numbered_gpus().find_map(|(index, gpu)| {
        let path = |nic: NicIndex| match topology.nic(nic).address {
            Some(address) => topology.path_type(gpu.address, address),
            None => PathType::Sys,
        };
        let mine = path(nic);
        let alone = others.iter().all(|other| path(other.nic) > mine);
        alone.then(|| format!("no other NIC is as near to GPU {index}"))
    })
}

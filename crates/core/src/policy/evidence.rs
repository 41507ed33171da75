//! Evidence that a port of the fabric's kind serves something else: the default route, another subnet,
//! virtual functions that others use.
//!
//! None of it is certain: sites run IP over their fabric too.  So a single piece does not cost a GPU its
//! nearest NIC; then the port stays, and a diagnostic says so.
#![forbid(unsafe_code)]

use super::gbps;
use crate::diagnostic::Diagnostic;
use crate::topology::{
    Ascent, LinkLayer, Network, Nic, NicIndex, NicRole, PathType, PciAddress, Port, PortRef,
    Topology,
};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// A port without evidence against it so far.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) nic: NicIndex,
    pub(super) port: &'a Port,
    /// the admin wants it whatever the evidence
    pub(super) wanted: bool,
}

impl Candidate<'_> {
    pub(super) fn at(&self) -> PortRef {
        PortRef {
            nic: self.nic,
            port: self.port.number,
        }
    }
}

/// The kind of port that carries most, by total bandwidth, then by number of ports, then the lesser kind: InfiniBand
/// before Ethernet.
pub(super) fn most_bandwidth<K: Ord + Copy>(
    good: &[Candidate],
    kind: impl Fn(&Candidate) -> K,
) -> Option<K> {
    let mut carried: BTreeMap<K, (u64, usize)> = BTreeMap::new();
    for candidate in good {
        let (mbps, ports) = carried.entry(kind(candidate)).or_default();
        (*mbps, *ports) = (*mbps + candidate.port.rate_mbps.unwrap_or(0), *ports + 1);
    }
    // of equals the last one is taken
    carried
        .into_iter()
        .rev()
        .max_by_key(|(_, carried)| *carried)
        .map(|(kind, _)| kind)
}

// the tie in `most_bandwidth` rests on this order
const _: () = assert!((LinkLayer::InfiniBand as u8) < (LinkLayer::Ethernet as u8));

/// Judges ports of one link layer, except those that the admin wants: the reason to leave each port out, if any, and
/// the evidence that is too weak for that.  To be slower than the fabric is evidence too.
///
/// A port's judgement rests on itself and on ports without evidence against them, so leaving a port out never changes
/// that of the others.
pub(super) fn judge(
    topology: &Topology,
    good: &[Candidate],
    physical: &Physical,
    fabrics_rate: Option<u64>,
) -> (Vec<Option<String>>, Vec<Diagnostic>) {
    let facts = |candidate: &Candidate| match candidate.wanted {
        true => Vec::new(),
        false => slower(candidate.port, fabrics_rate)
            .into_iter()
            .chain(facts(topology, good, physical, candidate))
            .collect(),
    };
    let mut against: Vec<Vec<String>> = good.iter().map(facts).collect();
    let without_evidence = |against: &[Vec<String>]| -> Vec<Candidate> {
        good.iter()
            .zip(against)
            .filter(|(_, pieces)| pieces.is_empty())
            .map(|(port, _)| *port)
            .collect()
    };
    if let Some(common) = common_subnet(&without_evidence(&against)) {
        for (candidate, pieces) in good
            .iter()
            .zip(&mut against)
            .filter(|(port, _)| !port.wanted)
        {
            let own = subnet(candidate.port).filter(|own| *own != common);
            pieces.extend(
                own.map(|own| format!("it is on the subnet {own}, the node's fabric on {common}")),
            );
        }
    }
    let others = without_evidence(&against);
    let needs = Needs::new(topology, &others);
    let mut notes = Vec::new();
    let mut left_out = Vec::with_capacity(good.len());
    for (candidate, mut pieces) in good.iter().zip(against) {
        // another kind of NIC has another rate: the two are one piece of evidence
        let is_slower = is_slower(candidate.port, fabrics_rate);
        if pieces.len() > usize::from(is_slower) {
            pieces.extend(another_device(topology, &others, candidate.nic));
        }
        let need = (pieces.len() == 1).then(|| {
            let of_card = || {
                is_slower
                    .then(|| on_card_of(topology, &others, candidate))
                    .flatten()
            };
            needs.of(candidate.nic).or_else(of_card)
        });
        let need = need.flatten();
        notes.extend(
            need.as_ref()
                .map(|need| note(topology, candidate, &pieces[0], need)),
        );
        let is_left_out = !pieces.is_empty() && need.is_none();
        left_out.push(is_left_out.then(|| pieces.join(", and ")));
    }
    notes.extend(undecided(topology, &others));
    (left_out, notes)
}

/// The evidence against a port by itself, whatever the others are.
pub(super) fn facts(
    topology: &Topology,
    good: &[Candidate],
    physical: &Physical,
    candidate: &Candidate,
) -> Vec<String> {
    let &Candidate { nic, port, .. } = candidate;
    [
        default_route(port),
        virtual_functions(topology, good, physical, nic),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn is_slower(port: &Port, fabrics_rate: Option<u64>) -> bool {
    port.rate_mbps.is_some() && port.rate_mbps < fabrics_rate
}

pub(super) fn slower(port: &Port, fabrics_rate: Option<u64>) -> Option<String> {
    let (mine, many) = (port.rate_mbps?, fabrics_rate?);
    is_slower(port, fabrics_rate).then(|| {
        format!(
            "it runs at {}, the node's fabric at {}",
            gbps(mine),
            gbps(many)
        )
    })
}

/// True if `pieces` of evidence would leave out this failed port if it worked.  `others` have no evidence against them.
///
/// Its subnet is not asked: it may be another while the port is down.
pub(super) fn are_enough(
    topology: &Topology,
    others: &[Candidate],
    nic: NicIndex,
    pieces: usize,
) -> bool {
    pieces > 1 || pieces == 1 && Needs::new(topology, others).of(nic).is_none()
}

/// The physical functions that have a virtual function among the node's NICs.
pub(super) type Physical = BTreeSet<PciAddress>;

/// Computed once for all ports.
pub(super) fn physical(topology: &Topology) -> Physical {
    let functions = topology
        .nics
        .iter()
        .filter_map(|nic| topology.pci.get(nic.address?));
    functions.filter_map(|function| function.physfn).collect()
}

fn note(topology: &Topology, candidate: &Candidate, pieces: &str, need: &str) -> Diagnostic {
    let name = &topology.nic(candidate.nic).name;
    let finding =
        format!("{pieces}; but {need}: it is used, and `exclude={name}` would leave it out");
    Diagnostic::new(topology.port_name(candidate.at()), finding)
}

/// Logins, installation and the scheduler use the default route.
fn default_route(port: &Port) -> Option<String> {
    let interface = port.default_route.as_ref()?;
    Some(format!(
        "the node's default route leaves by it (`{interface}`)"
    ))
}

/// A physical function and its virtual ones share one port.  If a virtual one may be chosen, the physical one stays the
/// host's.  If none is visible here, virtual machines or containers have them, and the port carries their traffic too.
fn virtual_functions(
    topology: &Topology,
    good: &[Candidate],
    physical: &Physical,
    nic: NicIndex,
) -> Option<String> {
    let address = topology.nic(nic).address?;
    let own = topology.pci.get(address)?;
    if own.vfs.is_none() && !physical.contains(&address) {
        return None;
    }
    let is_virtual = |nic: &Nic| {
        let function = nic.address.and_then(|address| topology.pci.get(address));
        function.is_some_and(|function| function.physfn == Some(address))
    };
    let free = good
        .iter()
        .filter(|other| other.port.default_route.is_none());
    let mut chosen = free
        .map(|other| topology.nic(other.nic))
        .filter(|nic| is_virtual(nic));
    if let Some(Nic { name: other, .. }) = chosen.next() {
        return Some(format!(
            "its virtual function `{other}` is handed out here, and both share its port"
        ));
    }
    match own.vfs? {
        _ if topology.nics.iter().any(is_virtual) => None,
        1 => Some("a virtual function of it is given to others, who share its port".to_string()),
        vfs => Some(format!(
            "{vfs} virtual functions of it are given to others, who share its port"
        )),
    }
}

/// The subnet of more than half of these ports.  Sites give each rail its own subnet, or all rails one: only a few
/// ports outside the subnet of many are evidence.
fn common_subnet(good: &[Candidate]) -> Option<String> {
    let mut ports: BTreeMap<String, usize> = BTreeMap::new();
    let subnets = good.iter().filter_map(|candidate| subnet(candidate.port));
    subnets.for_each(|subnet| *ports.entry(subnet).or_default() += 1);
    let known: usize = ports.values().sum();
    ports
        .into_iter()
        .find(|&(_, count)| count > 1 && 2 * count > known)
        .map(|(subnet, _)| subnet)
}

/// Two InfiniBand ports on two subnets: one could be for storage, but nothing tells which.
fn undecided(topology: &Topology, others: &[Candidate]) -> Option<Diagnostic> {
    let [
        one @ Candidate { wanted: false, .. },
        other @ Candidate { wanted: false, .. },
    ] = others
    else {
        return None;
    };
    let infiniband = [one, other]
        .iter()
        .all(|one| one.port.link_layer == LinkLayer::InfiniBand);
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

/// The device id of a NIC's function.  The vendor id is not read: it hardly ever differs if the device id agrees.
pub(super) fn device(topology: &Topology, nic: &Nic) -> Option<u16> {
    topology.pci.get(nic.address?)?.device
}

/// A different kind of card than the cards that carry most: it counts only as a second piece of evidence.
fn another_device(topology: &Topology, others: &[Candidate], nic: NicIndex) -> Option<String> {
    let device = |nic: NicIndex| device(topology, topology.nic(nic));
    let mine = device(nic)?;
    let many = most_bandwidth(others, |other| device(other.nic))
        .flatten()
        .filter(|&many| many != mine)?;
    Some(format!(
        "it is another device ({mine:04x}) than the fabric's ({many:04x})"
    ))
}

/// NCCL merges the ports of a card (src/graph/topo.cc, `ncclTopoAutoMerge`), and loses more than a port's rate if one
/// is left out.
fn on_card_of(topology: &Topology, others: &[Candidate], candidate: &Candidate) -> Option<String> {
    let address = |candidate: &Candidate| topology.nic(candidate.nic).address;
    let own = address(candidate)?;
    let is_mate =
        |other: &&Candidate| address(other).is_some_and(|other| other.card() == own.card());
    // sites often connect the second port of each card to something slower
    let is_in_its_place = |other: &Candidate| {
        let function = |candidate: &Candidate| address(candidate).map(|address| address.function);
        function(other) == function(candidate) && other.port.number == candidate.port.number
    };
    let mate = others.iter().find(is_mate)?;
    let has_others = others.iter().any(is_in_its_place);
    has_others.then(|| {
        format!(
            "it is on the card of {}, and other cards have both",
            topology.port_name(mate.at())
        )
    })
}

/// What stands against leaving a NIC out, among others without evidence against them.
struct Needs<'a> {
    topology: &'a Topology,
    others: &'a [Candidate<'a>],
    /// of the GPUs and of the others: only asked for where there is evidence against a NIC
    ascents: OnceCell<(Vec<Ascent>, Vec<Option<Ascent>>)>,
}

impl<'a> Needs<'a> {
    fn new(topology: &'a Topology, others: &'a [Candidate<'a>]) -> Needs<'a> {
        Needs {
            topology,
            others,
            ascents: OnceCell::new(),
        }
    }

    /// The reason why the node needs this NIC, if any.
    fn of(&self, nic: NicIndex) -> Option<String> {
        let Needs {
            topology, others, ..
        } = self;
        if topology.nic(nic).role == Some(NicRole::Compute) {
            return Some("this machine's description says that it is a compute NIC".to_string());
        }
        if others.is_empty() {
            return Some("there is no better NIC".to_string());
        }
        let ascent = |nic: NicIndex| {
            topology
                .nic(nic)
                .address
                .map(|address| topology.ascent(address))
        };
        let (gpus, others) = self.ascents.get_or_init(|| {
            let gpus = topology.gpus.iter().map(|gpu| topology.ascent(gpu.address));
            (
                gpus.collect(),
                others.iter().map(|other| ascent(other.nic)).collect(),
            )
        });
        let own = ascent(nic);
        let alone = gpus.iter().position(|gpu| {
            let path = |nic: &Option<Ascent>| {
                nic.as_ref()
                    .map_or(PathType::Sys, |nic| topology.meeting(gpu, nic).kind)
            };
            let mine = path(&own);
            others.iter().all(|other| path(other) > mine)
        });
        alone.map(|gpu| format!("no other NIC is as near to GPU {gpu}"))
    }
}

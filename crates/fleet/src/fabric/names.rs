//! A node's own names for its NICs, by which a cable is recognised whatever its source calls it, and its NICs' order.
#![forbid(unsafe_code)]

use super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use crate::audit::report::{NeighbourReport, Report};
use std::collections::{BTreeMap, BTreeSet};

/// A NIC's port: the NIC's name and the port's number.
pub(super) type PortKey = (String, u8);

/// Ports of all nodes, at most: 200 bytes each.
const MAX_KEPT: usize = 1 << 20;

/// The names of many nodes.
#[derive(Debug, Clone, Default)]
pub struct NameBook {
    pub nodes: BTreeMap<String, NodeNames>,
    ports: usize,
}

impl NameBook {
    /// Takes a node's names.  Of two reports of one node the first counts, in the order of what they say.
    ///
    /// # Errors
    ///
    /// There are more ports than can be kept.
    pub fn add(&mut self, names: NodeNames) -> Result<(), String> {
        self.ports += names.ports.len();
        if self.ports > MAX_KEPT {
            return Err(format!(
                "the reports before it have more than {MAX_KEPT} ports of NICs: compare fewer nodes at once"
            ));
        }
        match self.nodes.get_mut(&names.node) {
            Some(known) if names < *known => *known = names,
            Some(_) => {}
            None => _ = self.nodes.insert(names.node.clone(), names),
        }
        Ok(())
    }
}

/// What a report of `check --json` tells of a node's NICs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeNames {
    pub node: String,
    /// in PCI order, which is the order of rails without `rails=`
    pub ports: Vec<PortNames>,
    /// the ports that its GPUs are given
    pub(super) rails: BTreeSet<PortKey>,
}

/// The names of a NIC's port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortNames {
    pub nic: String,
    pub port: u8,
    /// its PCI function, else its name: the subject of the audit's facts
    pub subject: String,
    interface: Option<String>,
    guid: Option<String>,
    subnet: Option<String>,
    is_ethernet: bool,
    neighbour: Option<NeighbourReport>,
}

impl NodeNames {
    /// `None` for a node that is only described.
    pub fn of(report: &Report) -> Option<NodeNames> {
        let mut ports = Vec::new();
        for nic in &report.nics {
            for port in &nic.ports {
                // the GUID of a device is that of its only port, where the port does not tell its own
                let of_device = nic.guid.as_ref().filter(|_| nic.ports.len() == 1);
                ports.push(PortNames {
                    nic: nic.name.clone(),
                    port: port.number,
                    subject: nic.address.clone().unwrap_or_else(|| nic.name.clone()),
                    interface: port.interface.clone(),
                    guid: port
                        .guid
                        .as_ref()
                        .or(of_device)
                        .map(|guid| plain_guid(guid)),
                    subnet: port.subnet.clone(),
                    is_ethernet: port.link_layer == "Ethernet",
                    neighbour: port.neighbour.clone(),
                });
            }
        }
        let rails = report
            .gpus
            .iter()
            .flat_map(|gpu| &gpu.nics)
            .filter_map(|name| {
                let (nic, port) = name.rsplit_once(':')?;
                Some((nic.to_string(), port.parse().ok()?))
            });
        Some(NodeNames {
            node: report.host.clone()?,
            ports,
            rails: rails.collect(),
        })
    }

    /// The switches that its agent of LLDP hears: what identifies each, and its name.
    pub(super) fn switches(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ports.iter().filter_map(|port| {
            let neighbour = port.neighbour.as_ref()?;
            Some((neighbour.id.as_str(), neighbour.switch.as_str()))
        })
    }

    /// Does its agent of LLDP hear a switch?
    pub fn has_neighbours(&self) -> bool {
        self.ports.iter().any(|port| port.neighbour.is_some())
    }
}

/// A GUID as 16 digits.
fn plain_guid(guid: &str) -> String {
    let digits = guid
        .strip_prefix("0x")
        .unwrap_or(guid)
        .chars()
        .filter(char::is_ascii_hexdigit);
    digits.map(|digit| digit.to_ascii_lowercase()).collect()
}

/// Where a port's cable ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CableEnd {
    At(SwitchPort),
    NoLink,
    /// the sources name several switches
    Several,
}

/// The ports of a node that the sources tell, in the node's order.
#[derive(Debug, Clone)]
pub(super) struct NodeCables {
    pub(super) name: String,
    pub(super) ports: Vec<(PortKey, CableEnd)>,
    /// by its report; empty where there is none
    pub(super) rails: BTreeSet<PortKey>,
    /// the InfiniBand subnets of its ports, by its report
    pub(super) subnets: BTreeMap<PortKey, String>,
    pub(super) is_ethernet: bool,
    /// True: its NICs are RDMA devices by their names on the node.  An agent of LLDP hears on all interfaces.
    pub(super) has_own_names: bool,
}

/// Ports of a node, at most: more than any node has, so that the time stays linear.
const MAX_PORTS: usize = 64;

/// The cables of each node by its own names; what was odd goes to `notes`.
pub(super) fn nodes(
    cabling: &Cabling,
    reports: &BTreeMap<String, NodeNames>,
    notes: &mut Vec<String>,
) -> Vec<NodeCables> {
    let names = Known::new(reports);
    let mut nodes: BTreeMap<&str, BTreeMap<PortKey, CableEnd>> = BTreeMap::new();
    let mut renamed: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut without_guids: BTreeSet<&str> = BTreeSet::new();
    for Cable { nic, to, .. } in cabling.cables.iter().chain(&cabling.unnamed) {
        let (node, key) = names.of(nic);
        if node.is_empty() {
            continue;
        }
        if nic.guid.is_none() {
            without_guids.insert(node);
        }
        if node != nic.node && !nic.node.is_empty() {
            renamed.insert((&nic.node, node));
        }
        let end = to.clone().map_or(CableEnd::NoLink, CableEnd::At);
        add(nodes.entry(node).or_default(), key, end);
    }
    for report in reports.values() {
        for port in &report.ports {
            let Some(NeighbourReport { id, port: at, .. }) = &port.neighbour else {
                continue;
            };
            let end = CableEnd::At(SwitchPort {
                switch: id.clone(),
                port: at.clone(),
            });
            add(
                nodes.entry(&report.node).or_default(),
                (port.nic.clone(), port.port),
                end,
            );
        }
    }
    for (said, node) in renamed.iter().take(20) {
        notes.push(format!(
            "a NIC of {node}, by its GUID, says that it is of {said}: its description is old"
        ));
    }
    let mut cut = 0;
    let found = nodes.into_iter().map(|(name, ends)| {
        let report = reports.get(name);
        let of_report = report
            .map(|report| report.ports.as_slice())
            .unwrap_or_default();
        let known = of_report
            .iter()
            .enumerate()
            .map(|(at, port)| ((port.nic.as_str(), port.port), (at, port)));
        let known: BTreeMap<(&str, u8), (usize, &PortNames)> = known.collect();
        let place = |(nic, port): &PortKey| {
            let at = known
                .get(&(nic.as_str(), *port))
                .map_or(usize::MAX, |(at, _)| *at);
            (at, natural(nic), *port)
        };
        let mut ports: Vec<(PortKey, CableEnd)> = ends.into_iter().collect();
        ports.sort_by_cached_key(|(key, _)| place(key));
        cut += usize::from(ports.len() > MAX_PORTS);
        ports.truncate(MAX_PORTS);
        let subnet = |port: &PortNames| Some(((port.nic.clone(), port.port), port.subnet.clone()?));
        let is_ethernet = |((nic, port), _): &(PortKey, CableEnd)| {
            known
                .get(&(nic.as_str(), *port))
                .is_some_and(|(_, port)| port.is_ethernet)
        };
        NodeCables {
            name: name.to_string(),
            has_own_names: report.is_some() || !without_guids.contains(name),
            is_ethernet: ports.iter().any(is_ethernet),
            ports,
            rails: report
                .map(|report| report.rails.clone())
                .unwrap_or_default(),
            subnets: of_report.iter().filter_map(subnet).collect(),
        }
    });
    let found = found.collect();
    if cut > 0 {
        notes.push(format!(
            "{cut} nodes have more than {MAX_PORTS} ports: the first are compared"
        ));
    }
    found
}

/// Two sources, or two neighbours on one port, may say different things of it.
fn add(ends: &mut BTreeMap<PortKey, CableEnd>, key: PortKey, end: CableEnd) {
    let said = ends.entry(key).or_insert(CableEnd::NoLink);
    *said = match (&*said, end) {
        (CableEnd::NoLink, end) => end,
        (said, CableEnd::NoLink) => said.clone(),
        (CableEnd::At(a), CableEnd::At(b)) if a.switch == b.switch => {
            CableEnd::At(a.clone().min(b))
        }
        _ => CableEnd::Several,
    };
}

/// The names of all reports.
struct Known<'a> {
    by_guid: BTreeMap<&'a str, (&'a str, &'a PortNames)>,
    /// by node and device, port and all, or interface
    by_name: BTreeMap<(&'a str, &'a str, u8), &'a PortNames>,
}

impl<'a> Known<'a> {
    fn new(reports: &'a BTreeMap<String, NodeNames>) -> Known<'a> {
        let mut known = Known {
            by_guid: BTreeMap::new(),
            by_name: BTreeMap::new(),
        };
        for report in reports.values() {
            for port in &report.ports {
                let guid = port
                    .guid
                    .as_deref()
                    .filter(|guid| guid.bytes().any(|digit| digit != b'0'));
                guid.map(|guid| known.by_guid.insert(guid, (&report.node, port)));
                if let Some(interface) = &port.interface {
                    known.by_name.insert((&report.node, interface, 1), port);
                }
                known
                    .by_name
                    .insert((&report.node, &port.nic, port.port), port);
            }
        }
        known
    }

    /// The node and port that a source's names mean; a GUID tells more than a description, which may be another node's.
    fn of<'b>(&self, nic: &'b NicPort) -> (&'b str, PortKey)
    where
        'a: 'b,
    {
        let key = |port: &PortNames| (port.nic.clone(), port.port);
        if let Some((node, port)) = nic.guid.as_deref().and_then(|guid| self.by_guid.get(guid)) {
            return (node, key(port));
        }
        match self
            .by_name
            .get(&(nic.node.as_str(), nic.nic.as_str(), nic.port))
        {
            Some(port) => (&nic.node, key(port)),
            None => (&nic.node, (nic.nic.clone(), nic.port)),
        }
    }
}

/// A name in parts, so that `mlx5_10` stands behind `mlx5_9`.
pub(super) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest
            .find(|letter: char| letter.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, after) = rest.split_at(digits);
        let end = after
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(after.len());
        parts.push((text.to_string(), after[..end].parse().unwrap_or(u64::MAX)));
        rest = &after[end..];
    }
    parts
}

/// The NIC's name, with the port where the NIC has several.
pub(super) fn nic_name(slots: &[PortKey], slot: usize) -> String {
    let (nic, port) = &slots[slot];
    let has_several = slots
        .iter()
        .any(|(other, number)| other == nic && number != port);
    if has_several || *port != 1 {
        format!("{nic}:{port}")
    } else {
        nic.clone()
    }
}

/// Can `rails=` name them?  Two ports of one NIC have one name, and `HCA-1` is the subnet manager's name alone.
pub(super) fn are_names<'a>(nics: impl Iterator<Item = &'a str>) -> bool {
    let mut distinct = BTreeSet::new();
    nics.into_iter()
        .all(|nic| !nic.starts_with("HCA-") && distinct.insert(nic))
}

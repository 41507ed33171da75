//! The nodes' own names of NICs, from their reports: cables of all sources are found by them, and sorted in their order.

use super::cabling::{Cable, Cabling};
use crate::audit::report::{NeighbourReport, Report};
use std::collections::{BTreeMap, BTreeSet};

/// A NIC's port: the NIC's name and the port's number.
pub(super) type PortKey = (String, u8);

/// Ports of all nodes, at most: 200 bytes each.
const MAX_KEPT: usize = 1 << 20;

#[derive(Default)]
pub struct NameBook {
    pub nodes: BTreeMap<String, NodeNames>,
    ports: usize,
}

impl NameBook {
    /// Of two reports of one node the lesser counts, so that their order does not matter.
    pub fn add(&mut self, names: NodeNames) -> Result<(), String> {
        self.ports += names.ports.len();
        if self.ports > MAX_KEPT {
            return Err(format!(
                "the reports before it have more than {MAX_KEPT} ports of NICs: compare fewer nodes at once"
            ));
        }
        let known = self
            .nodes
            .entry(names.node.clone())
            .or_insert_with(|| names.clone());
        if names < *known {
            *known = names;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeNames {
    node: String,
    /// in PCI order, which is the order of rails without `rails=`
    pub(super) ports: Vec<PortNames>,
    pub(super) rails: BTreeSet<PortKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortNames {
    pub(super) key: PortKey,
    /// the NIC's PCI function, else its name: the subject of the audit's facts
    pub(super) subject: String,
    interface: Option<String>,
    guid: Option<String>,
    is_ethernet: bool,
    pub(super) neighbour: Option<NeighbourReport>,
}

impl NodeNames {
    /// `None` for a report of a described machine.
    pub fn of(report: &Report) -> Option<NodeNames> {
        let mut ports = Vec::new();
        for nic in &report.nics {
            for port in &nic.ports {
                // a device's GUID is that of its only port, if the port has none in the report
                let of_device = nic.guid.as_ref().filter(|_| nic.ports.len() == 1);
                ports.push(PortNames {
                    key: (nic.name.clone(), port.number),
                    subject: nic.address.clone().unwrap_or_else(|| nic.name.clone()),
                    interface: port.interface.clone(),
                    guid: port
                        .guid
                        .as_ref()
                        .or(of_device)
                        .and_then(|guid| plain_guid(guid)),
                    is_ethernet: port.link_layer == "Ethernet",
                    neighbour: port.neighbour.clone(),
                });
            }
        }
        let rails = report.gpus.iter().flat_map(|gpu| &gpu.nics);
        Some(NodeNames {
            node: report.host.clone()?,
            ports,
            rails: rails
                .filter_map(|name| {
                    let (nic, port) = name.rsplit_once(':')?;
                    Some((nic.to_string(), port.parse().ok()?))
                })
                .collect(),
        })
    }

    /// True if its LLDP agent hears a switch.
    pub fn has_neighbours(&self) -> bool {
        self.ports.iter().any(|port| port.neighbour.is_some())
    }
}

/// A GUID as 16 digits; `None` for zeros.
fn plain_guid(guid: &str) -> Option<String> {
    let digits: String = guid
        .strip_prefix("0x")
        .unwrap_or(guid)
        .chars()
        .filter(char::is_ascii_hexdigit)
        .collect();
    digits
        .contains(|digit| digit != '0')
        .then(|| digits.to_ascii_lowercase())
}

/// The ports of a node that the sources list, in the node's order.
pub(super) struct NodeCables<'a> {
    pub(super) name: &'a str,
    pub(super) ports: Vec<(PortKey, CableEnds<'a>)>,
    pub(super) rails: BTreeSet<PortKey>,
    pub(super) is_ethernet: bool,
    /// true if its NICs have the node's names; an LLDP agent hears on other interfaces too
    pub(super) has_own_names: bool,
}

/// Each switch that a source names for a port, with the switch's port: none without a link, several in contradictions.
pub(super) type CableEnds<'a> = BTreeMap<&'a str, &'a str>;

impl<'a> NodeCables<'a> {
    pub(super) fn ends(&self, key: &PortKey) -> Option<&CableEnds<'a>> {
        self.ports
            .iter()
            .find(|(port, _)| port == key)
            .map(|(_, ends)| ends)
    }
}

/// Ports of a node, at most, so that the time stays linear.
const MAX_PORTS: usize = 64;

/// The cables of each node by its own names and those of `switches`.
pub(super) fn nodes<'a>(
    cabling: &'a Cabling,
    reports: &'a BTreeMap<String, NodeNames>,
    switches: &'a BTreeMap<String, String>,
    notes: &mut Vec<String>,
) -> Vec<NodeCables<'a>> {
    let mut nodes: BTreeMap<&str, BTreeMap<PortKey, CableEnds>> = BTreeMap::new();
    let mut by_guid: BTreeMap<&str, (&str, &PortKey)> = BTreeMap::new();
    let mut by_name: BTreeMap<(&str, &str, u8), &PortKey> = BTreeMap::new();
    let mut add = |node, key: &PortKey, end: Option<(&'a str, &'a str)>| {
        let ends = nodes
            .entry(node)
            .or_default()
            .entry(key.clone())
            .or_default();
        if let Some((switch, port)) = end {
            let switch = switches.get(switch).map_or(switch, String::as_str);
            let known: &mut &str = ends.entry(switch).or_insert(port);
            *known = (*known).min(port);
        }
    };
    for (node, report) in reports {
        for port in &report.ports {
            let key = &port.key;
            if let Some(guid) = &port.guid {
                by_guid.insert(guid, (node, key));
            }
            if let Some(interface) = &port.interface {
                by_name.insert((node, interface, 1), key);
            }
            by_name.insert((node, &key.0, key.1), key);
            if let Some(NeighbourReport { id, port, .. }) = &port.neighbour {
                add(node, key, Some((id, port)));
            }
        }
    }
    let mut renamed: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut without_guids: BTreeSet<&str> = BTreeSet::new();
    for Cable { nic, to } in cabling.cables.iter().chain(&cabling.unnamed) {
        let said = (nic.nic.clone(), nic.port);
        // a GUID is surer than a description, which may be another node's
        let known = nic
            .guid
            .as_deref()
            .and_then(|guid| by_guid.get(guid).copied());
        let (node, key) = known.unwrap_or_else(|| {
            let key = by_name.get(&(&nic.node, &nic.nic, nic.port));
            (&nic.node, key.copied().unwrap_or(&said))
        });
        if node.is_empty() {
            continue;
        }
        if nic.guid.is_none() {
            without_guids.insert(node);
        }
        if node != nic.node && !nic.node.is_empty() {
            renamed.insert((&nic.node, node));
        }
        add(node, key, to.as_ref().map(|to| (&*to.switch, &*to.port)));
    }
    for (said, node) in renamed.iter().take(20) {
        notes.push(format!(
            "a NIC of {node}, by its GUID, says that it is of {said}: its description is old"
        ));
    }
    let mut cut = 0;
    let found = nodes
        .into_iter()
        .map(|(name, ends)| {
            let report = reports.get(name);
            let known: BTreeMap<&PortKey, (usize, bool)> = report
                .map_or(&[][..], |report| &report.ports)
                .iter()
                .enumerate()
                .map(|(at, port)| (&port.key, (at, port.is_ethernet)))
                .collect();
            let mut ports = Vec::from_iter(ends);
            ports.sort_by_cached_key(|(key, _)| {
                let place = known.get(key).map_or(usize::MAX, |(at, _)| *at);
                (place, natural(&key.0), key.1)
            });
            cut += usize::from(ports.len() > MAX_PORTS);
            ports.truncate(MAX_PORTS);
            NodeCables {
                name,
                has_own_names: report.is_some() || !without_guids.contains(name),
                is_ethernet: ports
                    .iter()
                    .any(|(key, _)| known.get(key).is_some_and(|port| port.1)),
                ports,
                rails: report.map_or_else(BTreeSet::new, |report| report.rails.clone()),
            }
        })
        .collect();
    if cut > 0 {
        notes.push(format!(
            "{cut} nodes have more than {MAX_PORTS} ports: the first are compared"
        ));
    }
    found
}

/// A name in parts, so that `mlx5_10` is behind `mlx5_9`.
pub(super) fn natural(name: &str) -> Vec<(String, u64)> {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let (mut parts, mut rest) = (Vec::new(), name);
    while !rest.is_empty() {
        let (text, after) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
        let end = after
            .find(|letter| !is_digit(letter))
            .unwrap_or(after.len());
        parts.push((text.to_string(), after[..end].parse().unwrap_or(u64::MAX)));
        rest = &after[end..];
    }
    parts
}

/// True if `rails=` can name them: two ports of one NIC share a name, and `HCA-1` is a subnet
/// manager's.
pub(super) fn are_names(nics: &[&str]) -> bool {
    BTreeSet::from_iter(nics).len() == nics.len() && !nics.iter().any(|nic| nic.starts_with("HCA-"))
}

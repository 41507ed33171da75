//! The cables of each node by its own names of NICs, which its report tells, and in its own order.

use super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use crate::audit::report::Report;
use std::collections::{BTreeMap, BTreeSet};

/// A NIC's port: the NIC's name and the port's number.
pub(super) type PortKey<'a> = (&'a str, u8);
pub(super) type PortEnd<'a> = (&'a str, &'a str);
pub type Reports = BTreeMap<String, Report>;

/// Ports of a node that are compared, at most, so that the time stays linear.
const MAX_PORTS: usize = 64;

impl Cabling {
    pub fn hear(&mut self, report: &Report) {
        for nic in &report.nics {
            for port in &nic.ports {
                if let (Some(node), Some(heard)) = (&report.host, &port.neighbour) {
                    let nic = NicPort {
                        node: node.clone(),
                        nic: nic.name.clone(),
                        port: port.number,
                        guid: None,
                    };
                    let to = SwitchPort {
                        switch: heard.id.clone(),
                        port: heard.port.clone(),
                    };
                    self.cables.insert(Cable { nic, to });
                    self.switches.insert(heard.id.clone(), heard.switch.clone());
                }
            }
        }
    }

    /// The name of each switch, with its key where several have the name.
    pub(super) fn names(&self) -> BTreeMap<&str, String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.switches.values() {
            *counts.entry(name).or_default() += 1;
        }
        let name = |(key, name): (&'_ String, &'_ String)| match counts[name.as_str()] {
            _ if name.trim().is_empty() => key.clone(),
            2.. if name != key => format!("{name} ({key})"),
            _ => name.clone(),
        };
        let names = self.switches.iter();
        names.map(|of| (of.0.as_str(), name(of))).collect()
    }
}

/// The ports of a node that the sources list, in the node's order.
pub(super) struct NodeCables<'a> {
    pub(super) name: &'a str,
    pub(super) ports: Vec<PortKey<'a>>,
    /// of each port with a link; `None` where the sources name several switches
    pub(super) ends: BTreeMap<PortKey<'a>, Option<PortEnd<'a>>>,
    /// the ports that GPUs use, if its report tells
    pub(super) rails: BTreeSet<PortKey<'a>>,
    /// true if its NICs have the node's names; an LLDP agent hears on other interfaces too
    pub(super) has_own_names: bool,
}

pub(super) fn nodes<'a>(
    cabling: &'a Cabling,
    names: &'a BTreeMap<&str, String>,
    reports: &'a Reports,
    notes: &mut Vec<String>,
) -> Vec<NodeCables<'a>> {
    let mut by_guid: BTreeMap<String, (&str, PortKey)> = BTreeMap::new();
    let mut by_interface: BTreeMap<(&str, &str), PortKey> = BTreeMap::new();
    // in PCI order, which is the order of rails without `rails=`
    let mut places: BTreeMap<(&str, PortKey), usize> = BTreeMap::new();
    for (node, report) in reports {
        for nic in &report.nics {
            for port in &nic.ports {
                let key = (nic.name.as_str(), port.number);
                // a device's GUID is that of its only port, if the port has none in the report
                let of_device = nic.guid.as_ref().filter(|_| nic.ports.len() == 1);
                if let Some(guid) = port.guid.as_ref().or(of_device) {
                    by_guid.insert(guid.replace(':', ""), (node, key));
                }
                if let Some(interface) = &port.interface {
                    by_interface.insert((node, interface), key);
                }
                places.insert((node, key), places.len());
            }
        }
    }
    let mut nodes: BTreeMap<&str, BTreeMap<PortKey, Option<PortEnd>>> = BTreeMap::new();
    let mut without_guids: BTreeSet<&str> = BTreeSet::new();
    for Cable { nic, to } in &cabling.cables {
        // a GUID is surer than a description, which may be another node's
        let known = nic.guid.as_ref().and_then(|guid| by_guid.get(guid));
        let (node, key) = known.copied().unwrap_or_else(|| {
            let key = by_interface.get(&(&*nic.node, &*nic.nic)).copied();
            (&nic.node, key.unwrap_or((&nic.nic, nic.port)))
        });
        if node.is_empty() {
            continue;
        }
        if nic.guid.is_none() {
            without_guids.insert(node);
        }
        let switch = names.get(&*to.switch).map_or(&*to.switch, String::as_str);
        let here = Some((switch, &*to.port));
        let end = nodes.entry(node).or_default().entry(key).or_insert(here);
        if end.is_some_and(|(known, _)| known != switch) {
            notes.push(format!(
                "{node} {}:{}: sources name several switches",
                key.0, key.1
            ));
            *end = None;
        }
    }
    let node = |(name, ends): (&'a str, BTreeMap<PortKey<'a>, _>)| {
        let mut ports: Vec<PortKey> = ends.keys().copied().collect();
        ports.sort_by_cached_key(|key| {
            let place = places.get(&(name, *key)).copied();
            (place.unwrap_or(usize::MAX), natural(key.0), key.1)
        });
        ports.truncate(MAX_PORTS);
        let report = reports.get(name);
        let rails = report.iter().flat_map(|report| &report.gpus);
        NodeCables {
            name,
            ports,
            ends,
            rails: rails
                .flat_map(|gpu| &gpu.nics)
                .filter_map(|name| {
                    let (nic, port) = name.rsplit_once(':')?;
                    Some((nic, port.parse().ok()?))
                })
                .collect(),
            has_own_names: report.is_some() || !without_guids.contains(name),
        }
    };
    nodes.into_iter().map(node).collect()
}

/// A name whose numbers have leading zeros, so that `mlx5_10` sorts behind `mlx5_9`.
pub(super) fn natural(name: &str) -> String {
    let parts = name.split_inclusive(|letter: char| !letter.is_ascii_digit());
    parts.map(|part| format!("{part:0>20}")).collect()
}

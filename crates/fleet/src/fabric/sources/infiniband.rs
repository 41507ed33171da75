//! What `ibnetdiscover`, `ibnetdiscover -p` and `iblinkinfo` have in common: ports with GUIDs, and links between them.
#![forbid(unsafe_code)]

use super::super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use super::Notes;
use nic_placement_core::diagnostic::Shown;
use std::collections::{BTreeMap, BTreeSet};

/// What a port belongs to.  `CA` is InfiniBand's word for a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndKind {
    Switch,
    Nic,
    Router,
}

/// One end of a link, as a line of text names it.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    pub kind: EndKind,
    /// of a NIC's port, or of the whole switch, since its ports have none of their own
    pub guid: Option<u64>,
    /// what tells it from others of its description where there is no GUID
    pub lid: Option<u32>,
    pub port: u8,
    pub description: &'a str,
}

/// A NIC's port: by its GUID, or by LID and description without one, and by its number.
type NicKey<'a> = (Option<u64>, Option<(u32, &'a str)>, u8);

/// The links of one subnet.  Each is told twice, once from either end, or once where a text lacks an end.
#[derive(Debug, Default)]
pub struct Links<'a> {
    nics: BTreeMap<NicKey<'a>, NicLink<'a>>,
    /// each once, the smaller end first
    trunks: BTreeSet<(SwitchPort, SwitchPort)>,
    switches: BTreeMap<String, String>,
    has_routers: bool,
    /// has it links from NIC to NIC?
    has_back_to_back: bool,
    /// the first that is neither read nor empty, and how many there are
    odd: Option<(usize, &'a str, usize)>,
}

#[derive(Debug)]
struct NicLink<'a> {
    description: &'a str,
    to: Option<SwitchPort>,
}

impl<'a> Links<'a> {
    /// A switch, which may have no link.  The answer: its key.
    pub fn switch(&mut self, end: End) -> String {
        let name = switch_name(end.description);
        let key = match (end.guid, end.lid) {
            (Some(guid), _) => digits(guid),
            (None, Some(lid)) => format!("{name}, LID {lid}"),
            (None, None) => name.clone(),
        };
        self.switches.entry(key.clone()).or_insert(name);
        key
    }

    /// A link, or a port without one.
    pub fn add(&mut self, near: End<'a>, far: Option<End<'a>>) {
        match (near.kind, far) {
            (EndKind::Router, _)
            | (
                _,
                Some(End {
                    kind: EndKind::Router,
                    ..
                }),
            ) => self.has_routers = true,
            (
                EndKind::Nic,
                Some(
                    far @ End {
                        kind: EndKind::Switch,
                        ..
                    },
                ),
            ) => {
                let to = self.switch_port(far);
                self.nic(near, Some(to), true);
            }
            (
                EndKind::Switch,
                Some(
                    far @ End {
                        kind: EndKind::Nic, ..
                    },
                ),
            ) => {
                let to = self.switch_port(near);
                self.nic(far, Some(to), false);
            }
            (EndKind::Switch, Some(far)) => {
                let (near, far) = (self.switch_port(near), self.switch_port(far));
                self.trunks.insert(if near <= far {
                    (near, far)
                } else {
                    (far, near)
                });
            }
            (EndKind::Nic, Some(_)) => self.has_back_to_back = true,
            (EndKind::Nic, None) => self.nic(near, None, true),
            (EndKind::Switch, None) => {
                self.switch(near);
            }
        }
    }

    /// A line that is none of the format's.
    pub fn odd(&mut self, number: usize, line: &'a str) {
        self.odd.get_or_insert((number, line, 0)).2 += 1;
    }

    fn switch_port(&mut self, end: End) -> SwitchPort {
        SwitchPort {
            switch: self.switch(end),
            port: end.port.to_string(),
        }
    }

    /// A NIC's port as a line tells it: the NIC's own line, or that of the switch.
    fn nic(&mut self, end: End<'a>, to: Option<SwitchPort>, is_own: bool) {
        let without_guid = end
            .guid
            .is_none()
            .then(|| (end.lid.unwrap_or(0), end.description));
        let known = self
            .nics
            .entry((end.guid, without_guid, end.port))
            .or_insert_with(|| NicLink {
                description: end.description,
                to: None,
            });
        if known.to.is_none() {
            known.to = to;
        }
        // a node-name-map renames NICs at the switch's lines alone (out_ca_detail of ibnetdiscover.c)
        let names_node = |description| node_and_nic(description).is_some();
        if known.description != end.description
            && names_node(end.description)
            && (is_own || !names_node(known.description))
        {
            known.description = end.description;
        }
    }

    /// Adds all of it to a fabric.
    pub fn finish(self, notes: &mut Notes, into: &mut Cabling) {
        into.tells_trunks = true;
        // unmanaged switches all have their product's name
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        self.switches
            .values()
            .for_each(|name| *names.entry(name).or_default() += 1);
        let shown = |key: &String, name: &String| match names.get(name.as_str()) {
            Some(1) | None => name.clone(),
            Some(_) if key.starts_with(name) => key.clone(),
            Some(_) => format!("{name} {key}"),
        };
        into.switches.extend(
            self.switches
                .iter()
                .map(|(key, name)| (key.clone(), shown(key, name))),
        );
        into.trunks.extend(self.trunks);
        let mut without_node = 0;
        let mut cables = BTreeSet::new();
        for ((guid, _, port), link) in self.nics {
            // NVIDIA's SHARP: a switch's own endpoint, which libibnetdisc lists as a NIC
            if link.description.contains("Aggregation Node") {
                continue;
            }
            let guid = guid.map(digits);
            let named = node_and_nic(link.description);
            let is_named = named.is_some();
            let (node, nic) = named.unwrap_or_default();
            let nic = if nic.is_empty() {
                guid.clone().unwrap_or_default()
            } else {
                nic
            };
            let cable = Cable {
                nic: NicPort {
                    node,
                    nic,
                    port,
                    guid,
                },
                to: link.to,
            };
            if is_named {
                cables.insert(cable);
            } else {
                without_node += 1;
                into.unnamed.insert(cable);
            }
        }
        twins(&cables, notes);
        into.cables.append(&mut cables);
        if without_node > 0 {
            notes.add(format!(
                "NIC ports whose description names no node: {without_node}; rdma-ndd sets it"
            ));
        }
        if self.has_routers {
            notes.add("links of routers are left out".to_string());
        }
        if self.has_back_to_back {
            notes.add("links from NIC to NIC are left out".to_string());
        }
        if let Some((number, line, count)) = self.odd {
            notes.odd_lines(number, line, count);
        }
    }
}

/// Notes NICs of one node, name and port: two hosts with one name, or the planes of one NIC.
fn twins(cables: &BTreeSet<Cable>, notes: &mut Notes) {
    let name = |cable: &Cable| {
        (
            cable.nic.node.clone(),
            cable.nic.nic.clone(),
            cable.nic.port,
        )
    };
    let mut same = cables
        .iter()
        .zip(cables.iter().skip(1))
        .filter(|(one, next)| name(one) == name(next));
    if let Some((one, _)) = same.next() {
        let more = same.count();
        let also = if more > 0 {
            format!(", and {more} more")
        } else {
            String::new()
        };
        notes.add(format!(
            "two NICs of different GUIDs are port {} of `{}` of node `{}`{also}",
            one.nic.port,
            Shown::word(&one.nic.nic, 80),
            Shown::word(&one.nic.node, 80)
        ));
    }
}

/// A GUID as [`NicPort::guid`] has it.
pub fn digits(guid: u64) -> String {
    format!("{guid:016x}")
}

/// A GUID as the programs print it: hexadecimal, with or without `0x`.
pub fn guid(text: &str) -> Option<u64> {
    let text = text.trim();
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The node and the NIC that a description names; the NIC is empty where the node alone is named.
///
/// rdma-ndd writes `node7 mlx5_0` (its default is `%h %d`, rdma-core's rdma-ndd/rdma-ndd.c); older start scripts wrote
/// `node7 HCA-1`.  Until then the firmware's own text stands there, as `MT4129 ConnectX7 Mellanox Technologies`.
fn node_and_nic(description: &str) -> Option<(String, String)> {
    let mut words = description.split_whitespace();
    let host = words.next()?;
    let nic = words.collect::<Vec<_>>().join(" ");
    let is_host = host.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && host
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    let is_product = description.contains("Mellanox Technologies")
        || host
            .strip_prefix("MT")
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
            && nic.starts_with("ConnectX");
    // rdma-ndd before the node has its name
    let is_default = ["localhost", "(none)"].contains(&host);
    let is_device = host.starts_with("mlx") || host.starts_with("mthca");
    if !is_host || is_product || is_default || is_device {
        return None;
    }
    Some((super::node_name(host), super::clean(&nic)))
}

/// A switch's name from its description: NVIDIA's switches say `MF0;leaf1:MQM9700/U1`, which is `leaf1`.  The part behind the
/// model tells a chassis' boards and the ASICs of one box from each other, and stays where it is not the first.
fn switch_name(description: &str) -> String {
    let description = description.trim();
    let Some((name, model)) = description
        .split_once(';')
        .and_then(|(_, rest)| rest.rsplit_once(':'))
    else {
        return super::clean(description);
    };
    match model.split_once('/') {
        Some((_, part)) if part != "U1" => super::clean(&format!("{name}/{part}")),
        _ => super::clean(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_names_node_and_nic() {
        for (description, node, nic) in [
            ("node7 mlx5_0", "node7", "mlx5_0"),
            ("node7.example.org mlx5_0", "node7", "mlx5_0"),
            ("node7 HCA-1", "node7", "HCA-1"),
            (" node7  mlx5_0 ", "node7", "mlx5_0"),
            ("node7", "node7", ""),
        ] {
            assert_eq!(
                node_and_nic(description),
                Some((node.to_string(), nic.to_string())),
                "`{description}`"
            );
        }
        for description in [
            "",
            " ",
            "MT4129 ConnectX7   Mellanox Technologies",
            "localhost mlx5_0",
            "mlx5_0",
            "(none) mlx5_0",
        ] {
            assert_eq!(node_and_nic(description), None, "`{description}`");
        }
    }

    #[test]
    fn a_switch_has_its_name_without_the_model() {
        for (description, name) in [
            ("MF0;leaf1:MQM9700/U1", "leaf1"),
            ("MF0;core:CS8500/L01/U1", "core/L01/U1"),
            ("MF0;plane:Q3400/U2", "plane/U2"),
            (
                "Quantum Mellanox Technologies",
                "Quantum Mellanox Technologies",
            ),
            ("leaf 1", "leaf 1"),
        ] {
            assert_eq!(switch_name(description), name, "`{description}`");
        }
    }
}

//! `ibnetdiscover`: a stanza for each switch, NIC (`Ca`) and router, and in it a line for each port with a link.
//!
//! `out_switch_port` and `out_ca_port` in rdma-core's infiniband-diags/ibnetdiscover.c print the lines:
//!
//! ```text
//! switchguid=0x900000(900000)
//! Switch  65 "S-0000000000900000"   # "MF0;leaf0:MQM9700/U1" enhanced port 0 lid 1 lmc 0
//! [1]     "H-0000000a00000000"[1](a00000001)    # "node1 mlx5_0" lid 5 4xNDR
//! [2]     "S-0000000000b00000"[1]               # "MF0;spine0:MQM9700/U1" lid 3 4xNDR
//!
//! Ca      1 "H-0000000a00000000"    # "node1 mlx5_0"
//! [1](a00000001)  "S-0000000000900000"[1]       # lid 5 lmc 0 "MF0;leaf0:MQM9700/U1" lid 1 4xNDR
//! ```

use super::super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use super::{Notes, clean, node_name};
use nic_placement_core::diagnostic::Shown;
use std::collections::{BTreeMap, BTreeSet};

/// Beginnings of lines without links.
const OTHERS: [&str; 11] = [
    "switchguid=",
    "caguid=",
    "hcaguids=",
    "rtguid=",
    "vendid=",
    "devid=",
    "sysimgguid=",
    "Chassis ",
    "Non-Chassis ",
    "Hostname:",
    "#",
];

/// True for a line that this format alone has.
pub fn is_own(line: &str) -> bool {
    let begins = |begin: &&str| line.starts_with(begin);
    OTHERS[..4].iter().any(begins) || begins(&"# Topology file:") || stanza(line).is_some()
}

pub fn read(text: &str, notes: &mut Notes, into: &mut Cabling) {
    let mut links = Links::default();
    let mut near = None;
    let mut odd: Option<(usize, &str, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(found) = stanza(line) {
            near = Some(found);
            if found.kind == 'S' {
                links.switch_port(found);
            }
        } else if let Some((near, (port, guid, far))) = near.zip(link(line)) {
            let guid = guid.unwrap_or(near.guid);
            links.add(End { port, guid, ..near }, far);
        } else if !OTHERS.iter().any(|begin| line.trim().starts_with(begin))
            && !line.trim().is_empty()
        {
            odd.get_or_insert((at + 1, line, 0)).2 += 1;
        }
    }
    links.finish(notes, into);
    if let Some((number, line, count)) = odd {
        let also = match count - 1 {
            0 => String::new(),
            more => format!(", and {more} more lines are not read"),
        };
        let line = Shown::word(line, 80);
        notes.add(format!("line {number} is not understood: `{line}`{also}"));
    }
}

#[derive(Clone, Copy)]
struct End<'a> {
    /// `S` for a switch, `H` for a NIC, `R` for a router
    kind: char,
    /// of a NIC's port; of a whole switch, since its ports have none
    guid: u64,
    port: u8,
    description: &'a str,
}

/// `Switch  65 "S-0000000000900000"  # "leaf0" …`
fn stanza(line: &str) -> Option<End<'_>> {
    let (word, rest) = line.split_once([' ', '\t'])?;
    let rest = ["Switch", "Ca", "Hca", "Rt"]
        .contains(&word)
        .then_some(rest)?;
    end(rest.split_once('"')?.1).map(|(end, _)| end)
}

/// `[1](a00000001)  "S-0000000000900000"[1](GUID)  # … "leaf0" …`: the near port, its GUID, and the far end.
fn link(line: &str) -> Option<(u8, Option<u64>, End<'_>)> {
    let (number, own, rest) = port(line)?;
    let (far, rest) = end(rest.trim_start().strip_prefix('"')?)?;
    let (port, guid, _) = port(rest)?;
    let guid = guid.unwrap_or(far.guid);
    Some((number, own, End { port, guid, ..far }))
}

/// `S-0000000000900000"…"leaf0"…`: an end, and the text behind its GUID. A description may hold quotes.
fn end(text: &str) -> Option<(End<'_>, &str)> {
    let (id, rest) = text.split_once('"')?;
    let (kind, node) = id.split_once('-')?;
    let quoted = rest
        .split_once('"')
        .and_then(|(_, text)| text.rsplit_once('"'));
    let end = End {
        kind: kind.chars().next().filter(|kind| "SHR".contains(*kind))?,
        guid: u64::from_str_radix(node, 16).ok()?,
        port: 0,
        description: quoted.unwrap_or_default().0,
    };
    Some((end, rest))
}

/// `[1][ext 5](a00000001) …`: a port's number, its GUID, and the rest. `-g` adds the number on a chassis' outside.
fn port(text: &str) -> Option<(u8, Option<u64>, &str)> {
    let (number, mut rest) = text.strip_prefix('[')?.split_once(']')?;
    if let Some(outside) = rest.strip_prefix("[ext") {
        rest = outside.split_once(']')?.1;
    }
    let mut guid = None;
    if let Some((own, after)) = rest
        .trim_start()
        .strip_prefix('(')
        .and_then(|own| own.split_once(')'))
    {
        (guid, rest) = (u64::from_str_radix(own, 16).ok(), after);
    }
    Some((number.trim().parse().ok()?, guid, rest))
}

/// The links of one subnet. The text has each twice, once from either end.
#[derive(Default)]
struct Links<'a> {
    nics: BTreeMap<(u64, u8), (&'a str, SwitchPort)>,
    trunks: BTreeSet<(SwitchPort, SwitchPort)>,
    switches: BTreeMap<String, String>,
    has_routers: bool,
    has_back_to_back: bool,
}

impl<'a> Links<'a> {
    fn switch_port(&mut self, end: End) -> SwitchPort {
        let switch = digits(end.guid);
        self.switches
            .entry(switch.clone())
            .or_insert_with(|| switch_name(end.description));
        let port = end.port.to_string();
        SwitchPort { switch, port }
    }

    fn add(&mut self, near: End<'a>, far: End<'a>) {
        match (near.kind, far.kind) {
            ('R', _) | (_, 'R') => self.has_routers = true,
            ('H', 'S') => self.nic(near, far, true),
            ('S', 'H') => self.nic(far, near, false),
            ('H', _) => self.has_back_to_back = true,
            _ => {
                let (near, far) = (self.switch_port(near), self.switch_port(far));
                let trunk = if near <= far {
                    (near, far)
                } else {
                    (far, near)
                };
                self.trunks.insert(trunk);
            }
        }
    }

    fn nic(&mut self, nic: End<'a>, switch: End, is_own: bool) {
        let to = self.switch_port(switch);
        let known = self.nics.entry((nic.guid, nic.port));
        let known = &mut known.or_insert((nic.description, to)).0;
        // a node-name-map renames NICs in the switches' stanzas alone (out_ca_detail of ibnetdiscover.c)
        if node_and_nic(nic.description).is_some() && (is_own || node_and_nic(known).is_none()) {
            *known = nic.description;
        }
    }

    fn finish(self, notes: &mut Notes, into: &mut Cabling) {
        into.tells_trunks = true;
        // unmanaged switches all have their product's name
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.switches.values() {
            *names.entry(name).or_default() += 1;
        }
        for (key, name) in &self.switches {
            let name = if names[name.as_str()] == 1 {
                name.clone()
            } else {
                format!("{name} {key}")
            };
            into.switches.insert(key.clone(), name);
        }
        into.trunks.extend(self.trunks);
        let (mut without_node, mut twins) = (0, Vec::new());
        let mut seen = BTreeSet::new();
        for ((guid, port), (description, to)) in self.nics {
            // NVIDIA's SHARP: a switch's own endpoint, which libibnetdisc lists as a NIC
            if description.contains("Aggregation Node") {
                continue;
            }
            let guid = digits(guid);
            let named = node_and_nic(description);
            let cables = if named.is_some() {
                &mut into.cables
            } else {
                &mut into.unnamed
            };
            without_node += usize::from(named.is_none());
            let (node, mut nic) = named.unwrap_or_default();
            if nic.is_empty() {
                nic.clone_from(&guid);
            }
            // two hosts with one name, or the planes of one NIC
            if !node.is_empty() && !seen.insert((node.clone(), nic.clone(), port)) {
                let (node, nic) = (Shown::word(&node, 80), Shown::word(&nic, 80));
                twins.push(format!("port {port} of `{nic}` of node `{node}`"));
            }
            let guid = Some(guid);
            let nic = NicPort {
                node,
                nic,
                port,
                guid,
            };
            cables.insert(Cable { nic, to: Some(to) });
        }
        if let [first, more @ ..] = &twins[..] {
            let also = match more.len() {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            notes.add(format!("two NICs of different GUIDs are {first}{also}"));
        }
        for (is_so, note) in [
            (
                without_node > 0,
                format!(
                    "NIC ports whose description names no node: {without_node}; rdma-ndd sets it"
                ),
            ),
            (
                self.has_routers,
                "links of routers are left out".to_string(),
            ),
            (
                self.has_back_to_back,
                "links from NIC to NIC are left out".to_string(),
            ),
        ] {
            if is_so {
                notes.add(note);
            }
        }
    }
}

/// A GUID as [`NicPort::guid`] has it.
fn digits(guid: u64) -> String {
    format!("{guid:016x}")
}

/// The node and the NIC that a description names; the NIC is empty where the node alone is named.
///
/// rdma-ndd writes `node7 mlx5_0` (its default is `%h %d`, rdma-core's rdma-ndd/rdma-ndd.c); older start scripts wrote
/// `node7 HCA-1`. Until then the firmware's text is there, such as `MT4129 ConnectX7 Mellanox Technologies`.
fn node_and_nic(description: &str) -> Option<(String, String)> {
    let mut words = description.split_whitespace();
    let host = words.next()?;
    let nic = words.collect::<Vec<_>>().join(" ");
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_host = host.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && host.chars().all(is_letter);
    let is_product = description.contains("Mellanox Technologies")
        || host.starts_with("MT") && nic.starts_with("ConnectX");
    // rdma-ndd writes `localhost` or `(none)` before the node has its name
    let is_default = host == "localhost";
    let is_device = host.starts_with("mlx") || host.starts_with("mthca");
    let is_node = is_host && !is_product && !is_default && !is_device;
    is_node.then(|| (node_name(host), clean(&nic)))
}

/// A switch's name without its model: of `MF0;leaf1:MQM9700/U1` it is `leaf1`. A part other than
/// `U1` tells a chassis' boards and a box's ASICs apart, and stays.
fn switch_name(description: &str) -> String {
    let model = description
        .split_once(';')
        .and_then(|(_, rest)| rest.rsplit_once(':'));
    clean(
        &match model.map(|(name, model)| (name, model.split_once('/'))) {
            Some((name, Some((_, part)))) if part.trim() != "U1" => format!("{name}/{part}"),
            Some((name, _)) => name.to_string(),
            None => description.to_string(),
        },
    )
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
            let both = Some((node.to_string(), nic.to_string()));
            assert_eq!(node_and_nic(description), both, "`{description}`");
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
            ("Quantum Mellanox", "Quantum Mellanox"),
            ("leaf 1", "leaf 1"),
        ] {
            assert_eq!(switch_name(description), name, "`{description}`");
        }
    }
}

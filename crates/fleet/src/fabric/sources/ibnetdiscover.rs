//! `ibnetdiscover`: a stanza for each switch, NIC (`Ca`) and router, and in it a line for each port with a link.
//!
//! `out_switch_port` and `out_ca_port` in rdma-core's infiniband-diags/ibnetdiscover.c print the lines.

use super::super::cabling::{Cable, Cabling, NicPort, SwitchPort};
use super::{clean, node_name};
use nic_placement_core::diagnostic::Shown;
use std::collections::BTreeMap;

pub fn is_own(line: &str) -> bool {
    line.starts_with("switchguid=") || line.starts_with("caguid=") || stanza(line).is_some()
}

pub fn read(text: &str, into: &mut Cabling) {
    // the text has each link twice, once from either end
    let mut nics: BTreeMap<(u64, u8), (&str, SwitchPort)> = BTreeMap::new();
    let (mut near, mut odd, mut without_node) = (None, Vec::new(), 0);
    for (at, line) in text.lines().enumerate() {
        if let Some(found) = stanza(line) {
            near = Some(found);
            if found.kind == 'S' {
                let switch = switch(found, into).switch;
                into.whole.insert(switch);
            }
            continue;
        }
        let Some((near, (port, guid, far))) = near.zip(link(line)) else {
            if line.starts_with('[') {
                odd.push((at + 1, line));
            }
            continue;
        };
        let guid = guid.unwrap_or(near.guid);
        let near = End { port, guid, ..near };
        match (near.kind, far.kind) {
            // a node-name-map renames NICs in the switches' stanzas alone (out_ca_detail of ibnetdiscover.c)
            ('H', 'S') => {
                nics.insert((guid, port), (near.description, switch(far, into)));
            }
            ('S', 'H') => {
                let to = switch(near, into);
                nics.entry((far.guid, far.port))
                    .or_insert((far.description, to));
            }
            ('S', 'S') => {
                let mut ends = [near, far].map(|end| switch(end, into).switch);
                ends.sort();
                into.trunks.insert(ends.into());
            }
            _ => {}
        }
    }
    for ((guid, port), (description, to)) in nics {
        // NVIDIA's SHARP: a switch's own endpoint, which libibnetdisc lists as a NIC
        if description.contains("Aggregation Node") {
            continue;
        }
        let (node, nic) = node_and_nic(description).unwrap_or_default();
        without_node += usize::from(node.is_empty());
        let guid = digits(guid);
        let nic = NicPort {
            node,
            nic: if nic.is_empty() { guid.clone() } else { nic },
            port,
            guid: Some(guid),
        };
        into.cables.insert(Cable { nic, to });
    }
    if without_node > 0 {
        into.notes.push(format!(
            "NIC ports whose description names no node: {without_node}; rdma-ndd sets it"
        ));
    }
    if let Some((number, line)) = odd.first() {
        into.notes.push(format!(
            "links that are not understood: {}, the first in line {number}: `{}`",
            odd.len(),
            Shown::word(line, 80)
        ));
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
    ["Switch", "Ca", "Rt"].contains(&word).then_some(())?;
    end(rest.split_once('"')?.1).map(|(end, _)| end)
}

/// `[1](a00000001)  "S-0000000000900000"[1](GUID)  # … "leaf0" …`: the near port, its GUID, and the far end.
fn link(line: &str) -> Option<(u8, Option<u64>, End<'_>)> {
    let (near, far) = line.split_once('"')?;
    let (far, rest) = end(far)?;
    let ((number, own), (port, guid)) = (port(near)?, port(rest.split('#').next()?)?);
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
        kind: kind.chars().next()?,
        guid: u64::from_str_radix(node, 16).ok()?,
        port: 0,
        description: quoted.unwrap_or_default().0,
    };
    Some((end, rest))
}

/// `[1][ext 5](a00000001) …`: a port's number and its GUID. `-g` adds the number on a chassis' outside.
fn port(text: &str) -> Option<(u8, Option<u64>)> {
    let (number, rest) = text.strip_prefix('[')?.split_once(']')?;
    let guid = rest
        .split_once('(')
        .and_then(|(_, rest)| u64::from_str_radix(rest.split_once(')')?.0, 16).ok());
    Some((number.trim().parse().ok()?, guid))
}

fn switch(end: End, into: &mut Cabling) -> SwitchPort {
    let switch = digits(end.guid);
    into.switches
        .entry(switch.clone())
        .or_insert_with(|| switch_name(end.description));
    let port = end.port.to_string();
    SwitchPort { switch, port }
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
    let description = description.trim();
    let (host, nic) = description.split_once(' ').unwrap_or((description, ""));
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_node = host.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && host.chars().all(is_letter)
        // rdma-ndd writes `localhost` or `(none)` before the node has its name
        && !(host == "localhost" || host.starts_with("mlx"))
        && !description.contains("Mellanox Technologies")
        && !(host.starts_with("MT") && nic.trim().starts_with("ConnectX"));
    is_node.then(|| (node_name(host), clean(nic)))
}

/// A switch's name without its model: of `MF0;leaf1:MQM9700/U1` it is `leaf1`. A part other than
/// `U1` tells a chassis' boards and a box's ASICs apart, and stays.
fn switch_name(description: &str) -> String {
    let model = description
        .split_once(';')
        .and_then(|(_, rest)| rest.rsplit_once(':'));
    match model.map(|(name, model)| (name, model.split_once('/').unwrap_or_default().1.trim())) {
        None => clean(description),
        Some((name, "" | "U1")) => clean(name),
        Some((name, part)) => clean(&format!("{name}/{part}")),
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
            let both = Some((node.to_string(), nic.to_string()));
            assert_eq!(node_and_nic(description), both, "`{description}`");
        }
        let card = "MT4129 ConnectX7   Mellanox Technologies";
        for description in ["", " ", card, "localhost mlx5_0", "mlx5_0", "(none) mlx5_0"] {
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

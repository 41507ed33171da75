//! The text of `ibnetdiscover`: a stanza for each switch, NIC and router, and in it a line for each port with a link.
//!
//! The lines are those of `out_switch_port` and `out_ca_port` in rdma-core's infiniband-diags/ibnetdiscover.c:
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
#![forbid(unsafe_code)]

use super::super::cabling::Cabling;
use super::Notes;
use super::infiniband::{End, EndKind, Links, guid};
use std::collections::BTreeMap;

/// Does a line begin or belong to this format?
pub fn is_own(line: &str) -> bool {
    [
        "switchguid=",
        "caguid=",
        "hcaguids=",
        "rtguid=",
        "# Topology file:",
    ]
    .iter()
    .any(|start| line.starts_with(start))
        || header(line).is_some()
}

pub fn read<'a>(text: &'a str, notes: &mut Notes, into: &mut Cabling) {
    let port_guids = switch_port_guids(text);
    // a switch's node GUID stands in its name, and elsewhere in both other formats the GUID of its port 0
    let of_switch = |node: u64| port_guids.get(&node).copied().unwrap_or(node);
    let mut links = Links::default();
    let mut stanza: Option<(EndKind, u64, &'a str)> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some((kind, node, description)) = header(line) {
            stanza = Some((kind, node, description));
            if kind == EndKind::Switch {
                links.switch(end(kind, of_switch(node), 0, description));
            }
        } else if line.starts_with('[') {
            let read = stanza.zip(port(line));
            let Some(((kind, node, description), port)) = read else {
                links.odd(at + 1, line);
                continue;
            };
            let is_switch = kind == EndKind::Switch;
            let near_guid = if is_switch {
                of_switch(node)
            } else {
                port.guid.unwrap_or(node)
            };
            let near = end(kind, near_guid, port.number, description);
            let (far_kind, far_node) = port.far;
            let far_guid = match far_kind {
                EndKind::Switch => of_switch(far_node),
                _ => port.far_guid.unwrap_or(far_node),
            };
            let far = end(far_kind, far_guid, port.far_number, port.far_description);
            links.add(near, Some(far));
        } else if !is_known(line) {
            links.odd(at + 1, line);
        }
    }
    links.finish(notes, into);
}

fn end(kind: EndKind, guid: u64, port: u8, description: &str) -> End<'_> {
    End {
        kind,
        guid: Some(guid),
        lid: None,
        port,
        description,
    }
}

/// Lines without links: identifiers before a stanza, comments, the headings of `-g`.
fn is_known(line: &str) -> bool {
    let line = line.trim();
    let name = line.split(['=', ' ']).next().unwrap_or_default();
    line.is_empty()
        || line.starts_with('#')
        || [
            "vendid",
            "devid",
            "sysimgguid",
            "switchguid",
            "caguid",
            "hcaguids",
            "rtguid",
        ]
        .contains(&name)
        || ["Chassis", "Non-Chassis", "Hostname:"].contains(&name)
}

/// The GUID of port 0 of each switch, by its node GUID: `switchguid=0x900000(900000)`.
fn switch_port_guids(text: &str) -> BTreeMap<u64, u64> {
    let pair = |line: &str| {
        let (node, rest) = line.strip_prefix("switchguid=")?.split_once('(')?;
        Some((guid(node)?, guid(rest.split_once(')')?.0)?))
    };
    text.lines().filter_map(pair).collect()
}

/// `Switch  65 "S-0000000000900000"  # "leaf0" …`: what it is, its node GUID, its description.
fn header(line: &str) -> Option<(EndKind, u64, &str)> {
    let (word, rest) = line.split_once([' ', '\t'])?;
    let kind = match word {
        "Switch" => EndKind::Switch,
        "Ca" | "Hca" => EndKind::Nic,
        "Rt" => EndKind::Router,
        _ => return None,
    };
    let (_, rest) = rest.split_once('"')?;
    let (id, rest) = rest.split_once('"')?;
    Some((
        kind,
        guid(id.split_once('-')?.1)?,
        quoted(rest).unwrap_or_default().0,
    ))
}

/// What stands between the first and the last quote, and what follows; a description may hold quotes.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, text) = text.split_once('"')?;
    text.rsplit_once('"')
}

/// A line of a port.
struct PortLine<'a> {
    number: u8,
    guid: Option<u64>,
    far: (EndKind, u64),
    far_number: u8,
    far_guid: Option<u64>,
    far_description: &'a str,
}

fn port(line: &str) -> Option<PortLine<'_>> {
    let (number, guid, rest) = numbered(line)?;
    let (id, rest) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    let (kind, node) = id.split_once('-')?;
    let kind = match kind {
        "S" => EndKind::Switch,
        "H" => EndKind::Nic,
        "R" => EndKind::Router,
        _ => return None,
    };
    let (far_number, far_guid, rest) = numbered(rest)?;
    let (far_description, _) = quoted(rest).unwrap_or_default();
    Some(PortLine {
        number,
        guid,
        far: (kind, super::infiniband::guid(node)?),
        far_number,
        far_guid,
        far_description,
    })
}

/// `[1][ext 5](a00000001) …`: a port's number, its GUID, and what follows.  `-g` adds the number on a chassis' outside.
fn numbered(text: &str) -> Option<(u8, Option<u64>, &str)> {
    let (number, mut rest) = text.strip_prefix('[')?.split_once(']')?;
    if let Some(outside) = rest.strip_prefix("[ext") {
        rest = outside.split_once(']')?.1;
    }
    let unspaced = rest.trim_start();
    let (own, rest) = match unspaced
        .strip_prefix('(')
        .and_then(|inside| inside.split_once(')'))
    {
        Some((inside, after)) => (guid(inside), after),
        None => (None, rest),
    };
    Some((number.trim().parse().ok()?, own, rest))
}

//! The text of `iblinkinfo`: a line for each port, below its switch or NIC, or with `-l` a line that names both ends.
//!
//! The lines are those of `print_port` in rdma-core's infiniband-diags/iblinkinfo.c; shortened:
//!
//! ```text
//! CA: node1 mlx5_0:
//!    0x0000000a00000001      5    1[  ] ==( 4X  106.25 Gbps Active/  LinkUp)==>       1    1[  ] "MF0;leaf0:MQM9700/U1" ( )
//! Switch: 0x0000000000900000 MF0;leaf0:MQM9700/U1:
//!           1    1[  ] ==( 4X  106.25 Gbps Active/  LinkUp)==>       5    1[  ] "node1 mlx5_0" ( )
//!           1    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
//! ```
//!
//! Without `-l` the far end has no GUID.  It is found by LID and description, which the lines of the other end hold.
#![forbid(unsafe_code)]

use super::super::cabling::Cabling;
use super::Notes;
use super::infiniband::{End, EndKind, Links, guid};
use std::collections::{BTreeMap, BTreeSet};

/// Is a line of this format?
pub fn is_own(line: &str) -> bool {
    line.contains("==(") && line.contains(")==>")
}

pub fn read(text: &str, notes: &mut Notes, into: &mut Cabling) {
    let mut links = Links::default();
    let lines = lines(text, &mut links);
    let directory = Directory::new(&lines);
    let mut ambiguous = 0;
    for line in &lines {
        let near = End {
            kind: directory.kind(line.kind, line.guid),
            guid: line.guid,
            lid: Some(line.lid),
            port: line.port,
            description: line.description,
        };
        match line.far.as_ref().map(|far| directory.end(near.kind, far)) {
            None => links.add(near, None),
            Some(Some(far)) => links.add(near, Some(far)),
            Some(None) => ambiguous += 1,
        }
    }
    if ambiguous > 0 {
        notes.add(format!(
            "the far ends of {ambiguous} links are not known: several NICs or switches have the same LID and description; `iblinkinfo -l` names them by GUID"
        ));
    }
    links.finish(notes, into);
}

/// A port's line.
#[derive(Debug)]
struct Line<'a> {
    /// `None` with `-l`, which does not say it
    kind: Option<EndKind>,
    guid: Option<u64>,
    lid: u32,
    port: u8,
    description: &'a str,
    far: Option<Far<'a>>,
}

#[derive(Debug)]
struct Far<'a> {
    guid: Option<u64>,
    lid: u32,
    port: u8,
    description: &'a str,
}

fn lines<'a>(text: &'a str, links: &mut Links<'a>) -> Vec<Line<'a>> {
    let mut found = Vec::new();
    let mut above: Option<(EndKind, Option<u64>, &str)> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(header) = header(line) {
            above = Some(header);
        } else if let Some(port) = port(line, above) {
            found.push(port);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            links.odd(at + 1, line);
        }
    }
    found
}

/// `CA: node1 mlx5_0:` or `Switch: 0x0000000000900000 leaf0:`
fn header(line: &str) -> Option<(EndKind, Option<u64>, &str)> {
    let (kind, rest) = line.split_once(": ")?;
    let rest = rest.trim_end();
    let name = rest.strip_suffix(':').unwrap_or(rest);
    match kind {
        "CA" => Some((EndKind::Nic, None, name)),
        "Router" => Some((EndKind::Router, None, name)),
        "Switch" => {
            let (own, name) = name.split_once(' ')?;
            Some((EndKind::Switch, Some(guid(own)?), name))
        }
        _ => None,
    }
}

fn port<'a>(line: &'a str, above: Option<(EndKind, Option<u64>, &'a str)>) -> Option<Line<'a>> {
    let (near, rest) = line.split_once("==(")?;
    let (_state, far) = rest.split_once(")==>")?;
    let (rest, lid, port) = numbered(near)?;
    let rest = rest.trim();
    let (own, name) = match rest.split_once('"') {
        Some((own, name)) => (own, Some(name.strip_suffix('"')?.trim())),
        None => (rest, None),
    };
    let (kind, above_guid, description) = match name {
        Some(name) => (None, None, name),
        None => above.map(|(kind, guid, name)| (Some(kind), guid, name))?,
    };
    let own = if own.trim().is_empty() {
        above_guid
    } else {
        guid(own)
    };
    Some(Line {
        kind,
        guid: own,
        lid,
        port,
        description,
        far: self::far(far),
    })
}

/// `None` for a port without a link, or whose far end did not answer.
fn far(text: &str) -> Option<Far<'_>> {
    let (near, rest) = text.split_once('"')?;
    let (description, _) = rest.rsplit_once("\" (")?;
    let (rest, lid, port) = numbered(near)?;
    Some(Far {
        guid: guid(rest),
        lid,
        port,
        description,
    })
}

/// `… 5    1[  ] `: what stands before, the LID, the port.
fn numbered(text: &str) -> Option<(&str, u32, u8)> {
    let (text, _outside) = text.trim_end().strip_suffix(']')?.rsplit_once('[')?;
    let (text, port) = text.trim_end().rsplit_once(' ')?;
    let text = text.trim_end();
    let (before, lid) = text.rsplit_once(' ').unwrap_or(("", text));
    Some((before, lid.parse().ok()?, port.parse().ok()?))
}

/// LIDs and descriptions of the lines' near ends, by which far ends are found.
struct Directory<'a> {
    /// two GUIDs of one LID and description are one too many
    switches: BTreeMap<(u32, &'a str), BTreeSet<Option<u64>>>,
    nics: BTreeMap<(u32, &'a str, u8), BTreeSet<Option<u64>>>,
    routers: BTreeSet<(u32, &'a str)>,
    /// GUIDs with more than one port: a NIC's ports have GUIDs of their own, all ports of a switch have its
    many_ports: BTreeSet<u64>,
}

impl<'a> Directory<'a> {
    fn new(lines: &[Line<'a>]) -> Directory<'a> {
        let mut ports: BTreeMap<u64, u8> = BTreeMap::new();
        let mut many_ports = BTreeSet::new();
        let far = lines
            .iter()
            .filter_map(|line| line.far.as_ref())
            .map(|far| (far.guid, far.port));
        for (guid, port) in lines.iter().map(|line| (line.guid, line.port)).chain(far) {
            let Some(guid) = guid else { continue };
            if *ports.entry(guid).or_insert(port) != port {
                many_ports.insert(guid);
            }
        }
        let mut directory = Directory {
            switches: BTreeMap::new(),
            nics: BTreeMap::new(),
            routers: BTreeSet::new(),
            many_ports,
        };
        for line in lines {
            match directory.kind(line.kind, line.guid) {
                EndKind::Switch => {
                    directory
                        .switches
                        .entry((line.lid, line.description))
                        .or_default()
                        .insert(line.guid);
                }
                EndKind::Nic => {
                    directory
                        .nics
                        .entry((line.lid, line.description, line.port))
                        .or_default()
                        .insert(line.guid);
                }
                EndKind::Router => {
                    directory.routers.insert((line.lid, line.description));
                }
            }
        }
        directory
    }

    fn kind(&self, kind: Option<EndKind>, guid: Option<u64>) -> EndKind {
        kind.unwrap_or_else(|| match guid {
            Some(guid) if self.many_ports.contains(&guid) => EndKind::Switch,
            _ => EndKind::Nic,
        })
    }

    /// The far end of a line; `None` where several have its LID and description.
    fn end(&self, near: EndKind, far: &Far<'a>) -> Option<End<'a>> {
        let end = |kind, guid| {
            Some(End {
                kind,
                guid,
                lid: Some(far.lid),
                port: far.port,
                description: far.description,
            })
        };
        if far.guid.is_some() {
            return end(self.kind(None, far.guid), far.guid);
        }
        let only = |guids: &BTreeSet<Option<u64>>| {
            (guids.len() == 1).then(|| guids.first().copied().flatten())
        };
        if let Some(guids) = self.switches.get(&(far.lid, far.description)) {
            return end(EndKind::Switch, only(guids)?);
        }
        if let Some(guids) = self.nics.get(&(far.lid, far.description, far.port)) {
            return end(EndKind::Nic, only(guids)?);
        }
        if self.routers.contains(&(far.lid, far.description)) {
            return end(EndKind::Router, None);
        }
        // with --switches-only each switch has its lines, and what has none is a NIC
        end(
            if near == EndKind::Switch {
                EndKind::Nic
            } else {
                EndKind::Switch
            },
            None,
        )
    }
}

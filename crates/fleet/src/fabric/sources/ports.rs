//! The text of `ibnetdiscover -p`: a line for each port of each switch and NIC.
//!
//! The lines are those of `dump_ports_report` in rdma-core's infiniband-diags/ibnetdiscover.c: kind, LID, port, GUID, width and
//! speed of either end, and the descriptions of both.  The second port here has no link:
//!
//! ```text
//! CA     5  1 0x0000000a00000001 4x NDR - SW     1  1 0x0000000000900000 ( 'node1 mlx5_0' - 'MF0;leaf0:MQM9700/U1' )
//! SW     1  2 0x0000000000900000 4x SDR                                    'MF0;leaf0:MQM9700/U1'
//! ```
#![forbid(unsafe_code)]

use super::super::cabling::Cabling;
use super::Notes;
use super::infiniband::{End, EndKind, Links, guid};

/// Is a line of this format?
pub fn is_own(line: &str) -> bool {
    end(line).is_some()
}

pub fn read(text: &str, notes: &mut Notes, into: &mut Cabling) {
    let mut links = Links::default();
    for (at, line) in text.lines().enumerate() {
        match link(line) {
            Some((near, far)) => links.add(near, far),
            None if line.trim().is_empty() || line.starts_with('#') => {}
            None => links.odd(at + 1, line),
        }
    }
    links.finish(notes, into);
}

fn link(line: &str) -> Option<(End<'_>, Option<End<'_>>)> {
    let (near, rest) = end(line)?;
    let (_width, rest) = word(rest)?;
    let (_speed, rest) = word(rest)?;
    let rest = rest.trim();
    let Some(far) = rest.strip_prefix("- ") else {
        let description = rest.strip_prefix('\'')?.strip_suffix('\'')?;
        return Some((
            End {
                description,
                ..near
            },
            None,
        ));
    };
    let (far, rest) = end(far)?;
    let names = rest.trim().strip_prefix("( '")?.strip_suffix("' )")?;
    let (near_name, far_name) = names.split_once("' - '")?;
    let (near, far) = (
        End {
            description: near_name,
            ..near
        },
        End {
            description: far_name,
            ..far
        },
    );
    Some((near, Some(far)))
}

/// EndKind, LID, port and GUID, and what follows; the description stands elsewhere.
fn end(text: &str) -> Option<(End<'_>, &str)> {
    let (kind, rest) = word(text)?;
    let kind = match kind {
        "SW" => EndKind::Switch,
        "CA" => EndKind::Nic,
        "RT" => EndKind::Router,
        _ => return None,
    };
    let (_lid, rest) = word(rest)?;
    let (port, rest) = word(rest)?;
    let (own, rest) = word(rest)?;
    let own = guid(own.strip_prefix("0x")?)?;
    Some((
        End {
            kind,
            guid: Some(own),
            lid: None,
            port: port.parse().ok()?,
            description: "",
        },
        rest,
    ))
}

/// The first word, and what follows.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    (!text.is_empty()).then(|| text.split_once(' ').unwrap_or((text, "")))
}

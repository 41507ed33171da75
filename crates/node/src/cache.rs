//! The node file: a topology in binary form, with facts that show whether it is current.
//!
//! A line with the version comes first, then a CRC-32, then the content. `nic-placement refresh`
//! writes it for a plugin of the same version; `nic-placement show --topology FILE` prints it.

use crate::discover::registered::Registered;
use nic_placement_topology::{Provenance, Topology, file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

pub const MAGIC: &[u8] = b"nic-placement node file ";
/// The release, and a number that grows with each change of the format.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-4");
/// Most bytes: as for a topology file, plus 1 MiB for `registered` and `links`.
pub const MAX_BYTES: usize = file::MAX_BYTES + 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// `/proc/sys/kernel/random/boot_id`, new at each boot
    pub boot_id: String,
    /// seconds of `CLOCK_BOOTTIME`, which cannot be set back
    pub boottime: u64,
    /// date and time for people
    pub time: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    pub stamp: Stamp,
    pub registered: Registered,
    /// `operstate` by network interface
    pub links: BTreeMap<String, String>,
    pub topology: Topology,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadNodeFile {
    /// does not begin with [`MAGIC`]
    Foreign,
    /// the version in the file
    Version(String),
    /// content does not fit its checksum or the format
    Damaged,
}

impl fmt::Display for BadNodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadNodeFile::Foreign => {
                "it is no node file: expected one that `nic-placement refresh` wrote"
            }
            BadNodeFile::Version(found) => {
                return write!(
                    f,
                    "it is a node file of version `{found}`, expected `{VERSION}`"
                );
            }
            BadNodeFile::Damaged => "it is damaged: its checksum is that of other bytes",
        })
    }
}

impl std::error::Error for BadNodeFile {}

/// Parses a node file. A check of the topology would double the time, and is not needed: `refresh`
/// writes only consistent topologies, and a step reads only root's files.
pub fn from_bytes(bytes: &[u8], provenance: Provenance) -> Result<NodeFile, BadNodeFile> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(BadNodeFile::Foreign)?;
    let own = rest.strip_prefix(VERSION.as_bytes());
    let Some(rest) = own.and_then(|rest| rest.strip_prefix(b"\n")) else {
        let version = rest.iter().take(32).map(|&byte| char::from(byte));
        let version = version.take_while(char::is_ascii_graphic);
        return Err(BadNodeFile::Version(version.collect()));
    };
    let (checksum, content) = rest.split_first_chunk().ok_or(BadNodeFile::Damaged)?;
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return Err(BadNodeFile::Damaged);
    }
    match postcard::take_from_bytes::<NodeFile>(content) {
        Ok((mut node, [])) => {
            node.topology.provenance = provenance;
            Ok(node)
        }
        _ => Err(BadNodeFile::Damaged),
    }
}

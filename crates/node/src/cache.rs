//! The node file: the node as it was read a while ago, with what tells whether it is still so.
//!
//! A cache between the tool and the plugin of one version, not a format for people: a line that names the version, a checksum,
//! and what is known in a binary form.  `nic-placement show --topology FILE` shows what is in it.
#![forbid(unsafe_code)]

use crate::discover::registered::Registered;
use nic_placement_topology::{Provenance, Topology, file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

const MAGIC: &[u8] = b"nic-placement node file ";
/// The release, after [`MAGIC`], and a number that grows with each change of the format.  Only a file of the same
/// version is read.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-4");
/// Bytes, at most: a topology file, and a line for each device.
pub const MAX_BYTES: usize = file::MAX_BYTES + 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// `/proc/sys/kernel/random/boot_id`: the kernel draws it anew at each boot
    pub boot_id: String,
    /// `CLOCK_BOOTTIME` in seconds, which no one can set back
    pub boottime: u64,
    /// for people
    pub time: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFile {
    pub stamp: Stamp,
    /// devices that the kernel had registered
    pub registered: Registered,
    /// interfaces of ports, with their `operstate`
    pub links: BTreeMap<String, String>,
    pub topology: Topology,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadNodeFile {
    /// no node file
    Foreign,
    /// another version's
    Version(String),
    /// cut off, or changed
    Damaged,
}

impl fmt::Display for BadNodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadNodeFile::Foreign => {
                f.write_str("it is no node file: expected one that `nic-placement refresh` wrote")
            }
            BadNodeFile::Version(found) => {
                write!(
                    f,
                    "it is a node file of version `{found}`, expected `{VERSION}`"
                )
            }
            BadNodeFile::Damaged => {
                f.write_str("it is damaged: its checksum is that of other bytes")
            }
        }
    }
}

impl std::error::Error for BadNodeFile {}

pub fn is_node_file(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a node file; `provenance` says where the bytes are from.
///
/// A step reads root's files alone, and `refresh` writes consistent topologies only ([`super::kept::make`]): a step
/// does not check that again, which took half of the time.
pub fn from_bytes(bytes: &[u8], provenance: Provenance) -> Result<NodeFile, BadNodeFile> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(BadNodeFile::Foreign)?;
    let Some(rest) = rest
        .strip_prefix(VERSION.as_bytes())
        .and_then(|rest| rest.strip_prefix(b"\n"))
    else {
        let version = rest
            .iter()
            .take(32)
            .take_while(|byte| byte.is_ascii_graphic());
        return Err(BadNodeFile::Version(
            version.map(|&byte| char::from(byte)).collect(),
        ));
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

/// Writes a node file, the same bytes for the same node.
pub fn to_bytes(node: &NodeFile) -> Vec<u8> {
    // this cannot fail: the length of every list is known, and a Vec takes all bytes
    sealed(&postcard::to_allocvec(node).expect("a node can always be written"))
}

pub fn sealed(content: &[u8]) -> Vec<u8> {
    let checksum = crc32fast::hash(content).to_le_bytes();
    [MAGIC, VERSION.as_bytes(), b"\n", &checksum, content].concat()
}

//! The node file: the node as it was read a while ago, with what tells whether it is still so.
//!
//! The topology in it is a topology file (`topology::file`), and the rest is about when and of what system it was made.
#![forbid(unsafe_code)]

use crate::diagnostic::Shown;
use crate::discover::registered::Registered;
use crate::topology::file::{self, Document};
use crate::topology::{Provenance, Topology};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What the field `format` of every node file says.
pub const FORMAT: &str = "nic-placement node";
/// The version that this code reads and writes; 1 had each registered entry by itself.
pub const VERSION: u64 = 2;
/// Bytes, at most: a topology file, and a line for each device.
pub const MAX_BYTES: usize = file::MAX_BYTES + 1024 * 1024;

/// When and where a node was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// `/proc/sys/kernel/random/boot_id`: the kernel draws it anew at each boot
    pub boot_id: String,
    /// seconds since that boot (`CLOCK_BOOTTIME`), which no one can set back
    pub boottime: u64,
    /// the time for people
    pub time: String,
}

/// A node file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// when and where
    pub stamp: Stamp,
    /// what the kernel had registered
    pub registered: Registered,
    /// interfaces of ports, with their `operstate`
    pub links: BTreeMap<String, String>,
    /// the node
    pub topology: Topology,
}

/// Why a text is no node file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadNodeFile {
    /// cut off, not JSON, or not these fields
    Json(String),
    /// another version
    Version(u64),
    /// its topology is none
    Topology(String),
}

impl fmt::Display for BadNodeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadNodeFile::Json(finding) => write!(f, "it is no node file: {finding}"),
            BadNodeFile::Version(found) => {
                write!(f, "it is a node file of version `{found}`: expected `{VERSION}`")
            }
            BadNodeFile::Topology(finding) => write!(f, "its `topology` is none: {finding}"),
        }
    }
}

impl std::error::Error for BadNodeFile {}

#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Schema<'a> {
    #[serde(rename = "format")]
    _format: String,
    #[serde(rename = "version")]
    _version: u64,
    boot_id: String,
    boottime: u64,
    time: String,
    name: String,
    #[serde(default)]
    supplied_by: Option<String>,
    registered: Registered,
    links: BTreeMap<String, String>,
    #[serde(borrow)]
    topology: Document<'a>,
}

/// Does the text call itself a node file?
pub fn is_node_file(text: &str) -> bool {
    let header = serde_json::from_str::<Header>(text);
    header.is_ok_and(|header| header.format.as_deref() == Some(FORMAT))
}

/// Reads a node file.
pub fn from_json(text: &str, provenance: Provenance) -> Result<NodeFile, BadNodeFile> {
    let schema: Schema = match serde_json::from_str(text) {
        Ok(schema) => schema,
        Err(error) => return Err(refusal(text, &error)),
    };
    if (schema._format.as_str(), schema._version) != (FORMAT, VERSION) {
        return Err(refusal(text, &"another format"));
    }
    let topology = schema.topology.topology(provenance);
    let mut topology = topology.map_err(|bad| BadNodeFile::Topology(bad.to_string()))?;
    topology.supplied_by = schema.supplied_by;
    // as the machine says it, which a topology file may not
    topology.name = schema.name.chars().filter(|letter| !letter.is_control()).take(file::MAX_TEXT).collect();
    Ok(NodeFile {
        stamp: Stamp { boot_id: schema.boot_id, boottime: schema.boottime, time: schema.time },
        registered: schema.registered,
        links: schema.links,
        topology,
    })
}

/// What is wrong with it: of a newer file its version, not the fields that it adds.
fn refusal(text: &str, finding: &dyn fmt::Display) -> BadNodeFile {
    match serde_json::from_str::<Header>(text) {
        Ok(Header { format: Some(format), version: Some(version) })
            if format == FORMAT && version != VERSION =>
        {
            BadNodeFile::Version(version)
        }
        Ok(Header { format, .. }) if format.as_deref() != Some(FORMAT) => {
            BadNodeFile::Json(format!("`format` does not say `{FORMAT}`"))
        }
        // the parser quotes unknown fields, which may be unsafe for a terminal
        _ => BadNodeFile::Json(Shown::message(&finding.to_string(), 200).to_string()),
    }
}

#[derive(Serialize)]
struct Head<'a> {
    format: &'a str,
    version: u64,
    boot_id: &'a str,
    boottime: u64,
    time: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    supplied_by: Option<&'a str>,
    registered: &'a Registered,
    links: &'a BTreeMap<String, String>,
}

/// Writes a node file: a line for each thing, the same bytes for the same node.
pub fn to_json(node: &NodeFile) -> String {
    let NodeFile { stamp, registered, links, topology } = node;
    let head = Head {
        format: FORMAT,
        version: VERSION,
        boot_id: &stamp.boot_id,
        boottime: stamp.boottime,
        time: &stamp.time,
        name: &topology.name,
        supplied_by: topology.supplied_by.as_deref(),
        registered,
        links,
    };
    // string keys and a Vec leave no way to fail
    let head = serde_json::to_string_pretty(&head).expect("a node file is always valid JSON");
    let topology = file::to_json(topology);
    format!("{},\n  \"topology\": {}\n}}\n", head.trim_end_matches("\n}"), topology.trim_end())
}

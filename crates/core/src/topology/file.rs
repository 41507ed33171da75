//! The versioned JSON file that holds a topology, for the plugin and for exchange.
//!
//! The file's types (`schema`) are separate from the node's, so either may change alone.  [`from_json`]
//! returns only consistent topologies: no name, address or CPU occurs twice, every reference resolves, every
//! parent leads to a host bridge.  It refuses others with one line that says where and what was expected
//! instead.
#![forbid(unsafe_code)]

mod function;
mod read;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod values;
mod write;

use super::{Provenance, Topology};
use crate::diagnostic::Shown;
use std::fmt;

/// The field `format` of every topology file.
pub const FORMAT: &str = "nic-placement topology";
/// The version that this code reads and writes; it grows when an older reader would misread a newer file.
pub const VERSION: u64 = 1;

/// Bytes of a file, which the plugin reads inside slurmstepd: 190 times the built-in DGX H100.
pub const MAX_BYTES: usize = 4 << 20;
/// NUMA nodes, and one above their largest number: the largest `CONFIG_NODES_SHIFT` of Linux is 10.
pub const MAX_NUMA_NODES: usize = 1024;
/// Cores: no more than there can be CPUs ([`super::Bitmap::LIMIT`]).
pub const MAX_CORES: usize = 8192;
/// PCI functions: every GPU and NIC allowed, each below seven bridges of its own.
pub const MAX_PCI: usize = 4096;
/// GPUs: sixteen times the 16 of the largest nodes; the assignment's cost grows with them.
pub const MAX_GPUS: usize = 256;
/// MIG instances of a GPU: a GPU of today has 7 slices, so 7 instances at most.
pub const MAX_MIG_INSTANCES: u32 = 64;
/// NICs: as many as GPUs; more are virtual functions, which placement does not deal out.
pub const MAX_NICS: usize = 256;
/// Ports of a NIC: adapters have one or two; the kernel would allow 255.
pub const MAX_PORTS: usize = 16;
/// Network interfaces of a NIC: one for each port and some VLANs.
pub const MAX_NETDEVS: usize = 64;
/// IPv4 networks of a port: one or a few; on a node that also routes, as many as its routing table has.
pub const MAX_NETWORKS: usize = 16 * 1024;
/// Characters of free text (GPU models, sources): a few lines on a terminal.
pub const MAX_TEXT: usize = 1024;
/// Lanes of a PCIe link: the register has six bits (Link Status, "Negotiated Link Width").
pub const MAX_WIDTH: u32 = 63;
/// Tenths of GT/s of a PCIe lane: eight times PCIe 7.0, and far from overflow when multiplied by lanes.
pub const MAX_TENTHS_GT: u32 = 10_000;
/// Mbit/s of a port: 100 Tbit/s, so that no sum over ports overflows.
pub const MAX_RATE_MBPS: u64 = 100_000_000;

/// Why a text is not a topology; places are JSON paths such as `gpus[3].address`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadTopology {
    /// more than [`MAX_BYTES`]
    TooLarge {
        /// how many there are
        bytes: usize,
    },
    /// not JSON, or a field is unknown, missing, repeated or of another type
    Json {
        /// line, from 1
        line: usize,
        /// column, from 1
        column: usize,
        /// what the parser says
        finding: String,
    },
    /// `format` is missing or names something else
    Format {
        /// what it says
        found: Option<String>,
    },
    /// `version` is missing or not [`VERSION`]
    Version {
        /// what it says
        found: Option<u64>,
    },
    /// a list is longer than its bound
    TooMany {
        /// where
        place: String,
        /// how many there are
        count: usize,
        /// how many may be
        most: usize,
    },
    /// a value does not fit its field
    Value {
        /// where
        place: String,
        /// the value, cut to 80 characters
        value: String,
        /// what was expected instead
        expected: String,
    },
    /// something that must be unique occurs twice
    Twice {
        /// where the second one is
        place: String,
        /// what occurs twice
        value: String,
        /// where the first one is
        first: String,
    },
    /// a reference to something that the file does not hold
    Dangling {
        /// where
        place: String,
        /// what it refers to
        value: String,
        /// the list that should hold it
        list: &'static str,
    },
    /// the bridges above a PCI function lead back to one of them
    Circle {
        /// where
        place: String,
        /// the function
        value: String,
    },
}

impl fmt::Display for BadTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadTopology::TooLarge { bytes } => {
                write!(f, "found `{bytes}` bytes, expected at most `{MAX_BYTES}`")
            }
            BadTopology::Json { line, column, finding } => {
                write!(f, "line {line} column {column}: {finding}")
            }
            BadTopology::Format { found: Some(found) } => {
                write!(f, "`format`: found `{}`, expected `{FORMAT}`", printable(found, 80))
            }
            BadTopology::Format { found: None } => write!(f, "`format`: missing, expected `{FORMAT}`"),
            BadTopology::Version { found: Some(found) } => {
                write!(f, "`version`: found `{found}`, expected `{VERSION}`")
            }
            BadTopology::Version { found: None } => write!(f, "`version`: missing, expected `{VERSION}`"),
            BadTopology::TooMany { place, count, most } => {
                write!(f, "`{place}`: found `{count}` entries, expected at most `{most}`")
            }
            BadTopology::Value { place, value, expected } => {
                write!(f, "`{place}`: found `{value}`, expected {expected}")
            }
            BadTopology::Twice { place, value, first } => {
                write!(f, "`{place}`: found `{value}`, which `{first}` has already, expected it once")
            }
            BadTopology::Dangling { place, value, list } => {
                write!(f, "`{place}`: found `{value}`, expected one that is listed in `{list}`")
            }
            BadTopology::Circle { place, value } => {
                write!(
                    f,
                    "`{place}`: the bridges above `{value}` form a circle, expected a host bridge above"
                )
            }
        }
    }
}

impl std::error::Error for BadTopology {}

impl From<serde_json::Error> for BadTopology {
    fn from(error: serde_json::Error) -> BadTopology {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let finding = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        // the parser quotes unknown fields from the input, which may be unsafe for a terminal
        BadTopology::Json { line, column, finding: printable(finding, 400) }
    }
}

/// `text` as one line of at most `most` characters, and whether that is all.
fn printable(text: &str, most: usize) -> String {
    let more = if text.chars().nth(most).is_some() { "…" } else { "" };
    format!("{}{more}", Shown::message(text, most))
}

/// Reads a topology; `provenance` says where the text is from.
pub fn from_json(text: &str, provenance: Provenance) -> Result<Topology, BadTopology> {
    read::topology(parse(text)?, provenance)
}

/// The sources that a topology file names for its facts.
pub fn sources(text: &str) -> Result<Vec<String>, BadTopology> {
    let file = parse(text)?;
    read::check_sources(&file.sources)?;
    Ok(file.sources.iter().map(|source| source.to_string()).collect())
}

/// Writes a topology: one line for each core, PCI function, GPU and NIC, the same bytes for the same
/// topology.
///
/// [`from_json`] reads it back if the topology is consistent; one from a broken `/sys` may not be.
pub fn to_json(topology: &Topology) -> String {
    to_json_with_sources(topology, &[])
}

/// Writes a topology with a note of where its facts come from.
pub fn to_json_with_sources(topology: &Topology, sources: &[String]) -> String {
    write::json(&write::file(topology, sources))
}

/// A topology file that stands inside another JSON.
#[derive(serde::Deserialize)]
#[serde(transparent)]
pub struct Document<'a>(#[serde(borrow)] schema::File<'a>);

impl Document<'_> {
    /// The topology in it.
    pub fn topology(self, provenance: Provenance) -> Result<Topology, BadTopology> {
        let Document(file) = self;
        if &*file.format != FORMAT {
            return Err(BadTopology::Format { found: Some(file.format.to_string()) });
        }
        if file.version != VERSION {
            return Err(BadTopology::Version { found: Some(file.version) });
        }
        read::topology(file, provenance)
    }
}

fn parse(text: &str) -> Result<schema::File<'_>, BadTopology> {
    if text.len() > MAX_BYTES {
        return Err(BadTopology::TooLarge { bytes: text.len() });
    }
    // the header first: a newer file is refused for its version, not for the fields it adds
    let header: schema::Header = serde_json::from_str(text)?;
    if header.format.as_deref() != Some(FORMAT) {
        return Err(BadTopology::Format { found: header.format });
    }
    if header.version != Some(VERSION) {
        return Err(BadTopology::Version { found: header.version });
    }
    Ok(serde_json::from_str(text)?)
}

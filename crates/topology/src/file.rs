//! The topology file: versioned JSON that holds a node, for the plugin, for people and for exchange.
//!
//! [`Document`] says what stands in it, and the node file has the same in binary.  A file becomes only a consistent topology: no
//! name, address or CPU occurs twice, every reference resolves, every parent leads to a host bridge.  Others are refused with
//! one line that says where and what was expected instead.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod cores;
mod function;
#[cfg(test)]
mod tests;
mod write;

use super::text::printable;
use super::{
    Bitmap, Gpu, Nic, NumaNode, PathType, PciAddress, PciFunction, Processor, Provenance, Topology,
    package_of,
};
use serde::{Deserialize, Serialize};
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
const MAX_CORES: usize = 8192;
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
/// Mbit/s of a port: 100 Tbit/s, so that no sum over ports overflows.
pub const MAX_RATE_MBPS: u64 = 100_000_000;

/// Why a text is not a topology, in one line: where, what stands there, what was expected.  A place is a line and a column, or
/// a JSON path such as `gpus[3].address`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTopology(String);

impl fmt::Display for BadTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadTopology {}

impl From<serde_json::Error> for BadTopology {
    fn from(error: serde_json::Error) -> BadTopology {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let finding = text
            .strip_suffix(&format!(" at line {line} column {column}"))
            .unwrap_or(&text);
        // the parser quotes unknown fields from the input, which may be unsafe for a terminal
        BadTopology(format!(
            "line {line} column {column}: {}",
            printable(finding, 400)
        ))
    }
}

/// What stands in a topology file, in the order of the file; only what is in it by itself is checked here.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    format: String,
    version: u64,
    name: String,
    /// free text: where the facts come from
    #[serde(default)]
    sources: Vec<String>,
    processor: Option<Processor>,
    #[serde(default)]
    numa_nodes: Vec<NodeRow>,
    #[serde(default)]
    pus: Vec<Core>,
    #[serde(default)]
    pci: Vec<PciFunction>,
    #[serde(default)]
    gpus: Vec<Gpu>,
    #[serde(default)]
    nics: Vec<Nic>,
    /// kinds of paths that take precedence over the PCI tree
    #[serde(default)]
    paths: Vec<StatedPath>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeRow {
    os_index: u32,
    cpus: Bitmap,
    /// to every node in order of os index, in whatever order the file lists the nodes
    #[serde(default)]
    distances: Vec<u32>,
    /// the package of its first CPU; absent if `pus` say it, or if unknown.  -1 is unknown although `pus` say one: a
    /// kernel that knows no packages calls all of them 0
    package: Option<i64>,
}

/// The logical CPUs of one core, or of several in a row: a processor has a hundred that differ by a number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Core {
    package: u32,
    /// the first one's number; each other's is one above the one before it
    core: u32,
    /// the first one's
    pus: Bitmap,
    /// how many cores in a row; absent for one
    cores: Option<u32>,
    /// by how much each one's CPUs are above those of the one before it; absent for one
    step: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedPath {
    gpu: PciAddress,
    nic: PciAddress,
    path: PathType,
}

impl Document {
    /// What is written of a topology, and a note of where its facts come from.
    pub fn of(topology: &Topology, sources: &[String]) -> Document {
        let numa_nodes = topology.numa_nodes.iter().map(|node| NodeRow {
            os_index: node.os_index,
            cpus: node.cpus.clone(),
            distances: node.distances.clone(),
            package: match (node.package, package_of(&topology.pus, &node.cpus)) {
                (own, of_cpus) if own == of_cpus => None,
                (own, _) => Some(own.map_or(-1, i64::from)),
            },
        });
        let paths = topology.stated_paths.iter();
        Document {
            format: FORMAT.to_string(),
            version: VERSION,
            name: one_line(&topology.name),
            sources: sources.to_vec(),
            processor: topology.processor.clone(),
            numa_nodes: numa_nodes.collect(),
            pus: cores::rows(&topology.pus),
            pci: topology.pci.iter().cloned().collect(),
            gpus: topology.gpus.clone(),
            nics: topology.nics.clone(),
            paths: paths
                .map(|(&(gpu, nic), &path)| StatedPath { gpu, nic, path })
                .collect(),
        }
    }

    /// The topology in it; `provenance` says where the file is from.
    pub fn topology(self, provenance: Provenance) -> Result<Topology, BadTopology> {
        check::topology(self, provenance)
    }

    fn parse(text: &str) -> Result<Document, BadTopology> {
        /// What every version of the file has.
        #[derive(Deserialize)]
        struct Header {
            format: Option<String>,
            version: Option<u64>,
        }
        if text.len() > MAX_BYTES {
            return Err(BadTopology(format!(
                "found `{}` bytes, expected at most `{MAX_BYTES}`",
                text.len()
            )));
        }
        // the header first: a newer file is refused for its version, not for the fields it adds
        let Header { format, version } = serde_json::from_str(text)?;
        check::header(format.as_deref(), version)?;
        Ok(serde_json::from_str(text)?)
    }
}

/// A name as a file can hold it: a broken firmware may say anything.
fn one_line(name: &str) -> String {
    let kept: String = name
        .chars()
        .filter(|letter| !letter.is_control())
        .take(MAX_TEXT)
        .collect();
    if kept.is_empty() {
        "node".to_string()
    } else {
        kept
    }
}

/// Reads a topology; `provenance` says where the text is from.
pub fn from_json(text: &str, provenance: Provenance) -> Result<Topology, BadTopology> {
    Document::parse(text)?.topology(provenance)
}

/// The sources that a topology file names for its facts.
pub fn sources(text: &str) -> Result<Vec<String>, BadTopology> {
    let file = Document::parse(text)?;
    check::sources(&file.sources)?;
    Ok(file.sources)
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
    write::text(&Document::of(topology, sources))
}

//! The topology file: versioned JSON of a compute node, for the plugin and people.
//!
//! A file is consistent if NIC names, PCI functions and CPUs are unique, references resolve, and
//! parents lead to a host bridge. Any other file is refused ([`BadTopology`]).
#![warn(missing_docs)]

mod check;
mod cores;
mod function;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../formats/src/file.rs"]
mod write;

use super::text::printable;
use super::{
    Bitmap, Gpu, Nic, NumaNode, PathType, PciAddress, PciFunction, Processor, Provenance, Topology,
    package_of,
};
pub use function::FIELDS as FUNCTION_FIELDS;
use serde::Deserialize;
use std::fmt;

/// `format` of every topology file.
pub const FORMAT: &str = "nic-placement topology";
/// `version`, which grows when an older reader would misread a newer file.
pub const VERSION: u64 = 1;

/// Most bytes of a file, which slurmstepd reads into memory: 200 times the largest built-in model.
pub const MAX_BYTES: usize = 4 << 20;
/// Most NUMA nodes, numbered below this: Linux's `CONFIG_NODES_SHIFT` is at most 10.
pub const MAX_NUMA_NODES: usize = 1024;
/// Most cores: one for each CPU below [`Bitmap::LIMIT`].
const MAX_CORES: usize = 8192;
/// Most PCI functions: all GPUs and NICs, each below seven bridges of its own.
pub const MAX_PCI: usize = 4096;
/// Most GPUs: four times 64, as 8 MI300X in CPX mode have; the assignment's cost grows with them.
pub const MAX_GPUS: usize = 256;
/// Most MIG instances of a GPU: today's GPUs have 7 slices, so at most 7 instances.
pub const MAX_MIG_INSTANCES: u32 = 64;
/// Most NICs: as many as GPUs; more would be virtual functions, which placement does not assign.
pub const MAX_NICS: usize = 256;
/// Most ports of a NIC: adapters have one or two; the kernel allows 255.
pub const MAX_PORTS: usize = 16;
/// Most network interfaces of a NIC: one per port, some VLANs.
pub const MAX_NETDEVS: usize = 64;
/// Most IPv4 networks of a port: usually a few, but on a router a whole routing table.
pub const MAX_NETWORKS: usize = 16 * 1024;
/// Most characters of free text, such as GPU models: a few lines on a terminal.
pub const MAX_TEXT: usize = 1024;
/// Most Mbit/s of a port: 100 Tbit/s, so sums over ports do not overflow.
pub const MAX_RATE_MBPS: u64 = 100_000_000;

/// One line: place, finding, expectation. The place is a line and column, or a JSON path such as
/// `gpus[3].address`.
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
        let place = format!("line {} column {}", error.line(), error.column());
        let text = error.to_string();
        let finding = text.strip_suffix(&format!(" at {place}")).unwrap_or(&text);
        // serde_json quotes unknown fields from the input, which may hold control characters
        BadTopology(format!("{place}: {}", printable(finding, 400)))
    }
}

/// A topology file's fields, before [`Document::topology`] checks them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    format: String,
    version: u64,
    name: String,
    /// free text: the origin of the facts
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
    /// [`Topology::stated_paths`]
    #[serde(default)]
    paths: Vec<StatedPath>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeRow {
    os_index: u32,
    cpus: Bitmap,
    /// to all NUMA nodes by os index, whatever the rows' order
    #[serde(default)]
    distances: Vec<u32>,
    /// Absent: the package of the node's first CPU in `pus`. -1: unknown, since the kernel puts all
    /// CPUs into package 0.
    package: Option<i64>,
}

/// One core, or consecutive cores.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Core {
    package: u32,
    /// the first core's number; each further core's is one more
    core: u32,
    /// the first core's CPUs
    pus: Bitmap,
    /// number of cores; absent for one
    cores: Option<u32>,
    /// difference between CPU numbers of consecutive cores; absent for 1
    step: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedPath {
    gpu: PciAddress,
    nic: PciAddress,
    path: PathType,
}

impl Document {
    /// Checks the fields.
    pub fn topology(self, provenance: Provenance) -> Result<Topology, BadTopology> {
        check::topology(self, provenance)
    }

    fn parse(text: &str) -> Result<Document, BadTopology> {
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
        // the header first: a newer file is refused for its version, not for its new fields
        let Header { format, version } = serde_json::from_str(text)?;
        check::header(format.as_deref(), version)?;
        Ok(serde_json::from_str(text)?)
    }
}

/// Parses and checks a topology file.
pub fn from_json(text: &str, provenance: Provenance) -> Result<Topology, BadTopology> {
    Document::parse(text)?.topology(provenance)
}

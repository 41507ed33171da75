//! The report of `nic-placement check --json`, which the audit reads back.

use nic_placement_core::diagnostic::Shown;
use nic_placement_core::placement::agreement::Agreement;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

pub const FORMAT: &str = "nic-placement check";
/// Grows when a field changes its meaning or goes, not with new fields.
pub const VERSION: u64 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub format: String,
    pub version: u64,
    /// Slurm's name of the node, else the host's up to its first dot; `null` for a described node
    pub host: Option<String>,
    /// the machine's model (`product_name` of its firmware), or the description's name
    pub machine: String,
    pub source: String,
    pub fail: usize,
    pub warn: usize,
    pub findings: Vec<Finding>,
    /// versions of `kernel`, `BIOS`, modules, and `nic-placement` itself
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// `default=` and `rollout=` for steps that do not ask, the nearest last; `null` where no line
    /// loads the plugin
    pub default: Option<String>,
    pub processor: Option<String>,
    pub agreement: Option<SaidAgreement>,
    /// NUMA nodes in order of the kernel's number
    pub numa_nodes: Vec<NumaReport>,
    pub gpus: Vec<GpuReport>,
    pub nics: Vec<NicReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaidAgreement {
    pub digest: String,
    #[serde(flatten)]
    pub word: Agreement,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    pub level: Level,
    pub code: String,
    /// its subject, if its text has a figure that changes by the hour, such as an age
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub why: Option<String>,
    #[serde(
        default,
        rename = "do",
        skip_serializing_if = "Option::is_none",
        skip_deserializing
    )]
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// worth knowing: it may be meant so, or it is not known
    Note,
    Warn,
    /// this node is worse than its kind
    Fail,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad`, so that columns can give a width
        f.pad(match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warn => "warn",
            Level::Fail => "fail",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumaReport {
    pub node: u32,
    pub cpus: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuReport {
    /// its PCI function; `null` if its description has none
    pub address: Option<String>,
    /// the driver's name for it, else PCI vendor and device
    pub model: Option<String>,
    pub partition: Option<u32>,
    pub mig_instances: Option<u32>,
    pub numa_node: Option<u32>,
    pub link: Option<LinkReport>,
    /// `Video BIOS` and `GPU Firmware` of `/proc/driver/nvidia/gpus`
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// the ports that it is given, such as `mlx5_0:1`
    pub nics: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NicReport {
    /// the device's name, such as `mlx5_0`
    pub name: String,
    /// the interface that programs use: `verbs`, `efa`, `slingshot`, `ethernet`
    pub kind: String,
    pub address: Option<String>,
    pub model: Option<String>,
    /// the maker's name for the card (`board_id`), such as `MT_0000000838`
    pub board: Option<String>,
    pub firmware: Option<String>,
    pub numa_node: Option<u32>,
    pub link: Option<LinkReport>,
    /// the shortest path to a GPU, in the words of `nvidia-smi topo -m`
    pub nearest: Option<String>,
    /// the device's GUID (`node_guid`), as the kernel writes it: `b859:9f03:00d4:1a2e`
    pub guid: Option<String>,
    pub ports: Vec<PortReport>,
}

/// A PCIe link as its lower end reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// the present speed, such as `32.0 GT/s`; a GPU that idles slows it down
    pub speed: String,
    pub width: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortReport {
    pub number: u8,
    /// `active`, `down`, `init`, `armed`, `unknown`
    pub state: String,
    /// Mbit/s
    pub rate_mbps: Option<u64>,
    pub link_layer: String,
    pub subnet: Option<String>,
    /// the port's GUID in InfiniBand: the second half of its first GID
    pub guid: Option<String>,
    pub interface: Option<String>,
    /// the other end of its cable, by the node's agent of LLDP
    pub neighbour: Option<NeighbourReport>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NeighbourReport {
    /// the switch's name, else its id
    pub switch: String,
    pub id: String,
    pub port: String,
}

/// Format and version; all else may be of another version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    format: String,
    version: u64,
}

impl Report {
    pub fn hear(&mut self, heard: &BTreeMap<String, NeighbourReport>) {
        for port in self.nics.iter_mut().flat_map(|nic| &mut nic.ports) {
            port.neighbour = port
                .interface
                .as_ref()
                .and_then(|interface| heard.get(interface))
                .cloned();
        }
    }

    pub fn to_json(&self) -> String {
        to_json(self)
    }

    pub fn from_json(text: &[u8]) -> Result<Report, String> {
        let why = |error: serde_json::Error| Shown::message(&error.to_string(), 120).to_string();
        let Head { format, version } = serde_json::from_slice(text).map_err(why)?;
        if format != FORMAT {
            let format = Shown::word(&format, 60);
            return Err(format!("`format` is `{format}`, expected `{FORMAT}`"));
        }
        if version != VERSION {
            return Err(format!("`version` is `{version}`, expected `{VERSION}`"));
        }
        serde_json::from_slice(text).map_err(why)
    }
}

pub fn to_json(answer: &impl Serialize) -> String {
    // JSON can hold all answers: their maps have texts as keys
    serde_json::to_string_pretty(answer).unwrap_or_default() + "\n"
}

//! A fabric as data: cables from NICs to switches, and links between switches, from whatever source tells them.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

/// One port of a node's NIC, by the names that a source has for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NicPort {
    /// the node, up to its first dot
    pub node: String,
    /// the RDMA device (`mlx5_0`), the network interface (`ens1f0np0`), or what else the source calls the NIC (`HCA-1`)
    pub nic: String,
    /// from 1; an interface is a port of its own, and has 1
    pub port: u8,
    /// the port's GUID in InfiniBand, 16 hexadecimal digits
    pub guid: Option<String>,
}

/// A port of a switch: the switch as a key of [`Cabling::switches`], and the port as the switch calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchPort {
    pub switch: String,
    pub port: String,
}

/// What is known of a NIC's port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cable {
    pub nic: NicPort,
    /// where its cable ends; `None` for a port without a link
    pub to: Option<SwitchPort>,
}

/// A fabric, or what several sources together say of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cabling {
    pub cables: BTreeSet<Cable>,
    /// cables of NICs whose node no source names: `nic.node` is empty, and only `nic.guid` tells which NIC it is
    pub unnamed: BTreeSet<Cable>,
    /// each switch by what identifies it (GUID, chassis id, else its name), with its name for people
    pub switches: BTreeMap<String, String>,
    /// links between switches, each once, the smaller end first
    pub trunks: BTreeSet<(SwitchPort, SwitchPort)>,
    /// does a source tell links between switches?  LLDP on nodes does not.
    pub tells_trunks: bool,
    /// `(switch, the one above it)` where a source tells no ports: Slurm's topology.conf and topology.yaml
    pub parents: BTreeSet<(String, String)>,
    /// leaves of nodes where a source tells no NICs: Slurm's topology.conf and topology.yaml
    pub leaves: BTreeMap<String, BTreeSet<String>>,
    /// what was odd in the sources, in their order
    pub notes: Vec<String>,
}

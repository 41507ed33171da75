//! A fabric as data: cables from NICs to switches, and links between switches.

use std::collections::{BTreeMap, BTreeSet};

/// One port of a node's NIC, by a source's names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NicPort {
    /// the node, up to its first dot; empty if the NIC's description names none
    pub node: String,
    /// the RDMA device (`mlx5_0`), the interface (`ens1f0np0`), or a source's own name (`HCA-1`)
    pub nic: String,
    /// from 1; an interface is a port of its own, and has 1
    pub port: u8,
    /// the port's GUID in InfiniBand, 16 hexadecimal digits
    pub guid: Option<String>,
}

/// A port of a switch: a key of [`Cabling::switches`], and the port as the switch calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SwitchPort {
    pub switch: String,
    pub port: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cable {
    pub nic: NicPort,
    pub to: SwitchPort,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cabling {
    pub cables: BTreeSet<Cable>,
    /// the name of each switch, by its GUID or chassis id, else by its name
    pub switches: BTreeMap<String, String>,
    /// switches that are linked, each pair once, the smaller first
    pub trunks: BTreeSet<(String, String)>,
    /// switches whose links are all known; LLDP on nodes tells none
    pub whole: BTreeSet<String>,
    pub notes: Vec<String>,
}

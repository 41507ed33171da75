//! Facts that must agree on all nodes of a job, since each node by itself numbers rails and writes
//! lists.

use super::{NodePlacement, Rail};
use crate::topology::{GpuVendor, NicKind, Topology};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// IPv4 networks are omitted: on a routed fabric they differ between racks or nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Agreement {
    pub version: String,
    /// such as `8 nvidia`; empty without GPUs. Models are omitted: only `audit` reads them
    pub gpus: String,
    /// rails by number, then the NICs of `left_to_libfabric`
    pub rails: Vec<RailWord>,
    /// excluded RDMA NICs and ports, and degraded rails
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RailWord {
    /// such as `mlx5_0:1`; a NIC that libfabric chooses has no port
    pub nic: String,
    /// InfiniBand's subnet prefix
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    /// such as `mlx5_4` or `mlx5_3:1`
    pub nic: String,
    /// one sentence, not compared
    pub why: String,
}

impl Agreement {
    pub fn of(topology: &Topology, node: &NodePlacement) -> Agreement {
        let subnet = |rail: &Rail| {
            let port = topology
                .nic(rail.nic)
                .ports
                .iter()
                .find(|port| port.number == rail.port)?;
            Some(port.subnet?.to_string())
        };
        let by_admin = node.numbered_by_admin.iter().map(|&rail| node.rail(rail));
        let rails: Vec<&Rail> = if node.numbered_by_admin.is_empty() {
            node.rails.iter().collect()
        } else {
            by_admin.collect()
        };
        let rails = rails.into_iter().map(|rail| RailWord {
            nic: rail.to_string(),
            subnet: subnet(rail),
        });
        let chosen = node.left_to_libfabric.iter();
        let chosen = chosen.map(|&nic| RailWord {
            nic: topology.nic(nic).name.to_string(),
            subnet: None,
        });
        let excluded = node.excluded.iter().filter(|of| {
            let kind = topology
                .nic_index(&of.name)
                .map(|nic| topology.nic(nic).kind);
            kind != Some(NicKind::Ethernet) && !node.is_left_to_libfabric(topology, &of.name)
        });
        let excluded = excluded.map(|of| LeftOut {
            nic: of
                .port
                .map_or(of.name.to_string(), |port| format!("{}:{port}", of.name)),
            why: of.why.clone(),
        });
        let slow = node.degraded.iter().map(|rail| LeftOut {
            nic: rail.to_string(),
            why: "its rate is below that of the others of its device: a list for all ranks may leave it out"
                .to_string(),
        });
        Agreement {
            version: env!("CARGO_PKG_VERSION").to_string(),
            gpus: gpus(topology),
            rails: rails.chain(chosen).collect(),
            left_out: excluded.chain(slow).collect(),
        }
    }

    /// The version, and a CRC-32 of all other fields except `why`; equal on nodes that agree.
    pub fn digest(&self) -> String {
        let mut text = self.gpus.clone();
        // writing to a string cannot fail
        for RailWord { nic, subnet } in &self.rails {
            let _ = write!(text, "\n{nic} {}", subnet.as_deref().unwrap_or_default());
        }
        text += "\n";
        for LeftOut { nic, .. } in &self.left_out {
            let _ = write!(text, "\n{nic}");
        }
        format!("{}-{:08x}", self.version, crc32fast::hash(text.as_bytes()))
    }
}

fn gpus(topology: &Topology) -> String {
    let count = |vendor| {
        topology
            .gpus
            .iter()
            .filter(|gpu| gpu.vendor == vendor)
            .count()
    };
    let counts = GpuVendor::ALL
        .map(|vendor| (count(vendor), vendor))
        .into_iter();
    let words = counts
        .filter(|(count, _)| *count > 0)
        .map(|(count, vendor)| format!("{count} {vendor}"));
    words.collect::<Vec<_>>().join(", ")
}

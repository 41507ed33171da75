//! The reason why each GPU has its NICs, and none of the others: one sentence for each pair.
//!
//! Under `closest` and `spread` a sentence about a NIC that was not chosen says what the node would lose if this GPU alone
//! moved there, in the first respect that the solver compares.  Under the other policies it names the rule that leaves the
//! NIC out.

use nic_placement_core::placement::{NodePlacement, RailIndex, RailUse};
use nic_placement_core::policy::explain::loss;
use nic_placement_core::policy::{Paths, RailSet};
use nic_placement_core::topology::{GpuIndex, PathType, Topology};
use nic_placement_core::wish::{Policy, Wish};
use serde::Serialize;

/// A GPU and a NIC's port, or a NIC as a whole that may not be chosen.
#[derive(Debug, Serialize)]
pub struct Pair {
    #[serde(rename = "name")]
    pub nic: String,
    /// `None` if the NIC as a whole may not be chosen
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u8>,
    /// `None` if the NIC has no PCI function
    pub path: Option<PathType>,
    /// the unshared path's bandwidth in Mbit/s; `None` if no rate is known or the NIC may not be chosen
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone_mbps: Option<u64>,
    /// Mbit/s; `None` if the GPU did not get the NIC
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_mbps: Option<u64>,
    pub users: usize,
    pub chosen: bool,
    #[serde(rename = "reason")]
    pub why: String,
}

/// Its own NICs, then the others in rail order, then those that may not be chosen.
pub fn pairs(node: &Topology, map: &NodePlacement, wish: &Wish, gpu: GpuIndex) -> Vec<Pair> {
    let rails_of: Vec<RailSet> = map
        .gpus
        .iter()
        .map(|gpu| gpu.choices.iter().map(|choice| choice.rail.0).collect())
        .collect();
    let ways = Paths::for_answer(node, &map.rails, &wish.admin.through, &rails_of);
    let own = &map.gpu(gpu).choices;
    let others = RailSet::first(map.rails.len()).minus(rails_of[gpu.0]);
    let mut answer = ways.answer(rails_of);
    let mut pair = |rail: RailIndex, choice: Option<&RailUse>| Pair {
        nic: map.rail(rail).name.to_string(),
        port: Some(map.rail(rail).port),
        path: Some(ways.kind(gpu, rail)),
        alone_mbps: ways.alone_mbps(gpu, rail),
        share_mbps: choice.and_then(|choice| choice.share_mbps),
        users: answer.users(rail.0),
        chosen: choice.is_some(),
        why: match map.policy {
            _ if choice.is_some() => map.gpu(gpu).reason.clone(),
            Policy::Closest | Policy::Spread if own.is_empty() => {
                "the job does not have this GPU".to_string()
            }
            Policy::Closest | Policy::Spread => loss(map, &ways, &mut answer, gpu, rail),
            Policy::Rail if answer.users(rail.0) == 0 => "it is no GPU's rail".to_string(),
            Policy::Rail => "it is another GPU's rail".to_string(),
            Policy::Numa => "it is on another NUMA node".to_string(),
            Policy::All => "it is not on this node".to_string(),
        },
    };
    let mut pairs: Vec<Pair> = own
        .iter()
        .map(|choice| pair(choice.rail, Some(choice)))
        .collect();
    pairs.extend(others.iter().map(|rail| pair(RailIndex(rail), None)));
    pairs.extend(map.excluded.iter().map(|excluded| {
        let nic = node.nic_index(&excluded.name);
        let address = nic.and_then(|nic| node.nic(nic).address);
        Pair {
            nic: excluded.name.to_string(),
            port: excluded.port,
            path: address.map(|address| node.path_type(node.gpu(gpu).address, address)),
            alone_mbps: None,
            share_mbps: None,
            users: 0,
            chosen: false,
            why: excluded.why.clone(),
        }
    }));
    pairs
}

//! Detours of the traffic between a GPU and a NIC: Access Control Services, the IOMMU.
//!
//! The right setting depends on the path. Behind one switch of a bare machine, packets should turn round in the switch, so
//! no port on the way may redirect them. A host of virtual machines wants redirection, and lets translated requests pass
//! directly. A guest sees none of that.  (rdma-core's kernel-boot/rdma_topo has the masks.)

use super::facts::HostFacts;
use super::{Examined, Judged, advice, listed, note, ok, one, or_ok, warn};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::topology::{Arch, Gpu, Nic, NicKind, PathType, PciAddress, Topology};
use std::collections::{BTreeMap, BTreeSet};

pub struct GpuWithNic<'a> {
    pub index: usize,
    pub gpu: &'a Gpu,
    pub nic: &'a Nic,
    pub at: PciAddress,
    pub port: u8,
    pub path: PathType,
}

pub fn pairs<'a>(subject: &'a Examined) -> Vec<GpuWithNic<'a>> {
    let (node, map) = (&*subject.plan.node, &subject.plan.map);
    let mut pairs = Vec::new();
    for (index, placement) in map.numbered_gpus() {
        for choice in &placement.choices {
            let rail = map.rail(choice.rail);
            let nic = node.nic(rail.nic);
            if let Some(at) = nic.address.filter(|_| nic.kind != NicKind::Ethernet) {
                pairs.push(GpuWithNic {
                    index: index.0,
                    gpu: node.gpu(index),
                    nic,
                    at,
                    port: rail.port,
                    path: choice.path,
                });
            }
        }
    }
    pairs
}

/// Ports between the two, below the lowest bridge above both; true: the port sends packets up to the root complex that its
/// switch could route back. `None` where only root may read that.
pub fn ports_between(
    node: &Topology,
    facts: &HostFacts,
    pair: &GpuWithNic,
) -> Vec<(PciAddress, Option<bool>)> {
    let of_gpu = node.pci.ancestors(pair.gpu.address).0;
    let of_nic = node.pci.ancestors(pair.at).0;
    let Some(common) = of_gpu.iter().find(|bridge| of_nic.contains(bridge)) else {
        return Vec::new();
    };
    let translates = facts.functions.get(&pair.at).is_some_and(|nic| nic.has_ats);
    let below = |all: &[PciAddress]| {
        let below = all.iter().take_while(|bridge| *bridge != common);
        let redirects = |bridge| Some(facts.functions.get(bridge)?.redirects(translates));
        below.map(|bridge| (*bridge, redirects(bridge))).collect()
    };
    let (of_gpu, of_nic): (Vec<_>, Vec<_>) = (below(&of_gpu), below(&of_nic));
    [of_gpu, of_nic].concat()
}

pub fn acs(subject: &Examined) -> Judged {
    let (facts, pairs) = (subject.facts?, pairs(subject));
    if pairs.is_empty() {
        return None;
    }
    if facts.is_virtual {
        return one(ok(
            "a guest's bridges tell nothing of the host's: not judged",
        ));
    }
    let mut ports: BTreeMap<PciAddress, Option<bool>> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| pair.path <= PathType::Pxb) {
        for (port, redirects) in ports_between(&subject.plan.node, facts, pair) {
            let known = ports.entry(port).or_default();
            *known = redirects.max(*known);
        }
    }
    let read = ports.values().flatten().count();
    let redirecting = ports.iter().filter(|(_, of)| **of == Some(true));
    let redirecting: Vec<String> = redirecting.map(|(port, _)| port.to_string()).collect();
    one(match redirecting.first() {
        Some(first) => warn(format!(
            "ports {} between GPUs and NICs send packets up to the root complex that could turn in the switch",
            listed(&redirecting)
        ))
        .about(first),
        None if ports.is_empty() => {
            ok("no GPU and its NIC share a switch: redirection costs nothing")
        }
        None if read > 0 => {
            let ports = counted(read, "port");
            ok(format!("{ports} between GPUs and NICs: none redirects"))
        }
        None if facts.is_live => note("only root may read the ports' configuration: not judged"),
        None => return None,
    })
}

/// True if the IOMMU translates the function's accesses (`iommu_group/type`).
pub fn is_translated(node: &Topology, address: PciAddress) -> Option<bool> {
    match node.pci.get(address)?.iommu.as_deref()? {
        "identity" => Some(false),
        "DMA" | "DMA-FQ" => Some(true),
        _ => None,
    }
}

/// True if translation is a detour: not on Arm, since its SMMU is made for that, nor in a guest.
pub fn translation_hurts(subject: &Examined) -> bool {
    let processor = subject.plan.node.processor.as_ref();
    let is_virtual = subject.facts.is_some_and(|facts| facts.is_virtual);
    processor.is_some_and(|processor| processor.arch == Arch::X86) && !is_virtual
}

pub fn iommu(subject: &Examined) -> Judged {
    let node = &*subject.plan.node;
    let pairs = pairs(subject).into_iter();
    let all: BTreeSet<PciAddress> = pairs.flat_map(|pair| [pair.gpu.address, pair.at]).collect();
    let of = |is: bool| {
        let addresses = all
            .iter()
            .filter(move |at| is_translated(node, **at) == Some(is));
        addresses.map(ToString::to_string).collect::<Vec<_>>()
    };
    let (direct, translated) = (of(false).len(), of(true));
    let Some(first) = translated.first() else {
        let good = format!("{direct} GPUs and NICs: not translated");
        return or_ok(Vec::new(), (direct > 0).then_some(good));
    };
    let text = format!(
        "GPUs and NICs {}: their DMA is translated",
        listed(&translated)
    );
    one(if translation_hurts(subject) {
        warn(text).about(first)
    } else {
        note(format!(
            "{text}, which an Arm processor and a guest may want"
        ))
    })
}

pub fn relaxed_ordering(subject: &Examined) -> Judged {
    let facts = subject.facts?;
    let nics: BTreeMap<String, bool> = pairs(subject)
        .iter()
        .filter_map(|pair| {
            let is_relaxed = facts.functions.get(&pair.at)?.is_relaxed?;
            Some((pair.nic.name.to_string(), is_relaxed))
        })
        .collect();
    let strict = nics.iter().filter(|(_, is_relaxed)| !**is_relaxed);
    let strict: Vec<String> = strict.map(|(nic, _)| nic.clone()).collect();
    let text = format!("NICs {}: packets must keep their order", listed(&strict));
    one(match (nics.len(), strict.len()) {
        (0, _) => return None,
        (all, 0) => ok(format!("{}: allowed", counted(all, "NIC"))),
        (all, few) if few * 2 < all => {
            warn(format!("{text}, and most others need not")).about(&strict[0])
        }
        _ => advice(text),
    })
}

//! Detours of the traffic between a GPU and a NIC: Access Control Services, the IOMMU, translations of devices.
//!
//! The right setting depends on the path. Behind one switch of a bare machine, packets should turn round in the switch, so
//! no port on the way may redirect them. A host of virtual machines wants redirection, and lets translated requests pass
//! directly. A guest sees none of that.  (rdma-core's kernel-boot/rdma_topo has the masks.)

use super::config_space::{
    COMPLETION_REDIRECT, ConfigSpace, DIRECT_TRANSLATED, REQUEST_REDIRECT, UPSTREAM_FORWARDING,
};
use super::facts::{Function, HostFacts};
use super::{Examined, Verdicts, advice, listed, note, ok, or_ok, warn};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::topology::{Arch, Gpu, Nic, PathType, PciAddress, Topology};
use std::collections::{BTreeMap, BTreeSet};

pub struct GpuWithNic<'a> {
    pub index: usize,
    pub gpu: &'a Gpu,
    pub nic: &'a Nic,
    pub port: u8,
    pub path: PathType,
}

pub fn pairs<'a>(subject: &'a Examined) -> Vec<GpuWithNic<'a>> {
    let (node, map) = (&*subject.plan.node, &subject.plan.map);
    let mut pairs = Vec::new();
    for (index, placement) in map.numbered_gpus() {
        for choice in &placement.choices {
            let rail = map.rail(choice.rail);
            let (gpu, nic) = (node.gpu(index), node.nic(rail.nic));
            if nic.address.is_some() && nic.kind != nic_placement_core::topology::NicKind::Ethernet
            {
                pairs.push(GpuWithNic {
                    index: index.0,
                    gpu,
                    nic,
                    port: rail.port,
                    path: choice.path,
                });
            }
        }
    }
    pairs
}

/// Below the lowest one above both, if there is one.
pub fn bridges_between(node: &Topology, a: PciAddress, b: PciAddress) -> Option<Vec<PciAddress>> {
    let (of_a, of_b) = (node.pci.ancestors(a).0, node.pci.ancestors(b).0);
    let common = of_a.iter().find(|bridge| of_b.contains(bridge))?;
    let below = |all: &[PciAddress]| {
        all.iter()
            .copied()
            .take_while(|bridge| bridge != common)
            .collect::<Vec<_>>()
    };
    Some([below(&of_a), below(&of_b)].concat())
}

fn config(facts: &HostFacts, address: PciAddress) -> Option<ConfigSpace> {
    facts.functions.get(&address)?.config
}

/// True: the port sends packets up to the root complex that its switch could route back.
pub fn redirects(config: ConfigSpace) -> bool {
    config.acs.is_some_and(|acs| {
        acs & (REQUEST_REDIRECT | COMPLETION_REDIRECT | UPSTREAM_FORWARDING) != 0
    })
}

fn shown(acs: u16) -> String {
    [
        "SrcValid",
        "TransBlk",
        "ReqRedir",
        "CmpltRedir",
        "UpstreamFwd",
        "EgressCtrl",
        "DirectTrans",
    ]
    .iter()
    .enumerate()
    .filter(|(bit, _)| acs & 1 << bit != 0)
    .map(|(_, name)| format!("{name}+"))
    .collect::<Vec<_>>()
    .join(" ")
}

fn behind_a_switch<'a>(subject: &'a Examined) -> Vec<GpuWithNic<'a>> {
    pairs(subject)
        .into_iter()
        .filter(|pair| pair.path <= PathType::Pxb)
        .collect()
}

pub fn acs(subject: &Examined) -> Verdicts {
    let Some(facts) = subject.facts else {
        return Vec::new();
    };
    let node = &*subject.plan.node;
    if self::pairs(subject).is_empty() {
        return Vec::new();
    }
    let pairs = behind_a_switch(subject);
    if facts.is_virtual || pairs.is_empty() {
        let text = if facts.is_virtual {
            "a guest's bridges tell nothing of the host's: not judged"
        } else {
            "no GPU and its NIC share a switch: redirection costs nothing"
        };
        return vec![ok(text)];
    }
    let (mut asked, mut read) = (BTreeSet::new(), BTreeSet::new());
    let mut redirecting: BTreeMap<PciAddress, u16> = BTreeMap::new();
    for pair in &pairs {
        let Some(address) = pair.nic.address else {
            continue;
        };
        let translates = config(facts, address).is_some_and(|nic| nic.has_ats());
        for bridge in bridges_between(node, pair.gpu.address, address).unwrap_or_default() {
            asked.insert(bridge);
            let Some(space) = config(facts, bridge) else {
                continue;
            };
            read.insert(bridge);
            let acs = space.acs.unwrap_or_default();
            // as on a host of virtual machines: what is translated goes directly
            let is_a_hosts = translates && acs & DIRECT_TRANSLATED != 0;
            if redirects(space) && !is_a_hosts {
                redirecting.insert(bridge, acs);
            }
        }
    }
    if asked.is_empty() {
        return vec![ok(
            "the bus shows no switch between GPUs and NICs: not judged",
        )];
    }
    if read.is_empty() {
        return if facts.is_live {
            vec![note(
                "only root may read the ports' configuration: not judged",
            )]
        } else {
            Vec::new()
        };
    }
    if redirecting.is_empty() {
        return vec![ok(format!(
            "{} between GPUs and NICs: none redirects",
            counted(read.len(), "port")
        ))];
    }
    let names: Vec<String> = redirecting.keys().map(ToString::to_string).collect();
    vec![warn(format!(
        "ports {} between GPUs and NICs send packets up to the root complex that could turn in the switch: {}",
        listed(&names),
        shown(redirecting.values().next().copied().unwrap_or_default())
    )).about(&names[0])]
}

pub fn ats(subject: &Examined) -> Verdicts {
    let Some(facts) = subject.facts.filter(|facts| !facts.is_virtual) else {
        return Vec::new();
    };
    let read: BTreeMap<PciAddress, ConfigSpace> = behind_a_switch(subject)
        .iter()
        .filter_map(|pair| Some((pair.nic.address?, config(facts, pair.nic.address?)?)))
        .collect();
    let with: Vec<String> = read
        .iter()
        .filter(|(_, space)| space.has_ats())
        .map(|(address, _)| address.to_string())
        .collect();
    match (read.is_empty(), with.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec![ok(format!(
            "{} behind switches: off",
            counted(read.len(), "NIC")
        ))],
        (false, false) => {
            let text = "on, though the machine is no guest: right on a host of virtual machines";
            vec![advice(format!("NICs {}: {text}", listed(&with)))]
        }
    }
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
    let arch = subject
        .plan
        .node
        .processor
        .as_ref()
        .map(|processor| processor.arch);
    let is_virtual = subject.facts.is_some_and(|facts| facts.is_virtual);
    arch == Some(Arch::X86) && !is_virtual
}

pub fn iommu(subject: &Examined) -> Verdicts {
    let node = &*subject.plan.node;
    let all: BTreeSet<PciAddress> = pairs(subject)
        .into_iter()
        .flat_map(|pair| [Some(pair.gpu.address), pair.nic.address])
        .flatten()
        .collect();
    let translated: Vec<String> = all
        .iter()
        .filter(|address| is_translated(node, **address) == Some(true))
        .map(ToString::to_string)
        .collect();
    let direct = all
        .iter()
        .filter(|address| is_translated(node, **address) == Some(false))
        .count();
    if translated.is_empty() {
        return or_ok(
            Vec::new(),
            (direct > 0).then(|| format!("{direct} GPUs and NICs: not translated")),
        );
    }
    let kind = node
        .pci
        .iter()
        .find_map(|of| of.iommu.as_deref().filter(|kind| *kind != "identity"));
    let text = format!(
        "GPUs and NICs {}: their DMA is translated (type {})",
        listed(&translated),
        kind.unwrap_or("DMA")
    );
    vec![if translation_hurts(subject) {
        warn(text).about(&translated[0])
    } else {
        note(format!(
            "{text}, which an Arm processor and a guest may want"
        ))
    }]
}

pub fn iommu_group(subject: &Examined) -> Verdicts {
    let Some(facts) = subject.facts.filter(|facts| !facts.is_virtual) else {
        return Vec::new();
    };
    let group = |address: PciAddress| {
        facts
            .functions
            .get(&address)
            .and_then(|Function { iommu_group, .. }| iommu_group.clone())
    };
    let (mut apart, mut together) = (Vec::new(), 0);
    for pair in behind_a_switch(subject) {
        let Some(address) = pair.nic.address else {
            continue;
        };
        match (group(pair.gpu.address), group(address)) {
            (Some(gpu), Some(nic)) if gpu != nic => {
                apart.push(format!(
                    "GPU {} ({gpu}) and {} ({nic})",
                    pair.index, pair.nic.name
                ));
            }
            (Some(_), Some(_)) => together += 1,
            _ => {}
        }
    }
    match (apart.is_empty(), together) {
        (true, 0) => Vec::new(),
        (true, _) => vec![ok(format!(
            "{together} pairs behind switches share a group"
        ))],
        (false, _) => {
            let text = "in groups of their own, so a port between them isolates";
            vec![note(format!("{}: {text}", listed(&apart)))]
        }
    }
}

fn controls<'a>(subject: &'a Examined) -> Vec<(&'a Nic, ConfigSpace)> {
    let Some(facts) = subject.facts else {
        return Vec::new();
    };
    let nics: BTreeMap<&str, (&Nic, ConfigSpace)> = pairs(subject)
        .into_iter()
        .filter_map(|pair| {
            let space =
                config(facts, pair.nic.address?).filter(|space| space.device_control.is_some())?;
            Some((pair.nic.name.as_str(), (pair.nic, space)))
        })
        .collect();
    nics.into_values().collect()
}

pub fn read_request(subject: &Examined) -> Verdicts {
    /// The value that sichek expects (components/infiniband/checker/pcie_mrr.go).
    const WANTED: u32 = 4096;
    let nics = controls(subject);
    let smaller: Vec<String> = nics
        .iter()
        .filter_map(|(nic, space)| Some((nic, space.read_request()?)))
        .filter(|(_, bytes)| *bytes < WANTED)
        .map(|(nic, bytes)| format!("{} {bytes}", nic.name))
        .collect();
    match (nics.is_empty(), smaller.is_empty()) {
        (true, _) => Vec::new(),
        (_, true) => vec![ok(format!(
            "{}: {WANTED} bytes",
            counted(nics.len(), "NIC")
        ))],
        _ => vec![advice(format!(
            "less than {WANTED} bytes: {}",
            listed(&smaller)
        ))],
    }
}

pub fn relaxed_ordering(subject: &Examined) -> Verdicts {
    let nics = controls(subject);
    let strict: Vec<String> = nics
        .iter()
        .filter(|(_, space)| space.is_relaxed() == Some(false))
        .map(|(nic, _)| nic.name.to_string())
        .collect();
    let text = format!("NICs {}: packets must keep their order", listed(&strict));
    match (nics.len(), strict.len()) {
        (0, _) => Vec::new(),
        (all, 0) => vec![ok(format!("{}: allowed", counted(all, "NIC")))],
        (all, few) if few * 2 < all => {
            vec![warn(format!("{text}, and most others need not")).about(&strict[0])]
        }
        _ => vec![advice(text)],
    }
}

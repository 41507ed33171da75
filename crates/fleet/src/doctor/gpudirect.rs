//! GPUDirect RDMA between a GPU and the NIC that it is given: yes, no, or not known, with the reason.
//!
//! Two things must be so. The NIC's driver must get at the GPU's memory: by a client of the kernel's peer memory, or by a
//! dma-buf. And the packets must arrive: no translation that the GPU's addresses do not survive, and a path that libraries
//! take. Where a fact that decides is missing, the answer is that it is not known.
//!
//! * NVIDIA, peer memory: `nvidia_peermem` or `nv_peer_mem` is loaded (NCCL's src/transport/net_ib/gdr.cc, the same files); for
//!   EFA `efa_nv_peermem` (amzn-drivers).
//! * NVIDIA, dma-buf: the open kernel modules, and Linux 5.12, in which mlx5 learnt to register one (NCCL's gdr.cc asks the
//!   driver instead, which opens the device). Other drivers learnt it later, so theirs is not known.
//! * AMD: `amdkfd` is a client of peer memory (RCCL's net_ib.cc). Else a dma-buf may do: not known.
//! * Translation: "incompatible with IOMMUs performing any form of translation other than 1:1" (NVIDIA's GPUDirect RDMA guide,
//!   "Supported Systems"); ROCm's guide asks for `iommu=pt`.
//! * Path: NCCL uses it up to PXB, and with NVLink-C2C to each NIC of the CPU (src/graph/paths.cc, `ncclTopoCheckGdr`).
//! * GeForce and GB10 cannot (the same guide, "Overview"; DGX Spark's porting guide, "GPUDirect RDMA").

use super::facts::HostFacts;
use super::redirect::{
    GpuWithNic, bridges_between, is_translated, pairs, redirects, translation_hurts,
};
use super::{Examined, Verdicts, first_of, note, ok, warn};
use nic_placement_core::topology::{GpuVendor, NicKind, PathType};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    No(String),
    /// by design: there is nothing to repair
    Never(String),
    /// it works, and libraries do not use it, or it costs more than it should
    Poorly(String),
    Unknown(String),
    Yes(String),
}

fn no(why: &str) -> Result<&'static str, Answer> {
    Err(Answer::No(why.to_string()))
}

fn unknown(why: &str) -> Result<&'static str, Answer> {
    Err(Answer::Unknown(why.to_string()))
}

/// The NIC driver's access to the GPU's memory, or the reason why it has none.
fn memory(
    subject: &Examined,
    facts: &HostFacts,
    pair: &GpuWithNic,
) -> Result<&'static str, Answer> {
    match pair.gpu.vendor {
        GpuVendor::Nvidia => nvidias(subject, facts, pair),
        GpuVendor::Amd if facts.memory_peers.contains("amdkfd") => Ok("peer memory of amdkfd"),
        GpuVendor::Amd => unknown("amdkfd is no client of peer memory; a dma-buf may do"),
        GpuVendor::Intel => unknown("only by a dma-buf, which is for the driver to say"),
    }
}

fn nvidias(
    subject: &Examined,
    facts: &HostFacts,
    pair: &GpuWithNic,
) -> Result<&'static str, Answer> {
    let is_loaded = |name: &str| {
        facts
            .modules
            .as_ref()
            .is_some_and(|modules| modules.contains(name))
    };
    let peers = ["nv_mem", "nv_mem_nc"]
        .iter()
        .any(|peer| facts.memory_peers.contains(*peer));
    match pair.nic.kind {
        NicKind::Verbs if is_loaded("nvidia_peermem") => return Ok("nvidia_peermem"),
        NicKind::Verbs if peers || is_loaded("nv_peer_mem") => return Ok("nv_peer_mem"),
        NicKind::Efa if is_loaded("efa_nv_peermem") => return Ok("efa_nv_peermem"),
        NicKind::Slingshot => return unknown("cxi has its own way to GPU memory"),
        _ => {}
    }
    let Some(driver) = &facts.nvidia else {
        return unknown("NVIDIA's driver does not tell its version here");
    };
    if !driver.contains("Open Kernel Module") {
        // a tree without the list of modules says nothing of nvidia_peermem
        return match (&facts.modules, pair.nic.kind) {
            (Some(_), NicKind::Verbs) => no(
                "nvidia_peermem is not loaded, and NVIDIA's driver is not of the open modules, which offer a dma-buf",
            ),
            _ => unknown("the list of loaded modules is not told"),
        };
    }
    /// PCI's number of Mellanox, whose driver is mlx5.
    const MELLANOX: u16 = 0x15b3;
    let function = pair
        .nic
        .address
        .and_then(|address| subject.plan.node.pci.get(address));
    let is_mlx5 = function.is_some_and(|function| function.vendor == Some(MELLANOX));
    match facts.kernel.as_deref().and_then(release) {
        Some(kernel) if kernel < (5, 12) => {
            if facts.kernel.as_deref().is_some_and(|of| of.contains(".el")) {
                unknown("whether this distribution's kernel registers a dma-buf is not known")
            } else {
                no("nvidia_peermem is not loaded, and Linux before 5.12 registers no dma-buf")
            }
        }
        Some(_) if pair.nic.kind == NicKind::Verbs && is_mlx5 => Ok("dma-buf"),
        Some(_) => unknown("by a dma-buf, if the NIC's driver registers one"),
        None => unknown("the kernel's release is not told"),
    }
}

/// `6.8.0-31-generic` -> (6, 8)
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn answer(subject: &Examined, facts: &HostFacts, pair: &GpuWithNic) -> Answer {
    let node = &*subject.plan.node;
    let model = pair.gpu.model.as_deref().unwrap_or_default();
    if ["GeForce", "GB10"]
        .iter()
        .any(|cannot| model.split(' ').any(|word| word == *cannot))
    {
        return Answer::Never(format!("NVIDIA does not support it on `{model}`"));
    }
    let by = match memory(subject, facts, pair) {
        Ok(by) => by,
        Err(answer) => return answer,
    };
    let Some(nic) = pair.nic.address else {
        return Answer::Unknown("the NIC stands on no bus".to_string());
    };
    let translated = [pair.gpu.address, nic]
        .iter()
        .any(|at| is_translated(node, *at) == Some(true));
    if translated && translation_hurts(subject) {
        return match by {
            "dma-buf" => Answer::Unknown(
                "by dma-buf, but the IOMMU translates; `iommu=pt` makes it sure".to_string(),
            ),
            _ => Answer::No(format!(
                "{by} is there, but the IOMMU translates: `iommu=pt`"
            )),
        };
    }
    if pair.path > PathType::Pxb && !pair.gpu.has_c2c() {
        return Answer::Poorly(format!(
            "by {by}, but the path is {}, and NCCL uses it only up to PXB",
            pair.path
        ));
    }
    let port = |bridge: &_| {
        facts
            .functions
            .get(bridge)
            .and_then(|function| function.config)
    };
    let between = bridges_between(node, pair.gpu.address, nic).unwrap_or_default();
    if !facts.is_virtual && between.iter().filter_map(port).any(redirects) {
        return Answer::Poorly(format!(
            "by {by}, but a port on the way redirects: see `acs`"
        ));
    }
    let bar = facts
        .functions
        .get(&pair.gpu.address)
        .and_then(|function| function.bar1);
    /// The BAR of GPUs without a large one (NVIDIA's guide, "PCI BAR sizes").
    const SMALL: u64 = 256 << 20;
    match bar {
        Some(bytes) if bytes <= SMALL => Answer::Poorly(format!(
            "by {by}, for {} MiB of its memory at a time: its BAR 1 has no more",
            bytes >> 20
        )),
        // a detour would cost speed; whether there is one only root can read
        _ if !facts.is_virtual
            && !between.is_empty()
            && between.iter().filter_map(port).next().is_none() =>
        {
            Answer::Yes(format!("by {by}, ACS on the way not told"))
        }
        _ => Answer::Yes(format!("by {by}")),
    }
}

pub fn gpudirect(subject: &Examined) -> Verdicts {
    let Some(facts) = subject.facts else {
        return Vec::new();
    };
    let mut answers: BTreeMap<Answer, Vec<String>> = BTreeMap::new();
    for pair in pairs(subject) {
        answers
            .entry(answer(subject, facts, &pair))
            .or_default()
            .push(format!(
                "GPU {} with {}:{}",
                pair.index, pair.nic.name, pair.port
            ));
    }
    let verdict = |(answer, pairs): (Answer, Vec<String>)| {
        /// Pairs of one line, at most: a node of eight GPUs with two NICs each.
        const SHOWN: usize = 16;
        let names = first_of(&pairs, SHOWN);
        match answer {
            Answer::No(why) => warn(format!("no: {why}: {names}")).about(&pairs[0]),
            Answer::Never(why) => note(format!("no: {why}: {names}")),
            Answer::Poorly(why) => note(format!("yes, {why}: {names}")),
            Answer::Unknown(why) => note(format!("not known: {why}: {names}")),
            Answer::Yes(how) => ok(format!("yes, {how}: {names}")),
        }
    };
    answers.into_iter().map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn a_kernels_release_is_its_first_two_numbers() {
        assert_eq!(
            (release("5.12.0"), release("6.8-rc1"), release("odd")),
            (Some((5, 12)), Some((6, 8)), None)
        );
    }
}

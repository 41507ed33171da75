//! GPUDirect RDMA between a GPU and the NIC that it is given: yes, no, or not known, with the reason.
//!
//! Two things must be so. The NIC's driver must get at the GPU's memory: by a client of the kernel's peer memory, or by a
//! dma-buf. And the packets must arrive: no translation that the GPU's addresses do not survive, and a path that libraries
//! take. Where a fact that decides is missing, the answer is that it is not known.
//!
//! * NVIDIA, peer memory: `nvidia_peermem` or `nv_peer_mem` is loaded (NCCL's src/transport/net_ib/gdr.cc, the same files); for
//!   EFA `efa_nv_peermem` (amzn-drivers).
//! * NVIDIA, dma-buf: the open kernel modules, and Linux 5.12, in which mlx5 learnt to register one (NCCL's gdr.cc asks the
//!   driver instead, which opens the device). Other drivers learnt it later, and distributions backport it: not known.
//! * AMD: `amdkfd` is a client of peer memory (RCCL's net_ib.cc). Else a dma-buf may do: not known.
//! * Translation: "incompatible with IOMMUs performing any form of translation other than 1:1" (NVIDIA's GPUDirect RDMA guide,
//!   "Supported Systems"); ROCm's guide asks for `iommu=pt`.
//! * Path: NCCL uses it up to PXB, and with NVLink-C2C to each NIC of the CPU (src/graph/paths.cc, `ncclTopoCheckGdr`).
//! * GeForce and GB10 cannot (the same guide, "Overview"; DGX Spark's porting guide, "GPUDirect RDMA").

use super::facts::HostFacts;
use super::redirect::{GpuWithNic, is_translated, pairs, ports_between, translation_hurts};
use super::{Examined, Judged, listed, verdict, warn};
use crate::audit::report::Level;
use nic_placement_core::topology::{GpuVendor, NicKind, PathType};
use std::collections::BTreeMap;

/// Its level, and its text without the pairs that it is for.
type Answer = (Level, String);

fn no(why: &str) -> Answer {
    (Level::Warn, format!("no: {why}"))
}

fn unknown(why: &str) -> Answer {
    (Level::Note, format!("not known: {why}"))
}

/// The NIC driver's access to the GPU's memory, or the reason why it has none.
fn memory(
    subject: &Examined,
    facts: &HostFacts,
    pair: &GpuWithNic,
) -> Result<&'static str, Answer> {
    let has_peer = |name: &str| facts.memory_peers.contains(name);
    match pair.gpu.vendor {
        GpuVendor::Amd if has_peer("amdkfd") => return Ok("peer memory of amdkfd"),
        GpuVendor::Nvidia => {}
        _ => return Err(unknown("only by a dma-buf, which is for the driver to say")),
    }
    let is_loaded = |name: &str| facts.modules.as_ref().is_some_and(|all| all.contains(name));
    let kind = pair.nic.kind;
    match kind {
        NicKind::Verbs if is_loaded("nvidia_peermem") => return Ok("nvidia_peermem"),
        NicKind::Verbs
            if has_peer("nv_mem") || has_peer("nv_mem_nc") || is_loaded("nv_peer_mem") =>
        {
            return Ok("nv_peer_mem");
        }
        NicKind::Efa if is_loaded("efa_nv_peermem") => return Ok("efa_nv_peermem"),
        NicKind::Slingshot => return Err(unknown("cxi has its own way to GPU memory")),
        _ => {}
    }
    let Some(driver) = &facts.nvidia else {
        return Err(unknown("NVIDIA's driver does not tell its version here"));
    };
    if !driver.contains("Open Kernel Module") {
        // a tree without the list of modules says nothing of nvidia_peermem
        return Err(match (&facts.modules, kind) {
            (Some(_), NicKind::Verbs) => no(
                "nvidia_peermem is not loaded, and NVIDIA's driver is not of the open modules, which offer a dma-buf",
            ),
            _ => unknown("the list of loaded modules is not told"),
        });
    }
    /// PCI's number of Mellanox, whose driver is mlx5.
    const MELLANOX: u16 = 0x15b3;
    let function = subject.plan.node.pci.get(pair.at);
    let is_mlx5 = function.is_some_and(|function| function.vendor == Some(MELLANOX));
    let kernel = facts.kernel.as_deref().and_then(release);
    if kind == NicKind::Verbs && is_mlx5 && kernel >= Some((5, 12)) {
        return Ok("dma-buf");
    }
    Err(unknown(
        "by a dma-buf, if the kernel and the NIC's driver register one",
    ))
}

/// `6.8.0-31-generic` -> (6, 8)
fn release(kernel: &str) -> Option<(u32, u32)> {
    let mut numbers = kernel.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn answer(subject: &Examined, facts: &HostFacts, pair: &GpuWithNic) -> Result<Answer, Answer> {
    let node = &*subject.plan.node;
    let poorly = |text: String| Ok((Level::Note, format!("yes, {text}")));
    let model = pair.gpu.model.as_deref().unwrap_or_default();
    if model
        .split(' ')
        .any(|word| ["GeForce", "GB10"].contains(&word))
    {
        // by design: there is nothing to repair
        let why = format!("no: NVIDIA does not support it on `{model}`");
        return Ok((Level::Note, why));
    }
    let by = memory(subject, facts, pair)?;
    let mut ends = [pair.gpu.address, pair.at].into_iter();
    if ends.any(|at| is_translated(node, at) == Some(true)) && translation_hurts(subject) {
        let why = format!("{by} is there, but the IOMMU translates: `iommu=pt`");
        return Ok(if by == "dma-buf" {
            unknown(&why)
        } else {
            no(&why)
        });
    }
    if pair.path > PathType::Pxb && !pair.gpu.has_c2c() {
        let path = pair.path;
        return poorly(format!(
            "by {by}, but the path is {path}, and NCCL uses it only up to PXB"
        ));
    }
    let mut ports = ports_between(node, facts, pair).into_iter();
    if !facts.is_virtual && ports.any(|(_, redirects)| redirects == Some(true)) {
        return poorly(format!(
            "by {by}, but a port on the way redirects: see `acs`"
        ));
    }
    Ok((Level::Ok, format!("yes, by {by}")))
}

pub fn gpudirect(subject: &Examined) -> Judged {
    let facts = subject.facts?;
    let mut answers: BTreeMap<Answer, Vec<String>> = BTreeMap::new();
    for pair in pairs(subject) {
        let answer = answer(subject, facts, &pair).unwrap_or_else(|answer| answer);
        let name = format!("GPU {} with {}:{}", pair.index, pair.nic.name, pair.port);
        answers.entry(answer).or_default().push(name);
    }
    let verdict = |((level, text), pairs): (Answer, Vec<String>)| {
        let text = format!("{text}: {}", listed(&pairs));
        match level {
            Level::Warn => warn(text).about(&pairs[0]),
            level => verdict(level, false, text),
        }
    };
    Some(answers.into_iter().map(verdict).collect())
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn a_kernels_release_is_its_first_two_numbers() {
        let found = ["5.12.0", "6.8-rc1", "odd"].map(release);
        assert_eq!(found, [Some((5, 12)), Some((6, 8)), None]);
    }
}

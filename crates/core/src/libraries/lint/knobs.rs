//! NCCL's knobs of the user's that undo what the placement is for, or that this machine gives no reason for.
//!
//! Sources are NCCL 2.30's; each function names its file.
#![forbid(unsafe_code)]

use super::{Subject, finding, value};
use crate::diagnostic::Diagnostic;
use crate::topology::{GpuVendor, PathType};

/// The variables that are looked at here.
pub(super) const READ: [&str; 7] = [
    "NCCL_BUFFSIZE",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NVLS_ENABLE",
    "NCCL_TOPO_FILE",
];

pub(super) fn knobs(subject: &Subject, found: &mut Vec<Diagnostic>) {
    affinity(subject, found);
    channels(subject, found);
    buffer(subject, found);
    gpudirect(subject, found);
    in_network(subject, found);
    topology_file(subject, found);
}

fn number(subject: &Subject, name: &str) -> Option<i64> {
    value(subject, name)?.trim().parse().ok()
}

/// With it NCCL's own threads take all CPUs of the GPU's NUMA node, in place of those that the task has
/// (src/graph/topo.cc, `ncclTopoGetCpuAffinity`).  Azure's images set it.
fn affinity(subject: &Subject, found: &mut Vec<Diagnostic>) {
    if let Some(number) = number(subject, "NCCL_IGNORE_CPU_AFFINITY").filter(|number| *number != 0) {
        let text = "NCCL's threads then leave the task's CPUs for all of its GPU's NUMA node, where other tasks run: unset it";
        found.push(finding("NCCL_IGNORE_CPU_AFFINITY", &number.to_string(), text));
    }
}

/// A channel uses one NIC (src/graph/search.cc), so fewer channels leave NICs idle.
fn channels(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let (least, most) = (number(subject, "NCCL_MIN_NCHANNELS"), number(subject, "NCCL_MAX_NCHANNELS"));
    let nics = subject.node.rails.len();
    if let Some(most @ 1..) = most {
        if (most as u64) < nics as u64 && subject.topology.gpus.len() > 1 {
            let text = format!(
                "a channel uses one NIC, so with {most} NCCL cannot use all {nics} of this node at once: unset it"
            );
            found.push(finding("NCCL_MAX_NCHANNELS", &most.to_string(), text));
        }
        if let Some(least) = least.filter(|least| *least > most) {
            let text = format!("more than `NCCL_MAX_NCHANNELS={most}`: unset one of them");
            found.push(finding("NCCL_MIN_NCHANNELS", &least.to_string(), text));
        }
    }
}

/// 4 MiB without it, and powers of 2 are recommended (NCCL's environment variables, `NCCL_BUFFSIZE`).
fn buffer(subject: &Subject, found: &mut Vec<Diagnostic>) {
    const OWN: i64 = 4 << 20;
    let Some(bytes) = number(subject, "NCCL_BUFFSIZE") else { return };
    let text = if bytes < 1 {
        return;
    } else if bytes.count_ones() != 1 {
        "NCCL asks for a power of 2"
    } else if bytes < OWN {
        "smaller than NCCL's own 4 MiB: more steps for each message; unset it if memory is not short"
    } else {
        return;
    };
    found.push(finding("NCCL_BUFFSIZE", &bytes.to_string(), text));
}

/// The farthest path over which GPUDirect RDMA is used: names in capitals, or the numbers of old releases; anything else is
/// passed over (src/graph/paths.cc, `ncclGetLevel`, `ncclTopoCheckGdr`).
fn gpudirect(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let Some(text) = value(subject, "NCCL_NET_GDR_LEVEL") else { return };
    let level = match text {
        "LOC" | "NVL" | "NVB" | "C2C" | "0" => None,
        "PIX" | "1" => Some(PathType::Pix),
        "PXB" | "P2C" | "PXN" | "2" => Some(PathType::Pxb),
        "PHB" | "3" => Some(PathType::Phb),
        // a path over two NUMA nodes of a socket counts as SYS there
        "SYS" | "4" | "5" => return,
        _ => return,
    };
    let paths: Vec<PathType> =
        subject.node.gpus.iter().filter_map(|gpu| Some(gpu.choices.first()?.path)).collect();
    let off = paths.iter().filter(|path| level.is_none_or(|level| **path > level)).count();
    if off > 0 {
        let gpus = paths.len();
        let said = format!(
            "it switches GPUDirect RDMA off for {off} of this node's {gpus} GPUs, whose NICs are farther: unset it"
        );
        found.push(finding("NCCL_NET_GDR_LEVEL", text, said));
    }
}

/// Reductions in the NVSwitch (NVLS, src/transport/nvls.cc: Hopper and later).  Those in the fabric (`NCCL_COLLNET_ENABLE`)
/// are off without a word.
fn in_network(subject: &Subject, found: &mut Vec<Diagnostic>) {
    // also of the `GH200`, `GB200` and `GB300`; a mere `GB` would be the memory of an `A100-SXM4-80GB`
    const WITH_NVLS: [&str; 7] = ["H100", "H200", "H800", "H20", "B100", "B200", "B300"];
    let has_nvls = subject.topology.gpus.iter().filter(|gpu| {
        let model = gpu.model.as_deref().unwrap_or_default();
        gpu.vendor == GpuVendor::Nvidia && WITH_NVLS.iter().any(|name| model.contains(name))
    });
    if has_nvls.count() >= 4 && number(subject, "NCCL_NVLS_ENABLE") == Some(0) {
        let text = "the NVSwitches of this node then reduce nothing: unset it where it is not for a test";
        found.push(finding("NCCL_NVLS_ENABLE", "0", text));
    }
}

/// A file that cannot be opened is passed over, and told under `NCCL_DEBUG=INFO` alone (src/graph/xml.cc,
/// `ncclTopoGetXmlFromFile`).
fn topology_file(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let Some(file) = value(subject, "NCCL_TOPO_FILE") else { return };
    // programs hand files over as descriptors, which mean nothing in another process
    if !file.starts_with("/proc/") && (subject.read)(file).is_none() {
        let text = "no such file can be read here; NCCL then goes by the bus, and does not say so";
        found.push(finding("NCCL_TOPO_FILE", file, text));
    }
}

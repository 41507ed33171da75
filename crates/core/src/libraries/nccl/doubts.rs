//! NCCL's variables of the user's that undo what the placement is for, or that this machine gives no reason for.
//!
//! Sources are NCCL 2.30's; each function names its file.
#![forbid(unsafe_code)]

use super::super::findings::{Checked, finding, has_space, of_space, tell_entries};
use super::super::wanted::Fabric;
use super::{CROSS_NIC, IB_HCA, NameList};
use crate::diagnostic::{Diagnostic, Shown};
use crate::step::Access;
use crate::topology::{GpuVendor, Nic, PathType, PortState};

/// The variables that are looked at here.
pub(super) const READ: &str = "NCCL_BUFFSIZE NCCL_CROSS_NIC NCCL_DEBUG NCCL_IB_DISABLE NCCL_IGNORE_CPU_AFFINITY \
    NCCL_MAX_NCHANNELS NCCL_MIN_NCHANNELS NCCL_NET_GDR_LEVEL NCCL_NSOCKS_PERTHREAD NCCL_NVLS_ENABLE NCCL_P2P_DISABLE \
    NCCL_P2P_PXN_LEVEL NCCL_SHM_DISABLE NCCL_SOCKET_IFNAME NCCL_SOCKET_NTHREADS NCCL_TOPO_FILE";

pub(super) fn doubts(checked: &Checked, found: &mut Vec<Diagnostic>) {
    disabled(checked, found);
    list(checked, found);
    affinity(checked, found);
    channels(checked, found);
    buffer(checked, found);
    gpudirect(checked, found);
    in_network(checked, found);
    topology_file(checked, found);
    sockets(checked, found);
    isolation(checked, found);
}

/// Switches that turn a transport off (NCCL's environment variables, "Debugging": not for production), and
/// verbose logs.
fn disabled(checked: &Checked, found: &mut Vec<Diagnostic>) {
    // on Slingshot and EFA there are no NICs to disable
    let has_verbs = checked.verbs().next().is_some();
    for (name, is_there, off) in [
        ("NCCL_P2P_DISABLE", true, "GPUs of this node then talk through host memory"),
        ("NCCL_SHM_DISABLE", true, "tasks of this node then talk through the network"),
        ("NCCL_IB_DISABLE", has_verbs, "NCCL then uses sockets in place of this node's NICs"),
    ] {
        let Some(value) = checked.value(name).filter(|_| is_there) else { continue };
        if value.parse().is_ok_and(|number: i64| number > 0) {
            found.push(finding(name, value, format!("{off}: unset it where it is not for a test")));
        }
    }
    if let Some(value) = checked.value("NCCL_DEBUG") {
        if ["INFO", "TRACE"].iter().any(|level| value.eq_ignore_ascii_case(level)) {
            found.push(finding("NCCL_DEBUG", value, "every task writes much: use `WARN` for production"));
        }
    }
}

/// Entries of the list that mean no NIC or more than one, and lists that leave none.
fn list(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let Some(value) = checked.value(IB_HCA) else { return };
    let list = NameList::new(value);
    let is_active = |nic: &&Nic| nic.ports.iter().any(|port| port.state == PortState::Active);
    let active = || checked.verbs().filter(is_active);
    if active().next().is_none() {
        return;
    }
    let names = || list.names().filter(|name| !name.is_empty());
    let wrong = |name: &&str| {
        let shown = Shown::word(name, 64);
        let meant = active().map(|nic| nic.name.as_str()).filter(|device| list.means(name, device));
        let meant: Vec<&str> = meant.collect();
        if meant.is_empty() {
            let unknown =
                format!("`{shown}` names no active NIC of this node: `nic-placement show` lists them");
            return Some(if has_space(name) { of_space(name) } else { unknown });
        }
        let others: Vec<&str> = meant.iter().filter(|other| *other != name).copied().collect();
        let is_one_of_several = !list.is_exact && !others.is_empty() && others.len() < meant.len();
        is_one_of_several.then(|| {
            let others = others.join(" ");
            format!("`{shown}` also means {others}, which begin with it: write `=` before the list")
        })
    };
    tell_entries((IB_HCA, value), names(), wrong, found);
    let is_admitted = |nic: &Nic| list.excludes != names().any(|name| list.means(name, &nic.name));
    if !active().any(is_admitted) && !list.entries.is_empty() {
        found.push(finding(IB_HCA, value, "it leaves no NIC of this node, so NCCL falls back to sockets"));
    }
}

/// With it NCCL's own threads take all CPUs of the GPU's NUMA node, in place of those that the task has
/// (src/graph/topo.cc, `ncclTopoGetCpuAffinity`).  Azure's images set it.
fn affinity(checked: &Checked, found: &mut Vec<Diagnostic>) {
    if let Some(number) = checked.number("NCCL_IGNORE_CPU_AFFINITY").filter(|number| *number != 0) {
        let text = "NCCL's threads then leave the task's CPUs for all of its GPU's NUMA node, where other tasks run: unset it";
        found.push(finding("NCCL_IGNORE_CPU_AFFINITY", &number.to_string(), text));
    }
}

/// A channel uses one NIC (src/graph/search.cc), so fewer channels leave NICs idle.
fn channels(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let (least, most) = (checked.number("NCCL_MIN_NCHANNELS"), checked.number("NCCL_MAX_NCHANNELS"));
    let nics = checked.node.rails.len();
    if let Some(most @ 1..) = most {
        if (most as u64) < nics as u64 && checked.topology.gpus.len() > 1 {
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
fn buffer(checked: &Checked, found: &mut Vec<Diagnostic>) {
    const OWN: i64 = 4 << 20;
    let Some(bytes) = checked.number("NCCL_BUFFSIZE") else { return };
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
fn gpudirect(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let Some(text) = checked.value("NCCL_NET_GDR_LEVEL") else { return };
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
        checked.node.gpus.iter().filter_map(|gpu| Some(gpu.choices.first()?.path)).collect();
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
fn in_network(checked: &Checked, found: &mut Vec<Diagnostic>) {
    // also of the `GH200`, `GB200` and `GB300`; a mere `GB` would be the memory of an `A100-SXM4-80GB`
    const WITH_NVLS: [&str; 7] = ["H100", "H200", "H800", "H20", "B100", "B200", "B300"];
    let has_nvls = checked.topology.gpus.iter().filter(|gpu| {
        let model = gpu.model.as_deref().unwrap_or_default();
        gpu.vendor == GpuVendor::Nvidia && WITH_NVLS.iter().any(|name| model.contains(name))
    });
    if has_nvls.count() >= 4 && checked.number("NCCL_NVLS_ENABLE") == Some(0) {
        let text = "the NVSwitches of this node then reduce nothing: unset it where it is not for a test";
        found.push(finding("NCCL_NVLS_ENABLE", "0", text));
    }
}

/// A file that cannot be opened is passed over, and told under `NCCL_DEBUG=INFO` alone (src/graph/xml.cc,
/// `ncclTopoGetXmlFromFile`).
fn topology_file(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let Some(file) = checked.value("NCCL_TOPO_FILE") else { return };
    // programs hand files over as descriptors, which mean nothing in another process
    if !file.starts_with("/proc/") && (checked.read)(file).is_none() {
        let text = "no such file can be read here; NCCL then goes by the bus, and does not say so";
        found.push(finding("NCCL_TOPO_FILE", file, text));
    }
}

/// At most 64 sockets for a connection (src/transport/net_socket.cc, `MAX_SOCKETS`), over interfaces that exist.
fn sockets(checked: &Checked, found: &mut Vec<Diagnostic>) {
    const MAX_SOCKETS: u64 = 64;
    let number = |name: &str| checked.value(name).and_then(|value| value.parse::<u64>().ok());
    if let (Some(sockets), Some(threads)) = (number("NCCL_NSOCKS_PERTHREAD"), number("NCCL_SOCKET_NTHREADS"))
    {
        if sockets.saturating_mul(threads) > MAX_SOCKETS {
            let text = format!(
                "times `NCCL_SOCKET_NTHREADS={threads}` is more than the {MAX_SOCKETS} sockets that NCCL opens: lower one"
            );
            found.push(finding("NCCL_NSOCKS_PERTHREAD", &sockets.to_string(), text));
        }
    }
    let Some(value) = checked.value("NCCL_SOCKET_IFNAME") else { return };
    let list = NameList::new(value);
    let is_here = |name: &str| checked.interfaces.iter().any(|interface| list.means(name, interface));
    if !list.excludes && !checked.interfaces.is_empty() && !list.names().any(is_here) {
        let text = "no interface of this node has this name, so NCCL cannot start: name one that it has, or unset it";
        found.push(finding("NCCL_SOCKET_IFNAME", value, text));
    }
}

/// Tasks that see their own GPU alone: NCCL counts each of them as GPU 0.
fn isolation(checked: &Checked, found: &mut Vec<Diagnostic>) {
    let access = &checked.task.gpus.access;
    let is_isolated = access.contains(&Access::Denied) && access.contains(&Access::Allowed);
    let nvidia = checked.topology.gpus.iter().filter(|gpu| gpu.vendor == GpuVendor::Nvidia).count();
    if !is_isolated || nvidia < 2 || checked.tasks < 2 {
        return;
    }
    // with 0 a message leaves by the NIC of the own GPU that has the number of the peer's (src/graph/search.cc,
    // `ncclTopoGetNetDev`), and all have the number 0
    let stays_on_rail = match checked.value(CROSS_NIC) {
        Some(value) => value.trim().parse() == Ok(0),
        None => checked.fabric == Fabric::IsolatedRails,
    };
    let text = match checked.value("NCCL_P2P_PXN_LEVEL") {
        _ if stays_on_rail => {
            "each task sees its own GPU alone, so NCCL counts all as GPU 0, and with `NCCL_CROSS_NIC=0` sends all messages \
             between tasks through one NIC: try `--gpu-bind=none`"
        }
        Some("0") => return,
        _ => {
            "each task sees its own GPU alone, so NCCL counts all as GPU 0 and may send all traffic through one NIC: \
             try `--gpu-bind=none`, or `NCCL_P2P_PXN_LEVEL=0`"
        }
    };
    found.push(Diagnostic::new("GPU isolation", text));
}

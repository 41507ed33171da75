//! Reads the user's own variables as the libraries would on this node, and reports what looks wrong and what
//! to do.
//!
//! It changes nothing: the user's choice stays.  Each finding rests on the library's rule stated beside it.
#![forbid(unsafe_code)]

mod knobs;

use super::uses::{self, lists::LISTS};
use super::wanted::Fabric;
use super::{Present, ReadFile, ucx};
use crate::diagnostic::{Diagnostic, Shown};
use crate::placement::NodePlacement;
use crate::step::{Access, Task};
use crate::topology::{GpuVendor, Nic, NicKind, PortState, Topology};

/// The variables that we look at.
pub fn variables() -> impl Iterator<Item = &'static str> {
    OWN.into_iter().chain(knobs::READ)
}

const OWN: [&str; 18] = [
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "FI_CXI_DEVICE_NAME",
    "FI_VERBS_DEVICE_NAME",
    "MC_TE_FILTERS",
    "NCCL_CROSS_NIC",
    "NCCL_DEBUG",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_NTHREADS",
    "NVSHMEM_HCA_LIST",
    "UCX_NET_DEVICES",
    "UCX_TLS",
];

/// What the findings are about.
pub struct Subject<'a> {
    /// the task's environment, [`variables`] of it at least
    pub present: &'a Present,
    /// the node
    pub topology: &'a Topology,
    /// its map
    pub node: &'a NodePlacement,
    /// the task's grant
    pub task: &'a Task,
    /// tasks of the step on this node
    pub tasks: u32,
    /// which NICs reach which
    pub fabric: Fabric,
    /// the node's network interfaces; empty where they are not known
    pub interfaces: &'a [String],
    /// reads a file with the task's rights
    pub read: ReadFile<'a>,
}

/// Entries of one list that are told, at most: each is a line on a terminal and in slurmd's log.
const MAX_TOLD: usize = 4;

/// Everything that looks wrong, NCCL's switches first.
pub fn lint(subject: &Subject) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    disabled(subject, &mut found);
    nccl_list(subject, &mut found);
    exact_lists(subject, &mut found);
    left_out(subject, &mut found);
    gpu_initiated(subject, &mut found);
    knobs::knobs(subject, &mut found);
    sockets(subject, &mut found);
    gpus(subject, &mut found);
    found
}

/// The findings about the entries of one list: the first few of them one by one, and how many more there are.
struct OfList<'l> {
    name: &'l str,
    list: &'l str,
    told: Vec<Diagnostic>,
    more: usize,
    last: String,
}

impl<'l> OfList<'l> {
    fn new(name: &'l str, list: &'l str) -> OfList<'l> {
        OfList { name, list, told: Vec::new(), more: 0, last: String::new() }
    }

    /// Adds what is wrong with an entry.  A list may have tens of thousands of them: the text of one that is not told is not
    /// made.
    fn add(&mut self, entry: &str, text: impl FnOnce() -> String) {
        // an entry may stand there twice
        if self.last == entry {
            return;
        }
        entry.clone_into(&mut self.last);
        match self.told.len() {
            0..MAX_TOLD => self.told.push(finding(self.name, self.list, text())),
            _ => self.more += 1,
        }
    }

    fn end(self, found: &mut Vec<Diagnostic>) {
        found.extend(self.told);
        if self.more > 0 {
            found.push(finding(self.name, self.list, format!("{} more such entries", self.more)));
        }
    }
}

fn value<'a>(subject: &Subject<'a>, name: &str) -> Option<&'a str> {
    subject.present.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// A finding about `NAME=VALUE`, with the value as a terminal may show it.
fn finding(name: &str, value: &str, text: impl Into<String>) -> Diagnostic {
    Diagnostic::new(format!("{name}={}", Shown::word(value, 80)), text)
}

/// Switches that turn a transport off (NCCL's environment variables, "Debugging": not for production), and
/// verbose logs.
fn disabled(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let verbs = subject.topology.nics.iter().any(|nic| nic.kind == NicKind::Verbs);
    for (name, off) in [
        ("NCCL_P2P_DISABLE", "GPUs of this node then talk through host memory"),
        ("NCCL_SHM_DISABLE", "tasks of this node then talk through the network"),
        ("NCCL_IB_DISABLE", "NCCL then uses sockets in place of this node's NICs"),
    ] {
        let is_off = value(subject, name).and_then(|value| Some((value, value.parse::<i64>().ok()?)));
        let Some((value, 1..)) = is_off else { continue };
        // on Slingshot and EFA it has nothing to disable
        if name != "NCCL_IB_DISABLE" || verbs {
            found.push(finding(name, value, format!("{off}: unset it where it is not for a test")));
        }
    }
    if let Some(value) = value(subject, "NCCL_DEBUG") {
        if ["INFO", "TRACE"].contains(&value.to_ascii_uppercase().as_str()) {
            found.push(finding("NCCL_DEBUG", value, "every task writes much: use `WARN` for production"));
        }
    }
}

/// `NCCL_IB_HCA`: `^` excludes, `=` takes whole names, else an entry is the beginning of a name
/// (src/misc/utils.cc).
fn nccl_list(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let Some(list) = value(subject, "NCCL_IB_HCA") else { return };
    let (without, rest) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    let (exact, rest) = rest.strip_prefix('=').map_or((false, rest), |rest| (true, rest));
    let usable = || subject.topology.nics.iter().filter(|nic| nic.kind == NicKind::Verbs && is_active(nic));
    if usable().next().is_none() {
        return;
    }
    let names: Vec<&str> = rest.split(',').filter_map(|entry| entry.split(':').next()).collect();
    let matches = |name: &str, nic: &Nic| if exact { nic.name == name } else { nic.name.starts_with(name) };
    let mut wrong = OfList::new("NCCL_IB_HCA", list);
    for name in names.iter().filter(|name| !name.is_empty()) {
        let hit: Vec<&str> = usable().filter(|nic| matches(name, nic)).map(|nic| nic.name.as_str()).collect();
        let shown = Shown::word(name, 64);
        if hit.is_empty() && has_space(name) {
            wrong.add(name, || of_space(name));
        } else if hit.is_empty() {
            wrong.add(name, || {
                format!("`{shown}` names no active NIC of this node: `nic-placement show` lists them")
            });
        } else if !exact && hit.contains(name) && hit.len() > 1 {
            wrong.add(name, || {
                let others: Vec<&str> = hit.into_iter().filter(|other| other != name).collect();
                let others = others.join(" ");
                format!("`{shown}` also means {others}, which begin with it: write `=` before the list")
            });
        }
    }
    wrong.end(found);
    let admitted =
        usable().filter(|nic| without != names.iter().any(|name| !name.is_empty() && matches(name, nic)));
    if admitted.count() == 0 && !rest.is_empty() {
        found.push(finding(
            "NCCL_IB_HCA",
            list,
            "it leaves no NIC of this node, so NCCL falls back to sockets",
        ));
    }
}

/// Has the entry of a list a space before or after it?
fn has_space(entry: &str) -> bool {
    entry.trim() != entry && !entry.trim().is_empty()
}

fn of_space(entry: &str) -> String {
    let shown = Shown::word(entry.trim(), 64);
    format!("the space beside `{shown}` counts as a part of its name, which no device has: write none")
}

/// Lists of whole names, with or without a port.
fn exact_lists(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let verbs = || subject.topology.nics.iter().filter(|nic| nic.kind == NicKind::Verbs);
    if verbs().next().is_none() {
        return;
    }
    for name in ["UCX_NET_DEVICES", "NVSHMEM_HCA_LIST", "MC_TE_FILTERS"] {
        let Some(list) = value(subject, name) else { continue };
        if name == "UCX_NET_DEVICES" && list == "all" {
            continue;
        }
        let entries = list.strip_prefix('^').unwrap_or(list).split(',');
        // whether Mooncake takes spaces away is not known
        let entries = entries.map(|entry| if name == "MC_TE_FILTERS" { entry.trim() } else { entry });
        let mut wrong = OfList::new(name, list);
        for entry in entries.filter(|entry| !entry.is_empty() && !entry.contains(['[', '*'])) {
            let (device, port) =
                entry.split_once(':').map_or((entry, None), |(device, port)| (device, Some(port)));
            // `cuda0-mlx5_0:1`: a GPU that sends by itself (UCX's src/uct/ib/mlx5/gdaki/gdaki.c)
            let device = match device.strip_prefix("cuda").and_then(|rest| rest.split_once('-')) {
                Some((number, behind)) if name == "UCX_NET_DEVICES" && is_number(number) => behind,
                _ => device,
            };
            let nic = verbs().find(|nic| nic.name == device);
            let is_interface = port.is_none() && subject.interfaces.iter().any(|known| known == device);
            // without a list of interfaces, a name without a port may be an interface
            let may_be_interface = port.is_none() && subject.interfaces.is_empty();
            let shown = Shown::word(entry, 64);
            // the number of a port may have one for NVSHMEM
            if has_space(if name == "UCX_NET_DEVICES" { entry } else { device }) {
                wrong.add(entry, || of_space(entry));
                continue;
            }
            match nic {
                None if name == "UCX_NET_DEVICES" && (is_interface || may_be_interface) => {}
                None => wrong.add(entry, || {
                    format!("`{shown}` is no device of this node: `nic-placement show` lists them")
                }),
                Some(nic) => {
                    let port = port.and_then(|port| port.parse::<u8>().ok());
                    let known = port.is_none_or(|port| {
                        nic.ports.is_empty() || nic.ports.iter().any(|p| p.number == port)
                    });
                    if !known {
                        wrong.add(entry, || format!("`{shown}` names a port that the device lacks"));
                    } else if name == "UCX_NET_DEVICES" && port.is_none() && !is_interface {
                        wrong.add(entry, || {
                            format!(
                                "before UCX 1.21 `{shown}` means nothing without a port: write `{shown}:1`"
                            )
                        });
                    }
                }
            }
        }
        wrong.end(found);
    }
}

/// Ports that a list admits and that the map leaves out, as a storage NIC: NCCL may well prefer it to the compute NIC beside
/// it (src/graph/topo.cc, `ncclTopoGetLocal`).
fn left_out(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let Subject { topology, node, .. } = subject;
    // the map leaves the NICs of other kinds to their own libraries
    for list in LISTS.iter().filter(|list| list.kind == NicKind::Verbs) {
        let Some(text) = value(subject, list.variable) else { continue };
        let admitted: Vec<_> =
            list.admitted(text, topology).iter().map(|admitted| admitted.rail(topology)).collect();
        // UCX finds storage NICs without a list too, and what filters nothing is no choice of the user's
        if admitted.len() == list.found_without(topology) && text.trim() == "all" {
            continue;
        }
        let mut wrong = OfList::new(list.variable, text);
        for port in &admitted {
            if let Some(why) = uses::left_out(node, port) {
                let port = port.to_string();
                wrong.add(&port, || format!("it admits `{port}`, which is left out here: {why}"));
            }
        }
        wrong.end(found);
    }
}

/// UCX's transport for GPUs that send by themselves has devices of its own, which a list of NICs rules out.
fn gpu_initiated(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let (Some(list), Some(transports)) = (value(subject, "UCX_NET_DEVICES"), value(subject, "UCX_TLS"))
    else {
        return;
    };
    let is_named = ucx::transports::left(Some(transports)).gpu_initiated;
    if is_named && !list.starts_with('^') && list != "all" && !list.contains("cuda") {
        let text =
            "`UCX_TLS` names `rc_gda`, whose devices are called `cuda0-NIC:1`, and the list has none of them";
        found.push(finding("UCX_NET_DEVICES", list, text));
    }
}

/// NCCL's sockets: at most 64 for a connection (src/transport/net_socket.cc, `MAX_SOCKETS`), over interfaces that exist.
fn sockets(subject: &Subject, found: &mut Vec<Diagnostic>) {
    const MAX_SOCKETS: u64 = 64;
    let number = |name: &str| value(subject, name).and_then(|value| value.parse::<u64>().ok());
    if let (Some(sockets), Some(threads)) = (number("NCCL_NSOCKS_PERTHREAD"), number("NCCL_SOCKET_NTHREADS"))
    {
        if sockets.saturating_mul(threads) > MAX_SOCKETS {
            let text = format!(
                "times `NCCL_SOCKET_NTHREADS={threads}` is more than the {MAX_SOCKETS} sockets that NCCL opens: lower one"
            );
            found.push(finding("NCCL_NSOCKS_PERTHREAD", &sockets.to_string(), text));
        }
    }
    let Some(list) = value(subject, "NCCL_SOCKET_IFNAME") else { return };
    if list.starts_with('^') || subject.interfaces.is_empty() {
        return;
    }
    let (exact, rest) = list.strip_prefix('=').map_or((false, list), |rest| (true, rest));
    let matches = |entry: &str, interface: &String| {
        if exact { interface == entry } else { interface.starts_with(entry) }
    };
    let mut names = rest.split(',').filter_map(|entry| entry.split(':').next());
    if !names.any(|name| subject.interfaces.iter().any(|interface| matches(name, interface))) {
        let text = "no interface of this node has this name, so NCCL cannot start: name one that it has, or unset it";
        found.push(finding("NCCL_SOCKET_IFNAME", list, text));
    }
}

/// The program's numbering of its GPUs, and which of them NCCL sees.
fn gpus(subject: &Subject, found: &mut Vec<Diagnostic>) {
    let Subject { topology, task, .. } = subject;
    let nvidia = || topology.gpus.iter().filter(|gpu| gpu.vendor == GpuVendor::Nvidia);
    let kind = |gpu: &crate::topology::Gpu| {
        let function = topology.pci.get(gpu.address);
        (gpu.model.clone(), function.and_then(|function| function.device))
    };
    let first = nvidia().next().map(kind);
    let unequal = nvidia().any(|gpu| Some(kind(gpu)) != first);
    if unequal && value(subject, "CUDA_DEVICE_ORDER") != Some("PCI_BUS_ID") {
        let text =
            "the node's GPUs are not equal, and CUDA numbers the fastest first: set it to `PCI_BUS_ID`";
        found.push(Diagnostic::new("CUDA_DEVICE_ORDER", text));
    }
    let isolated = task.gpus.access.contains(&Access::Denied) && task.gpus.access.contains(&Access::Allowed);
    if !isolated || nvidia().count() < 2 || subject.tasks < 2 {
        return;
    }
    // with 0 a message leaves by the NIC of the own GPU that has the number of the peer's (src/graph/search.cc,
    // `ncclTopoGetNetDev`), and all have the number 0
    let stays_on_rail = match value(subject, "NCCL_CROSS_NIC") {
        Some(value) => value.trim().parse() == Ok(0),
        None => subject.fabric == Fabric::IsolatedRails,
    };
    let text = match value(subject, "NCCL_P2P_PXN_LEVEL") {
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

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_active(nic: &Nic) -> bool {
    nic.ports.iter().any(|port| port.state == PortState::Active)
}

#[cfg(test)]
mod tests;

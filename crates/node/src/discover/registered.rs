//! Registered devices and link states, from the kernel's memory.
//!
//! No read asks firmware or takes a lock that a driver may hold, so no read waits for hardware. A
//! sysfs entry's inode identifies a registration, because kernfs uses no inode number twice
//! (`__kernfs_new_node`, fs/kernfs/dir.c). A device that was removed and added again, or bound
//! again, has another inode, maybe another minor, order or state.
//!
//! [`complete`] reads again the facts that change without a registration: MIG instances, and UUIDs
//! of NVIDIA GPUs that were not initialised. KFD counts its changes in `generation_id`.

use super::gpu::{DRIVERS, mig_instances, nvidia};
use super::{MAX_DEVICES, Root, is_address};
use nic_placement_topology::order;
use nic_placement_topology::{Gpu, GpuVendor, LinkLayer, Nic, NicKind, Port, PortState, Topology};
use std::collections::BTreeMap;

/// By path: a file's text, a directory's `NAME:INODE NAME:INODE`, or the names in `BUS`.
pub type Registered = BTreeMap<String, String>;

const NICS: [&str; 3] = [
    "sys/class/infiniband",
    "sys/class/infiniband_verbs",
    "sys/class/cxi",
];
/// All PCI functions, for nodes on which no driver lists a GPU.
const BUS: &str = "sys/bus/pci/devices";
const TEXTS: [&str; 3] = [
    "sys/devices/virtual/kfd/kfd/topology/generation_id",
    "sys/devices/system/cpu/online",
    "sys/devices/system/node/online",
];
const NET: &str = "sys/class/net";

pub fn registered(root: &Root) -> Registered {
    let mut found = Registered::new();
    for class in NICS {
        enter(root, &mut found, class, |name| name != "abi_version");
    }
    let nics = found.len();
    let drivers = DRIVERS.into_iter().map(|(directory, _)| directory);
    for directory in drivers.chain(["sys/bus/pci/drivers/nvidia"]) {
        enter(root, &mut found, directory, is_address);
    }
    if found.len() == nics {
        let all: Vec<String> = root.list(BUS, |_| true);
        found.insert(BUS.to_string(), all.join(" "));
    }
    let texts = TEXTS.into_iter();
    found.extend(texts.filter_map(|text| Some((text.to_string(), root.read(text)?))));
    found
}

fn enter(root: &Root, found: &mut Registered, directory: &str, keep: fn(&str) -> bool) {
    let entries = root.numbered(directory, keep);
    let mut text = String::with_capacity(24 * entries.len());
    for (name, inode) in entries.iter().take(MAX_DEVICES) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(name);
        text.push(':');
        text.push_str(itoa::Buffer::new().format(*inode));
    }
    if !entries.is_empty() {
        found.insert(directory.to_string(), text);
    }
}

pub fn difference(then: &Registered, now: &Registered) -> Option<String> {
    if then == now {
        return None;
    }
    let places = order::set(then.keys().chain(now.keys()));
    places.into_iter().find_map(|place| {
        let of = |all: &Registered| all.get(place).cloned().unwrap_or_default();
        let (then, now) = (of(then), of(now));
        (then != now).then(|| differs(place, &then, &now))
    })
}

fn differs(place: &str, then: &str, now: &str) -> String {
    let is_text = TEXTS.contains(&place) || place == BUS;
    let [before, after] = [then, now].map(|text| -> BTreeMap<&str, &str> {
        let entries = text.split(' ').filter(|_| !is_text);
        order::map(entries.filter_map(|entry| entry.rsplit_once(':')))
    });
    let new = after.keys().find(|name| !before.contains_key(*name));
    let other = |(name, inode): &(&&str, &&str)| before.get(*name) != Some(inode);
    let gone = before.keys().find(|name| !after.contains_key(*name));
    let found = new.map(|name| (name, "new"));
    let found = found.or(after
        .iter()
        .find(other)
        .map(|(name, _)| (name, "not what it was")));
    match found.or(gone.map(|name| (name, "gone"))) {
        Some((name, how)) => format!("`/{place}/{name}` is {how}"),
        None => format!("`/{place}` is not what it was"),
    }
}

/// `operstate` by interface, for RDMA and Slingshot NICs' Ethernet ports.
///
/// Only firmware knows an InfiniBand port's link state. `carrier` is not read: from Linux 6.8 on,
/// `carrier_show` (net/core/net-sysfs.c) takes the RTNL lock, which a driver may hold while its
/// firmware answers. `operstate` follows a lost carrier at once (`linkwatch_urgent_event`,
/// net/core/link_watch.c).
pub fn links(root: &Root, node: &Topology) -> BTreeMap<String, String> {
    let nics = node.nics.iter().filter(|nic| nic.kind != NicKind::Ethernet);
    let interfaces = nics.flat_map(|nic| nic.ports.iter().filter_map(|port| interface(nic, port)));
    let states = interfaces.take(MAX_DEVICES).filter_map(|name| {
        let state = root.read(&format!("{NET}/{name}/operstate"))?;
        Some((name.to_string(), state))
    });
    order::map(states)
}

/// An Ethernet port's interface: `netdev`, or the only interface of a NIC with one port.
fn interface<'a>(nic: &'a Nic, port: &'a Port) -> Option<&'a str> {
    if port.link_layer != LinkLayer::Ethernet {
        return None;
    }
    match (&port.netdev, nic.ports.len(), nic.netdevs.as_slice()) {
        (Some(own), ..) | (None, 1, [own]) => Some(own),
        _ => None,
    }
}

/// True if the link is up; `None` for `unknown`, `testing` and `dormant`
/// (Documentation/networking/operstates.rst).
fn carries(operstate: Option<&String>) -> Option<bool> {
    match operstate?.as_str() {
        "up" => Some(true),
        "down" | "lowerlayerdown" | "notpresent" => Some(false),
        _ => None,
    }
}

/// Marks ports that lost their link between `then` and `now` as down, and returns a message for
/// each. A link that came up is an error: only firmware knows the port's rate.
pub(crate) fn follow_links(
    node: &mut Topology,
    then: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Result<Vec<String>, String> {
    let mut lost = Vec::new();
    let nics = node.nics.iter_mut();
    for nic in nics.filter(|nic| nic.kind != NicKind::Ethernet) {
        for at in 0..nic.ports.len() {
            let Some(name) = interface(nic, &nic.ports[at]).map(str::to_string) else {
                continue;
            };
            let port = &mut nic.ports[at];
            match (carries(then.get(&name)), carries(now.get(&name))) {
                (Some(false) | None, Some(true)) if port.state != PortState::Active => {
                    return Err(format!("the link of `{name}` came up"));
                }
                (Some(true) | None, Some(false)) if port.state == PortState::Active => {
                    port.state = PortState::Down;
                    let (nic, port) = (&nic.name, port.number);
                    lost.push(format!("`{nic}` port {port}: the link of `{name}` is down"));
                }
                _ => {}
            }
        }
    }
    Ok(lost)
}

pub(crate) fn complete(root: &Root, node: &mut Topology) {
    let gpus = node.gpus.iter_mut();
    for gpu in gpus.filter(|gpu| gpu.vendor == GpuVendor::Nvidia) {
        if gpu.uuid.is_none() {
            // NVIDIA's driver answers from memory about a GPU that is not initialised
            let name = gpu.address.to_string();
            if let Some(Gpu { uuid, minor, .. }) = nvidia(root, gpu.address, &name) {
                (gpu.uuid, gpu.minor) = (uuid, minor.or(gpu.minor));
            }
        }
        gpu.mig_instances = gpu.minor.and_then(|minor| mig_instances(root, minor));
    }
}

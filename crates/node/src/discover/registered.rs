//! What the kernel knows of its devices from memory: which are registered, since when, and which links carry.
//!
//! No file here asks a driver or a device's firmware, nor takes a lock that one may hold, so none of this can wait for
//! hardware.  A registration is known by its inode: kernfs numbers them upwards and uses none twice while the system
//! runs (`__kernfs_new_node`, fs/kernfs/dir.c), so a device that was taken away and came back, or whose driver was loaded
//! anew, has another one under the same name, and with it maybe another minor, order or state.
//!
//! Two things change without a registration, and [`complete`] reads them again: the MIG instances, and what the driver says
//! of an NVIDIA GPU that was not initialised before.  AMD's order and partitions need no such care: the compute driver counts
//! its changes (`generation_id`).
#![forbid(unsafe_code)]

use super::gpu::{DRIVERS, mig_instances, nvidia};
use super::{MAX_DEVICES, Root};
use nic_placement_topology::order;
use nic_placement_topology::{
    Gpu, GpuVendor, LinkLayer, Nic, NicKind, PciAddress, Port, PortState, Topology,
};
use std::collections::BTreeMap;

/// What is registered: each folder with its entries, `NAME:INODE` and a space between them, and each of [`TEXTS`].
pub type Registered = BTreeMap<String, String>;

/// Folders whose entries are devices.
const NICS: [&str; 3] = [
    "sys/class/infiniband",
    "sys/class/infiniband_verbs",
    "sys/class/cxi",
];
/// Has GPUs without a driver, too.
const BUS: &str = "sys/bus/pci/devices";
/// Files whose text is compared: a counter of the compute driver's changes, and the lists of CPUs and memory.
const TEXTS: [&str; 3] = [
    "sys/devices/virtual/kfd/kfd/topology/generation_id",
    "sys/devices/system/cpu/online",
    "sys/devices/system/node/online",
];
const NET: &str = "sys/class/net";

pub fn registered(root: &Root) -> Registered {
    let mut found = Registered::new();
    for class in NICS {
        enter(
            &mut found,
            class,
            root.numbered(class, |name| name != "abi_version"),
        );
    }
    let nics = found.len();
    let drivers = DRIVERS.into_iter().map(|(folder, _)| folder);
    for place in drivers.chain(["sys/bus/pci/drivers/nvidia"]) {
        enter(
            &mut found,
            place,
            root.numbered(place, |name| name.parse::<PciAddress>().is_ok()),
        );
    }
    if found.len() == nics {
        let all: Vec<String> = root.list(BUS, |_| true);
        found.insert(BUS.to_string(), all.join(" "));
    }
    found.extend(
        TEXTS
            .into_iter()
            .filter_map(|text| Some((text.to_string(), root.read(text)?))),
    );
    found
}

/// One text for all entries of a folder: a step makes and compares it, and takes it apart only where it differs.
fn enter(found: &mut Registered, folder: &str, entries: Vec<(String, u64)>) {
    if entries.is_empty() {
        return;
    }
    let mut text = String::with_capacity(24 * entries.len());
    for (name, inode) in entries.iter().take(MAX_DEVICES) {
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(name);
        text.push(':');
        text.push_str(itoa::Buffer::new().format(*inode));
    }
    found.insert(folder.to_string(), text);
}

/// The first difference, in words.
pub fn difference(then: &Registered, now: &Registered) -> Option<String> {
    if then == now {
        return None;
    }
    let places = order::set(then.keys().chain(now.keys()));
    places.into_iter().find_map(|place| {
        let [then, now] =
            [then, now].map(|registered| registered.get(place).map_or("", String::as_str));
        (then != now).then(|| differs(place, then, now))
    })
}

fn differs(place: &str, then: &str, now: &str) -> String {
    fn entries(text: &str) -> BTreeMap<&str, &str> {
        order::map(text.split(' ').filter_map(|entry| entry.rsplit_once(':')))
    }
    let is_text = TEXTS.contains(&place) || place == BUS;
    let [before, after] = [then, now].map(|text| {
        if is_text {
            BTreeMap::new()
        } else {
            entries(text)
        }
    });
    let is_other = |name: &&&str| {
        before
            .get(**name)
            .is_some_and(|inode| after.get(**name) != Some(inode))
    };
    let new = after
        .keys()
        .find(|name| !before.contains_key(*name))
        .map(|name| (name, "new"));
    let other = after
        .keys()
        .find(is_other)
        .map(|name| (name, "not what it was"));
    let gone = before
        .keys()
        .find(|name| !after.contains_key(*name))
        .map(|name| (name, "gone"));
    match new.or(other).or(gone) {
        Some((name, how)) => format!("`/{place}/{name}` is {how}"),
        None => format!("`/{place}` is not what it was"),
    }
}

/// `operstate` of each port's interface that knows its link state.
///
/// InfiniBand's is known to the firmware alone.  `carrier` is not read: since Linux 6.8 it wants the lock of all
/// interfaces (`carrier_show`, net/core/net-sysfs.c), which a driver may hold while it waits for its firmware; and
/// `operstate` follows a lost carrier at once (`linkwatch_urgent_event`, net/core/link_watch.c).
pub fn links(root: &Root, topology: &Topology) -> BTreeMap<String, String> {
    let nics = topology
        .nics
        .iter()
        .filter(|nic| nic.kind != NicKind::Ethernet);
    let interfaces = nics.flat_map(|nic| nic.ports.iter().filter_map(|port| interface(nic, port)));
    let states = interfaces.take(MAX_DEVICES).filter_map(|name| {
        let state = root.read(&format!("{NET}/{name}/operstate"))?;
        Some((name.to_string(), state))
    });
    order::map(states)
}

/// The interface whose link is the port's.
fn interface<'a>(nic: &'a Nic, port: &'a Port) -> Option<&'a str> {
    let only = || match (nic.ports.len(), nic.netdevs.as_slice()) {
        (1, [only]) => Some(only.as_str()),
        _ => None,
    };
    port.netdev
        .as_deref()
        .or_else(only)
        .filter(|_| port.link_layer == LinkLayer::Ethernet)
}

/// True if the link carries; `None` where the driver does not say (Documentation/networking/operstates.rst).
fn carries(operstate: Option<&String>) -> Option<bool> {
    match operstate?.as_str() {
        "up" => Some(true),
        "down" | "lowerlayerdown" | "notpresent" => Some(false),
        _ => None,
    }
}

/// Marks the ports whose links were lost after `then`, and returns their names.  A link that came up is an error: only
/// the firmware knows its port's rate now.
pub(crate) fn follow_links(
    topology: &mut Topology,
    then: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Result<Vec<String>, String> {
    let mut lost = Vec::new();
    for nic in topology
        .nics
        .iter_mut()
        .filter(|nic| nic.kind != NicKind::Ethernet)
    {
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
                    lost.push(format!(
                        "`{}` port {}: the link of `{name}` is down",
                        nic.name, port.number
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(lost)
}

/// Reads again what changes without a registration and is known in memory.
pub(crate) fn complete(root: &Root, topology: &mut Topology) {
    for gpu in topology
        .gpus
        .iter_mut()
        .filter(|gpu| gpu.vendor == GpuVendor::Nvidia)
    {
        if gpu.uuid.is_none() {
            // a driver that has not initialised the GPU waits for nothing of it
            if let Some(Gpu { uuid, minor, .. }) =
                nvidia(root, gpu.address, &gpu.address.to_string())
            {
                (gpu.uuid, gpu.minor) = (uuid, minor.or(gpu.minor));
            }
        }
        gpu.mig_instances = gpu.minor.and_then(|minor| mig_instances(root, minor));
    }
}

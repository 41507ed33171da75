//! RDMA devices from `/sys/class/infiniband` (Documentation/ABI/stable/sysfs-class-infiniband in the kernel's tree).
#![forbid(unsafe_code)]

use super::{Discovery, MAX_DEVICES, Root, Scope, target_name, tenths};
use nic_placement_topology::{DeviceName, LinkLayer, Nic, NicKind, Port, PortState, SubnetPrefix};
use std::collections::BTreeMap;

const VERBS: &str = "sys/class/infiniband_verbs";
const CLASS: &str = "sys/class/infiniband";
/// Ports of one device, at most; the widest known has 4.
const MAX_PORTS: u8 = 16;

/// An RDMA device on a PCI function, and the directory that its interfaces share with it.
pub(super) struct RdmaDevice {
    /// position in [`Topology::nics`](nic_placement_topology::Topology::nics), until it is sorted
    pub(super) index: usize,
    pub(super) parent: String,
}

impl Discovery<'_> {
    pub(super) fn rdma_devices(&mut self) -> Vec<RdmaDevice> {
        let root = self.root;
        let full = self.scope == Scope::Full;
        let mut names = root.list(CLASS, |_| true);
        self.cut(&mut names, MAX_DEVICES, "RDMA devices", CLASS);
        let verbs = if names.is_empty() {
            BTreeMap::new()
        } else {
            uverbs(root)
        };
        let (mut devices, mut functions) = (Vec::new(), Vec::new());
        let placed = self.placed(names);
        for (name, path) in without_planes(root, placed) {
            // ports are numbered from 1 without gaps (`rdma_for_each_port` in the kernel's include/rdma/ib_verbs.h)
            let ports: Vec<Port> = (1..=MAX_PORTS)
                .map_while(|number| read_port(root, full, &path, number))
                .collect();
            let gids: Vec<Option<String>> = ports
                .iter()
                .map(|port| first_gid(root, &path, port))
                .collect();
            let software = software(root, full, &path, ports.iter().zip(&gids));
            let function = if software.is_some() {
                None
            } else {
                self.function(&path)
            };
            if let Some((address, directory)) = &function {
                self.complete_nic(*address, directory);
            }
            let address = function.as_ref().map(|(address, _)| *address);
            functions.extend(function);
            let parent = parent(&path).filter(|_| address.is_some());
            let below = |needed: Scope, name: &str, keep: fn(&str) -> bool| match parent {
                Some(parent) if self.scope >= needed => {
                    root.list(&format!("{parent}/{name}"), keep)
                }
                _ => Vec::new(),
            };
            let mut netdevs = below(Scope::Selection, "net", |_| true);
            netdevs.extend(software.filter(|netdev| full && !netdev.is_empty()));
            // a tree that lacks the class has it only there
            let listed = || {
                below(Scope::Full, "infiniband_verbs", |name| {
                    name.starts_with("uverbs")
                })
            };
            let uverbs = parent.and_then(|parent| own_uverbs(root, &verbs, parent, &name));
            let uverbs = uverbs.or_else(|| listed().into_iter().next());
            let ports = ports.into_iter().zip(gids);
            let ports =
                ports.filter(|(port, gid)| gid.is_some() || !has_no_gids(root, &path, port));
            let ports = ports.map(|(port, _)| port).collect();
            let driver = parent.and_then(|parent| target_name(root, &format!("{parent}/driver")));
            let kind = if driver.as_deref() == Some("efa") {
                NicKind::Efa
            } else {
                NicKind::Verbs
            };
            let file = |name: &str| {
                if full {
                    root.read(&format!("{path}/{name}"))
                } else {
                    None
                }
            };
            let (guid, card) = (file("node_guid"), file("sys_image_guid"));
            let nics = &mut self.topology.nics;
            devices.extend(parent.map(|parent| RdmaDevice {
                index: nics.len(),
                parent: parent.to_string(),
            }));
            nics.push(Nic {
                address,
                ports,
                uverbs,
                netdevs,
                guid,
                card,
                ..Nic::new(name, kind)
            });
        }
        self.virtual_nics(&functions);
        devices
    }

    /// The devices with the paths to which their links lead.
    fn placed(&mut self, names: Vec<String>) -> Vec<(DeviceName, String)> {
        let mut placed = Vec::with_capacity(names.len());
        for name in names {
            let Some(name) = self.device_name(CLASS, &name) else {
                continue;
            };
            match self.root.follow(&format!("{CLASS}/{name}")) {
                Some(path) => placed.push((name, path)),
                None => self.report(
                    &format!("{CLASS}/{name}"),
                    "not a link: this NIC is left out",
                ),
            }
        }
        placed
    }

    /// A name that no device can have is reported.
    pub(super) fn device_name(&mut self, class: &str, name: &str) -> Option<DeviceName> {
        let known = name.parse().ok();
        if known.is_none() {
            let finding = "a name that no library's variable could hold: this NIC is left out";
            self.report(&format!("{class}/{name}"), finding);
        }
        known
    }
}

/// The directory below which the device stands: …/0000:18:00.0 of …/0000:18:00.0/infiniband/mlx5_0
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once("/infiniband/").map(|(parent, _)| parent)
}

/// Leaves out the devices that manage the planes of another device, which programs open.
///
/// A ConnectX-8 on a fabric of several planes has one: `smi1`, below the function of `mlx5_0`, has a port for each
/// plane, all active, and no character device (the kernel's drivers/infiniband/hw/mlx5/main.c `mlx5_ib_add_sub_dev`,
/// drivers/infiniband/core/uverbs_main.c `ib_uverbs_add_one`).  Only its management files differ from a NIC's.
fn without_planes(
    root: &Root,
    mut devices: Vec<(DeviceName, String)>,
) -> Vec<(DeviceName, String)> {
    let parents: Vec<String> = devices
        .iter()
        .filter_map(|(_, path)| parent(path))
        .map(str::to_string)
        .collect();
    let is_plane = |name: &DeviceName, path: &str| {
        let of_parent = |parent: &&str| parents.iter().filter(|other| other == parent).count() > 1;
        let Some(parent) = parent(path).filter(of_parent) else {
            return false;
        };
        let openable = root.list(&format!("{parent}/infiniband_verbs"), |name| {
            name.starts_with("uverbs")
        });
        let opened = openable
            .iter()
            .filter_map(|uverbs| opened_device(root, parent, uverbs));
        let opened: Vec<String> = opened.filter(|device| !device.is_empty()).collect();
        !opened.is_empty() && !opened.iter().any(|device| *name == **device)
    };
    devices.retain(|(name, path)| !is_plane(name, path));
    devices
}

/// The RDMA device that programs open by a character device below `parent`.
fn opened_device(root: &Root, parent: &str, uverbs: &str) -> Option<String> {
    root.read(&format!("{parent}/infiniband_verbs/{uverbs}/ibdev"))
}

/// Character devices by the directory that each shares with its RDMA device, from the class: one directory of links is
/// read faster than one for each device.
fn uverbs(root: &Root) -> BTreeMap<String, Vec<String>> {
    let names = root.list(VERBS, |name| name.starts_with("uverbs"));
    let mut below: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names.into_iter().take(MAX_DEVICES) {
        let Some(path) = root.follow(&format!("{VERBS}/{name}")) else {
            continue;
        };
        let Some((parent, _)) = path.rsplit_once("/infiniband_verbs/") else {
            continue;
        };
        below.entry(parent.to_string()).or_default().push(name);
    }
    below
}

/// The character device of an RDMA device.  If two are below one function, as `mana_0` and `manae_0` are
/// (drivers/infiniband/hw/mana/device.c), each character device names its own.
fn own_uverbs(
    root: &Root,
    verbs: &BTreeMap<String, Vec<String>>,
    parent: &str,
    device: &DeviceName,
) -> Option<String> {
    match verbs.get(parent)?.as_slice() {
        [only] => Some(only.clone()),
        several => {
            let is_its = |uverbs: &&String| {
                opened_device(root, parent, uverbs).is_some_and(|of| *device == *of)
            };
            several.iter().find(is_its).cloned()
        }
    }
}

/// The interface that a software device uses, empty where the device does not name it; `None` for a NIC.
///
/// Before Linux 5.11 (commit a9d2e9ae953f) software devices stand below the PCI function of their interface, not below
/// devices/virtual.  There only their own files tell them from a NIC.
fn software<'a>(
    root: &Root,
    full: bool,
    path: &str,
    ports: impl IntoIterator<Item = (&'a Port, &'a Option<String>)>,
) -> Option<String> {
    /// Soft iWARP's description of itself, which no user can change (include/uapi/rdma/siw-abi.h,
    /// `SIW_NODE_DESC_COMMON`).
    const SOFT_IWARP: &str = "Software iWARP stack";
    let is_below_a_function = path.contains("/pci");
    let (mut is_on_ethernet, mut may_be_iwarp) = (false, false);
    for (port, gid) in ports {
        is_on_ethernet |= port.link_layer == LinkLayer::Ethernet;
        // the first GID of a RoCE port is that of its link-local address (drivers/infiniband/core/roce_gid_mgmt.c)
        may_be_iwarp |= !gid.as_ref().is_some_and(|gid| gid.starts_with("fe80"));
    }
    if !(if is_below_a_function {
        is_on_ethernet
    } else {
        full
    }) {
        return None;
    }
    // a file of soft RoCE's alone (drivers/infiniband/sw/rxe/rxe_verbs.c, `parent_show`)
    let interface = root.read(&format!("{path}/parent"));
    let is_soft_iwarp = || {
        root.read(&format!("{path}/node_desc"))
            .is_some_and(|text| text.starts_with(SOFT_IWARP))
    };
    interface.or_else(|| (is_below_a_function && may_be_iwarp && is_soft_iwarp()).then(String::new))
}

pub(super) fn is_active_ethernet(port: &Port) -> bool {
    port.link_layer == LinkLayer::Ethernet && port.state == PortState::Active
}

/// The first entry of the table of GIDs of a port that works over Ethernet.
fn first_gid(root: &Root, path: &str, port: &Port) -> Option<String> {
    is_active_ethernet(port)
        .then(|| root.read(&format!("{path}/ports/{}/gids/0", port.number)))
        .flatten()
}

/// True if this Ethernet port, which has no first GID, serves raw packets alone, over which no two programs connect.
///
/// mlx5 has such ports where RoCE is switched off (`devlink dev param set … enable_roce`), and in switchdev mode, where
/// one device has an active port with the card's rate for each representor.  Their table of no GIDs
/// (`mlx5_query_port_roce`, drivers/infiniband/hw/mlx5/main.c) is a folder without a file.
fn has_no_gids(root: &Root, path: &str, port: &Port) -> bool {
    let place = format!("{path}/ports/{}", port.number);
    is_active_ethernet(port)
        // a capture may lack the folder
        && !root.list(&place, |name| name == "gids").is_empty()
        && root.list(&format!("{place}/gids"), |_| true).is_empty()
}

/// `None` where there is no such port.
fn read_port(root: &Root, full: bool, path: &str, number: u8) -> Option<Port> {
    let file = |name: &str| root.read(&format!("{path}/ports/{number}/{name}"));
    // `4: ACTIVE`; a NIC whose firmware does not answer has its ports, and an error instead of their state
    let (state, layer) = (file("state"), file("link_layer"));
    if state.is_none() && layer.is_none() {
        return None;
    }
    let state = match state
        .unwrap_or_default()
        .split(':')
        .next()
        .unwrap_or_default()
    {
        "1" => PortState::Down,
        "2" => PortState::Init,
        "3" => PortState::Armed,
        "4" => PortState::Active,
        _ => PortState::Unknown,
    };
    let link_layer = match layer.as_deref() {
        Some("InfiniBand") => LinkLayer::InfiniBand,
        Some("Ethernet") => LinkLayer::Ethernet,
        _ => LinkLayer::Unknown,
    };
    // `400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`.  `rate_show` (the kernel's drivers/infiniband/core/sysfs.c) takes an unknown
    // speed for SDR, and answers to an unknown width with an error, which is an unknown rate here.  So a 0 comes from a driver
    // that is not the kernel's own, and is kept.
    let rate_mbps = file("rate").and_then(|text| Some(tenths(&text)? * 100));
    let mut port = Port::new(number, state, link_layer, rate_mbps);
    // on Ethernet every port says fe80::, so only people want to see it
    if full || (link_layer == LinkLayer::InfiniBand && state == PortState::Active) {
        port.subnet = file("gids/0").and_then(|gid| SubnetPrefix::of_gid(&gid));
    }
    if full {
        // `5: LinkUp`
        port.phys_state =
            file("phys_state").and_then(|text| Some(text.split_once(": ")?.1.to_string()));
        port.netdev = file("gid_attrs/ndevs/0");
        port.gid_type = gid_type(root, &format!("{path}/ports/{number}/gid_attrs/types"));
    }
    Some(port)
}

/// The newest of the types of a port's first GIDs: `IB/RoCE v1`, `RoCE v2`.  Entries that are not in use cannot be read.
fn gid_type(root: &Root, types: &str) -> Option<String> {
    /// Two for each address of the interface; a table has 256.
    const GIDS: u32 = 16;
    (0..GIDS)
        .filter_map(|index| root.read(&format!("{types}/{index}")))
        .max()
}
